"""A strict reader of Prometheus' text format, written from its specification and independent of the daemon."""

import re

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (\S+)$")
_ESCAPES = {r"\"": '"', r"\\": "\\", r"\n": "\n"}


def parse(text):
    """{(name, frozenset of (label, value)): number}. Raises ValueError for what Prometheus would refuse."""
    if not text.endswith("\n"):
        raise ValueError("the page does not end with a newline")
    samples = {}
    for line in text.split("\n"):
        if not line or line.startswith("#"):
            continue
        match = _SAMPLE.match(line)
        if not match:
            raise ValueError(f"not a sample: {line!r}")
        key = (match[1], frozenset(_labels(match[2] or "")))
        if key in samples:
            raise ValueError(f"twice: {line!r}")
        samples[key] = float(match[3])
    return samples


def _labels(text):
    labels, at = [], 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if not match:
            raise ValueError(f"not a label: {text[at:]!r}")
        labels.append((match[1], re.sub(r'\\["\\n]', lambda escape: _ESCAPES[escape[0]], match[2])))
        at = match.end()
    return labels
