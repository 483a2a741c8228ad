"""A training job as people write them: DistributedDataParallel over gloo, on the CPU, with laggard in it.

Started by torchrun. What a step costs is mostly slept, so that several ranks fit on few cores.
"""

import argparse
import os
import signal
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

import laggard

BATCH = 4


class Numbers(Dataset):
    def __init__(self, size, delay_s):
        self._size = size
        self._delay_s = delay_s

    def __len__(self):
        return self._size

    def __getitem__(self, index):
        time.sleep(self._delay_s)
        return index, torch.full((16,), float(index % 7))


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--forward-ms", type=float, default=20)
    parser.add_argument("--slow", choices=["forward", "load"])
    parser.add_argument("--slow-rank", type=int)
    parser.add_argument("--slow-from", type=int, default=1)
    parser.add_argument("--delay-ms", type=float, default=30)
    parser.add_argument("--die-at", type=int, help="rank 1 is killed at this step of its first start")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--mark", help="whose test this is, for those who look for its processes")
    return parser.parse_args()


def main():
    options = arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    first_start = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    is_slow = options.slow_rank == rank
    per_batch_s = options.delay_ms / 1000 / BATCH if is_slow and options.slow == "load" else 0.0

    data = Numbers(options.steps * options.accumulate * BATCH * dist.get_world_size(), per_batch_s)
    loader = DataLoader(data, batch_size=BATCH, sampler=DistributedSampler(data), num_workers=options.workers)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    laggard.init(config={"global_batch": BATCH * options.accumulate * dist.get_world_size()})
    batches = iter(laggard.wrap_loader(loader))
    for step in range(1, options.steps + 1):
        if options.die_at == step and first_start and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        with laggard.step(step):
            for micro in range(options.accumulate):
                indices, batch = next(batches)
                laggard.count("samples", len(batch))
                laggard.sample_ids(indices)
                with laggard.stage("forward"):
                    delays = is_slow and options.slow == "forward" and step >= options.slow_from
                    time.sleep(options.forward_ms / 1000 + (options.delay_ms / 1000 if delays else 0))
                    with laggard.stage("loss"):
                        loss = model(batch).square().mean()
                with laggard.stage("backward", kind="sync"):
                    loss.backward()
            with laggard.stage("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
            if step % 25 == 0:
                laggard.tag("checkpoint")
    dist.barrier()
    delivered = laggard.end(10)
    print(f"rank {rank} has done {options.steps} steps; delivered {delivered}; {laggard.stats()}", flush=True)


if __name__ == "__main__":
    main()
