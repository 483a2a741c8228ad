"""A collector that hangs for a minute (SIGSTOP) and goes on: the agents' memory stays bounded, the followed files wait
with them, everything arrives once, and nobody is taken for dead (cases A15 and A16)."""

import json
import os
import signal
import time
import unittest

from harness import EndToEnd, append, config_line
from processes import wait_until
from stress import Job, check_once, cpu_s, dice, rss_bytes, say

RUN = "job"
STOP_S = 60
MIB = 1 << 20
# limits::kWindowBytes of batches, as much again for the allocator and the sockets, and the program itself, which
# a sanitizer makes several times larger.
WINDOW, PROGRAM = 32 * MIB, 24 * MIB
IDLE_SHARE = 0.2  # of a core; far above what is seen


class Stop(EndToEnd):
    def setUp(self):
        super().setUp()
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
        # Rank 0 of a second run has records of half a kilobyte: more in its file than the window takes.
        wide = Job(dice("stop, wide"), 1, 1)
        big_file, big_steps = self.home / "wide.jsonl", 120_000
        agents = [self.start_agent(self.collector, RUN, *files[i : i + 4]) for i in range(0, ranks, 4)]
        agents.append(self.start_agent(self.collector, "wide", big_file))
        for rank, file in enumerate(files):
            append(file, job.text(rank, 0, 100))
        append(big_file, config_line(0, 1))
        self.wait_updates(self.collector, RUN, ranks * 99)
        self.wait_for_run(self.collector, "wide", lambda status: status["delivery"]["stored"] == 1, "the config")
        before = max(rss_bytes(agent.process.pid) for agent in agents)

        self.hang()
        record = json.loads(wide.lines[0][1])
        with open(big_file, "a") as file:
            for step in range(1, big_steps + 1):
                record["step"] = step
                record["tags"] = ["x" * 300]
                file.write(json.dumps(record) + "\n")
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
        self.assertLess(peak, 2 * WINDOW + 2 * PROGRAM)


if __name__ == "__main__":
    unittest.main()
