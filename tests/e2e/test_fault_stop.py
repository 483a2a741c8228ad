"""A collector that hangs for a minute (SIGSTOP) and goes on: the agents' memory stays bounded, the followed files wait
with them, everything arrives once, and nobody is taken for dead (cases A15 and A16)."""

import json
import os
import signal
import time
import unittest

from harness import EndToEnd, append, config_line, update_line
from processes import cpu_s, memory_bytes, wait_until
from stress import Job, check_once, dice, give_back_what_is_freed, say, wait_stored

RUN = "job"
STOP_S = 60
MIB = 1 << 20
# limits::kWindowBytes: batches that nobody has acknowledged. The socket has a copy of those that it took.
WINDOW = 32 * MIB
PROGRAM = 44 * MIB  # and what else it may need then: a piece of each of a hundred files, what the allocator keeps
if os.environ.get("LAGGARD_SANITIZE"):
    PROGRAM += 32 * MIB  # red zones round every block
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
        """Sixteen ranks go on writing, slowly."""
        ranks, steps = 16, 600
        job = Job(dice("stop"), self.home, ranks)
        # Two more agents find far more than their windows may hold: in one file, and in a hundred.
        wide = {"one": [self.home / "one.jsonl"], "many": [self.home / f"many{rank}.jsonl" for rank in range(100)]}
        wide_records = 3000  # of 30 kB
        agents = [self.start_agent(self.collector, RUN, *job.files[i : i + 4]) for i in range(0, ranks, 4)]
        agents += [self.start_agent(self.collector, run, *run_files) for run, run_files in wide.items()]
        job.write(100)
        for run_files in wide.values():
            for rank, file in enumerate(run_files):
                append(file, config_line(rank, len(run_files)))
        self.wait_updates(self.collector, RUN, ranks * 100)
        for run, run_files in wide.items():
            wait_stored(self.collector, run, len(run_files))
        before = max(memory_bytes(agent.process.pid) for agent in agents)

        self.hang()
        tags = [f"{'x' * 500}{i}" for i in range(60)]
        for run_files in wide.values():
            for rank, file in enumerate(run_files):
                steps_of_file = range(1, wide_records // len(run_files) + 1)
                append(file, "".join(update_line(rank, step, 10.0, tags=tags) for step in steps_of_file))
        begin, cpu, peaks = time.monotonic(), None, [0] * len(agents)
        while (past := time.monotonic() - begin) < STOP_S:
            if job.steps < steps:
                job.write(25)
            elif cpu is None and past > STOP_S / 2:
                cpu = [(cpu_s(agent.process.pid), time.monotonic()) for agent in agents]
            peaks = [max(peak, memory_bytes(agent.process.pid)) for agent, peak in zip(agents, peaks)]
            delivered = self.progress_lines()
            time.sleep(0.5)
        shares = [(cpu_s(agent.process.pid) - used) / (time.monotonic() - at) for agent, (used, at) in zip(agents, cpu)]
        self.assertLessEqual(delivered, ranks * 101 + 101, "progress that nobody can have acknowledged")
        waiting = {run: sum(file.stat().st_size for file in run_files) // MIB for run, run_files in wide.items()}
        say("stop", cpu_percent=f"{100 * max(shares):.1f}", rss_before_mib=before // MIB, waiting_mib=waiting,
            rss_peak_mib=[size // MIB for size in peaks])  # fmt: skip
        self.assertLess(max(peaks), before + 2 * WINDOW + PROGRAM)
        self.assertLess(max(shares), IDLE_SHARE)

        self.go_on()
        self.wait_updates(self.collector, RUN, ranks * steps, 120)
        status = self.run_status(self.collector, RUN)
        self.assertEqual((status["silent"], status["silent_ranks"]), (0, []))
        ranks_shown = self.collector.get(f"/api/v1/runs/{RUN}/ranks")["ranks"]
        self.assertEqual({rank["state"] for rank in ranks_shown}, {"live"})
        for run, run_files in wide.items():
            wait_stored(self.collector, run, wide_records + len(run_files))
        for agent in agents:
            self.assertEqual(agent.stop(), 0, agent.said())
        check_once(self, self.collector, RUN, ranks, steps)
        for run, run_files in wide.items():
            check_once(self, self.collector, run, len(run_files), wide_records // len(run_files))

    def test_two_hundred_thousand_numbered_records(self):
        """A15 with the file agent: it drops nothing, so all are stored."""
        total = 200_000
        file = self.home / "rank0.jsonl"
        append(file, config_line(0, 1))
        agent = self.start_agent(self.collector, RUN, file)
        self.wait_for_run(self.collector, RUN, lambda status: status["delivery"]["stored"] == 1, "the config")
        before = memory_bytes(agent.process.pid)
        self.hang()
        with open(file, "a") as out:
            for step in range(1, total + 1):
                out.write(f'{{"type":"update","rank":0,"step":{step},"wall_ms":{step}}}\n')
        time.sleep(5)
        peak = memory_bytes(agent.process.pid)
        self.go_on()
        wait_until("200,000 records", lambda: self.run_status(self.collector, RUN)["delivery"]["stored"] > total, 240)
        peak = max(peak, memory_bytes(agent.process.pid))
        self.assertEqual(agent.stop(), 0, agent.said())
        delivery = check_once(self, self.collector, RUN, 1, total)
        say("numbered", rss_peak_mib=peak // MIB, **delivery)
        self.assertLess(peak, before + 2 * WINDOW + PROGRAM)


if __name__ == "__main__":
    unittest.main()
