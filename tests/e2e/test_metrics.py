"""/metrics as Prometheus sees it: a real scrape, a clean page, names that survive (A19), stable series (A20)."""

import json
import subprocess
import unittest
import urllib.error
import urllib.parse
import urllib.request

from harness import CASES, EndToEnd, append, config_line, spawn, stop, strict_json, update_line, wait_until
from prometheus_text import parse

SCRAPE = """
global: {{scrape_interval: 250ms, scrape_timeout: 250ms}}
scrape_configs:
  - job_name: laggard
    static_configs: [{{targets: ["{target}"]}}]
"""
FORBIDDEN_LABELS = {"step", "host", "port", "pid", "time", "path", "file", "sample", "address"}


def labels_of(samples):
    return {label for _, labels in samples for label, _ in labels}


def series_of(samples, run):
    return {key for key in samples if ("run", run) in key[1]}


class Metrics(EndToEnd):
    def samples(self, collector):
        return parse(collector.text("/metrics"))

    def value(self, collector, name, **labels):
        """The value of a series, None without it."""
        return self.samples(collector).get((name, frozenset(labels.items())))

    def begin(self, collector, run, steps):
        """A run of four ranks that has done these steps and goes on."""
        files = [self.home / f"{run}-rank{rank}.jsonl" for rank in range(4)]
        for rank, file in enumerate(files):
            append(file, config_line(rank, 4))
            append(file, "".join(update_line(rank, step, 1000.0 + 100 * rank) for step in steps))
        self.start_agent(collector, run, *files)
        self.wait_for_run(
            collector, run, lambda s: s["steps_by_state"]["complete"] == len(steps), f"{len(steps)} steps of {run}"
        )

    def start_prometheus(self, collector):
        """Prometheus on a port of its own choice; returns its address."""
        config = self.home / "prometheus.yml"
        config.write_text(SCRAPE.format(target=collector.http.removeprefix("http://")))
        log = self.home / "prometheus.log"
        with open(log, "wb") as output:
            process = spawn(
                ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.home}/tsdb"]
                + ["--web.listen-address=127.0.0.1:0", "--log.format=json"],
                stdout=output,
                stderr=output,
            )
        self.addCleanup(stop, process)

        def address():
            entries = [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("}\n")]
            found = [entry["address"] for entry in entries if entry.get("msg") == "Listening on"]
            return found[0] if found else None

        return "http://" + wait_until("Prometheus to listen", address)

    def query(self, prometheus, expression):
        url = f"{prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(url) as answer:
                return strict_json(answer.read())["data"]["result"]
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 503:  # it is still starting
                return []
            raise

    def test_prometheus_scrapes_and_answers(self):
        collector = self.start_collector()
        self.begin(collector, "job", range(1, 6))
        prometheus = self.start_prometheus(collector)
        for expression, expected in [
            ('laggard_last_step{run="job"}', 5),
            ('laggard_step_wall_seconds{run="job",stat="max"}', 1.3),
            ('laggard_step_wall_seconds{run="job",stat="median"}', 1.15),
            ('laggard_slowest_rank{run="job"}', 3),
            ('sum(laggard_ranks_expected)', 4),
            ('up{job="laggard"}', 1),
        ]:
            with self.subTest(expression):
                result = wait_until(f"an answer to {expression}", lambda: self.query(prometheus, expression))
                self.assertEqual([float(sample["value"][1]) for sample in result], [expected])

    def test_the_page_is_clean(self):
        collector = self.start_collector()
        self.begin(collector, "job", range(1, 6))
        page = collector.text("/metrics")
        check = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True)
        self.assertEqual((check.returncode, check.stdout, check.stderr), (0, "", ""))
        names = {name for name, _ in parse(page)}
        self.assertTrue(all(name.startswith("laggard_") for name in names), names)
        self.assertFalse(labels_of(parse(page)) & FORBIDDEN_LABELS)

    def test_names_survive_the_text_format(self):
        """A19: every stage name comes back unchanged, through our own reader and through Prometheus itself."""
        expected = json.loads((CASES / "A19" / "expected.json").read_text())["label_values_after_parsing"]
        collector = self.start_collector()
        self.start_agent(collector, "job", CASES / "A19" / "names.jsonl")
        self.wait_updates(collector, "job", 1)
        found = {
            dict(labels)["stage"]: round(value * 1000, 9)
            for (name, labels), value in self.samples(collector).items()
            if name == "laggard_stage_seconds" and {("clock", "stream"), ("stat", "max")} <= labels
        }
        self.assertEqual(found, expected)
        prometheus = self.start_prometheus(collector)
        expression = 'laggard_stage_seconds{clock="stream",stat="max"}'
        result = wait_until("the stages", lambda: self.query(prometheus, expression))
        self.assertEqual({sample["metric"]["stage"] for sample in result}, set(expected))

    def test_series_depend_on_the_stages_alone_and_end_with_the_run(self):
        """A20, the parts about steps and about the end of a run."""
        collector = self.start_collector()
        self.begin(collector, "job", range(1, 51))
        after_50 = series_of(self.samples(collector), "job")
        self.assertTrue(after_50)
        self.begin(collector, "long", range(1, 5001))
        after_5000 = series_of(self.samples(collector), "long")
        rename = {(name, frozenset(labels - {("run", "long")} | {("run", "job")})) for name, labels in after_5000}
        self.assertEqual(rename, after_50)
        self.cli(collector, "close", "job")
        wait_until("the series of a closed run to go", lambda: not series_of(self.samples(collector), "job"))
        self.assertTrue(series_of(self.samples(collector), "long"))

    def test_a_stopped_rank_is_not_frozen_at_its_last_value(self):
        """A20, the part about rank 2."""
        collector = self.start_collector(config={"overdue_after_ms": 200, "overdue_factor": 0.001})
        files = [self.home / f"rank{rank}.jsonl" for rank in range(4)]
        for rank, file in enumerate(files):
            append(file, config_line(rank, 4))
            self.start_agent(collector, "job", file)
        for step in range(1, 51):
            for rank, file in enumerate(files):
                if rank != 2 or step <= 20:
                    append(file, update_line(rank, step, 1000.0 + rank))
        expected = {"expected": 4, "reporting": 3, "silent": 1, "missing": 1}

        def shown():
            found = {word: self.value(collector, f"laggard_ranks_{word}", run="job") for word in expected}
            return found == expected

        wait_until(f"ranks {expected}", shown)
        samples = parse(collector.text("/metrics?ranks=1"))
        walls = {dict(labels)["rank"] for name, labels in samples if name == "laggard_rank_wall_seconds"}
        self.assertEqual(walls, {"0", "1", "3"})

    def test_ten_thousand_stage_names_hit_caps_that_are_counted(self):
        """A20, the part about invented names: on the page, and in the collector."""
        collector = self.start_collector()
        file = self.home / "rank0.jsonl"
        append(file, config_line(0, 1))
        for step in range(1, 21):
            append(file, update_line(0, step, 1.0, {f"stage_{step}_{i}": 1.0 for i in range(500)}))
        self.start_agent(collector, "job", file)
        self.wait_updates(collector, "job", 20)
        self.assertLessEqual(len(collector.get("/api/v1/runs/job/stages")["stages"]), 512)
        self.assertTrue(self.run_status(collector, "job")["warnings"])
        append(file, update_line(0, 21, 1.0, {f"stage_1_{i}": 1.0 for i in range(500)}))
        self.wait_updates(collector, "job", 21)
        samples = self.samples(collector)
        stages = {dict(labels)["stage"] for _, labels in samples if "stage" in dict(labels)}
        self.assertEqual(len(stages), 200)
        self.assertGreater(self.value(collector, "laggard_series_dropped_total", reason="stages"), 0)


if __name__ == "__main__":
    unittest.main()
