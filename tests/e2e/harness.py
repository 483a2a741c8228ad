"""What the end-to-end tests share. LAGGARD_BIN names the folder of the programs under test.

A test that cannot be had on this machine is skipped and says so; with LAGGARD_STRICT=1 it fails instead.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.error
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "support"))

from processes import Collector, spawn, stop, wait_until  # noqa: E402, F401

BIN = Path(os.environ["LAGGARD_BIN"])
DATA = TESTS / "data"
CASES = DATA / "cases"
PUBLISHED = DATA / "published_runs"


SANITIZER = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error: ")

# Parts of a run's status that would bury the rest of a failure's message.
LONG = {"newest", "settled", "history", "counters"}


def strict_json(text):
    """json.loads that refuses NaN and Infinity, which JSON does not have."""

    def refuse(word):
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def config_line(rank, world_size, **more):
    return json.dumps({"type": "config", "rank": rank, "world_size": world_size, **more}) + "\n"


def update_line(rank, step, wall_ms, stages=None, **more):
    stages = {"forward": 1.0} if stages is None else stages
    record = {"type": "update", "rank": rank, "step": step, "wall_ms": wall_ms, "cuda_stream_ms": stages}
    return json.dumps({**record, **more}) + "\n"


def append(path, text):
    with open(path, "a") as file:
        file.write(text)


class Agent:
    """One laggard-agent; what it prints goes to `log`, and what it has read is kept in `state`."""

    def __init__(self, collector, run, files, log, state, extra=()):
        self.log = log
        command = [BIN / "laggard-agent", "--collector", collector.ingest, "--run", run, *extra, *files]
        with open(log, "ab") as output:
            environment = {**os.environ, "LAGGARD_STATE_DIR": str(state)}
            self.process = spawn(command, stdout=output, stderr=output, env=environment)

    def stop(self):
        return stop(self.process)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def wait(self, timeout_s=30):
        return self.process.wait(timeout_s)

    def said(self):
        return self.log.read_text()


class EndToEnd(unittest.TestCase):
    """A test with a folder of its own; every program that it starts is gone at its end."""

    maxDiff = None

    def setUp(self):
        self.home = Path(tempfile.mkdtemp(prefix="laggard-e2e-"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.addCleanup(self._no_sanitizer_has_found)
        self._logs = 0

    def _no_sanitizer_has_found(self):
        """What a sanitizer finds ends a program, at whose end a test may not look."""
        for log in sorted(self.home.rglob("*.log")):
            said = log.read_text(errors="replace")
            if found := SANITIZER.search(said):
                self.fail(f"{log.name}: {said[found.start() :][:8000]}")

    def need(self, there, what):
        """Skips the test, loudly, where something is not there that it needs; LAGGARD_STRICT=1 makes that a failure."""
        if there:
            return
        if os.environ.get("LAGGARD_STRICT") == "1":
            self.fail(f"LAGGARD_STRICT=1, and this machine lacks {what}")
        print(f"\n*** NOT TESTED HERE: {self.id()}: this machine lacks {what} ***", flush=True)
        self.skipTest(f"this machine lacks {what}")

    def _log(self, name):
        self._logs += 1
        return self.home / f"{name}-{self._logs}.log"

    def start_collector(self, data="data", config=None, **options):
        """A collector on free ports; `config` is written to its configuration file."""
        extra = []
        if config:
            file = self.home / f"{data}.toml"
            file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in config.items()))
            extra = ["--config", file]
        log = self._log("laggardd")
        collector = Collector(BIN, self.home / data, log, extra=extra, **options)
        self.addCleanup(_end, collector.process)
        return collector

    def restart(self, collector, **options):
        """A new collector on the data, and at the addresses, of one that has ended."""
        http = collector.http.removeprefix("http://")
        return self.start_collector(ingest=collector.ingest, http=http, **options)

    def start_agent(self, collector, run, *files, extra=()):
        agent = Agent(collector, run, files, self._log(f"agent-{run}"), self.home / "agent-state", extra)
        self.addCleanup(_end, agent.process)
        return agent

    def run_agent(self, collector, run, *files):
        """Delivers finished files: laggard-agent --once."""
        agent = self.start_agent(collector, run, *files, extra=["--once"])
        self.assertEqual(agent.wait(), 0, agent.said())
        return agent

    def cli(self, collector, *arguments, code=0):
        """Runs the client, with the collector's token; returns its standard output."""
        token = ["--token-file", f"{collector.data}/admin.token"]
        done = run_client("--collector", collector.http, *token, *arguments)
        self.assertEqual(done.returncode, code, f"laggard {arguments}: {done.stdout}{done.stderr}")
        return done.stdout

    def cli_json(self, collector, *arguments, code=0):
        return strict_json(self.cli(collector, *arguments, "-o", "json", code=code))

    def answer(self, collector, path):
        """What the collector answers, or None while there is nothing."""
        try:
            return strict_json(collector.text(path))
        except urllib.error.HTTPError as error:
            with error:
                self.assertEqual(error.code, 404, error.read())
            return None

    def run_status(self, collector, run):
        return self.answer(collector, f"/api/v1/runs/{run}")

    def wait_for_run(self, collector, run, condition, what, deadline_s=20.0):
        """Waits until condition(status of the run), and returns that status."""

        def met():
            status = self.run_status(collector, run)
            return status if status and condition(status) else None

        try:
            return wait_until(what, met, deadline_s)
        except TimeoutError as error:
            status = self.run_status(collector, run) or {}
            self.fail(f"{error}; {json.dumps({key: status[key] for key in status if key not in LONG})}")

    def wait_updates(self, collector, run, count, deadline_s=20.0):
        """Waits until the newest attempt has that many updates, over all ranks."""

        def met():
            answer = self.answer(collector, f"/api/v1/runs/{run}/ranks")
            return answer is not None and sum(rank["records"] for rank in answer["ranks"]) >= count

        wait_until(f"{count} updates of {run}", met, deadline_s)

    def export(self, collector, run, *arguments):
        """The exported lines of a run, as objects."""
        return [json.loads(line) for line in self.cli(collector, "export", run, *arguments).splitlines()]

    def updates(self, collector, run, *arguments):
        return [line for line in self.export(collector, run, *arguments) if line["type"] == "update"]


def run_client(*arguments, **options):
    command = [BIN / "laggard", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, **options)


def _end(process):
    if process.poll() is None:
        process.kill()
        process.wait()
    if process.stdout and not process.stdout.closed:
        process.stdout.close()
