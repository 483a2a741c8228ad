"""What the fault tests share: seeded dice, generated jobs, and what became of them."""

import json
import os
import random
import sqlite3
from pathlib import Path

from processes import wait_until


def dice(topic):
    """A random number generator; the seed that repeats it is printed. LAGGARD_SEED chooses one."""
    seed = int(os.environ.get("LAGGARD_SEED", 0)) or random.SystemRandom().randrange(1, 1 << 32)
    print(f"{topic}: LAGGARD_SEED={seed}", flush=True)
    return random.Random(seed)


def say(topic, **figures):
    """Prints what was measured."""
    print(f"{topic}: " + ", ".join(f"{name}={value}" for name, value in figures.items()), flush=True)


class Job:
    """The records of a training job: one file of lines for each rank, the same for the same dice."""

    def __init__(self, rng, ranks, steps):
        self.ranks, self.steps = ranks, steps
        self.lines = [self._rank(random.Random(rng.random()), rank) for rank in range(ranks)]

    def _rank(self, rng, rank):
        lines = [json.dumps({"type": "config", "rank": rank, "world_size": self.ranks, "global_batch": 64})]
        for step in range(1, self.steps + 1):
            forward, backward, load = 4 + rng.random(), 8 + rng.random(), rng.random()
            record = {
                "type": "update",
                "rank": rank,
                "step": step,
                "wall_ms": forward + backward + load + rng.random(),
                "cuda_stream_ms": {"forward": forward, "backward": backward},
                "cpu_call_ms": {"load": load},
                "counts": {"samples": rng.randrange(1, 9)},
            }
            lines.append(json.dumps(record))
        return lines

    def text(self, rank, begin=0, end=None):
        """Lines begin..end of a rank; line 0 is its config."""
        return "".join(line + "\n" for line in self.lines[rank][begin:end])

    def updates(self):
        """Every record as it must be exported, by rank and step."""
        records = (json.loads(line) for lines in self.lines for line in lines[1:])
        return {(record["rank"], record["step"]): record for record in records}


def query(data, sql, *arguments):
    """Rows of a collector's database, read beside it."""
    connection = sqlite3.connect(f"file:{Path(data) / 'laggard.db'}?mode=ro", uri=True, timeout=30)
    try:
        return connection.execute(sql, arguments).fetchall()
    finally:
        connection.close()


def give_back_what_is_freed(test):
    """AddressSanitizer would hold it back, and the memory of what a test starts could not be told."""
    options = os.environ.get("ASAN_OPTIONS", "")
    os.environ["ASAN_OPTIONS"] = f"{options}:quarantine_size_mb=1"
    test.addCleanup(os.environ.__setitem__, "ASAN_OPTIONS", options)


def wait_stored(collector, run, items, deadline_s=240):
    """Waits until so many items of a run are durable, which the live view knows a commit earlier."""
    sql = "SELECT SUM(stored) FROM sources JOIN runs USING (run_id) WHERE name = ?"

    def met():
        return (query(collector.data, sql, run)[0][0] or 0) >= items

    wait_until(f"{items} items of {run} in the database", met, deadline_s)


def check_once(test, collector, run, ranks, steps):
    """Every record of every rank is stored, once, in one attempt; nothing was lost or refused. Returns the counts."""
    wait_stored(collector, run, ranks * (steps + 1))
    delivery = test.run_status(collector, run)["delivery"]
    test.assertEqual([delivery[name] for name in ("conflict", "rejected", "dropped")], [0, 0, 0])
    test.assertEqual(delivery["stored"], ranks * (steps + 1), "records, and a config of each rank")
    attempts = query(
        collector.data, "SELECT attempt_id, attempt FROM attempts JOIN runs USING (run_id) WHERE name = ?", run
    )
    test.assertEqual([number for _, number in attempts], [1], "attempts")
    attempt = attempts[0][0]
    of_steps = "SELECT COUNT(*), SUM(present) FROM steps WHERE attempt_id = ?"
    test.assertEqual(query(collector.data, of_steps, attempt), [(steps, ranks * steps)])
    of_ranks = "SELECT rank, records, last_step FROM ranks WHERE attempt_id = ? ORDER BY rank"
    stored = query(collector.data, of_ranks, attempt)
    test.assertEqual(stored, [(rank, steps, steps) for rank in range(ranks)])
    columns = "stored + duplicate + conflict + rejected + dropped"
    test.assertEqual(query(collector.data, f"SELECT rank FROM sources WHERE committed_seq != {columns}"), [])
    return {"stored": delivery["stored"], "duplicate": delivery["duplicate"]}
