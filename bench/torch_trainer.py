#!/usr/bin/env python3
"""The PyTorch side of bench/trainer: trains the MNIST network with a handwritten loop and with Lightning's Trainer.
Answers each line "WHAT WAY STEPS" with the seconds for STEPS steps, measured from the first forward pass on.
"""
import gzip
import logging
import os
import sys
import time
import warnings
from pathlib import Path

os.environ.update(RANK="0", WORLD_SIZE="1")
import torch  # noqa: E402
from torch import nn  # noqa: E402

from torch_mnist import Net  # noqa: E402

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import lightning  # noqa: E402

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))


def read(path, header):
    """Returns the bytes after the header of one of MNIST's files, plain or gzip."""
    path = Path(path)
    data = path.read_bytes() if path.exists() else gzip.decompress(Path(f"{path}.gz").read_bytes())
    return torch.frombuffer(bytearray(data[header:]), dtype=torch.uint8)


class Empty(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, _):
        return self.weight.sum()


class Batches:
    """Batches of tensors in memory, in random order."""

    def __init__(self, inputs, targets, size):
        self.inputs, self.targets, self.size = inputs, targets, size

    def __len__(self):
        return len(self.inputs) // self.size

    def __iter__(self):
        for indices in torch.randperm(len(self.inputs)).split(self.size):
            yield self.inputs[indices], self.targets[indices]


class Task:
    def __init__(self, batches, model, loss_of):
        self.batches, self.model, self.loss_of = batches, model, loss_of


class Module(lightning.LightningModule):
    def __init__(self, task, times):
        super().__init__()
        self.model, self.loss_of, self.times = task.model(), task.loss_of, times

    def training_step(self, batch, _):
        self.times.setdefault("start", time.perf_counter())
        return self.loss_of(self.model, batch)

    def on_train_batch_end(self, *_):
        self.times["end"] = time.perf_counter()

    def configure_optimizers(self):
        return torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)


def seconds(task, way, steps):
    times = {}
    if way == "fit":
        lightning.Trainer(max_steps=steps, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                          enable_progress_bar=False, enable_model_summary=False).fit(Module(task, times), task.batches)
    else:
        model = task.model()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
        total, done = torch.zeros(()), 0
        while done < steps:
            for batch in task.batches:
                times.setdefault("start", time.perf_counter())
                optimizer.zero_grad()
                loss = task.loss_of(model, batch)
                loss.backward()
                optimizer.step()
                total += loss.detach()
                done += 1
                if done == steps:
                    break
        times["end"] = time.perf_counter()
    return times["end"] - times["start"]


def main():
    images = read(f"{sys.argv[1]}/train-images-idx3-ubyte", 16).view(-1, 1, 28, 28).float() / 255
    images = images.contiguous(memory_format=torch.channels_last)
    labels = read(f"{sys.argv[1]}/train-labels-idx1-ubyte", 8).long()
    criterion = nn.CrossEntropyLoss()
    tasks = {
        "mnist": Task(Batches(images, labels, 100), Net,
                      lambda model, batch: criterion(model(batch[0]), batch[1])),
        "empty": Task(Batches(torch.zeros(1000, 1), torch.zeros(1000), 1), Empty, lambda model, batch: model(batch[0])),
    }
    for line in sys.stdin:
        what, way, steps = line.split()
        print(seconds(tasks[what], way, int(steps)), flush=True)


if __name__ == "__main__":
    main()
