"""Reductions over dimensions."""
import math

import torch

inf, nan = math.inf, math.nan

FORMS = {
    "all": ((3, 4, 5), [0, 1, 2], False),
    "no_dims": ((3, 4, 5), [], True),
    "first": ((3, 4, 5), [0], False),
    "middle": ((3, 4, 5), [1], False),
    "last": ((3, 4, 5), [-1], False),
    "last_keep": ((3, 4, 5), [2], True),
    "outer_keep": ((3, 4, 5), [0, 2], True),
    "images": ((2, 3, 4, 5), [0, 2, 3], False),
    "spatial_keep": ((2, 3, 3, 4), [2, 3], True),
    "one": ((1,), [0], False),
    "size_one": ((4, 1, 3), [1], False),
    "long": ((331,), [0], False),
    "scalar": ((), [-1], False),
}
# More than one block of rows and of columns.
LARGE = {"rows": ((1, 4501), [1], False), "columns": ((70, 40), [0], False), "narrow": ((500, 3), [0], False)}
NO_OUTPUT = {"nothing": ((0, 3), [1], False)}
EMPTY = {"empty": ((0, 3), [0], False), "empty_all": ((2, 0), [], False)}


def reductions(ops):
    def cases(name, function, forms, make=ops.uniform, **attributes):
        if name not in ["sum", "var-1"]:
            forms = {form: call for form, call in forms.items() if form not in LARGE}
        for form, (shape, dims, keepdim) in forms.items():
            ops.case(f"{name}_{form}", name.split("-")[0], [make(*shape)],
                     lambda x: function(x, dims or list(range(x.dim())), keepdim), dims=dims, keepdim=keepdim,
                     **attributes)

    everywhere = {**FORMS, **LARGE, **NO_OUTPUT}
    for name, function in {"sum": torch.sum, "mean": torch.mean, "logsumexp": torch.logsumexp}.items():
        cases(name, function, {**everywhere, **EMPTY})
    for name, function in {"amax": torch.amax, "amin": torch.amin}.items():
        cases(name, function, everywhere)
    for correction in [1, 0, 2.5]:
        forms = {**everywhere, **EMPTY} if correction == 1 else {k: FORMS[k]
                                                                 for k in ["first", "last_keep", "long", "one"]}
        if correction == 1:  # it is NaN for a single number, and PyTorch warns
            forms = {k: v for k, v in forms.items() if k not in ("one", "scalar", "size_one", "nothing", "empty_all",
                                                                 "empty")}
        for name, function in {"var": torch.var, "std": torch.std}.items():
            if correction > 1 or name == "std":
                forms.pop("one", None)  # has a gradient of 0 / 0
            cases(f"{name}-{correction}", lambda x, dims, keep: function(x, dims, correction=correction, keepdim=keep),
                  forms, correction=correction)
    cases("var-shifted", lambda x, dims, keep: torch.var(x, dims, keepdim=keep), {"all": FORMS["all"]},
          lambda *shape: ops.uniform(*shape) + 1000, correction=1)
    for p in [2, 1, 3, 0.5, inf, -inf, 0, -1, 2.5]:
        forms = {**everywhere, **EMPTY} if p == 2 else {k: everywhere[k]
                                                        for k in ["all", "first", "last_keep", "images", "one",
                                                                  "columns"]}
        # In PyTorch, the number of nonzeros has no gradient.
        cases(f"norm-{p}", lambda x, dims, keep: torch.linalg.vector_norm(x.detach() if p == 0 else x, p, dims, keep),
              forms, p=str(p))
    zeros = torch.zeros(2, 3)
    for p in [2, 1, 3, inf]:
        ops.case(f"norm_of_zeros_{p}", "norm", [zeros], lambda x: torch.linalg.vector_norm(x, p, [1], False), dims=[1],
                 keepdim=False, p=str(p))

    # PyTorch reduces one dimension at a time.
    def prod(x, dims, keepdim):
        for d in sorted((d % max(1, x.dim()) for d in dims), reverse=True):
            x = torch.prod(x, d, keepdim)
        return x

    cases("prod", prod,
          {k: v for k, v in {**everywhere, **EMPTY}.items() if k not in ("long", "narrow", "rows", "columns",
                                                                         "images")},
          lambda *shape: ops.uniform(*shape, low=0.5, high=1.5))
    cases("prod-signs", prod, {k: FORMS[k] for k in ["first", "last_keep"]})
    x = ops.uniform(3, 4, 5)
    x[0, 0, 0] = x[1, 1, 1] = x[1, 1, 2] = 0
    for dims in [[2], [0], [1, 2]]:
        ops.case(f"prod_with_zeros_{dims[0]}_{len(dims)}", "prod", [x], lambda x: prod(x, dims, False), dims=dims,
                 keepdim=False)

    for dtype in [torch.int64, torch.int32, torch.uint8, torch.bool]:
        kind = str(dtype).removeprefix("torch.")
        x = ops.integers(3, 40, low=0, high=2 if dtype == torch.bool else 5, dtype=dtype)
        for name, function in {"sum": torch.sum, "amax": torch.amax, "amin": torch.amin}.items():
            for dims in [[0], [1]]:
                ops.case(f"{name}_{kind}_{dims[0]}", name, [x], lambda x: function(x, dims), dims=dims, keepdim=False)
        ops.case(f"prod_{kind}", "prod", [x], lambda x: torch.prod(x, 1), dims=[1], keepdim=False)
        for name, function in {"any": torch.any, "all": torch.all}.items():
            for dims in [[0], [1], [0, 1]]:
                ops.case(f"{name}_{kind}_{len(dims)}_{dims[0]}", name, [x], lambda x: function(x, dims), dims=dims,
                         keepdim=False)
        ops.case(f"count_nonzero_{kind}", "count_nonzero", [x], lambda x: torch.count_nonzero(x, 1), dims=[1],
                 keepdim=False)

    special = torch.tensor([[1.0, nan, 2.0], [inf, -inf, 1.0], [-inf, -inf, -inf], [inf, 5.0, inf], [0.0, -0.0, 0.0]])
    for name, function in {"any": torch.any, "all": torch.all, "count_nonzero": torch.count_nonzero}.items():
        for form, (shape, dims,
                   keepdim) in {k: everywhere[k] for k in ["first", "last", "images", "one", "nothing"]}.items():
            x = ops.integers(*shape, low=0, high=2).float()
            call = (lambda x: function(x, dims, keepdim)) if name != "count_nonzero" else (lambda x: function(x, dims))
            ops.case(f"{name}_{form}", name, [x.bool() if form == "last" else x], call, dims=dims, keepdim=keepdim)
        ops.case(f"{name}_special", name, [special], lambda x: function(x, 1), dims=[1], keepdim=False)

    # These have only results, because PyTorch's gradients of infinities are useless.
    for name, function in {"sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "amin": torch.amin,
                           "logsumexp": torch.logsumexp,
                           "prod": torch.prod}.items():
        ops.case(f"{name}_special", name, [special], lambda x: function(x.detach(), 1), dims=[1], keepdim=False)


def searches(ops):
    for name, function in {"max": torch.max, "min": torch.min}.items():
        for form, (shape, dim, keepdim) in {
                "first": ((3, 4, 5), 0, False), "middle_keep": ((3, 4, 5), 1, True), "last": ((3, 4, 5), -1, False),
                "one": ((1,), 0, False), "scalar": ((), 0, False), "rows": ((1, 501), 1, False),
                "columns": ((70, 10), 0, True),
                "nothing": ((0, 3), 1, False)}.items():
            ops.case(f"{name}_{form}", name, [ops.uniform(*shape)], lambda x: tuple(function(x, dim, keepdim)), dim=dim,
                     keepdim=keepdim)
        for shape in [(3, 4, 5), (1,), (), (2, 103)]:
            ops.case(f"{name}_all_{len(shape)}", name, [ops.uniform(*shape)], lambda x: function(x))
        ties = torch.tensor([[1, 3, 3, 0], [0, 0, 2, 2], [3, 3, 3, 3]])
        for dim in [0, 1]:
            ops.case(f"{name}_ties_{dim}", name, [ties], lambda x: tuple(function(x, dim)), dim=dim, keepdim=False)
        arg = {"max": torch.argmax, "min": torch.argmin}[name]
        for form, (shape, dim, keepdim) in {
                "first": ((3, 4, 5), 0, False), "middle_keep": ((3, 4, 5), 1, True), "last": ((3, 4, 5), -1, False),
                "one": ((1,), 0, False), "scalar": ((), 0, False), "rows": ((1, 501), 1, False),
                "columns": ((70, 10), 0, True),
                "all": ((3, 4, 5), None, False)}.items():
            attributes = {} if dim is None else dict(dim=dim)
            ops.case(f"arg{name}_{form}", f"arg{name}", [ops.uniform(*shape)], lambda x: arg(x, dim, keepdim),
                     keepdim=keepdim, **attributes)
        special = torch.tensor([[1.0, nan, 2.0, nan], [inf, -inf, inf, -inf], [-inf, -inf, -inf, -inf],
                                [0.0, -0.0, 0.0, 0.0]])
        for dim in [0, 1]:
            ops.case(f"arg{name}_special_{dim}", f"arg{name}", [special], lambda x: arg(x, dim), dim=dim, keepdim=False)
            ops.case(f"{name}_special_{dim}", name, [special], lambda x: tuple(function(x.detach(), dim)), dim=dim,
                     keepdim=False)
        ops.case(f"arg{name}_ties", f"arg{name}", [ties], lambda x: arg(x, 1), dim=1, keepdim=False)


def scans(ops):
    for form, (shape, dim) in {"first": ((3, 4, 5), 0), "middle": ((3, 4, 5), 1), "last": ((3, 4, 5), -1),
                               "one": ((1,), 0),
                               "scalar": ((), 0), "empty": ((2, 0), 1), "long": ((1001,), 0), "columns": ((70, 10), 0),
                               "images": ((2, 3, 5, 7), 2)}.items():
        ops.case(f"cumsum_{form}", "cumsum", [ops.uniform(*shape)], lambda x: torch.cumsum(x, dim), dim=dim)
    for dtype in [torch.int64, torch.int32, torch.uint8, torch.bool]:
        x = ops.integers(3, 300, low=0, high=2, dtype=dtype)
        ops.case(f"cumsum_{str(dtype).removeprefix('torch.')}", "cumsum", [x], lambda x: torch.cumsum(x, 1), dim=1)


def products(ops):
    for form, (shape, dim) in {"first": ((3, 4, 5), 0), "middle": ((3, 4, 5), 1), "last": ((3, 4, 5), -1),
                               "one": ((1,), 0),
                               "scalar": ((), 0), "empty": ((2, 0), 1), "long": ((301,), 0),
                               "columns": ((7, 70), 0)}.items():
        ops.case(f"cumprod_{form}", "cumprod", [ops.uniform(*shape, low=0.5, high=1.5)],
                 lambda x: torch.cumprod(x, dim), dim=dim)
    for dtype in [torch.int64, torch.int32, torch.uint8, torch.bool]:
        x = ops.integers(3, 30, low=0 if dtype in (torch.uint8, torch.bool) else -3, high=4, dtype=dtype)
        x = torch.where(x == 0, torch.ones_like(x), x) if dtype is not torch.bool else x
        ops.case(f"cumprod_{str(dtype).removeprefix('torch.')}", "cumprod", [x], lambda x: torch.cumprod(x, 1), dim=1)
    zeros = ops.uniform(6, 5)
    zeros[0, 2] = zeros[1, 1] = zeros[1, 4] = zeros[2, 0] = zeros[3, 4] = 0
    zeros[4] = 0
    for dim in [0, 1]:
        ops.case(f"cumprod_zeros_{dim}", "cumprod", [zeros], lambda x: torch.cumprod(x, dim), dim=dim)
    for form, (shape, n, dim) in {"last": ((3, 5), 1, -1), "first": ((3, 5), 1, 0), "twice": ((2, 6, 3), 2, 1),
                                  "none": ((3, 4), 0, 0),
                                  "to_nothing": ((3, 2), 2, 1), "too_often": ((3, 2), 4, 1), "empty": ((2, 0), 1, 1),
                                  "large": ((7, 43), 1, 1)}.items():
        ops.case(f"diff_{form}", "diff", [ops.uniform(*shape)], lambda x: torch.diff(x, n, dim), n=n, dim=dim)
    ops.case("diff_integers", "diff", [ops.integers(3, 7)], lambda x: torch.diff(x, 1, 1), n=1, dim=1)
    ops.case("diff_bool", "diff", [ops.integers(3, 7, low=0, high=2, dtype=torch.bool)], lambda x: torch.diff(x, 2, 1),
             n=2, dim=1)


def make(ops):
    reductions(ops)
    searches(ops)
    scans(ops)
    products(ops)
