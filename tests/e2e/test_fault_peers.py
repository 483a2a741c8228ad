"""Peers that are slow, greedy or confused, played by a small client of our own (tests/support/wire.py): each gets the
answer that docs/protocol.md promises, and none of them costs the others their delivery or the collector its memory."""

import multiprocessing
import time
import unittest

from harness import EndToEnd, append, config_line, update_line
from processes import wait_until
from stress import cpu_s, query, rss_bytes, say
from wire import Peer, config_batch, pb, records_batch

MIB = 1 << 20


def flood(ingest, batches, sent):
    """Sends valid batches as fast as the socket takes them, whatever credit it was given, and reads nothing."""
    peer = Peer(ingest)
    peer.greet(run="flood")
    records = 128
    for number in range(batches):
        first = number * records
        peer.send(batch=records_batch(first + 1, range(first + 1, first + records + 1)))
        sent.value = number + 1
    time.sleep(600)


class Peers(EndToEnd):
    def setUp(self):
        super().setUp()
        self.collector = self.start_collector()

    def peer(self, **options):
        peer = Peer(self.collector.ingest, **options)
        self.addCleanup(peer.close)
        return peer

    def delivery(self, run="job"):
        return self.run_status(self.collector, run)["delivery"]

    def test_a_flood_does_not_starve_the_others(self):
        sent = multiprocessing.Value("L", 0)
        flooding = multiprocessing.Process(target=flood, args=(self.collector.ingest, 100_000, sent), daemon=True)
        flooding.start()
        self.addCleanup(flooding.kill)
        wait_until("the flood to have begun", lambda: sent.value > 100)
        files = [self.home / f"rank{rank}.jsonl" for rank in range(2)]
        agents = [self.start_agent(self.collector, "job", file) for file in files]
        for rank, file in enumerate(files):
            append(file, config_line(rank, 2))
        worst, most = 0.0, 0
        for step in range(1, 41):
            begin = time.monotonic()
            for rank, file in enumerate(files):
                append(file, update_line(rank, step, 10.0))
            self.wait_updates(self.collector, "job", 2 * step, 60)
            worst = max(worst, time.monotonic() - begin)
            most = max(most, rss_bytes(self.collector.process.pid))
        say("flood", batches_sent=sent.value, worst_s=f"{worst:.2f}", rss_mib=most // MIB,
            stored=self.delivery("flood")["stored"])
        for agent in agents:
            self.assertEqual(agent.stop(), 0, agent.said())


if __name__ == "__main__":
    unittest.main()
