# SPDX-License-Identifier: Apache-2.0
"""Tensors of checkpoints come out in canonical form, to the bit, on numpy and (where installed) torch. weight_layouts.py
writes the files' layouts."""
import subprocess
import sys
import tracemalloc

import numpy
import pytest

import sluice
import sluice.weights as sw
from weight_layouts import Layer, awq, compressed_tensors, gptq, gptq_zeros

try:
    import torch
except ImportError:
    torch = None


def from_gptq(make, layer, tensors=None, *, scale="float16", g_idx=None, **options):
    qweight, qzeros, scales = tensors or gptq(layer)
    g_idx = None if g_idx is None else make(g_idx, "int32")
    return sw.from_gptq(make(qweight, "int32"), make(qzeros, "int32"), make(scales, scale), g_idx, bits=layer.bits,
                        **{"group": layer.group, **options})


def from_awq(make, layer, **options):
    qweight, qzeros, scales = awq(layer)
    return sw.from_awq(make(qweight, "int32"), make(qzeros, "int32"), make(scales, "float16"), **options)


def from_compressed(make, layer, *, symmetric=True, g_idx=None, scale="float16", **options):
    packed, scales, shape, zero_point = compressed_tensors(layer)
    return sw.from_compressed_tensors(make(packed, "int32"), make(scales, scale), make(shape, "int64"),
                                      None if symmetric else make(zero_point, "int32"),
                                      None if g_idx is None else make(g_idx, "int32"), bits=layer.bits,
                                      **{"group": layer.group, **options})


def in_layers_order(weights):
    """Returns the layer's matrix as lists: the permutation says where column i of the codes goes."""
    matrix = sw.dequantize(weights).tolist()
    if weights.permutation is None:
        return matrix
    columns = weights.permutation.tolist()
    assert sorted(columns) == list(range(weights.shape[1]))
    return [[row[columns.index(i)] for i in range(len(columns))] for row in matrix]


def assert_is(weights, layer):
    """Asserts that codes and zeros are equal one by one, and not only their differences."""
    order = range(layer.k) if weights.permutation is None else weights.permutation.tolist()
    assert weights.codes.tolist() == [[row[i] for i in order] for row in layer.codes]
    assert weights.scales.tolist() == layer.scales
    if weights.zeros is None:
        assert all(zero == 1 << (layer.bits - 1) for row in layer.zeros for zero in row)
    else:
        assert weights.zeros.tolist() == layer.zeros
    assert in_layers_order(weights) == layer.matrix()


# Rows, columns and groups that end in the middle of a word, of a group, or of both; a single group; 8 bits.
SIZES = [(8, 64, 32, 4), (24, 96, 32, 4), (20, 40, 16, 4), (9, 36, 32, 4), (16, 128, 0, 4), (8, 64, 32, 8), (6, 22, 16, 8)]


# ---- GPTQ ----
@pytest.mark.parametrize("n, k, group, bits", SIZES)
@pytest.mark.parametrize("less, checkpoint_format", [(1, "gptq"), (0, "gptq_v2")])
def test_gptq_with_zeros(make, n, k, group, bits, less, checkpoint_format):
    layer = Layer(n, k, group, bits)
    tensors = gptq(layer, gptq_zeros(layer, less))
    assert_is(from_gptq(make, layer, tensors, checkpoint_format=checkpoint_format, k=k), layer)


@pytest.mark.parametrize("n, k, group, bits", SIZES)
def test_gptq_symmetric_has_no_zeros(make, n, k, group, bits):
    layer = Layer(n, k, group, bits, zero=1 << (bits - 1))
    weights = from_gptq(make, layer, symmetric=True, g_idx=layer.g_idx)  # g_idx has k entries
    assert weights.zeros is None and weights.permutation is None
    assert_is(weights, layer)


def test_gptq_words_by_hand(make):
    # Rows 0 to 7 of column 0 contain 0 to 7, those of column 1 contain 15 to 8. The columns' zero points are
    # 1 and 9, stored as 0 and 8.
    weights = sw.from_gptq(make([[0x76543210, -0x76543211]], "int32"), make([[0x80]], "int32"), make([[1.0, 2.0]], "float16"))
    assert weights.codes.tolist() == [[0, 1, 2, 3, 4, 5, 6, 7], [15, 14, 13, 12, 11, 10, 9, 8]]
    assert weights.zeros.tolist() == [[1], [9]] and weights.scales.tolist() == [[1], [2]]
    assert (weights.group, weights.bits) == (0, 4)


@pytest.mark.parametrize("n, k, group, bits", [size for size in SIZES if size[2]])
def test_act_order_comes_sorted_with_its_permutation(make, n, k, group, bits):
    layer = Layer(n, k, group, bits).in_act_order()
    weights = from_gptq(make, layer, g_idx=layer.g_idx)
    assert [layer.g_idx[i] for i in weights.permutation.tolist()] == [i // group for i in range(k)]
    assert_is(weights, layer)


def test_act_order_keeps_the_order_inside_a_group(make):
    layer = Layer(8, 16, 8)
    layer.g_idx = [1, 0] * 8
    assert from_gptq(make, layer, g_idx=layer.g_idx).permutation.tolist() == [*range(1, 16, 2), *range(0, 16, 2)]


def test_a_shard_of_the_file_in_act_order_is_refused(make):
    layer = Layer(8, 64, 16).in_act_order()
    qweight, qzeros, scales = gptq(layer)
    half = (qweight[:4], qzeros, scales)
    with pytest.raises(sluice.InvalidSize, match="-1 where"):
        from_gptq(make, layer, half, g_idx=layer.g_idx[:32])
    with pytest.raises(sluice.InvalidArgument, match="import the whole layer"):
        from_gptq(make, layer, (qweight[:4], qzeros[:2], scales[:2]), g_idx=layer.g_idx[:32])


def test_a_zero_of_0_less_one_is_asked_about(make):
    layer = Layer(16, 16, 8)
    for o in (0, 3, 4, 7, 15):  # some are adjacent, one is at the end of a word
        layer.zeros[o] = [0, 0]
    for borrow, name in ((False, "digit"), (True, "word")):
        tensors = gptq(layer, gptq_zeros(layer, 1, borrow))
        assert_is(from_gptq(make, layer, tensors, wrapped_zeros=name), layer)
        with pytest.raises(sluice.InvalidArgument, match="wrapped_zeros='word'"):
            from_gptq(make, layer, tensors)
    assert_is(from_gptq(make, layer, gptq(layer, gptq_zeros(layer, 0)), checkpoint_format="gptq_v2"), layer)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("place", range(8))
def test_zeros_that_autogptq_wrote_over_are_refused(make, bits, place):
    per = 32 // bits
    layer = Layer(2 * per, 16, 8, bits)
    place %= per
    for o in range(2 * per):  # no other zero point is 0 or 15
        layer.zeros[o] = [3, 4]
    layer.zeros[per + place][1] = 0
    tensors = gptq(layer, gptq_zeros(layer, 1, overwrite=True))
    if place == per - 1:  # it is the highest digit of the word
        assert_is(from_gptq(make, layer, tensors, wrapped_zeros="digit"), layer)
        return
    with pytest.raises(sluice.InvalidArgument, match=r"qzeros\[1\]\[1\].*quantise again.*wrapped_zeros='word'.*'digit'"):
        from_gptq(make, layer, tensors)
    from_gptq(make, layer, tensors, wrapped_zeros="digit")  # a caller who names the layout decides


def test_the_two_wraps_differ():  # else the test above could not tell them apart
    layer = Layer(8, 8, 8)
    layer.zeros[3] = [0]
    assert gptq_zeros(layer, 1) != gptq_zeros(layer, 1, borrow=True)


@pytest.mark.parametrize("symmetric", [True, None])
@pytest.mark.parametrize("less, claimed, remedy", [(0, "gptq", "gptq_v2"), (1, "gptq_v2", "gptq")])
def test_a_file_of_the_other_format_is_found_out(make, symmetric, less, claimed, remedy):
    layer = Layer(8, 64, 32, zero=8)
    tensors = gptq(layer, gptq_zeros(layer, less))
    with pytest.raises(sluice.InvalidArgument, match=f"checkpoint_format='{remedy}'"):
        from_gptq(make, layer, tensors, checkpoint_format=claimed, symmetric=symmetric)
    beside = from_gptq(make, layer, tensors, checkpoint_format=claimed, symmetric=False)
    assert set(map(tuple, beside.zeros.tolist())) == {(9, 9) if claimed == "gptq" else (7, 7)}


# ---- AWQ ----
@pytest.mark.parametrize("n, k, group", [(8, 64, 32), (24, 96, 32), (16, 40, 16), (16, 50, 0)])
@pytest.mark.parametrize("zero", [None, 8])
def test_awq(make, n, k, group, zero):
    layer = Layer(n, k, group, zero=zero)
    weights = from_awq(make, layer, group=group or -1)
    assert (weights.zeros is None) == (zero == 8)
    assert_is(weights, layer)


def test_awq_words_by_hand(make):
    # Outputs 0 to 7 contain 0 to 7 in one word: 0 2 4 6 1 3 5 7 from the lowest digit. Their zero points are
    # 15 to 8.
    weights = sw.from_awq(make([[0x75316420]], "int32"), make([[-0x75316421]], "int32"), make([[1.0] * 8], "float16"))
    assert weights.codes.tolist() == [[o] for o in range(8)]
    assert weights.zeros.tolist() == [[15 - o] for o in range(8)]


# ---- compressed-tensors ----
@pytest.mark.parametrize("n, k, group, bits", SIZES)
@pytest.mark.parametrize("symmetric", [True, False])
def test_compressed_tensors(make, n, k, group, bits, symmetric):
    layer = Layer(n, k, group, bits, zero=1 << (bits - 1) if symmetric else None)
    weights = from_compressed(make, layer, symmetric=symmetric)
    assert (weights.zeros is None) == symmetric
    assert_is(weights, layer)


def test_compressed_tensors_words_by_hand(make):
    weights = sw.from_compressed_tensors(make([[0x76543210]], "int32"), make([[1.0]], "float32"), [1, 8])
    assert sw.dequantize(weights).tolist() == [[-8, -7, -6, -5, -4, -3, -2, -1]]


def test_compressed_tensors_in_act_order(make):
    layer = Layer(16, 72, 16).in_act_order()
    assert_is(from_compressed(make, layer, symmetric=False, g_idx=layer.g_idx), layer)


def test_a_gptq_g_idx_of_nothing_or_of_zeros_is_none(make):
    layer = Layer(16, 64, 32)
    for g_idx in ([], [0] * 64):
        weights = from_gptq(make, layer, g_idx=g_idx)
        assert weights.permutation is None
        assert_is(weights, layer)


def test_a_g_idx_that_was_never_set_is_none(make):
    layer = Layer(8, 64, 32, zero=8)
    weights = from_compressed(make, layer, g_idx=[-1] * 64)
    assert weights.permutation is None
    assert_is(weights, layer)


# ---- rules of all importers ----
def test_groups_are_found_where_the_shapes_say_them(make):
    assert from_gptq(make, Layer(8, 96, 32), group=None).group == 32
    assert from_awq(make, Layer(8, 64, 0)).group == 0
    for group in (64, 32, 48):  # 96 columns in two groups may be groups of 64 and 32, or of 48 and 48
        layer = Layer(8, 80 if group == 32 else 96, group)
        with pytest.raises(sluice.InvalidArgument, match="group must be given"):
            from_gptq(make, layer, group=None)


@pytest.mark.parametrize("scale", ["float16", "float32", "bfloat16"])
def test_scales_keep_their_type_and_zeros_take_it(make, scale):
    weights = from_gptq(make, Layer(8, 64, 32), scale=scale)
    assert scale in str(weights.scales.dtype) and weights.zeros.dtype == weights.scales.dtype
    assert "uint8" in str(weights.codes.dtype)
    assert_is(weights, Layer(8, 64, 32))


def test_strides_do_not_matter_and_inputs_stay_as_they_are(make):
    layer = Layer(16, 64, 32)
    qweight, qzeros, scales = (make(values, kind) for values, kind in zip(gptq(layer), ("int32", "int32", "float16")))
    spread = []
    for array in (qweight, qzeros, scales):
        wide = make([[-1 if "int" in str(array.dtype) else 9.0] * (2 * array.shape[1])] * (2 * array.shape[0]),
                    str(array.dtype).replace("torch.", ""))
        wide[::2, 1::2] = array
        spread.append(wide[::2, 1::2])
    before = [array.tolist() for array in spread]
    assert_is(sw.from_gptq(*spread, group=32), layer)
    assert [array.tolist() for array in spread] == before


def test_unsigned_words_are_the_same(make):
    layer = Layer(8, 64, 32)
    qweight, qzeros, scales = gptq(layer)
    unsigned = (numpy if isinstance(make([0], "int32"), numpy.ndarray) else torch).uint32
    words = [make(values, "int32").view(unsigned) for values in (qweight, qzeros)]
    for wrapped_zeros in (None, "word"):
        assert_is(sw.from_gptq(*words, make(scales, "float16"), group=32, wrapped_zeros=wrapped_zeros), layer)


def test_what_comes_out_is_contiguous(make):
    act_order = Layer(16, 64, 32).in_act_order()
    for weights in (from_gptq(make, act_order, g_idx=act_order.g_idx), from_awq(make, Layer(16, 64, 32)),
                    from_compressed(make, Layer(16, 62, 32), symmetric=False)):
        for array in (weights.codes, weights.scales, weights.zeros):
            assert array.flags.c_contiguous if isinstance(array, numpy.ndarray) else array.is_contiguous()


@pytest.mark.skipif(torch is None, reason="no torch")
def test_parameters_leave_no_graph():
    layer = Layer(8, 64, 32)
    qweight, qzeros, scales = gptq(layer)
    weights = sw.from_gptq(torch.tensor(qweight, dtype=torch.int32), torch.tensor(qzeros, dtype=torch.int32),
                           torch.nn.Parameter(torch.tensor(scales)), group=32)
    assert not weights.scales.requires_grad
    assert not sw.quantize_groups(torch.nn.Parameter(torch.ones(2, 8))).scales.requires_grad


def test_memory_is_the_codes_and_little_more():
    n, k = 512, 2048
    rng = numpy.random.default_rng(0)
    words = rng.integers(-2**31, 2**31, (k // 8, n), dtype=numpy.int32)
    qzeros, scales = numpy.zeros((k // 128, n // 8), numpy.int32), numpy.ones((k // 128, n), numpy.float16)
    g_idx = rng.permutation(k).astype(numpy.int32) // 128
    for order in (None, g_idx):
        tracemalloc.start()
        weights = sw.from_gptq(words, qzeros, scales, order, group=128)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert weights.codes.flags.c_contiguous and (weights.permutation is None) == (order is None)
        # The codes and an eighth of them as words, twice; or the codes before sorting.
        assert peak < 2.3 * n * k


def test_no_library_is_imported_for_it():
    code = "import sys, sluice.weights; sys.exit(any(m in sys.modules for m in ('torch', 'numpy', 'tvm_ffi')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- misuse: messages name the argument and the remedy ----
def example(make, **changed):
    layer = Layer(16, 64, 32)
    qweight, qzeros, scales = gptq(layer)
    arguments = {"qweight": make(qweight, "int32"), "qzeros": make(qzeros, "int32"), "scales": make(scales, "float16"),
                 "group": 32, **changed}
    return sw.from_gptq(**{name: value(make) if callable(value) else value for name, value in arguments.items()})


def zeros_of(shape, kind):
    return lambda make: make(numpy.zeros(shape).tolist(), kind)


def awq_of(make, qweight, qzeros, scales):
    return sw.from_awq(zeros_of(qweight, "int32")(make), zeros_of(qzeros, "int32")(make), zeros_of(scales, "float16")(make))


def compressed_of(make, *, scale=(8, 1), shape=(8, 64), zero_point=None, g_idx=None):
    return sw.from_compressed_tensors(zeros_of((8, 8), "int32")(make), zeros_of(scale, "float16")(make), shape, zero_point, g_idx)


def unset(count, kind):
    return lambda make: make([-1] * count, kind)


MISUSE = [
    ("words as floats", lambda m: example(m, qweight=zeros_of((8, 16), "float32")), sluice.InvalidType, "qweight is fp32"),
    ("words of 64 bits", lambda m: example(m, qzeros=zeros_of((2, 2), "int64")), sluice.InvalidType, "qzeros is int64"),
    ("scales as integers", lambda m: example(m, scales=zeros_of((2, 16), "int32")), sluice.InvalidType, "scales is int32"),
    ("scales the other way", lambda m: example(m, scales=zeros_of((16, 2), "float16")),
     sluice.InvalidSize, "qweight has shape (8, 16) and must have (8, 2)"),
    ("zeros of another n", lambda m: example(m, qzeros=zeros_of((2, 3), "int32")),
     sluice.InvalidSize, "must have (2, 2), groups x ceil(n / 8)"),
    ("a vector", lambda m: example(m, scales=zeros_of((16,), "float16")), sluice.InvalidSize, "scales has shape (16,)"),
    ("empty", lambda m: example(m, qweight=zeros_of((0, 16), "int32")), sluice.InvalidSize, "not empty"),
    ("a list", lambda m: example(m, scales=[[1.0]]), sluice.InvalidType, "numpy.asarray()"),
    ("another group", lambda m: example(m, group=64), sluice.InvalidSize, "group = 64 makes 1 groups"),
    ("a group of no number", lambda m: example(m, group="32"), sluice.InvalidType, "group = '32'"),
    ("a truth for a group", lambda m: example(m, group=True), sluice.InvalidType, "group = True"),
    ("a group below -1", lambda m: example(m, group=-2), sluice.InvalidSize, "group = -2"),
    ("3 bits", lambda m: example(m, bits=3), sluice.InvalidArgument, "bits = 3 must be 4 or 8"),
    ("8 bits of 4", lambda m: example(m, bits=8), sluice.InvalidSize, "qzeros has shape (2, 2) and must have (2, 4)"),
    ("a format", lambda m: example(m, checkpoint_format="marlin"), sluice.InvalidArgument, "one of gptq, gptq_v2"),
    ("a wrap", lambda m: example(m, wrapped_zeros="carry"), sluice.InvalidArgument, "one of digit, word"),
    ("sym as a word", lambda m: example(m, symmetric="yes"), sluice.InvalidArgument, "symmetric = 'yes'"),
    ("not symmetric", lambda m: example(m, symmetric=True), sluice.InvalidArgument, "pass symmetric=False"),
    ("k of another", lambda m: example(m, k=72), sluice.InvalidSize, "must have (9, 16)"),
    ("g_idx too short", lambda m: example(m, g_idx=zeros_of((63,), "int32"), k=64),
     sluice.InvalidSize, "g_idx has shape (63,)"),
    ("g_idx of floats", lambda m: example(m, g_idx=zeros_of((64,), "float32")), sluice.InvalidType, "g_idx is fp32"),
    ("g_idx past the groups", lambda m: example(m, g_idx=lambda m: m([2] * 32 + [0] * 32, "int32")),
     sluice.InvalidArgument, "column 32 is in group 2"),
    ("awq's n", lambda m: awq_of(m, (8, 1), (1, 1), (1, 9)), sluice.InvalidSize, "multiple of 8"),
    ("awq of gemv", lambda m: awq_of(m, (16, 8), (2, 2), (2, 16)), sluice.InvalidSize, "gemv"),
    ("awq's zeros", lambda m: awq_of(m, (64, 2), (2, 1), (2, 16)), sluice.InvalidSize, "qzeros has shape (2, 1)"),
    ("shape of three", lambda m: compressed_of(m, shape=[8, 8, 8]), sluice.InvalidSize, "weight_shape = [8, 8, 8]"),
    ("no shape", lambda m: compressed_of(m, shape=None), sluice.InvalidSize, "weight_shape = None"),
    ("half a row", lambda m: compressed_of(m, shape=[8, 6.5]), sluice.InvalidType, "weight_shape[1] = 6.5"),
    ("shape of another", lambda m: compressed_of(m, shape=[8, 32]), sluice.InvalidSize, "must have (8, 4)"),
    ("zeros that are not packed", lambda m: compressed_of(m, zero_point=zeros_of((8, 1), "int8")(m)), sluice.InvalidType,
     "weight_zero_point is int8"),
    ("zeros that are not packed, and what to do", lambda m: compressed_of(m, zero_point=zeros_of((8, 1), "int8")(m)),
     sluice.InvalidType, "unpacked, n x groups; pass them as they are stored, or make QuantizedWeights"),
    ("an empty g_idx", lambda m: compressed_of(m, g_idx=unset(0, "int32")(m)), sluice.InvalidSize, "(0,) and must have (64,)"),
    ("an unset g_idx too short", lambda m: compressed_of(m, g_idx=unset(3, "int32")(m)), sluice.InvalidSize, "shape (3,)"),
    ("an unset g_idx of floats", lambda m: compressed_of(m, g_idx=unset(64, "float64")(m)), sluice.InvalidType,
     "weight_g_idx is fp64"),
    ("g_idx that is a number", lambda m: example(m, g_idx=lambda n: n(3, "int32")), sluice.InvalidSize, "g_idx has shape ()"),
    ("g_idx of two dimensions", lambda m: example(m, g_idx=zeros_of((1, 64), "int32")), sluice.InvalidSize,
     "g_idx has shape (1, 64)"),
    ("zeros the other way", lambda m: compressed_of(m, zero_point=zeros_of((8, 1), "int32")(m)), sluice.InvalidSize,
     "must have (1, 1)"),
    ("scales of fewer rows", lambda m: compressed_of(m, scale=(1, 1)), sluice.InvalidSize, "weight_scale has shape (1, 1)"),
]


@pytest.mark.parametrize("call, kind, mention", [row[1:] for row in MISUSE], ids=[row[0] for row in MISUSE])
def test_misuse_raises_what_fits_and_says_what_to_do(make, call, kind, mention):
    with pytest.raises(kind) as caught:
        call(make)
    assert mention in str(caught.value)


@pytest.mark.skipif(torch is None, reason="no torch")
def test_arrays_of_two_libraries_or_devices_are_refused():
    mixed = {"qweight": torch.zeros(8, 16, dtype=torch.int32), "qzeros": numpy.zeros((2, 2), numpy.int32)}
    with pytest.raises(sluice.InvalidArgument, match="qweight is Tensor and qzeros is ndarray"):
        sw.from_gptq(**mixed, scales=torch.ones(2, 16))
    mixed["qzeros"] = torch.zeros(2, 2, dtype=torch.int32, device="meta")
    with pytest.raises(sluice.WrongDevice, match="qweight is on cpu and qzeros on meta"):
        sw.from_gptq(**mixed, scales=torch.ones(2, 16))


# ---- gpt-oss ----
VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def gpt_oss(experts, n, k, seed=0):
    """Returns blocks and scales of a file as lists, and the matrices: two codes per byte, the first in its low half."""
    import random
    rng = random.Random(f"{experts} {n} {k} {seed}")
    codes = [[[rng.randrange(16) for _ in range(k)] for _ in range(n)] for _ in range(experts)]
    scales = [[[rng.randint(110, 135) for _ in range(k // 32)] for _ in range(n)] for _ in range(experts)]
    blocks = [[[[row[32 * g + 2 * i] + 16 * row[32 * g + 2 * i + 1] for i in range(16)] for g in range(k // 32)] for row in one]
              for one in codes]
    matrices = [[[(-1.0 if code & 8 else 1.0) * VALUES[code & 7] * 2.0 ** (scales[e][o][i // 32] - 127)
                  for i, code in enumerate(row)] for o, row in enumerate(one)] for e, one in enumerate(codes)]
    return blocks, scales, matrices


@pytest.mark.parametrize("experts, n, k", [(3, 6, 96), (1, 4, 32), (2, 5, 2880)])
def test_gpt_oss(make, experts, n, k):
    blocks, scales, matrices = gpt_oss(experts, n, k)
    weights = sw.from_gpt_oss(make(blocks, "uint8"), make(scales, "uint8"))
    assert [sw.dequantize(w).tolist() for w in weights] == matrices
    assert [sw.dequantize(w, "fp32").tolist() for w in weights] == matrices
    assert [w.weight_type for w in weights] == ["e2m1"] * experts
    one, = sw.from_gpt_oss(make(blocks[0], "uint8"), make(scales[0], "uint8"))
    assert sw.dequantize(one).tolist() == matrices[0]
    part = one.rows(1, 3).columns(0, 32)
    assert sw.dequantize(part).tolist() == [row[:32] for row in matrices[0][1:3]]


def test_gpt_oss_gate_and_up_are_taken_apart(make):
    blocks, scales, matrices = gpt_oss(2, 8, 64)
    weights = sw.from_gpt_oss(make(blocks, "uint8"), make(scales, "uint8"), interleaved=True)
    assert [sw.dequantize(w).tolist() for w in weights] == [matrix[0::2] + matrix[1::2] for matrix in matrices]
    packed = sluice.pack_quantized(sw.from_gpt_oss(make(*[gpt_oss(1, 32, 64)[0]], "uint8"), make(gpt_oss(1, 32, 64)[1], "uint8"),
                                                   interleaved=True)[0], gated=True)
    assert packed.gated and packed.format == sluice.MXFP4
    assert sw.dequantize(packed.quantized()).tolist() == gpt_oss(1, 32, 64)[2][0][0::2] + gpt_oss(1, 32, 64)[2][0][1::2]


def test_gpt_oss_says_what_is_wrong(make):
    blocks, scales, _ = gpt_oss(2, 4, 64)

    def changed(byte, code=0x21):
        other, words = [[list(row) for row in one] for one in scales], [[[list(b) for b in row] for row in one] for one in blocks]
        other[1][2][1], words[1][2][1] = byte, [code] * 16
        return make(words, "uint8"), make(other, "uint8")

    for arguments, options, error, mention in (
            (changed(255), {}, sluice.InvalidArgument, "scales[1][2][1] is 255, NaN, and must be from 2^-79 to 2^21"),
            (changed(149), {}, sluice.InvalidArgument, "2^22"),
            (changed(47), {}, sluice.InvalidArgument, "2^-80"),
            (changed(141), {"tokens": "fp16"}, sluice.InvalidArgument, "for fp16 tokens: mend the checkpoint, or multiply by bf16"),
            (changed(103), {"tokens": "fp16"}, sluice.InvalidArgument, "from 2^-23 to 2^13"),
            ((make(blocks, "int32"), make(scales, "uint8")), {}, sluice.InvalidType, "blocks is int32"),
            ((make(blocks, "uint8"), make(scales, "float16")), {}, sluice.InvalidType, "scales is fp16"),
            ((make(blocks, "uint8"), make(scales[:1], "uint8")), {}, sluice.InvalidSize, "scales has shape (1, 4, 2)"),
            ((make(scales, "uint8"), make(scales, "uint8")), {}, sluice.InvalidSize, "must have experts x n x k/32 x 16"),
            ((make(blocks[0][:3], "uint8"), make(scales[0][:3], "uint8")), {"interleaved": True}, sluice.InvalidSize, "n = 3"),
            ((make(blocks, "uint8"), make(scales, "uint8")), {"tokens": "e4m3"}, sluice.InvalidArgument, "tokens")):
        with pytest.raises(error) as caught:
            sw.from_gpt_oss(*arguments, **options)
        assert mention in str(caught.value), caught.value
    for byte, code in ((48, 0x21), (148, 0x21), (0, 0x80)):  # the limits, and a block of zeros
        assert len(sw.from_gpt_oss(*changed(byte, code))) == 2
    with pytest.raises(sluice.InvalidArgument, match="groups of 32"):
        sw.QuantizedWeights(make([[1] * 64], "uint8"), make([[127]], "uint8"), None, 64, type="e2m1")
    with pytest.raises(sluice.InvalidArgument, match="type = 'e3m0'"):
        sw.QuantizedWeights(make([[1] * 32], "uint8"), make([[127]], "uint8"), None, 32, type="e3m0")
