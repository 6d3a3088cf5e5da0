"""Writes golden files."""
import json
from pathlib import Path

import torch
from safetensors.torch import save as serialize

FOLDER = Path(__file__).resolve().parent


def save(name, tensors, metadata=None):
    copies = {key: tensor.detach().clone(memory_format=torch.contiguous_format) for key, tensor in tensors.items()}
    data = serialize(copies, metadata)
    # The library writes the metadata in a different order each time. Sorted metadata give the same file for the same
    # values.
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    if metadata:
        header["__metadata__"] = dict(sorted(metadata.items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (FOLDER / name).write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


class Operations:
    """The cases of one family of operations: inputs, results and gradients."""

    def __init__(self):
        self.tensors = {}
        self.metadata = {}
        self.generator = torch.Generator().manual_seed(20)

    def uniform(self, *shape, low=-2.0, high=2.0):
        return torch.rand(shape, generator=self.generator) * (high - low) + low

    def integers(self, *shape, low=-5, high=6, dtype=torch.int64):
        return torch.randint(low, high, shape, generator=self.generator).to(dtype)

    def case(self, name, op, inputs, function, **attributes):
        """Records function(*inputs), and its gradients for a random gradient of the output.

        A function may return a tuple: the output, and then results without gradients (indices). The attribute `special`
        says which tests the case can't have. True (infinities, NaN, ties) excludes finite differences and 16 bits.
        "gradient" (a part of the gradient is omitted on purpose) excludes finite differences.
        """
        assert name not in self.metadata, name
        inputs = [i.clone().requires_grad_(i.is_floating_point()) for i in inputs]
        output = function(*inputs)
        output, *more = output if isinstance(output, (tuple, list)) else [output]
        if output.requires_grad:
            grad_output = self.uniform(*output.shape, low=-1.0, high=1.0).to(output.dtype)
            output.backward(grad_output)
            self.tensors[f"{name}/grad_output"] = grad_output
        for number, tensor in enumerate(inputs):
            self.tensors[f"{name}/input{number}"] = tensor
            if tensor.grad is not None:
                self.tensors[f"{name}/grad{number}"] = tensor.grad
        self.tensors[f"{name}/output"] = output
        for number, tensor in enumerate(more):
            self.tensors[f"{name}/more{number}"] = tensor
        self.metadata[name] = json.dumps({"op": op, **attributes})
