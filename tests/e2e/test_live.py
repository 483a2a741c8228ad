"""A running job as people watch it: a new step is everywhere within a second, a silent rank is named."""

import json
import os
import pty
import re
import threading
import time
import unittest

from harness import BIN, EndToEnd, append, config_line, spawn, stop, strict_json, update_line, wait_until
from prometheus_text import parse

XTERM = {**os.environ, "TERM": "xterm"}
LIMIT_S = 1.0  # from the last rank's record to every view


class Watcher:
    """Collects what a program writes to a pipe or a terminal, with the time each piece came."""

    def __init__(self, command, terminal=False, environment=None):
        if terminal:
            self.fd, slave = pty.openpty()
            self.process = spawn(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
            os.close(slave)
        else:
            self.fd, write_end = os.pipe()
            self.process = spawn(command, stdout=write_end, stderr=write_end, env=environment)
            os.close(write_end)
        self._pieces = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self):
        while True:
            try:
                piece = os.read(self.fd, 65536)
            except OSError:  # how a terminal says that its other end is gone
                piece = b""
            if not piece:
                return
            self._pieces.append((time.monotonic(), piece.decode(errors="replace")))

    def text(self):
        return "".join(piece for _, piece in list(self._pieces))

    def seen_at(self, pattern):
        """When the output first matched the pattern, or None."""
        text = ""
        for at, piece in list(self._pieces):
            text += piece
            if re.search(pattern, text):
                return at
        return None

    def close(self):
        status = stop(self.process)
        self._thread.join()
        os.close(self.fd)
        return status


class Live(EndToEnd):
    RANKS = 4

    def begin(self, **config):
        self.collector = self.start_collector(config=config or None)
        self.files = [self.home / f"rank{rank}.jsonl" for rank in range(self.RANKS)]
        self.agents = [self.start_agent(self.collector, "job", file) for file in self.files]
        for rank, file in enumerate(self.files):
            append(file, config_line(rank, self.RANKS))

    def write_step(self, step, ranks=range(RANKS)):
        """The records of one step, rank by rank; returns when the last one was written."""
        for rank in ranks:
            append(self.files[rank], update_line(rank, step, 1000.0 + rank, {"forward": 600.0 + rank}))
        return time.monotonic()

    def watch(self, *command, **options):
        watcher = Watcher([BIN / "laggard", "--collector", self.collector.http, *command], **options)
        self.addCleanup(watcher.close)
        return watcher

    def test_a_step_is_everywhere_within_a_second(self):
        self.begin()
        self.write_step(1)
        self.wait_for_run(self.collector, "job", lambda s: s["steps_by_state"]["complete"] == 1, "step 1")
        stream = Watcher(["curl", "-sN", f"{self.collector.http}/api/v1/events?run=job"])
        self.addCleanup(stream.close)
        pipe = self.watch("status", "job", "--watch")
        screen = self.watch("status", "job", "--watch", terminal=True, environment=XTERM)
        wait_until("three readers of the event stream", lambda: self.metric("laggard_event_clients") == 3)
        for step in range(2, 7):
            written = self.write_step(step)
            self.check_seen("the event stream", written, lambda: stream.seen_at(rf'"step": ?{step}\b'))
            self.check_seen("status --watch in a pipe", written, lambda: pipe.seen_at(rf"step\W+{step}\b"))
            # On a terminal, escape sequences may stand between the word and the number.
            colour = r"(\x1b\[[0-9;?]*[A-Za-z])*"
            self.check_seen(
                "status --watch on a terminal", written, lambda: screen.seen_at(rf"step{colour}\W+{colour}{step}\b")
            )
            self.check_seen("/metrics", written, lambda: self.metric("laggard_settled_step") == step and time.monotonic())
        events = [json.loads(line[6:]) for line in stream.text().splitlines() if line.startswith("data: ")]
        self.assertEqual([event["step"] for event in events if event], [2, 3, 4, 5, 6])
        self.assertEqual({event["state"] for event in events if event}, {"complete"})

    def test_an_open_step_can_be_asked_for_before_it_is_stored(self):
        self.begin()
        self.write_step(1)
        self.write_step(2, ranks=(0, 1, 2))
        self.wait_for_run(
            self.collector, "job", lambda s: s["newest"] and s["newest"]["present"] == 3 and s["last_step"] == 2, "step 2"
        )
        step = self.cli_json(self.collector, "step", "job", "2")
        self.assertEqual((step["state"], step["present"], step["missing"]), ("open", 3, [3]))
        self.assertEqual(self.cli_json(self.collector, "steps", "job", "--last", "1")["steps"][0]["step"], 2)

    def test_a_terminal_that_cannot_redraw(self):
        self.begin()
        self.write_step(1)
        self.wait_for_run(self.collector, "job", lambda s: s["steps_by_state"]["complete"] == 1, "step 1")
        dumb = self.watch("status", "job", "--watch", terminal=True, environment={**os.environ, "TERM": "dumb"})
        wait_until("the first screen", lambda: dumb.seen_at(r"run +job"))
        wait_until("the reader of the event stream", lambda: self.metric("laggard_event_clients") == 1)
        self.write_step(2)
        wait_until("the second screen", lambda: dumb.seen_at(r"(?s)\r\n\r\nrun +job.*\bstep +2 complete"))
        self.assertNotIn("\x1b", dumb.text())

    def test_a_watch_outlives_the_database(self):
        self.begin()
        self.write_step(1)
        self.wait_for_run(self.collector, "job", lambda s: s["steps_by_state"]["complete"] == 1, "step 1")
        pipe = self.watch("status", "job", "--watch")
        wait_until("the reader of the event stream", lambda: self.metric("laggard_event_clients") == 1)
        self.collector.stop()
        self.collector = self.restart(self.collector, data="fresh")
        wait_until("the agents' records, again", lambda: self.run_status(self.collector, "job"))
        wait_until("the watch to be back", lambda: self.metric("laggard_event_clients") == 1)
        self.write_step(2)
        wait_until("step 2 in the watch", lambda: pipe.seen_at(r"step 2  complete"))

    def test_a_watch_sees_every_step_and_ends_with_the_run(self):
        self.collector = self.start_collector()
        pipe = self.watch("status", "job", "--watch", "-o", "jsonl")
        wait_until("the watch that waits", lambda: pipe.seen_at("Waiting for it"))
        self.files = [self.home / f"rank{rank}.jsonl" for rank in range(self.RANKS)]
        for rank, file in enumerate(self.files):
            append(file, config_line(rank, self.RANKS))
        for step in range(1, 6):
            self.write_step(step)
        self.start_agent(self.collector, "job", *self.files)
        wait_until("the last step", lambda: pipe.seen_at('"step": ?5'))
        screen = self.watch("status", "job", "--watch", terminal=True, environment=XTERM)
        wait_until("the first screen", lambda: screen.seen_at("job"))
        for rank, file in enumerate(self.files):
            append(file, json.dumps({"type": "end", "rank": rank}) + "\n")
        for watcher in (pipe, screen):
            self.assertEqual(watcher.process.wait(20), 0)
        lines = [json.loads(line) for line in pipe.text().splitlines() if line.startswith("{")]
        self.assertEqual([line["step"] for line in lines], [1, 2, 3, 4, 5])
        self.assertIn("run job has ended", pipe.text())
        _, left = screen.text().split("\x1b[?1049l")
        self.assertRegex(left, "job ended")
        self.assertEqual(self.watch("status", "job", "--watch").process.wait(20), 0, "of a run that has ended")

    def check_seen(self, where, written, seen):
        at = wait_until(f"the step in {where}", seen)
        self.assertLess(at - written, LIMIT_S, where)

    def metric(self, wanted):
        """The value of the one series of that name, None without it."""
        samples = parse(self.collector.text("/metrics"))
        return next((value for (name, _), value in samples.items() if name == wanted), None)

    def test_a_silent_rank_is_named_and_the_view_moves_on(self):
        self.begin(overdue_after_ms=300, overdue_factor=0.01)
        self.write_step(1)
        self.write_step(2)
        self.wait_for_run(self.collector, "job", lambda s: s["steps_by_state"]["complete"] == 2, "two steps")
        screen = self.watch("status", "job", "--watch", terminal=True, environment=XTERM)
        for step in range(3, 8):
            self.write_step(step, ranks=(0, 1, 3))
        status = self.wait_for_run(
            self.collector,
            "job",
            lambda s: s["settled"]["step"] >= 5 and s["silent_ranks"],
            "the view to move on without rank 2",
        )
        self.assertEqual(status["settled"]["state"], "partial")
        self.assertEqual(status["settled"]["missing"], [2])
        self.assertEqual(status["last_step"], 7)
        (silent,) = status["silent_ranks"]
        self.assertEqual((silent["rank"], silent["last_step"], silent["reported"]), (2, 2, True))
        self.assertGreater(silent["age_ms"], 0)
        self.write_step(8, ranks=(0, 1, 3))
        wait_until("rank 2 on the screen", lambda: screen.seen_at(r"silent\b[^\n]*rank 2\b[^\n]*last step 2, "))
        # It comes back: the steps that it missed become whole, and nobody is silent.
        for step in range(3, 9):
            self.write_step(step, ranks=(2,))
        status = self.wait_for_run(
            self.collector, "job", lambda s: not s["silent_ranks"] and s["settled"]["step"] == 8, "rank 2 back"
        )
        self.assertEqual(status["steps_by_state"]["partial"], 0)

    def test_events_continue_after_the_last_one_seen(self):
        self.begin()
        for step in (1, 2, 3):
            self.write_step(step)
        self.wait_for_run(self.collector, "job", lambda s: s["steps_by_state"]["complete"] == 3, "three steps")
        stream = Watcher(["curl", "-sN", f"{self.collector.http}/api/v1/events?run=job&after=0"])
        self.addCleanup(stream.close)
        wait_until("three events", lambda: stream.text().count("event: step") == 3)
        ids = [int(number) for number in re.findall(r"(?m)^id: (\d+)$", stream.text())]
        again = Watcher(["curl", "-sN", "-H", f"Last-Event-ID: {ids[1]}", f"{self.collector.http}/api/v1/events"])
        self.addCleanup(again.close)
        wait_until("the third event", lambda: "event: step" in again.text() and again.text().endswith("\n\n"))
        data = [strict_json(line[6:]) for line in again.text().splitlines() if line.startswith("data: ")]
        self.assertEqual([event["step"] for event in data], [3])


if __name__ == "__main__":
    unittest.main()
