"""What the fault tests share: seeded dice, generated jobs, and what became of them."""

import json
import os
import random
import re
import sqlite3
from pathlib import Path

from processes import wait_until


WARNING = re.compile(r"\[warning\]|\[error\]")


def dice(topic):
    """A random number generator; the seed that repeats it is printed. LAGGARD_SEED chooses one."""
    seed = int(os.environ.get("LAGGARD_SEED", 0)) or random.SystemRandom().randrange(1, 1 << 32)
    print(f"{topic}: LAGGARD_SEED={seed}", flush=True)
    return random.Random(seed)


def say(topic, **figures):
    """Prints what was measured."""
    print(f"{topic}: " + ", ".join(f"{name}={value}" for name, value in figures.items()), flush=True)


class Job:
    """A training job: ranks that write a file of records each, the same for the same dice, when they are told to."""

    def __init__(self, rng, folder, ranks, name="rank"):
        self.ranks, self.steps = ranks, 0
        self.files = [folder / f"{name}{rank}.jsonl" for rank in range(ranks)]
        self.updates = {}  # every record as it must be exported, by rank and step
        self._dice = [random.Random(rng.random()) for _ in range(ranks)]
        for rank, file in enumerate(self.files):
            config = {"type": "config", "rank": rank, "world_size": ranks, "global_batch": 64}
            file.write_text(json.dumps(config) + "\n")

    def write(self, steps, **more):
        """The next steps of every rank; `more` are further keys of each record."""
        numbers = range(self.steps + 1, self.steps + steps + 1)
        texts = []
        for rank in range(self.ranks):
            records = [self._record(rank, step, more) for step in numbers]
            self.updates.update(((rank, record["step"]), record) for record in records)
            texts.append("".join(json.dumps(record) + "\n" for record in records))
        for file, text in zip(self.files, texts):  # at once, so that no rank lags behind the others
            with open(file, "a") as out:
                out.write(text)
        self.steps += steps

    def end(self):
        """Says of every rank that it is done."""
        for rank, file in enumerate(self.files):
            with open(file, "a") as out:
                out.write(json.dumps({"type": "end", "rank": rank}) + "\n")

    def _record(self, rank, step, more):
        rng = self._dice[rank]
        forward, backward, load = 4 + rng.random(), 8 + rng.random(), rng.random()
        return {
            "type": "update",
            "rank": rank,
            "step": step,
            "wall_ms": forward + backward + load + rng.random(),
            "cuda_stream_ms": {"forward": forward, "backward": backward},
            "cpu_call_ms": {"load": load},
            "counts": {"samples": rng.randrange(1, 9)},
            **more,
        }


def check_export(test, collector, run, job):
    """What is exported is what the job wrote, each record once."""
    expected = dict(job.updates)
    for record in test.updates(collector, run):
        sent = expected.pop((record["rank"], record["step"]), None)
        test.assertIsNotNone(sent, f"exported twice, or never sent: {record}")
        test.assertEqual({key: record[key] for key in sent}, sent)
    test.assertFalse(expected, "not exported")


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
