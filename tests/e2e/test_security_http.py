"""Who gets an answer over HTTP: the token, TLS, and what strangers learn."""

import json
import os
import re
import socket
import ssl
import subprocess
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from certificates import Authority
from harness import BIN, EndToEnd, append, config_line, run_client, spawn, update_line, wait_until

READS = [
    "/api/v1/status",
    "/api/v1/runs",
    "/api/v1/runs/job",
    "/api/v1/runs/job/steps",
    "/api/v1/runs/job/export",
    "/api/v1/events",
    "/metrics",
]
WRONG = "0" * 64


class Answer:
    """What came of one request, with the Authorization field that is given."""

    def __init__(self, collector, path, authorization=None, method="GET", body=None, tls=None):
        request = urllib.request.Request(collector.http + path, method=method, data=body)
        if authorization is not None:
            request.add_header("Authorization", authorization)
        try:
            with urllib.request.urlopen(request, timeout=60, context=tls) as answer:
                self.status, self.fields = answer.status, answer.headers
                # A stream of events has no end.
                self.body = b"" if path.endswith("/events") else answer.read()
        except urllib.error.HTTPError as refused:
            with refused:
                self.status, self.fields, self.body = refused.code, refused.headers, refused.read()


class Http(EndToEnd):
    def setUp(self):
        super().setUp()
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("LAGGARD_")}

    def secret(self, text, name="token", mode=0o600):
        file = self.home / name
        file.write_text(text)
        file.chmod(mode)
        return file

    def token_of(self, collector):
        return (Path(collector.data) / "admin.token").read_text().strip()

    def start_reachable(self, **options):
        """A collector that listens on every address of this machine; asked by its loopback one."""
        collector = self.start_collector(http="0.0.0.0:0", **options)
        collector.http = collector.http.replace("0.0.0.0", "127.0.0.1")
        return collector

    def with_job(self, collector):
        file = self.home / "rank0.jsonl"
        file.write_text(config_line(0, 1) + update_line(0, 1, 100.0))
        self.run_agent(collector, "job", file)
        return collector

    def client(self, collector, *arguments, **environment):
        return run_client("--collector", collector.http, *arguments, env={**self.environment, **environment})

    def refused_daemon(self, *arguments):
        """A daemon that does not start, and the one sentence that says why."""
        command = [BIN / "laggardd", "--data", self.home / "refused", "--ingest", "tcp://127.0.0.1:0", *arguments]
        if "--http" not in arguments:
            command += ["--http", "127.0.0.1:0"]
        command = list(map(str, command))
        options = {"capture_output": True, "text": True, "timeout": 60, "stdin": subprocess.DEVNULL}
        done = subprocess.run(command, env=self.environment, **options)
        self.assertIn(done.returncode, (1, 2), done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        said = [line for line in done.stderr.splitlines() if line.startswith("laggardd: ")]
        self.assertEqual(len(said), 1, done.stderr)
        return said[0]


class Token(Http):
    def test_on_this_machine_reading_needs_none(self):
        collector = self.with_job(self.start_collector())
        for path in READS:
            self.assertEqual(Answer(collector, path).status, 200, path)
        report = Answer(collector, "/api/v1/report", method="POST", body=b'{"runs": ["job"]}')
        self.assertEqual(report.status, 200, report.body)
        self.assertEqual(self.client(collector, "status", "job").returncode, 0)

    def test_closing_a_run_needs_it_even_on_this_machine(self):
        collector = self.with_job(self.start_collector())
        path = "/api/v1/runs/job/close"
        token = self.token_of(collector)
        wrong = [None, "", "Bearer", "Bearer ", f"Bearer {WRONG}", f"Basic {token}", token, f"Bearer {token[:-1]}"]
        for authorization in [*wrong, f"Bearer {token}x"]:
            with self.subTest(authorization):
                answer = Answer(collector, path, authorization, method="POST")
                self.assertEqual(answer.status, 401)
                self.assertEqual(answer.fields["WWW-Authenticate"], 'Bearer realm="laggard"')
                error = json.loads(answer.body)["error"]
                self.assertEqual(error["code"], "unauthorized")
                self.assertIn("token", error["message"])
                self.assertIn("Authorization", error["advice"])
                self.assertNotIn(token[:32], answer.body.decode(), "neither the collector's nor what was given")
        self.assertFalse(self.run_status(collector, "job")["closed"])
        refused = len(wrong) + 1
        self.assertIn(f'laggard_http_requests_total{{code="401"}} {refused}\n', collector.text("/metrics"))
        # The scheme's case does not matter.
        self.assertEqual(Answer(collector, path, f"bearer {token}", method="POST").status, 200)
        self.assertTrue(self.run_status(collector, "job")["closed"])

    def test_deleting_a_run_needs_it_even_on_this_machine(self):
        collector = self.with_job(self.start_collector())
        path, token = "/api/v1/runs/job", self.token_of(collector)
        for authorization in (None, f"Bearer {WRONG}", f"Bearer {token[:-1]}", f"Basic {token}"):
            with self.subTest(authorization):
                self.assertEqual(Answer(collector, path, authorization, method="DELETE").status, 401)
        self.assertEqual(self.run_status(collector, "job")["delivery"]["stored"], 2)

        def deleted():
            return Answer(collector, path, f"Bearer {token}", method="DELETE").status == 200

        wait_until("the agent's goodbye", deleted)
        self.assertIsNone(self.run_status(collector, "job"))

    def test_the_client_is_told_which_file_to_give(self):
        collector = self.with_job(self.start_collector())
        file = f"{collector.data}/admin.token"
        done = self.client(collector, "close", "job")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, rf"^laggard: .*{re.escape(file)}.*--token-file FILE or LAGGARD_TOKEN_FILE\n$")
        wrong = self.client(collector, "close", "job", "--token-file", self.secret(WRONG))
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("not that of this collector", wrong.stderr)
        self.assertNotIn(WRONG, wrong.stderr)
        self.assertEqual(self.client(collector, "close", "job", LAGGARD_TOKEN_FILE=file).returncode, 0)
        self.assertEqual(self.client(collector, "close", "job", "--token-file", file).returncode, 0)
        self.assertTrue(self.run_status(collector, "job")["closed"])

    def test_from_other_machines_everything_but_health_needs_it(self):
        token = "a-token.of~16+bytes/="
        file = self.secret(f"  {token}\r\n\n", name="given.token")
        config = {"http_token_file": str(file), "allow_remote": True}
        collector = self.with_job(self.start_reachable(config=config))
        for path in ("/-/healthy", "/-/ready"):
            self.assertEqual(Answer(collector, path).status, 200, path)
        for path in [*READS, "/", "/api/v1/runs/nobody", "/api/v1/runs?bad=1", "/%zz"]:
            self.assertEqual(Answer(collector, path).status, 401, path)
            self.assertEqual(Answer(collector, path, f"Bearer {WRONG}").status, 401, path)
        for path in READS:
            self.assertEqual(Answer(collector, path, f"Bearer {token}").status, 200, path)
        for path, body in (("/api/v1/report", b'{"runs": ["job"]}'), ("/api/v1/runs/job/close", b"")):
            self.assertEqual(Answer(collector, path, method="POST", body=body).status, 401, path)
            self.assertEqual(Answer(collector, path, f"Bearer {token}", "POST", body).status, 200, path)
        # Strangers are not told what files there are.
        self.assertNotIn(str(self.home), Answer(collector, "/metrics").body.decode())
        self.assertEqual(self.client(collector, "runs").returncode, 2)
        self.assertEqual(self.client(collector, "runs", "--token-file", file).returncode, 0)
        self.assertFalse((Path(collector.data) / "admin.token").exists())

    def test_without_a_token_file_the_daemon_makes_one_and_keeps_it(self):
        collector = self.start_collector()
        file = Path(collector.data) / "admin.token"
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        token = file.read_text()
        self.assertRegex(token, r"^[0-9a-f]{64}\n$")
        self.assertEqual(collector.stop(), 0)
        self.restart(collector)
        self.assertEqual(file.read_text(), token)
        other = self.start_collector(data="other")
        self.assertNotEqual(self.token_of(other), token.strip())

    def test_a_token_file_that_is_none(self):
        os.mkfifo(self.home / "fifo", 0o600)
        for file, reason in (
            (self.secret("x" * 32, "open", 0o644), "others may read or write that file; chmod 600 "),
            (self.secret("x" * 32, "group", 0o640), "others may read or write that file; chmod 600 "),
            (self.secret("x" * 15, "short"), "has 15 characters"),
            (self.secret("", "empty"), "has 0 characters"),
            (self.secret("x" * 1025, "long"), "has 1025 characters"),
            (self.secret("x" * 100_000, "huge"), "is larger than 65536 bytes"),
            (self.secret("two\nlines of something", "lines"), "on one line"),
            (self.home / "nowhere", "No such file"),
            (self.home / "fifo", "no regular file"),
            (self.home, "no regular file"),
        ):
            with self.subTest(file.name):
                if file == self.home:
                    self.home.chmod(0o700)
                said = self.refused_daemon("--http-token-file", file)
                self.assertIn(str(file), said)
                self.assertIn(reason, said)
                # The client keeps to the same, so that it never sends anything else that a file has.
                done = run_client("--token-file", file, "runs", env=self.environment)
                self.assertEqual(done.returncode, 5)
                self.assertIn(reason, done.stderr)
                self.assertNotIn("xxxx", said + done.stderr)

    def test_no_token_in_command_lines_or_logs(self):
        token = "secret-" + "s" * 30
        file = self.secret(token)
        config = {"http_token_file": str(file), "allow_remote": True, "log_level": "trace"}
        collector = self.with_job(self.start_reachable(config=config))
        watch = spawn(
            [BIN / "laggard", "--collector", collector.http, "status", "job", "--watch", "--token-file", file],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.addCleanup(lambda: (watch.kill(), watch.wait(), watch.stdout.close()))
        wait_until("the watch", lambda: "laggard_event_clients 1\n" in self.metrics(collector, token))
        Answer(collector, "/api/v1/runs", f"Bearer {token}x")
        Answer(collector, f"/api/v1/runs/{token[:7]}", f"Bearer {token}")
        for process in (collector.process, watch):
            self.assertNotIn(token, Path(f"/proc/{process.pid}/cmdline").read_text())
        self.assertEqual(collector.stop(), 0)
        said = collector.log.read_text()
        self.assertIn("stopping", said)
        self.assertNotIn(token, said)
        # Nor where the client says why it could not even ask.
        for address in (collector.http, collector.http.replace("http://", "https://"), "http://collector.invalid:1"):
            done = run_client("--collector", address, "--token-file", file, "runs", env=self.environment)
            self.assertEqual(done.returncode, 3, done)
            self.assertNotIn(token, done.stdout + done.stderr)
        done = run_client("--collector", collector.http, "--token-file", token, "runs", env=self.environment)
        self.assertEqual(done.returncode, 5, done)
        self.assertNotIn(token, done.stdout + done.stderr)

    def metrics(self, collector, token):
        return Answer(collector, "/metrics", f"Bearer {token}").body.decode()

    def test_beyond_this_machine_the_token_does_not_travel_unencrypted_unless_told_so(self):
        said = self.refused_daemon("--http", "0.0.0.0:0")
        self.assertIn("--http-tls-cert", said)
        self.assertIn("--allow-remote true", said)


class Tls(Http):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self.home)

    def start_tls(self, reachable=False, hosts="DNS:localhost,IP:127.0.0.1"):
        certificate, key = self.authority.certificate("server", hosts)
        config = {"http_tls_cert": str(certificate), "http_tls_key": str(key)}
        start = self.start_reachable if reachable else self.start_collector
        collector = start(config=config)
        self.assertTrue(collector.http.startswith("https://"), collector.http)
        # What the tests of other modules use.
        self.context = ssl.create_default_context(cafile=self.authority.file)
        collector.text = lambda path: Answer(collector, path, tls=self.context).body.decode()
        return collector

    def port_of(self, collector):
        return int(collector.http.rsplit(":", 1)[1])

    def raw(self, collector):
        connection = socket.create_connection(("127.0.0.1", self.port_of(collector)), timeout=60)
        self.addCleanup(connection.close)
        return connection

    def counted(self, collector, name):
        return int(re.search(rf"^{name} (\d+)$", collector.text("/metrics"), re.MULTILINE)[1])

    def test_the_whole_of_a_job_over_tls(self):
        collector = self.with_job(self.start_tls(reachable=True))
        given = ["--ca-file", self.authority.file, "--token-file", f"{collector.data}/admin.token"]
        for host in ("127.0.0.1", "localhost"):
            address = f"https://{host}:{self.port_of(collector)}"
            done = run_client("--collector", address, *given, "export", "job", env=self.environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(done.stdout.splitlines()), 2)
        trust = {"LAGGARD_CA_FILE": str(self.authority.file), "LAGGARD_TOKEN_FILE": f"{collector.data}/admin.token"}
        self.assertEqual(self.client(collector, "status", "job", **trust).returncode, 0)
        self.assertEqual(self.client(collector, "close", "job", **trust).returncode, 0)
        self.assertEqual(Answer(collector, "/api/v1/runs", tls=self.context).status, 401)

    def test_events_over_tls(self):
        collector = self.with_job(self.start_tls())
        command = [BIN / "laggard", "--collector", collector.http, "--ca-file", self.authority.file]
        watch = spawn([*command, "status", "job", "--watch", "-o", "jsonl"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (watch.kill(), watch.wait(), watch.stdout.close()))
        wait_until("the watch", lambda: self.counted(collector, "laggard_event_clients") == 1)
        append(self.home / "rank0.jsonl", update_line(0, 2, 100.0))
        self.run_agent(collector, "job", self.home / "rank0.jsonl")
        self.assertEqual(json.loads(watch.stdout.readline())["step"], 2)
        watch.kill()
        wait_until("its end", lambda: self.counted(collector, "laggard_event_clients") == 0)

    def test_a_collector_that_is_not_trusted_gets_no_request(self):
        collector = self.start_tls()
        token = ["--token-file", f"{collector.data}/admin.token"]
        other = Authority(self.home, "other-authority").file
        before = self.counted(collector, "laggard_http_handshakes_failed_total")
        for options, reason in (
            (["--collector", collector.http], "unable to get local issuer certificate"),
            (["--collector", collector.http, "--ca-file", other], "not trusted"),
        ):
            with self.subTest(reason):
                done = run_client(*options, *token, "runs", env=self.environment)
                self.assertEqual(done.returncode, 5, done.stderr)
                self.assertIn(reason, done.stderr)
                self.assertIn("--ca-file", done.stderr)
                self.assertNotIn(self.token_of(collector), done.stderr)
        after = self.counted(collector, "laggard_http_handshakes_failed_total")
        self.assertEqual(after - before, 2)

    def test_a_certificate_for_another_host_is_not_trusted(self):
        certificate, key = self.authority.certificate("elsewhere", "DNS:elsewhere.example,IP:127.0.0.9")
        collector = self.start_collector(config={"http_tls_cert": str(certificate), "http_tls_key": str(key)})
        port = self.port_of(collector)
        for host, reason in (("127.0.0.1", "IP address mismatch"), ("localhost", "hostname mismatch")):
            address = f"https://{host}:{port}"
            done = run_client("--collector", address, "--ca-file", self.authority.file, "runs", env=self.environment)
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn(reason, done.stderr)

    def test_plain_http_at_the_tls_port_is_told_so(self):
        collector = self.start_tls()
        plain = self.raw(collector)
        plain.sendall(b"GET /api/v1/runs HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while piece := plain.recv(4096):
            answer += piece
        self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer)
        self.assertEqual(json.loads(answer.split(b"\r\n\r\n")[1])["error"]["code"], "needs_tls")
        address = collector.http.replace("https://", "http://")
        done = run_client("--collector", address, "runs", env=self.environment)
        self.assertEqual(done.returncode, 2)
        self.assertIn("https://", done.stderr)

    def test_tls_at_a_plain_port_is_told_so(self):
        collector = self.start_collector()
        address = collector.http.replace("http://", "https://")
        done = run_client("--collector", address, "runs", env=self.environment)
        self.assertEqual(done.returncode, 3)
        self.assertIn("Does it speak https:// there?", done.stderr)

    def test_a_handshake_that_never_ends_is_ended(self):
        """The collector's time limit for a request holds for its handshake too."""
        collector = self.start_tls()
        silent, half = self.raw(collector), self.raw(collector)
        half.sendall(bytes.fromhex("16030100c8010000c40303"))  # the beginning of a client's hello
        wait_until("both connections", lambda: self.counted(collector, "laggard_http_connections") == 3)
        self.assertEqual(silent.recv(1), b"")
        self.assertEqual(half.recv(1), b"")
        wait_until("both counted", lambda: self.counted(collector, "laggard_http_handshakes_failed_total") == 2)

    def test_an_answer_over_tls_has_an_end(self):
        """A connection that is closed without a word could also be one that somebody cut."""
        collector = self.start_tls()
        with self.raw(collector) as bare:
            with self.context.wrap_socket(bare, server_hostname="localhost", suppress_ragged_eofs=False) as connection:
                connection.sendall(b"GET /-/healthy HTTP/1.0\r\n\r\n")
                answer = b""
                while piece := connection.recv(4096):
                    answer += piece
        self.assertTrue(answer.endswith(b"healthy\n"), answer)

    def test_files_that_cannot_be_used(self):
        certificate, key = self.authority.certificate("good")
        _, other = self.authority.certificate("other")
        _, locked = self.authority.certificate("locked", password="password")
        readable = self.home / "readable.key"
        readable.write_bytes(key.read_bytes())
        readable.chmod(0o644)
        for files, reason in (
            (["--http-tls-cert", certificate], "give http_tls_cert and http_tls_key, or neither"),
            (["--http-tls-key", key], "give http_tls_cert and http_tls_key, or neither"),
            (["--http-tls-cert", certificate, "--http-tls-key", readable], "others may read or write that file"),
            (["--http-tls-cert", certificate, "--http-tls-key", other], "belong to the certificate"),
            (["--http-tls-cert", certificate, "--http-tls-key", locked], "without a pass phrase"),
            (["--http-tls-cert", self.home / "nowhere", "--http-tls-key", key], "no certificate can be read"),
        ):
            with self.subTest(reason=reason, files=files):
                self.assertIn(reason, self.refused_daemon(*files))


if __name__ == "__main__":
    unittest.main()
