"""Steps on a GPU: what laggard says of a stage beside what PyTorch's own events say, and what it costs the host.

Prints one line of JSON: for each step PyTorch's time of the stage in ms, and us a stage on the host with and without
device times.
"""

import json
import sys
import time

import torch

import laggard

STEPS = int(sys.argv[1])
SIZE = 2048
STAGES = 1000


def host_us_of_a_stage():
    begin = time.perf_counter()
    for _ in range(STAGES):
        with laggard.stage("empty"):
            pass
    return (time.perf_counter() - begin) / STAGES * 1e6


def main():
    torch.cuda.set_device(0)
    matrix = torch.randn(SIZE, SIZE, device="cuda")
    laggard.init(device=sys.argv[2] == "device")
    seen = []
    for step in range(1, STEPS + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with laggard.step(step):
            begin.record()
            with laggard.stage("forward"):
                for _ in range(10):
                    matrix = torch.nn.functional.normalize(matrix @ matrix)
            end.record()
        torch.cuda.synchronize()
        seen.append(begin.elapsed_time(end))
    graph = torch.cuda.CUDAGraph()
    with laggard.step(STEPS + 1), torch.cuda.graph(graph):
        with laggard.stage("captured"):
            matrix = matrix @ matrix
    graph.replay()
    with laggard.step(STEPS + 2):
        us = host_us_of_a_stage()
    torch.cuda.synchronize()
    laggard.end(10)
    print(json.dumps({"forward_ms": seen, "stage_us": us, **laggard.stats()}), flush=True)


if __name__ == "__main__":
    main()
