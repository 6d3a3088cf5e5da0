"""Another shape of the same numbers."""
import torch


def shapes(ops):
    x = (2, 3, 4, 5)
    ops.case("flatten", "flatten", [ops.uniform(*x)], lambda x: torch.flatten(x, 1), from_dim=1)
    ops.case("flatten_all", "flatten", [ops.uniform(*x)], torch.flatten, from_dim=0)
    ops.case("reshape", "reshape", [ops.uniform(*x)], lambda x: x.reshape(6, 20), shape=[6, 20])
    ops.case("reshape_infer", "reshape", [ops.uniform(*x)], lambda x: x.reshape(4, -1), shape=[4, -1])
    ops.case("permute", "permute", [ops.uniform(*x)], lambda x: x.permute(0, 2, 3, 1), order=[0, 2, 3, 1])
    ops.case("transpose", "transpose", [ops.uniform(3, 5)], lambda x: x.transpose(0, 1), dims=[0, 1])


def make(ops):
    shapes(ops)
