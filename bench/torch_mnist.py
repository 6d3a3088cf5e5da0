#!/usr/bin/env python3
"""The PyTorch side of bench/mnist and scripts/gpu_check: one rank of a training of the MNIST network.

--style document is the script of "A Short Guide to PyTorch DDP" with the CPU instead of the GPU and Gloo instead of
NCCL. It loads in the training process, because that guide's rule is one loader process fewer than a process has cores.
--style tuned is that script optimised for speed: images as one tensor in memory, channels last, and no
DistributedDataParallel if there is one process. (torch.compile makes a step of this network no faster on the CPU.)

With --device cuda, the document's script runs as the guide has it, on the GPU with NCCL. tuned also keeps the data set
on the GPU and reads the loss once an epoch. --style compiled is tuned, compiled, with the whole step, including the
optimizer, as one CUDA graph.

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
    """The whole data set as one tensor on the device; each batch is one gather."""

    def __init__(self, dataset, sampler, batch_size, device):
        images = (dataset.data.float() / 255).unsqueeze(1)
        self.images = images.to(device).contiguous(memory_format=torch.channels_last)
        self.labels = dataset.targets.to(device)
        self.sampler = sampler
        self.batch_size = batch_size

    def __iter__(self):
        for indices in torch.tensor(list(self.sampler)).to(self.images.device).split(self.batch_size):
            yield self.images[indices], self.labels[indices]


class GraphedStep:
    """Calls `step(image, target)`, which returns the loss, as one CUDA graph for batches of the first batch's size."""

    def __init__(self, step, model, image, target):
        self.step = step
        self.image, self.target = image.clone(memory_format=torch.preserve_format), target.clone()
        # Running the step before recording must not affect the training.
        before = {name: value.clone() for name, value in model.state_dict().items()}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(5):
                step(self.image, self.target)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        model.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss = step(self.image, self.target)
        model.load_state_dict(before)

    def __call__(self, image, target):
        if image.shape != self.image.shape:
            return self.step(image, target)
        self.image.copy_(image)
        self.target.copy_(target)
        self.graph.replay()
        return self.loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--data", required=True, help="torchvision's root folder")
    parser.add_argument("--style", choices=["document", "tuned", "compiled"], required=True)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--max-steps", type=int)
    parser.add_argument("--metrics", required=True)
    args = parser.parse_args()
    if args.style == "compiled" and (args.device == "cpu" or WORLD_SIZE > 1):
        parser.error("--style compiled is for one process on a GPU")
    tuned = args.style != "document"
    device = torch.device(args.device, int(os.environ["LOCAL_RANK"])) if args.device == "cuda" else torch.device("cpu")

    def report(**fields):
        if RANK == 0:
            with open(args.metrics, "a") as file:
                print(json.dumps(fields), file=file, flush=True)

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.manual_seed(args.seed)
    model = Net().to(device)
    if tuned:
        model = model.to(memory_format=torch.channels_last)
    if WORLD_SIZE > 1 or not tuned:
        torch.distributed.init_process_group(backend="nccl" if args.device == "cuda" else "gloo", world_size=WORLD_SIZE,
                                             rank=RANK)
        model = nn.parallel.DistributedDataParallel(model, device_ids=[device] if args.device == "cuda" else None)

    dataset = torchvision.datasets.MNIST(root=args.data, train=True, transform=transforms.ToTensor())
    sampler = torch.utils.data.distributed.DistributedSampler(
        dataset, num_replicas=WORLD_SIZE, rank=RANK, seed=args.seed)
    if tuned:
        batches = Batches(dataset, sampler, args.batch_size, device)
    else:
        batches = torch.utils.data.DataLoader(
            dataset, batch_size=args.batch_size, sampler=sampler, num_workers=0)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), args.lr)

    forward = torch.compile(model) if args.style == "compiled" else model

    def step(image, target):
        with torch.autocast(args.device, torch.bfloat16, enabled=args.dtype == "bf16",
                            cache_enabled=args.style != "compiled"):
            output = forward(image)
            loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach() if tuned else loss

    model.train()
    if args.style == "compiled":
        step = GraphedStep(step, model, *next(iter(batches)))
    steps = 0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        start = time.perf_counter()
        total_loss = torch.zeros(1, device=device)
        for image, target in batches:
            total_loss += step(image.to(device), target.to(device))
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
