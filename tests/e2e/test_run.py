"""laggard run around a job, and laggard doctor."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import unittest

from harness import BIN, TESTS, EndToEnd, run_client, spawn, wait_until
from test_python import LIBRARY, LOAD, SANITIZED, environment

HERE = TESTS / "e2e"


def free_http():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


class Run(EndToEnd):
    def setUp(self):
        super().setUp()
        self.environment = environment(XDG_STATE_HOME=self.home / "state")
        del self.environment["LAGGARD_RUN"]

    def run_job(self, http, *arguments, code=0, **more):
        """laggard run; what it and the job said."""
        command = [BIN / "laggard", "--collector", http, "run", *arguments]
        done = subprocess.run(
            list(map(str, command)), env={**self.environment, **more}, capture_output=True, text=True, timeout=120
        )
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def load(self, *arguments):
        self.need(not SANITIZED, "an interpreter that is built with the sanitizers of this build")
        return ["--", sys.executable, LOAD, *arguments]

    def test_with_a_collector_that_is_there(self):
        collector = self.start_collector()
        done = self.run_job(collector.http, "--name", "llm", *self.load("loop", 100, 1000))
        self.assertEqual(json.loads(done.stdout)["delivered"], 102)
        self.assertIn('laggard: run "llm": laggard status llm --watch --collector', done.stderr)
        self.assertIn("verdict", done.stderr)
        self.assertEqual(len(self.updates(collector, "llm")), 100)

    def test_without_a_name_it_is_the_scripts(self):
        collector = self.start_collector()
        self.run_job(collector.http, *self.load("loop", 20))
        self.assertEqual(self.run_status(collector, "python_load")["state"], "ended")
        self.run_job(collector.http, *self.load("loop", 20))
        self.assertEqual(self.run_status(collector, "python_load")["attempt"], 2)

    def test_exit_codes(self):
        collector = self.start_collector()
        self.run_job(collector.http, "--", "sh", "-c", "exit 37", code=37)
        self.run_job(collector.http, "--", "sh", "-c", "kill -9 $$", code=137)
        self.run_job(collector.http, "--", "/no/such/program", code=127)
        self.run_job(collector.http, "--", "/etc/passwd", code=126)
        self.run_job(collector.http, code=2)

    def test_a_job_without_laggard(self):
        collector = self.start_collector()
        done = self.run_job(collector.http, "--name", "plain", "--", "echo", "--hello", "-o")
        self.assertEqual(done.stdout, "--hello -o\n")
        self.assertIn("does the job use laggard?", done.stderr)

    def test_the_environment_of_the_job(self):
        collector = self.start_collector()
        show = ["--", sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
        seen = json.loads(self.run_job(collector.http, "--name", "n", *show).stdout)
        self.assertEqual((seen["LAGGARD_RUN"], seen["LAGGARD_INGEST"]), ("n", collector.ingest))
        seen = json.loads(self.run_job(collector.http, *show, LAGGARD_INGEST="tcp://other:1", LAGGARD_RUN="m").stdout)
        self.assertEqual((seen["LAGGARD_RUN"], seen["LAGGARD_INGEST"]), ("m", "tcp://other:1"))
        del self.environment["LAGGARD_LIBRARY"]
        seen = json.loads(self.run_job(collector.http, *show).stdout)
        self.assertEqual(seen["LAGGARD_LIBRARY"], str(LIBRARY.resolve().parent / LIBRARY.resolve().name))

    def test_signals_are_passed_on(self):
        collector = self.start_collector()
        ready = self.home / "ready"
        trap = f"trap 'echo told; exit 5' TERM USR1; : > {ready}; while :; do sleep 0.05; done"
        for number in (signal.SIGTERM, signal.SIGUSR1):
            command = [BIN / "laggard", "--collector", collector.http, "run", "--", "sh", "-c", trap]
            job = spawn(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=self.environment)
            self.addCleanup(lambda job=job: job.poll() is None and job.kill())
            wait_until("the job", ready.exists)
            job.send_signal(number)
            out, _ = job.communicate(timeout=30)
            self.assertEqual((job.returncode, out), (5, "told\n"))
            ready.unlink()

    def test_a_collector_of_its_own(self):
        """Where records go by default is one port of the machine: it is left alone when somebody has it."""
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken = probe.connect_ex(("127.0.0.1", 17600)) == 0
        self.need(not taken, "a free port 17600")
        http = free_http()
        done = self.run_job(http, "--name", "own", *self.load("loop", 100, 1000))
        self.assertIn("started a collector", done.stderr)
        self.assertIn("the records are in", done.stderr)
        data = self.home / "state" / "laggard"
        self.assertTrue((data / "laggard.db").is_file(), done.stderr)
        self.assertEqual(run_client("--collector", http, "runs").returncode, 3, "it has been stopped")

        done = self.run_job(http, "--name", "own", "--keep", *self.load("loop", 50, 1000))
        pid = int(re.search(r"the collector goes on, process (\d+)", done.stderr).group(1))
        self.addCleanup(os.kill, pid, signal.SIGTERM)
        (run,) = json.loads(run_client("--collector", http, "runs", "-o", "json").stdout)["runs"]
        self.assertEqual((run["run"], run["attempts"]), ("own", [1, 2]))

    def test_a_collector_of_its_own_where_the_job_looks_for_one(self):
        ingest = free_http().replace("http", "tcp")
        done = self.run_job(free_http(), *self.load("loop", 50, 1000), LAGGARD_INGEST=ingest)
        self.assertNotIn("not delivered", done.stderr)
        self.assertNotIn("has come", done.stderr)

    def test_a_collector_of_its_own_where_the_usual_port_is_taken(self):
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):  # somebody else has it
                stack.enter_context(socket.create_server(("127.0.0.1", 17600)))
            done = self.run_job(free_http(), *self.load("loop", 50, 1000))
        self.assertNotIn("not delivered", done.stderr)
        self.assertNotIn("has come", done.stderr)

    def test_no_collector_and_none_to_be_started(self):
        done = self.run_job("http://192.0.2.1:17601", "--", "true", code=3)
        self.assertIn("only one on this machine could be started", done.stderr)


class Doctor(EndToEnd):
    def doctor(self, collector=None, code=0, **more):
        named = {"LAGGARD_COLLECTOR": collector.http, "LAGGARD_INGEST": collector.ingest} if collector else {}
        plain = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
        done = run_client("doctor", "-o", "json", env={**plain, **named, **more})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        answer = json.loads(done.stdout)
        return {row["what"]: (row["value"], row["from"]) for row in answer["found"]}, answer

    def test_everything_fits(self):
        found, answer = self.doctor(self.start_collector(), RANK="1", WORLD_SIZE="2", LOCAL_RANK="1")
        self.assertEqual(answer["problems"], [])
        self.assertEqual(found["rank"], (1, "RANK"))
        self.assertEqual(found["launcher"], ("torchrun", None))
        self.assertEqual(found["it takes records"], ("yes", None))

    def test_what_disagrees(self):
        launchers = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "PMI_RANK": "3", "PMI_SIZE": "4"}
        _, answer = self.doctor(self.start_collector(), **launchers)
        self.assertEqual(len(answer["remarks"]), 1)
        self.assertIn("Hydra disagrees: PMI_RANK=3", answer["remarks"][0])

    def test_what_cannot_be(self):
        collector = self.start_collector()
        for more, problem in (
            ({"LAGGARD_RANK": "x"}, "LAGGARD_RANK=x"),
            ({"LAGGARD_RANK": "4", "LAGGARD_WORLD_SIZE": "2"}, "no rank 4 of 2"),
            ({"LAGGARD_DISABLED": "1"}, "LAGGARD_DISABLED=1"),
            ({"LAGGARD_LIBRARY": "/nowhere.so"}, "/nowhere.so"),
            ({"LAGGARD_INGEST": "tcp://127.0.0.1:9"}, "no collector takes records at tcp://127.0.0.1:9"),
            ({"LAGGARD_INGEST": "nonsense"}, "nonsense"),
        ):
            _, answer = self.doctor(collector, code=1, **more)
            self.assertEqual(len(answer["problems"]), 1, answer["problems"])
            self.assertIn(problem, answer["problems"][0])

    def test_no_collector(self):
        _, answer = self.doctor(code=3, LAGGARD_COLLECTOR=free_http(), LAGGARD_INGEST="tcp://127.0.0.1:9")
        self.assertEqual(len(answer["problems"]), 2, answer)


if __name__ == "__main__":
    unittest.main()
