"""Versions that differ: newer and older peers are served, one that cannot be is told so once, and what version 1 has
sent and stored (tests/data/wire_v1, tests/data/store_v1) is read by every later one. See proto/README.md."""

import json
import re
import shutil
import tempfile
import time
import unittest
from pathlib import Path

import zmq
from harness import DATA, EndToEnd, append, config_line, strict_json, update_line
from stress import query
from wire import PROTO, Peer, compiled, config_batch, hello_of, pb, records_batch

RUN = "job"
WIRE, STORE = DATA / "wire_v1", DATA / "store_v1"


def stored_message(name):
    return (WIRE / f"{name}.bin").read_bytes()


def next_version():
    """The protocol as a later version may have it: with a field more in every message."""
    text = (PROTO / "wire.proto").read_text()
    text = text.replace("package laggard.wire;", "package laggard.wire_next;")
    text = re.sub(r"^message (\w+) \{", r"message \1 {\n  string news = 1000;\n", text, flags=re.MULTILINE)
    with tempfile.TemporaryDirectory(prefix="laggard-proto-") as folder:
        (Path(folder) / "wire_next.proto").write_text(text)
        return compiled(folder, "wire_next")


def add_news(message):
    """Fills the new field of a message and of all messages in it; returns of how many."""
    message.news = "from a later version"
    filled = 1
    for field, value in message.ListFields():
        if field.message_type is not None:
            filled += sum(map(add_news, value if field.label == field.LABEL_REPEATED else [value]))
    return filled


class FakeCollector:
    """A ROUTER that answers each kind of message with the one given for it, and remembers what came."""

    def __init__(self, **answers):
        self.answers, self.received = answers, []
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self.ingest = f"tcp://127.0.0.1:{self._socket.bind_to_random_port('tcp://127.0.0.1')}"

    def close(self):
        self._context.destroy(linger=0)

    def serve(self, until, timeout_s):
        """Answers until there is nothing more to wait for; True when that was so in time."""
        end = time.monotonic() + timeout_s
        while not until():
            if time.monotonic() > end:
                return False
            if not self._socket.poll(50):
                continue
            peer, body = self._socket.recv_multipart()
            message = pb.Envelope.FromString(body)
            self.received.append(message)
            answer = self.answers.get(message.WhichOneof("body"))
            if answer is not None:
                self._socket.send_multipart([peer, answer])
        return True

    def count(self, body):
        return sum(message.WhichOneof("body") == body for message in self.received)


class Skew(EndToEnd):
    def peer(self, collector):
        peer = Peer(collector.ingest)
        self.addCleanup(peer.close)
        return peer

    def fake_collector(self, **answers):
        fake = FakeCollector(**answers)
        self.addCleanup(fake.close)
        return fake

    def file(self, records):
        file = self.home / "rank0.jsonl"
        append(file, config_line(0, 1) + "".join(update_line(0, step, 10.0) for step in range(1, records + 1)))
        return file

    # ---- newer and older peers ----

    def test_an_agent_that_says_more(self):
        later = next_version()
        collector = self.start_collector()
        peer = self.peer(collector)

        def say(channel, **body):
            message = later.Envelope.FromString(pb.Envelope(channel=channel, **body).SerializeToString())
            self.assertGreater(add_news(message), 1)
            peer.send_bytes(message.SerializeToString())

        layout = pb.Layout(stream=["forward"], values=["padding"])
        stages = [pb.StageInfo(name="forward", kind="sync")]
        say(1, hello=hello_of(stages=stages))
        self.assertEqual(peer.wait_for("welcome").committed_seq, 0)
        say(1, batch=config_batch(1))
        records = pb.PackedRecords(steps=[1], ranks=[0], layouts=[0], doubles=[10, 5, 0.25])
        records.sample_counts.append(2)
        records.sample_indices.extend([7, 8])
        records.rest_of.append(0)
        frames = pb.Histogram(name="frames", keys=["8"], bins=[3])
        records.rests.append(pb.RecordRest(tags=["eval"], histograms=[frames]))
        say(1, batch=pb.Batch(first_seq=2, attempt=1, layouts=[layout], records=records))
        say(1, batch=pb.Batch(first_seq=3, attempt=1, end=pb.End()))
        while peer.wait_for("ack").committed_seq < 3:
            pass
        say(1, heartbeat=pb.Heartbeat(lines=pb.LineCounts(accepted=3)))
        peer.wait_for("heartbeat")
        say(1, bye=pb.Bye(finished=True))
        peer.wait_for("bye")
        status = self.wait_for_run(collector, RUN, lambda now: now["lines"] is not None, "the line counts")
        self.assertEqual((status["delivery"]["stored"], status["lines"]["accepted"]), (3, 3))
        self.assertEqual(status["counters"]["messages_malformed"], 0)
        (record,) = self.updates(collector, RUN)
        self.assertEqual(record["cuda_stream_ms"], {"forward": 5})
        self.assertEqual((record["padding"], record["sample_indices"], record["tags"]), (0.25, [7, 8], ["eval"]))

    def test_an_agent_that_says_the_least(self):
        """Only what version 1 cannot do without; no host, no stages, no line counts."""
        collector = self.start_collector()
        peer = self.peer(collector)
        peer.send(hello=pb.Hello(protocol_version=1, run=RUN, source=pb.Source(id="s")))
        peer.wait_for("welcome")
        bare = pb.PackedRecords(steps=[1, 2], ranks=[0, 0], layouts=[0, 0], doubles=[10, 20], sample_counts=[0, 0])
        peer.deliver(pb.Batch(first_seq=1, attempt=1, layouts=[pb.Layout()], records=bare))
        peer.send(heartbeat=pb.Heartbeat())
        peer.wait_for("heartbeat")
        peer.send(bye=pb.Bye())
        peer.wait_for("bye")
        self.assertEqual([record["wall_ms"] for record in self.updates(collector, RUN)], [10, 20])
        status = self.run_status(collector, RUN)
        self.assertEqual((status["delivery"]["stored"], status["counters"]["messages_malformed"]), (2, 0))

    def test_a_collector_that_says_more(self):
        later = next_version()

        def with_news(name):
            message = later.Envelope.FromString(stored_message(name))
            add_news(message)
            return message.SerializeToString()

        answers = {"hello": "welcome", "batch": "ack", "heartbeat": "heartbeat", "bye": "bye"}
        fake = self.fake_collector(**{body: with_news(f"collector_{name}") for body, name in answers.items()})
        agent = self.start_agent(fake, RUN, self.file(13), extra=["--once"])
        self.assertTrue(fake.serve(lambda: agent.process.poll() is not None, 30), agent.said())
        self.assertEqual(agent.wait(), 0, agent.said())
        self.assertIn("undelivered: 0", agent.said())

    # ---- versions that do not fit ----

    def test_another_version_is_refused_with_both_numbers(self):
        collector = self.start_collector()
        refused = self.peer(collector).greet(version=2)
        self.assertFalse(refused.hello_again)
        self.assertRegex(refused.reason, r"version 1\b.*version 2\b")

    def test_a_refused_agent_says_so_once_and_does_not_insist(self):
        reject = pb.Envelope(channel=1, reject=pb.Reject(reason="this collector speaks protocol version 9"))
        fake = self.fake_collector(hello=reject.SerializeToString())
        file = self.file(100)
        agent = self.start_agent(fake, RUN, file)
        fake.serve(lambda: False, 8)
        append(file, update_line(0, 101, 10.0))  # news in its file are no reason to ask either
        fake.serve(lambda: False, 2)
        self.assertEqual([message.WhichOneof("body") for message in fake.received], ["hello"])
        self.assertEqual(agent.stop(), 0, agent.said())
        self.assertEqual(agent.said().count("[error]"), 1, agent.said())
        self.assertIn("refuses rank 0", agent.said())
        self.assertIn("protocol version 9", agent.said())
        once = self.start_agent(fake, RUN, file, extra=["--once"])
        self.assertTrue(fake.serve(lambda: once.process.poll() is not None, 30), once.said())
        self.assertEqual(once.wait(), 3, once.said())

    # ---- what version 1 left behind ----

    def test_messages_of_version_1_from_an_agent(self):
        collector = self.start_collector()
        peer = self.peer(collector)
        expected = [json.loads(line) for line in (STORE / "rank0.jsonl").read_text().splitlines()]
        peer.send_bytes(stored_message("agent_hello"))
        self.assertEqual(peer.wait_for("welcome").committed_seq, 0)
        for name in ("agent_batch_config", "agent_batch_records", "agent_batch_end"):
            peer.send_bytes(stored_message(name))
        while peer.wait_for("ack").committed_seq < len(expected):
            pass
        for name, answer in (("agent_heartbeat", "heartbeat"), ("agent_bye", "bye")):
            peer.send_bytes(stored_message(name))
            peer.wait_for(answer)
        self.check_lines(self.export(collector, "small"), expected)
        self.assertEqual(self.run_status(collector, "small")["counters"]["messages_malformed"], 0)

    def test_messages_of_version_1_from_a_collector(self):
        answers = {"hello": "welcome", "batch": "ack", "heartbeat": "heartbeat", "bye": "bye"}
        fake = self.fake_collector(**{body: stored_message(f"collector_{name}") for body, name in answers.items()})
        agent = self.start_agent(fake, "small", STORE / "rank0.jsonl", extra=["--once", "-o", "json"])
        self.assertTrue(fake.serve(lambda: agent.process.poll() is not None, 30), agent.said())
        self.assertEqual(agent.wait(), 0, agent.said())
        said = agent.said()
        (rank,) = strict_json(said[said.index("\n{") :])["files"][0]["ranks"]
        self.assertEqual((rank["stored"], rank["undelivered"]), (14, 0))  # as collector_ack.bin says

    def test_a_reject_of_version_1(self):
        """The collector forgot the channel: the agent says Hello again."""
        fake = self.fake_collector(hello=stored_message("collector_welcome"), batch=stored_message("collector_reject"))
        self.start_agent(fake, "small", STORE / "rank0.jsonl")
        self.assertTrue(fake.serve(lambda: fake.count("hello") > 1, 30))

    def test_a_database_of_version_1(self):
        data = self.home / "data"
        data.mkdir()
        shutil.copy(STORE / "laggard.db", data)
        collector = self.start_collector()

        def objects(text):  # a NaN equals nothing, not even itself
            return [json.loads(line.replace("NaN", '"nan"')) for line in text.splitlines()]

        lines = [line for rank in (0, 1) for line in objects((STORE / f"rank{rank}.jsonl").read_text())]
        self.check_lines(objects(self.cli(collector, "export", "small")), lines)
        status = self.run_status(collector, "small")
        delivery = [status["delivery"][name] for name in ("stored", "duplicate", "conflict", "rejected", "dropped")]
        self.assertEqual(delivery, [28, 0, 0, 0, 0])
        self.assertEqual((status["attempts"], status["state"], status["last_step"]), ([1], "ended", 12))
        # The figures are those that this version makes of the same files.
        fresh = self.start_collector("fresh")
        self.run_agent(fresh, "small", STORE / "rank0.jsonl", STORE / "rank1.jsonl")
        for question in (["report", "small"], ["stages", "small"], ["steps", "small"]):
            answers = [self.cli(of, *question, "-o", "json") for of in (collector, fresh)]
            self.assertEqual(*(answer.replace("late_completed", "complete") for answer in answers), question)
        # And it goes on: the same files again are duplicates, a new line is stored.
        more = self.home / "rank0.jsonl"
        append(more, (STORE / "rank0.jsonl").read_text() + update_line(0, 13, 101.0))
        self.run_agent(collector, "small", more)
        self.assertEqual(self.run_status(collector, "small")["delivery"]["stored"], 29)
        self.assertEqual(query(data, "SELECT COUNT(*) FROM steps"), [(13,)])

    def check_lines(self, exported, expected):
        """Updates and configs are what was written, number by number; ends are not exported."""
        key = lambda line: (line["type"], line["rank"], line.get("step", 0))  # noqa: E731
        by_key = {key(line): line for line in exported}
        expected = [line for line in expected if line["type"] != "end"]
        self.assertEqual(sorted(by_key), sorted(map(key, expected)))
        for line in expected:
            out = by_key[key(line)]
            self.assertEqual({name: out.get(name) for name in line}, line)


if __name__ == "__main__":
    unittest.main()
