"""Runs never stay "running" for ever (case A23)."""

import unittest

from harness import EndToEnd, append, config_line, update_line

LIMITS = {
    "overdue_after_ms": 200,
    "overdue_factor": 0.001,
    "source_timeout_ms": 500,
    "stalled_after_ms": 600,
    "lost_after_ms": 1500,
}


class States(EndToEnd):
    def setUp(self):
        super().setUp()
        self.collector = self.start_collector(config=LIMITS)
        self.files = [self.home / f"rank{rank}.jsonl" for rank in (0, 1)]
        self.agents = [self.start_agent(self.collector, "job", file) for file in self.files]
        for rank, file in enumerate(self.files):
            append(file, config_line(rank, 2))
            for step in range(1, 6):
                append(file, update_line(rank, step, 10.0))

    def wait_for_state(self, state):
        return self.wait_for_run(self.collector, "job", lambda s: s["state"] == state, f"the run {state}")

    def test_running_stalled_lost_and_back(self):
        self.wait_updates(self.collector, "job", 10)
        for agent in self.agents:
            agent.kill()
        self.wait_for_state("stalled")
        lost = self.wait_for_state("lost")
        self.assertEqual(lost["last_step"], 5)
        self.assertGreaterEqual(lost["age_ms"], LIMITS["lost_after_ms"])
        (run,) = self.cli_json(self.collector, "runs")["runs"]
        self.assertEqual((run["run"], run["state"], run["last_step"]), ("job", "lost", 5))
        append(self.files[0], update_line(0, 6, 10.0))
        agent = self.start_agent(self.collector, "job", self.files[0])
        back = self.wait_for_run(self.collector, "job", lambda s: s["state"] == "running", "the run back")
        self.assertGreater(back["last_received_unix_ms"], lost["last_received_unix_ms"])
        self.assertEqual(back["attempts"], [1])
        self.assertEqual(agent.stop(), 0, agent.said())

    def test_a_restart_of_the_collector_keeps_the_state(self):
        self.wait_updates(self.collector, "job", 10)
        for agent in self.agents:
            agent.kill()
        lost = self.wait_for_state("lost")
        self.assertEqual(self.collector.stop(), 0)
        self.collector = self.restart(self.collector, config=LIMITS)
        again = self.run_status(self.collector, "job")
        self.assertEqual(again["state"], "lost")
        self.assertEqual(again["last_received_unix_ms"], lost["last_received_unix_ms"])

    def test_every_rank_ended(self):
        for rank, file in enumerate(self.files):
            append(file, f'{{"type": "end", "rank": {rank}}}\n')
        self.wait_for_state("ended")

    def test_closed_by_hand_and_opened_by_a_late_record(self):
        self.wait_updates(self.collector, "job", 10)
        self.cli(self.collector, "close", "job")
        closed = self.wait_for_state("ended")
        self.assertTrue(closed["closed"])
        append(self.files[0], update_line(0, 6, 10.0))
        self.wait_for_run(self.collector, "job", lambda s: s["state"] == "running" and not s["closed"], "it open again")


if __name__ == "__main__":
    unittest.main()
