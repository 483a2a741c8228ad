"""A training process that hands its steps over itself (cases A15 to A18): it never waits, nothing is counted twice, and
what is lost is counted and named."""

import json
import os
import re
import signal
import subprocess
import time
import unittest

from harness import BIN, EndToEnd, spawn, wait_until
from processes import memory_bytes, stop
from proxy import ClosedPort, without_collector
from stress import WARNING, dice, give_back_what_is_freed, query, say

RUN = "job"
MIB = 1 << 20
P99_NS = 1_000_000  # what is promised of a call
EXIT_S = 2.0  # what is promised of an exit
SLACK_S = 8.0  # what a loaded machine may add
# Its window, the copies that the socket has of it, the ring, and 11 MiB of its own times of its calls.
MEMORY = (32 + 8 + 4 + 11 + 40) * MIB
ACCOUNT = re.compile(r"at the end (\d+) items were delivered, (\d+) dropped and (\d+) not delivered")


class Process:
    """A training process that uses the library; by default the only rank of its job."""

    def __init__(
        self, test, ingest, program, *arguments, rank=0, world_size=1, preload=None, leak_check=True, **environment
    ):
        self.log = test._log(f"job{rank}")
        variables = {"INGEST": ingest, "RUN": RUN, "RANK": rank, "WORLD_SIZE": world_size, **environment}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
        settings = {f"LAGGARD_{name}": str(value) for name, value in variables.items()}
        if preload is not None:
            settings["LD_PRELOAD"] = str(preload)
        if not leak_check:
            settings["LSAN_OPTIONS"] = "detect_leaks=0"
        with open(self.log, "wb") as stderr:
            self.process = spawn(
                [BIN / program, *arguments],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env={**inherited, **settings},
            )
        test.addCleanup(self._end)

    def said(self):
        return self.log.read_text()

    def warnings(self):
        """Its warnings, but for the account at the end."""
        return [line for line in self.said().splitlines() if WARNING.search(line) and not ACCOUNT.search(line)]

    def account(self):
        """Items delivered, dropped and not delivered, as its log says at the end."""
        (numbers,) = ACCOUNT.findall(self.said())
        return tuple(map(int, numbers))

    def wait(self, timeout_s=120):
        """Waits for its end; what it printed."""
        out, _ = self.process.communicate(timeout=timeout_s)
        return json.loads(out) if out else None

    def _end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Api(EndToEnd):
    def delivery(self, collector):
        return self.run_status(collector, RUN)["delivery"]

    def wait_counted(self, collector, items, deadline_s=120):
        """Waits until so many items have an end, durably; the counts."""
        columns = "stored + duplicate + conflict + rejected + dropped"
        sql = f"SELECT SUM({columns}) FROM sources"
        wait_until(f"{items} items", lambda: (query(collector.data, sql)[0][0] or 0) >= items, deadline_s)
        self.assertEqual(query(collector.data, f"SELECT rank FROM sources WHERE committed_seq != {columns}"), [])
        return self.delivery(collector)

    def test_a_collector_that_hangs_while_200000_records_come(self):
        """A15. Items are the records and one config."""
        give_back_what_is_freed(self)
        total = 200_000
        collector = self.start_collector()
        os.kill(collector.process.pid, signal.SIGSTOP)
        job = Process(self, collector.ingest, "api_load", "exit", total, 60_000, QUEUE_RECORDS=10_000)
        wait_until("its steps", lambda: "oldest are dropped" in job.said(), 60)
        time.sleep(1)
        peak = memory_bytes(job.process.pid, "VmHWM")
        os.kill(collector.process.pid, signal.SIGCONT)
        seen = job.wait()
        self.assertEqual(job.process.returncode, 0, job.said())
        counts = self.wait_counted(collector, total + 1)
        say("hangs", peak_mib=peak // MIB, **{**seen, **counts})
        self.assertEqual(counts["stored"] + counts["dropped"], total + 1)
        self.assertGreater(counts["dropped"], 0)
        self.assertEqual([counts[name] for name in ("duplicate", "conflict", "rejected")], [0, 0, 0])
        self.assertEqual((seen["recorded"], seen["dropped"]), (total, counts["dropped"]))
        self.assertEqual(job.account(), (counts["stored"], counts["dropped"], 0))
        self.assert_named(collector, counts["dropped"])
        self.assertLess(peak, MEMORY)

    def test_a_spool_for_what_the_queue_has_no_room_for(self):
        collector = self.start_collector()
        os.kill(collector.process.pid, signal.SIGSTOP)
        job = Process(self, collector.ingest, "api_load", "loop", 3000, 1000, QUEUE_RECORDS=256, SPOOL=self.home)
        time.sleep(2)
        os.kill(collector.process.pid, signal.SIGCONT)
        seen = job.wait()
        counts = self.wait_counted(collector, 3002)
        self.assertEqual((counts["stored"], counts["dropped"], seen["dropped"]), (3002, 0, 0), job.said())

    def assert_named(self, collector, dropped):
        status = self.run_status(collector, RUN)
        self.assertEqual((status["state"], status["silent"]), ("running", 0), "a gap is no dead rank")
        (losses,) = status["losses"]
        self.assertEqual((losses["rank"], losses["dropped"]), (0, dropped))
        ranges = losses["ranges"]
        self.assertEqual(sum(one["last_seq"] - one["first_seq"] + 1 for one in ranges), dropped)
        kept = {update["step"] for update in self.updates(collector, RUN)}
        lost_steps = {seq - 1 for one in ranges for seq in range(one["first_seq"], one["last_seq"] + 1)}
        self.assertEqual(kept & lost_steps, set(), "item 1 is the config, so step n is item n + 1")
        self.assertEqual(len(kept) + len(lost_steps), 200_000)
        self.assertEqual(self.cli_json(collector, "status", RUN)["delivery"]["dropped"], dropped)
        metric = f'laggard_records_total{{run="{RUN}",result="dropped"}} {dropped}'
        self.assertIn(metric, collector.text("/metrics"))

    def test_where_no_collector_answers(self):
        """A16 V1, V2, V3 and V5; A17 V2: 10,000 steps of 1 ms, then the end."""
        places = without_collector(self)
        jobs = {what: Process(self, place.ingest, "api_load", "loop", 10_000, 1000) for what, place in places.items()}
        for what, job in jobs.items():
            seen = job.wait()
            say(what, **seen)
            self.assertEqual(job.process.returncode, 0, what)
            self.assertEqual(len(job.warnings()), 1, job.said())
            self.assertEqual(job.account(), (0, 0, 10_002), what)
            self.assertLess(seen["p99_ns"], P99_NS, what)
            self.assertEqual(seen["calls"], 70_000)

    def test_a_collector_that_is_killed_in_the_middle(self):
        """A16 V4: what was kept arrives when it comes back, with a queue that has room and with one that has not."""
        collector = self.start_collector()
        job = Process(self, collector.ingest, "api_load", "loop", 10_000, 1000, QUEUE_RECORDS=1000)
        self.wait_updates(collector, RUN, 500)
        collector.kill()
        wait_until("dropped records", lambda: "oldest are dropped" in job.said(), 60)
        collector = self.restart(collector)
        seen = job.wait()
        self.assertEqual(job.process.returncode, 0, job.said())
        counts = self.wait_counted(collector, 10_002)
        say("killed", **{**seen, **counts})
        self.assertEqual(counts["stored"] + counts["dropped"], 10_002)
        self.assertGreater(counts["dropped"], 0)
        self.assertEqual((counts["rejected"], counts["conflict"]), (0, 0))
        self.assertEqual(seen["dropped"], counts["dropped"])
        self.assertLess(seen["p99_ns"], P99_NS)
        about_the_collector = [line for line in job.warnings() if "lost the collector" in line]
        self.assertEqual(len(about_the_collector), 1, job.said())
        self.assertEqual(len(job.warnings()), 3, job.said())  # records are dropped; so many were

    def test_a_collector_that_comes_back_in_time_costs_nothing(self):
        collector = self.start_collector()
        job = Process(self, collector.ingest, "api_load", "loop", 5000, 1000)
        self.wait_updates(collector, RUN, 500)
        collector.kill()
        time.sleep(1)
        collector = self.restart(collector)
        job.wait()
        counts = self.wait_counted(collector, 5002)
        self.assertEqual((counts["stored"], counts["dropped"]), (5002, 0))
        self.assertEqual(len(job.warnings()), 1, job.said())
        self.assertNotRegex(job.said(), ACCOUNT)

    def test_another_collector_in_the_middle(self):
        """At the same address, with no data: one attempt of one job, with the settings that the first one has."""
        collector = self.start_collector()
        job = Process(self, collector.ingest, "api_load", "loop", 5000, 1000)
        self.wait_updates(collector, RUN, 500)
        collector.kill()
        other = self.restart(collector, data="other")
        job.wait()
        self.assertEqual(job.process.returncode, 0, job.said())
        self.wait_counted(other, 5002)
        status = self.run_status(other, RUN)
        self.assertEqual((status["attempts"], status["state"]), ([1], "ended"))
        lines = self.export(other, RUN)
        self.assertEqual([line["type"] for line in lines[:2]], ["config", "update"])
        steps = [line["step"] for line in lines if line["type"] == "update"]
        self.assertEqual(steps, list(range(steps[0], 5001)))

    @unittest.skipIf(os.environ.get("LAGGARD_SANITIZE"), "a sanitizer wants to be loaded first")
    def test_a_flush_that_says_ok_has_delivered(self):
        """Whatever the delivery thread does meanwhile."""
        collector = self.start_collector()
        job = Process(self, collector.ingest, "api_load", "flush", 300, 20_000, preload=BIN / "slow_lock.so")
        seen = job.wait()
        self.assertEqual(job.process.returncode, 0, job.said())
        self.assertEqual((seen["recorded"], seen["early"]), (300, 0))

    def test_more_record_shapes_than_there_can_be(self):
        collector = self.start_collector()
        job = Process(self, collector.ingest, "api_load", "shapes", 4000)
        seen = job.wait()
        counts = self.wait_counted(collector, 4002)
        self.assertEqual((counts["stored"], counts["dropped"]), (1024 + 2, 4000 - 1024), job.said())
        self.assertEqual(seen["dropped"], counts["dropped"])
        first, last = job.warnings()
        self.assertRegex(first, "too many record shapes")
        self.assertRegex(last, "of the dropped items 2976 had one record shape too many")
        self.assertEqual(job.account(), (1026, 2976, 0))

    def test_a_hundred_records_and_gone(self):
        """A17 V1: with and without an end, and no sleep."""
        collector = self.start_collector()
        for what, items, state in (("exit", 101, "running"), ("loop", 102, "ended")):
            with self.subTest(what):
                collector.stop()
                collector = self.start_collector(data=f"data-{what}")
                begin = time.monotonic()
                job = Process(self, collector.ingest, "api_load", what, 100)
                seen = job.wait()
                say(what, s=f"{time.monotonic() - begin:.2f}")
                if what == "loop":
                    end = {name: seen[name] for name in ("recorded", "delivered", "waiting", "connected")}
                    self.assertEqual(end, {"recorded": 100, "delivered": items, "waiting": 0, "connected": 0})
                self.assertEqual(job.process.returncode, 0)
                self.assertEqual(self.wait_counted(collector, items)["stored"], items)
                self.assertEqual(self.run_status(collector, RUN)["state"], state)
                self.assertEqual(job.said(), "")

    def test_an_exit_without_a_collector(self):
        """A17 V2."""
        nobody = ClosedPort()
        self.addCleanup(nobody.close)
        for what in ("exit", "loop"):
            job = Process(self, nobody.ingest, "api_load", what, 100)
            begin = time.monotonic()
            job.wait()
            exit_s = time.monotonic() - begin
            say(f"{what} without a collector", s=f"{exit_s:.2f}")
            self.assertEqual(job.process.returncode, 0)
            self.assertLess(exit_s, EXIT_S + SLACK_S)
            self.assertEqual(job.account(), (0, 0, 101 if what == "exit" else 102))

    def test_a_job_that_is_told_to_stop(self):
        """A17 V3: the example ends its loop at SIGTERM; what it has measured is delivered at its exit."""
        collector = self.start_collector()
        job = Process(self, collector.ingest, "training_loop", 100_000, 2)
        self.wait_updates(collector, RUN, 100)
        begin = time.monotonic()
        self.assertEqual(stop(job.process), 0)
        self.assertLess(time.monotonic() - begin, EXIT_S + SLACK_S)
        steps = [update["step"] for update in self.updates(collector, RUN)]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))
        self.assertEqual(self.wait_counted(collector, len(steps) + 1)["stored"], len(steps) + 1)
        self.assertEqual(job.said(), "")
        (stages,) = {json.dumps(update["calls"]) for update in self.updates(collector, RUN)}
        self.assertEqual(json.loads(stages), {"load": 1, "forward": 1, "attention": 2, "backward": 1})

    def test_a_rank_that_leaves_by_underscore_exit(self):
        """A17 V4: what was handed over a moment ago has arrived."""
        collector = self.start_collector()
        job = Process(self, collector.ingest, "api_load", "_exit", 100, 2000)
        job.wait()
        self.assertEqual(job.process.returncode, 0)
        self.assertEqual(self.wait_counted(collector, 101)["stored"], 101)
        self.assertEqual(job.said(), "")

    def test_a_collector_that_stops_has_stored_what_it_acknowledged(self):
        """A17 V5: SIGTERM while eight ranks send; after its return everything is there, once."""
        rng, ranks, steps = dice("api"), 8, 3000
        collector = self.start_collector()
        jobs = [
            Process(self, collector.ingest, "api_load", "loop", steps, 1000, rank=rank, world_size=ranks)
            for rank in range(ranks)
        ]
        self.wait_updates(collector, RUN, rng.randrange(1, ranks * steps // 4), 60)
        self.assertEqual(collector.stop(), 0)
        stored = query(collector.data, "SELECT SUM(committed_seq) FROM sources")[0][0]
        self.assertLess(stored, ranks * (steps + 2))
        collector = self.restart(collector)
        for job in jobs:
            job.wait()
            self.assertEqual(job.process.returncode, 0, job.said())
        counts = self.wait_counted(collector, ranks * (steps + 2))
        say("stopped", stored_before=stored, **counts)
        self.assertEqual((counts["stored"], counts["dropped"]), (ranks * (steps + 2), 0))

    def test_forked_children(self):
        """A18: children that return, call _exit and call the library, four of them four times."""
        collector = self.start_collector()
        steps = 2000
        # What only the delivery thread holds looks lost in a child, which has no such thread.
        job = Process(self, collector.ingest, "api_load", "fork", steps, leak_check=False)
        seen = job.wait()
        self.assertEqual(job.process.returncode, 0, job.said())
        self.assertEqual(seen["children_failed"], 0)
        counts = self.wait_counted(collector, steps + 2)
        say("forked", **counts)
        self.assertEqual((counts["stored"], counts["duplicate"], counts["conflict"]), (steps + 2, 0, 0))
        self.assertEqual(query(collector.data, "SELECT COUNT(*) FROM sources"), [(1,)])
        self.assertEqual(job.said(), "")

    def test_stages_are_known_with_their_parents(self):
        collector = self.start_collector()
        job = Process(self, collector.ingest, "training_loop", 300, 2)
        job.process.wait(60)
        self.wait_counted(collector, 302)
        rows = self.cli_json(collector, "stages", RUN)["stages"]
        known = {row["stage"]: (row["parent"], row["kind"]) for row in rows if not row["exclusive"]}
        expected = {
            "load": (None, "input"),
            "forward": (None, "work"),
            "attention": ("forward", "work"),
            "backward": (None, "sync"),
        }
        self.assertEqual(known, expected)


if __name__ == "__main__":
    unittest.main()
