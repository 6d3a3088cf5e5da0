"""Distances between vectors, their lengths and their angles."""
import torch
from torch.nn import functional as F

FORMS = {"rows": ((5, 7), 1), "columns": ((5, 7), 0), "channels": ((2, 6, 3, 4), 1), "vector": ((9,), 0),
         "last": ((3, 4, 5), -1),
         "one": ((1, 1), 1), "empty": ((0, 4), 1), "large": ((7, 143), 1)}
PS = [2.0, 1.0, 3.0, 0.5, float("inf")]


def make(ops):
    for form, (shape, dim) in FORMS.items():
        for p in PS if form == "rows" else [2.0]:
            ops.case(f"normalize_{form}_{p}", "normalize", [ops.uniform(*shape)], lambda x: F.normalize(x, p, dim),
                     p=str(p), dim=dim, eps=1e-12)
        ops.case(f"cosine_similarity_{form}", "cosine_similarity", [ops.uniform(*shape), ops.uniform(*shape)],
                 lambda a, b: F.cosine_similarity(a, b, dim), dim=dim, eps=1e-8)
    ops.case("normalize_eps", "normalize", [ops.uniform(4, 3)], lambda x: F.normalize(x, 2.0, 1, 100.0), p="2", dim=1,
             eps=100.0)
    ops.case("normalize_zero", "normalize", [torch.zeros(2, 3)], lambda x: F.normalize(x.detach()), p="2", dim=1,
             eps=1e-12, special=True)
    ops.case("cosine_similarity_outer", "cosine_similarity", [ops.uniform(5, 1, 4), ops.uniform(3, 4)],
             lambda a, b: F.cosine_similarity(a, b, -1), dim=-1, eps=1e-8)
    ops.case("cosine_similarity_zero", "cosine_similarity", [torch.zeros(2, 3), ops.uniform(2, 3)],
             lambda a, b: F.cosine_similarity(a.detach(), b.detach()), dim=1, eps=1e-8, special=True)
    for form, (left, right) in {"rows": ((5, 7), (5, 7)), "row": ((5, 7), (7,)), "vector": ((6,), (6,)),
                                "batch": ((2, 3, 4), (2, 3, 4)), "empty": ((0, 4), (0, 4)),
                                "large": ((9, 143), (9, 143))}.items():
        for p in PS if form == "rows" else [2.0]:
            for keepdim in [False, True]:
                ops.case(f"pairwise_distance_{form}_{p}_{keepdim}", "pairwise_distance",
                         [ops.uniform(*left), ops.uniform(*right)],
                         lambda a, b: F.pairwise_distance(a, b, p, keepdim=keepdim), p=str(p), keepdim=keepdim,
                         **(dict(special=True) if p == float("inf") else {}))  # in 16 bits, several may be largest
    for form, (left, right) in {"rows": ((5, 4), (3, 4)), "batch": ((2, 5, 4), (2, 3, 4)),
                                "broadcast": ((3, 1, 5, 2), (2, 4, 2)), "one": ((1, 1), (1, 1)),
                                "empty": ((0, 4), (3, 4)), "large": ((30, 9), (27, 9)),
                                "product": ((2, 26, 3), (2, 4, 3))}.items():
        for p in PS if form == "rows" else [2.0]:
            ops.case(f"cdist_{form}_{p}", "cdist", [ops.uniform(*left), ops.uniform(*right)],
                     lambda a, b: torch.cdist(a, b, p), p=str(p))
