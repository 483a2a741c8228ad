"""The C example under Open MPI's mpirun, which knows nothing of laggard: every process finds its rank."""

import os
import shutil
import subprocess
import unittest

from harness import BIN, EndToEnd

RUN = "job"
RANKS = 4


class Mpirun(EndToEnd):
    def setUp(self):
        super().setUp()
        self.need(shutil.which("mpirun"), "Debian's openmpi-bin")

    def mpirun(self, *command, **more):
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
        launch = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,tcp", "-n", str(RANKS)]
        return subprocess.run(
            [*launch, *map(str, command)], env={**inherited, **more}, capture_output=True, text=True, timeout=120
        )

    def test_each_process_finds_its_rank(self):
        collector = self.start_collector()
        done = self.mpirun(BIN / "training_loop", 20, 5, LAGGARD_INGEST=collector.ingest, LAGGARD_RUN=RUN)
        self.assertEqual(done.returncode, 0, done.stderr)
        status = self.run_status(collector, RUN)
        self.assertEqual((status["world_size"], status["state"]), (RANKS, "ended"))
        self.assertEqual(status["steps_by_state"]["complete"], 20)
        updates = {(update["rank"], update["step"]) for update in self.updates(collector, RUN)}
        self.assertEqual(updates, {(rank, step) for rank in range(RANKS) for step in range(1, 21)})
        configs = [line for line in self.export(collector, RUN) if line["type"] == "config"]
        self.assertEqual(sorted(c["topology"]["local_rank"] for c in configs), list(range(RANKS)))

    def test_the_doctor_sees_what_the_job_would(self):
        collector = self.start_collector()
        known = {"LAGGARD_INGEST": collector.ingest, "LAGGARD_COLLECTOR": collector.http}
        done = self.mpirun(BIN / "laggard", "doctor", "-o", "csv", **known)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for rank in range(RANKS):
            self.assertIn(f"rank,{rank},OMPI_COMM_WORLD_RANK", done.stdout)
        self.assertEqual(done.stdout.count(f"world size,{RANKS},OMPI_COMM_WORLD_SIZE"), RANKS)


if __name__ == "__main__":
    unittest.main()
