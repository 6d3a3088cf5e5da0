"""torchvision's networks: their results with the weights that a seed gives them."""
import copy

import torch
import torch.nn.functional as F
import torchvision

from golden_file import FOLDER

STEPS = 10
# name -> [(batch, size, SGD steps)]
CASES = {
    "resnet18": [(4, 65, 1)],
    "resnet50": [(4, 65, 1)],
    "resnet101": [(4, 65, 1)],
    "fcn_resnet50": [(3, 65, 1)],
    "deeplabv3_resnet101": [(3, 65, 1), (3, 129, 1), (8, 65, STEPS)],
}

# In deeper, untrained networks, rounding to bf16 leaves nothing of the gradient.
BF16 = "resnet18"


def make_model(name):
    torch.manual_seed(0)
    if name.startswith("resnet"):
        return getattr(torchvision.models, name)(weights=None)
    model = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, aux_loss=True)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


def batch(count, size, is_segmentation):
    torch.manual_seed(1)
    images = torch.rand(count, 3, size, size)
    if not is_segmentation:
        return images, torch.randint(0, 1000, (count,))
    labels = torch.randint(0, 22, (count, size, size))
    return images, labels.masked_fill(labels == 21, 255)


def loss_of(model, images, labels):
    out = model(images)
    if not isinstance(out, dict):
        return F.cross_entropy(out, labels)
    return F.cross_entropy(out["out"], labels, ignore_index=255) + 0.5 * F.cross_entropy(out["aux"], labels,
                                                                                         ignore_index=255)


def spread(tensor, count=64):
    """Returns `count` values from all parts of the tensor, in the order of its indices."""
    flat = tensor.detach().flatten()
    return flat[torch.arange(count) * flat.numel() // count]


def fingerprint(tensor):
    """Returns the tensor's norm, and its product with weights that differ between elements."""
    flat = tensor.detach().double().flatten()
    weights = (torch.arange(flat.numel(), dtype=torch.float64) * 7919 % 101 - 50) / 50
    return [flat.norm().item(), (flat @ weights).item()]


def gradients(model, images, labels):
    """Returns a fingerprint of each parameter's gradient, in f64."""
    model = copy.deepcopy(model).double()
    loss_of(model, images.double(), labels).backward()
    return torch.tensor([fingerprint(p.grad) for p in model.parameters()], dtype=torch.float64)


def train(model, images, labels, steps):
    """Returns the loss of each step, and the first running variances after the first step."""
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=2e-4, momentum=0.9, weight_decay=1e-4)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, images, labels)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            buffers = dict(model.named_buffers())
            running_var = spread(buffers.get("bn1.running_var", buffers.get("backbone.bn1.running_var")))
        optimizer.step()
    return losses, running_var


def bf16_apart(model, images, labels):
    """Returns the relative differences of loss and gradient under autocast from those in f32."""
    results = []
    for enabled in [False, True]:
        same = copy.deepcopy(model)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            loss = loss_of(same, images, labels)
        loss.backward()
        results.append((loss.item(), torch.cat([p.grad.flatten().double() for p in same.parameters()])))
    (loss, gradient), (low_loss, low_gradient) = results
    return torch.tensor([abs(low_loss / loss - 1), (low_gradient - gradient).norm() / gradient.norm()],
                        dtype=torch.float64)


def make(save):
    state = make_model("deeplabv3_resnet101").state_dict()
    lines = [f"{name} {list(tensor.shape)}\n" for name, tensor in state.items()]
    (FOLDER / "deeplabv3_resnet101_state_dict.txt").write_text("".join(lines))
    values = {}
    for name, cases in CASES.items():
        for count, size, steps in cases:
            print(f"  {name} {count} x {size}", flush=True)
            key = f"{name}_{count}x{size}/"
            model = make_model(name)
            images, labels = batch(count, size, not name.startswith("resnet"))
            model.eval()
            with torch.no_grad():
                out = model(images)
            values[key + "logits"] = spread(out["out"] if isinstance(out, dict) else out)
            model.train()
            optimizer = torch.optim.SGD(model.parameters(), lr=2e-4, momentum=0.9, weight_decay=1e-4)
            losses = []
            if steps == 1:
                values[key + "gradients"] = gradients(model, images, labels)
            if name == BF16:
                values[key + "bf16_apart"] = bf16_apart(model, images, labels)
            other = copy.deepcopy(model).to(memory_format=torch.channels_last)
            losses, running_var = train(model, images, labels, steps)
            apart = train(other, images.contiguous(memory_format=torch.channels_last), labels, steps)[0]
            values[key + "running_var"] = running_var
            values[key + "losses"] = torch.tensor(losses, dtype=torch.float64)
            # The difference of PyTorch's own losses with a different memory layout. Small changes grow from step to
            # step.
            values[key + "losses_apart"] = torch.tensor(max(abs(a / b - 1) for a, b in zip(apart, losses)),
                                                        dtype=torch.float64)
            print(f"    losses of two layouts are {values[key + 'losses_apart']:.1e} apart", flush=True)
    save("models.safetensors", values)
