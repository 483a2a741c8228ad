"""Peers that are slow, greedy or confused, played by a small client of our own (tests/support/wire.py): each gets the
answer that docs/protocol.md promises, and none of them costs the others their delivery or the collector its memory."""

import multiprocessing
import statistics
import time
import unittest

from harness import EndToEnd, append, config_line, update_line
from processes import memory_bytes, wait_until
from stress import give_back_what_is_freed, query, say
from wire import FORWARD, Peer, config_batch, pb, records_batch

MIB = 1 << 20
RUN = "job"
COMMITTED = "SELECT committed_seq FROM sources"
GREEDY_RECORDS = 128  # of a batch
STEPS_BESIDE_A_FLOOD = 10
# Until a record beside the flood is seen; far above what is seen, so that a slow build passes too.
FAIR_S = 10


def greedy(ingest, sent):
    """Sends valid batches as fast as the socket takes them, whatever credit it was given, and reads nothing."""
    peer = Peer(ingest)
    peer.greet(run="greedy")
    while True:
        first = sent.value * GREEDY_RECORDS + 1
        peer.send(batch=records_batch(first, range(first, first + GREEDY_RECORDS)))
        sent.value += 1


class Peers(EndToEnd):
    def setUp(self):
        super().setUp()
        give_back_what_is_freed(self)
        self.collector = self.start_collector()

    def peer(self, **options):
        peer = Peer(self.collector.ingest, **options)
        self.addCleanup(peer.close)
        return peer

    def status(self, run=RUN):
        return self.run_status(self.collector, run)

    def counters(self):
        return self.status()["counters"]

    def counts(self, run=RUN):
        delivery = self.status(run)["delivery"]
        return {name: delivery[name] for name in ("stored", "duplicate", "conflict", "rejected", "dropped")}

    def assert_counts(self, run=RUN, **expected):
        """What became of a run's items; what is not named is 0. The live view knows it when the ack is there."""
        none = dict.fromkeys(("stored", "duplicate", "conflict", "rejected", "dropped"), 0)
        self.assertEqual(self.counts(run), {**none, **expected})

    # ---- greedy and slow ones ----

    def test_a_flood_does_not_starve_the_others(self):
        sent = multiprocessing.Value("L", 0)
        flood = multiprocessing.Process(target=greedy, args=(self.collector.ingest, sent), daemon=True)
        flood.start()
        self.addCleanup(flood.join)
        self.addCleanup(flood.kill)
        wait_until("the flood", lambda: sent.value > 1500, 60)  # more than the credit of one source
        file = self.home / "rank0.jsonl"
        append(file, config_line(0, 1))
        agent = self.start_agent(self.collector, RUN, file)
        waits, most = [], 0
        for step in range(1, STEPS_BESIDE_A_FLOOD + 1):
            begin = time.monotonic()
            append(file, update_line(0, step, 10.0))
            self.wait_updates(self.collector, RUN, step, 30)
            waits.append(time.monotonic() - begin)
            most = max(most, memory_bytes(self.collector.process.pid))
        over = self.counters()["batches_over_credit"]
        stored = self.counts("greedy")["stored"]
        median = statistics.median(waits)
        say("flood", batches=sent.value, over_credit=over, stored=stored, worst_s=f"{max(waits):.1f}",
            median_s=f"{median:.2f}", rss_mib=most // MIB)  # fmt: skip
        self.assertEqual(agent.stop(), 0, agent.said())
        self.assertGreater(over, 0)
        self.assertLess(median, FAIR_S)

    def test_a_peer_that_reads_no_acks(self):
        """It costs little memory; and the newest ack, which found no room, is said as soon as there is some."""
        peer = self.peer(receive_queue=1, receive_buffer=4096)
        peer.greet()
        peer.deliver(records_batch(1, [1]))
        before, batches = memory_bytes(self.collector.process.pid), 0
        again = pb.Envelope(channel=1, batch=records_batch(1, [1])).SerializeToString()
        while self.counters()["replies_unsent"] < 20_000:
            self.assertLess(batches, 2_000_000, "every ack found room")
            for _ in range(20_000):
                peer.send_bytes(again)
            batches += 20_000
            wait_until("all of its batches read", lambda: self.counters()["items"] > batches, 120)
        grown = memory_bytes(self.collector.process.pid) - before
        say("deaf", batches=batches, replies_unsent=self.counters()["replies_unsent"], rss_grown_mib=grown // MIB)
        self.assertLess(grown, 64 * MIB)
        peer.send(batch=records_batch(2, [2]))
        wait_until("the second record", lambda: query(self.collector.data, COMMITTED) == [(2,)])
        time.sleep(1)  # its ack has found no room by now
        begin, acks = time.monotonic(), 0
        while peer.wait_for("ack").committed_seq < 2:
            acks += 1
        say("deaf", acks_before=acks, late_s=f"{time.monotonic() - begin:.1f}")

    # ---- confused ones ----

    def test_a_batch_before_its_hello(self):
        peer = self.peer()
        peer.send(batch=records_batch(1, [1]))
        self.assertTrue(peer.wait_for("reject").hello_again)
        self.assertEqual(peer.greet().committed_seq, 0)
        peer.deliver(records_batch(1, [1]))
        self.assert_counts(stored=1)
        self.assertEqual(self.counters()["unknown_sessions"], 1)

    def test_a_gap_is_answered_with_the_last_word(self):
        peer = self.peer()
        peer.greet()
        peer.deliver(records_batch(1, [1, 2]))
        peer.send(batch=records_batch(5, [5, 6]))
        self.assertEqual(peer.wait_for("ack").committed_seq, 2)
        peer.deliver(records_batch(3, [3, 4, 5, 6]))
        self.assert_counts(stored=6)

    def test_what_was_durable_is_acknowledged_again(self):
        peer = self.peer()
        peer.greet()
        peer.deliver(records_batch(1, [1, 2, 3]))
        peer.send(batch=records_batch(1, [1, 2, 3]))
        self.assertEqual(peer.wait_for("ack").committed_seq, 3)
        peer.deliver(records_batch(2, [2, 3, 4]))  # half of it is new
        self.assert_counts(stored=4)

    def test_losses_are_named_and_no_rank_is_dead(self):
        """A15: what a sender had to drop is counted and named by number, and stays so."""
        peer = self.peer()
        ranks = {0: "source-0", 1: "source-1"}
        for channel, (rank, source) in enumerate(ranks.items(), 1):
            peer.greet(channel, rank=rank, source=source, origin="api")
            peer.deliver(config_batch(1, world_size=2), channel)
        peer.deliver(records_batch(2, range(1, 31), rank=0), 1)
        peer.deliver(records_batch(2, range(1, 6), rank=1), 2)
        # Items 7 to 16 (steps 6 to 15) and 22 to 26 of rank 1 are lost.
        peer.deliver(records_batch(17, range(16, 21), rank=1, dropped_before=10), 2)
        peer.deliver(records_batch(27, range(26, 31), rank=1, dropped_before=5), 2)
        losses = [{"rank": 1, "host": "node1", "origin": "api", "dropped": 15,
                   "ranges": [{"first_seq": 7, "last_seq": 16}, {"first_seq": 22, "last_seq": 26}]}]  # fmt: skip

        def check():
            status = self.status()
            self.assertEqual(status["losses"], losses)
            self.assert_counts(stored=2 + 30 + 15, dropped=15)
            screen = self.cli(self.collector, "status", RUN)
            self.assertIn("rank 1: 15 items of node1:api, by number 7 to 16, 22 to 26", screen)
            self.assertIn(f'laggard_records_total{{run="{RUN}",result="dropped"}} 15', self.collector.text("/metrics"))
            return status

        status = check()
        self.assertEqual((status["silent"], status["silent_ranks"], status["reporting"]), (0, [], 2))
        states = [rank["state"] for rank in self.collector.get(f"/api/v1/runs/{RUN}/ranks")["ranks"]]
        self.assertEqual(states, ["live", "live"])
        (stored,) = query(self.collector.data, "SELECT lost FROM sources WHERE rank = 1")
        self.assertEqual(stored, ("[[7,16],[22,26]]",))
        self.collector.kill()
        self.collector = self.restart(self.collector)
        check()

    def test_only_so_many_ranges_are_named(self):
        peer = self.peer()
        peer.greet(origin="api")
        peer.deliver(config_batch(1))
        seq = 2
        for _ in range(50):
            peer.deliver(records_batch(seq + 1, [seq], dropped_before=1))
            seq += 2
        (losses,) = self.status()["losses"]
        self.assertEqual((losses["dropped"], len(losses["ranges"])), (50, 32))
        self.assertEqual(losses["ranges"][-1], {"first_seq": 100, "last_seq": 100})
        self.assert_counts(stored=51, dropped=50)

    def test_one_source_on_two_connections(self):
        """The one that said Hello last has the source; the other is told to ask, and takes it back by asking."""
        first, second = self.peer(), self.peer()
        first.greet()
        first.deliver(records_batch(1, [1, 2, 3]))
        self.assertEqual(second.greet().committed_seq, 3)
        first.send(batch=records_batch(4, [4]))
        self.assertTrue(first.wait_for("reject").hello_again)
        second.deliver(records_batch(4, [4, 5]))
        self.assertEqual(first.greet().committed_seq, 5)
        first.deliver(records_batch(6, [6]))
        second.send(batch=records_batch(6, [6]))
        self.assertTrue(second.wait_for("reject").hello_again)
        self.assert_counts(stored=6)

    def test_an_old_incarnation_comes_back(self):
        """An agent that was paused and then replaced goes on where it was: the file's lines are duplicates."""
        old, new = self.peer(), self.peer()
        old.greet(source="old")
        old.deliver(config_batch(1))
        old.deliver(records_batch(2, range(1, 11)))
        new.greet(source="new")
        new.deliver(config_batch(1))
        new.deliver(records_batch(2, range(1, 21)))
        self.assertEqual(old.greet(source="old").committed_seq, 11)
        old.deliver(records_batch(12, range(11, 21)))
        new.deliver(records_batch(22, range(21, 26)))
        self.assert_counts(stored=1 + 25, duplicate=11 + 10)
        status = self.status()
        self.assertEqual((status["attempts"], status["clashes"]), ([1], []))

    def test_a_known_source_of_another_run_or_rank(self):
        peer = self.peer()
        peer.greet()
        peer.deliver(records_batch(1, [1]))
        for channel, hello in enumerate(({"run": "other"}, {"rank": 1}), 2):
            refused = peer.greet(channel, **hello)
            self.assertIn("belongs to another rank or run", refused.reason)
            self.assertFalse(refused.hello_again)
        peer.deliver(records_batch(2, [2]))
        self.assert_counts(stored=2)
        self.assertEqual(self.counters()["hellos_refused"], 2)

    def test_what_is_no_message(self):
        peer = self.peer()
        peer.greet()
        peer.deliver(records_batch(1, [1]))
        peer.send_bytes(b"\xff" * 100)
        peer.send_bytes(b"")
        peer.send(batch=records_batch(2, [2], rank=5))  # not the rank of its Hello
        self.assertTrue(peer.wait_for("reject").hello_again)
        peer.send(batch=records_batch(2, [2], layouts=[pb.Layout(stream=["other"])]))  # that number has a layout
        self.assertTrue(peer.wait_for("reject").hello_again)
        self.assertEqual(peer.greet(layouts=[FORWARD]).committed_seq, 1)
        peer.deliver(records_batch(2, [2]))
        self.assert_counts(stored=2)
        self.assertGreaterEqual(self.counters()["messages_malformed"], 3)


if __name__ == "__main__":
    unittest.main()
