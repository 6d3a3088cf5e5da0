#!/usr/bin/env python3
"""The PyTorch side of bench/mnist: one rank of a training of the MNIST network on the CPU.

--style document is the script of "A Short Guide to PyTorch DDP" with the GPU replaced by the CPU and NCCL by Gloo;
--style tuned is what someone who cares for speed makes of it: images as one tensor in memory, channels last, and no
DistributedDataParallel where there is one process. (torch.compile was tried: it makes a step of this network no faster.)

Rank, world size and the address of rank 0 come from torchrun's environment variables. Writes JSON lines to --metrics.
"""
import argparse
import json
import os
import time

import torch
import torchvision
from torch import nn
from torchvision import transforms

RANK = int(os.environ["RANK"])
WORLD_SIZE = int(os.environ["WORLD_SIZE"])


class Net(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.layer1 = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=5, stride=1, padding=2),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=2, stride=2))
        self.layer2 = nn.Sequential(
            nn.Conv2d(16, 32, kernel_size=5, stride=1, padding=2),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=2, stride=2))
        self.fc = nn.Linear(7 * 7 * 32, num_classes)

    def forward(self, x):
        out = self.layer2(self.layer1(x))
        return self.fc(out.reshape(out.size(0), -1))


class Batches:
    """The whole data set as one tensor; each batch is one gather."""

    def __init__(self, dataset, sampler, batch_size):
        self.images = (dataset.data.float() / 255).unsqueeze(1).contiguous(memory_format=torch.channels_last)
        self.labels = dataset.targets
        self.sampler = sampler
        self.batch_size = batch_size

    def __iter__(self):
        for indices in torch.tensor(list(self.sampler)).split(self.batch_size):
            yield self.images[indices], self.labels[indices]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="torchvision's root folder")
    parser.add_argument("--style", choices=["document", "tuned"], required=True)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--max-steps", type=int)
    parser.add_argument("--metrics", required=True)
    args = parser.parse_args()
    tuned = args.style == "tuned"

    def report(**fields):
        if RANK == 0:
            with open(args.metrics, "a") as file:
                print(json.dumps(fields), file=file, flush=True)

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.manual_seed(args.seed)
    model = Net()
    if tuned:
        model = model.to(memory_format=torch.channels_last)
    if WORLD_SIZE > 1 or not tuned:
        torch.distributed.init_process_group(backend="gloo", world_size=WORLD_SIZE, rank=RANK)
        model = nn.parallel.DistributedDataParallel(model)

    dataset = torchvision.datasets.MNIST(root=args.data, train=True, transform=transforms.ToTensor())
    sampler = torch.utils.data.distributed.DistributedSampler(
        dataset, num_replicas=WORLD_SIZE, rank=RANK, seed=args.seed)
    if tuned:
        batches = Batches(dataset, sampler, args.batch_size)
    else:
        batches = torch.utils.data.DataLoader(
            dataset, batch_size=args.batch_size, sampler=sampler, num_workers=args.workers)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), args.lr)

    model.train()
    steps = 0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        start = time.perf_counter()
        total_loss = torch.zeros(1)
        for image, target in batches:
            with torch.autocast("cpu", torch.bfloat16, enabled=args.dtype == "bf16"):
                output = model(image)
                loss = criterion(output, target)
            total_loss += loss.detach() if tuned else loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            if steps == 1:
                report(kind="first_step", time=time.time())
            if steps == args.max_steps:
                return
        if WORLD_SIZE > 1:
            torch.distributed.reduce(total_loss, 0, torch.distributed.ReduceOp.SUM)
        report(kind="epoch", epoch=epoch, total_loss=total_loss.item(), epoch_seconds=time.perf_counter() - start)


if __name__ == "__main__":
    main()
