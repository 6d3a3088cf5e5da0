"""The same numbers in a different shape or arrangement."""
import torch
import torch.nn.functional as F


def shapes(ops):
    x = (2, 3, 4, 5)
    ops.case("flatten", "flatten", [ops.uniform(*x)], lambda x: torch.flatten(x, 1), from_dim=1)
    ops.case("flatten_all", "flatten", [ops.uniform(*x)], torch.flatten, from_dim=0)
    ops.case("flatten_middle", "flatten", [ops.uniform(*x)], lambda x: torch.flatten(x, 1, -2), from_dim=1, to_dim=-2)
    ops.case("flatten_one", "flatten", [ops.uniform(*x)], lambda x: torch.flatten(x, 2, 2), from_dim=2, to_dim=2)
    ops.case("flatten_scalar", "flatten", [ops.uniform()], torch.flatten, from_dim=0)
    ops.case("flatten_empty", "flatten", [ops.uniform(2, 0, 3)], lambda x: torch.flatten(x, 1), from_dim=1)
    ops.case("flatten_bool", "flatten", [ops.integers(3, 4, low=0, high=2, dtype=torch.bool)], torch.flatten,
             from_dim=0)
    for name, sizes, dim, parts in [("", (2, 12, 3), 1, (3, 4)), ("infer", (2, 12, 3), -2, (2, -1, 3)),
                                    ("same", (4,), 0, (4,)),
                                    ("empty", (2, 0), 1, (0, 3)), ("integers", (6,), 0, (-1, 2))]:
        value = ops.integers(*sizes) if name == "integers" else ops.uniform(*sizes)
        ops.case(f"unflatten_{name}", "unflatten", [value], lambda x: x.unflatten(dim, parts), dim=dim, sizes=parts)
    ops.case("reshape", "reshape", [ops.uniform(*x)], lambda x: x.reshape(6, 20), shape=[6, 20])
    ops.case("reshape_infer", "reshape", [ops.uniform(*x)], lambda x: x.reshape(4, -1), shape=[4, -1])
    ops.case("reshape_scalar", "reshape", [ops.uniform(1, 1)], lambda x: x.reshape(()), shape=[])
    ops.case("reshape_empty", "reshape", [ops.uniform(0, 3)], lambda x: x.reshape(3, 0, 2), shape=[3, 0, 2])
    ops.case("reshape_integers", "reshape", [ops.integers(4, 3)], lambda x: x.reshape(2, 6), shape=[2, 6])
    ops.case("view", "view", [ops.uniform(6)], lambda x: x.view(3, 2), shape=[3, 2])
    ops.case("view_infer", "view", [ops.uniform(6)], lambda x: x.view(1, -1, 1), shape=[1, -1, 1])
    ops.case("view_empty", "view", [ops.uniform(0)], lambda x: x.view(0, 7), shape=[0, 7])
    for name, order in [("", (0, 2, 3, 1)), ("negative", (-1, 0, -2, 1)), ("same", (0, 1, 2, 3))]:
        ops.case(f"permute_{name}", "permute", [ops.uniform(*x)], lambda x: x.permute(order), order=order)
    ops.case("permute_scalar", "permute", [ops.uniform()], lambda x: x.permute(()), order=[])
    ops.case("permute_large", "permute", [ops.uniform(3, 17, 65)], lambda x: x.permute(2, 0, 1), order=[2, 0, 1])
    ops.case("transpose", "transpose", [ops.uniform(3, 5)], lambda x: x.transpose(0, 1), dims=[0, 1])
    ops.case("transpose_negative", "transpose", [ops.uniform(*x)], lambda x: x.transpose(-1, 1), dims=[-1, 1])
    ops.case("transpose_same", "transpose", [ops.uniform(4)], lambda x: x.transpose(0, 0), dims=[0, 0])
    for name, sizes in [("matrix", (3, 4)), ("vector", (5,)), ("scalar", ()), ("empty", (0, 3))]:
        ops.case(f"t_{name}", "t", [ops.uniform(*sizes)], lambda x: x.t())
    for a, b in [(0, 2), (2, 0), (-1, 1), (1, 1)]:
        ops.case(f"movedim_{a}_{b}", "movedim", [ops.uniform(2, 3, 4)], lambda x: x.movedim(a, b), dims=[a, b])
    for name, sizes, shape in [("", (3, 1), (3, 4)), ("keep", (3, 1), (2, -1, 5)), ("scalar", (), (2, 3)),
                               ("same", (2, 3), (2, 3)),
                               ("empty", (1, 3), (0, 3)), ("all", (1, 1, 1), (2, 3, 4)), ("large", (1, 61), (50, 61))]:
        ops.case(f"expand_{name}", "expand", [ops.uniform(*sizes)], lambda x: x.expand(shape), shape=shape)
    ops.case("expand_bool", "expand", [ops.integers(2, 1, low=0, high=2, dtype=torch.bool)], lambda x: x.expand(2, 3),
             shape=[2, 3])
    for name, sizes in [("all", (1, 3, 1, 2)), ("none", (2, 3)), ("scalar", ()), ("ones", (1, 1)),
                        ("empty", (1, 0, 1))]:
        ops.case(f"squeeze_{name}", "squeeze", [ops.uniform(*sizes)], torch.squeeze)
    for name, sizes, dims in [("one", (1, 3, 1), (0,)), ("negative", (1, 3, 1), (-1,)), ("not_1", (1, 3, 1), (1,)),
                              ("several", (1, 3, 1, 1), (0, 1, -1)), ("of_scalar", (), (0,)), ("no_dims", (1, 2), ())]:
        ops.case(f"squeeze_{name}", "squeeze", [ops.uniform(*sizes)], lambda x: x.squeeze(dims), dims=dims)
    for name, sizes, dim in [("first", (3, 4), 0), ("last", (3, 4), -1), ("middle", (3, 4), 1), ("scalar", (), 0),
                             ("empty", (0, 2), 1)]:
        ops.case(f"unsqueeze_{name}", "unsqueeze", [ops.uniform(*sizes)], lambda x: x.unsqueeze(dim), dim=dim)


def parts(ops):
    most = 2**63 - 1
    x = (4, 7, 3)
    for name, dim, begin, end, step in [("", 1, 2, 5, 1), ("step", 1, 1, 7, 2), ("negative", -2, -5, -1, 1),
                                        ("clamped", 1, -99, 99, 3),
                                        ("none", 1, 5, 2, 1), ("outside", 0, 9, 12, 1), ("to_end", 2, 1, most, 1),
                                        ("whole", 0, 0, most, 1)]:
        ops.case(f"slice_{name}", "slice", [ops.uniform(*x)], lambda x: torch.ops.aten.slice(x, dim, begin, end, step),
                 dim=dim, begin=begin, end=end, step=step)
    ops.case("slice_integers", "slice", [ops.integers(9)], lambda x: x[1:8:3], dim=0, begin=1, end=8, step=3)
    ops.case("slice_empty", "slice", [ops.uniform(0, 3)], lambda x: x[0:2], dim=0, begin=0, end=2, step=1)
    ops.case("slice_large", "slice", [ops.uniform(40, 50)], lambda x: x[:, 3:40], dim=1, begin=3, end=40, step=1)
    for name, dim, start, length in [("", 1, 2, 4), ("negative", -1, -2, 2), ("none", 0, 4, 0), ("whole", 1, 0, 7)]:
        ops.case(f"narrow_{name}", "narrow", [ops.uniform(*x)], lambda x: x.narrow(dim, start, length), dim=dim,
                 start=start, length=length)
    for name, dim, index in [("first", 0, 0), ("middle", 1, 4), ("last", -1, -1), ("negative", 1, -7)]:
        ops.case(f"select_{name}", "select", [ops.uniform(*x)], lambda x: x.select(dim, index), dim=dim, index=index)
    ops.case("select_vector", "select", [ops.uniform(5)], lambda x: x[3], dim=0, index=3)
    ops.case("select_bool", "select", [ops.integers(3, 4, low=0, high=2, dtype=torch.bool)], lambda x: x[1], dim=0,
             index=1)
    for name, sizes, offset, dims in [("", (4, 5), 0, (0, 1)), ("above", (4, 5), 2, (0, 1)),
                                      ("below", (4, 5), -1, (0, 1)),
                                      ("batch", (2, 4, 3), 0, (-2, -1)), ("swapped", (2, 4, 3), 1, (2, 0)),
                                      ("outside", (3, 3), 5, (0, 1)),
                                      ("far_below", (3, 3), -3, (0, 1))]:
        ops.case(f"diagonal_{name}", "diagonal", [ops.uniform(*sizes)], lambda x: x.diagonal(offset, *dims),
                 offset=offset, dims=dims)
    # All parts, each multiplied by a different number, so that every gradient matters.
    weighted = lambda parts: torch.cat([part.flatten() * (i + 1) for i, part in enumerate(parts)])
    for name, sizes, dim in [("even", 2, 0), ("rest", 3, 1), ("one", 9, 1), ("sizes", [2, 0, 5], 1),
                             ("sizes_last", [1, 2], -1)]:
        ops.case(f"split_{name}", "split", [ops.uniform(*x)], lambda x: weighted(x.split(sizes, dim)),
                 **({"sizes": sizes} if isinstance(sizes, list) else {"size": sizes}), dim=dim)
    ops.case("split_empty", "split", [ops.uniform(0, 3)], lambda x: weighted(x.split(2, 0)), size=2, dim=0)
    ops.case("split_some", "split", [ops.uniform(*x)], lambda x: weighted(x.split(2, 1)[1:3]), size=2, dim=1, first=1,
             last=3)
    for name, count, dim in [("even", 2, 0), ("rest", 3, 1), ("fewer", 5, 1), ("more", 9, -1)]:
        ops.case(f"chunk_{name}", "chunk", [ops.uniform(*x)], lambda x: weighted(x.chunk(count, dim)), count=count,
                 dim=dim)
    for name, sizes, dim in [("first", x, 0), ("last", x, -1), ("vector", (6,), 0)]:
        ops.case(f"unbind_{name}", "unbind", [ops.uniform(*sizes)], lambda x: weighted(x.unbind(dim)), dim=dim)


def joins(ops):
    u = ops.uniform
    low = lambda dtype: ops.integers(2, 3, dtype=dtype)
    for name, inputs, dim in [("rows", [u(2, 3), u(4, 3)], 0), ("columns", [u(2, 3), u(2, 1), u(2, 2)], -1),
                              ("one", [u(2, 3)], 0),
                              ("middle", [u(2, 3, 4), u(2, 1, 4)], 1), ("skipped", [u(0), u(2, 3), u(0)], 1),
                              ("all_skipped", [u(0), u(0)], 0), ("empty", [u(2, 0), u(2, 3)], 1),
                              ("promoted", [u(2, 3), low(torch.int64)], 0),
                              ("integers", [low(torch.int32), low(torch.uint8)], 0),
                              ("bools", [low(torch.bool), low(torch.bool)], 1),
                              ("double", [u(2, 3), u(1, 3).double()], 0),
                              ("skipped_double", [u(2, 3), u(0).double()], 0),
                              ("images", [u(2, 3, 4, 5), u(2, 2, 4, 5)], 1), ("large", [u(33, 40), u(33, 31)], 1),
                              ("many", [u(1 + i % 3, 2) for i in range(40)], 0)]:
        ops.case(f"cat_{name}", "cat", inputs, lambda *inputs: torch.cat(inputs, dim), dim=dim)
    for name, inputs, dim in [("first", [u(2, 3), u(2, 3)], 0), ("last", [u(2, 3), u(2, 3), u(2, 3)], -1),
                              ("middle", [u(2, 3), u(2, 3)], 1),
                              ("scalars", [u(), u(), u()], 0), ("one", [u(4)], 1), ("empty", [u(2, 0), u(2, 0)], 1),
                              ("promoted", [u(2, 3), low(torch.int64)], 0), ("large", [u(40, 31), u(40, 31)], 2)]:
        ops.case(f"stack_{name}", "stack", inputs, lambda *inputs: torch.stack(inputs, dim), dim=dim)


def rearrangements(ops):
    def pad(name, sizes, padding, mode="constant", value=0.0, make=None):
        x = make(*sizes) if make else ops.uniform(*sizes)
        ops.case(f"pad_{name}", "pad", [x], lambda x: F.pad(x, padding, mode, value if mode == "constant" else None),
                 padding=padding, mode=mode, value=value)

    pad("last", (2, 3), (1, 2))
    pad("two", (2, 3, 4), (1, 0, 2, 3), value=1.5)
    pad("all", (2, 3), (0, 1, 1, 0), value=-2.0)
    pad("crop", (4, 5), (-1, -2))
    pad("crop_and_pad", (4, 5), (-1, 2, 3, -2), value=7.0)
    pad("none", (2, 3), (0, 0))
    pad("to_nothing", (2, 3), (-1, -2))
    pad("from_nothing", (0, 3), (1, 1, 2, 1), value=3.0)
    pad("integers", (3,), (2, 1), value=4, make=ops.integers)
    pad("bool", (3,), (1, 1), value=1, make=lambda *s: ops.integers(*s, low=0, high=2, dtype=torch.bool))
    pad("image", (2, 3, 4, 5), (1, 2, 3, 0))
    pad("large", (30, 40), (5, 6, 7, 8))
    for mode in ["reflect", "replicate", "circular"]:
        pad(f"{mode}_1", (2, 3, 5), (2, 1), mode)
        pad(f"{mode}_2", (2, 2, 4, 5), (1, 2, 3, 0), mode)
        pad(f"{mode}_2_images", (2, 4, 5), (1, 2, 3, 2), mode) if mode != "circular" else None
        pad(f"{mode}_3", (1, 2, 3, 3, 4), (1, 2, 0, 2, 1, 1), mode)
        pad(f"{mode}_most", (1, 1, 3), (2, 2) if mode == "reflect" else (3, 3), mode)
    pad("replicate_far", (1, 2, 2), (4, 5), "replicate")
    for name, sizes, shifts, dims in [("one", (3, 4), (1,), (0,)), ("back", (3, 4), (-1,), (1,)),
                                      ("both", (3, 4), (1, 2), (0, 1)), ("flat", (3, 4), (5,), ()),
                                      ("twice", (5,), (1, 2), (0, 0)), ("round", (3, 4), (9,), (-1,)),
                                      ("none", (3,), (0,), (0,)),
                                      ("empty", (0, 2), (1,), (0,)), ("three", (2, 3, 4), (1, -2, 3), (0, 1, 2)),
                                      ("large", (30, 41), (7, -9), (0, 1))]:
        ops.case(f"roll_{name}", "roll", [ops.uniform(*sizes)], lambda x: torch.roll(x, shifts, dims), shifts=shifts,
                 dims=dims)
    ops.case("roll_integers", "roll", [ops.integers(2, 3)], lambda x: torch.roll(x, 1, 1), shifts=[1], dims=[1])
    for name, sizes, dims in [("first", (3, 4), (0,)), ("last", (3, 4), (-1,)), ("both", (3, 4), (0, 1)),
                              ("none", (3,), ()), ("empty", (2, 0), (1,)), ("large", (40, 33), (1,))]:
        ops.case(f"flip_{name}", "flip", [ops.uniform(*sizes)], lambda x: torch.flip(x, dims), dims=dims)
    ops.case("flip_integers", "flip", [ops.integers(2, 3, dtype=torch.int32)], lambda x: torch.flip(x, (0,)), dims=[0])
    for name, sizes, repeats in [("one", (3,), (4,)), ("lead", (2, 3), (2, 1, 3)), ("none", (2, 3), (1, 1)),
                                 ("zero", (2, 3), (2, 0)), ("scalar", (), (3,)),
                                 ("empty", (0, 2), (2, 2)), ("large", (5, 7), (9, 8)), ("scalar_none", (), ())]:
        ops.case(f"repeat_{name}", "repeat", [ops.uniform(*sizes)], lambda x: x.repeat(repeats), repeats=repeats)
    ops.case("repeat_bool", "repeat", [ops.integers(2, 2, low=0, high=2, dtype=torch.bool)], lambda x: x.repeat(1, 3),
             repeats=[1, 3])
    for name, sizes, repeats, dim in [("first", (2, 3), 2, 0), ("last", (2, 3), 3, -1), ("one", (3,), 1, 0),
                                      ("zero", (2, 3), 0, 1), ("large", (20, 5), 17, 0)]:
        ops.case(f"repeat_interleave_{name}", "repeat_interleave", [ops.uniform(*sizes)],
                 lambda x: x.repeat_interleave(repeats, dim), repeats=repeats, dim=dim)
    ops.case("repeat_interleave_flat", "repeat_interleave", [ops.uniform(2, 3)], lambda x: x.repeat_interleave(2),
             repeats=2)
    for op in ["tril", "triu"]:
        for name, sizes, diagonal in [("", (4, 5), 0), ("above", (4, 5), 2), ("below", (5, 4), -2),
                                      ("batch", (2, 3, 4, 3), 0), ("far", (3, 3), 9), ("far_below", (3, 3), -9),
                                      ("empty", (2, 0), 0), ("large", (40, 33), 3)]:
            ops.case(f"{op}_{name}", op, [ops.uniform(*sizes)], lambda x: getattr(torch, op)(x, diagonal),
                     diagonal=diagonal)
        ops.case(f"{op}_integers", op, [ops.integers(3, 3)], getattr(torch, op), diagonal=0)
        ops.case(f"{op}_bool", op, [ops.integers(3, 4, low=0, high=2, dtype=torch.bool)], getattr(torch, op),
                 diagonal=0)
    for op in ["contiguous", "clone"]:
        for name, sizes in [("", (2, 3, 4)), ("scalar", ()), ("empty", (0, 2))]:
            ops.case(f"{op}_{name}", op, [ops.uniform(*sizes)], lambda x: getattr(x, op)())
        ops.case(f"{op}_integers", op, [ops.integers(2, 3, dtype=torch.uint8, low=0)], lambda x: getattr(x, op)())


def grids(ops):
    weighted = lambda parts: torch.cat([part.flatten() * (i + 1) for i, part in enumerate(parts)])
    for form, sizes in {"two": [(3,), (4,)], "three": [(2,), (3,), (4,)], "one": [(5,)], "scalar": [(3,), ()],
                        "empty": [(3,), (0,)]}.items():
        for indexing in ["ij", "xy"]:
            ops.case(f"meshgrid_{form}_{indexing}", "meshgrid", [ops.uniform(*size) for size in sizes],
                     lambda *inputs: weighted(torch.meshgrid(*inputs, indexing=indexing)), indexing=indexing)
    for name, sizes, repeats in [("fewer", (2, 3), (4,)), ("lead", (2, 3), (2, 1, 3)), ("same", (2, 3), (3, 2)),
                                 ("scalar", (), (3,)), ("none", (2, 3), ()), ("empty", (0, 2), (2, 2))]:
        ops.case(f"tile_{name}", "tile", [ops.uniform(*sizes)], lambda x: x.tile(repeats), repeats=repeats)
    for name, sizes, dims in [("", (2, 3, 4), (0, -1)), ("same", (2, 3), (1, 1))]:
        ops.case(f"swapaxes_{name}", "swapaxes", [ops.uniform(*sizes)], lambda x: x.swapaxes(*dims), dims=dims)


def make(ops):
    shapes(ops)
    parts(ops)
    joins(ops)
    rearrangements(ops)
    grids(ops)
