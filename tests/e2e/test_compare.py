"""laggard compare on the published runs: what their author found comes out, and a failed match marks everything."""

import csv
import io
import json
import subprocess
import unittest

from harness import BIN, DATA, PUBLISHED, EndToEnd, config_line, update_line

SUMMARY = json.loads((DATA / "published_summary.json").read_text())["runs"]
BASE, NEW = ["run1_bs4", "run4_bs4"], ["run2_bs8", "run3_bs8"]
PROFILE = PUBLISHED / "profile.toml"
HOUR_MS = 3_600_000


def mean(runs, read):
    return sum(float(read(SUMMARY[run])) for run in runs) / len(runs)


class Compare(EndToEnd):
    def published(self):
        collector = self.start_collector()
        for run in BASE + NEW:
            self.run_agent(collector, run, *sorted((PUBLISHED / run).glob("rank*.jsonl")))
        return collector

    def small_run(self, collector, name, forward_ms, hour, **settings):
        """One rank, steps 11 to 30; the walls go up and down by 2 ms."""
        file = self.home / f"{name}.jsonl"
        lines = [config_line(0, 1, started_unix_ms=hour * HOUR_MS, first_step=11, **settings)]
        for step in range(11, 31):
            forward = forward_ms + (step * 7 + hour * 3) % 5 - 2
            lines.append(update_line(0, step, forward + 50, {"forward": forward, "optimizer": 50}))
        file.write_text("".join(lines))
        self.run_agent(collector, name, file)

    def test_what_the_author_of_the_published_runs_found(self):
        collector = self.published()
        asked = ["compare", ",".join(BASE), ",".join(NEW), "--profile", PROFILE]
        answer = self.cli_json(collector, *asked)
        self.assertTrue(answer["match"]["pass"], answer["match"])
        wall = answer["rows"][0]
        self.assertEqual(f"{wall['difference']:.3f}", "0.687")
        self.assertAlmostEqual(wall["base"], mean(BASE, lambda run: run["max_rank_wall_s"]), 9)
        self.check_stages({row["stage"]: row for row in answer["rows"] if row["clock"] == "stream"})
        self.assertEqual(answer["causes"][0]["stage"], "geometry_total")
        counts = {count["name"]: (f"{count['base']:.2f}", f"{count['new']:.2f}") for count in answer["counts"]}
        self.assertEqual(counts["fallback %"], ("40.00", "73.75"))
        self.check_forms(collector, asked)

    def check_stages(self, rows):
        for stage, row in rows.items():
            if stage in SUMMARY[BASE[0]]["stages_s"]:
                base = mean(BASE, lambda run, stage=stage: run["stages_s"][stage])
                new = mean(NEW, lambda run, stage=stage: run["stages_s"][stage])
                # Published with four digits.
                self.assertAlmostEqual(row["difference"], new - base, delta=1e-4, msg=stage)
        named = {stage: f"{row['difference']:+.3f}" for stage, row in rows.items() if row["cause"]}
        self.assertEqual(
            named,
            {
                "geometry_total": "+0.731",
                "backward_and_communication": "+0.051",
                "language_forward": "-0.051",
                "micro_step_total_other": "-0.031",
                "vision_forward": "-0.010",
            },
        )
        for stage in ("batch_fetch_and_count", "deepspeed_step"):
            self.assertEqual(rows[stage]["finding"], "inside", stage)
        self.assertEqual(f"{rows['vggt_single']['difference']:+.3f}", "+1.954")
        self.assertEqual(f"{rows['vggt_batched']['difference']:+.3f}", "-1.224")

    def check_forms(self, collector, asked):
        for form in ("table", "markdown"):
            text = self.cli(collector, *asked, "-o", form)
            self.assertRegex(text, r"(?m)^match: PASS")
            self.assertIn("New is slower by 0.687 s a step", text)
            self.assertRegex(text, r"geometry(\\)?_total carries it: \+0\.731 s .*1\.954.*-1\.224")
        rows = list(csv.DictReader(io.StringIO(self.cli(collector, *asked, "-o", "csv"))))
        self.assertEqual({row["match"] for row in rows}, {"pass"})
        self.assertEqual(rows[0]["name"], "max_rank_wall")
        # The interval is +3.2 to +6.1 %.
        for limit, code in (("3%", 1), ("4%", 0), ("7", 0)):
            self.cli(collector, *asked, "--fail-on", limit, code=code)

    def test_a_failed_match_marks_every_figure(self):
        collector = self.published()
        asked = ["compare", BASE[0], NEW[0]]  # without the profile, the batch's size may not differ
        answer = self.cli_json(collector, *asked, code=6)
        self.assertIn("setting micro_batch", [mismatch["what"] for mismatch in answer["match"]["mismatches"]])
        self.assertEqual({row["comparable"] for row in answer["rows"]}, {False})
        self.assertEqual(answer["causes"], [])
        for form in ("csv", "jsonl"):
            for line in self.cli(collector, *asked, "-o", form, code=6).splitlines()[form == "csv" :]:
                self.assertIn("FAIL", line)
        for form in ("table", "markdown"):
            text = self.cli(collector, *asked, "-o", form, "--fail-on", "1%", code=6)
            self.assertRegex(text, r"(?m)^match: FAIL")
            self.assertRegex(text, r"max-rank wall, s\W+FAIL")
            self.assertRegex(text, r"forward\W+FAIL")

    def test_order_is_judged_by_start_times(self):
        collector = self.start_collector()
        for name, forward, hour in (("a1", 100, 1), ("a2", 101, 4), ("b1", 130, 2), ("b2", 131, 3), ("b3", 131, 5)):
            self.small_run(collector, name, forward, hour)
        balanced = self.cli_json(collector, "compare", "a1,a2", "b1,b2")
        self.assertEqual(balanced["order"], {"known_from": "started_unix_ms", "pattern": "ABBA", "drift": "cancels"})
        self.assertEqual([cause["stage"] for cause in balanced["causes"]], ["forward"])
        late = self.cli_json(collector, "compare", "a1,a2", "b3")
        self.assertEqual(late["order"]["drift"], "confounded")
        self.assertIn("passes for an effect", self.cli(collector, "compare", "a1,a2", "b3"))

    def test_one_run_a_side_says_what_was_not_measured(self):
        collector = self.start_collector()
        self.small_run(collector, "a", 100, 1)
        self.small_run(collector, "b", 130, 2)
        answer = self.cli_json(collector, "compare", "a", "b")
        self.assertIs(answer["method"]["run_to_run_measured"], False)
        self.assertEqual(answer["method"]["blocks_base"], 5)
        self.assertEqual(answer["causes"], [])
        self.assertIn("Run-to-run variation was not measured", self.cli(collector, "compare", "a", "b"))

    def test_questions_that_cannot_be_answered(self):
        collector = self.start_collector()
        self.small_run(collector, "a", 100, 1)
        self.small_run(collector, "b", 130, 2)
        for arguments, code in (
            (["a", "c"], 4),
            (["a", "a"], 2),
            (["a", "b", "--from", "100"], 4),
            (["a", ",b"], 2),
            (["a"], 2),
            (["a", "b", "--fail-on", "some"], 2),
        ):
            with self.subTest(arguments):
                self.assertEqual(self.cli(collector, "compare", *arguments, code=code), "")

    def test_a_plan_needs_no_collector(self):
        done = subprocess.run(
            [BIN / "laggard", "--collector", "http://127.0.0.1:1", "compare", "--plan", "4"],
            capture_output=True,
            text=True,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("ABBA BAAB", done.stdout)


if __name__ == "__main__":
    unittest.main()
