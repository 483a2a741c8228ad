"""The command line: exit codes, output formats, configuration, and one daemon per data directory."""

import csv
import io
import os
import signal
import subprocess
import unittest

from harness import BIN, PUBLISHED, EndToEnd, run_client, stop, strict_json

RUN = "run2_bs8"
COMMANDS = [
    ["runs"],
    ["status", RUN],
    ["report", RUN],
    ["report", RUN, "--profile", PUBLISHED / "profile.toml"],
    ["steps", RUN],
    ["step", RUN, "20"],
    ["ranks", RUN],
    ["stages", RUN],
]


class Formats(EndToEnd):
    def setUp(self):
        super().setUp()
        self.collector = self.start_collector()
        self.run_agent(self.collector, RUN, *sorted((PUBLISHED / RUN).glob("rank*.jsonl")))

    def each(self, check, *options):
        """check(the output) for every command."""
        for command in COMMANDS:
            with self.subTest(command=" ".join(map(str, command))):
                check(self.cli(self.collector, *command, *options))

    def test_json(self):
        self.each(lambda text: self.assertIsInstance(strict_json(text), dict), "-o", "json")

    def test_jsonl(self):
        def check(text):
            self.assertTrue(text)
            for line in text.splitlines():
                self.assertIsInstance(strict_json(line), dict)

        self.each(check, "-o", "jsonl")

    def test_csv(self):
        def check(text):
            rows = list(csv.reader(io.StringIO(text)))
            self.assertGreater(len(rows), 1)
            self.assertEqual({len(row) for row in rows}, {len(rows[0])})

        self.each(check, "-o", "csv")

    def test_markdown(self):
        def check(text):
            tables = [block.splitlines() for block in text.split("\n\n") if block.lstrip().startswith("|")]
            self.assertTrue(tables, text)
            for table in tables:
                self.assertEqual(len({line.replace("\\|", "").count("|") for line in table}), 1, table)
                self.assertRegex(table[1], r"^\|[ :|-]+\|$")

        self.each(check, "-o", "markdown")

    def test_no_colour_in_a_pipe(self):
        self.each(lambda text: self.assertNotIn("\x1b", text))

    def test_export_gives_the_records_back(self):
        """Every number bit for bit, and every key that an update had."""
        written = []
        for file in sorted((PUBLISHED / RUN).glob("rank*.jsonl")):
            written += [strict_json(line) for line in file.read_text().splitlines()]
        exported = self.export(self.collector, RUN)
        for kind in ("config", "update"):
            order = {"key": lambda record: (record["rank"], record.get("step", 0))}
            ours = sorted((record for record in exported if record["type"] == kind), **order)
            theirs = sorted((record for record in written if record["type"] == kind), **order)
            self.assertEqual(len(ours), len(theirs))
            for our, their in zip(ours, theirs):
                self.assertEqual(our, {**our, **their})

    def test_an_export_can_be_imported(self):
        again = self.home / "again.jsonl"
        again.write_text(self.cli(self.collector, "export", RUN))
        self.cli(self.collector, "import", "--run", "again", again)
        question = ["steps", RUN]
        steps = self.cli_json(self.collector, *question)["steps"]
        self.assertEqual(self.cli_json(self.collector, "steps", "again")["steps"], steps)


class ExitCodes(EndToEnd):
    def test_unknown_run(self):
        collector = self.start_collector()
        for command in (["status", "nobody"], ["report", "nobody"], ["steps", "nobody"], ["export", "nobody"]):
            with self.subTest(command):
                done = run_client("--collector", collector.http, *command)
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertIn("nobody", done.stderr)

    def test_unknown_step(self):
        collector = self.start_collector()
        self.run_agent(collector, RUN, PUBLISHED / RUN / "rank0.jsonl")
        self.assertEqual(run_client("--collector", collector.http, "step", RUN, "99999").returncode, 4)

    def test_usage(self):
        for arguments in (["nonsense"], ["step", "run"], ["runs", "-o", "xml"], ["report"], []):
            with self.subTest(arguments):
                done = run_client("--collector", "http://127.0.0.1:1", *arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertTrue(done.stderr)

    def test_unreachable(self):
        collector = self.start_collector()
        self.assertEqual(collector.stop(), 0)
        done = run_client("--collector", collector.http, "runs")
        self.assertEqual(done.returncode, 3)
        self.assertIn(collector.http.removeprefix("http://"), done.stderr)

    def test_help(self):
        for program in ("laggard", "laggardd", "laggard-agent"):
            done = subprocess.run([BIN / program, "--help"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0)
            self.assertIn("--", done.stdout)


class Daemon(EndToEnd):
    def daemon(self, *arguments, environment=None):
        command = [BIN / "laggardd", *map(str, arguments)]
        ports = ["--ingest", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0"]
        return subprocess.run(
            command + ports,
            capture_output=True,
            text=True,
            timeout=30,
            env={**os.environ, **(environment or {})},
        )

    def test_one_ready_line_healthy_and_a_clean_stop(self):
        collector = self.start_collector()
        self.assertRegex(collector.ingest, r"^tcp://127\.0\.0\.1:[1-9]\d*$")
        self.assertRegex(collector.http, r"^http://127\.0\.0\.1:[1-9]\d*$")
        collector.text("/-/healthy")
        collector.text("/-/ready")
        self.assertEqual(stop(collector.process), 0)
        self.assertEqual(collector.process.stdout.read(), "")

    def test_sigint_is_a_clean_stop_too(self):
        collector = self.start_collector()
        collector.process.send_signal(signal.SIGINT)
        self.assertEqual(collector.process.wait(20), 0)

    def test_a_second_daemon_on_the_same_data_is_refused(self):
        collector = self.start_collector()
        done = self.daemon("--data", collector.data)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        self.assertIn(collector.data, done.stderr)
        collector.text("/-/healthy")

    def test_an_unknown_key_of_the_configuration_is_an_error(self):
        config = self.home / "laggardd.toml"
        config.write_text('overdue_after_sm = 5\n')
        done = self.daemon("--data", self.home / "data", "--config", config)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("overdue_after_sm", done.stderr)

    def test_flag_before_environment_before_file(self):
        config = self.home / "laggardd.toml"
        config.write_text(f'data = "{self.home}/from-file"\n')
        for environment, flags, expected in [
            ({}, [], "from-file"),
            ({"LAGGARD_DATA": f"{self.home}/from-environment"}, [], "from-environment"),
            (
                {"LAGGARD_DATA": f"{self.home}/from-environment"},
                ["--data", self.home / "from-flag"],
                "from-flag",
            ),
        ]:
            with self.subTest(expected):
                command = [BIN / "laggardd", "--config", config, *flags]
                ports = ["--ingest", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0"]
                process = subprocess.Popen(
                    command + ports, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
                )
                self.addCleanup(process.kill)
                with process.stdout:
                    self.assertIn(f"data {self.home}/{expected}", process.stdout.readline())
                self.assertEqual(stop(process), 0)


if __name__ == "__main__":
    unittest.main()
