"""Programs that end in the middle of a run, in order or by SIGKILL, change no figure."""

import unittest

from harness import PUBLISHED, EndToEnd, append
from replay import shuffled_lines

RUN = "run2_bs8"
SOURCES = sorted((PUBLISHED / RUN).glob("rank*.jsonl"))
PROFILE = PUBLISHED / "profile.toml"


class Restart(EndToEnd):
    def setUp(self):
        super().setUp()
        self.collector = self.start_collector()
        self.targets = [self.home / source.name for source in SOURCES]
        self.lines = list(shuffled_lines(SOURCES, seed="restart"))
        self.agents = [self.follow(target) for target in self.targets]

    def follow(self, target):
        return self.start_agent(self.collector, RUN, target)

    def write(self, begin, end):
        for index, line in self.lines[begin:end]:
            append(self.targets[index], line)

    def finish(self):
        """All is there, once; and the report is that of an undisturbed collector."""
        self.wait_for_run(
            self.collector,
            RUN,
            # A step whose rank was gone for a moment is partial, then late-completed.
            lambda s: s["steps_by_state"]["complete"] + s["steps_by_state"]["late_completed"] == 20,
            "20 whole steps",
        )
        for agent in self.agents:
            self.assertEqual(agent.stop(), 0, agent.said())
        status = self.run_status(self.collector, RUN)
        ranks = self.collector.get(f"/api/v1/runs/{RUN}/ranks")["ranks"]
        self.assertEqual([rank["records"] for rank in ranks], [20, 20, 20, 20])
        self.assertEqual(status["delivery"]["dropped"], 0)
        self.assertEqual(status["delivery"]["conflict"], 0)
        self.assertEqual(status["attempts"], [1])
        undisturbed = self.start_collector("undisturbed")
        self.run_agent(undisturbed, RUN, *SOURCES)
        question = ["report", RUN, "--profile", PROFILE]
        self.assertEqual(self.cli_json(self.collector, *question), self.cli_json(undisturbed, *question))
        self.assertEqual(self.cli(self.collector, *question), self.cli(undisturbed, *question))
        self.assertEqual(self.cli(self.collector, "export", RUN), self.cli(undisturbed, "export", RUN))

    def test_collector_stopped_and_started(self):
        self.write(0, 40)
        self.wait_updates(self.collector, RUN, 30)
        self.assertEqual(self.collector.stop(), 0)
        self.write(40, 60)
        self.collector = self.restart(self.collector)
        self.write(60, 84)
        self.finish()

    def test_collector_killed_while_records_arrive(self):
        for begin in (0, 20, 40, 60):
            self.write(begin, begin + 20)
            self.collector.kill()
            self.collector = self.restart(self.collector)
        self.write(80, 84)
        self.finish()

    def test_agent_stopped_and_started(self):
        self.write(0, 40)
        self.wait_updates(self.collector, RUN, 30)
        self.assertEqual(self.agents[1].stop(), 0, self.agents[1].said())
        self.write(40, 60)
        self.agents[1] = self.follow(self.targets[1])
        self.write(60, 84)
        self.finish()

    def test_agents_killed_while_records_arrive(self):
        for begin, victim in ((0, 0), (20, 1), (40, 2), (60, 0)):
            self.write(begin, begin + 20)
            self.agents[victim].kill()
            self.agents[victim] = self.follow(self.targets[victim])
        self.write(80, 84)
        self.finish()


if __name__ == "__main__":
    unittest.main()
