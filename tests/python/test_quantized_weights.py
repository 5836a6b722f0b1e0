# SPDX-License-Identifier: Apache-2.0
"""sluice.weights.QuantizedWeights refuses bad parts, and the products of its shards add up to the layer's."""
import dataclasses

import numpy
import pytest

import sluice
import sluice.weights as sw
from weight_layouts import Layer, gptq


def from_gptq(make, layer, *, g_idx=None):
    qweight, qzeros, scales = gptq(layer)
    return sw.from_gptq(make(qweight, "int32"), make(qzeros, "int32"), make(scales, "float16"),
                        None if g_idx is None else make(g_idx, "int32"), group=layer.group)


def product(tokens, weights):
    """Returns tokens x W as lists. Each column of the weights is multiplied with the token column that the
    permutation names."""
    matrix = sw.dequantize(weights).tolist()
    order = range(weights.shape[1]) if weights.permutation is None else weights.permutation.tolist()
    return [[sum(token[i] * w for i, w in zip(order, row)) for row in matrix] for token in tokens]


TOKENS = [[(t + 1) * (i % 7 - 3) for i in range(72)] for t in range(3)]


@pytest.mark.parametrize("act_order", [False, True])
def test_shards_of_a_whole_layer_make_its_product(make, act_order):
    layer = Layer(24, 72, 16)
    if act_order:
        layer.in_act_order()
    weights = from_gptq(make, layer, g_idx=layer.g_idx)
    whole = product(TOKENS, weights)
    assert whole == [[sum(token[i] * layer.weight(o, i) for i in range(72)) for o in range(24)] for token in TOKENS]
    by_rows = [product(TOKENS, weights.rows(*range_)) for range_ in ((0, 10), (10, 24))]
    assert [left + right for left, right in zip(*by_rows)] == whole
    parts = [weights.columns(0, 32), weights.columns(32, 72)]  # the short group is in the last shard
    if not act_order:  # tokens are sharded like columns
        sums = [product([token[:32] for token in TOKENS], parts[0]), product([token[32:] for token in TOKENS], parts[1])]
    else:  # the shards' permutations count columns of whole tokens
        sums = [product(TOKENS, part) for part in parts]
    assert [[a + b for a, b in zip(*rows)] for rows in zip(*sums)] == whole


def test_an_act_order_layer_shards_in_line_behind_reordered_rows(make):
    """gate and down of an MLP run on two ranks, and each rank computes only its own outputs."""
    gate, down = Layer(64, 72, 16), Layer(24, 64, 16).in_act_order()
    gate, down = from_gptq(make, gate), from_gptq(make, down, g_idx=down.g_idx)
    whole = product(product(TOKENS, gate), down)
    ordered, in_line = gate.reorder_rows(down.permutation), dataclasses.replace(down, permutation=None)
    sums = [product(product(TOKENS, ordered.rows(first, first + 32)), in_line.columns(first, first + 32))
            for first in (0, 32)]
    assert [[a + b for a, b in zip(*rows)] for rows in zip(*sums)] == whole


def test_shards_are_views():
    weights = from_gptq(lambda values, kind: numpy.array(values, dtype=kind), Layer(24, 72, 16))
    for shard in (weights.rows(8, 16), weights.columns(16, 48)):
        for name in ("codes", "scales", "zeros"):
            assert numpy.shares_memory(getattr(shard, name), getattr(weights, name))


# ---- misuse: messages name the argument and the remedy ----
def example(make, **changed):
    weights = from_gptq(make, Layer(16, 64, 32))
    return dataclasses.replace(weights, **{name: value(make) for name, value in changed.items()})


def zeros_of(shape, kind):
    return lambda make: make(numpy.zeros(shape).tolist(), kind)


MISUSE = [
    ("codes as words", lambda m: example(m, codes=zeros_of((16, 64), "int32")), sluice.InvalidType, "codes is int32"),
    ("zeros of another type", lambda m: example(m, zeros=zeros_of((16, 2), "float32")), sluice.InvalidType, "zeros is fp32"),
    ("scales of too few groups", lambda m: example(m, scales=zeros_of((16, 1), "float16")),
     sluice.InvalidSize, "must have (16, 2)"),
    ("a short permutation", lambda m: example(m, permutation=zeros_of((8,), "int32")), sluice.InvalidSize, "permutation"),
    ("a cut group", lambda m: example(m).columns(0, 40), sluice.InvalidSize, "columns 0 to 40 cut a group"),
    ("a cut group's start", lambda m: example(m).columns(16, 64), sluice.InvalidSize, "multiples of group = 32"),
    ("rows outside", lambda m: example(m).rows(8, 17), sluice.InvalidSize, "rows 8 to 17"),
    ("no rows", lambda m: example(m).rows(8, 8), sluice.InvalidSize, "at least one"),
    ("an order with one twice", lambda m: example(m).reorder_rows(zeros_of((16,), "int64")(m)), sluice.InvalidArgument, "once"),
    ("a type of floats", lambda m: sw.dequantize(example(m), "fp16"), sluice.InvalidArgument, "fp32, fp64"),
]


@pytest.mark.parametrize("call, kind, mention", [row[1:] for row in MISUSE], ids=[row[0] for row in MISUSE])
def test_misuse_raises_what_fits_and_says_what_to_do(make, call, kind, mention):
    with pytest.raises(kind) as caught:
        call(make)
    assert mention in str(caught.value)
