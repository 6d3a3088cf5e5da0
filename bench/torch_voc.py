"""torchvision's side of bench/voc: eager or compiled, then the arguments of voc.cpp, and its answer. channels last,
autocast for bf16."""
import json
import resource
import sys
import time

import torch
import torchvision

style, name, batch, crop, dtype, steps, device = sys.argv[1:]
batch, crop, steps = int(batch), int(crop), int(steps)
torch.backends.cudnn.benchmark = True
torch.manual_seed(0)
model = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, aux_loss=True)
for module in model.modules():
    if isinstance(module, torch.nn.Dropout):
        module.p = 0.0
model = model.to(device, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=1e-4)
torch.manual_seed(1)
images = torch.randn(batch, 3, crop, crop).to(device, memory_format=torch.channels_last)
labels = torch.arange(batch * crop * crop) // 7 % 22
labels[labels == 21] = 255
masks = labels.reshape(batch, crop, crop).to(device)
criterion = torch.nn.CrossEntropyLoss(ignore_index=255)
forward = torch.compile(model) if style == "compiled" else model

seconds, losses = [], []
for _ in range(steps):
    begin = time.perf_counter()
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.bfloat16, enabled=dtype == "bf16"):
        found = forward(images)
        loss = criterion(found["out"], masks) + 0.5 * criterion(found["aux"], masks)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    seconds.append(time.perf_counter() - begin)
peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if device == "cpu"
        else torch.cuda.max_memory_allocated() / 2 ** 20)
print(json.dumps({"seconds": seconds, "losses": losses, "peak_mb": peak}))
