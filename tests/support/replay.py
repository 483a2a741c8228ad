"""Writes recorded rank files again, line by line, as the ranks of a running job would."""

import random
import time
from pathlib import Path


def shuffled_lines(files, seed):
    """Yields (file index, line) so that each file keeps its order and the files mix as a seeded dice decides."""
    dice = random.Random(seed)
    waiting = [Path(file).read_text().splitlines(keepends=True)[::-1] for file in files]
    while any(waiting):
        index = dice.choice([i for i, lines in enumerate(waiting) if lines])
        yield index, waiting[index].pop()


def replay(files, targets, seed, pause_s, on_line=lambda written: None):
    """Appends the lines of files[i] to targets[i], one at a time; on_line(n) is called after the n-th."""
    outputs = [open(target, "a", buffering=1) for target in targets]
    try:
        for written, (index, line) in enumerate(shuffled_lines(files, seed), 1):
            outputs[index].write(line)
            on_line(written)
            time.sleep(pause_s)
    finally:
        for output in outputs:
            output.close()
