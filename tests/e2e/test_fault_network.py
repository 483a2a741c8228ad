"""Networks that break, stall and lie between agents and their collector, and collectors that are not there (case A16):
what was written arrives once, and an agent costs next to nothing while it waits."""

import time
import unittest

from harness import EndToEnd, append, config_line, update_line
from processes import cpu_s, wait_until
from proxy import ClosedPort, Proxy, without_collector
from stress import WARNING, Job, check_export, check_once, dice, say

RUN = "job"
# Of one core, while there is no collector; far above what is seen, so that a slow build passes too.
IDLE_SHARE = 0.2
IDLE_S = 6
# What --once and SIGTERM promise, and what a loaded machine may add.
GIVE_UP_S, STOP_S, SLACK_S = 10, 4, 20


class Network(EndToEnd):
    def setUp(self):
        super().setUp()
        self.rng = dice("network")

    def write(self, records, rank=0, world_size=1):
        file = self.home / f"rank{rank}.jsonl"
        lines = [config_line(rank, world_size)]
        lines += [update_line(rank, step, 10.0 + step) for step in range(1, records + 1)]
        append(file, "".join(lines))
        return file

    def proxy_to(self, collector):
        host, port = collector.ingest.removeprefix("tcp://").split(":")
        proxy = Proxy((host, int(port)), self.rng)
        self.addCleanup(proxy.close)
        return proxy

    def follow(self, collector, *files, extra=()):
        return self.start_agent(collector, RUN, *files, extra=extra)

    def check_idle(self, agents):
        """Agents (by a word on each) that have no collector are all but asleep, and have said so once."""
        wait_until("their warnings", lambda: all(WARNING.search(agent.said()) for agent in agents.values()))
        begin = time.monotonic()
        before = {what: cpu_s(agent.process.pid) for what, agent in agents.items()}
        time.sleep(IDLE_S)
        for what, agent in agents.items():
            share = (cpu_s(agent.process.pid) - before[what]) / (time.monotonic() - begin)
            say(what, cpu_percent=f"{100 * share:.1f}")
            self.assertIsNone(agent.process.poll(), agent.said())
            self.assertLess(share, IDLE_SHARE, what)
            self.assertEqual(len(WARNING.findall(agent.said())), 1, agent.said())

    def test_where_no_collector_answers(self):
        """A16 V1, V2, V3 and V5, A17 V2: an agent that follows, and one with --once."""
        places = without_collector(self)
        file = self.write(100)
        agents = {what: self.follow(place, file) for what, place in places.items()}
        self.check_idle(agents)
        for what, agent in agents.items():
            begin = time.monotonic()
            self.assertEqual(agent.stop(), 0, agent.said())
            stop_s = time.monotonic() - begin
            self.assertLess(stop_s, STOP_S + SLACK_S, what)
            self.assertIn("undelivered: 101", agent.said(), what)
            say(what, stop_s=f"{stop_s:.1f}")
        begin = time.monotonic()
        agents = {what: self.follow(place, file, extra=["--once"]) for what, place in places.items()}
        for what, agent in agents.items():
            self.assertEqual(agent.wait(GIVE_UP_S + SLACK_S), 3, f"{what}: {agent.said()}")
            self.assertIn("undelivered: 101 (no collector answered)", agent.said(), what)
            say(what, once_s=f"{time.monotonic() - begin:.1f}")

    def test_a_collector_that_comes_later_and_comes_back(self):
        place = ClosedPort()
        self.addCleanup(place.close)
        files = [self.write(1000, rank, 2) for rank in range(2)]
        agents = [self.follow(place, file) for file in files]
        self.check_idle({f"before the collector, {i}": agent for i, agent in enumerate(agents)})
        collector = self.start_collector(ingest=place.ingest)
        self.wait_updates(collector, RUN, 2000, 60)
        self.assertEqual(collector.stop(), 0)
        for file, rank in zip(files, range(2)):
            append(file, "".join(update_line(rank, step, 10.0) for step in range(1001, 1501)))
        time.sleep(self.rng.uniform(1, 4))
        collector = self.restart(collector)
        self.wait_updates(collector, RUN, 3000, 60)
        for agent in agents:
            self.assertEqual(agent.stop(), 0, agent.said())
            self.assertEqual(len(WARNING.findall(agent.said())), 2, agent.said())  # not there, and gone once
        check_once(self, collector, RUN, 2, 1500)

    def test_cut_delayed_stalled_and_trickled(self):
        ranks, steps, faults = 8, 1200, 24
        job = Job(self.rng, self.home, ranks)
        collector = self.start_collector()
        proxies = [self.proxy_to(collector) for _ in range(4)]
        agents = [self.follow(proxy, *job.files[2 * i : 2 * i + 2]) for i, proxy in enumerate(proxies)]
        begin, cuts = time.monotonic(), 0
        for _ in range(faults):
            job.write(steps // faults)
            proxy = self.rng.choice(proxies)
            proxy.mode = self.rng.choice(["forward", "forward", "delay", "trickle", "stall"])
            time.sleep(self.rng.uniform(0, 1))
            if self.rng.random() < 0.7:
                cuts += self.rng.choice(proxies).cut(reset=self.rng.random() < 0.5)
        for proxy in proxies:
            proxy.mode = "forward"
        self.wait_updates(collector, RUN, ranks * steps, 120)
        for agent in agents:
            self.assertEqual(agent.stop(), 0, agent.said())
        stored = check_once(self, collector, RUN, ranks, steps)
        check_export(self, collector, RUN, job)
        say("bad network", cuts=cuts, s=f"{time.monotonic() - begin:.1f}", **stored)

    def test_half_open(self):
        """Nothing comes through any more and nobody says so: the agent finds out, and begins anew."""
        collector = self.start_collector()
        proxy = self.proxy_to(collector)
        agent = self.follow(proxy, self.write(1000))
        self.wait_updates(collector, RUN, 1000)
        proxy.mode = "stall"
        append(self.home / "rank0.jsonl", "".join(update_line(0, step, 10.0) for step in range(1001, 2001)))
        begin = time.monotonic()
        wait_until("another connection", lambda: proxy.accepted > 1, 60)
        noticed_s = time.monotonic() - begin
        proxy.mode = "forward"
        self.wait_updates(collector, RUN, 2000, 60)
        self.assertEqual(agent.stop(), 0, agent.said())
        self.assertLessEqual(len(WARNING.findall(agent.said())), 2, agent.said())
        say("half open", noticed_s=f"{noticed_s:.1f}", **check_once(self, collector, RUN, 1, 2000))


if __name__ == "__main__":
    unittest.main()
