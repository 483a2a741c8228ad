"""A real torchrun job, DistributedDataParallel over gloo on the CPU, with the Python package in it.

The delays are those of a training that goes wrong: a rank whose forward is slow, a rank whose loader is slow.
"""

import os
import re
import signal
import socket
import subprocess
import unittest

from harness import BIN, TESTS, EndToEnd, spawn, wait_until

PYTHON = "/usr/bin/python3"  # that has Debian's python3-torch
RANKS = 4
RUN = "job"
ACCOUNT = re.compile(r"rank (\d) has done (\d+) steps; delivered (\w+); (\{.*\})")
LAUNCHERS = re.compile(r"^(LAGGARD_|RANK$|WORLD_SIZE$|LOCAL_RANK$|SLURM_|OMPI_|PMI|TORCHELASTIC_)")


def has_torch():
    done = subprocess.run([PYTHON, "-c", "import torch.distributed.run"], capture_output=True)
    return done.returncode == 0


class Torchrun:
    """torchrun with four ranks of tests/e2e/torch/train.py; `before` is a command that it is started by."""

    def __init__(self, test, *arguments, ingest=None, restarts=0, before=(), **environment):
        self.log = test._log("torchrun")
        inherited = {name: value for name, value in os.environ.items() if not LAUNCHERS.match(name)}
        inherited["LAGGARD_LIBRARY"] = str(BIN.parent / "lib" / "liblaggard.so")
        inherited["PYTHONPATH"] = str(TESTS.parent / "agent" / "python")
        inherited["OMP_NUM_THREADS"] = "1"
        if ingest:
            inherited.update(LAGGARD_INGEST=ingest, LAGGARD_RUN=RUN)
        # Without -r and -t Debian's torchrun trips over Python 3.11.
        torchrun = [PYTHON, "-m", "torch.distributed.run", "-r", "1", "-t", "1", "--monitor_interval", "1"]
        torchrun += ["--nproc_per_node", RANKS, "--max_restarts", restarts, "--log_dir", test.home / "ranks"]
        torchrun += ["--master_port", free_port(), TESTS / "e2e" / "torch" / "train.py"]
        with open(self.log, "wb") as output:
            marked = [*arguments, "--mark", test.home]
            self.process = spawn(
                [*before, *torchrun, *marked], stdout=output, stderr=output, env={**inherited, **environment}
            )
        test.addCleanup(self._end)

    def said(self):
        return self.log.read_text()

    def wait(self, timeout_s=400):
        return self.process.wait(timeout_s)

    def accounts(self):
        """Of each rank, as it says at its end: steps, whether all was delivered, laggard.stats()."""
        found = ACCOUNT.findall(self.said())
        return {int(rank): (int(steps), all_in == "True", eval(stats)) for rank, steps, all_in, stats in found}

    def _end(self):
        if self.process.poll() is None:
            self.process.terminate()  # it takes its ranks along
            self.process.wait()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Torch(EndToEnd):
    def setUp(self):
        super().setUp()
        self.need(has_torch(), "Debian's python3-torch")

    def run_job(self, collector, *arguments, **options):
        job = Torchrun(self, *arguments, ingest=collector.ingest, **options)
        self.assertEqual(job.wait(), 0, job.said())
        return job

    def verdict(self, collector):
        return self.run_status(collector, RUN)["verdict"]

    def test_a_rank_whose_forward_turns_slow(self):
        """Twenty slow steps are enough, and laggard run says so; every stage is there with its parent and its kind."""
        collector = self.start_collector()
        around = [BIN / "laggard", "--collector", collector.http, "run", "--name", RUN, "--"]
        slow = ["--slow", "forward", "--slow-rank", 2, "--slow-from", 31]
        job = Torchrun(self, "--steps", 50, *slow, before=around)
        self.assertEqual(job.wait(), 0, job.said())
        self.assertRegex(job.said(), r"verdict +rank 2 \(.*\) holds every step back since step 31: forward")
        accounts = job.accounts()
        self.assertEqual(sorted(accounts), list(range(RANKS)))
        for rank, (steps, all_in, stats) in accounts.items():
            self.assertTrue(all_in, rank)
            self.assertEqual((stats["recorded"], stats["delivered"]), (steps, steps + 2), "the settings and the end")
            self.assertEqual((stats["ignored_calls"], stats["other_thread_calls"]), (0, 0))
        status = self.run_status(collector, RUN)
        self.assertEqual((status["state"], status["attempt"], status["world_size"]), ("ended", 1, RANKS))
        verdict = status["verdict"]
        self.assertEqual((verdict["kind"], verdict["held"]["ranks"]), ("one_rank", [2]), verdict)
        self.assertEqual((verdict["held"]["stage"], verdict["held"]["since"]), ("forward", 31))

        rows = self.cli_json(collector, "stages", RUN)["stages"]
        known = {row["stage"]: (row["parent"], row["kind"]) for row in rows if not row["exclusive"]}
        self.assertEqual(
            known,
            {
                "load": (None, "input"),
                "forward": (None, "work"),
                "loss": ("forward", "work"),
                "backward": (None, "sync"),
                "optimizer": (None, "work"),
            },
        )
        updates = self.updates(collector, RUN)
        self.assertEqual(len(updates), 50 * RANKS)
        for update in updates:
            self.assertEqual(update["calls"], {"load": 2, "forward": 2, "loss": 2, "backward": 2, "optimizer": 1} | self.first(update))
            self.assertEqual(update["counts"], {"samples": 8})
            self.assertEqual(len(update["sample_indices"]), 8)
            self.assertEqual(update.get("tags", []), ["checkpoint"] if update["step"] % 25 == 0 else [])

    def first(self, update):
        """The first step has one more call of the loader: iter()."""
        return {"load": 3} if update["step"] == 1 else {}

    def test_a_rank_whose_loader_is_slow(self):
        collector = self.start_collector()
        self.run_job(collector, "--steps", 35, "--slow", "load", "--slow-rank", 3)
        verdict = self.verdict(collector)
        self.assertEqual((verdict["kind"], verdict["held"]["ranks"], verdict["held"]["stage"]), ("one_rank", [3], "load"))

    def test_a_balanced_job_accuses_nobody(self):
        """With worker processes in the loaders, which are forked after laggard has begun."""
        collector = self.start_collector()
        self.run_job(collector, "--steps", 35, "--workers", 1)
        verdict = self.verdict(collector)
        self.assertIsNone(verdict["held"], verdict)
        self.assertEqual(self.run_status(collector, RUN)["delivery"]["stored"], RANKS * 37)

    def test_a_rank_is_killed_and_torchrun_starts_all_again(self):
        collector = self.start_collector()
        self.run_job(collector, "--steps", 25, "--die-at", 15, restarts=1)
        status = self.run_status(collector, RUN)
        self.assertEqual((status["attempt"], status["attempts"], status["state"]), (2, [1, 2], "ended"))
        self.assertEqual(status["delivery"]["conflict"], 0)
        first, second = (self.updates(collector, f"{RUN}@{attempt}") for attempt in (1, 2))
        self.assertEqual(sorted((u["rank"], u["step"]) for u in second), [(r, s) for r in range(RANKS) for s in range(1, 26)])
        self.assertLessEqual(max(update["step"] for update in first), 15, "the first attempt ends where it was killed")
        self.assertEqual(len({(u["rank"], u["step"]) for u in first}), len(first))

    def test_the_same_run_by_hand_once_more(self):
        """Nothing says that it is another start but that it is one."""
        collector = self.start_collector()
        for attempt in (1, 2):
            self.run_job(collector, "--steps", 12)
            status = self.run_status(collector, RUN)
            self.assertEqual((status["attempt"], status["steps_by_state"]["complete"]), (attempt, 12))
        self.assertEqual(status["delivery"]["conflict"], 0)

    def test_the_collector_is_killed_under_it(self):
        collector = self.start_collector()
        job = Torchrun(self, "--steps", 80, ingest=collector.ingest)
        self.wait_updates(collector, RUN, RANKS * 10, 200)
        collector.kill()
        collector = self.restart(collector)
        self.assertEqual(job.wait(), 0, job.said())
        updates = self.updates(collector, RUN)
        self.assertEqual(len(updates), RANKS * 80)
        self.assertEqual(self.run_status(collector, RUN)["steps_by_state"]["complete"], 80)
        self.assertTrue(all(all_in for _, all_in, _ in job.accounts().values()), job.said())

    def test_no_collector_at_all(self):
        job = Torchrun(self, "--steps", 15, ingest=f"tcp://127.0.0.1:{free_port()}")
        self.assertEqual(job.wait(), 0, job.said())
        self.assertEqual({steps for steps, _, _ in job.accounts().values()}, {15})
        warnings = [line for line in job.said().splitlines() if "[warning]" in line and "at the end" not in line]
        self.assertLessEqual(len(warnings), RANKS, job.said())

    def test_a_rank_ends_as_torchrun_ends_it(self):
        """SIGTERM to torchrun, which passes it on: no rank hangs."""
        collector = self.start_collector()
        job = Torchrun(self, "--steps", 10_000, ingest=collector.ingest)
        self.wait_updates(collector, RUN, RANKS * 5, 200)
        job.process.send_signal(signal.SIGTERM)
        job.wait(90)
        wait_until("its ranks to be gone", lambda: not ranks_left(self.home), 15)


def ranks_left(home):
    found = subprocess.run(["pgrep", "-f", f"train.py.*--mark {home}"], capture_output=True, text=True)
    return found.stdout.split()


if __name__ == "__main__":
    unittest.main()
