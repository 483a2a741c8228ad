"""The reasons for which a line is no record: docs/records.md lists those that the agent gives, and no others."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ("line_parser", "record_reader", "json_line", "rank_source", "file_feed")


def main():
    # In these files a literal of several words is a reason and nothing else.
    words = r'"([a-z][A-Za-z0-9-]*(?: [A-Za-z0-9-]+)+)"'
    given = {reason for name in SOURCES for reason in re.findall(words, (ROOT / f"agent/{name}.cpp").read_text())}
    rows = re.findall(r"^\| (?:foreign|rejected) \|([^|]*)\|", (ROOT / "docs/records.md").read_text(), re.MULTILINE)
    listed = {reason for row in rows for reason in re.findall(r"`([^`]+)`", row)}
    wrong = [f"docs/records.md lacks the reason {reason!r}" for reason in sorted(given - listed)]
    wrong += [f"docs/records.md lists {reason!r}, which no line is refused for" for reason in sorted(listed - given)]
    if len(given) < 20:
        wrong.append(f"only {len(given)} reasons were found: is this test right?")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
