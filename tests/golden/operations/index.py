"""Operations by position."""
import torch
import torch.nn.functional as F


def selections(ops):
    def indices(*shape, below, dtype=torch.int64):
        return ops.integers(*shape, low=0, high=below, dtype=dtype)

    x = (4, 5, 3)
    for name, sizes, dim, count in [("first", x, 0, 6), ("middle", x, 1, 3), ("last", x, -1, 7), ("vector", (9,), 0, 4),
                                    ("none", x, 1, 0), ("empty", (3, 0), 0, 2),
                                    ("images", (2, 3, 4, 5), 1, 4), ("large", (40, 30), 0, 50),
                                    ("large_last", (30, 31), 1, 40)]:
        ops.case(f"index_select_{name}", "index_select", [ops.uniform(*sizes), indices(count, below=sizes[dim])],
                 lambda x, i: x.index_select(dim, i), dim=dim)
    ops.case("index_select_scalar", "index_select", [ops.uniform(), torch.tensor([0])],
             lambda x, i: x.index_select(0, i), dim=0)
    ops.case("index_select_one", "index_select", [ops.uniform(*x), torch.tensor(2)], lambda x, i: x.index_select(1, i),
             dim=1)
    ops.case("index_select_i32", "index_select", [ops.uniform(*x), indices(5, below=4, dtype=torch.int32)],
             lambda x, i: x.index_select(0, i), dim=0)
    for dtype in [torch.int64, torch.uint8, torch.bool, torch.float64]:
        ops.case(f"index_select_{dtype}"[6:].replace("torch.", ""), "index_select",
                 [ops.integers(3, 4, low=0).to(dtype), indices(4, below=3)],
                 lambda x, i: x.index_select(0, i), dim=0)

    for name, sizes, shape, dim in [("first", x, (2, 5, 3), 0), ("middle", x, (4, 8, 3), 1), ("last", x, (4, 5, 2), -1),
                                    ("smaller", x, (2, 7, 1), 1), ("vector", (6,), (9,), 0),
                                    ("none", x, (4, 0, 3), 1), ("images", (2, 3, 4, 5), (2, 4, 4, 5), 1),
                                    ("large", (30, 35), (30, 40), 1), ("large_first", (30, 35), (45, 35), 0)]:
        ops.case(f"gather_{name}", "gather", [ops.uniform(*sizes), indices(*shape, below=sizes[dim])],
                 lambda x, i: x.gather(dim, i), dim=dim)
    ops.case("gather_scalar", "gather", [ops.uniform(), torch.tensor(0)], lambda x, i: x.gather(0, i), dim=0)
    ops.case("gather_i32", "gather", [ops.uniform(3, 4), indices(3, 2, below=4, dtype=torch.int32)],
             lambda x, i: x.gather(1, i.long()), dim=1)
    ops.case("gather_bool", "gather", [ops.integers(3, 4, low=0, high=2, dtype=torch.bool), indices(3, 2, below=4)],
             lambda x, i: x.gather(1, i), dim=1)
    ops.case("gather_integers", "gather", [ops.integers(3, 4), indices(2, 4, below=3)], lambda x, i: x.gather(0, i),
             dim=0)

    for name, sizes, shape, dim in [("rows", (3, 4), (3, 2), 1), ("broadcast_index", (3, 4), (1, 2), 1),
                                    ("broadcast_x", (1, 4), (3, 2), 1), ("both", (2, 1, 5), (1, 3, 2), -1)]:
        ops.case(f"take_along_dim_{name}", "take_along_dim", [ops.uniform(*sizes), indices(*shape, below=sizes[dim])],
                 lambda x, i: torch.take_along_dim(x, i, dim), dim=dim)
    ops.case("take_along_dim_flat", "take_along_dim", [ops.uniform(3, 4), indices(5, below=12)],
             lambda x, i: torch.take_along_dim(x, i))


def scatters(ops):
    def indices(*shape, below, dtype=torch.int64):
        return ops.integers(*shape, low=0, high=below, dtype=dtype)

    def different(sizes, shape, dim):
        """Returns indices without duplicates along dim."""
        order = torch.rand([max(a, b) for a, b in zip(sizes, shape)], generator=ops.generator).argsort(dim)
        order = order % sizes[dim] if sizes[dim] else order
        for d, size in enumerate(shape):
            order = order.narrow(d, 0, size)
        return order.contiguous()

    x = (4, 5, 3)
    for name, sizes, shape, source, dim in [("first", x, (3, 5, 3), (3, 5, 3), 0),
                                            ("middle", x, (4, 3, 3), (4, 3, 3), 1),
                                            ("last", x, (4, 5, 2), (4, 5, 2), -1),
                                            ("smaller", x, (2, 4, 1), (2, 4, 1), 1),
                                            ("none", x, (4, 0, 3), (4, 0, 3), 1), ("vector", (6,), (4,), (4,), 0),
                                            ("images", (2, 3, 4, 5), (2, 2, 4, 5), (2, 2, 4, 5), 1),
                                            ("large", (30, 40), (30, 25), (30, 25), 1)]:
        # There are no more values than places, so PyTorch's order has no effect.
        ops.case(f"scatter_{name}", "scatter",
                 [ops.uniform(*sizes),
                  different([sizes[d] if d == dim % len(sizes) else shape[d] for d in range(len(sizes))], shape, dim),
                  ops.uniform(*source)],
                 lambda x, i, s: x.scatter(dim, i, s), dim=dim)
        ops.case(f"scatter_value_{name}", "scatter", [ops.uniform(*sizes), indices(*shape, below=sizes[dim])],
                 lambda x, i: x.scatter(dim, i, 2.5), dim=dim, value=2.5)
        ops.case(f"scatter_add_{name}", "scatter_add",
                 [ops.uniform(*sizes), indices(*shape, below=sizes[dim]), ops.uniform(*source)],
                 lambda x, i, s: x.scatter_add(dim, i, s), dim=dim)
    ops.case("scatter_scalar", "scatter", [ops.uniform(), torch.tensor(0), ops.uniform()],
             lambda x, i, s: x.scatter(0, i, s), dim=0)
    ops.case("scatter_integers", "scatter", [ops.integers(3, 4), torch.tensor([[0, 2], [3, 1], [1, 0]]),
                                             ops.integers(3, 2)], lambda x, i, s: x.scatter(1, i, s), dim=1)
    ops.case("scatter_add_scalar", "scatter_add", [ops.uniform(), torch.tensor(0), ops.uniform()],
             lambda x, i, s: x.scatter_add(0, i, s), dim=0)
    ops.case("scatter_add_larger_source", "scatter_add",
             [ops.integers(4, 5), indices(2, 3, below=5), ops.integers(3, 4)], lambda x, i, s: x.scatter_add(1, i, s),
             dim=1)
    for dtype in [torch.int32, torch.uint8, torch.float64]:
        ops.case(f"scatter_add_{dtype}".replace("torch.", ""), "scatter_add",
                 [ops.integers(5, low=0, dtype=torch.int64).to(dtype), indices(40, below=5),
                  ops.integers(40, low=0, high=20).to(dtype)],
                 lambda x, i, s: x.scatter_add(0, i, s), dim=0)
    ops.case("scatter_add_one_place", "scatter_add",
             [ops.uniform(3), torch.zeros(300, dtype=torch.int64), ops.uniform(300)],
             lambda x, i, s: x.scatter_add(0, i, s), dim=0)

    for name, sizes, count, dim in [("first", x, 6, 0), ("middle", x, 3, 1), ("last", x, 4, -1), ("vector", (5,), 9, 0),
                                    ("none", x, 0, 1), ("large", (30, 40), 50, 0)]:
        source = list(sizes)
        source[dim] = count
        for alpha in ([1, -0.5] if name in ["first", "none"] else [1]):
            ops.case(f"index_add_{name}_{alpha}", "index_add",
                     [ops.uniform(*sizes), indices(count, below=sizes[dim]), ops.uniform(*source)],
                     lambda x, i, s: x.index_add(dim, i, s, alpha=alpha), dim=dim, alpha=alpha)
    ops.case("index_add_integers", "index_add", [ops.integers(3, 4), indices(5, below=3), ops.integers(5, 4)],
             lambda x, i, s: x.index_add(0, i, s, alpha=2), dim=0, alpha=2)


def masks(ops):
    def bools(*shape):
        return ops.integers(*shape, low=0, high=2, dtype=torch.bool)

    for name, sizes, mask, value in [("", (3, 4), (3, 4), -1.5), ("rows", (3, 4), (4,), 0.0),
                                     ("columns", (3, 4), (3, 1), 2.0), ("wider", (4,), (3, 4), 1.0),
                                     ("scalar", (), (), 3.0),
                                     ("scalar_mask", (2, 3), (), 5.0), ("empty", (0, 3), (3,), 1.0),
                                     ("images", (2, 3, 4, 5), (2, 1, 4, 5), 0.0), ("large", (40, 50), (40, 50), -9.0)]:
        ops.case(f"masked_fill_{name}", "masked_fill", [ops.uniform(*sizes), bools(*mask)],
                 lambda x, m: x.masked_fill(m, value), value=value)
        if name != "images":
            ops.case(f"masked_select_{name}", "masked_select", [ops.uniform(*sizes), bools(*mask)],
                     lambda x, m: x.masked_select(m))
    for dtype in [torch.int64, torch.uint8, torch.bool]:
        ops.case(f"masked_fill_{dtype}".replace("torch.", ""), "masked_fill",
                 [ops.integers(3, 4, low=0).to(dtype), bools(3, 4)], lambda x, m: x.masked_fill(m, 1), value=1)
        ops.case(f"masked_select_{dtype}".replace("torch.", ""), "masked_select",
                 [ops.integers(3, 4, low=0).to(dtype), bools(3, 4)], lambda x, m: x.masked_select(m))
    ops.case("masked_select_all", "masked_select", [ops.uniform(5), torch.ones(5, dtype=torch.bool)],
             lambda x, m: x.masked_select(m))
    ops.case("masked_select_none", "masked_select", [ops.uniform(5), torch.zeros(5, dtype=torch.bool)],
             lambda x, m: x.masked_select(m))
    for name, x in [("", ops.integers(3, 4, low=-1, high=2)),
                    ("vector", ops.integers(9, low=0, high=2, dtype=torch.uint8)), ("bool", bools(2, 3, 2)),
                    ("none", torch.zeros(3, 2)),
                    ("zero", torch.tensor(0)), ("scalar", torch.tensor(7)),
                    ("empty", torch.zeros(0, 3, dtype=torch.int32)), ("large", bools(50, 101)),
                    ("three", ops.integers(5, 4, 7, low=0, high=3))]:
        ops.case(f"nonzero_{name}", "nonzero", [x], lambda x: x.nonzero())
    special = torch.tensor([0.0, -0.0, float("nan"), float("inf"), 1e-45, -2.0]).reshape(2, 3)
    ops.case("nonzero_special", "nonzero", [special], lambda x: x.nonzero())
    for name, sizes, classes in [("", (5,), 4), ("infer", (5,), -1), ("matrix", (2, 3), 6), ("scalar", (), 4),
                                 ("empty", (0, 2), 3)]:
        ops.case(f"one_hot_{name}", "one_hot", [ops.integers(*sizes, low=0, high=4)], lambda i: F.one_hot(i, classes),
                 num_classes=classes)


def embeddings(ops):
    for name, sizes, rows, width, padding in [("", (7,), 5, 3, None), ("matrix", (2, 3), 5, 4, None),
                                              ("scalar", (), 5, 3, None), ("empty", (0, 2), 5, 3, None),
                                              ("three", (2, 3, 2), 4, 1, None),
                                              ("padding", (4, 3), 4, 2, 1), ("padding_negative", (4, 3), 4, 2, -1),
                                              ("one_row", (6,), 1, 5, None), ("large", (80,), 30, 40, 0)]:
        ops.case(f"embedding_{name}", "embedding", [ops.integers(*sizes, low=0, high=rows), ops.uniform(rows, width)],
                 lambda i, w: F.embedding(i, w, padding),
                 **({} if padding is None else {"padding_idx": padding, "special": "gradient"}))
    ops.case("embedding_i32", "embedding", [ops.integers(3, 2, low=0, high=4, dtype=torch.int32), ops.uniform(4, 3)],
             lambda i, w: F.embedding(i, w))


def make(ops):
    selections(ops)
    scatters(ops)
    masks(ops)
    embeddings(ops)
