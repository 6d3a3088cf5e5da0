#!/usr/bin/env python3
"""The PyTorch side of bench/collectives: one rank of a torch.distributed group over Gloo. Commands and answers are
those of collectives.cpp; the argument is COMMANDS.
"""
import os
import sys
import time

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])


def prepare(operation, size):
    """Returns a function that runs one iteration, and this rank's input."""
    if operation == "barrier":
        return lambda iteration: dist.barrier(), None
    tensor = torch.ones(size // 4)
    if operation == "all_reduce":
        dist.all_reduce(tensor)
        if tensor[-1] != SIZE:
            raise SystemExit(f"all_reduce of ones gave {tensor[-1]}")
        return lambda iteration: dist.all_reduce(tensor), tensor
    if operation == "broadcast":
        return lambda iteration: dist.broadcast(tensor, iteration % SIZE), tensor
    if operation == "all_gather":
        outputs = [torch.zeros_like(tensor) for _ in range(SIZE)]
        return lambda iteration: dist.all_gather(outputs, tensor), tensor
    if operation == "message":
        def there_and_back(iteration):
            if RANK == 0:
                dist.send(tensor, 1)
            if RANK <= 1:
                dist.recv(tensor, 1 - RANK)
            if RANK == 1:
                dist.send(tensor, 0)
        return there_and_back, tensor
    raise SystemExit(f"there is no measurement of '{operation}'")


def measure(command):
    operation, size, _, iterations = command.split()
    iterations = int(iterations)
    run, tensor = prepare(operation, int(size))
    warm_up = iterations // 10 + 2
    seconds = []
    for i in range(warm_up + iterations):
        if tensor is not None:
            tensor.zero_()
        dist.barrier()
        start = time.perf_counter()
        run(i)
        if i >= warm_up:
            seconds.append(time.perf_counter() - start)
    return seconds


def main():
    torch.set_num_threads(1)
    dist.init_process_group(backend="gloo", rank=RANK, world_size=SIZE)
    with open(f"{sys.argv[1]}.{RANK}") as commands:
        for command in commands:
            seconds = measure(command)
            if RANK == 0:
                print(*seconds, flush=True)


if __name__ == "__main__":
    main()
