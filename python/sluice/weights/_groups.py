# SPDX-License-Identifier: Apache-2.0
"""How a row of k columns falls into groups, and what numbers a code of 4 or 8 bits has. For the modules of sluice.weights."""
from __future__ import annotations

from typing import Iterator, Tuple

from .._arguments import integer
from ..errors import InvalidArgument
from ._arrays import Array

BITS = (4, 8)


def check_bits(bits: object) -> int:
    number = integer("bits", bits)
    if number not in BITS:
        raise InvalidArgument(f"bits = {number} must be 4 or 8: other widths have no kernels, so quantise the weights again")
    return number


def implied_zero(bits: int) -> int:
    """The zero of symmetric codes, in the middle: 8 of 4 bits, 128 of 8."""
    return 1 << (bits - 1)


def group_count(k: int, group: int) -> int:
    return -(-k // group) if group else 1


def group_parts(k: int, group: int) -> Iterator[Tuple[int, int, int]]:
    """(first column, groups, columns of each) of the whole groups, then of the short one at the end; each if it is there."""
    width = group or k
    whole = k // width
    if whole:
        yield 0, whole, width
    if k % width:
        yield whole * width, 1, k % width


def group_view(matrix: Array, part: Tuple[int, int, int]) -> Array:
    """Those columns as rows x groups x columns of a group, without a copy (``matrix`` has contiguous rows)."""
    first, groups, width = part
    return matrix[:, first:first + groups * width].reshape(matrix.shape[0], groups, width)
