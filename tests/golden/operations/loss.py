"""Losses, and what they are made of."""
import torch
import torch.nn.functional as F


def losses(ops):
    for n, classes in [(4, 10), (1, 2), (7, 13), (100, 10)]:
        targets = torch.randint(classes, (n,), generator=ops.generator)
        ops.case(f"cross_entropy_{n}x{classes}", "cross_entropy", [ops.uniform(n, classes, low=-5, high=5), targets],
                 F.cross_entropy)
    # Logits far apart: the sum of exponentials must not overflow.
    ops.case("cross_entropy_large", "cross_entropy",
             [ops.uniform(3, 5, low=-300, high=300), torch.tensor([0, 4, 2])], F.cross_entropy)
    for name, function in {"softmax": torch.softmax, "log_softmax": torch.log_softmax}.items():  # over the last dim
        for shape in [(3, 10), (4, 7), (2, 3, 5), (3, 1)]:
            suffix = "x".join(map(str, shape))
            ops.case(f"{name}_{suffix}", name, [ops.uniform(*shape, low=-4, high=4)], lambda x: function(x, -1))


def make(ops):
    losses(ops)
