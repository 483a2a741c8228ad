"""Runs that begin again, and ranks that die, through agents that follow files (cases A01, A02, A03, A08)."""

import unittest

from harness import CASES, EndToEnd, append, config_line, update_line, wait_until


def lines_of(case, name):
    return (CASES / case / name).read_text().splitlines(keepends=True)


class Attempts(EndToEnd):
    def test_resume_in_the_same_files(self):
        """A01 as it happens: six steps, then a new config and step 4 again."""
        collector = self.start_collector()
        files = [self.home / f"rank{rank}.jsonl" for rank in (0, 1)]
        texts = [lines_of("A01", file.name) for file in files]
        agents = [self.start_agent(collector, "job", file) for file in files]
        for file, lines in zip(files, texts):
            append(file, "".join(lines[:7]))
        self.wait_for_run(collector, "job", lambda s: s["steps_by_state"]["complete"] == 6, "six complete steps")
        for file, lines in zip(files, texts):
            append(file, "".join(lines[7:]))
        status = self.wait_for_run(
            collector, "job", lambda s: s["attempt"] == 2 and s["steps_by_state"]["complete"] == 5, "a second attempt"
        )
        self.assertEqual(status["delivery"]["conflict"], 0)
        self.assertEqual(self.rows(collector, 2), [(step, 14001.0 + step) for step in (4, 5, 6, 7, 8)])
        self.assertEqual([step for step, _ in self.rows(collector, 1)], [1, 2, 3, 4, 5, 6])
        for agent in agents:
            self.assertEqual(agent.stop(), 0, agent.said())

    def rows(self, collector, attempt):
        steps = collector.get(f"/api/v1/runs/job/steps?attempt={attempt}")["steps"]
        return [(step["step"], step["wall"]["max_ms"]) for step in steps]

    def test_elastic_restart_with_fewer_ranks(self):
        """A02: four processes end, two others take over ranks 0 and 1 in files of their own."""
        collector = self.start_collector()
        for rank in range(4):
            self.run_agent(collector, "job", CASES / "A02" / f"a1_rank{rank}.jsonl")
        for rank in range(2):
            self.run_agent(collector, "job", CASES / "A02" / f"a2_rank{rank}.jsonl")
        status = self.wait_for_run(
            collector, "job", lambda s: s["attempt"] == 2 and s["steps_by_state"]["complete"] == 2, "attempt 2 complete"
        )
        self.assertEqual((status["world_size"], status["attempts"]), (2, [1, 2]))
        self.assertEqual(status["silent_ranks"], [])
        self.assertEqual(self.rows(collector, 1), [(1, 15030.0), (2, 15030.0), (3, 15030.0)])
        self.assertEqual(self.rows(collector, 2), [(3, 20005.0), (4, 20005.0)])

    def test_an_attempt_that_goes_on_beside_a_newer_one(self):
        """Rank 0 begins again, the others do not: the newest attempt is shown, and that there is another one."""
        collector = self.start_collector()
        files = [self.home / f"rank{rank}.jsonl" for rank in range(3)]
        for rank, file in enumerate(files):
            append(file, config_line(rank, 3) + update_line(rank, 1, 100.0) + update_line(rank, 2, 100.0))
        for file in files:
            self.start_agent(collector, "job", file)
        self.wait_for_run(collector, "job", lambda s: s["steps_by_state"]["complete"] == 2, "two steps")
        append(files[0], config_line(0, 3) + update_line(0, 1, 100.0))
        self.wait_for_run(collector, "job", lambda s: s["attempt"] == 2, "attempt 2")
        for rank in (1, 2):
            append(files[rank], update_line(rank, 3, 100.0))
        status = self.wait_for_run(
            collector, "job", lambda s: s["other_attempts"] and s["other_attempts"][0]["reporting"] == 2, "the other one"
        )
        self.assertEqual([other["attempt"] for other in status["other_attempts"]], [1])
        self.assertIn(
            "attempt 1 is still receiving (2 ranks): laggard status job@1", self.cli(collector, "status", "job")
        )
        self.assertNotIn("silent", self.cli(collector, "status", "job@1"))
        history = self.cli_json(collector, "status", "job@1")["history"]
        self.assertEqual([point["near_tie"] for point in history][:2], [True, True])
        ranks = self.cli_json(collector, "ranks", "job@1")["ranks"]
        self.assertEqual([rank["state"] for rank in ranks], ["ended", "live", "live"])

    def steps_with(self, collector, number, state):
        """All steps of the run, once this one is stored in this state: a live view knows it a commit earlier."""

        def met():
            answer = self.answer(collector, "/api/v1/runs/job/steps") or {"steps": []}
            steps = {step["step"]: step for step in answer["steps"]}
            return steps if number in steps and steps[number]["state"] == state else None

        return wait_until(f"step {number} {state}", met)

    def test_a_late_record_makes_a_partial_step_whole(self):
        """A08, the third file, live: only step 2 changes."""
        collector = self.start_collector(config={"overdue_after_ms": 200, "overdue_factor": 0.001})
        file = self.home / "all.jsonl"
        lines = lines_of("A08", "rank3_step2_last.jsonl")
        agent = self.start_agent(collector, "job", file)
        append(file, "".join(lines[:-1]))
        before = self.steps_with(collector, 2, "partial")
        self.assertEqual((before[2]["missing"], before[2]["slowest_of_partial"]), ([3], True))
        append(file, lines[-1])
        after = self.steps_with(collector, 2, "late_completed")
        self.assertEqual((after[2]["slowest_rank"], after[2]["wall"]["max_ms"]), (3, 99000.0))
        self.assertEqual(after[2]["state"], "late_completed")
        self.assertEqual([step for step in after if after[step] != before[step]], [2])
        self.assertEqual(agent.stop(), 0, agent.said())


if __name__ == "__main__":
    unittest.main()
