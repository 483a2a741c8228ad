#!/usr/bin/env python3
"""What the Python package costs the thread that measures, as a table for docs/overhead.md.

    LAGGARD_LIBRARY=build/release/lib/liblaggard.so tests/bench/python_bench.py [tcp://127.0.0.1:17600]

Without the address the rows with a collector are left out, without PyTorch those of torch.profiler. Stages are timed
ten at a time, as reading the clock costs as much as one of them.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "agent" / "python"))

import laggard  # noqa: E402

ROUNDS = 20_000
STAGES = 10
NOWHERE = "tcp://127.0.0.1:9"
SLEEP_S = 0.03
SLEPT_ROUNDS = 100


def percentiles(times, per):
    times.sort()
    return f"{times[len(times) // 2] / per:,.0f} | {times[len(times) * 99 // 100] / per:,.0f}"


def timed(body, rounds=ROUNDS, pause_s=0.0):
    clock = time.perf_counter_ns
    times = []
    for _ in range(rounds):
        if pause_s:
            time.sleep(pause_s)
        begin = clock()
        body()
        times.append(clock() - begin)
    return times


def empty():
    for _ in range(STAGES):
        pass


class Nothing:
    __slots__ = ()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        pass


NOTHING = Nothing()


def nothing():
    for _ in range(STAGES):
        with NOTHING:
            pass


def stages():
    for _ in range(STAGES):
        with laggard.stage("forward"):
            pass


def named_stages():
    for _ in range(STAGES):
        laggard.stage("forward")


def counts():
    for _ in range(STAGES):
        laggard.count("samples", 4)


def values():
    for _ in range(STAGES):
        laggard.value("loss", 0.5)


def tags():
    for _ in range(STAGES):
        laggard.tag("logging")


def empty_steps():
    for _ in range(STAGES):
        with laggard.step():
            pass


def one_step():
    with laggard.step(samples=4):
        for _ in range(STAGES):
            with laggard.stage("forward"):
                pass


def report(what, unit, figures):
    print(f"| {what} | {unit} | {figures} |", flush=True)


def measure(what):
    laggard.init(run=f"bench {what}", rank=0, world_size=1)
    step_unit = f"step of {STAGES} stages"
    if what != "ring full":
        with laggard.step():
            report(what, "stage", percentiles(timed(stages), STAGES))
    if what == "disabled":
        for unit, body in (
            ("call of `stage()`", named_stages),
            ("call of `count()`", counts),
            ("call of `value()`", values),
            ("call of `tag()`", tags),
            ("step without stages (three calls)", empty_steps),
        ):
            report(what, unit, percentiles(timed(body), STAGES))
    report(what, step_unit, percentiles(timed(one_step), 1))
    if what in ("disabled", "collector there"):
        slept = timed(one_step, SLEPT_ROUNDS, SLEEP_S)
        report(what, f"{step_unit}, 30 ms after the last", percentiles(slept, 1))
    os._exit(0)


def measure_profiler():
    from torch.profiler import record_function

    def functions():
        for _ in range(STAGES):
            with record_function("forward"):
                pass

    report("torch.profiler.record_function, no profiler on", "block", percentiles(timed(functions, 2000), STAGES))


def in_process(what, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
    environment["LAGGARD_LIBRARY"] = os.environ.get("LAGGARD_LIBRARY", "")
    subprocess.run([sys.executable, __file__, "--measure", what], env={**environment, **variables}, check=False)


def main():
    if sys.argv[1:2] == ["--measure"]:
        return measure(sys.argv[2]) if sys.argv[2] != "profiler" else measure_profiler()
    print("| | per | p50 ns | p99 ns |\n|---|---|---|---|")
    report("empty loop", "iteration", percentiles(timed(empty), STAGES))
    report("empty class of Python's", "block", percentiles(timed(nothing), STAGES))
    in_process("disabled", LAGGARD_DISABLED="1")
    if sys.argv[1:]:
        in_process("collector there", LAGGARD_INGEST=sys.argv[1])
    in_process("collector absent", LAGGARD_INGEST=NOWHERE)
    in_process("ring full", LAGGARD_INGEST=NOWHERE, LAGGARD_QUEUE_RECORDS="256")
    in_process("profiler")


if __name__ == "__main__":
    main()
