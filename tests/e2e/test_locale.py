"""Numbers are read and written with a point, whatever the environment's locale says."""

import os
import subprocess
import sys
import unittest
from unittest import mock

from harness import EndToEnd, append, config_line, update_line, wait_until

RUN = "job"
PROFILE = """
stage_order = ["forward", "backward"]
kinds = {backward = "sync"}
parents = {forward = "step", backward = "step"}
[[ratios]]
name = "share %"
numerator = "used"
denominator = "all"
"""
ASKED = [
    ["export", RUN],
    *[["report", RUN, "--profile", "{profile}", "-o", form] for form in ("table", "csv", "json", "jsonl", "markdown")],
    *[[command, RUN, "-o", form] for command in ("stages", "steps") for form in ("table", "csv", "json")],
    ["step", RUN, "2"],
    ["step", RUN, "2", "-o", "json"],
]


class Locale(EndToEnd):
    def make_german(self):
        """A folder with a locale that writes 1.234,5 for 1234.5, which a bare Debian does not have."""
        folder = self.home / "locales"
        folder.mkdir()
        target = folder / "de_DE.UTF-8"
        made = subprocess.run(
            ["localedef", "--no-archive", "-i", "de_DE", "-f", "UTF-8", target], capture_output=True, text=True
        )
        self.assertTrue((target / "LC_NUMERIC").exists(), f"no locale (package locales?): {made.stderr}")
        return {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "LOCPATH": str(folder)}

    def all_output(self, name, environment):
        """What everything that prints numbers prints of one small job under that environment."""
        with mock.patch.dict(os.environ, environment):
            profile = self.home / "profile.toml"
            profile.write_text(PROFILE)
            # 2.5 is refused by whoever reads numbers as a German.
            collector = self.start_collector(data=name, config={"overdue_factor": 2.5})
            files = [self.home / f"{name}-rank{rank}.jsonl" for rank in range(2)]
            for rank, file in enumerate(files):
                append(file, config_line(rank, 2, lr=2.5e-7, note="1,5"))
                for step in (1, 2, 3):
                    stages = {"forward": 1234567.875 + rank, "backward": 0.1 + step / 3, "tiny": 1e-7}
                    more = {"host_ms": {"forward": 1.5}, "counts": {"used": 1234567, "all": 2000000}}
                    append(file, update_line(rank, step, 2345678.0625 + step / 7, stages, loss=1.0 / 3, **more))
            self.start_agent(collector, RUN, *files)  # which goes on: a run that has ended has no figures
            self.wait_for_run(collector, RUN, lambda s: s["steps_by_state"]["complete"] == 3, "three steps")
            wait_until("what is stored", lambda: len(self.updates(collector, RUN)) == 6)
            said = [self.cli(collector, *[part.format(profile=profile) for part in command]) for command in ASKED]
            said.append(self.figures(collector))
            self.assertEqual(collector.stop(), 0)
        return said

    def figures(self, collector):
        """The lines of /metrics that do not speak of the time."""
        with_time = ("timestamp", "start_time", "storage", "laggard_http", "laggard_ingest", "laggard_event")
        page = collector.text("/metrics")
        return "\n".join(line for line in page.splitlines() if not any(word in line for word in with_time))

    def test_a_locale_with_a_comma_changes_nothing(self):
        german = self.make_german()
        control = "import locale; locale.setlocale(locale.LC_ALL, ''); print(locale.str(1.5))"
        done = subprocess.run(
            [sys.executable, "-c", control], env={**os.environ, **german}, capture_output=True, text=True
        )
        self.assertEqual(done.stdout, "1,5\n", f"the locale does not work: {done.stderr}")
        plain = self.all_output("c", {"LC_ALL": "C"})
        self.assertIn("1234567.875", plain[0])
        self.assertIn(" 2345.6", plain[-1])
        for command, expected, got in zip(ASKED + [["/metrics"]], plain, self.all_output("de", german)):
            self.assertEqual(got, expected, command)


if __name__ == "__main__":
    unittest.main()
