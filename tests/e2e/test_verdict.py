"""Who holds the job back: the public what-if traces, the A14 case, a live job, a collector killed in between."""

import json
import unittest

from harness import CASES, DATA, EndToEnd, append, config_line, update_line

TRACES = DATA / "whatif_traces"
RANKS = 8


def step_lines(step, own_ms):
    """One step of every rank: it computes, then all wait for the slowest in an all_reduce of 20 ms."""
    longest = max(own_ms)
    for rank, own in enumerate(own_ms):
        stages = {"forward": own * 0.4, "backward": own * 0.6, "all_reduce": longest - own + 20.0}
        yield update_line(rank, step, longest + 20.0, stages)


class Verdict(EndToEnd):
    def imported(self, collector, run, files):
        self.cli(collector, "import", "--run", run, *sorted(files))
        return self.cli_json(collector, "verdict", run)["verdict"]

    def test_the_public_traces(self):
        """S within 10 % of the full replay, AR's one bad worker, ST's last pipeline stage."""
        collector = self.start_collector()
        for trace in ("AR", "ST"):
            truth = json.loads((TRACES / trace / "truth.json").read_text())
            verdict = self.imported(collector, trace, (TRACES / trace).glob("rank*.jsonl"))
            self.assertLess(abs(verdict["slowdown"] / truth["slowdown"] - 1), 0.10, trace)
        bad_worker = self.cli_json(collector, "verdict", "AR")["verdict"]
        self.assertEqual((bad_worker["kind"], bad_worker["held"]["ranks"]), ("one_rank", [0]))
        self.assertEqual(bad_worker["held"]["share"], 1.0)
        self.assertEqual(bad_worker["held"]["stage"], "backward-compute")
        last_stage = self.cli_json(collector, "verdict", "ST")["verdict"]
        self.assertEqual(last_stage["kind"], "one_group")
        self.assertEqual(last_stage["held"]["group"], {"key": "pp", "value": "3"})

    def test_what_hides_inside_backward_is_nobodys(self):
        collector = self.start_collector()
        slow = self.imported(collector, "slow", [CASES / "A14" / "forward_slow.jsonl"])
        self.assertEqual((slow["kind"], slow["held"]["ranks"], slow["held"]["stage"]), ("one_rank", [2], "forward_and_loss"))
        self.assertAlmostEqual(slow["held"]["stage_excess_ms"], 1500.0, places=2)
        hidden = self.imported(collector, "hidden", [CASES / "A14" / "inside_backward.jsonl"])
        self.assertEqual((hidden["kind"], hidden["held"], hidden["outside"]), ("inside_sync", None, None))
        self.assertIn("nobody can be named", hidden["sentence"])

    def test_who_sleeps_outside_of_all_stages_is_told(self):
        file = self.home / "job.jsonl"
        append(file, "".join(config_line(rank, 4) for rank in range(4)))
        for step in range(1, 41):
            for rank in range(4):
                stages = {"forward": 30.0, "all_reduce": 10.0 if rank == 2 else 60.0}
                append(file, update_line(rank, step, 90.0, stages))
        verdict = self.imported(self.start_collector(), "job", [file])
        self.assertEqual((verdict["kind"], verdict["held"]), ("inside_sync", None))
        self.assertEqual(verdict["outside"], {"ranks": [2], "rank_count": 1, "least_ms": 50.0, "most_ms": 50.0})
        self.assertIn("the stages of rank 2 cover 50 ms less of each step than the usual rank's", verdict["sentence"])

    def test_live_and_after_a_kill(self):
        """Named on screen, in the events' sentence and on /metrics within twenty steps; the same after SIGKILL."""
        collector = self.start_collector()
        file = self.home / "job.jsonl"
        append(file, "".join(config_line(rank, RANKS) for rank in range(RANKS)))
        self.start_agent(collector, "job", file)
        even = [400.0 + rank % 3 for rank in range(RANKS)]
        slow = [*even[:5], 480.0, *even[6:]]
        for step in range(1, 61):
            append(file, "".join(step_lines(step, even)))
        verdict = self.verdict_when(collector, "job", lambda v: v["steps"] == 50)
        self.assertEqual((verdict["kind"], verdict["from"]), ("balanced", 11))
        self.assertNotIn("laggard_straggler_excess_seconds{", collector.text("/metrics"))
        for step in range(61, 81):
            append(file, "".join(step_lines(step, slow)))
        verdict = self.verdict_when(collector, "job", lambda v: v["to"] == 80)
        self.assertEqual((verdict["kind"], verdict["held"]["ranks"], verdict["held"]["since"]), ("one_rank", [5], 61))
        self.assertIn("rank 5 (", verdict["sentence"])
        self.assertIn("since step 61: backward +47 ms of 500 ms (9.5 %)", verdict["sentence"])
        self.assertIn(verdict["sentence"], self.cli(collector, "status", "job"))
        self.assertIn('{run="job",straggler="rank 5",stage="backward"}', collector.text("/metrics"))

        collector.kill()
        collector = self.restart(collector)
        again = self.verdict_when(collector, "job", lambda v: v["to"] == 80)
        self.assertEqual(again, verdict)

        for step in range(81, 100):
            append(file, "".join(step_lines(step, even)))
        verdict = self.verdict_when(collector, "job", lambda v: v["to"] == 99)
        self.assertEqual((verdict["kind"], verdict["held"]["ranks"]), ("one_rank", [5]))
        self.assertEqual((verdict["held"]["since"], verdict["held"]["until"]), (61, 81))
        self.assertNotIn("laggard_straggler_excess_seconds{", collector.text("/metrics"))
        self.cli(collector, "verdict", "job", "--fail-on", "1%", code=1)
        self.cli(collector, "verdict", "job", "--fail-on", "30%", code=0)
        self.cli(collector, "verdict", "job", "--from", "1000", code=4)
        self.cli(collector, "verdict", "job", "--fail-on", "lots", code=2)

    def test_a_run_that_was_over_before_a_restart(self):
        """Its own times are in storage alone: status says so, and laggard verdict reads them."""
        collector = self.start_collector()
        before = self.imported(collector, "slow", [CASES / "A14" / "forward_slow.jsonl"])
        self.assertIn(before["sentence"], self.cli(collector, "status", "slow"))
        self.assertEqual(collector.stop(), 0)
        collector = self.restart(collector)
        self.assertIn("no verdict kept: the run was over when this collector started", self.cli(collector, "status", "slow"))
        self.assertEqual(self.cli_json(collector, "verdict", "slow")["verdict"], before)

    def verdict_when(self, collector, run, is_there):
        status = self.wait_for_run(collector, run, lambda s: s["verdict"] and is_there(s["verdict"]), "the verdict")
        return status["verdict"]


if __name__ == "__main__":
    unittest.main()
