"""Hands the steps of a training process over to a laggard collector.

    import laggard

    laggard.init()
    for batch in laggard.wrap_loader(loader):
        with laggard.step(samples=len(batch)):
            with laggard.stage("forward"):
                ...
            with laggard.stage("backward", kind="sync"):
                ...
    laggard.end()

Nothing here raises, waits for a collector or slows a step by more than microseconds; only flush() and end()
wait, as long as they are told. What goes wrong is said once on stderr, and the job goes on. Without the shared
library, with LAGGARD_DISABLED=1, before init() and after end() every call does nothing. The thread that calls
init() is the one that measures; calls from others, and from forked children, do nothing.
"""

__version__ = "0.1.0"

from ._loader import wrap_loader
from ._measure import (
    begin_step,
    config,
    count,
    end,
    end_step,
    flush,
    init,
    sample_ids,
    stage,
    stats,
    step,
    tag,
    value,
)

__all__ = [
    "begin_step",
    "config",
    "count",
    "end",
    "end_step",
    "flush",
    "init",
    "sample_ids",
    "stage",
    "stats",
    "step",
    "tag",
    "value",
    "wrap_loader",
]
