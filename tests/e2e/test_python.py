"""The Python package on the real library, without PyTorch: exits, forks, threads, no collector, no library, pip."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from harness import BIN, TESTS, EndToEnd, spawn
from stress import say

RUN = "job"
LIBRARY = BIN.parent / "lib" / "liblaggard.so.0"
PACKAGE = TESTS.parent / "agent" / "python"
LOAD = TESTS / "e2e" / "python_load.py"
NOWHERE = "tcp://127.0.0.1:9"
EXIT_S = 2.0  # what is promised of an exit
SLACK_S = 8.0  # what a loaded machine may add
SANITIZED = os.environ.get("LAGGARD_SANITIZE", "")


def environment(**more):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
    known = {"PYTHONPATH": str(PACKAGE), "LAGGARD_LIBRARY": str(LIBRARY), "LAGGARD_RUN": RUN}
    return {**inherited, **known, **{name: str(value) for name, value in more.items()}}


class Package(EndToEnd):
    def setUp(self):
        super().setUp()
        self.need(not SANITIZED, "an interpreter that is built with the sanitizers of this build")

    def start(self, *arguments, **more):
        self.log = self._log("python")
        with open(self.log, "wb") as stderr:
            process = spawn(
                [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment(**more)
            )
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def run_load(self, *arguments, **more):
        """What the job saw; it must have ended well."""
        process = self.start(LOAD, *arguments, **more)
        out, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, self.said())
        seen = json.loads(out)
        say(" ".join(map(str, arguments)), **seen)
        return seen

    def said(self):
        return self.log.read_text()

    def stored(self, collector):
        return len(self.updates(collector, RUN))

    def test_a_job_that_ends(self):
        collector = self.start_collector()
        seen = self.run_load("loop", 300, 1000, LAGGARD_INGEST=collector.ingest)
        self.assertEqual((seen["recorded"], seen["delivered"], seen["ignored_calls"]), (300, 302, 0))
        self.assertEqual(self.stored(collector), 300)
        self.assertEqual(self.run_status(collector, RUN)["state"], "ended")
        self.assertEqual(self.said(), "")

    def test_what_is_not_measured_is_said(self):
        for variables, why in (
            ({"LAGGARD_RANK": "x"}, "LAGGARD_RANK=x"),
            ({"RANK": "0", "WORLD_SIZE": "4"}, "which rank this is cannot be told: RANK=0 of WORLD_SIZE=4"),
        ):
            process = self.start("-c", "import laggard; print(laggard.init())", **variables)
            self.assertEqual(process.communicate(timeout=60)[0], "False\n")
            self.assertIn(why, self.said())
            self.assertIn("this process measures nothing", self.said())
        child = "print(laggard.init(), flush=True) or os._exit(0)"
        forked = f"import laggard, os; laggard.init(); os.fork() or {child}; os.wait()"
        process = self.start("-c", forked, LAGGARD_INGEST="tcp://127.0.0.1:9")
        self.assertEqual(process.communicate(timeout=60)[0], "False\n")
        self.assertIn("forked from one that measures", self.said())

    def test_a_job_that_exits_without_a_word(self):
        collector = self.start_collector()
        self.run_load("exit", 100, LAGGARD_INGEST=collector.ingest)
        self.assertEqual((self.stored(collector), self.run_status(collector, RUN)["state"]), (100, "running"))

    def test_an_uncaught_exception_takes_nothing_along(self):
        collector = self.start_collector()
        script = "import laggard; laggard.init()\nwith laggard.step(): pass\nraise SystemExit(3)"
        process = self.start("-c", script, LAGGARD_INGEST=collector.ingest)
        process.communicate(timeout=60)
        self.assertEqual((process.returncode, self.stored(collector)), (3, 1))

    def test_no_collector(self):
        """A16 V1 and A17 V2: one warning, an account at the end, and an exit in time."""
        begin = time.monotonic()
        seen = self.run_load("loop", 2000, 500, LAGGARD_INGEST=NOWHERE)
        self.assertLess(time.monotonic() - begin, 2000 * 0.002 + EXIT_S + SLACK_S)
        self.assertEqual(seen["recorded"], 2000)
        lines = self.said().splitlines()
        self.assertEqual(len(lines), 2, lines)
        self.assertIn("0 items were delivered, 0 dropped and 2002 not delivered", lines[1])
        self.assertLess(seen["p99_ns"], 1_000_000)

    def test_a_collector_that_is_killed_in_the_middle(self):
        """A16 V4."""
        collector = self.start_collector()
        job = self.start(LOAD, "loop", 3000, 1000, LAGGARD_INGEST=collector.ingest)
        self.wait_updates(collector, RUN, 200)
        collector.kill()
        collector = self.restart(collector)
        job.communicate(timeout=120)
        self.assertEqual((job.returncode, self.stored(collector)), (0, 3000))

    def test_forked_children(self):
        """A18."""
        collector = self.start_collector()
        seen = self.run_load("fork", 500, 1000, LAGGARD_INGEST=collector.ingest)
        self.assertEqual((seen["children_failed"], seen["delivered"]), (0, 502))
        self.assertEqual(self.stored(collector), 500)
        delivery = self.run_status(collector, RUN)["delivery"]
        self.assertEqual((delivery["duplicate"], delivery["conflict"]), (0, 0))
        for line in self.said().splitlines():
            self.assertIn("forked from one that measures", line)

    def test_another_thread(self):
        collector = self.start_collector()
        seen = self.run_load("threads", 100, LAGGARD_INGEST=collector.ingest)
        self.assertEqual(seen["recorded"], 100)
        self.assertGreater(seen["other_thread_calls"], 0)
        self.assertEqual(self.stored(collector), 100)

    def test_sigterm(self):
        """Nothing of ours keeps it from ending as a process without laggard would."""
        collector = self.start_collector()
        job = self.start(LOAD, "loop", 100_000, 1000, LAGGARD_INGEST=collector.ingest)
        self.wait_updates(collector, RUN, 100)
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=30)
        self.assertEqual(job.returncode, -signal.SIGTERM)

    def test_disabled(self):
        seen = self.run_load("loop", 100, LAGGARD_DISABLED=1, LAGGARD_INGEST=NOWHERE)
        self.assertEqual((seen["began"], self.said()), (False, ""))

    def test_without_the_library(self):
        seen = self.run_load("loop", 100, LAGGARD_LIBRARY="/nowhere/liblaggard.so")
        self.assertFalse(seen["began"])
        self.assertEqual(self.said().count("shared library is not there"), 1, self.said())

    def test_device_times_by_the_cuda_runtime_that_stands_in(self):
        fake = LIBRARY.parent / "libfake_cudart.so"
        self.need(fake.exists(), "the stand-in for CUDA's runtime, a target of the unit tests")
        collector = self.start_collector()
        script = """
import sys, types
stream = types.SimpleNamespace(cuda_stream=0)
cuda = types.SimpleNamespace(is_initialized=lambda: True, current_stream=lambda: stream)
sys.modules["torch"] = types.SimpleNamespace(cuda=cuda, version=types.SimpleNamespace(cuda="12"))
import ctypes, laggard
class Device(ctypes.Structure):
    _fields_ = [("now_ms", ctypes.c_double), ("done", ctypes.c_uint64)]
fake = ctypes.CDLL(sys.argv[1])
fake.fake_device.restype = ctypes.POINTER(Device)
device = fake.fake_device().contents
laggard.init()
for step in range(20):
    with laggard.step():
        with laggard.stage("forward"):
            device.now_ms += 2.5
    device.done = 2 * step
laggard.end()
print(laggard.stats()["device_lost"])
"""
        job = self.start("-c", script, fake, LAGGARD_INGEST=collector.ingest, LAGGARD_CUDA=fake)
        out, _ = job.communicate(timeout=60)
        self.assertEqual((job.returncode, out), (0, "1\n"), self.said())
        updates = self.updates(collector, RUN)
        self.assertEqual([u["cuda_stream_ms"] for u in updates[:19]], [{"forward": 2.5}] * 19)
        self.assertNotIn("cuda_stream_ms", {key: value for key, value in updates[19].items() if value})


class Install(EndToEnd):
    """pip into a plain virtual environment, without network, from the source tree and from the install tree."""

    def setUp(self):
        super().setUp()
        self.need(not SANITIZED, "an interpreter that is built with the sanitizers of this build")
        made = subprocess.run(["/usr/bin/python3", "-m", "venv", self.home / "venv"], capture_output=True, text=True)
        self.need(made.returncode == 0, "Debian's python3-venv")

    def pip_install(self, source, **variables):
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("LAGGARD_", "PYTHON"))}
        pip = [self.home / "venv/bin/python", "-m", "pip", "install", "--no-build-isolation", "--no-index", source]
        done = subprocess.run(pip, capture_output=True, text=True, env=plain | variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return plain

    def assert_works(self, plain):
        script = "import laggard; print(laggard.__file__, laggard.init(collector='tcp://127.0.0.1:9'), laggard.end(0.1))"
        done = subprocess.run(
            [self.home / "venv/bin/python", "-c", script], capture_output=True, text=True, env=plain, cwd=self.home
        )
        self.assertEqual(done.stdout.split()[1:], ["True", "False"], done.stdout + done.stderr)
        return Path(done.stdout.split()[0])

    def test_from_the_source_tree(self):
        source = self.home / "source"
        shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
        installed = self.assert_works(self.pip_install(source, LAGGARD_LIBRARY=str(LIBRARY)))
        self.assertTrue(installed.is_relative_to(self.home / "venv"))
        self.assertTrue((installed.parent / "liblaggard.so.0").is_file())

    def test_from_the_install_tree(self):
        build = BIN.parent
        self.need((build / "CMakeCache.txt").exists(), "the build tree that the programs are from")
        prefix = self.home / "prefix"
        done = subprocess.run(
            ["cmake", "--install", build, "--prefix", prefix, "--component", "python"], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        (package,) = prefix.glob("share/laggard/python")
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("LAGGARD_", "PYTHON"))}
        installed = self.assert_works(plain | {"PYTHONPATH": str(package)})
        self.assertTrue(installed.is_relative_to(prefix), "as it lies there, it finds the library of its tree")
        installed = self.assert_works(self.pip_install(package))
        self.assertTrue((installed.parent / "liblaggard.so.0").is_file(), "it takes the library of its tree along")


if __name__ == "__main__":
    unittest.main()
