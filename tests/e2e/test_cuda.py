"""Device times on a real GPU, beside those of PyTorch's own events. Needs a PyTorch that has CUDA."""

import json
import subprocess
import sys
import unittest

from harness import TESTS, EndToEnd
from stress import say
from test_python import RUN, environment

STEPS = 50


def has_gpu():
    script = "import torch; raise SystemExit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 0


class Cuda(EndToEnd):
    def setUp(self):
        super().setUp()
        if not has_gpu():
            self.skipTest("this machine has no GPU with PyTorch")

    def run_job(self, collector, how):
        done = subprocess.run(
            [sys.executable, TESTS / "e2e/cuda/train.py", str(STEPS), how],
            env=environment(LAGGARD_INGEST=collector.ingest, LAGGARD_RUN=RUN if how == "device" else how),
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = json.loads(done.stdout)
        say(how, stage_us=seen["stage_us"], device_lost=seen["device_lost"])
        return seen

    def test_device_times_are_those_of_pytorchs_events(self):
        collector = self.start_collector()
        seen = self.run_job(collector, "device")
        self.run_job(collector, "host")
        updates = {update["step"]: update for update in self.updates(collector, RUN)}
        for step, ms in enumerate(seen["forward_ms"], 1):
            self.assertAlmostEqual(updates[step]["cuda_stream_ms"]["forward"], ms, delta=0.05 + ms * 0.05)
        self.assertNotIn("captured", updates[STEPS + 1].get("cuda_stream_ms", {}))
        self.assertIn("captured", updates[STEPS + 1]["cpu_call_ms"])
        self.assertEqual(seen["device_lost"], 0)


if __name__ == "__main__":
    unittest.main()
