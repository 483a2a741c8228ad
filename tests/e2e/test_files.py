"""Followed files under rotation, truncation, torn writes (case A06, A05), and records sent twice (A07)."""

import time
import unittest

from harness import CASES, EndToEnd, append

P1, P2, P3 = ((CASES / "A06" / f"p{part}.jsonl").read_text() for part in (1, 2, 3))


class Rotation(EndToEnd):
    """Each variant of A06/actions.txt: 30 updates, each step once, nothing rejected."""

    def setUp(self):
        super().setUp()
        self.file = self.home / "rank0.jsonl"
        self.collector = self.start_collector()

    def follow(self):
        return self.start_agent(self.collector, "job", self.file)

    def wait_read(self, records):
        self.wait_updates(self.collector, "job", records)

    def check_all_there(self, agent):
        self.wait_read(30)
        self.assertEqual(agent.stop(), 0, agent.said())
        self.assertEqual([line["step"] for line in self.updates(self.collector, "job")], list(range(1, 31)))
        # What became of the lines comes with the agent's last word, and is shown a moment later.
        status = self.wait_for_run(
            self.collector, "job", lambda s: s["lines"] and s["lines"]["accepted"] == 30, "30 lines counted"
        )
        self.assertEqual(status["attempts"], [1])
        self.assertEqual(status["delivery"]["stored"], 30)
        self.assertEqual(status["delivery"]["rejected"], 0)
        self.assertEqual(status["lines"]["rejected"], 0)
        self.assertEqual(status["lines"]["pending_tail"], 0)

    def test_rename(self):
        agent = self.follow()
        append(self.file, P1)
        self.wait_read(10)
        self.file.rename(self.home / "rank0.jsonl.1")
        append(self.file, P2)
        self.wait_read(20)
        self.file.rename(self.home / "rank0.jsonl.2")
        append(self.file, P3)
        self.check_all_there(agent)

    def test_copytruncate(self):
        agent = self.follow()
        for number, part in enumerate([P1, P2, P3], 1):
            append(self.file, part)
            self.wait_read(10 * number)
            if number < 3:
                self.file.with_suffix(f".{number}").write_text(self.file.read_text())
                self.file.open("w").close()
        self.check_all_there(agent)

    def test_truncate_and_grow_beyond_the_old_size(self):
        agent = self.follow()
        append(self.file, P1)
        self.wait_read(10)
        self.file.write_text(P2 + P3)
        self.check_all_there(agent)

    def test_agent_restarted_over_a_rotation(self):
        agent = self.follow()
        append(self.file, P1)
        self.wait_read(10)
        self.assertEqual(agent.stop(), 0, agent.said())
        self.file.rename(self.home / "rank0.jsonl.1")
        append(self.file, P2)
        append(self.file, P3)
        self.check_all_there(self.follow())

    def test_seven_bytes_at_a_time(self):
        agent = self.follow()
        with open(self.file, "ab", buffering=0) as file:
            data = P1.encode()
            for at in range(0, len(data), 7):
                file.write(data[at : at + 7])
                time.sleep(0.0005)
        self.wait_read(10)
        append(self.file, P2 + P3)
        self.check_all_there(agent)


class TornTail(EndToEnd):
    """A05: the unfinished last line is pending, and becomes a record when the rest arrives."""

    def test_tail_cut_then_completed(self):
        collector = self.start_collector()
        file = self.home / "rank0.jsonl"
        append(file, (CASES / "A05" / "tail_cut.jsonl").read_text())
        agent = self.start_agent(collector, "job", file)
        status = self.wait_for_run(
            collector, "job", lambda s: s["last_step"] == 8 and s["lines"] and s["lines"]["pending_tail"], "a pending tail"
        )
        self.assertEqual(status["lines"]["pending_tail"], 1)
        self.assertEqual(status["lines"]["rejected"], 0)
        append(file, (CASES / "A05" / "tail_rest.bin").read_text())
        status = self.wait_for_run(
            collector,
            "job",
            lambda s: s["last_step"] == 9 and s["lines"] and not s["lines"]["pending_tail"],
            "the completed tail",
        )
        self.assertEqual(status["lines"]["rejected"], 0)
        self.assertEqual(agent.stop(), 0, agent.said())


class SentTwice(EndToEnd):
    """A07, with the collector restarted between the two deliveries: stored once, counted as duplicate."""

    def test_resend_across_a_restart_of_the_collector(self):
        collector = self.start_collector()
        file = CASES / "A07" / "same_values_other_key_order.jsonl"
        first = self.home / "first.jsonl"
        first.write_text("".join(file.read_text().splitlines(keepends=True)[:2]))
        self.run_agent(collector, "job", first)
        collector.kill()
        collector = self.restart(collector)
        other_order = self.home / "second.jsonl"
        lines = file.read_text().splitlines(keepends=True)
        other_order.write_text(lines[0] + lines[2])
        self.run_agent(collector, "job", other_order)
        status = self.wait_for_run(collector, "job", lambda s: s["delivery"]["duplicate"] == 2, "duplicates counted")
        self.assertEqual(status["delivery"]["duplicate"], 2)  # the config and the record
        self.assertEqual(status["attempts"], [1])
        self.assertEqual(len(self.updates(collector, "job")), 1)


if __name__ == "__main__":
    unittest.main()
