"""Dropout, in cases whose result does not depend on chance."""
import torch
import torch.nn.functional as F


def make(ops):
    for name, function in {"dropout": F.dropout, "dropout2d": F.dropout2d}.items():
        for form, shape in {"image": (2, 3, 4, 5), "odd": (7, 3, 1, 13), "one": (1, 1, 1, 1)}.items():
            for p, training in [(0.0, True), (1.0, True), (0.5, False)]:
                ops.case(f"{name}_{form}_{int(10 * p)}_{int(training)}", name, [ops.uniform(*shape)],
                         lambda x: function(x, p, training), p=p, training=training)
