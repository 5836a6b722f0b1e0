# SPDX-License-Identifier: Apache-2.0
"""sluice.weights.mxfp4_to_block_fp8: MXFP4 experts become e4m3 with scales of 128 x 128, exactly or with an error that says where.

References are tables of e2m1 and e4m3 in fp64; the rule of exactness is compared with a search over all scales. Bugs that were planted
once, and seen here: swapped halves of a byte, rules of 16 and 18 binades, block scales of a binade more or less. Others were a wrong
lowest bit of a code, tests of half a group, rows that stay interleaved, ties away from 0, and NaN let through.
"""
import itertools
import math
import tracemalloc

import numpy
import pytest

import sluice
import sluice.weights as sw
from sluice.weights import mxfp4
from sluice.weights._arrays import library_of

E2M1 = numpy.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
E4M3 = numpy.array([(1 if byte < 128 else -1) * ((byte & 7) * 2.0 ** -9 if byte & 120 == 0 else (8 + (byte & 7)) * 2.0 ** ((byte >> 3 & 15) - 10))
                    for byte in range(256)])
E4M3[[127, 255]] = math.nan


def weights_of(blocks, scales):
    """Returns the weights of MXFP4 in fp64: the low half of a byte is the first code."""
    codes = numpy.stack([blocks & 15, blocks >> 4], -1).reshape(*scales.shape, 32)
    return (E2M1[codes] * 2.0 ** (scales.astype(float) - 127)[..., None]).reshape(*scales.shape[:2], -1)


def numbers(array):
    """Returns an array of any library as numpy's; e4m3 as its bits."""
    if isinstance(array, numpy.ndarray):
        return array
    import torch
    return (array.view(torch.uint8) if array.dtype is torch.float8_e4m3fn else array).cpu().numpy()


def product_of(result):
    """Returns codes * block scales in fp64, after a look at types, shapes and scales."""
    if not isinstance(result[0], numpy.ndarray):
        import torch
        assert result[0].dtype is torch.float8_e4m3fn and result[1].dtype is torch.float32
    codes, scales = map(numbers, result)
    experts, n, k = codes.shape
    assert codes.dtype == numpy.uint8 and scales.dtype == numpy.float32 and scales.shape == (experts, -(-n // 128), -(-k // 128))
    fractions, _ = numpy.frexp(scales)
    assert (fractions == 0.5).all() and (scales >= 2.0 ** -126).all(), "normal powers of two"
    return E4M3[codes] * scales.astype(float).repeat(128, 1)[:, :n].repeat(128, 2)[..., :k]


def is_same(made, wanted):
    return made.shape == wanted.shape and bool((made == wanted).all() and (numpy.signbit(made) == numpy.signbit(wanted)).all())


def converted(library, blocks, scales, **options):
    return sw.mxfp4_to_block_fp8(library(blocks), library(scales), **options)


def drawn(experts, n, k, low=120, high=126, seed=0):
    rng = numpy.random.default_rng(seed)
    return (rng.integers(0, 256, (experts, n, k // 32, 16), dtype=numpy.uint8),
            rng.integers(low, high + 1, (experts, n, k // 32), dtype=numpy.uint8))


def test_every_code_with_every_scale(library):
    blocks = numpy.tile(numpy.arange(256, dtype=numpy.uint8).reshape(1, 1, 16, 16), (255, 1, 1, 1))
    scales = numpy.repeat(numpy.arange(255, dtype=numpy.uint8), 16).reshape(255, 1, 16)
    assert is_same(product_of(converted(library, blocks, scales)), weights_of(blocks, scales))


KNOWN = set(E4M3[:127])


def exists_a_scale(*values):
    """Whether some power of two makes all values e4m3 numbers, by trying."""
    return any(all(abs(value) * 2.0 ** -exponent in KNOWN for value in values) for exponent in range(-170, 170))


def two_groups(first, second, distance, scale):
    """Returns a row of two groups, whose codes are all ``first``, or all ``second``. The second has a scale of 2^distance less."""
    blocks = numpy.array([[[[first * 17] * 16, [second * 17] * 16]]], dtype=numpy.uint8)
    return blocks, numpy.array([[[scale, scale - distance]]], dtype=numpy.uint8)


@pytest.mark.parametrize("scale", [254, 127, 40])
def test_the_rule_is_that_some_scale_exists(library, scale):
    for first, second, distance in itertools.product(range(1, 8), range(1, 8), range(12, 21)):
        blocks, scales = two_groups(first, second, distance, scale)
        wanted = weights_of(blocks, scales)
        if exists_a_scale(wanted[0, 0, 0], wanted[0, 0, 32]):
            assert is_same(product_of(converted(library, blocks, scales)), wanted), (first, second, distance)
        else:
            with pytest.raises(sluice.InvalidArgument, match="binades apart"):
                converted(library, blocks, scales)


def test_every_pair_of_codes_up_to_the_limit(library):
    """All distances that are exact, and either sign, as the blocks of one row; the other half of each block is zeros."""
    pairs = [(first, second, distance) for first, second, distance in itertools.product(range(16), range(16), range(20))
             if not first & 7 or not second & 7 or exists_a_scale(E2M1[first], E2M1[second] * 2.0 ** -distance)]
    made = [two_groups(*pair, 140) for pair in pairs]
    blocks, scales = (numpy.concatenate([one for pair in parts for one in (pair, 0 * pair)], 2) for parts in zip(*made))
    assert len(pairs) > 16 * 16 * 14 and is_same(product_of(converted(library, blocks, scales)), weights_of(blocks, scales))


def test_every_place_of_a_group_counts(library):
    """One 0.5 among zeros is the lowest bit, or one 6 the largest magnitude, wherever it is: 18 binades from the other group."""
    for place, (alone, rest, distance) in itertools.product(range(32), [(1, 7, 15), (7, 1, -15)]):
        blocks, scales = two_groups(rest, 0, distance, 140)
        blocks[0, 0, 1, place // 2] = alone << 4 * (place % 2)
        with pytest.raises(sluice.InvalidArgument, match="18 binades apart"):
            converted(library, blocks, scales)


@pytest.mark.parametrize("n, k", [(1, 32), (128, 128), (129, 160), (200, 288), (300, 2880), (256, 64)])
@pytest.mark.parametrize("low", [0, 100, 240])
def test_scales_14_binades_apart_are_exact(library, n, k, low):
    blocks, scales = drawn(2, n, k, low, low + 14, seed=n + k + low)
    assert is_same(product_of(converted(library, blocks, scales)), weights_of(blocks, scales))


def test_blocks_have_scales_of_their_own(library):
    """Neighbours are 200 binades apart, along rows and along k, and so are the experts."""
    blocks, scales = drawn(2, 300, 416, 20, 30)
    down, across = numpy.arange(300)[:, None] // 128, numpy.arange(13) // 4
    scales += (200 * ((down + across + numpy.arange(2)[:, None, None]) % 2)).astype(numpy.uint8)
    assert is_same(product_of(converted(library, blocks, scales)), weights_of(blocks, scales))


def test_zeros_do_not_count(library):
    blocks, scales = drawn(1, 128, 256, 127, 130)
    blocks[0, 5, 1], scales[0, 5, 1] = 0x80, 0     # zeros of both signs, with the least scale
    blocks[0, 6, 2], scales[0, 6, 2] = 0x08, 254   # and with the largest
    blocks[0, :, 4:] = 0x80
    made = converted(library, blocks, scales)
    assert is_same(product_of(made), weights_of(blocks, scales)) and numbers(made[1])[0, 0, 1] == 1


def rounded(values, top):
    """The weights of a block whose largest magnitude is in [2^top, 2^(top + 1)), as the docstring says: to nearest even multiples of
    2^(top - 17) below 2^(top - 14)."""
    step = 2.0 ** (top - 17)
    return numpy.where(abs(values) < 2.0 ** (top - 14), numpy.rint(values / step) * step, values)


def test_beyond_the_limit_it_raises_or_rounds(library):
    for distance in range(15, 40):
        blocks, scales = drawn(1, 64, 64, 100 - distance, 100, seed=distance)
        blocks[0, 0, 0], scales[0, 0, 0] = 0x71, 100              # 0.5 and 6 at the top
        blocks[0, 1, 1, 0], scales[0, 1, 1] = 0x11, 100 - distance  # 0.5 at the bottom
        with pytest.raises(sluice.InvalidArgument, match=rf"{distance + 3} binades apart, and must be at most 17"):
            converted(library, blocks, scales)
        wanted, made = weights_of(blocks, scales), product_of(converted(library, blocks, scales, inexact="round"))
        assert is_same(made, rounded(wanted, 2 + 100 - 127))
        assert abs(made - wanted).max() <= 2.0 ** (2 + 100 - 127 - 18)


def test_rounding_changes_no_other_block(library):
    blocks, scales = drawn(2, 256, 256)
    scales[1, 130, 5] = 60
    made, wanted = product_of(converted(library, blocks, scales, inexact="round")), weights_of(blocks, scales)
    made[1, 128:, 128:] = wanted[1, 128:, 128:]
    assert is_same(made, wanted)


def test_gate_and_up_are_taken_apart(library):
    blocks, scales = drawn(3, 2 * 90, 96, seed=7)
    wanted = weights_of(blocks, scales)
    wanted = numpy.concatenate([wanted[:, 0::2], wanted[:, 1::2]], 1)
    assert is_same(product_of(converted(library, blocks, scales, interleaved=True)), wanted)
    packed = sw.from_gpt_oss(library(blocks), library(scales), interleaved=True)
    assert is_same(numpy.stack([numbers(sw.dequantize(one)) for one in packed]), wanted)
    bias = numpy.arange(3 * 180, dtype=numpy.float32).reshape(3, 180)
    made = numbers(sw.gate_then_up(library(bias)))
    assert (made == numpy.concatenate([bias[:, 0::2], bias[:, 1::2]], 1)).all() and made.dtype == numpy.float32
    assert (numbers(sw.gate_then_up(library(bias[0]))) == made[0]).all()


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("flat", [False, True])
def test_the_rest_of_larger_sizes_is_zeros(library, monkeypatch, flat, chunked):
    """Zeros lie behind the gate, behind up, and behind all of k; they change no scale of a block."""
    if chunked:
        monkeypatch.setattr(mxfp4, "_WEIGHTS_AT_ONCE", 1)
    blocks, scales = drawn(2, 2 * 180, 96, seed=9)
    given = blocks.reshape(2, 360, 48) if flat else blocks
    gate, up = (weights_of(blocks, scales)[:, half::2] for half in (0, 1))
    wanted = numpy.zeros((2, 512, 160))
    wanted[:, :180, :96], wanted[:, 256:436, :96] = gate, up
    made = converted(library, given, scales, interleaved=True, rows=512, k=160)
    assert is_same(product_of(made), wanted)
    wanted = numpy.zeros((2, 400, 128))
    wanted[:, :360, :96] = weights_of(blocks, scales)
    assert is_same(product_of(converted(library, given, scales, rows=400, k=128)), wanted)
    same = converted(library, given, scales, rows=360, k=96)
    assert all((numbers(one) == numbers(other)).all() for one, other in zip(same, converted(library, given, scales)))
    bias = numpy.arange(1, 2 * 360 + 1, dtype=numpy.float32).reshape(2, 360)
    padded = numpy.zeros((2, 512), numpy.float32)
    padded[:, :180], padded[:, 256:436] = bias[:, 0::2], bias[:, 1::2]
    assert (numbers(sw.gate_then_up(library(bias), rows=512)) == padded).all()


@pytest.mark.parametrize("options, said", [
    (dict(rows=359, interleaved=True), "rows = 359 must be at least 360"), (dict(rows=361, interleaved=True), "rows = 361 must be even"),
    (dict(k=64), "k = 64 must be a multiple of 32 and at least 96"), (dict(k=100), "k = 100 must be a multiple of 32")])
def test_smaller_and_odd_sizes_are_refused(library, options, said):
    with pytest.raises(sluice.InvalidSize, match=said):
        converted(library, *drawn(1, 360, 96), **options)
    if "rows" in options:
        with pytest.raises(sluice.InvalidSize, match=said):
            sw.gate_then_up(library(numpy.zeros((1, 360), numpy.float32)), rows=options["rows"])


@pytest.mark.parametrize("interleaved", [False, True])
def test_chunks_give_the_bits_of_the_whole(library, monkeypatch, interleaved):
    blocks, scales = drawn(2, 600, 160, seed=3)
    whole = [numbers(one) for one in converted(library, blocks, scales, interleaved=interleaved)]
    monkeypatch.setattr(mxfp4, "_WEIGHTS_AT_ONCE", 1)
    for one, other in zip(whole, converted(library, blocks, scales, interleaved=interleaved)):
        assert (one == numbers(other)).all()
    scales[1, 599, 4] = 60  # the last row of up, too
    with pytest.raises(sluice.InvalidArgument, match=rf"\[1, 512:600, 128:160\] of the result{r' .gate, then up.' if interleaved else ':'}"):
        converted(library, blocks, scales, interleaved=interleaved)


def test_blocks_may_lie_anywhere(library):
    """As rows of bytes, as a part of something with gaps, and where no word of 64 bits lies."""
    blocks, scales = drawn(2, 40, 96)
    wanted = weights_of(blocks, scales)
    assert is_same(product_of(converted(library, blocks.reshape(2, 40, 48), scales)), wanted)
    wide, narrow = library(numpy.repeat(blocks, 2, 1)), library(numpy.concatenate([scales, scales], -1))
    assert is_same(product_of(sw.mxfp4_to_block_fp8(wide[:, ::2], narrow[..., :3])), wanted)
    turned = library(numpy.ascontiguousarray(blocks.transpose(3, 2, 1, 0))).swapaxes(0, 3).swapaxes(1, 2)
    assert is_same(product_of(sw.mxfp4_to_block_fp8(turned, library(scales))), wanted)
    odd = library(numpy.concatenate([numpy.zeros(3, numpy.uint8), blocks.reshape(-1)]))[3:].reshape(2, 40, 3, 16)
    assert is_same(product_of(sw.mxfp4_to_block_fp8(odd, library(scales))), wanted)


def test_memory_stays_near_the_result():
    blocks, scales = drawn(12, 1024, 2048)
    tracemalloc.start()
    codes, block_scales = sw.mxfp4_to_block_fp8(blocks, scales, interleaved=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < codes.nbytes + block_scales.nbytes + 40e6


# ---- torch ----
def test_scales_of_e8m0_and_parameters():
    torch = pytest.importorskip("torch")
    blocks, scales = drawn(1, 20, 64)
    given = [torch.nn.Parameter(torch.from_numpy(one), requires_grad=False) for one in (blocks, scales)]
    made = sw.mxfp4_to_block_fp8(given[0], torch.from_numpy(scales).view(torch.float8_e8m0fnu))
    assert is_same(product_of(made), weights_of(blocks, scales))
    assert is_same(product_of(sw.mxfp4_to_block_fp8(*given)), weights_of(blocks, scales))


def test_weights_are_those_of_transformers():
    torch = pytest.importorskip("torch")
    mxfp4_of_theirs = pytest.importorskip("transformers.integrations.mxfp4")
    blocks, scales = map(torch.from_numpy, drawn(3, 200, 288, 113, 127))
    theirs = mxfp4_of_theirs.convert_moe_packed_tensors(blocks, scales)  # bf16, experts x k x rows
    made = torch.from_numpy(product_of(sw.mxfp4_to_block_fp8(blocks, scales)))
    assert torch.equal(made, theirs.transpose(1, 2).double())
    made = torch.from_numpy(product_of(sw.mxfp4_to_block_fp8(blocks, scales, interleaved=True)))
    assert torch.equal(made, torch.cat([theirs[..., ::2], theirs[..., 1::2]], -1).transpose(1, 2).double())


def test_nothing_is_mixed_with_host_memory():
    """A chunk on a GPU, as far as torch's fake tensors tell: the results are on the GPU, and an operand on the host would raise."""
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        library = library_of(blocks=torch.empty(1, device="cuda"))
        table = mxfp4._table(library)
        chunk = mxfp4._chunk(library, torch.empty(200, 144, dtype=torch.uint8, device="cuda"),
                             torch.empty(200, 9, dtype=torch.uint8, device="cuda"), table)
        assert {part.device.type for part in (table, *chunk)} == {"cuda"} and chunk.codes.shape == (200, 288) and chunk.scales.shape == (2, 3)


def test_a_bar_is_shown_if_asked_for(capsys):
    torch = pytest.importorskip("torch")
    pytest.importorskip("sluice.torch")
    blocks, scales = map(torch.from_numpy, drawn(3, 4, 32))
    sw.mxfp4_to_block_fp8(blocks, scales)
    assert capsys.readouterr().err == "", "no terminal"
    sw.mxfp4_to_block_fp8(blocks, scales, progress=True)
    assert "3 of 3" in capsys.readouterr().err


# ---- misuse: messages name the argument and the remedy ----
def example(library, *, place=None, **changed):
    blocks, scales = drawn(2, 6, 64)
    if place is not None:
        scales[place] = 255
    options = {name: changed.pop(name) for name in ("interleaved", "inexact", "progress") if name in changed}
    given = {"blocks": library(blocks), "scales": library(scales)}
    return sw.mxfp4_to_block_fp8(**{**given, **{name: value(given) for name, value in changed.items()}}, **options)


MISUSE = [
    ("NaN", dict(place=(1, 4, 1)), sluice.InvalidArgument, "scales[1][4][1] is 255, NaN, and must be at most 254"),
    ("NaN of rows that are sorted", dict(place=(0, 5, 0), interleaved=True), sluice.InvalidArgument, "scales[0][5][0] is 255"),
    ("None", dict(blocks=lambda given: None), sluice.InvalidType, "blocks is None"),
    ("a list", dict(scales=lambda given: [[[127]]]), sluice.InvalidType, "scales is list"),
    ("of one expert", dict(blocks=lambda given: given["blocks"][0], scales=lambda given: given["scales"][0]), sluice.InvalidSize,
     "scales has shape (6, 2) and must have experts x rows x k/32"),
    ("of no experts", dict(blocks=lambda given: given["blocks"][:0], scales=lambda given: given["scales"][:0]), sluice.InvalidSize,
     "scales has shape (0, 6, 2)"),
    ("of other experts", dict(scales=lambda given: given["scales"][:1]), sluice.InvalidSize,
     "blocks has shape (2, 6, 2, 16) and must have (1, 6, 2, 16) or (1, 6, 32) for scales of (1, 6, 2)"),
    ("one code per byte", dict(blocks=lambda given: given["blocks"].reshape(2, 3, 64)), sluice.InvalidSize, "blocks has shape (2, 3, 64)"),
    ("transposed", dict(blocks=lambda given: given["blocks"].reshape(2, 6, 32).swapaxes(1, 2)), sluice.InvalidSize,
     "blocks has shape (2, 32, 6) and must have (2, 6, 2, 16) or (2, 6, 32)"),
    ("odd rows", dict(blocks=lambda given: given["blocks"][:, :5], scales=lambda given: given["scales"][:, :5], interleaved=True),
     sluice.InvalidSize, "rows = 5 of interleaved = True must be even"),
    ("a word for interleaved", dict(interleaved="yes"), sluice.InvalidArgument, "interleaved = 'yes' must be True or False"),
    ("a word for progress", dict(progress="no"), sluice.InvalidArgument, "progress = 'no' must be True or False"),
    ("another inexact", dict(inexact="clamp"), sluice.InvalidArgument, "inexact = 'clamp' must be one of raise, round"),
]


@pytest.mark.parametrize("changed, kind, mention", [row[1:] for row in MISUSE], ids=[row[0] for row in MISUSE])
def test_misuse_says_what_to_do(library, changed, kind, mention):
    with pytest.raises(kind) as caught:
        example(library, **changed)
    assert mention in str(caught.value), caught.value


@pytest.mark.parametrize("name, wanted", [("blocks", "uint8"), ("scales", "uint8 or e8m0")])
def test_other_types_are_refused(library, name, wanted):
    for kind in ("int8", "int32", "float32"):
        with pytest.raises(sluice.InvalidType, match=rf"{name} is .* and must be {wanted}: pass the tensor \*_{name}"):
            example(library, **{name: lambda given: library(numbers(given[name]).astype(kind))})


def test_a_block_that_is_not_exact_is_named(library):
    blocks, scales = drawn(2, 300, 320, 120, 121)
    blocks[1, 290, 9], scales[1, 290, 9] = 0x11, 90
    blocks[1, 291, 9], scales[1, 291, 9] = 0x77, 121
    with pytest.raises(sluice.InvalidArgument) as caught:
        converted(library, blocks, scales)
    for mention in ("[1, 256:300, 256:320]", "2^-4 or more", "lowest bit 2^-38", "34 binades", "at most 17", "inexact='round'", "2^-22", "16 bits"):
        assert mention in str(caught.value), (mention, str(caught.value))


@pytest.mark.parametrize("given, kind, mention", [
    (numpy.zeros((2, 5), numpy.float32), sluice.InvalidSize, "bias has shape (2, 5) and must have experts x 2i"),
    (numpy.zeros((), numpy.float32), sluice.InvalidSize, "bias has shape ()"),
    (numpy.zeros((1, 2, 4), numpy.float32), sluice.InvalidSize, "bias has shape (1, 2, 4)"),
    (numpy.zeros((2, 4), numpy.uint8), sluice.InvalidType, "bias is uint8"),
], ids=["odd", "a number", "three axes", "bytes"])
def test_misuse_of_gate_then_up(library, given, kind, mention):
    with pytest.raises(kind) as caught:
        sw.gate_then_up(library(given))
    assert mention in str(caught.value)
