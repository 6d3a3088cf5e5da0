"""Attention."""
import torch
import torch.nn.functional as F


def attend(ops, name, q, k, v, mask=None, **options):
    inputs = [ops.uniform(*q), ops.uniform(*k), ops.uniform(*v)]
    if mask is not None:
        inputs.append(mask)
    def function(q, k, v, mask=None):
        return F.scaled_dot_product_attention(q, k, v, mask, **options)
    ops.case(f"attention_{name}", "scaled_dot_product_attention", inputs, function, **options)


def multihead(ops, name, query, key, heads, biased=True, **options):
    """Inputs: query, key, value, in_proj_weight, in_proj_bias, out_proj.weight, out_proj.bias.

    With the option `value` (a shape), q_proj_weight, k_proj_weight and v_proj_weight replace in_proj_weight.
    """
    if "value" in options:
        return multihead_of_sizes(ops, name, query, key, heads, **options)
    embed = query[-1]
    module = torch.nn.MultiheadAttention(embed, heads, bias=biased, batch_first=options.pop("batch_first", False))
    masks = {key: options.pop(key) for key in ("key_padding_mask", "attn_mask") if key in options}
    attributes = dict(heads=heads, batch_first=module.batch_first, **options)
    for mask in masks:
        attributes[mask] = masks[mask].flatten().tolist()
        attributes[mask + "_shape"] = list(masks[mask].shape)
    shapes = [query, key, key, (3 * embed, embed), (3 * embed,), (embed, embed), (embed,)]
    names = ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]
    if not biased:
        shapes, names = shapes[:4] + shapes[5:6], names[0::2]
    def function(q, k, v, *parameters):
        y, weights = torch.func.functional_call(module, dict(zip(names, parameters)), (q, k, v), {**masks, **options})
        return y if weights is None else (y, weights)
    ops.case(f"multihead_{name}", "multihead_attention", [ops.uniform(*shape) for shape in shapes], function,
             **attributes)


def multihead_of_sizes(ops, name, query, key, heads, value, **options):
    embed = query[-1]
    batch_first = options.pop("batch_first", False)
    module = torch.nn.MultiheadAttention(embed, heads, batch_first=batch_first, kdim=key[-1], vdim=value[-1])
    shapes = [query, key, value, (embed, embed), (embed, key[-1]), (embed, value[-1]), (3 * embed,), (embed, embed),
              (embed,)]
    names = ["q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]
    def function(q, k, v, *parameters):
        y, weights = torch.func.functional_call(module, dict(zip(names, parameters)), (q, k, v), options)
        return y if weights is None else (y, weights)
    ops.case(f"multihead_{name}", "multihead_attention", [ops.uniform(*shape) for shape in shapes], function,
             heads=heads, batch_first=batch_first, sizes=True, **options)


def make(ops):
    def some(*shape):  # each query may attend to at least one key
        mask = ops.uniform(*shape) > 0
        mask[..., 0] = True
        return mask

    heads = (2, 3, 5, 4)
    attend(ops, "plain", heads, heads, heads)
    attend(ops, "cross", (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6))
    attend(ops, "matrices", (5, 4), (3, 4), (3, 2))
    attend(ops, "batch", (3, 5, 4), (3, 6, 4), (3, 6, 4))
    attend(ops, "one", (1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1))
    attend(ops, "broadcast", (2, 1, 3, 4), (3, 5, 4), (1, 3, 5, 2))
    attend(ops, "scale", heads, heads, heads, scale=0.3)
    attend(ops, "causal", heads, heads, heads, is_causal=True)
    attend(ops, "causal_wide", (2, 2, 3, 4), (2, 2, 6, 4), (2, 2, 6, 4), is_causal=True)
    attend(ops, "causal_tall", (2, 2, 6, 4), (2, 2, 3, 4), (2, 2, 3, 4), is_causal=True, scale=1.0)
    attend(ops, "bool", heads, heads, heads, some(2, 3, 5, 5))
    attend(ops, "bool_shared", heads, heads, heads, some(5, 5))
    attend(ops, "bool_keys", heads, heads, heads, some(2, 1, 1, 5))
    attend(ops, "bool_keys_of_queries", heads, heads, heads, some(5, 1))
    attend(ops, "added", heads, heads, heads, ops.uniform(2, 3, 5, 5))
    attend(ops, "added_shared", heads, heads, heads, ops.uniform(5, 5))
    # Some queries may attend to no key.
    nothing = torch.tensor([[False, False, False], [True, False, True], [False, True, False], [False, False, False]])
    attend(ops, "nothing", (1, 2, 4, 3), (1, 2, 3, 3), (1, 2, 3, 3), nothing)
    attend(ops, "no_keys", (1, 2, 4, 3), (1, 2, 0, 3), (1, 2, 0, 3))
    attend(ops, "no_queries", (1, 2, 0, 3), (1, 2, 4, 3), (1, 2, 4, 3))
    attend(ops, "no_batch", (0, 2, 3, 3), (0, 2, 4, 3), (0, 2, 4, 3))
    # Several blocks of queries, and rests that do not fill a vector.
    attend(ops, "long", (1, 2, 150, 8), (1, 2, 150, 8), (1, 2, 150, 8), is_causal=True)
    attend(ops, "longer", (1, 1, 40, 8), (1, 1, 1601, 8), (1, 1, 1601, 4))
    attend(ops, "large_scores", (2, 3, 4), (2, 5, 4), (2, 5, 4), scale=4.0)

    padding = torch.tensor([[False, False, True, False, True], [False, True, True, True, True]])
    multihead(ops, "plain", (5, 2, 6), (5, 2, 6), 2)
    multihead(ops, "cross", (3, 2, 6), (5, 2, 6), 3, need_weights=False)
    multihead(ops, "batch_first", (2, 3, 4), (2, 5, 4), 2, batch_first=True)
    multihead(ops, "no_bias", (2, 3, 4), (2, 5, 4), 2, biased=False, batch_first=True, need_weights=False)
    multihead(ops, "unbatched", (3, 4), (5, 4), 2)
    multihead(ops, "padding", (2, 3, 4), (2, 5, 4), 2, batch_first=True, key_padding_mask=padding, need_weights=False)
    multihead(ops, "mask", (3, 2, 4), (5, 2, 4), 2, attn_mask=~some(3, 5), average_attn_weights=False)
    multihead(ops, "both_masks", (2, 3, 4), (2, 5, 4), 2, batch_first=True, key_padding_mask=padding,
              attn_mask=~some(4, 3, 5), need_weights=False)
    multihead(ops, "sizes", (3, 2, 6), (5, 2, 4), 3, value=(5, 2, 7), need_weights=False)
    multihead(ops, "sizes_batch_first", (2, 3, 4), (2, 5, 6), 2, value=(2, 5, 4), batch_first=True)
    multihead(ops, "sizes_unbatched", (3, 4), (5, 2), 2, value=(5, 2))
