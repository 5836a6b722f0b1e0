# SPDX-License-Identifier: Apache-2.0
"""Rounds float weights to 4 or 8 bits, each group independently and without calibration. For calibrated weights, import a GPTQ or
AWQ checkpoint. Rounding is a simple reference, accurate enough for tests, benchmarks and models that tolerate it.
"""
from __future__ import annotations

from typing import Optional

from .._arguments import entry, integer, switch_of
from .._names import number_of
from ..errors import InvalidArgument, InvalidSize
from ._arrays import Array, Library, check_matrix, check_type, library_of, type_of
from ._groups import check_bits, group_count, group_parts, group_view, implied_zero
from .canonical import SCALE_TYPES, QuantizedWeights

_ELEMENTS_AT_ONCE = 1 << 24  # rows are processed in blocks of about this many elements, so that an fp32 copy takes 64 MB


@entry
def quantize_groups(weight: Array, group: int = 128, *, symmetric: bool = True, scale_type: Optional[str] = None,
                    bits: int = 4) -> QuantizedWeights:
    """Rounds a bf16, fp16 or fp32 weight, n x k, to the nearest codes, with one scale per ``group`` columns of a row (0:
    all of k).

    It computes in fp32 with top = 15 (255 for 8 bits). ``round`` rounds to nearest even, and ``clip`` clamps to 0..top. The
    scale is rounded to ``scale_type`` (by default the weight's type) before it is used:

        symmetric:  scale = max|w| / (top / 2)              zero = 8 (128)
        else:       scale = (max(w, 0) - min(w, 0)) / top   zero = clip(round(-min(w, 0) / scale))
                    code = clip(round(w / scale) + zero)    w is about scale * (code - zero)

    The error of an element is at most half a scale. If the scale was rounded down, the error may grow by ``top`` times the scale's
    rounding error. A scale that rounds to 0 makes its group 0. Synchronises once with the GPU, to check that every scale is finite.
    Raises ``InvalidArgument`` if one is not, and ``InvalidSize`` or ``InvalidType`` for a weight of another shape or type.
    """
    library = library_of(weight=weight)
    check_matrix("weight", weight, "n x k")
    check_type("weight", weight, SCALE_TYPES, "convert it")
    if integer("group", group) < 0:
        raise InvalidSize(f"group = {group} must be 0 (all of k) or positive")
    switch_of("symmetric", symmetric)
    check_bits(bits)
    scale_type = type_of(weight) if scale_type is None else scale_type
    scale_type = SCALE_TYPES[number_of("scale_type", scale_type, SCALE_TYPES)]

    weight = library.plain(weight)
    n, k = weight.shape
    shape = (n, group_count(k, group))
    codes, scales = library.empty((n, k), "uint8"), library.empty(shape, scale_type)
    zeros = None if symmetric else library.empty(shape, scale_type)
    step = max(1, _ELEMENTS_AT_ONCE // k)
    with library.quiet():
        for first in range(0, n, step):
            rows = slice(first, first + step)
            own_zeros = None if zeros is None else zeros[rows]
            _quantize_rows(library, library.cast(weight[rows], "fp32"),
                           QuantizedWeights(codes[rows], scales[rows], own_zeros, group, bits=bits))
    if not library.all_finite(scales):
        raise InvalidArgument(f"weight holds values that are not finite, or too large for scales of {scale_type}: mend the "
                              "weight, or pass scale_type='fp32'")
    return QuantizedWeights(codes, scales, zeros, group, bits=bits)


def _quantize_rows(library: Library, values: Array, out: QuantizedWeights) -> None:
    top = (1 << out.bits) - 1
    group = 0
    for part in group_parts(out.shape[1], out.group):
        view, own = group_view(values, part), slice(group, group + part[1])
        if out.zeros is None:
            out.scales[:, own] = library.divide_by(library.amax(abs(view)), top / 2)
        else:
            low = library.clip(library.amin(view), None, 0)
            out.scales[:, own] = library.divide_by(library.clip(library.amax(view), 0, None) - low, top)
        divisor = library.one_for_zero(library.cast(out.scales[:, own], "fp32"))
        zero = implied_zero(out.bits)
        if out.zeros is not None:
            rounded = library.clip(library.round_even(-low / divisor), 0, top)
            out.zeros[:, own] = rounded
            zero = rounded[:, :, None]
        group_view(out.codes, part)[...] = library.clip(library.round_even(view / divisor[:, :, None]) + zero, 0, top)
        group += part[1]
