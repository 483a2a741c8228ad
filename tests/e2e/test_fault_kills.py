"""SIGKILL of the collector and of agents, again and again, while a job is running: nothing is lost, nothing counts
twice, and no figure differs from those of a collector that was left alone."""

import time
import unittest

from harness import EndToEnd
from stress import Job, check_export, dice, query, say, wait_stored

RUN = "job"
RANKS, STEPS, AGENTS = 64, 2000, 8
KILLS = 20  # of the collector, and as many of agents


class Kills(EndToEnd):
    def setUp(self):
        super().setUp()
        self.rng = dice("kills")
        self.job = Job(self.rng, self.home, RANKS)
        self.collector = self.start_collector()
        self.agents = [self.follow(index) for index in range(AGENTS)]

    def follow(self, index):
        share = RANKS // AGENTS
        return self.start_agent(self.collector, RUN, *self.job.files[index * share : (index + 1) * share])

    def kill_collector(self):
        self.collector.kill()
        time.sleep(self.rng.choice([0, 0, 0.3]))
        self.collector = self.restart(self.collector)

    def kill_agent(self):
        index = self.rng.randrange(AGENTS)
        self.agents[index].kill()
        time.sleep(self.rng.choice([0, 0, 0.3]))
        self.agents[index] = self.follow(index)

    def test_every_record_is_stored_once(self):
        rounds = [self.kill_collector] * KILLS + [self.kill_agent] * KILLS
        self.rng.shuffle(rounds)
        begin = time.monotonic()
        for kill in rounds:
            self.job.write(STEPS // len(rounds))
            time.sleep(self.rng.uniform(0, 1))
            kill()
        killing_s = time.monotonic() - begin
        self.wait_updates(self.collector, RUN, RANKS * STEPS, deadline_s=300)
        # Until then an agent that has just begun may still be sending what another had delivered.
        for agent in self.agents:
            self.assertEqual(agent.stop(), 0, agent.said())
        say_s = time.monotonic() - begin
        self.check_tables()
        check_export(self, self.collector, RUN, self.job)
        self.check_figures()
        say("kills", kills=len(rounds), killing_s=f"{killing_s:.1f}", all_s=f"{say_s:.1f}", **self.counts)

    def check_tables(self):
        wait_stored(self.collector, RUN, RANKS * (STEPS + 1))
        data = self.collector.data
        self.assertEqual(query(data, "SELECT attempt, world_size FROM attempts"), [(1, RANKS)])
        steps = query(data, "SELECT step, state, present, expected, missing_count FROM steps ORDER BY step")
        self.assertEqual([step[0] for step in steps], list(range(1, STEPS + 1)))
        self.assertEqual({step[2:] for step in steps}, {(RANKS, RANKS, 0)})
        self.assertLessEqual({step[1] for step in steps}, {"complete", "late_completed"})
        self.assertEqual(
            query(data, "SELECT COUNT(*), SUM(ranks) FROM blocks"), [(STEPS, RANKS * STEPS)], "a block each step"
        )
        ranks = query(data, "SELECT rank, records, last_step FROM ranks ORDER BY rank")
        self.assertEqual(ranks, [(rank, STEPS, STEPS) for rank in range(RANKS)])
        columns = "stored, duplicate, conflict, rejected, dropped"
        sources = query(data, f"SELECT rank, committed_seq, {columns} FROM sources")
        for source in sources:
            self.assertEqual(source[1], sum(source[2:]), f"a source of rank {source[0]}: {columns}")
            self.assertEqual(source[4:], (0, 0, 0), f"rank {source[0]}: {columns}")
        for rank in range(RANKS):
            stored = sum(source[2] for source in sources if source[0] == rank)
            self.assertEqual(stored, STEPS + 1, f"records and the config of rank {rank}")
        delivery = self.run_status(self.collector, RUN)["delivery"]
        self.assertEqual(delivery["stored"], RANKS * (STEPS + 1))
        self.assertEqual(delivery["duplicate"], sum(source[3] for source in sources))
        self.counts = {"sources": len(sources), "stored": delivery["stored"], "duplicate": delivery["duplicate"]}

    def check_figures(self):
        """What is shown is what a collector shows that nobody killed."""
        undisturbed = self.start_collector("undisturbed")
        agent = self.start_agent(undisturbed, RUN, *self.job.files, extra=["--once"])
        self.assertEqual(agent.wait(240), 0, agent.said())
        for question in (["report", RUN], ["stages", RUN], ["steps", RUN, "--from", "1", "--to", str(STEPS)]):
            answers = [self.cli(collector, *question, "-o", "json") for collector in (self.collector, undisturbed)]
            # That a step was without a rank for a while is true of the one, and no figure.
            answers = [answer.replace('"late_completed"', '"complete"') for answer in answers]
            self.assertEqual(*answers, question)


if __name__ == "__main__":
    unittest.main()
