#!/usr/bin/env python3
"""The PyTorch side of bench/overlap: one rank of DistributedDataParallel over Gloo. Arguments, commands and answers are
those of overlap.cpp.
"""
import contextlib
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])
WARM_UP = 2


class Rank:
    def __init__(self, layers, width, batch, bucket):
        model = nn.Sequential(*(layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.ReLU())))
        self.ddp = DistributedDataParallel(model, bucket_cap_mb=bucket / 2 ** 20, gradient_as_bucket_view=True)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        self.criterion = nn.CrossEntropyLoss()
        torch.manual_seed(RANK)
        self.inputs = torch.randn(batch, width)
        self.labels = torch.randint(width, (batch,))
        for _ in range(3):  # the final buckets are made in the second forward
            self.train()
        sizes = self.ddp._get_ddp_logging_data()["rebuilt_bucket_sizes"]
        self.messages = [torch.zeros(int(size) // 4) for size in sizes.split(",")]

    def train(self):
        """Milliseconds of the backward pass."""
        loss = self.criterion(self.ddp(self.inputs), self.labels)
        self.optimizer.zero_grad()
        begin = time.perf_counter()
        loss.backward()
        backward = time.perf_counter() - begin
        self.optimizer.step()
        return backward * 1000

    def communicate(self):
        for message in self.messages:  # DistributedDataParallel also divides before the sum
            message.div_(SIZE)
        for work in [dist.all_reduce(message, async_op=True) for message in self.messages]:
            work.wait()
        return 0

    def measure(self, what, steps):
        whole, backward = [], []
        run = {"compute": self.train, "step": self.train, "communication": self.communicate}[what]
        dist.barrier()
        for i in range(WARM_UP + steps):
            begin = time.perf_counter()
            with self.ddp.no_sync() if what == "compute" else contextlib.nullcontext():
                part = run()
            if i >= WARM_UP:
                whole.append((time.perf_counter() - begin) * 1000)
                backward.append(part)
        return {"step": whole, "backward": backward, "bucket_bytes": [4 * message.numel() for message in self.messages]}


def main():
    torch.set_num_threads(1)
    dist.init_process_group(backend="gloo", rank=RANK, world_size=SIZE)
    rank = Rank(*map(int, sys.argv[2:]))
    with open(f"{sys.argv[1]}.{RANK}") as commands:
        for command in commands:
            what, steps = command.split()
            print(json.dumps(rank.measure(what, int(steps))), flush=True)


if __name__ == "__main__":
    main()
