"""laggard run around a job, also on a terminal, and laggard doctor."""

import contextlib
import http.server
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

from harness import BIN, TESTS, EndToEnd, run_client, spawn, wait_until
from test_python import LIBRARY, LOAD, SANITIZED, environment

HERE = TESTS / "e2e"
CODE = 37  # of a job that is told apart from laggard
AT_ONCE_S = 5.0  # what a wait of laggard's for a collector that is there must not come near to
# Says how often it has been told to end, once nothing more has come for a while.
COUNT = """
import os, signal, sys, time
told, last = [], time.monotonic()
def take(number, frame):
    global last
    told.append(signal.Signals(number).name)
    last = time.monotonic()
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1): signal.signal(number, take)
print("ready", flush=True)
while not told or time.monotonic() - last < 1: time.sleep(0.02)
print("told", *told, flush=True)
"""


def free_http():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"
# Not in a shell: one that starts a program by vfork() cannot be stopped while its child is.
LOOP = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
if len(sys.argv) > 1:
    print("asks", flush=True)
    input()
while True:
    print("alive", flush=True)
    time.sleep(0.1)
"""


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
        said = done.stderr.splitlines()
        verdict = said[-1].removeprefix("laggard: verdict: ")
        self.assertNotEqual(verdict, said[-1])
        self.assertEqual(done.stderr.count(verdict), 2, "once in the report, and once as the last line")
        self.assertNotIn(verdict, said[-2])
        self.assertEqual(len(self.updates(collector, "llm")), 100)

    def test_without_a_name_it_is_the_scripts(self):
        collector = self.start_collector()
        self.run_job(collector.http, *self.load("loop", 20))
        self.assertEqual(self.run_status(collector, "python_load")["state"], "ended")
        self.run_job(collector.http, *self.load("loop", 20))
        self.assertEqual(self.run_status(collector, "python_load")["attempt"], 2)

    def test_the_report_is_of_its_own_job(self):
        """Another one of the same name begins later and ends sooner."""
        collector = self.start_collector()
        (self.home / "seen").mkdir()
        wait = "import pathlib, time; p = pathlib.Path(r'%s') / '%s'\nwhile not p.exists(): time.sleep(0.02)\n"
        script = (
            "import laggard, pathlib; laggard.init(); seen = pathlib.Path(r'%s')\n"
            "for step in range(%d):\n"
            "    with laggard.step(), laggard.stage('forward'): pass\n"
            "laggard.flush(); (seen / '%s').touch()\n"
        )
        seen = self.home / "seen"
        first = self.home / "first.py"
        first.write_text(script % (seen, 20, "first") + wait % (seen, "second_ended"))
        second = self.home / "second.py"
        second.write_text(script % (seen, 40, "second"))
        self.need(not SANITIZED, "an interpreter that is built with the sanitizers of this build")
        command = [BIN / "laggard", "--collector", collector.http, "run", "--name", "twin", "--", sys.executable, first]
        job = subprocess.Popen(command, env=self.environment, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: job.poll() is None and job.kill())
        wait_until("the first job's steps", (seen / "first").exists)
        done = self.run_job(collector.http, "--name", "twin", "--", sys.executable, second)
        self.assertIn("30 steps, 11 to 40", done.stderr)
        (seen / "second_ended").touch()
        said = job.communicate(timeout=60)[1]
        self.assertIn("10 steps, 11 to 20", said)

    def test_a_name_that_no_run_can_have(self):
        """Of a variable or a script it becomes one that a run can have; of the command line it is refused."""
        collector = self.start_collector()
        done = self.run_job(collector.http, *self.load("loop", 20), LAGGARD_RUN="llm@2")
        self.assertIn("no run can have the name llm@2: it holds an @", done.stderr)
        self.assertIn("laggard: verdict: ", done.stderr)
        self.assertEqual(self.run_status(collector, "llm-2")["state"], "ended")
        done = self.run_job(collector.http, "--", "sh", "-c", "echo $LAGGARD_RUN", "a@b.py")
        self.assertEqual(done.stdout, "a-b\n")
        done = self.run_job(collector.http, "--name", "llm@2", "--", "echo", code=2)
        self.assertIn("--name llm@2 can be no run's: it holds an @", done.stderr)

    def test_exit_codes(self):
        collector = self.start_collector()
        self.run_job(collector.http, "--", "sh", "-c", "exit 37", code=37)
        self.run_job(collector.http, "--", "sh", "-c", "kill -9 $$", code=137)
        done = self.run_job(collector.http, "--", "/no/such/program", code=127)
        self.assertIn("/no/such/program cannot be started: No such file", done.stderr)
        self.run_job(collector.http, "--", "/etc/passwd", code=126)
        self.run_job(collector.http, code=2)

    def test_a_job_without_laggard(self):
        collector = self.start_collector()
        done = self.run_job(collector.http, "--name", "plain", "--", "echo", "--hello", "-o")
        self.assertEqual(done.stdout, "--hello -o\n")
        self.assertIn("does the job use laggard?", done.stderr)
        done = self.run_job(collector.http, "--name", "plain", "--", "echo", LAGGARD_DISABLED="1")
        self.assertIn("LAGGARD_DISABLED is set", done.stderr)

    def test_the_words_of_the_job_are_passed_on_as_they_are(self):
        collector = self.start_collector()
        words = ["--betas", "[0.9,0.95]", "[]", "[a]", "{}", "", " ", "--help", "--name", "--", "-o", "x", "\udcff"]
        show = [sys.executable, "-c", "import os, sys; print([os.fsencode(word) for word in sys.argv[1:]])"]
        done = self.run_job(collector.http, "--name", "words", "--", *show, *words)
        self.assertEqual(done.stdout, f"{[os.fsencode(word) for word in words]}\n")

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
        self.assertIn("laggard: verdict: ", done.stderr.splitlines()[-2])
        self.assertIn("the records are in", done.stderr.splitlines()[-1])
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

    def start_job(self, http, *command, **more):
        """laggard run in a process group of its own."""
        words = [BIN / "laggard", "--collector", http, "run", "--", *command]
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True, **more}
        job = spawn(words, text=True, env=self.environment, **more)
        self.addCleanup(lambda: job.poll() is None and job.kill())
        return job

    def test_a_job_starts_whatever_is_wrong_with_the_collector(self):
        """Only the command line itself keeps a job from starting."""
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), AnotherServer)
        self.addCleanup(other.server_close)
        threading.Thread(target=other.serve_forever, daemon=True).start()
        self.addCleanup(other.shutdown)
        file = self.home / "file"
        file.touch()
        at = "http://127.0.0.1:{}".format
        for address, arguments, more, why in (
            (at(silent.getsockname()[1]), [], {}, "has not answered in 4 s"),
            (at(other.server_port), [], {}, "is no collector"),
            ("http://192.0.2.1:17601", [], {}, "192.0.2.1:17601"),
            ("http://no-such-host.invalid", [], {}, "no-such-host.invalid"),
            (None, [], {"LAGGARD_COLLECTOR": "ftp://x"}, "no address of a collector"),
            (free_http(), ["--data", file / "below"], {}, "--data DIR names another one"),
            (free_http(), [], {"XDG_STATE_HOME": "", "HOME": ""}, "give --data DIR"),
            (free_http(), ["--token-file", file / "none"], {}, str(file / "none")),
        ):
            with self.subTest(why):
                named = ["--collector", address] if address else []
                begin = time.monotonic()
                done = subprocess.run(
                    [BIN / "laggard", *named, "run", *arguments, "--", "sh", "-c", f"echo $LAGGARD_RUN; exit {CODE}"],
                    env={**self.environment, **more},
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
                self.assertLess(time.monotonic() - begin, 4 + AT_ONCE_S)
                said = done.stderr.splitlines()
                self.assertEqual((done.returncode, len(said)), (CODE, 2), done.stderr)
                self.assertEqual(done.stdout, "sh\n")
                self.assertIn(why, said[0])
                self.assertIn("the job starts all the same", said[1])

    def test_a_collector_that_hangs_when_the_job_has_ended(self):
        """Its own one: what is said of it at the end has a limit, and so has the wait for its end."""
        hang = (
            "import os, pathlib, signal\n"
            "parent = os.getppid()\n"
            "children = pathlib.Path(f'/proc/{parent}/task/{parent}/children').read_text().split()\n"
            "(collector,) = [int(pid) for pid in children if int(pid) != os.getpid()]\n"
            "os.kill(collector, signal.SIGSTOP)\n"
            f"print(collector, flush=True)\nraise SystemExit({CODE})"
        )
        job = self.start_job(free_http(), sys.executable, "-c", hang)
        out, err = job.communicate(timeout=60)
        pid = int(out)
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(job.returncode, CODE, err)
        self.assertIn(f"process {pid}", err)
        self.assertIn("the records are in", err)

        job = self.start_job(free_http(), sys.executable, "-c", hang)
        pid = int(job.stdout.readline())
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        wait_until("the job's end", lambda: len(children_of(job.pid)) == 1)
        time.sleep(0.2)
        job.send_signal(signal.SIGTERM)
        _, err = job.communicate(timeout=AT_ONCE_S + 5)
        self.assertEqual(job.returncode, CODE, err)
        self.assertIn("told to end", err)
        self.assertIn(f"process {pid}", err)

    def test_told_to_end_when_the_job_has_ended(self):
        """Nobody looks for a collector that was started for the job alone."""
        job = self.start_job(free_http(), "sh", "-c", f"exit {CODE}")
        collector = wait_until("its collector", lambda: children_of(job.pid))[0]
        wait_until("the job's end", lambda: "status" in job.stderr.readline(), 20)
        time.sleep(0.3)
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=20)
        self.assertEqual(job.returncode, CODE, err)
        self.assertFalse(os.path.exists(f"/proc/{collector}"), err)

    def test_a_parent_that_ignores_its_children(self):
        collector = self.start_collector()
        ignore = {"preexec_fn": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)}
        show = "import signal; raise SystemExit(37 if signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL else 1)"
        job = self.start_job(collector.http, sys.executable, "-c", show, **ignore)
        job.communicate(timeout=30)
        self.assertEqual(job.returncode, CODE)

    def test_a_signal_to_the_group_reaches_the_job_once(self):
        collector = self.start_collector()
        for send in (os.kill, os.killpg):
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
                job = self.start_job(collector.http, sys.executable, "-c", COUNT)
                self.assertEqual(job.stdout.readline(), "ready\n")
                # While laggard is stopped: two signals of a kind that come together are one.
                job.send_signal(signal.SIGSTOP)
                send(job.pid, number)
                time.sleep(0.3)
                job.send_signal(signal.SIGCONT)
                out, _ = job.communicate(timeout=30)
                self.assertEqual((job.returncode, out), (0, f"told {number.name}\n"))

    def test_a_signal_reaches_all_of_the_job(self):
        collector = self.start_collector()
        job = self.start_job(collector.http, "sh", "-c", "sleep 1000; echo over")
        wait_until("the job", lambda: any(children_of(pid) for pid in children_of(job.pid)))
        job.send_signal(signal.SIGINT)
        out, _ = job.communicate(timeout=30)
        self.assertEqual((job.returncode, out), (128 + signal.SIGINT, ""))


class AnotherServer(http.server.BaseHTTPRequestHandler):
    """Has no page at all."""

    def log_message(self, *_):
        pass


def children_of(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class Screen:
    """A terminal of its own with a shell on it, as a person has one."""

    def __init__(self, test, environment):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], {**environment, "PS1": "$? READY> "})
        self.seen = ""
        test.addCleanup(self.end)
        self.wait_for("READY> ")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def wait_for(self, pattern, deadline_s=30.0):
        """Reads on until this has come; what stood before it."""
        end = time.monotonic() + deadline_s
        while not (match := re.search(pattern, self.seen)):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.terminal], [], [], left)[0]:
                raise TimeoutError(f"no {pattern!r} in {self.seen!r}")
            self.seen += os.read(self.terminal, 4096).decode(errors="replace")
        before, self.seen = self.seen[: match.end()], self.seen[match.end() :]
        return before

    def end(self):
        os.close(self.terminal)  # which hangs up
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class OnATerminal(EndToEnd):
    def setUp(self):
        super().setUp()
        (self.home / "count.py").write_text(COUNT)
        (self.home / "loop.py").write_text(LOOP)
        collector = self.start_collector()
        self.screen = Screen(self, environment(XDG_STATE_HOME=self.home / "state"))
        self.run = f"{BIN / 'laggard'} --collector {collector.http} run --"

    def test_ctrl_c_reaches_the_job_once(self):
        self.screen.type(f"{self.run} {sys.executable} {self.home}/count.py\n")
        self.screen.wait_for("ready\r\n")
        self.screen.type("\x03")
        self.screen.wait_for("told SIGINT\r\n")
        self.screen.wait_for("0 READY> ")

    def test_ctrl_c_reaches_the_script_too(self):
        script = self.home / "sweep.sh"
        script.write_text(f"trap 'echo sc''ript told' INT\n{self.run} {sys.executable} {self.home}/count.py\n")
        self.screen.type(f"sh {script}\n")
        self.screen.wait_for("ready\r\n")
        self.screen.type("\x03")
        self.screen.wait_for("told SIGINT\r\n")
        self.screen.wait_for("script told\r\n")

    def test_a_job_that_asks(self):
        self.screen.type(f"{self.run} sh -c 'read a; echo got:$a; read b; echo got:$b; exit {CODE}'\n")
        for answer in ("first", "second"):
            self.screen.type(f"{answer}\n")
            self.screen.wait_for(f"got:{answer}\r\n")
        self.screen.wait_for(f"{CODE} READY> ")
        # The shell has its terminal back.
        self.screen.type("sed -u s/^/read:/\n")
        self.screen.type("line\n")
        self.screen.wait_for("read:line\r\n")

    def test_ctrl_c_while_a_job_asks(self):
        self.screen.type(f"{self.run} sh -c 'echo ask; read a'\n")
        self.screen.wait_for("ask\r\n")
        time.sleep(0.3)
        self.screen.type("\x03")
        self.screen.wait_for(f"{128 + signal.SIGINT} READY> ")

    def test_ctrl_z_and_on(self):
        """Also of a job that has read from the terminal, and which is continued in the background first."""
        for asks in ("", "ask"):
            with self.subTest(asks):
                self.screen.type(f"{self.run} {sys.executable} {self.home}/loop.py {asks}\n")
                if asks:
                    self.screen.wait_for("asks\r\n")
                    self.screen.type("\n")
                self.screen.wait_for("alive\r\n")
                self.screen.type("\x1a")
                self.screen.wait_for("Stopped")
                self.screen.wait_for("READY> ")
                time.sleep(0.5)
                self.screen.type("echo 1''2\n")
                self.assertNotIn("alive", self.screen.wait_for("12\r\n"))
                self.screen.wait_for("READY> ")
                self.screen.type("bg\n")
                self.screen.wait_for("alive\r\n")
                self.screen.type("fg\n")
                self.screen.wait_for("fg\r\n")
                self.screen.wait_for("alive\r\n")
                self.screen.type("\x1a")
                self.screen.wait_for("Stopped")
                self.screen.wait_for("READY> ")
                self.screen.type("fg\n")
                self.screen.wait_for("alive\r\n")
                self.screen.type("\x03")
                self.screen.wait_for(f"{128 + signal.SIGINT} READY> ")

    def test_a_job_in_the_background_that_asks_waits_for_its_turn(self):
        self.screen.type(f"{self.run} sh -c 'read a; echo got:$a' &\n")
        self.screen.wait_for("READY> ")
        time.sleep(1)
        self.screen.type("\n")
        self.screen.wait_for("Stopped")
        self.screen.type("fg\n")
        self.screen.type("answer\n")
        self.screen.wait_for("got:answer\r\n")
        self.screen.wait_for("0 READY> ")


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
        self.assertIn("Python may take another", found["library"][1])

    def test_what_disagrees(self):
        launchers = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "PMI_RANK": "3", "PMI_SIZE": "4"}
        _, answer = self.doctor(self.start_collector(), **launchers)
        self.assertEqual(len(answer["remarks"]), 1)
        self.assertIn("Hydra disagrees: PMI_RANK=3", answer["remarks"][0])

    def test_what_cannot_be(self):
        collector = self.start_collector()
        for more, problem in (
            ({"LAGGARD_RANK": "x"}, "LAGGARD_RANK=x"),
            ({"LAGGARD_RANK": "4", "LAGGARD_WORLD_SIZE": "2"}, "rank 4 is none of 2 ranks"),
            ({"LAGGARD_WORLD_SIZE": "4"}, "set LAGGARD_RANK"),
            ({"RANK": "4", "WORLD_SIZE": "4"}, "which rank this is cannot be told: RANK=4 of WORLD_SIZE=4"),
            ({"LAGGARD_QUEUE_RECORDS": "unlimited"}, "LAGGARD_QUEUE_RECORDS=unlimited"),
            ({"LAGGARD_SPOOL": "/nowhere"}, "in /nowhere"),
            ({"LAGGARD_RUN": "x" * 201}, "longer than 200 bytes"),
            ({"LAGGARD_RUN": "llm@2"}, "llm@2 from LAGGARD_RUN: it holds an @"),
            ({"TORCHELASTIC_RUN_ID": "http://host:29400@x"}, "x from TORCHELASTIC_RUN_ID: it holds an @"),
            ({"LAGGARD_KEY": "/nowhere.secret"}, "key"),
            ({"LAGGARD_DISABLED": "1"}, "LAGGARD_DISABLED=1"),
            ({"LAGGARD_LIBRARY": "/nowhere.so"}, "/nowhere.so"),
            ({"LAGGARD_INGEST": "tcp://127.0.0.1:9"}, "no collector takes records at tcp://127.0.0.1:9"),
            ({"LAGGARD_INGEST": "nonsense"}, "nonsense"),
        ):
            found, answer = self.doctor(collector, code=1, **more)
            of_the_rank = any("RANK" in name or "SIZE" in name for name in more)
            self.assertEqual(found["rank"][0] == "0, the only one", not of_the_rank)
            self.assertEqual(len(answer["problems"]), 1, answer["problems"])
            self.assertIn(problem, answer["problems"][0])

    def test_no_collector(self):
        _, answer = self.doctor(code=3, LAGGARD_COLLECTOR=free_http(), LAGGARD_INGEST="tcp://127.0.0.1:9")
        self.assertEqual(len(answer["problems"]), 2, answer)


if __name__ == "__main__":
    unittest.main()
