"""Over dimensions."""
import torch


def reductions(ops):
    functions = {"sum": torch.sum, "mean": torch.mean, "amax": torch.amax}
    forms = {
        "all": ((3, 4, 5), [0, 1, 2], False),
        "first": ((3, 4, 5), [0], False),
        "middle": ((3, 4, 5), [1], False),
        "last": ((3, 4, 5), [-1], False),
        "last_keep": ((3, 4, 5), [2], True),
        "outer_keep": ((3, 4, 5), [0, 2], True),
        "images": ((2, 3, 5, 7), [0, 2, 3], False),
        "spatial_keep": ((2, 3, 5, 7), [2, 3], True),
        "one": ((1,), [0], False),
        "size_one": ((4, 1, 3), [1], False),
        "long": ((1031,), [0], False),
    }
    for name, function in functions.items():
        for form, (shape, dims, keepdim) in forms.items():
            ops.case(f"{name}_{form}", name, [ops.uniform(*shape)], lambda x: function(x, dims, keepdim),
                     dims=dims, keepdim=keepdim)


def make(ops):
    reductions(ops)
