# SPDX-License-Identifier: Apache-2.0
"""Describes packed weights: formats and sizes. Needs neither a GPU nor torch."""
from __future__ import annotations

import ctypes
import dataclasses
from typing import Tuple

from . import errors
from ._arguments import entry, integer, shown, size_of, switch_of
from ._library import PackedNumbersStruct, WeightFormatStruct, lib
from ._names import DTYPES, number_of

WEIGHT_TYPES = ("uint4", "int8", "e4m3", "e2m1")
ORDERS = ("half", "byte")
CODE_BITS = {"uint4": 4, "int8": 8, "e4m3": 8, "e2m1": 4}


@entry
@dataclasses.dataclass(frozen=True)
class WeightFormat:
    """A format of packed weights: ``W = scale * (code - zero)``, with one scale per ``group`` columns of a row.

    The fields and their defaults:

    - ``type`` = "uint4": codes are 0 to 15. "int8": a code is the value + 128. "e4m3", "e2m1": a code is the value's bits.
    - ``group`` = 128: columns that share a scale; 32, 64 or 128, or 0 for one scale per row.
    - ``scale`` = "fp16": the type of scales and zeros; "bf16" or "fp32". "e8m0": powers of two, as bytes (``MXFP4`` only).
    - ``zeros`` = False: the zero point is 8 (uint4), 128 (int8) or 0 (e4m3). True: one zero point is stored per scale.
    - ``order`` = "half": codes are stored in the order that 16-bit tokens need; "byte": in the order that e4m3 tokens need
      (uint4 only).

    e2m1 weights have one format, ``MXFP4``.
    """

    type: str = "uint4"
    group: int = 128
    scale: str = "fp16"
    zeros: bool = False
    order: str = "half"

    def struct(self) -> WeightFormatStruct:
        """Returns the struct of the C interface. Raises ``InvalidArgument`` for an unknown name, and
        ``InvalidConfig`` for a ``group`` that does not fit the struct's field."""
        group = size_of("group", self.group)
        if not 0 <= group < 2**15:
            raise errors.InvalidConfig(f"group = {group}: group must be 32, 64, 128, or 0 for one scale a row")
        return WeightFormatStruct(type=number_of("type", self.type, WEIGHT_TYPES) + 1, group=group,
                                  scale=number_of("scale", self.scale, DTYPES), zeros=switch_of("zeros", self.zeros),
                                  order=number_of("order", self.order, ORDERS))

    @property
    def text(self) -> str:
        """The format in a few words, as ``repr`` of packed weights shows it."""
        zeros, order = ", zeros" if self.zeros else "", "" if self.order == "half" else ", byte order"
        return f"{self.type} by {self.group or 'row'}, {self.scale} scales{zeros}{order}"

    @property
    def values(self) -> Tuple[int, int, int, int, int]:
        """``type``, ``group``, ``scale``, ``zeros`` and ``order`` as numbers, as ops and saved graphs have them. They are those of
        the C interface, but for ``type``, which is one less."""
        s = self.struct()
        return s.type - 1, s.group, s.scale, s.zeros, s.order

    @property
    def number(self) -> int:
        """The whole format as one number, as the state of a layer stores it."""
        s = self.struct()
        return s.type - 1 | s.scale << 4 | s.zeros << 8 | s.order << 9 | s.group << 16

    @classmethod
    def from_struct(cls, s: WeightFormatStruct) -> "WeightFormat":
        return cls(WEIGHT_TYPES[s.type - 1], s.group, DTYPES[s.scale], bool(s.zeros), ORDERS[s.order])

    @classmethod
    def from_number(cls, number: int) -> "WeightFormat":
        number = integer("number", number)
        try:
            made = cls.from_struct(WeightFormatStruct((number & 15) + 1, number >> 16, number >> 4 & 15, number >> 8 & 1, number >> 9 & 1))
            known = made.number == number
        except (IndexError, errors.Error):
            known = False
        if not known:
            raise errors.InvalidArgument(f"{shown(number)} is no weight format of this version: it was written by another one, or is "
                                         "something else")
        return made

    def numbers(self, n: int, k: int) -> "PackedNumbers":
        """Returns the sizes of the parts of a blob of n x k weights. Raises ``InvalidConfig`` if the format breaks a
        rule."""
        found = PackedNumbersStruct()
        lib.sluice_packed_numbers_of(ctypes.byref(self.struct()), size_of("n", n), size_of("k", k), ctypes.byref(found))
        return PackedNumbers(**{name: getattr(found, name) for name, _ in PackedNumbersStruct._fields_})


MXFP4 = WeightFormat("e2m1", 32, "e8m0")
"""The format of MXFP4 weights, such as gpt-oss's: e2m1 codes, and a power of two for each 32 columns."""
_DEFAULTS = {"e2m1": MXFP4}


def default_format(kind: object) -> WeightFormat:
    """Returns the format of a type of weights if nothing else is asked for."""
    return _DEFAULTS.get(kind, WeightFormat())


@entry
@dataclasses.dataclass(frozen=True)
class PackedNumbers:
    """Sizes of the parts of a blob in bytes (docs/packing.md).

    A blob consists of ``strips`` strips of 64 rows. Each strip holds ``tiles`` tiles of 128 columns, then, if ``group`` is 0, the
    scales of its rows. ``groups`` is the number of scales per row. ``stored_bits`` is the blob's bits per weight, with scales and
    padding.
    """

    groups: int
    strips: int
    tiles: int
    strip_bytes: int
    tile_bytes: int
    row_part_bytes: int
    blob_bytes: int
    tile_scales_offset: int
    tile_zeros_offset: int
    stored_bits: float
