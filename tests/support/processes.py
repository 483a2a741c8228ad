"""Starts the real laggardd and laggard-agent, for the demonstration and for the end-to-end tests."""

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
READY = re.compile(r"^laggardd ready: ingest (\S+) http (\S+) data (.+)$")


def wait_until(what, condition, deadline_s=20.0):
    """Returns the first true value of condition(); raises TimeoutError, naming `what`, after the deadline."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"not within {deadline_s:g} s: {what}")
        time.sleep(0.02)


def spawn(command, **options):
    """Popen for a program that must not outlive this one, however this one ends."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, command)], **options)


def stop(process, timeout_s=20.0):
    """SIGTERM, and the exit status. A program that ignores SIGTERM is killed and raises TimeoutError."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise TimeoutError(f"{process.args}: still there {timeout_s:g} s after SIGTERM") from None


def cpu_s(pid):
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def memory_bytes(pid, which="VmRSS"):
    """What a process has in memory; with VmHWM the most that it ever had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{which}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"process {pid} has no {which}")


class Collector:
    """One laggardd; its standard error goes to `log`."""

    def __init__(self, bin_dir, data, log, ingest="tcp://127.0.0.1:0", http="127.0.0.1:0", extra=(), launch=spawn):
        self.log = Path(log)
        command = [Path(bin_dir) / "laggardd", "--data", data, "--ingest", ingest, "--http", http, *extra]
        with open(log, "ab") as stderr:
            self.process = launch(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        line = self.process.stdout.readline()
        match = READY.match(line)
        if not match:
            stop(self.process)
            raise RuntimeError(f"laggardd did not become ready: {line!r}\n{self.log.read_text()}")
        self.ingest, self.http, self.data = match.groups()

    def text(self, path, timeout_s=20.0):
        try:
            with urllib.request.urlopen(self.http + path, timeout=timeout_s) as answer:
                return answer.read().decode()
        except OSError as error:
            if self.process.poll() is not None:
                error.add_note(f"laggardd has ended with {self.process.returncode}: {self.log.read_text()[-8000:]}")
            raise

    def get(self, path):
        return json.loads(self.text(path))

    def stop(self):
        """SIGTERM; returns the exit status."""
        status = stop(self.process)
        self.process.stdout.close()
        return status

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
