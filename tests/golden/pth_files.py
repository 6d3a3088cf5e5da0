"""The files of torch.save that the tests read, and their contents as safetensors."""
import argparse
import collections

import torch
from golden_file import FOLDER, save


def tensors():
    base = torch.arange(24, dtype=torch.float32)
    shared = torch.arange(6, dtype=torch.float32) + 100
    values = {
        "f32": base.reshape(2, 3, 4).clone(),
        "f64": torch.tensor([1e300, -0.0], dtype=torch.float64),
        "f16": torch.tensor([0.1, 65504.0], dtype=torch.float16),
        "bf16": torch.tensor([[1.5], [-3.25]], dtype=torch.bfloat16),
        "i64": torch.tensor([-5, 1 << 40]),
        "i32": torch.tensor([1, -2, 3], dtype=torch.int32),
        "i16": torch.tensor([-300, 300], dtype=torch.int16),
        "i8": torch.tensor([-128, 127, 0], dtype=torch.int8),
        "u8": torch.tensor([0, 255, 7], dtype=torch.uint8),
        "bool": torch.tensor([True, False, True]),
        "scalar": torch.tensor(7.5),
        "empty": torch.empty(3, 0, 2),
        "transposed": base.reshape(4, 6).t(),
        "part": base.reshape(4, 6)[1:3, 2:5],
        "every_second": base[1::2],
        "expanded": shared[:3].expand(2, 3),
        "channels_last": (base.reshape(1, 2, 3, 4) * 2).contiguous(memory_format=torch.channels_last),
        "shared": shared,
        "tied": shared,
        "parameter": torch.nn.Parameter(base[:4].clone()),
        "gr\u00fc\u00dfe.\U0001f600": torch.tensor([4.0]),
    }
    return collections.OrderedDict(values)


def make():
    folder = FOLDER / "pth"
    folder.mkdir(exist_ok=True)
    state = tensors()
    torch.save(state, folder / "zip.pth")
    torch.save(state, folder / "legacy.pth", _use_new_zipfile_serialization=False)
    expected = {name: tensor.detach() for name, tensor in state.items()}
    for name in ["i16", "i8"]:  # Tandem reads these as i32
        expected[name] = expected[name].to(torch.int32)
    save("pth/expected.safetensors", expected)

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
    model(torch.randn(5, 3)).square().sum().backward()
    optimizer.step()
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "lr_scheduler": schedule.state_dict(),
        "epoch": 3,
        "args": argparse.Namespace(lr=0.1, device=torch.device("cpu"), names={"a", "b"}, size=torch.Size([2, 3])),
        "large": 1 << 70,
        "nothing": None,
    }
    torch.save(checkpoint, folder / "checkpoint.pth")
    state = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    state |= {f"optimizer.state.{i}.momentum_buffer": s["momentum_buffer"]
              for i, s in optimizer.state_dict()["state"].items()}
    save("pth/checkpoint.safetensors", state)


if __name__ == "__main__":
    make()
