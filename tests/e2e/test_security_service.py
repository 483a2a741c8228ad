"""laggardd as a systemd service: what it says to the service manager, and what the unit lets it do."""

import ctypes
import os
import re
import shutil
import socket
import subprocess
import time
import unittest
import unittest.mock
import urllib.request
from pathlib import Path

from harness import BIN, PUBLISHED, TESTS, EndToEnd, spawn, stop

SYSTEMD = TESTS.parent / "deploy" / "systemd"
UNIT = SYSTEMD / "laggardd.service"
WATCHDOG_S = 3.0


class ServiceManager:
    """The end of systemd's that a service talks to."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": str(int(WATCHDOG_S * 1e6))}

    def next(self, timeout_s=60.0):
        """The next datagram; None when there is none in that time."""
        self.socket.settimeout(timeout_s)
        try:
            return self.socket.recv(4096).decode()
        except TimeoutError:
            return None

    def wait_for(self, text):
        while (said := self.next()) is not None:
            if said.startswith(text):
                return said
        raise AssertionError(f"the service never said {text}")

    def all_said(self):
        """What was said and not yet read; nothing waits for more."""
        return list(iter(lambda: self.next(0.001), None))


class StoppedThread:
    """One thread of a child process, stopped by ptrace(2) while the others go on."""

    SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, process, name):
        tasks = Path(f"/proc/{process.pid}/task").iterdir()
        self.thread = next(int(task.name) for task in tasks if (task / "comm").read_text().strip() == name)

    def _ptrace(self, request):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        libc.ptrace.restype = ctypes.c_long
        if libc.ptrace(request, self.thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    def __enter__(self):
        self._ptrace(self.SEIZE)
        self._ptrace(self.INTERRUPT)
        os.waitpid(self.thread, self.WALL)
        return self

    def __exit__(self, *_):
        self._ptrace(self.DETACH)


def system_calls(words):
    """The names of these calls and @groups, those of groups inside groups too."""
    names = set()
    for word in words:
        if not word.startswith("@"):
            names.add(word)
            continue
        command = ["systemd-analyze", "syscall-filter", "--no-pager", word]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        lines = [line.split("#")[0].strip() for line in done.stdout.splitlines()[1:]]
        names |= system_calls(filter(None, lines))
    return names


def unit_settings():
    """The last value of each setting of the unit."""
    return dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if re.match(r"\w+=", line))


def under_strace(*options):
    """Launches a daemon under strace: the process that is started is the daemon (-D), and strace goes when it does."""
    strace = ["strace", "-D", "-f", "-qq", "--seccomp-bpf", *options]
    # LeakSanitizer is a tracer itself, and there can be only one.
    sanitizer = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"]))

    def launch(command, **more):
        return spawn([*strace, *command], env={**os.environ, "ASAN_OPTIONS": sanitizer}, **more)

    return launch


class Notify(EndToEnd):
    def start_service(self, address):
        manager = ServiceManager(address)
        self.addCleanup(manager.socket.close)
        with unittest.mock.patch.dict(os.environ, manager.environment):
            return manager, self.start_collector(data=f"data-{len(address)}")

    def test_ready_alive_and_stopping(self):
        for address in (str(self.home / "notify"), f"@laggard-test-{os.getpid()}"):
            with self.subTest(address):
                manager, collector = self.start_service(address)
                ready = manager.wait_for("READY=1\n")
                self.assertIn(f"STATUS=laggardd ready: ingest {collector.ingest} http {collector.http} ", ready)
                begun = time.monotonic()
                for _ in range(4):
                    manager.wait_for("WATCHDOG=1")
                # Four of them span three pauses, and a pause is well within the watchdog's patience.
                self.assertGreater(time.monotonic() - begun, WATCHDOG_S / 2)
                collector.process.terminate()
                manager.wait_for("STOPPING=1")
                self.assertEqual(stop(collector.process), 0)
                # The engine may have fed the watchdog once more; that it stops is said once.
                self.assertLessEqual(set(manager.all_said()), {"WATCHDOG=1"})

    def test_an_engine_that_hangs_feeds_no_watchdog(self):
        manager, collector = self.start_service(str(self.home / "notify"))
        manager.wait_for("WATCHDOG=1")
        with StoppedThread(collector.process, "engine"):
            manager.all_said()
            self.assertIsNone(manager.next(2 * WATCHDOG_S))
            # Everything else goes on, so only this tells.
            with urllib.request.urlopen(collector.http + "/-/healthy", timeout=60) as answer:
                self.assertEqual(answer.status, 200)
        manager.wait_for("WATCHDOG=1")

    def test_a_socket_that_cannot_be_one(self):
        command = [BIN / "laggardd", "--data", self.home / "data", "--ingest", "tcp://127.0.0.1:0"]
        command += ["--http", "127.0.0.1:0"]
        environment = {**os.environ, "NOTIFY_SOCKET": "vsock:2:1234"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
        self.assertEqual(done.returncode, 1)
        self.assertIn('NOTIFY_SOCKET is "vsock:2:1234"', done.stderr)


class Unit(EndToEnd):
    def test_its_exposure_is_low(self):
        command = ["systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=12", UNIT]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        exposure = re.search(r"Overall exposure level for laggardd\.service: ([0-9.]+)", done.stdout)
        self.assertLessEqual(float(exposure[1]), 1.2)
        # Without it nothing else in the unit keeps strangers out.
        self.assertEqual(unit_settings()["IPAddressDeny"], "any")

    def test_systemd_understands_it(self):
        copy = self.home / UNIT.name
        # The program is checked too, and is not installed here.
        copy.write_text(UNIT.read_text().replace("/usr/local/bin", str(BIN)))
        command = ["systemd-analyze", "verify", "--man=no", str(copy)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        about_it = [line for line in done.stderr.splitlines() if UNIT.name in line]
        self.assertEqual((done.returncode, about_it), (0, []), done.stderr)

    def test_it_caps_what_the_service_takes(self):
        settings = unit_settings()
        for cap in ("MemoryMax", "CPUQuota", "TasksMax", "LimitNOFILE"):
            self.assertRegex(settings[cap], r"^[1-9]", cap)
        self.assertEqual((settings["Type"], settings["Restart"]), ("notify", "on-failure"))
        self.assertIn("WatchdogSec", settings)

    def test_the_daemon_works_with_the_system_calls_that_it_allows(self):
        """strace refuses the others in the kernel's place, with the same error."""
        allowed = set()
        for sign, words in re.findall(r"^SystemCallFilter=(~?)(.*)$", UNIT.read_text(), re.MULTILINE):
            allowed = allowed - system_calls(words.split()) if sign else allowed | system_calls(words.split())
        refused = ",".join(f"?{name}" for name in sorted(system_calls(["@known"]) - allowed))
        self.assertIn("?ptrace", refused)
        filters = ["-e", f"trace={refused}", "-e", f"inject={refused}:error=EPERM"]
        self.deliver_and_stop(under_strace("-o", self.home / "trace", *filters))

    def test_the_daemon_opens_sockets_of_the_families_that_it_allows(self):
        """Under systemd it would fail at any other: libzmq, for one, lists the interfaces by netlink whenever it binds."""
        trace = self.home / "trace"
        manager = ServiceManager(str(self.home / "notify"))
        self.addCleanup(manager.socket.close)
        with unittest.mock.patch.dict(os.environ, manager.environment):
            self.deliver_and_stop(under_strace("-o", trace, "-e", "trace=socket"))
        opened = set(re.findall(r"\bsocket\((\w+)", trace.read_text()))
        # It listens, and talks to the service manager: a trace without these saw nothing.
        self.assertGreaterEqual(opened, {"AF_INET", "AF_UNIX"})
        self.assertLessEqual(opened, set(unit_settings()["RestrictAddressFamilies"].split()))

    def deliver_and_stop(self, launch):
        collector = self.start_collector(launch=launch)
        self.run_agent(collector, "job", *sorted((PUBLISHED / "run2_bs8").glob("rank*.jsonl")))
        self.assertEqual(self.cli_json(collector, "status", "job")["settled"]["state"], "complete")
        self.cli(collector, "close", "job")
        self.assertEqual(collector.stop(), 0, collector.log.read_text())

    def test_its_configuration_is_one(self):
        """The daemon takes the file that the unit names, here with other ports."""
        config = self.home / "laggardd.toml"
        shutil.copy(SYSTEMD / "laggardd.toml", config)
        command = [BIN / "laggardd", "--config", config, "--data", self.home / "data"]
        command += ["--ingest", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0"]
        process = spawn(command, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        with process.stdout:
            self.assertIn("laggardd ready: ", process.stdout.readline())
        self.assertEqual(stop(process), 0)


if __name__ == "__main__":
    unittest.main()
