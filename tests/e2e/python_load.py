"""A job that uses the package as tests want it, and prints what it saw as one line of JSON.

    loop STEPS STEP_US   steps with two stages, STEP_US between them, then end()
    exit STEPS           a flush of at most 2 s, no end()
    fork STEPS           children in the middle: one returns, one calls os._exit, one uses the package
    threads STEPS        a thread that uses the package too
"""

import json
import os
import sys
import threading
import time

import laggard


def one_step(times):
    begin = time.perf_counter_ns()
    with laggard.step(samples=4):
        with laggard.stage("forward"):
            pass
        with laggard.stage("backward", kind="sync"):
            pass
    times.append(time.perf_counter_ns() - begin)


def forked(what):
    child = os.fork()
    if child:
        return child
    if what == "uses":
        one_step([])
        if laggard.init() or laggard.flush(1) or laggard.end(1):
            os._exit(1)
    if what == "leaves":
        os._exit(0)
    sys.exit(0)


def main():
    mode, steps = sys.argv[1], int(sys.argv[2])
    pause_s = int(sys.argv[3]) / 1e6 if len(sys.argv) > 3 else 0
    began = laggard.init()
    times, failed = [], 0
    for number in range(steps):
        one_step(times)
        if pause_s:
            time.sleep(pause_s)
        if number == steps // 2 and mode == "fork":
            children = [forked(what) for what in ("returns", "leaves", "uses")]
            failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
        if number == steps // 2 and mode == "threads":
            thread = threading.Thread(target=lambda: [one_step([]) for _ in range(10)])
            thread.start()
            thread.join()
    if mode == "exit":
        laggard.flush(2)
    else:
        laggard.end(2)
    times.sort()
    seen = {"began": began, "children_failed": failed, **laggard.stats()}
    seen.update(p50_ns=times[len(times) // 2], p99_ns=times[len(times) * 99 // 100], max_ns=times[-1])
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()
