"""PyTorch's side of bench/networks. The first argument is eager or compiled; the others, and the answer, are those of
networks.cpp. Uses channels last, and autocast for bf16."""
import json
import resource
import sys
import time

import torch
import torchvision
from torch import nn

style, name, batch, size, dtype, steps, device = sys.argv[1:]
batch, size, steps = int(batch), int(size), int(steps)


def conv3x3(in_channels, out_channels, stride=1):
    return nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)


class Block(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv1 = conv3x3(in_channels, out_channels, 1 if in_channels == out_channels else 2)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = conv3x3(out_channels, out_channels)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.shortcut = nn.Identity() if in_channels == out_channels else nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 1, stride=2, bias=False), nn.BatchNorm2d(out_channels))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.shortcut(x))


class CifarResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = conv3x3(3, 16)
        self.bn = nn.BatchNorm2d(16)
        widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
        self.blocks = nn.Sequential(*[Block(i, o) for i, o in zip(widths, widths[1:])])
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        return self.fc(self.blocks(torch.relu(self.bn(self.conv(x)))).mean((2, 3)))


def vgg():
    modules, channels = [], 3
    for width in [64, 64, 0, 128, 128, 0, 256, 256, 0]:
        if width == 0:
            modules.append(nn.MaxPool2d(2))
            continue
        modules += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
        channels = width
    return nn.Sequential(*modules, nn.Flatten(), nn.Linear(256 * 4 * 4, 10))


class UNet(nn.Module):
    @staticmethod
    def two(in_channels, out_channels):
        return nn.Sequential(conv3x3(in_channels, out_channels), nn.BatchNorm2d(out_channels), nn.ReLU(inplace=True),
                             conv3x3(out_channels, out_channels), nn.BatchNorm2d(out_channels), nn.ReLU(inplace=True))

    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.bottom = self.two(3, 16), self.two(16, 32), self.two(32, 64)
        self.grow2, self.up2 = nn.ConvTranspose2d(64, 32, 2, stride=2), self.two(64, 32)
        self.grow1, self.up1 = nn.ConvTranspose2d(32, 16, 2, stride=2), self.two(32, 16)
        self.head = nn.Conv2d(16, 10, 1)

    def forward(self, x):
        fine = self.down1(x)
        coarse = self.down2(nn.functional.max_pool2d(fine, 2))
        lowest = self.bottom(nn.functional.max_pool2d(coarse, 2))
        y = self.up2(torch.cat([coarse, self.grow2(lowest)], 1))
        return self.head(self.up1(torch.cat([fine, self.grow1(y)], 1)))


def made_up_labels(shape, classes):
    """Labels 0, 0, 0, 0, 0, 0, 0, 1, ...; in segmentation there is one extra label, which becomes 255."""
    count = torch.Size(shape).numel()
    labels = torch.arange(count) // 7 % classes
    labels[labels == 21] = 255
    return labels.reshape(shape).to(device)


def make_network():
    """A model, and its loss on images."""
    own = {"cifar_resnet20": (CifarResNet20, 10, [batch]), "vgg": (vgg, 10, [batch]),
           "resnet18": (torchvision.models.resnet18, 1000, [batch]), "unet": (UNet, 10, [batch, size, size])}
    if name in own:
        make, classes, shape = own[name]
        labels = made_up_labels(shape, classes)
        return make(), lambda forward, images: nn.functional.cross_entropy(forward(images), labels)
    masks = made_up_labels([batch, size, size], 22)

    def loss(forward, images):
        found = forward(images)
        out, aux = (nn.functional.cross_entropy(found[k], masks, ignore_index=255) for k in ("out", "aux"))
        return out + 0.5 * aux
    return getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, aux_loss=True), loss


torch.backends.cudnn.benchmark = True
torch.manual_seed(0)
model, loss_of = make_network()
for module in model.modules():
    if isinstance(module, nn.Dropout):
        module.p = 0.0
model = model.to(device, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=1e-4)
torch.manual_seed(1)
images = torch.randn(batch, 3, size, size).to(device, memory_format=torch.channels_last)
forward = torch.compile(model) if style == "compiled" else model

seconds, losses = [], []
for _ in range(steps):
    begin = time.perf_counter()
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.bfloat16, enabled=dtype == "bf16"):
        loss = loss_of(forward, images)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    seconds.append(time.perf_counter() - begin)
    if device == "cuda" and len(seconds) == 1:
        torch.cuda.reset_peak_memory_stats()  # the first step also tries algorithms
peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if device == "cpu"
        else torch.cuda.max_memory_allocated() / 2 ** 20)
print(json.dumps({"seconds": seconds, "losses": losses, "peak_mb": peak}))
