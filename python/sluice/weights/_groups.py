# SPDX-License-Identifier: Apache-2.0
"""Splits a row of k columns into groups that share a scale, and gives the zero point of 4-bit and 8-bit codes."""
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
    """Returns the zero point of symmetric codes, the middle of their range: 8 for 4 bits, 128 for 8 bits."""
    return 1 << (bits - 1)


def group_count(k: int, group: int) -> int:
    return -(-k // group) if group else 1


def group_parts(k: int, group: int) -> Iterator[Tuple[int, int, int]]:
    """Yields (first column, number of groups, columns per group) for the full groups, then for the short last group. Each is
    left out if it does not exist."""
    width = group or k
    whole = k // width
    if whole:
        yield 0, whole, width
    if k % width:
        yield whole * width, 1, k % width


def group_view(matrix: Array, part: Tuple[int, int, int]) -> Array:
    """Returns the columns of ``part`` as a view of shape (rows, groups, columns per group). ``matrix`` has contiguous
    rows."""
    first, groups, width = part
    return matrix[:, first:first + groups * width].reshape(matrix.shape[0], groups, width)
