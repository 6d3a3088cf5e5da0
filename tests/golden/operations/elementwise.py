"""Element by element."""
import torch


def elementwise(ops):
    for name in ["relu", "neg", "exp", "tanh", "sigmoid"]:
        for shape in [(3, 4, 5), (1,), (), (2, 3, 5, 7)]:
            suffix = "x".join(map(str, shape)) or "scalar"
            ops.case(f"{name}_{suffix}", name, [ops.uniform(*shape)], getattr(torch, name))
    for name in ["log", "sqrt"]:
        for shape in [(3, 4, 5), (1,), (37,)]:
            suffix = "x".join(map(str, shape))
            ops.case(f"{name}_{suffix}", name, [ops.uniform(*shape, low=0.1, high=3.0)], getattr(torch, name))

    pairs = {
        "same": ((3, 4, 5), (3, 4, 5)),
        "one": ((1,), (1,)),
        "row": ((3, 4), (4,)),
        "column": ((3, 4), (3, 1)),
        "outer": ((5, 1), (1, 7)),
        "both": ((3, 1, 5), (4, 1)),
        "scalar": ((2, 3), ()),
        "scalar_left": ((), (2, 3)),
        "channel": ((2, 3, 4, 5), (1, 3, 1, 1)),
        "ones": ((1, 1, 1), (2, 1, 3)),
        "odd": ((7, 13, 3), (13, 3)),
    }
    for name in ["add", "sub", "mul", "div"]:
        for form, (left, right) in pairs.items():
            low = 0.5 if name == "div" else -2.0
            ops.case(f"{name}_{form}", name, [ops.uniform(*left), ops.uniform(*right, low=low)], getattr(torch, name))


def make(ops):
    elementwise(ops)
