"""Ends of programs (case A17): an agent that leaves at once, a job that dies without a word, a collector that is told
to stop while everybody sends. What was acknowledged is stored, and what was handed over arrives."""

import json
import subprocess
import sys
import threading
import time
import unittest

from harness import EndToEnd, append, config_line, update_line
from stress import Job, check_once, dice, query, say

RUN = "job"

# A rank that writes its lines unbuffered and dies in the middle of one, with no handler run.
DYING_RANK = """
import os, sys
lines = sys.stdin.buffer.read().splitlines(keepends=True)
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for line in lines[:-1]:
    os.write(file, line)
os.write(file, lines[-1][:20])
os._exit(1)
"""


def write_slowly(job, steps):
    """So many steps, over some seconds."""
    at_once = 20
    for _ in range(steps // at_once):
        job.write(at_once)
        time.sleep(0.02)


class Exit(EndToEnd):
    def setUp(self):
        super().setUp()
        self.collector = self.start_collector()
        self.file = self.home / "rank0.jsonl"

    def test_a_hundred_records_and_gone(self):
        """V1: no sleep is needed before or after."""
        append(self.file, config_line(0, 1) + "".join(update_line(0, step, 10.0) for step in range(1, 101)))
        self.run_agent(self.collector, RUN, self.file)
        check_once(self, self.collector, RUN, 1, 100)

    def test_a_stop_delivers_what_is_there(self):
        """V3: SIGTERM comes right behind 100 records."""
        append(self.file, config_line(0, 1))
        agent = self.start_agent(self.collector, RUN, self.file)
        self.wait_for_run(self.collector, RUN, lambda status: status["delivery"]["stored"] == 1, "the config")
        append(self.file, "".join(update_line(0, step, 10.0) for step in range(1, 101)))
        self.assertEqual(agent.stop(), 0, agent.said())
        check_once(self, self.collector, RUN, 1, 100)

    def test_a_rank_that_dies_without_a_word(self):
        """V4: os._exit() in the middle of a line. All whole lines arrive, the torn one is waited for."""
        job = Job(dice("exit"), self.home, 1, name="whole")
        job.write(100)
        agent = self.start_agent(self.collector, RUN, self.file)
        rank = subprocess.run([sys.executable, "-c", DYING_RANK, self.file], input=job.files[0].read_bytes(), timeout=60)
        self.assertEqual(rank.returncode, 1)
        self.wait_updates(self.collector, RUN, 99)
        self.wait_for_run(self.collector, RUN, lambda status: status["lines"]["pending_tail"] == 1, "the torn line")
        self.assertEqual(agent.stop(), 0, agent.said())
        check_once(self, self.collector, RUN, 1, 99)
        self.assertEqual(self.run_status(self.collector, RUN)["lines"]["rejected"], 0)

    def test_a_collector_that_stops_has_stored_what_it_acknowledged(self):
        """V5: SIGTERM while eight agents send."""
        ranks, steps = 8, 4000
        rng = dice("exit")
        job = Job(rng, self.home, ranks)
        agents = [self.start_agent(self.collector, RUN, file, extra=["-o", "json"]) for file in job.files]
        writing = threading.Thread(target=write_slowly, args=(job, steps))
        writing.start()
        self.wait_updates(self.collector, RUN, rng.randrange(1, ranks * steps // 4), 60)
        begin = time.monotonic()
        self.assertEqual(self.collector.stop(), 0)
        stop_s = time.monotonic() - begin
        writing.join()
        stored = dict(query(self.collector.data, "SELECT rank, committed_seq FROM sources"))
        acknowledged = {}
        for agent in agents:
            self.assertEqual(agent.stop(), 0, agent.said())
            said = agent.said()
            (of_file,) = json.loads(said[said.index("\n{") :])["files"]
            (rank,) = of_file["ranks"]
            acknowledged[rank["rank"]] = rank["updates"] + rank["configs"] - rank["undelivered"]
        kept = [json.loads(file.read_text()) for file in (self.home / "agent-state").glob("*.json")]
        for progress in kept:  # each file has the lines of one rank, one item a line
            rank = progress["ranks"][0]["rank"]
            self.assertLessEqual(progress["place"]["line_number"], acknowledged[rank], f"progress of rank {rank}")
        for rank in range(ranks):
            self.assertLessEqual(acknowledged[rank], stored.get(rank, 0), f"acknowledged and stored of rank {rank}")
        total = ranks * (steps + 1)
        say("exit", stop_s=f"{stop_s:.1f}", stored=sum(stored.values()), acknowledged=sum(acknowledged.values()))
        self.assertLess(sum(stored.values()), total, "nothing was on its way any more: the test has shown nothing")

        self.collector = self.restart(self.collector)
        agents = [self.start_agent(self.collector, RUN, file) for file in job.files]
        self.wait_updates(self.collector, RUN, ranks * steps, 60)
        for agent in agents:
            self.assertEqual(agent.stop(), 0, agent.said())
        check_once(self, self.collector, RUN, ranks, steps)


if __name__ == "__main__":
    unittest.main()
