"""Sums of products that an equation describes."""
import torch

from operations.linear import name_of


def make(ops):
    cases = [
        ("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk", (3, 4), (4, 5)), ("ij,kj->ki", (3, 4), (5, 4)),
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
        ("bqhd,bkhd->bhqk", (2, 4, 3, 5), (2, 6, 3, 5)), ("bhqk,bkhd->bqhd", (2, 3, 4, 6), (2, 6, 3, 5)),
        ("i,j->ij", (3,), (4,)), ("i,i->", (4,), (4,)), ("i,i", (4,), (4,)), ("i,i->i", (4,), (4,)),
        ("ii->i", (4, 4)), ("ii", (4, 4)), ("bii->b", (2, 3, 3)), ("ij->ji", (3, 4)), ("ij->", (3, 4)),
        ("ij->j", (3, 4)),
        ("ba", (3, 4)), ("iij,jk->ik", (3, 3, 4), (4, 2)), ("ijk,il->jl", (2, 3, 4), (2, 5)),
        ("bijk,bkl->bijl", (2, 3, 4, 5), (2, 5, 6)), ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)),
        ("...ij,jk", (2, 2, 3, 4), (4, 5)), ("b...->...", (2, 3, 4)), ("...,...->...", (2, 3), (3,)),
        ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)), ("i,j,k->kji", (2,), (3,), (4,)),
        ("ij,ij,ij->i", (3, 4), (3, 4), (3, 4)),
        ("bn,anm,bm->ba", (2, 3), (4, 3, 5), (2, 5)), (" i j , j k -> i k ", (3, 4), (4, 5)),
        ("ij,jk->ik", (3, 0), (0, 2)),
        ("ij,jk->ik", (0, 3), (3, 2)), (",i->i", (), (3,)), ("ij,jk->ik", (3, 1), (4, 5)),
        ("bij,bjk->bik", (1, 3, 4), (2, 4, 5)),
        ("ijkl,kl->ij", (2, 3, 4, 5), (4, 5)), ("abc,cd->abd", (8, 15, 20), (20, 12)),
    ]
    for number, (equation, *shapes) in enumerate(cases):
        ops.case(f"einsum_{number}_{name_of(*shapes)}", "einsum", [ops.uniform(*shape) for shape in shapes],
                 lambda *operands: torch.einsum(equation, *operands), equation=equation)
