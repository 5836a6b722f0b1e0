# SPDX-License-Identifier: Apache-2.0
"""Makes the MXFP4 experts of gpt-oss e4m3 weights with a scale for each block of 128 x 128, without rounding any weight.

    w13, scale_w13 = sw.mxfp4_to_block_fp8(gate_up_proj_blocks, gate_up_proj_scales, interleaved=True, rows=5888)
    w2, scale_w2 = sw.mxfp4_to_block_fp8(down_proj_blocks, down_proj_scales, k=2944)

``st.moe.experts`` takes the results. Every step works on whole bytes and integers, so bits do not depend on the device.
"""
from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Tuple

from .._arguments import check_one_of, entry, integer, switch_of
from ..errors import InvalidArgument, InvalidSize, WrongDevice
from ._arrays import Array, Library, Numpy, check_given, check_type, library_of, type_of
from .canonical import E2M1

_BLOCK, _GROUP = 128, 32
_WEIGHTS_AT_ONCE = 1 << 22  # rows are converted in chunks of about this many weights, whose temporaries take 40 MB
# A code of e4m3 holds 1.5 * 2^8 and 2^-9, and with them every e2m1 magnitude in between.
_TOP, _BOTTOM = 8, -9
_LEAST_SCALE = -126  # the exponent of the smallest normal fp32
# A shift is the exponent of a group of 32, less that of its block. Every e2m1 value times 2^_LEAST_SHIFT rounds to 0.
_LEAST_SHIFT, _MOST_SHIFT = -13, 9
_NOTHING = 10000  # stands for the exponent of a 0


@entry
def mxfp4_to_block_fp8(blocks: Array, scales: Array, *, interleaved: bool = False, rows: Optional[int] = None, k: Optional[int] = None,
                       inexact: str = "raise", progress: Optional[bool] = None) -> Tuple[Array, Array]:
    """Makes MXFP4 experts FP8 with block scales, as ``st.moe.experts`` takes them. Returns ``(codes, block_scales)`` with
    ``weight = codes * block_scales``, exactly.

    - ``blocks``: the tensor ``*_blocks`` of gpt-oss, uint8, experts x rows x k/32 x 16 or experts x rows x k/2. A byte holds two e2m1
      codes, the first in its low half.
    - ``scales``: the tensor ``*_scales``, uint8 (or float8_e8m0fnu), experts x rows x k/32: a byte s stands for 2^(s - 127).
    - ``interleaved``: True for ``gate_up_proj``, whose rows are gate and up in turn. The result has all rows of the gate, then all of
      up, as ``w13`` must have them. ``gate_then_up`` does the same to the bias.
    - ``rows``, ``k``: sizes of the result, if they are larger than those of the tensors. What is more is zeros, behind all rows and behind
      all of k. With ``interleaved`` half of the zero rows are behind the gate, half behind up. Give both products of an expert the same intermediate
      size, ``rows`` = 2i of the first and ``k`` = i of the second. With i a multiple of 128 one kernel computes gate, up and their product
      (docs/experts.md).
    - ``inexact``: "raise" or "round", what happens to a block that breaks the rule below.
    - ``progress``: whether a bar is shown; by default on a terminal, once ``sluice.torch`` is imported.
    - ``codes``: float8_e4m3fn, experts x rows x k; of numpy arrays their bits, uint8. ``block_scales``: fp32, experts x
      ceil(rows/128) x ceil(k/128), normal powers of two.

    The rule: a block of 128 x 128 of the result is exact if and only if a - b is at most 17. Here 2^a is the power of two at or below its
    largest magnitude, and 2^b the lowest bit that is 1 in any of its weights. Weights of 0 do not count. Each weight adds s - 127 of its
    group to the exponents of its code:

        magnitude of the code    0.5    1    1.5    2    3    4    6
        a                         -1    0      0    1    1    2    2
        b                         -1    0     -1    1    0    2    1

    So a block is always exact if the scales of its groups are at most 2^14 apart. Its own scale is 2^max(a - 8, -126), because a code of
    e4m3 holds 1.5 * 2^8 at the top and 2^-9 at the bottom. A block of zeros has the scale 1. A weight of -0 stays one.

    With "round" only weights below 2^(a - 14) of blocks that break the rule change, by up to 2^(a - 18). They become the nearest code; ties
    go to even.

    Raises ``InvalidArgument`` for a scale of NaN (255), and for a block that breaks the rule; both errors say where, as rows and columns
    of the result. Raises ``InvalidSize`` for ``rows`` or ``k`` below the tensors', for odd ``rows`` with ``interleaved``, and for ``k``
    that is no multiple of 32. Raises ``InvalidSize`` or ``InvalidType`` for tensors of other shapes or types, and ``WrongDevice`` for the meta device. Synchronises with the
    GPU. Besides the result it needs about 40 MB.
    """
    library = library_of(blocks=blocks, scales=scales)
    check_one_of("inexact", inexact, ("raise", "round"))
    if progress is not None:
        switch_of("progress", progress)
    switch_of("interleaved", interleaved)
    blocks, scales = _checked(library, blocks, scales, interleaved)
    experts, n, groups = scales.shape
    order, no_rows = _padded_rows(library, n, rows, interleaved)
    all_rows, all_groups = len(order), _padded_groups(groups, k)
    made = library.empty((experts, all_rows, _GROUP * all_groups), "uint8")
    block_scales = library.empty((experts, -(-all_rows // _BLOCK), -(-all_groups // 4)), "fp32")
    table = _table(library)
    step = max(1, _WEIGHTS_AT_ONCE // (_GROUP * all_groups * _BLOCK)) * _BLOCK
    with _bar(experts, progress) as count_one:
        for expert in range(experts):
            own = [one[expert].reshape(n, groups, -1) for one in (blocks, scales)]  # a copy if an expert has gaps
            for first in range(0, all_rows, step):
                part = slice(first, min(first + step, all_rows))
                pairs, exponents = (_padded_part(library, one, order, part, no_rows, all_groups) for one in own)
                chunk = _chunk(library, pairs, exponents, table)
                if inexact == "raise":
                    _check_exact(chunk, expert, part, _GROUP * all_groups, interleaved)
                made[expert, part] = chunk.codes
                block_scales[expert, first // _BLOCK:first // _BLOCK + chunk.scales.shape[0]] = chunk.scales
            count_one()
    return made if isinstance(library, Numpy) else made.view(library.type("e4m3")), block_scales


def _padded_rows(library: Library, n: int, rows: Optional[int], interleaved: bool) -> Tuple[Array, List[slice]]:
    """Returns the row of the tensor for each row of the result, and the rows of the result that have none, whose number means nothing."""
    total = n if rows is None else integer("rows", rows)
    if total < n:
        raise InvalidSize(f"rows = {total} must be at least {n}, those that are given: pass more, or leave rows out")
    halves = 2 if interleaved else 1
    if total % halves:
        raise InvalidSize(f"rows = {total} must be even, as many of the gate as of up: pass an even number")
    own, each = n // halves, total // halves
    order = library.counting(total)
    for half in range(halves):
        order[half * each:(half + 1) * each] = halves * library.clip(library.counting(each), None, own - 1) + half
    return order, [slice(half * each + own, (half + 1) * each) for half in range(halves)]


def _padded_groups(groups: int, k: Optional[int]) -> int:
    total = _GROUP * groups if k is None else integer("k", k)
    if total < _GROUP * groups or total % _GROUP:
        raise InvalidSize(f"k = {total} must be a multiple of {_GROUP} and at least {_GROUP * groups}, the k of the tensors: pass such a one, "
                          "or leave k out")
    return total // _GROUP


def _padded_part(library: Library, tensor: Array, order: Array, part: slice, no_rows: List[slice], groups: int) -> Array:
    """Returns the rows ``part`` of the result, with so many groups of k and zeros where it has none. ``tensor``: an expert's blocks or
    scales, rows x groups x bytes."""
    taken = library.take(tensor, order[part], 0)
    own = tensor.shape[1]
    if groups > own:
        wider = library.empty((taken.shape[0], groups, tensor.shape[2]), "uint8")
        wider[:, :own], wider[:, own:] = taken, 0
        taken = wider
    for none in no_rows:
        taken[max(none.start - part.start, 0):max(none.stop - part.start, 0)] = 0
    return taken.reshape(taken.shape[0], -1)


@entry
def gate_then_up(bias: Array, *, rows: Optional[int] = None) -> Array:
    """Returns the bias of ``gate_up_proj`` of gpt-oss, whose values are of gate and up in turn, with all values of the gate, then all of
    up. ``mxfp4_to_block_fp8`` and ``from_gpt_oss`` with ``interleaved`` do that to the rows of the weight.

    - ``bias``: experts x 2i, or 2i of one expert; bf16, fp16 or fp32. The result is of its type.
    - ``rows``: that of ``mxfp4_to_block_fp8``, if it is more than 2i: zeros behind the gate and behind up.

    Raises ``InvalidSize`` or ``InvalidType`` for a tensor of another shape or type, and for ``rows`` that are odd or fewer than 2i.
    """
    library = library_of(bias=bias)
    check_type("bias", bias, ("bf16", "fp16", "fp32"), "pass gate_up_proj_bias as it is stored")
    shape = tuple(bias.shape)
    if len(shape) not in (1, 2) or 0 in shape or shape[-1] % 2:
        raise InvalidSize(f"bias has shape {shape} and must have experts x 2i, gate and up in turn: pass gate_up_proj_bias as it is stored")
    order, no_rows = _padded_rows(library, shape[-1], rows, True)
    made = library.take(library.plain(bias), order, len(shape) - 1)
    for none in no_rows:
        made[..., none] = 0
    return made


def _checked(library: Library, blocks: Array, scales: Array, interleaved: bool) -> Tuple[Array, Array]:
    """Returns both without a graph of autograd, and scales as bytes. Raises for what they must not be."""
    for name, array, types in (("blocks", blocks, ("uint8",)), ("scales", scales, ("uint8", "e8m0"))):
        check_given(name, array)
        if getattr(array, "is_meta", False):
            raise WrongDevice(f"{name} is on the meta device, which holds no data: load it first")
        check_type(name, array, types, f"pass the tensor *_{name} as it is stored")
    shape = tuple(scales.shape)
    if len(shape) != 3 or 0 in shape:
        raise InvalidSize(f"scales has shape {shape} and must have experts x rows x k/32: pass *_scales as it is stored, of one expert "
                          "scales[None]")
    bytes_of_row = 16 * shape[2]
    if tuple(blocks.shape) not in ((*shape, 16), (*shape[:2], bytes_of_row)):
        raise InvalidSize(f"blocks has shape {tuple(blocks.shape)} and must have {(*shape, 16)} or {(*shape[:2], bytes_of_row)} for scales "
                          f"of {shape}, 16 bytes for each: pass *_blocks as it is stored")
    if interleaved and shape[1] % 2:
        raise InvalidSize(f"rows = {shape[1]} of interleaved = True must be even, gate and up in turn: pass gate_up_proj, or leave "
                          "interleaved out")
    blocks, scales = library.plain(blocks), library.plain(scales)
    scales = scales.view(library.module.uint8) if type_of(scales) == "e8m0" else scales
    for expert in range(shape[0]):  # one by one, as a mask of all would take memory
        wrong = scales[expert] == 255
        if not bool(wrong.any()):
            continue
        row, group = divmod(wrong.reshape(-1).tolist().index(True), shape[2])
        raise InvalidArgument(f"scales[{expert}][{row}][{group}] is 255, NaN, and must be at most 254, 2^127: load the checkpoint again, or "
                              "mend it")
    return blocks, scales


def _e4m3(magnitude: float) -> int:
    """Returns the code of the nearest e4m3 number, ties to even. 127 is NaN: no weight has a magnitude beyond 1.5 * 2^8."""
    if magnitude > 448:
        return 127
    if magnitude < 2 ** -6:
        return round(magnitude * 512)  # a subnormal; 8 of them are the code of 2^-6
    exponent = next(e for e in range(-6, 9) if magnitude < 2 ** (e + 1))
    return (exponent + 7) * 8 + round((magnitude / 2 ** exponent - 1) * 8)


def _table(library: Library) -> Array:
    """Returns the two e4m3 codes of each byte of blocks, for each shift, as words of 16 bits."""
    words: List[int] = []
    for shift in range(_LEAST_SHIFT, _MOST_SHIFT + 1):
        own = [_e4m3(abs(value) * 2.0 ** shift) + 128 * (code >> 3) for code, value in enumerate(E2M1)]
        # The low half of a byte is the first code (transformers, convert_moe_packed_tensors), and the low byte of a word lies first.
        words += [own[byte & 15] + 256 * own[byte >> 4] for byte in range(256)]
    table = library.empty((len(words),), "int16")
    table[...] = library.module.asarray([word - 65536 * (word >> 15) for word in words], dtype=table.dtype)
    return table


class _Chunk(NamedTuple):
    """A chunk of rows: ``codes`` of weights, and by block ``scales``, the exponent ``high`` of the largest magnitude and ``low`` of the
    lowest bit."""

    codes: Array
    scales: Array
    high: Array
    low: Array


def _chunk(library: Library, pairs: Array, exponents: Array, table: Array) -> _Chunk:
    """Converts rows x k/2 bytes with exponents of rows x k/32. ``pairs`` are a copy, so that their address is a multiple of 8."""
    rows, groups = exponents.shape
    exponents = library.cast(exponents, "int32") - 127
    tops, bottoms = _exponents_of_groups(library, pairs.view(library.module.int64).reshape(rows, groups, 2))
    high = library.amax(_by_block(library, tops + exponents, -_NOTHING))
    low = library.amin(_by_block(library, bottoms + exponents, _NOTHING))
    scale = library.clip(high - _TOP, _LEAST_SCALE, None)
    scale[high < -_NOTHING // 2] = 0
    of_rows = library.take(scale, library.counting(rows) // _BLOCK, 0)
    shift = exponents - library.take(of_rows, library.counting(groups) // (_BLOCK // _GROUP), 1)
    index = library.cast(pairs, "int64").reshape(rows, groups, _GROUP // 2)
    # Shifts out of range are those of groups of zeros, or round to zero.
    index += (256 * (library.clip(shift, _LEAST_SHIFT, _MOST_SHIFT) - _LEAST_SHIFT))[:, :, None]
    codes = library.take(table, index.reshape(-1), 0).view(library.module.uint8).reshape(rows, _GROUP * groups)
    return _Chunk(codes, ((scale + 127) << 23).view(library.type("fp32")), high, low)


def _exponents_of_groups(library: Library, words: Array) -> Tuple[Array, Array]:
    """Returns the exponents of the largest magnitude and of the lowest bit of each group, before its scale. ``words`` are rows x groups x
    2 of 64 bits, each with 16 codes. All codes of a word are tested at once, bit by bit."""
    ones, twos, fours = (words >> bit & 0x1111111111111111 for bit in range(3))
    # Codes 0 to 7 are 0, 0.5, 1, 1.5, 2, 3, 4 and 6. A later line outdoes an earlier one.
    tops = ((-1, ones), (0, twos), (1, fours), (2, fours & twos))
    bottoms = ((2, fours & twos), (1, fours & ~(twos ^ ones)), (0, (twos ^ ones) & ~(fours ^ ones)), (-1, ones & ~fours))

    def last_of(lines: Tuple[Tuple[int, Array], ...], nothing: int) -> Array:
        made = library.empty(words.shape[:2], "int32")
        made[...] = nothing
        for exponent, codes in lines:
            made[(codes[:, :, 0] | codes[:, :, 1]) != 0] = exponent
        return made

    return last_of(tops, -_NOTHING), last_of(bottoms, _NOTHING)


def _by_block(library: Library, numbers: Array, filler: int) -> Array:
    """Returns numbers of rows x groups as blocks of rows x blocks of k x 512. ``filler`` stands for those behind the ends."""
    rows, groups = numbers.shape
    down, across = -(-rows // _BLOCK), -(-groups // 4)
    padded = library.empty((down * _BLOCK, across * 4), "int32")
    padded[...] = filler
    padded[:rows, :groups] = numbers
    return padded.reshape(down, _BLOCK, across, 4).swapaxes(1, 2).reshape(down, across, 4 * _BLOCK)


def _check_exact(chunk: _Chunk, expert: int, rows: slice, k: int, interleaved: bool) -> None:
    wrong = chunk.high - chunk.low > _TOP - _BOTTOM
    if not bool(wrong.any()):
        return
    down, across = divmod(wrong.reshape(-1).tolist().index(True), wrong.shape[1])
    high, low = int(chunk.high[down, across]), int(chunk.low[down, across])
    row, column = rows.start + _BLOCK * down, _BLOCK * across
    place = f"[{expert}, {row}:{min(row + _BLOCK, rows.stop)}, {column}:{min(column + _BLOCK, k)}]"
    raise InvalidArgument(
        f"blocks hold a block of 128 x 128 that is not exact in e4m3, {place} of the result{' (gate, then up)' if interleaved else ''}: its "
        f"largest magnitude is 2^{high} or more and its lowest bit 2^{low}, {high - low} binades apart, and must be at most "
        f"{_TOP - _BOTTOM} apart: pass inexact='round', which errs by up to 2^{high - _TOP + _BOTTOM - 1} there, or dequantise these experts "
        "to 16 bits")


@contextlib.contextmanager
def _bar(experts: int, show: Optional[bool]) -> Iterator[Callable[[], Any]]:
    """Yields a function that counts an expert on the bar of ``sluice.decode``, which needs torch. Without a bar it does nothing."""
    is_terminal = getattr(sys.stderr, "isatty", lambda: False)
    if not ("sluice.torch" in sys.modules and is_terminal() if show is None else show):
        yield lambda: None
        return
    from ..torch.decode.progress import Progress
    with Progress("MXFP4 to FP8: experts", experts, True) as bar:
        yield bar.step
