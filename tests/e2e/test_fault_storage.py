"""A disk that is full, a database that others hold, files that are none of ours, and what is kept for how long."""

import functools
import json
import random
import shutil
import sqlite3
import subprocess
import threading
import time
import unittest
from pathlib import Path

from harness import BIN, EndToEnd, run_client, spawn, stop, wait_until
from stress import Job

RANKS = 4
NAMESPACE = "a mount namespace of one's own"
FREE_PORTS = ["--ingest", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0"]


def namespace(script, *command):
    """The command in a mount namespace of its own, after `script` has mounted there what it needs."""
    shell = ["sh", "-e", "-c", f'{script}; exec "$@"', "sh", *map(str, command)]
    return ["unshare", "--map-root-user", "--mount", "--propagation", "private", *shell]


@functools.cache
def may_mount():
    return subprocess.run(namespace("mount -t tmpfs tmpfs /mnt", "true"), capture_output=True).returncode == 0


def seen_by(process, path):
    return Path(f"/proc/{process.pid}/root{path}")


def job_of(test, ranks=RANKS):
    return Job(random.Random(7), test.home, ranks)


class FullDisk(EndToEnd):
    MIB = 48

    def setUp(self):
        super().setUp()
        self.need(may_mount(), NAMESPACE)
        disk = self.home / "data"
        disk.mkdir()
        script = f"mount -t tmpfs -o size={self.MIB}m tmpfs {disk}"
        self.collector = self.start_collector(launch=lambda command, **more: spawn(namespace(script, *command), **more))
        self.disk = seen_by(self.collector.process, disk)
        self.collector.data = self.disk  # the client reads the token there

    def fill(self):
        with open(self.disk / "filler", "wb", buffering=0) as filler:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        filler.write(bytes(size))
                except OSError:
                    continue

    def test_the_live_view_goes_on_and_writing_resumes(self):
        job = job_of(self)
        job.write(50)
        agent = self.start_agent(self.collector, "job", *job.files)
        self.wait_for_run(
            self.collector, "job", lambda s: s["delivery"]["stored"] == RANKS * 51, "50 steps", deadline_s=60
        )
        wait_until("all is durable", lambda: self.collector.get("/api/v1/status")["storage"]["unstored"] == 0, 60)
        self.fill()
        job.write(2000, note="x" * 500)  # more than the log's pages that are there already
        # Filling the disk may take longer than a rank may be silent: the step is waited for in all of them.
        status = self.wait_for_run(
            self.collector,
            "job",
            lambda s: s["settled"] and s["settled"]["step"] == 2050 and s["storage"]["problem"],
            "live view",
            120,
        )
        self.assertIn("full", status["storage"]["problem"])
        self.assertGreater(status["storage"]["unstored"], 0)
        self.assertEqual(status["settled"]["state"], "complete")
        self.assertEqual(status["silent"], 0)
        self.assertIn("nothing could be written", self.cli(self.collector, "status", "job"))
        self.assertIn("laggard_storage_unstored_items", self.collector.text("/metrics"))
        acked = self.acked()
        time.sleep(2)
        self.assertEqual(self.acked(), acked, "nothing is acknowledged that is not durable")
        self.assertIsNone(agent.process.poll(), agent.said())

        (self.disk / "filler").unlink()
        self.wait_for_run(
            self.collector,
            "job",
            lambda s: s["storage"] == {"problem": None, "unstored": 0, "waiting_ms": 0} and s["last_step"] == 2050,
            "writing again",
            120,
        )
        self.assertEqual(agent.stop(), 0, agent.said())
        undisturbed = self.start_collector("undisturbed")
        self.run_agent(undisturbed, "job", *job.files)
        for question in (["report", "job"], ["steps", "job"]):
            self.assertEqual(self.cli_json(self.collector, *question), self.cli_json(undisturbed, *question))
        self.assertEqual(self.cli(self.collector, "export", "job"), self.cli(undisturbed, "export", "job"))
        delivery = self.run_status(self.collector, "job")["delivery"]
        self.assertEqual(delivery["stored"], RANKS * 2051)
        self.assertEqual([delivery[lost] for lost in ("dropped", "rejected", "conflict")], [0, 0, 0])

    def acked(self):
        # SQLite would follow the path out of the other namespace.
        for name in ("laggard.db", "laggard.db-wal"):
            shutil.copy(self.disk / name, self.home / name)
        database = sqlite3.connect(self.home / "laggard.db")
        try:
            return database.execute("SELECT sum(committed_seq) FROM sources").fetchone()[0]
        finally:
            database.close()

    def test_a_disk_that_is_full_at_the_start_is_one_sentence(self):
        self.fill()
        data = self.home / "data"
        script = f"mount -t tmpfs -o size=64k tmpfs {data}; cat /dev/zero > {data}/filler || true"
        command = namespace(script, BIN / "laggardd", "--data", data, *FREE_PORTS)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done)
        self.assertRegex(done.stderr.strip().splitlines()[-1], r"laggardd: .*(full|space)")


class Refused(EndToEnd):
    """Files and folders that the collector must not touch: one sentence, exit status 1, all as it was."""

    def refused(self, data, pattern, script="true"):
        before = {path: path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file()}
        command = [BIN / "laggardd", "--data", data, *FREE_PORTS]
        if script != "true":
            command = namespace(script, *command)
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(done.stdout, "")
        lines = done.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertRegex(lines[0], pattern)
        for path, content in before.items():
            if path.name != "lock":
                self.assertEqual(path.read_bytes(), content, path)

    def database(self):
        """The folder of a collector that has stored a run and ended."""
        job = job_of(self)
        job.write(20)
        collector = self.start_collector()
        self.run_agent(collector, "job", *job.files)
        self.assertEqual(collector.stop(), 0)
        return self.home / "data"

    def test_a_newer_schema(self):
        data = self.database()
        database = sqlite3.connect(data / "laggard.db")
        database.execute("PRAGMA user_version = 99")
        database.close()
        self.refused(data, "version 99 is newer than this laggardd knows")

    def test_a_file_that_is_no_database(self):
        data = self.home / "data"
        data.mkdir()
        (data / "laggard.db").write_bytes(random.Random(7).randbytes(100_000))
        self.refused(data, "file is not a database; .*give another directory")

    def test_another_programs_database(self):
        data = self.home / "data"
        data.mkdir()
        database = sqlite3.connect(data / "laggard.db")
        database.execute("CREATE TABLE theirs (a)")
        database.commit()
        database.close()
        self.refused(data, "belongs to another program")

    def test_a_database_that_was_cut_short(self):
        data = self.database()
        with open(data / "laggard.db", "r+b") as file:
            file.truncate(60_000)
        self.refused(data, "(damaged|malformed)")

    def test_a_disk_that_cannot_be_written(self):
        self.need(may_mount(), NAMESPACE)
        data = self.home / "data"
        data.mkdir()
        self.refused(data, "cannot write .*: Read-only file system", f"mount -t tmpfs -o ro tmpfs {data}")

    def test_a_second_collector(self):
        collector = self.start_collector()
        self.refused(self.home / "data", f"another laggardd .pid {collector.process.pid}. is using")


class Held(EndToEnd):
    """Case A21: the database is read, held open and locked by others while records come in."""

    SECONDS, RATE = 60, 500  # records a second over all ranks

    def test_readers_and_a_lock_cost_nothing_but_time(self):
        ranks = 10
        job = job_of(self, ranks)
        collector = self.start_collector()
        agent = self.start_agent(collector, "job", *job.files)
        done = threading.Event()
        said, waited, wal = [], [], []

        def write():
            end = time.monotonic() + self.SECONDS
            while time.monotonic() < end:
                job.write(self.RATE // ranks // 5)
                time.sleep(0.2)
            done.set()

        def ask():
            while not done.is_set():
                for question in (["status", "job"], ["steps", "job"], ["report", "job"], ["stages", "job"], ["runs"]):
                    answer = run_client("--collector", collector.http, *question)
                    said.append(answer.stdout + answer.stderr)
                    storage = collector.get("/api/v1/status")["storage"]
                    waited.append(storage["waiting_ms"])
                    wal.append(storage["wal_bytes"])
                    time.sleep(0.2)

        threads = [threading.Thread(target=target) for target in (write, ask)]
        job.write(20)
        self.wait_updates(collector, "job", 20 * ranks)
        paused = spawn(
            [BIN / "laggard", "--collector", collector.http, "export", "job"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )  # its reader has gone for coffee
        self.addCleanup(stop, paused)
        reader = sqlite3.connect(f"file:{collector.data}/laggard.db?mode=ro", uri=True)
        reader.execute("BEGIN")
        first = reader.execute("SELECT count(*) FROM steps").fetchone()[0]
        for thread in threads:
            thread.start()
        time.sleep(self.SECONDS / 3)
        locker = sqlite3.connect(f"{collector.data}/laggard.db", isolation_level=None, timeout=60)
        locker.execute("BEGIN IMMEDIATE")
        time.sleep(3)
        locker.execute("ROLLBACK")
        locker.close()
        for thread in threads:
            thread.join()
        self.assertEqual(reader.execute("SELECT count(*) FROM steps").fetchone()[0], first, "one picture all the time")
        reader.close()
        output, errors = paused.communicate(timeout=60)
        self.assertEqual((paused.returncode, errors), (0, ""))
        self.assertGreaterEqual(output.count('"update"'), 20 * ranks)
        self.wait_updates(collector, "job", job.steps * ranks)
        self.assertEqual(agent.stop(), 0, agent.said())
        self.assertGreater(max(waited), 1500, "the lock of 3 s shows as waiting")
        for text in said:
            self.assertNotIn("locked", text)
        self.assertNotIn("locked", collector.log.read_text())
        self.assertEqual(self.run_status(collector, "job")["delivery"]["stored"], ranks * (job.steps + 1))
        self.assertLess(wal[-1], 128 << 20)


class Kept(EndToEnd):
    """Retention, and runs that are deleted."""

    def kept(self, collector, run="job"):
        return self.run_status(collector, run)["kept"]

    def test_a_full_database_loses_records_first_and_says_so(self):
        collector = self.start_collector(config={"max_database_mb": 3})
        job = job_of(self)
        agent = self.start_agent(collector, "job", *job.files)
        for _ in range(20):
            job.write(100, note="y" * 400)
            self.wait_updates(collector, "job", job.steps * RANKS)
        kept = wait_until("records go", lambda: self.kept(collector)["records_from"] and self.kept(collector), 60)
        self.assertLessEqual(kept["records_from"], job.steps - 255)
        used = "(SELECT page_count FROM pragma_page_count) - (SELECT freelist_count FROM pragma_freelist_count)"

        def mib():
            database = sqlite3.connect(f"file:{collector.data}/laggard.db?mode=ro", uri=True)
            pages, size = database.execute(f"SELECT {used}, (SELECT page_size FROM pragma_page_size)").fetchone()
            database.close()
            return pages * size / (1 << 20)

        wait_until("the limit", lambda: mib() <= 3, 60)
        self.assertEqual(agent.stop(), 0, agent.said())
        status = self.cli(collector, "status", "job")
        self.assertRegex(status, r"kept +(every step|steps from \d+ on), with the records of its\s+ranks from step \d+ on")
        self.assertIn("are kept no longer", self.cli(collector, "report", "job"))
        counts = self.run_status(collector, "job")["steps_by_state"]
        kept = self.kept(collector)
        stored = collector.get("/api/v1/runs/job/steps?limit=10000")["steps"]
        self.assertEqual(sum(counts.values()), len(stored), "the counts are of what is kept")
        self.assertEqual(stored[0]["step"], kept["summaries_from"] or 1)
        exported = self.updates(collector, "job")
        self.assertEqual(min(line["step"] for line in exported), kept["records_from"])
        self.assertEqual(collector.stop(), 0)
        collector = self.restart(collector, config={"max_database_mb": 3})
        self.assertEqual(self.kept(collector), kept)
        # The files read again from their start change nothing of what is left.
        before = self.cli_json(collector, "steps", "job")
        self.run_agent(collector, "job", *job.files)
        self.assertEqual(self.cli_json(collector, "steps", "job"), before)
        delivery = self.run_status(collector, "job")["delivery"]
        self.assertEqual(delivery["rejected"], RANKS * (kept["records_from"] - 1))

    def test_a_deleted_run_is_gone_and_its_name_is_free(self):
        collector = self.start_collector()
        job = job_of(self)
        job.write(600)
        agent = self.start_agent(collector, "job", *job.files)
        self.wait_updates(collector, "job", 600 * RANKS)
        question = ["--collector", collector.http, "--token-file", f"{collector.data}/admin.token", "delete", "job"]
        refused = run_client(*question, "--yes")
        self.assertEqual(refused.returncode, 5, refused)
        self.assertIn("agents still deliver", refused.stderr)
        self.assertEqual(agent.stop(), 0)
        asked = run_client(*question)
        self.assertEqual(asked.returncode, 2, asked)
        self.assertIn("--yes", asked.stderr)
        wait_until("the agent's goodbye", lambda: run_client(*question, "--yes").returncode == 0)
        self.assertEqual(self.cli_json(collector, "runs")["runs"], [])
        self.cli(collector, "status", "job", code=4)
        self.cli(collector, "delete", "job", "--yes", code=4)

        def rows():
            database = sqlite3.connect(f"file:{collector.data}/laggard.db?mode=ro", uri=True)
            counts = [
                database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for table in ("steps", "step_stages", "blocks", "sources", "ranks", "attempts", "deletions")
            ]
            database.close()
            return sum(counts)

        wait_until("all its rows go", lambda: rows() == 0, 60)
        self.run_agent(collector, "job", *job.files)
        self.assertEqual(self.run_status(collector, "job")["delivery"]["stored"], RANKS * 601)
        self.assertEqual(collector.stop(), 0)
        collector = self.restart(collector)
        self.assertEqual(json.loads(self.cli(collector, "runs", "-o", "json"))["runs"][0]["last_step"], 600)


if __name__ == "__main__":
    unittest.main()
