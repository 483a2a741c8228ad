"""What deploy/demo shows, on the programs that are already built."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from harness import BIN, TESTS


class Demo(unittest.TestCase):
    def test_it_runs_reports_and_leaves_nothing_running(self):
        script = TESTS.parent / "deploy" / "replay_demo.py"
        with tempfile.TemporaryDirectory(prefix="laggard-e2e-") as home:
            done = subprocess.run(
                [sys.executable, "-B", script, "--bin", BIN],
                capture_output=True,
                text=True,
                timeout=120,
                env={"PATH": "/usr/bin:/bin", "TMPDIR": home},
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(done.stdout.count("$ laggard status"), 4)
            self.assertRegex(done.stdout, r"match.*PASS")
            for figure in ("14.674", "15.416", "15.348", "14.716"):
                self.assertIn(figure, done.stdout)
            kept = re.search(r"of this demonstration: (\S+)", done.stdout)[1]
            self.assertTrue((Path(kept) / "data").is_dir())
            self.assertEqual(programs_under(kept), [])


def programs_under(path):
    """Command lines of running programs that name this folder."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes().decode(errors="replace")
        except OSError:  # it has ended meanwhile
            continue
        if path in command:
            found.append(command)
    return found


if __name__ == "__main__":
    unittest.main()
