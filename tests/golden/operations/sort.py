"""Operations that sort."""
import math

import torch

FORMS = {
    "first": ((3, 4, 5), 0),
    "middle": ((3, 4, 5), 1),
    "last": ((3, 4, 5), -1),
    "one": ((1,), 0),
    "scalar": ((), 0),
    "empty": ((2, 0), 1),
    "nothing": ((0, 3), 1),
    "long": ((2501,), 0),
    "rows": ((3, 230), 1),
    "images": ((2, 3, 5, 7), 2),
}
INTEGERS = [torch.int64, torch.int32, torch.uint8, torch.bool]


def distinct(ops, shape):
    """Returns random numbers without duplicates, so that the order of equal numbers does not matter."""
    n = math.prod(shape)
    return ((torch.randperm(n, generator=ops.generator).float() - n // 2) / 8 + 0.01).reshape(shape)


def make(ops):
    inf, nan = math.inf, math.nan
    special = torch.tensor([[nan, 1.0, -inf, 0.0, -0.0, inf, nan, -1.0], [2.0, 2.0, 1.0, 3.0, 1.0, 2.0, -5.0, 2.0]])
    for form, (shape, dim) in FORMS.items():
        for descending in [False, True]:
            ops.case(f"sort_{form}_{descending}", "sort", [distinct(ops, shape)],
                     lambda x: tuple(torch.sort(x, dim=dim, descending=descending, stable=True)), dim=dim,
                     descending=descending)
    ops.case("argsort_last", "argsort", [distinct(ops, (3, 40))], lambda x: torch.argsort(x, -1, True), dim=-1,
             descending=True)
    for descending in [False, True]:
        ops.case(f"argsort_special_{descending}", "argsort", [special],
                 lambda x: torch.argsort(x, dim=1, descending=descending, stable=True), dim=1, descending=descending)
        ops.case(f"sort_special_{descending}", "sort", [special],
                 lambda x: tuple(torch.sort(x.detach(), dim=1, descending=descending, stable=True)), dim=1,
                 descending=descending)
        for dtype in INTEGERS:
            x = ops.integers(2, 300, low=0 if dtype in (torch.uint8, torch.bool) else -100, high=100, dtype=dtype)
            ops.case(f"sort_{str(dtype).removeprefix('torch.')}_{descending}", "sort", [x],
                     lambda x: tuple(torch.sort(x, dim=1, descending=descending, stable=True)), dim=1,
                     descending=descending)

    for form, (shape, dim) in FORMS.items():
        size = shape[dim] if shape else 1
        for k in sorted({min(size, 1), min(size, 3), size, size // 3}):
            for largest in [True, False] if k == 3 else [True]:
                if form == "long" and (k > 1 or not largest) or not shape and k == 0:
                    continue
                ops.case(f"topk_{form}_{k}_{largest}", "topk", [distinct(ops, shape)],
                         lambda x: tuple(torch.topk(x, k, dim, largest)), k=k, dim=dim, largest=largest)
    ops.case("topk_integers", "topk", [torch.randperm(90, generator=ops.generator).reshape(3, 30)],
             lambda x: tuple(torch.topk(x, 2, 1)), k=2, dim=1, largest=True)
    with_nan = torch.tensor([[1.0, nan, 3.0, inf, -inf, 2.0]])
    for largest in [True, False]:
        ops.case(f"topk_special_{largest}", "topk", [with_nan], lambda x: tuple(torch.topk(x.detach(), 4, 1, largest)),
                 k=4, dim=1,
                 largest=largest)

    for form, (shape, dim) in FORMS.items():
        if form != "empty":
            for keepdim in [False, True]:
                ops.case(f"median_{form}_{keepdim}", "median", [distinct(ops, shape)],
                         lambda x: tuple(torch.median(x, dim, keepdim)), dim=dim, keepdim=keepdim)
        ops.case(f"median_all_{form}", "median", [distinct(ops, shape)], torch.median)
    tied = torch.tensor([1.0, 2.0, 2.0, 2.0, 3.0, 5.0])
    ops.case("median_all_tied", "median", [tied], torch.median, special=True)
    for line, rows in enumerate([[1.0, nan, 3.0, nan, 2.0], [inf, -inf, inf, 0.0], [2.0, 1.0, inf]]):
        ops.case(f"median_special_{line}", "median", [torch.tensor(rows)], lambda x: tuple(torch.median(x.detach(), 0)),
                 dim=0, keepdim=False)
        ops.case(f"median_all_special_{line}", "median", [torch.tensor(rows)], lambda x: torch.median(x.detach()))
    for dtype in [torch.int64, torch.int32, torch.uint8]:
        x = torch.stack([torch.randperm(90, generator=ops.generator) for _ in range(3)]).to(dtype)
        ops.case(f"median_{str(dtype).removeprefix('torch.')}", "median", [x], lambda x: tuple(torch.median(x, 1)),
                 dim=1, keepdim=False)
