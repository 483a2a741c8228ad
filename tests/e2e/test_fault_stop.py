"""A collector that hangs for a minute (SIGSTOP) and goes on: the agents' memory stays bounded, the followed files wait
with them, everything arrives once, and nobody is taken for dead (cases A15 and A16)."""

import json
import os
import signal
import time
import unittest

from harness import EndToEnd, append, config_line, update_line
from processes import wait_until
from stress import Job, check_once, cpu_s, dice, give_back_what_is_freed, rss_bytes, say

RUN = "job"
STOP_S = 60
MIB = 1 << 20
# limits::kWindowBytes: batches that nobody has acknowledged. The socket has a copy of those that it took.
WINDOW = 32 * MIB
PROGRAM = 24 * MIB  # and what else an agent may need then: a piece of file, what the allocator keeps
IDLE_SHARE = 0.2  # of a core; far above what is seen


class Stop(EndToEnd):
    def setUp(self):
        super().setUp()
        give_back_what_is_freed(self)
        self.collector = self.start_collector()

    def hang(self):
        os.kill(self.collector.process.pid, signal.SIGSTOP)

    def go_on(self):
        os.kill(self.collector.process.pid, signal.SIGCONT)

    def progress_lines(self):
        """Lines that the agents' progress files call delivered."""
        kept = (json.loads(file.read_text()) for file in (self.home / "agent-state").glob("*.json"))
        return sum(progress["place"]["line_number"] for progress in kept)

    def test_a_minute_without_a_word(self):
        """Sixteen ranks go on writing, slowly; one agent finds far more than its window may hold."""
        ranks, steps = 16, 600
        job = Job(dice("stop"), ranks, steps)
        files = [self.home / f"rank{rank}.jsonl" for rank in range(ranks)]
        # A second run's records are so large that its file holds four times what a window may.
        big_file, big_steps, big_tag = self.home / "wide.jsonl", 4000, "x" * 500
        agents = [self.start_agent(self.collector, RUN, *files[i : i + 4]) for i in range(0, ranks, 4)]
        agents.append(self.start_agent(self.collector, "wide", big_file))
        for rank, file in enumerate(files):
            append(file, job.text(rank, 0, 100))
        append(big_file, config_line(0, 1))
        self.wait_updates(self.collector, RUN, ranks * 99)
        self.wait_for_run(self.collector, "wide", lambda status: status["delivery"]["stored"] == 1, "the config")
        before = max(rss_bytes(agent.process.pid) for agent in agents)

        self.hang()
        with open(big_file, "a") as file:
            for step in range(1, big_steps + 1):
                file.write(update_line(0, step, 10.0, tags=[f"{big_tag}{i}" for i in range(60)]))
        begin, cpu, peak, written = time.monotonic(), None, 0, 100
        while (past := time.monotonic() - begin) < STOP_S:
            if written <= steps:
                for rank, file in enumerate(files):
                    append(file, job.text(rank, written, written + 25))
                written += 25
            elif cpu is None and past > STOP_S / 2:
                cpu = [(cpu_s(agent.process.pid), time.monotonic()) for agent in agents]
            peak = max(peak, *(rss_bytes(agent.process.pid) for agent in agents))
            delivered = self.progress_lines()
            time.sleep(0.5)
        shares = [(cpu_s(agent.process.pid) - used) / (time.monotonic() - at) for agent, (used, at) in zip(agents, cpu)]
        self.assertLessEqual(delivered, ranks * 100 + 1, "progress that nobody can have acknowledged")
        say("stop", rss_before_mib=before // MIB, rss_peak_mib=peak // MIB, cpu_percent=f"{100 * max(shares):.1f}",
            big_file_mib=big_file.stat().st_size // MIB)
        self.assertLess(peak, before + 2 * WINDOW + PROGRAM)
        self.assertLess(max(shares), IDLE_SHARE)

        self.go_on()
        self.wait_updates(self.collector, RUN, ranks * steps, 120)
        status = self.run_status(self.collector, RUN)
        self.assertEqual((status["silent"], status["silent_ranks"]), (0, []))
        ranks_shown = self.collector.get(f"/api/v1/runs/{RUN}/ranks")["ranks"]
        self.assertEqual({rank["state"] for rank in ranks_shown}, {"live"})
        self.wait_updates(self.collector, "wide", big_steps, 240)
        for agent in agents:
            self.assertEqual(agent.stop(), 0, agent.said())
        check_once(self, self.collector, RUN, ranks, steps)
        delivery = self.run_status(self.collector, "wide")["delivery"]
        self.assertEqual((delivery["stored"], delivery["duplicate"], delivery["dropped"]), (big_steps + 1, 0, 0))

    def test_two_hundred_thousand_numbered_records(self):
        """A15 with the file agent: it drops nothing, so all are stored."""
        total = 200_000
        file = self.home / "rank0.jsonl"
        append(file, config_line(0, 1))
        agent = self.start_agent(self.collector, RUN, file)
        self.wait_for_run(self.collector, RUN, lambda status: status["delivery"]["stored"] == 1, "the config")
        before = rss_bytes(agent.process.pid)
        self.hang()
        with open(file, "a") as out:
            for step in range(1, total + 1):
                out.write(f'{{"type":"update","rank":0,"step":{step},"wall_ms":{step}}}\n')
        time.sleep(5)
        peak = rss_bytes(agent.process.pid)
        self.go_on()
        wait_until("200,000 records", lambda: self.run_status(self.collector, RUN)["delivery"]["stored"] > total, 240)
        peak = max(peak, rss_bytes(agent.process.pid))
        self.assertEqual(agent.stop(), 0, agent.said())
        delivery = check_once(self, self.collector, RUN, 1, total)
        say("numbered", rss_peak_mib=peak // MIB, **delivery)
        self.assertLess(peak, before + 2 * WINDOW + PROGRAM)


if __name__ == "__main__":
    unittest.main()
