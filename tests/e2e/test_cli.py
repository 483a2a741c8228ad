"""The command line: exit codes, output formats, configuration, and one daemon per data directory."""

import csv
import io
import os
import signal
import subprocess
import unittest
import urllib.error

from harness import BIN, CASES, PUBLISHED, EndToEnd, config_line, run_client, stop, strict_json, update_line, wait_until

RUN = "run2_bs8"
COPY = "run2_copy"
COMMANDS = [
    ["runs"],
    ["status", RUN],
    ["report", RUN],
    ["report", RUN, "--profile", PUBLISHED / "profile.toml"],
    ["compare", RUN, COPY],
    ["compare", "--plan", "2"],
    ["steps", RUN],
    ["step", RUN, "20"],
    ["ranks", RUN],
    ["stages", RUN],
]


class Formats(EndToEnd):
    def setUp(self):
        super().setUp()
        self.collector = self.start_collector()
        for run in (RUN, COPY):
            self.run_agent(self.collector, run, *sorted((PUBLISHED / RUN).glob("rank*.jsonl")))

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
    def test_the_ports_are_mixed_up(self):
        collector = self.start_collector()
        done = run_client("--collector", collector.ingest.replace("tcp://", "http://"), "runs")
        self.assertEqual(done.returncode, 3)
        self.assertIn("speaks no HTTP", done.stderr)
        collector.ingest = collector.http.replace("http://", "tcp://")
        file = self.home / "rank0.jsonl"
        file.write_text(config_line(0, 1))
        agent = self.start_agent(collector, "job", file)
        wait_until("a reason", lambda: "this is the port for questions" in agent.said())

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

    def test_advice_is_a_command(self):
        collector = self.start_collector()
        self.run_agent(collector, RUN, PUBLISHED / RUN / "rank0.jsonl")
        for command, advice in (
            (["status", "nobody"], "laggard runs"),
            (["status", f"{RUN}@9"], "laggard runs"),
            (["step", RUN, "99999"], "laggard steps"),
            (["stat"], "did you mean status"),
        ):
            with self.subTest(command):
                done = run_client("--collector", collector.http, *command)
                self.assertIn(advice, done.stderr)
                self.assertNotRegex(done.stderr, r"/api/|GET|\{")

    def test_a_window_without_steps(self):
        collector = self.start_collector()
        self.run_agent(collector, RUN, PUBLISHED / RUN / "rank0.jsonl")
        for command in ("steps", "stages", "report"):
            with self.subTest(command):
                done = run_client("--collector", collector.http, command, RUN, "--from", "1000")
                self.assertEqual((done.returncode, done.stdout), (4, ""))
                self.assertRegex(done.stderr, r"stored are steps \d+ to \d+")

    def test_a_reader_that_has_enough(self):
        collector = self.start_collector()
        self.run_agent(collector, RUN, PUBLISHED / RUN / "rank0.jsonl")
        for command in (f"steps {RUN}", f"export {RUN}", f"step {RUN} 20 -o json", "--help"):
            with self.subTest(command):
                script = f"{BIN}/laggard --collector {collector.http} {command} | true; echo ${{PIPESTATUS[0]}}"
                done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
                self.assertEqual((done.stdout, done.stderr), ("0\n", ""))

    def test_a_run_without_events(self):
        collector = self.start_collector()
        with self.assertRaises(urllib.error.HTTPError) as refused:
            collector.text("/api/v1/events?run=nobody")
        with refused.exception:
            self.assertEqual(refused.exception.code, 404)

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


class Import(EndToEnd):
    def setUp(self):
        super().setUp()
        self.collector = self.start_collector()

    def imported(self, *files, options=()):
        return run_client("--collector", self.collector.http, "import", "--run", "job", *options, *files)

    def test_a_file_without_a_record_is_named(self):
        empty, notes = self.home / "empty.jsonl", self.home / "notes.txt"
        empty.touch()
        notes.write_text("a line\nanother\n")
        done = self.imported(CASES / "A04" / "mixed.jsonl", empty, notes)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("empty.jsonl: the file is empty", done.stdout)
        self.assertIn("notes.txt: 2 of its 2 lines are no records", done.stdout)

    def test_what_was_left_out_is_said_in_every_form(self):
        file = CASES / "A05" / "non_object_lines.jsonl"
        reason = r"non_object_lines\.jsonl:2: no object \(the first of 4 such lines\)"
        for form, stream in (("table", "stdout"), ("json", "stdout"), ("markdown", "stdout"), ("csv", "stderr")):
            with self.subTest(form):
                done = self.imported(file, options=["-o", form])
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(getattr(done, stream).replace("\\", ""), reason)

    def test_every_record_is_there(self):
        self.assertEqual(self.imported(CASES / "A04" / "mixed.jsonl").returncode, 0)
        self.assertEqual(self.imported(CASES / "A04" / "mixed.jsonl").returncode, 0)

    def test_other_values_for_a_record_that_is_there(self):
        file = self.home / "rank0.jsonl"
        file.write_text(config_line(0, 1) + update_line(0, 1, 100.0) + update_line(0, 1, 200.0))
        done = self.imported(file)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("1 record with other values", done.stdout)

    def test_a_name_that_was_there_is_said(self):
        file = self.home / "rank0.jsonl"
        for started, new in ((1, [1]), (1, []), (2, [2]), (1, []), (3, [3])):
            file.write_text(config_line(0, 1, started_unix_ms=started) + update_line(0, 1, 100.0))
            done = self.imported(file, options=["-o", "json"])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(strict_json(done.stdout)["new_attempts"], new)
        self.assertNotIn("new is", self.imported(file).stdout)
        file.write_text(config_line(0, 1, started_unix_ms=4) + update_line(0, 1, 100.0))
        said = 'run "job" was there already, and stays as it was: new is job@4'
        self.assertIn(said, self.imported(file).stdout)

    def test_a_name_that_can_be_no_runs(self):
        done = run_client("--collector", self.collector.http, "import", "--run", "job@1", CASES / "A04" / "mixed.jsonl")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("job@1"), 1, done.stderr)

    def test_nothing_is_a_record(self):
        for text in ("epoch 1\nepoch 2\n", "[]\n"):
            file = self.home / "train.log"
            file.write_text(text)
            done = self.imported(file)
            self.assertEqual(done.returncode, 4)
            self.assertIn("none of the lines is a record", done.stderr)

    def test_the_code_does_not_depend_on_who_reads(self):
        file = CASES / "A05" / "non_object_lines.jsonl"
        command = f"{BIN}/laggard --collector {self.collector.http} import --run job {file} | true; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "1\n", done.stderr)


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

    def test_a_configuration_that_cannot_be_read(self):
        for path in (self.home / "nope.toml", self.home):
            done = self.daemon("--data", self.home / "data", "--config", path)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"cannot read {path}: ", done.stderr)

    def test_what_is_no_address_is_not_called_a_remote_one(self):
        for flag, address, like in (
            ("--ingest", "bogus", "tcp://127.0.0.1:17600"),
            ("--ingest", "127.0.0.1:17600", "tcp://127.0.0.1:17600"),
            ("--ingest", "tcp://127.0.0.1:99999", "tcp://127.0.0.1:17600"),
            ("--http", "bogus", "127.0.0.1:17601"),
        ):
            with self.subTest(address):
                command = [BIN / "laggardd", "--data", self.home / "data", flag, address]
                done = subprocess.run(command, capture_output=True, text=True, timeout=30)
                self.assertEqual(done.returncode, 2)
                self.assertIn(f'"{address}", which is no address; one is like {like}', done.stderr)
        remote = [BIN / "laggardd", "--data", self.home / "data", "--ingest", "tcp://0.0.0.0:0"]
        done = subprocess.run(remote, capture_output=True, text=True, timeout=30)
        self.assertIn("can be reached from other machines", done.stderr)

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
