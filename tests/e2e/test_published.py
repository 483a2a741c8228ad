"""The published summary: every figure of tests/data/published_summary.json, to its last printed digit."""

import json
import re
import threading
import unittest

from harness import DATA, PUBLISHED, EndToEnd, append
from replay import replay

RUNS = ["run1_bs4", "run2_bs8", "run3_bs8", "run4_bs4"]
SUMMARY = json.loads((DATA / "published_summary.json").read_text())
PROFILE = PUBLISHED / "profile.toml"


def changed(step, change):
    """The lines of run2_bs8's rank 2, with change(record) made to the update of that step."""
    lines = (PUBLISHED / "run2_bs8" / "rank2.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    for record in records:
        if record.get("step") == step:
            change(record)
    return "".join(json.dumps(record) + "\n" for record in records)


class Published(EndToEnd):
    def replay_all(self, collector):
        """All four runs at once, sixteen agents, in an order that mixes the ranks of each run."""
        agents, writers = [], []
        for run in RUNS:
            sources = sorted((PUBLISHED / run).glob("rank*.jsonl"))
            targets = [self.home / f"{run}-{source.name}" for source in sources]
            agents += [self.start_agent(collector, run, target) for target in targets]
            writers.append(threading.Thread(target=replay, args=(sources, targets, run, 0.001)))
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        for run in RUNS:
            self.wait_for_run(collector, run, lambda s: s["steps_by_state"]["complete"] == 20, f"20 steps of {run}")
        for agent in agents:
            self.assertEqual(agent.stop(), 0, agent.said())

    def test_every_published_figure(self):
        collector = self.start_collector()
        self.replay_all(collector)
        report = self.cli_json(collector, "report", *RUNS, "--profile", PROFILE)
        text = self.cli(collector, "report", *RUNS, "--profile", PROFILE)
        self.assertEqual([run["run"] for run in report["runs"]], RUNS)
        for run in report["runs"]:
            with self.subTest(run["run"]):
                self.check_run(run, SUMMARY["runs"][run["run"]])
        self.check_text(text)
        self.assertTrue(report["match"]["checked"] and report["match"]["pass"], report["match"])
        self.assertTrue(report["notes"])

    def check_run(self, run, published):
        self.assertEqual(run["steps"], 20)
        self.assertEqual(run["settings"]["micro_batch"], published["micro_batch"])
        self.assertEqual(f"{run['max_rank_wall_s']:.3f}", published["max_rank_wall_s"])
        self.assertEqual(f"{run['samples_per_s']:.3f}", published["samples_per_s"])
        ratios = {ratio["name"]: f"{ratio['percent']:.2f}" for ratio in run["ratios"]}
        self.assertEqual(ratios, {"padding %": published["padding_pct"], "fallback %": published["fallback_pct"]})
        for wall in run["rank_walls"]:
            self.assertEqual(f"{wall['mean_s']:.12f}", f"{published['rank_wall_s'][str(wall['rank'])]:.12f}")
        self.assertEqual(len(run["rank_walls"]), 4)
        stream = {row["stage"]: f"{row['mean_s']:.4f}" for row in run["stages"] if row["clock"] == "stream"}
        for stage, figure in published["stages_s"].items():
            self.assertEqual(stream[stage], figure, stage)
        host = {row["stage"]: f"{row['mean_s']:.4f}" for row in run["stages"] if row["clock"] == "host"}
        self.assertEqual(host["batch_fetch_and_count"], published["cpu_batch_fetch_s"])
        self.assertEqual(run["histograms"]["frame_histogram"], SUMMARY["frames"])

    def check_text(self, text):
        """The tables as they are printed, digit by digit."""
        published = {run: SUMMARY["runs"][run] for run in RUNS}
        # "(14 of 20)": in how many steps the stage was there.
        rows = [re.sub(r"\(\d+ of \d+\)", "", line).split() for line in text.splitlines()]
        self.assertRegex(text, r"(?m)^match: PASS\b")
        keys = ["micro_batch", "max_rank_wall_s", "samples_per_s", "padding_pct", "fallback_pct"]
        for run, figures in published.items():
            self.assert_row(rows, [run] + [str(figures[key]) for key in keys])
        for stage in SUMMARY["runs"][RUNS[0]]["stages_s"]:
            self.assert_row(rows, [stage] + [figures["stages_s"][stage] for figures in published.values()])
        cpu = rows[next(i for i, row in enumerate(rows) if row[:2] == ["CPU", "batch-fetch"]) :]
        self.assert_row(
            cpu, ["batch_fetch_and_count"] + [figures["cpu_batch_fetch_s"] for figures in published.values()]
        )
        for frames, count in SUMMARY["frames"].items():
            self.assert_row(rows, [frames] + [str(count)] * len(RUNS))
        walls = rows[next(i for i, row in enumerate(rows) if row[:4] == ["Mean", "wall", "of", "each"]) :]
        for rank in "0123":
            row = next(row for row in walls if row[:1] == [rank])
            printed = [f"{float(word):.12f}" for word in row[1:]]
            self.assertEqual(printed, [f"{figures['rank_wall_s'][rank]:.12f}" for figures in published.values()])
            self.assertTrue(all(len(word) >= 15 for word in row[1:]), row)

    def assert_row(self, rows, begin):
        self.assertIn(begin, [row[: len(begin)] for row in rows])

    def test_a_changed_run_does_not_match(self):
        collector = self.start_collector()
        for run in ("run1_bs4", "run2_bs8"):
            self.run_agent(collector, run, *sorted((PUBLISHED / run).glob("rank*.jsonl")))

        def one_token_more(record):
            record["counts"]["valid_tokens"] += 1

        def another_sample(record):
            record["sample_indices"][3] += 1

        for name, step, change, what in [
            ("tokens", 17, one_token_more, "valid_tokens"),
            ("samples", 23, another_sample, "sample indices"),
        ]:
            with self.subTest(name):
                others = [PUBLISHED / "run2_bs8" / f"rank{rank}.jsonl" for rank in (0, 1, 3)]
                file = self.home / f"{name}.jsonl"
                append(file, changed(step, change))
                self.run_agent(collector, name, *others, file)
                self.check_mismatch(collector, name, what, step)

    def check_mismatch(self, collector, name, what, step):
        question = ["report", "run1_bs4", "run2_bs8", name, "--profile", PROFILE]
        report = self.cli_json(collector, *question, code=1)
        self.assertFalse(report["match"]["pass"])
        self.assertEqual(len(report["match"]["mismatches"]), 1, report["match"])
        mismatch = report["match"]["mismatches"][0]
        self.assertIn(what, mismatch["what"])
        self.assertIn(name, mismatch["where"])
        text = self.cli(collector, *question, code=1)
        self.assertRegex(text, rf"(?s)FAIL.*{what}")
        self.assertRegex(mismatch["where"], rf"step {step}\b")
        self.assertRegex(text, rf"step {step}\b")

    def test_runs_with_another_setting_do_not_match(self):
        collector = self.start_collector()
        sources = sorted((PUBLISHED / "run2_bs8").glob("rank*.jsonl"))
        self.run_agent(collector, "run2_bs8", *sources)
        others = [self.home / source.name for source in sources]
        for source, other in zip(sources, others):
            other.write_text(source.read_text().replace('"seed": 42', '"seed": 43'))
        self.run_agent(collector, "other", *others)
        report = self.cli_json(collector, "report", "run2_bs8", "other", "--profile", PROFILE, code=1)
        (mismatch,) = report["match"]["mismatches"]
        self.assertIn("seed", mismatch["what"])
        self.assertIn("43", mismatch["where"])

    def test_a_setting_that_one_rank_alone_has_is_named(self):
        collector = self.start_collector()
        sources = sorted((PUBLISHED / "run2_bs8").glob("rank*.jsonl"))
        other = self.home / "rank2.jsonl"
        other.write_text(sources[2].read_text().replace('"seed": 42', '"seed": 43'))
        self.run_agent(collector, "job", *sources[:2], other, sources[3])
        (run,) = self.cli_json(collector, "report", "job", "--profile", PROFILE)["runs"]
        self.assertEqual(run["settings_disagree"], {"seed": [2]})
        self.assertRegex(self.cli(collector, "report", "job", "--profile", PROFILE), r"seed differs on rank 2")


if __name__ == "__main__":
    unittest.main()
