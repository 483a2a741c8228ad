"""Every constant of daemon/base/limits.h has its line in docs/limits.md, and every counter named there exists."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def main():
    header = (ROOT / "daemon/base/limits.h").read_text()
    page = (ROOT / "docs/limits.md").read_text()
    sources = "".join(
        (ROOT / file).read_text()
        for file in ("daemon/app/engine.cpp", "daemon/serve/metrics.cpp", "daemon/serve/run_json.cpp", "daemon/core/collector_rows.cpp")
    )
    constants = re.findall(r"^inline constexpr .*?\b(k\w+) =", header, re.MULTILINE)
    wrong = [f"limits.h has {name}, docs/limits.md has not" for name in constants if f"`{name}`" not in page]
    counters = set()
    for row in re.findall(r"^\| .*`k.*$", page, re.MULTILINE):
        last = row.rstrip(" |").rsplit("|", 1)[-1]
        counters.update(re.findall(r"`(\w+)`", last))
    known = {"rejected", "dropped", "late_completed", "partial"}  # of a run's records, lines and steps
    wrong += [
        f"docs/limits.md names the counter {name}, which nothing counts"
        for name in sorted(counters - known)
        if f'"{name}"' not in sources
    ]
    if len(constants) < 40 or len(counters) < 10:
        wrong.append(f"only {len(constants)} constants and {len(counters)} counters were found: is this test right?")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
