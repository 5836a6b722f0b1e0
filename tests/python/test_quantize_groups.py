# SPDX-License-Identifier: Apache-2.0
"""Compares sluice.weights.quantize_groups with its definition, and dequantize with fractions, on numpy and (where installed)
torch."""
from fractions import Fraction

import numpy
import pytest

import sluice
import sluice.weights as sw
from sluice.weights import quantizer

try:
    import torch
except ImportError:
    torch = None

TYPES = {"fp16": (numpy.float16, 2.0**-11), "fp32": (numpy.float32, 2.0**-24)}
F = numpy.float32


def as_numpy(array):
    if isinstance(array, numpy.ndarray):
        return array
    return (array.double() if array.is_floating_point() else array).cpu().numpy()


def random_weight(n, k, kind="fp32", seed=0):
    rng = numpy.random.default_rng([seed, n, k])
    return (rng.standard_normal((n, k)) * rng.choice([0.01, 1.0, 30.0], (n, 1))).astype(TYPES[kind][0])


def by_definition(weight, group, symmetric, scale_type, bits):
    """Computes codes, scales and zeros as the docstring defines them, one element at a time, in fp32."""
    n, k = weight.shape
    top, width = (1 << bits) - 1, group or k
    codes = numpy.zeros((n, k), numpy.uint8)
    scales = numpy.zeros((n, -(-k // width)), TYPES[scale_type][0])
    zeros = numpy.zeros_like(scales)
    for o in range(n):
        for g in range(scales.shape[1]):
            own = [F(value) for value in weight[o, g * width:(g + 1) * width]]
            if symmetric:
                scale, zero = max(abs(value) for value in own) / F(top / 2), F(1 << (bits - 1))
            else:
                low, high = min(min(own), F(0)), max(max(own), F(0))
                scale = (high - low) / F(top)
            scales[o, g] = scale
            divisor = F(scales[o, g]) or F(1)
            if not symmetric:
                zero = min(max(numpy.rint(-low / divisor), F(0)), F(top))
            zeros[o, g] = zero
            for i, value in enumerate(own):
                codes[o, g * width + i] = min(max(numpy.rint(value / divisor) + zero, F(0)), F(top))
    return codes, scales, None if symmetric else zeros


CASES = [(8, 64, 32), (5, 100, 32), (3, 17, 128), (4, 70, 0)]


@pytest.mark.parametrize("n, k, group", CASES)
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("kind, scale_type", [("fp32", "fp32"), ("fp16", "fp16"), ("fp32", "fp16")])
def test_it_is_its_definition(library, n, k, group, symmetric, bits, kind, scale_type):
    weight = random_weight(n, k, kind)
    made = sw.quantize_groups(library(weight), group, symmetric=symmetric, scale_type=scale_type, bits=bits)
    codes, scales, zeros = by_definition(weight, group, symmetric, scale_type, bits)
    assert (as_numpy(made.codes) == codes).all() and (as_numpy(made.scales) == scales).all()
    assert made.zeros is None if symmetric else (as_numpy(made.zeros) == zeros).all()
    assert (made.group, made.bits, made.permutation) == (group, bits, None)
    assert scale_type == {"float16": "fp16", "float32": "fp32"}[str(made.scales.dtype).replace("torch.", "")]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("scale_type", ["fp16", "fp32"])
def test_no_element_is_off_by_more_than_the_bound(library, symmetric, bits, scale_type):
    weight = random_weight(64, 200)
    made = sw.quantize_groups(library(weight), 64, symmetric=symmetric, scale_type=scale_type, bits=bits)
    error = numpy.abs(as_numpy(sw.dequantize(made)) - weight)
    step = numpy.repeat(as_numpy(made.scales).astype(numpy.float64), 64, axis=1)[:, :200]
    top = (1 << bits) - 1
    # With the rounding of fp32 itself.
    assert (error <= step * (0.5 + top * (TYPES[scale_type][1] + 2.0**-22))).all()
    assert (error > 0.45 * step).any()  # some element is close to the bound


@pytest.mark.parametrize("symmetric", [True, False])
def test_weights_that_are_codes_come_back(library, symmetric):
    """Every code occurs at every place of a group, and scales are powers of two."""
    rng = numpy.random.default_rng(3)
    # 8 groups, each with all codes.
    codes = rng.permuted(numpy.tile(numpy.arange(16), (32 * 8, 1)), axis=1).reshape(32, 128)
    zero = 8 if symmetric else numpy.repeat(rng.integers(0, 16, (32, 8)), 16, axis=1)
    weight = ((codes - zero) * 0.25).astype(numpy.float32)
    made = sw.quantize_groups(library(weight), 16, symmetric=symmetric)
    if symmetric:  # the code -8 has the largest magnitude, so the scale is 8 / 7.5 of the original
        assert (as_numpy(made.scales) == F(2.0) / F(7.5)).all()
    else:
        assert (as_numpy(made.codes) == codes).all() and (as_numpy(sw.dequantize(made)) == weight).all()


def test_rows_taken_in_blocks_are_the_same(library, monkeypatch):
    weight = random_weight(37, 100)
    whole = sw.quantize_groups(library(weight), 32, symmetric=False)
    monkeypatch.setattr(quantizer, "_ELEMENTS_AT_ONCE", 500)  # 5 rows at a time, and 2 at the end
    blocks = sw.quantize_groups(library(weight), 32, symmetric=False)
    for name in ("codes", "scales", "zeros"):
        assert (as_numpy(getattr(whole, name)) == as_numpy(getattr(blocks, name))).all()


def test_strides_do_not_matter(library):
    weight = random_weight(12, 40)
    for group in (16, 0):
        made = sw.quantize_groups(library(weight.T.copy()).T, group)
        assert (as_numpy(made.codes) == as_numpy(sw.quantize_groups(library(weight), group).codes)).all()


@pytest.mark.parametrize("symmetric", [True, False])
def test_zeros_and_what_no_scale_can_hold_become_zeros(library, symmetric):
    weight = numpy.zeros((2, 64), numpy.float32)
    weight[1, 3] = -1e-9  # its scale rounds to 0 in fp16
    made = sw.quantize_groups(library(weight), 32, symmetric=symmetric, scale_type="fp16")
    assert not as_numpy(sw.dequantize(made)).any() and not as_numpy(made.scales).any()


def test_groups_of_one_sign_have_their_zero_at_an_end(library):
    """If all values of a group have one sign, the zero point is at an end of the range of codes. Further out
    it would not be a code."""
    weight = numpy.linspace(3, 15, 16, dtype=numpy.float32)[None]
    for sign, zero in ((1, 0), (-1, 15)):
        made = sw.quantize_groups(library(sign * weight), 16, symmetric=False)
        assert as_numpy(made.zeros).tolist() == [[zero]] and as_numpy(made.scales).tolist() == [[1.0]]
        assert as_numpy(sw.dequantize(made)).tolist() == [numpy.rint(sign * weight[0]).tolist()]


@pytest.mark.skipif(torch is None, reason="no torch")
@pytest.mark.parametrize("symmetric", [True, False])
def test_bf16(symmetric):
    weight = torch.from_numpy(random_weight(16, 96)).bfloat16()
    made = sw.quantize_groups(weight, 32, symmetric=symmetric)
    assert made.scales.dtype == torch.bfloat16
    error = (sw.dequantize(made) - weight.double()).abs()
    step = made.scales.double().repeat_interleave(32, 1)
    assert (error <= step * (0.5 + 15 * (2.0**-8 + 2.0**-22))).all()
    same = sw.quantize_groups(weight.float(), 32, symmetric=symmetric, scale_type="bf16")
    assert torch.equal(same.codes, made.codes) and torch.equal(same.scales, made.scales)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("kind", ["fp16", "fp32"])
def test_dequantize_is_exact(library, bits, kind):
    rng = numpy.random.default_rng(bits)
    codes = rng.integers(0, 1 << bits, (6, 40), dtype=numpy.uint8)
    scales, zeros = random_weight(6, 3, kind), rng.integers(0, 1 << bits, (6, 3)).astype(TYPES[kind][0])
    weights = sw.QuantizedWeights(library(codes), library(scales), library(zeros), 16, bits=bits)
    exact = [[Fraction(float(scales[o, i // 16])) * (int(codes[o, i]) - int(zeros[o, i // 16])) for i in range(40)]
             for o in range(6)]
    assert [[Fraction(value) for value in row] for row in sw.dequantize(weights).tolist()] == exact
    single = sw.dequantize(weights, "fp32")
    assert "float32" in str(single.dtype)
    if kind == "fp16":
        assert [[Fraction(value) for value in row] for row in single.tolist()] == exact


def test_zeros_may_be_fractions(library):
    weights = sw.QuantizedWeights(library(numpy.array([[0, 15]], numpy.uint8)), library(numpy.array([[2.0]], numpy.float16)),
                                  library(numpy.array([[7.5]], numpy.float16)), 0)
    assert sw.dequantize(weights).tolist() == [[-15.0, 15.0]]


MISUSE = [
    ("integers", {"weight": numpy.zeros((4, 4), numpy.int8)}, sluice.InvalidType, "weight is int8"),
    ("fp64", {"weight": numpy.zeros((4, 4))}, sluice.InvalidType, "weight is fp64"),
    ("a vector", {"weight": numpy.zeros(4, numpy.float32)}, sluice.InvalidSize, "weight has shape (4,)"),
    ("nothing in it", {"weight": numpy.zeros((4, 0), numpy.float32)}, sluice.InvalidSize, "not empty"),
    ("a group below 0", {"group": -1}, sluice.InvalidSize, "group = -1"),
    ("half a group", {"group": 1.5}, sluice.InvalidType, "group = 1.5"),
    ("a type of scales", {"scale_type": "e4m3"}, sluice.InvalidArgument, "fp16, bf16, fp32"),
    ("symmetric as a number", {"symmetric": 1}, sluice.InvalidArgument, "symmetric = 1"),
    ("bits", {"bits": 2}, sluice.InvalidArgument, "4 or 8"),
    ("no number", {"weight": numpy.full((4, 4), numpy.nan, numpy.float32)}, sluice.InvalidArgument, "not finite"),
    ("infinity", {"weight": numpy.full((4, 4), numpy.inf, numpy.float16)}, sluice.InvalidArgument, "not finite"),
    ("too large", {"weight": numpy.full((4, 4), 1e6, numpy.float32), "scale_type": "fp16"}, sluice.InvalidArgument,
     "scale_type='fp32'"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("changed, kind, mention", [row[1:] for row in MISUSE], ids=[row[0] for row in MISUSE])
def test_misuse_raises_what_fits_and_says_what_to_do(library, changed, kind, mention):
    arguments = {"weight": numpy.ones((4, 4), numpy.float32), **changed}
    arguments["weight"] = library(arguments["weight"])
    with pytest.raises(kind) as caught:
        sw.quantize_groups(**arguments)
    assert mention in str(caught.value)


def test_numpy_without_bf16_says_so():
    try:
        numpy.dtype("bfloat16")
    except TypeError:
        with pytest.raises(sluice.InvalidType, match="choose fp16 or fp32"):
            sw.quantize_groups(numpy.ones((4, 4), numpy.float32), scale_type="bf16")
