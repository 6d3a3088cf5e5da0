"""Element-wise operations, and the creation of arrays."""
import torch
from torch.nn import functional as F

INF, NAN = float("inf"), float("nan")
SPECIAL = torch.tensor([0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 30.0, -30.0, 100.0,
                        -100.0])


def name_of(shape):
    return "x".join(map(str, shape)) or "scalar"


def unary(ops):
    anywhere, positive = dict(low=-2.0, high=2.0), dict(low=0.1, high=3.0)
    functions = {
        "relu": anywhere, "neg": anywhere, "exp": anywhere, "tanh": anywhere, "sigmoid": anywhere, "abs": anywhere,
        "sign": anywhere, "floor": anywhere, "ceil": anywhere, "trunc": anywhere, "round": anywhere,
        "square": anywhere, "sin": anywhere, "cos": anywhere, "erf": anywhere, "log": positive, "sqrt": positive,
        "log1p": positive, "rsqrt": positive, "reciprocal": positive,
    }
    keep_integers = ["relu", "neg", "abs", "sign", "floor", "ceil", "trunc", "round", "square"]
    for name, interval in functions.items():
        function = getattr(torch, name)
        for shape in [(3, 4, 5), (), (2, 3, 1, 7), (0, 3)]:
            ops.case(f"{name}_{name_of(shape)}", name, [ops.uniform(*shape, **interval)], function)
        ops.case(f"{name}_large", name, [ops.uniform(331, low=3 * interval["low"], high=3 * interval["high"])],
                 function)
        ops.case(f"{name}_integers", name, [ops.integers(3, 5, low=1 if interval is positive else -5)], function)
        if name not in ["neg", "sqrt", "rsqrt", "reciprocal"]:
            ops.case(f"{name}_u8", name, [ops.integers(7, low=0, dtype=torch.uint8)], function)
        if name not in keep_integers:
            ops.case(f"{name}_bool", name, [ops.integers(7, low=0, high=2, dtype=torch.bool)], function)
        ops.case(f"{name}_special", f"{name}", [SPECIAL], function, special=True)


def activations(ops):
    cases = {
        "leaky_relu": [{}, {"negative_slope": 0.2}],
        "elu": [{}, {"alpha": 0.7}],
        "gelu": [{}, {"approximate": "tanh"}],
        "silu": [{}],
        "softplus": [{}, {"beta": 2.5, "threshold": 1.5}],
        "hardswish": [{}],
    }
    for name, forms in cases.items():
        for number, options in enumerate(forms):
            def function(x):
                return getattr(F, name)(x, **options)
            for shape in [(3, 4, 5), (), (2, 3, 1, 7), (0, 3)]:
                ops.case(f"{name}{number}_{name_of(shape)}", name, [ops.uniform(*shape)], function, **options)
            ops.case(f"{name}{number}_large", name, [ops.uniform(331, low=-8.0, high=8.0)], function, **options)
            # PyTorch's vector code computes NaN for gelu of infinity.
            special = SPECIAL[torch.isfinite(SPECIAL)] if name == "gelu" else SPECIAL
            ops.case(f"{name}{number}_special", name, [special], function, special=True, **options)


def numbers(ops):
    """Arithmetic and comparisons with a number."""
    functions = {
        "add_number": lambda x, n: x + n, "sub_number": lambda x, n: x - n, "mul_number": lambda x, n: x * n,
        "div_number": lambda x, n: x / n, "number_sub": lambda x, n: n - x, "number_div": lambda x, n: n / x,
        "pow_number": lambda x, n: x**n, "number_pow": lambda x, n: n**x,
    }
    for name, function in functions.items():
        powers = [2, 0.5, 1, -0.5] if name == "pow_number" else []
        for number in [3, 2.5, 0, -1.0, *powers]:
            if name in ["div_number", "number_pow"] and number <= 0:
                continue
            attributes = dict(number=number, is_integer=isinstance(number, int))
            form = str(number).replace(".", "_")

            def call(x):
                return function(x, number)
            ops.case(f"{name}_{form}", name, [ops.uniform(3, 5, low=0.3)], call, **attributes)
            if number in [3, 2.5]:
                ops.case(f"{name}_{form}_integers", name, [ops.integers(7, low=1)], call, **attributes)
                ops.case(f"{name}_{form}_empty", name, [ops.uniform(0, 5)], call, **attributes)
                if name not in ["pow_number", "number_pow", "sub_number", "number_sub"]:
                    ops.case(f"{name}_{form}_bool", name, [ops.integers(7, low=0, high=2, dtype=torch.bool)], call,
                             **attributes)
                ops.case(f"{name}_{form}_large", name, [ops.uniform(131, low=0.3)], call, **attributes)
            if name != "pow_number" or number != -0.5:  # at -0, PyTorch's gradient has the sign of 0's
                ops.case(f"{name}_{form}_special", name, [SPECIAL], call, special=True, **attributes)
    for form, limits in {"both": dict(min=-1, max=0.5), "low": dict(min=-0.5), "high": dict(max=1),
                         "crossed": dict(min=1.0, max=-1.0)}.items():
        def call(x):
            return torch.clamp(x, **limits)
        for shape in [(3, 4, 5), (), (0,), (1,)]:
            ops.case(f"clamp_{form}_{name_of(shape)}", "clamp", [ops.uniform(*shape)], call, **limits)
        ops.case(f"clamp_{form}_special", "clamp", [SPECIAL], call, special=True, **limits)
        ops.case(f"clamp_{form}_integers", "clamp", [ops.integers(3, 7)], call, **limits)
    for name in ["eq", "ne", "lt", "le", "gt", "ge"]:
        for number in [1, 0.5]:
            attributes = dict(number=number, is_integer=isinstance(number, int))

            def call(x):
                return getattr(torch, name)(x, number)
            form = str(number).replace(".", "_")
            ops.case(f"{name}_number_{form}", f"{name}_number", [ops.uniform(3, 5)], call, **attributes)
            ops.case(f"{name}_number_{form}_integers", f"{name}_number", [ops.integers(9)], call, **attributes)
            ops.case(f"{name}_number_{form}_bool", f"{name}_number", [ops.integers(9, low=0, high=2, dtype=torch.bool)],
                     call, **attributes)
            ops.case(f"{name}_number_{form}_special", f"{name}_number", [SPECIAL], call, **attributes)


PAIRS = {
    "same": ((3, 4, 5), (3, 4, 5)),
    "one": ((1,), (1,)),
    "row": ((3, 4), (4,)),
    "column": ((3, 4), (3, 1)),
    "outer": ((5, 1), (1, 7)),
    "both": ((3, 1, 5), (4, 1)),
    "scalar": ((2, 3), ()),
    "scalar_left": ((), (2, 3)),
    "scalars": ((), ()),
    "channel": ((2, 3, 4, 5), (1, 3, 1, 1)),
    "ones": ((1, 1, 1), (2, 1, 3)),
    "odd": ((7, 13, 3), (13, 3)),
    "short_rows": ((67, 3), (3,)),
    "empty": ((0, 3), (1, 3)),
    "large": ((7, 43), (7, 43)),
}


def binary(ops):
    arithmetic = ["add", "sub", "mul", "div", "pow", "maximum", "minimum"]
    for name in arithmetic:
        function = getattr(torch, name)
        for form, (left, right) in PAIRS.items():
            if name in ["sub", "div", "minimum"] and form in ["one", "both", "ones", "outer", "scalars"]:
                continue  # the same loops as for add
            low_a = 0.3 if name == "pow" else -2.0
            low_b = 0.5 if name == "div" else -2.0
            ops.case(f"{name}_{form}", name, [ops.uniform(*left, low=low_a), ops.uniform(*right, low=low_b)], function)
        if name in ["add", "sub"]:
            ops.case(f"{name}_alpha", name, [ops.uniform(3, 4), ops.uniform(4)],
                     lambda a, b: function(a, b, alpha=-1.5), alpha=-1.5)
        i64, i32 = ops.integers(3, 7), ops.integers(3, 7, low=1, dtype=torch.int32)
        u8 = ops.integers(7, low=1, dtype=torch.uint8)
        flag = ops.integers(3, 7, low=0, high=2, dtype=torch.bool)
        ops.case(f"{name}_i64_i32", name, [i64, i32], function)
        ops.case(f"{name}_i32_u8", name, [i32, u8], function)
        ops.case(f"{name}_i64_f32", name, [i32.to(torch.int64), ops.uniform(7, low=0.5)], function)
        ops.case(f"{name}_i64_scalar_f32", name, [i32.to(torch.int64), ops.uniform(low=0.5)], function)
        ops.case(f"{name}_i32_scalar_i64", name, [i32, torch.tensor(3)], function)
        if name != "sub":
            ops.case(f"{name}_bool_i64", name, [flag, i32.to(torch.int64)], function)
        if name not in ["sub", "pow"]:
            ops.case(f"{name}_bool_bool", name, [flag, flag.flip(0) | flag.flip(1)], function)
        ops.case(f"{name}_special", name, [SPECIAL.repeat_interleave(len(SPECIAL)), SPECIAL.repeat(len(SPECIAL))],
                 function, special=True)
    for name in ["eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"]:
        function = getattr(torch, name)
        for form in ["row", "scalar", "channel", "empty"]:
            left, right = PAIRS[form]
            ops.case(f"{name}_{form}", name, [ops.uniform(*left), ops.uniform(*right)], function)
        ops.case(f"{name}_integers", name, [ops.integers(3, 7, low=-1, high=2), ops.integers(7, low=-1, high=2)],
                 function)
        ops.case(f"{name}_bool_f32", name, [ops.integers(9, low=0, high=2, dtype=torch.bool), ops.uniform(9)], function)
        ops.case(f"{name}_bool", name, [ops.integers(9, low=0, high=2, dtype=torch.bool),
                                        ops.integers(9, low=0, high=2, dtype=torch.bool)], function)
        ops.case(f"{name}_special", name, [SPECIAL.repeat_interleave(len(SPECIAL)), SPECIAL.repeat(len(SPECIAL))],
                 function)
    for name in ["logical_not", "isnan", "isinf", "isfinite"]:
        function = getattr(torch, name)
        ops.case(f"{name}_special", name, [SPECIAL], function)
        ops.case(f"{name}_integers", name, [ops.integers(3, 7, low=-1, high=2)], function)
        ops.case(f"{name}_bool", name, [ops.integers(7, low=0, high=2, dtype=torch.bool)], function)
        ops.case(f"{name}_empty", name, [ops.uniform(0, 2)], function)


def where(ops):
    shapes = {"same": ((3, 5), (3, 5), (3, 5)), "condition": ((5,), (3, 5), (3, 1)), "wide": ((4, 3, 1), (5,), ()),
              "scalars": ((), (), ()), "empty": ((0, 3), (3,), (1, 3)), "large": ((7, 43), (7, 43), (43,))}
    for form, (condition, left, right) in shapes.items():
        flags = ops.uniform(*condition) > 0
        ops.case(f"where_{form}", "where", [flags, ops.uniform(*left), ops.uniform(*right)], torch.where)
        for number in [2, -0.5]:
            attributes = dict(number=number, is_integer=isinstance(number, int))
            suffix = f"{form}_{str(number).replace('.', '_')}"
            ops.case(f"where_number_{suffix}", "where_number", [flags, ops.uniform(*left)],
                     lambda c, x: torch.where(c, x, number), **attributes)
            ops.case(f"number_where_{suffix}", "number_where", [flags, ops.uniform(*left)],
                     lambda c, x: torch.where(c, number, x), **attributes)
    flags = ops.uniform(9) > 0
    ops.case("where_integers", "where", [flags, ops.integers(9), ops.integers(9, dtype=torch.int32)], torch.where)
    ops.case("where_i64_f32", "where", [flags, ops.integers(9), ops.uniform(9)], torch.where)
    ops.case("where_bool", "where", [flags, flags, ~flags], torch.where)
    ops.case("where_number_integers", "where_number", [flags, ops.integers(9)], lambda c, x: torch.where(c, x, 0.5),
             number=0.5, is_integer=False)
    ops.case("where_infinite", "where", [torch.isfinite(SPECIAL), SPECIAL, torch.zeros(())], torch.where, special=True)


def others(ops):
    for shape in [(3, 4), (), (0, 2)]:
        form = "x".join(map(str, shape)) or "scalar"
        ops.case(f"affine_{form}", "affine", [ops.uniform(*shape)], lambda x: x * 2.5 - 1.25)
        ops.case(f"fill_{form}", "fill_", [ops.uniform(*shape)], lambda x: x.detach().clone().fill_(2.5))
        ops.case(f"zero_{form}", "zero_", [ops.uniform(*shape)], lambda x: x.detach().clone().zero_())
        ops.case(f"cast_{form}", "cast", [ops.uniform(*shape)], lambda x: x.double(), dtype="f64")
    ops.case("cast_to_integers", "cast", [ops.uniform(7, low=-9, high=9)], lambda x: x.to(torch.int32), dtype="i32")
    ops.case("cast_from_integers", "cast", [ops.integers(2, 3)], lambda x: x.float(), dtype="f32")
    ops.case("copy_row", "copy_", [ops.uniform(3, 4), ops.uniform(4)], lambda x, y: x.detach().clone().copy_(y),
             special="gradient")
    ops.case("copy_integers", "copy_", [ops.uniform(3, 4), ops.integers(3, 1)],
             lambda x, y: x.detach().clone().copy_(y),
             special="gradient")


def more_functions(ops):
    """Functions that were added later. They follow the others, so that the others' random numbers do not change."""
    anywhere = dict(low=-2.0, high=2.0)
    functions = {
        "exp2": anywhere, "expm1": anywhere, "log2": dict(low=0.1, high=3.0), "log10": dict(low=0.1, high=3.0),
        "tan": dict(low=-1.2, high=1.2), "asin": dict(low=-0.9, high=0.9), "acos": dict(low=-0.9, high=0.9),
        "atan": anywhere, "sinh": anywhere, "cosh": anywhere,
    }
    for name, interval in functions.items():
        function = getattr(torch, name)
        for shape in [(3, 4, 5), (), (0, 3), (131,)]:
            ops.case(f"{name}_{name_of(shape)}", name, [ops.uniform(*shape, **interval)], function)
        ops.case(f"{name}_integers", name, [ops.integers(3, 5, low=1)], function)
        ops.case(f"{name}_bool", name, [ops.integers(7, low=0, high=2, dtype=torch.bool)], function)
        special = SPECIAL[torch.isfinite(SPECIAL)] if name == "tan" else SPECIAL
        ops.case(f"{name}_special", name, [special], lambda x: function(x.detach()), special=True)
    for form in ["same", "row", "column", "both", "scalar", "scalars", "empty", "large"]:
        left, right = PAIRS[form]
        ops.case(f"atan2_{form}", "atan2", [ops.uniform(*left), ops.uniform(*right, low=0.3)], torch.atan2)
        # No quotient is near a whole number, at which the function jumps.
        b = ops.integers(*right, low=1, high=4).float() * ops.integers(*right, low=0, high=2).mul(2).sub(1)
        shape = torch.broadcast_shapes(left, right)
        a = (ops.integers(*left) + ops.uniform(*left, low=0.2, high=0.8)).expand(shape) * b
        for name in ["remainder", "fmod"]:
            ops.case(f"{name}_{form}", name, [a, b], getattr(torch, name))
        ops.case(f"floor_divide_{form}", "floor_divide", [a, b],
                 lambda a, b: torch.floor_divide(a.detach(), b.detach()))
    i64 = ops.integers(3, 40, low=-20, high=20)
    i32 = ops.integers(3, 40, low=1, dtype=torch.int32)
    i32 = i32 * (1 - 2 * ops.integers(3, 40, low=0, high=2, dtype=torch.int32))
    u8 = ops.integers(40, low=1, high=200, dtype=torch.uint8)
    flag = ops.integers(3, 40, low=0, high=2, dtype=torch.bool)
    pairs = [SPECIAL.repeat_interleave(len(SPECIAL)), SPECIAL.repeat(len(SPECIAL))]
    for name in ["atan2", "remainder", "fmod", "floor_divide"]:
        function = getattr(torch, name)
        ops.case(f"{name}_i64_i32", name, [i64, i32], function)
        ops.case(f"{name}_i32_u8", name, [i32, u8], function)
        ops.case(f"{name}_u8", name, [u8.flip(0), u8], function)
        ops.case(f"{name}_i64_f32", name, [i64, ops.uniform(40, low=0.5)], lambda a, b: function(a, b.detach()),
                 gradient_is_partial=True)
        ops.case(f"{name}_bool_i64", name, [flag, i32.long()], function)
        ops.case(f"{name}_special", name, pairs, lambda a, b: function(a.detach(), b.detach()))
        if name == "atan2":
            continue
        for number in [3, 2.5, -2]:
            attributes = dict(number=number, is_integer=isinstance(number, int))
            form = str(number).replace(".", "_")
            ops.case(f"{name}_number_{form}", f"{name}_number", [(ops.integers(3, 5) + 0.3) * number],
                     lambda x: function(x.detach() if name == "floor_divide" else x, number), **attributes)
            ops.case(f"{name}_number_{form}_integers", f"{name}_number", [i64], lambda x: function(x, number),
                     **attributes)
    for form, options in {"": {}, "given": dict(nan=1.5, posinf=2.5, neginf=-3.5), "nan": dict(nan=-1.0)}.items():
        def replaced(x):
            return torch.nan_to_num(x, **options)
        for shape in [(3, 4, 5), (), (0,)]:
            ops.case(f"nan_to_num{form}_{name_of(shape)}", "nan_to_num", [ops.uniform(*shape)], replaced, **options)
        ops.case(f"nan_to_num{form}_special", "nan_to_num", [SPECIAL], replaced, special=True, **options)
        ops.case(f"nan_to_num{form}_double", "nan_to_num", [SPECIAL.double()], replaced, special=True, **options)
        ops.case(f"nan_to_num{form}_integers", "nan_to_num", [ops.integers(3, 5)], replaced, **options)


def more_activations(ops):
    cases = {
        "hardsigmoid": [{}], "hardtanh": [{}, {"min_val": -0.5, "max_val": 1.5}], "relu6": [{}], "selu": [{}],
        "threshold": [{"threshold": 0.1, "value": 7.0}, {"threshold": -1.0, "value": -2.0}],
        "celu": [{}, {"alpha": 0.7}], "mish": [{}], "softsign": [{}], "logsigmoid": [{}],
    }
    for name, forms in cases.items():
        for number, options in enumerate(forms):
            def function(x):
                return getattr(F, name)(x, **options)
            for shape in [(3, 4, 5), (), (0, 3)]:
                ops.case(f"{name}{number}_{name_of(shape)}", name, [ops.uniform(*shape)], function, **options)
            ops.case(f"{name}{number}_large", name, [ops.uniform(131, low=-8.0, high=8.0)], function, **options)
            ops.case(f"{name}{number}_special", name, [SPECIAL], lambda x: function(x.detach()), **options)
            finite = SPECIAL[torch.isfinite(SPECIAL)]
            ops.case(f"{name}{number}_finite", name, [finite], function, special=True, **options)
    ops.case("threshold_integers", "threshold", [ops.integers(3, 7)], lambda x: F.threshold(x, 1, 2), threshold=1,
             value=2)
    for form, (shape, dim) in {"last": ((3, 4), -1), "first": ((4, 3), 0), "channels": ((2, 6, 3, 2), 1),
                               "vector": ((8,), 0), "empty": ((0, 4), 1),
                               "large": ((3, 134), -1)}.items():
        ops.case(f"glu_{form}", "glu", [ops.uniform(*shape)], lambda x: F.glu(x, dim), dim=dim)
    for form, (shape, size) in {"one": ((3, 4), 1), "channels": ((2, 5, 3, 2), 5), "columns": ((3, 4), 4),
                                "vector": ((7,), 1), "scalar": ((), 1),
                                "images": ((2, 3, 7, 9), 1), "signals": ((2, 3, 33), 3),
                                "empty": ((0, 3, 2), 3)}.items():
        ops.case(f"prelu_{form}", "prelu", [ops.uniform(*shape), ops.uniform(size)], F.prelu)
    ops.case("prelu_special", "prelu", [SPECIAL, torch.tensor([0.25])], lambda x, w: F.prelu(x.detach(), w.detach()))


def make(ops):
    unary(ops)
    activations(ops)
    numbers(ops)
    binary(ops)
    where(ops)
    others(ops)
    more_functions(ops)
    more_activations(ops)
