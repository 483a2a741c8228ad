"""Keys of agents: who gets in, who does not, and what is said about it. On the real programs."""

import json
import os
import stat
import subprocess
import unittest
from pathlib import Path

from harness import BIN, EndToEnd, append, config_line, run_client, spawn, update_line, wait_until

SLOW = 90.0  # a handshake that is tried every 2 s, on a slow machine
NOT_ALLOWED = "does not allow this agent's key"


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def secret_text(file):
    """The secret itself, to look for it where it must not be."""
    lines = [line for line in Path(file).read_text().splitlines() if not line.startswith("#")]
    return lines[0].split()[1]


class Keys(EndToEnd):
    def setUp(self):
        super().setUp()
        self.list = self.home / "data/keys/allowed.jsonl"
        self.keys("new", "collector", "--data", self.home / "data")
        self.collector_key = self.home / "data/keys/collector.pub"

    def keys(self, *arguments, code=0):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
        done = run_client("keys", *arguments, env=environment)
        self.assertEqual(done.returncode, code, f"laggard keys {arguments}: {done.stdout}{done.stderr}")
        return done

    def new_key(self, name):
        """A key pair of an agent; its secret file."""
        self.keys("new", name, "--dir", self.home)
        return self.home / f"{name}.secret"

    def allow(self, name, *more):
        self.keys("allow", self.home / f"{name}.pub", "--data", self.home / "data", *more)

    def allowed_agent(self, name, *more):
        secret = self.new_key(name)
        self.allow(name, *more)
        return secret

    def start_guarded(self, **more):
        return self.start_collector(
            config={"ingest_key": str(self.home / "data/keys/collector.secret"), **more.pop("config", {})}, **more
        )

    def rank_file(self, name="rank0.jsonl", steps=3):
        path = self.home / name
        append(path, config_line(0, 1) + "".join(update_line(0, step, 10.0) for step in range(1, steps + 1)))
        return path

    def start_keyed(self, collector, secret, run, *files, collector_key=None, extra=()):
        keys = ["--key", secret, "--collector-key", collector_key or self.collector_key]
        return self.start_agent(collector, run, *files, extra=[*keys, *extra])

    def counter(self, collector, name):
        # There are none before the engine has looked at them once.
        return collector.get("/api/v1/status")["counters"].get(name, 0)

    def wait_counter(self, collector, name, least):
        wait_until(f"{name} {least}", lambda: self.counter(collector, name) >= least, SLOW)

    def wait_said(self, program, words):
        """Waits until a program's log holds the words, and returns the log."""
        try:
            wait_until(words, lambda: words in program.log.read_text(), SLOW)
        except TimeoutError as error:
            self.fail(f"{error}\n{program.log.read_text()}")
        return program.log.read_text()

    def refused_start(self, *arguments, environment=None):
        """What laggardd says when it does not start."""
        command = [BIN / "laggardd", "--data", self.home / "data", *arguments]
        free_ports = {"LAGGARD_INGEST": "tcp://127.0.0.1:0", "LAGGARD_HTTP": "127.0.0.1:0"}
        done = subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, **free_ports, **(environment or {})},
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr


class Doors(Keys):
    def test_an_allowed_agent_delivers_and_no_secret_is_seen(self):
        secret = self.allowed_agent("node1")
        collector = self.start_guarded()
        file = self.rank_file()
        agent = self.start_keyed(collector, secret, "job", file)
        self.wait_updates(collector, "job", 3, SLOW)
        append(file, update_line(0, 4, 10.0))
        self.wait_updates(collector, "job", 4, SLOW)
        secrets = [secret_text(secret), secret_text(self.home / "data/keys/collector.secret")]
        seen = [Path(f"/proc/{p.pid}/{what}").read_text() for p in (agent.process, collector.process)
                for what in ("cmdline", "environ")]
        self.assertEqual(agent.stop(), 0, agent.said())
        self.assertEqual(collector.stop(), 0)
        seen += [agent.said(), collector.log.read_text()]
        for text in seen:
            for word in secrets:
                self.assertNotIn(word, text)

    def test_import_takes_keys_too(self):
        secret = self.allowed_agent("node1")
        collector = self.start_guarded()
        file = self.rank_file()
        command = ["--collector", collector.http, "import", "--run", "job", file]
        keys = {"LAGGARD_KEY": str(secret), "LAGGARD_COLLECTOR_KEY": str(self.collector_key)}
        done = run_client(*command, env={**os.environ, **keys})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.wait_updates(collector, "job", 3, SLOW)
        done = run_client(*command)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertRegex(done.stderr, "laggard: the collector at .* (wants a key|most likely it wants a key)")

    def test_an_unknown_key_is_refused_counted_and_said_once_and_let_in_when_it_is_allowed(self):
        self.allowed_agent("node1")
        stranger = self.new_key("stranger")
        collector = self.start_guarded()
        agent = self.start_keyed(collector, stranger, "job", self.rank_file())
        self.wait_counter(collector, "handshakes_refused", 3)
        self.assertIn('laggard_ingest_events_total{event="handshakes_refused"}', collector.text("/metrics"))
        self.assertEqual(self.counter(collector, "messages"), 0)
        self.assertIsNone(self.run_status(collector, "job"))
        key = json.loads(self.keys("allow", self.home / "stranger.pub", "--allow-list", self.home / "other.jsonl",
                                   "-o", "json").stdout)["keys"][0]["key"]
        for said in (agent.said(), collector.log.read_text()):
            self.assertEqual(said.count(key), 1, said)
        self.assertEqual(agent.said().count(NOT_ALLOWED), 1, agent.said())
        self.allow("stranger")
        self.wait_for_run(collector, "job", lambda run: run["delivery"]["stored"] == 4, "delivery", SLOW)

    def test_once_gives_up_with_a_sentence(self):
        self.allowed_agent("node1")
        collector = self.start_guarded()
        agent = self.start_keyed(collector, self.new_key("stranger"), "job", self.rank_file(), extra=["--once"])
        self.assertEqual(agent.wait(SLOW), 3, agent.said())
        self.assertIn(NOT_ALLOWED, agent.said())

    def test_a_plain_agent_is_refused(self):
        self.allowed_agent("node1")
        collector = self.start_guarded()
        agent = self.start_agent(collector, "job", self.rank_file())
        self.wait_said(agent, "wants a key")
        self.wait_counter(collector, "handshakes_refused", 3)
        self.assertEqual(self.counter(collector, "messages"), 0)
        # A guess first, perhaps, and the truth later: never more.
        self.assertLessEqual(agent.said().count("trying on"), 2, agent.said())

    def test_an_agent_with_a_key_does_not_send_to_a_collector_without(self):
        secret = self.allowed_agent("node1")
        collector = self.start_collector()
        agent = self.start_keyed(collector, secret, "job", self.rank_file())
        said = self.wait_said(agent, "works without keys")
        self.assertEqual(self.counter(collector, "messages"), 0)
        self.assertLessEqual(said.count("trying on"), 2, said)

    def test_the_key_of_another_collector(self):
        secret = self.allowed_agent("node1")
        self.new_key("other")
        collector = self.start_guarded()
        agent = self.start_keyed(collector, secret, "job", self.rank_file(), collector_key=self.home / "other.pub")
        self.wait_said(agent, "--collector-key")
        self.wait_counter(collector, "handshakes_refused", 4)
        self.assertEqual(agent.said().count("trying on"), 1, agent.said())
        self.assertEqual(self.counter(collector, "messages"), 0)

    def test_keys_work_over_ipc(self):
        secret = self.allowed_agent("node1")
        collector = self.start_guarded(ingest=f"ipc://{self.home}/ingest.sock")
        self.start_keyed(collector, secret, "job", self.rank_file())
        self.wait_updates(collector, "job", 3, SLOW)


class Permissions(Keys):
    def test_a_revoked_key_is_cut_off_while_connected_and_comes_back_when_allowed_again(self):
        secret = self.allowed_agent("node1")
        collector = self.start_guarded()
        file = self.rank_file()
        agent = self.start_keyed(collector, secret, "job", file)
        self.wait_updates(collector, "job", 3, SLOW)
        self.keys("revoke", "node1", "--data", self.home / "data")
        self.wait_said(agent, "no longer on the collector's allow-list")
        append(file, update_line(0, 4, 10.0))
        wait_until("no session", lambda: self.counter(collector, "sessions") == 0, SLOW)
        late = self.start_keyed(collector, secret, "job", self.rank_file("late.jsonl"))
        self.wait_said(late, NOT_ALLOWED)
        status = self.run_status(collector, "job")
        self.assertEqual(status["delivery"]["stored"], 4)
        late.stop()
        self.allow("node1")
        self.wait_for_run(collector, "job", lambda run: run["delivery"]["stored"] == 5, "the rest", SLOW)

    def test_a_key_tied_to_runs_delivers_those_alone(self):
        secret = self.allowed_agent("node1", "--run", "job", "--run", "job 2")
        collector = self.start_guarded()
        file = self.rank_file()
        for run in ("job", "job 2"):
            agent = self.start_keyed(collector, secret, run, file, extra=["--once"])
            self.assertEqual(agent.wait(SLOW), 0, agent.said())
        agent = self.start_keyed(collector, secret, "job3", file, extra=["--once"])
        self.assertEqual(agent.wait(SLOW), 3, agent.said())
        self.assertIn("may not deliver the run job3", agent.said())
        self.assertIsNone(self.run_status(collector, "job3"))
        self.wait_counter(collector, "hellos_not_allowed", 1)
        self.assertIn("hellos_not_allowed 1", self.cli(collector, "status", "job"))

    def test_while_the_list_is_broken_nobody_is_let_in(self):
        secret = self.allowed_agent("node1")
        collector = self.start_guarded()
        whole = self.list.read_text()
        append(self.list, "what?\n")
        agent = self.start_keyed(collector, secret, "job", self.rank_file())
        self.wait_said(agent, NOT_ALLOWED)
        self.wait_said(collector, "allowed.jsonl:3: ")
        self.list.write_text(whole)
        self.wait_for_run(collector, "job", lambda run: run["delivery"]["stored"] == 4, "delivery", SLOW)


class Starts(Keys):
    def test_beyond_this_machine_only_with_a_key(self):
        far = ["--ingest", "tcp://0.0.0.0:0"]
        key = ["--ingest-key", self.home / "data/keys/collector.secret"]
        self.assertIn("--ingest-key", self.refused_start(*far))
        secret = self.allowed_agent("node1")
        self.assertIn("0.0.0.0", self.refused_start(*key, "--http", "0.0.0.0:0"))
        collector = self.start_guarded(ingest=far[1])
        port = collector.ingest.rsplit(":", 1)[1]
        collector.ingest = f"tcp://127.0.0.1:{port}"
        self.start_keyed(collector, secret, "job", self.rank_file())
        self.wait_updates(collector, "job", 3, SLOW)
        keys = ["--key", secret, "--collector-key", self.collector_key]
        self.cli(collector, "import", "--run", "imported", self.rank_file("old.jsonl"), *keys)

    def test_never_without_an_allow_list(self):
        key = ["--ingest-key", self.home / "data/keys/collector.secret"]
        self.assertIn("there is no allow-list", self.refused_start(*key))
        self.allowed_agent("node1")
        self.assertIn("ingest_key", self.refused_start("--allow-list", self.list))
        self.list.chmod(0o620)
        self.assertIn("others than its owner may write the allow-list", self.refused_start(*key))
        self.list.chmod(0o600)
        append(self.list, "what?\n")
        self.assertIn("allowed.jsonl:3: ", self.refused_start(*key))

    def test_a_secret_that_others_can_read_is_refused(self):
        secret = self.allowed_agent("node1")
        theirs = self.home / "data/keys/collector.secret"
        for file in (secret, theirs):
            os.chmod(file, 0o640)
        said = self.refused_start(environment={"LAGGARD_INGEST_KEY": str(theirs)})
        self.assertIn("others may read or write that file", said)
        self.assertNotIn(secret_text(theirs), said)
        os.chmod(theirs, 0o600)
        collector = self.start_guarded()
        agent = self.start_keyed(collector, secret, "job", self.rank_file())
        self.assertEqual(agent.wait(SLOW), 2)
        self.assertIn("others may read or write that file", agent.said())
        self.assertNotIn(secret_text(secret), agent.said())
        agent = self.start_agent(collector, "job", self.rank_file(), extra=["--key", secret_text(theirs),
                                                                          "--collector-key", self.collector_key])
        self.assertEqual(agent.wait(SLOW), 2)
        self.assertNotIn(secret_text(theirs), agent.said())


class AsRoot(EndToEnd):
    """The collector has a user of its own, and root makes its keys."""

    keys, new_key = Keys.keys, Keys.new_key
    USER, OTHER = 65534, 65533  # nobody, and somebody else

    def setUp(self):
        super().setUp()
        self.need(os.geteuid() == 0, "root, who alone may give files to another user")
        self.home.chmod(0o711)
        self.data = self.home / "data"
        self.data.mkdir(mode=0o700)
        os.chown(self.data, self.USER, self.USER)
        self.here = ["--data", self.data]
        self.list = self.data / "keys/allowed.jsonl"

    def assert_owned(self, path, user, permissions):
        facts = os.stat(path)
        self.assertEqual((facts.st_uid, facts.st_gid, mode(path)), (user, user, permissions), path)

    def test_what_it_makes_belongs_to_the_owner_of_the_directory(self):
        self.keys("new", "collector", *self.here)
        self.assert_owned(self.data / "keys", self.USER, 0o700)
        self.assert_owned(self.data / "keys/collector.secret", self.USER, 0o600)
        self.assert_owned(self.data / "keys/collector.pub", self.USER, 0o644)
        self.new_key("node1")
        self.assert_owned(self.home / "node1.secret", 0, 0o600)
        self.keys("allow", self.home / "node1.pub", *self.here)
        self.assert_owned(self.list, self.USER, 0o600)
        self.assertEqual({path.name for path in self.list.parent.iterdir()},
                         {"collector.secret", "collector.pub", "allowed.jsonl"})  # fmt: skip

    def test_a_list_that_is_changed_keeps_its_owner(self):
        self.new_key("node1")
        self.new_key("node2")
        self.keys("allow", self.home / "node1.pub", *self.here)
        os.chown(self.list, self.OTHER, self.OTHER)
        self.keys("allow", self.home / "node2.pub", *self.here)
        self.assert_owned(self.list, self.OTHER, 0o600)
        self.keys("revoke", "node1", *self.here)
        self.assert_owned(self.list, self.OTHER, 0o600)
        self.assertEqual(len(json.loads(self.keys("list", *self.here, "-o", "json").stdout)["keys"]), 1)

    def test_what_the_owner_has_put_in_the_place_of_a_folder_is_not_given_away(self):
        mine = self.home / "roots"
        mine.mkdir(mode=0o700)
        (self.data / "keys").symlink_to(mine)
        self.keys("new", "collector", *self.here)
        self.assert_owned(mine, 0, 0o700)
        self.assert_owned(mine / "collector.secret", 0, 0o600)
        self.list.symlink_to(self.home / "elsewhere.jsonl")
        self.new_key("node1")
        self.keys("allow", self.home / "node1.pub", *self.here)
        self.assertFalse((self.home / "elsewhere.jsonl").exists(), "written through a link")
        self.assertFalse((mine / "allowed.jsonl").is_symlink())
        self.assert_owned(mine / "allowed.jsonl", 0, 0o600)

    def test_the_collectors_user_works_with_what_root_made(self):
        self.keys("new", "collector", *self.here)
        self.new_key("node1")
        self.keys("allow", self.home / "node1.pub", *self.here)
        user = str(self.USER)

        def launch(command, **options):
            return spawn(["setpriv", "--reuid", user, "--regid", user, "--clear-groups", *command], **options)

        collector = self.start_collector(config={"ingest_key": str(self.data / "keys/collector.secret")}, launch=launch)
        self.assert_owned(self.data / "laggard.db", self.USER, 0o600)
        file = self.home / "rank0.jsonl"
        append(file, config_line(0, 1) + update_line(0, 1, 10.0))
        keys = ["--key", self.home / "node1.secret", "--collector-key", self.data / "keys/collector.pub"]
        agent = self.start_agent(collector, "job", file, extra=keys)
        self.wait_updates(collector, "job", 1, SLOW)
        self.keys("revoke", "node1", *self.here)
        wait_until("no session", lambda: collector.get("/api/v1/status")["counters"]["sessions"] == 0, SLOW)
        self.assertIsNone(agent.process.poll(), agent.said())
        self.assertNotIn("cannot be read", collector.log.read_text())


class Files(Keys):
    def test_new_makes_a_private_file_and_overwrites_nothing(self):
        done = self.keys("new", "node1", "--dir", self.home, "-o", "json")
        answer = json.loads(done.stdout)
        secret = Path(answer["secret_file"])
        self.assertEqual((mode(secret), mode(answer["public_file"])), (0o600, 0o644))
        self.assertEqual(mode(self.home / "data/keys"), 0o700)
        self.assertIn(answer["public_key"], Path(answer["public_file"]).read_text())
        self.assertNotIn(secret_text(secret), done.stdout + done.stderr)
        before = secret.read_bytes()
        self.assertIn("exists", self.keys("new", "node1", "--dir", self.home, code=5).stderr)
        self.assertEqual(secret.read_bytes(), before)

    def test_allow_list_and_revoke(self):
        here = ["--data", self.home / "data"]
        self.assertIn("there is no allow-list", self.keys("list", *here, code=4).stderr)
        self.allowed_agent("node1")
        self.allowed_agent("node2", "--run", "job", "--note", "the second")
        self.assertEqual(mode(self.list), 0o600)
        listed = json.loads(self.keys("list", *here, "-o", "json").stdout)["keys"]
        self.assertEqual([(key["note"], key["runs"]) for key in listed], [("node1", None), ("the second", ["job"])])
        self.assertIn("already", self.keys("allow", self.home / "node1.pub", *here).stderr)
        self.keys("allow", self.home / "node1.pub", *here, "--run", "job", code=5)
        self.keys("allow", self.home / "node1.secret", *here, code=5)
        self.keys("allow", "nothing", *here, code=4)
        self.keys("revoke", "nobody", *here, code=4)
        self.keys("revoke", listed[1]["key"], *here)
        self.keys("revoke", self.home / "node2.pub", *here, code=4)
        self.keys("revoke", "node1", *here)
        self.assertEqual(json.loads(self.keys("list", *here, "-o", "json").stdout), {"keys": []})
        self.assertEqual(mode(self.list), 0o600)
        for wrong in (["list"], ["frob"], [], ["new"], ["new", "a", *here, "--dir", self.home]):
            self.keys(*wrong, code=2)

    def test_each_command_has_an_example(self):
        for command in ("new", "allow", "list", "revoke"):
            self.assertIn(f"Example: laggard keys {command}", self.keys(command, "--help").stdout)


if __name__ == "__main__":
    unittest.main()
