# SPDX-License-Identifier: Apache-2.0
"""What packed weights are, and what a product with them is: formats, sizes, types. No GPU, no torch."""
from __future__ import annotations

import ctypes
import dataclasses
from typing import Optional

from . import errors
from ._arguments import entry, integer, shown, size_of, switch_of
from ._library import PackedProblemStruct, PackedNumbersStruct, WeightFormatStruct, lib
from .problems import ACTIVATIONS, DTYPES, SCALES, number_of

WEIGHT_TYPES = ("uint4", "int8", "e4m3")
ORDERS = ("half", "byte")
CODE_BITS = {"uint4": 4, "int8": 8, "e4m3": 8}


@entry
@dataclasses.dataclass(frozen=True)
class WeightFormat:
    """How weights are packed: ``W = scale * (code - zero)``, a scale for each ``group`` (32, 64, 128; 0 is all of k).

    The fields and their defaults:

    - ``type`` = "uint4": codes 0 to 15. "int8": the value + 128. "e4m3": its bits.
    - ``group`` = 128: columns that share a scale; 32, 64 or 128, and 0 for one scale a row.
    - ``scale`` = "fp16": the type of scales and zeros; "bf16" or "fp32".
    - ``zeros`` = False: the zero is 8 (uint4), 128 (int8) or 0 (e4m3). True: one is stored beside each scale.
    - ``order`` = "half": for 16-bit tokens. "byte": for e4m3 tokens (uint4 only).
    """

    type: str = "uint4"
    group: int = 128
    scale: str = "fp16"
    zeros: bool = False
    order: str = "half"

    def struct(self) -> WeightFormatStruct:
        """As the C interface has it. Raises ``InvalidArgument`` for a name that is none."""
        group = size_of("group", self.group)
        if not 0 <= group < 2**15:
            raise errors.InvalidConfig(f"group = {group}: group must be 32, 64, 128, or 0 for one scale a row")
        return WeightFormatStruct(type=number_of("type", self.type, WEIGHT_TYPES), group=group,
                                  scale=number_of("scale", self.scale, DTYPES), zeros=switch_of("zeros", self.zeros),
                                  order=number_of("order", self.order, ORDERS))

    @property
    def text(self) -> str:
        """In a few words, as ``repr`` of packed weights has it."""
        zeros, order = ", zeros" if self.zeros else "", "" if self.order == "half" else ", byte order"
        return f"{self.type} by {self.group or 'row'}, {self.scale} scales{zeros}{order}"

    @property
    def number(self) -> int:
        """All of it in one number, as the compiled functions and state dicts have it."""
        s = self.struct()
        return s.type | s.scale << 4 | s.zeros << 8 | s.order << 9 | s.group << 16

    @classmethod
    def from_number(cls, number: int) -> "WeightFormat":
        number = integer("number", number)
        try:
            made = cls(WEIGHT_TYPES[number & 15], number >> 16, DTYPES[number >> 4 & 15], bool(number >> 8 & 1),
                       ORDERS[number >> 9 & 1])
            known = made.number == number
        except (IndexError, errors.Error):
            known = False
        if not known:
            raise errors.InvalidArgument(f"{shown(number)} is no weight format of this version: it was written by another one, or is "
                                         "something else")
        return made

    def numbers(self, n: int, k: int) -> "PackedNumbers":
        """Where the parts of a blob of n x k weights are. Raises ``InvalidConfig`` if the format breaks a rule."""
        found = PackedNumbersStruct()
        lib.sluice_packed_numbers_of(ctypes.byref(self.struct()), size_of("n", n), size_of("k", k), ctypes.byref(found))
        return PackedNumbers(**{name: getattr(found, name) for name, _ in PackedNumbersStruct._fields_})


@entry
@dataclasses.dataclass(frozen=True)
class PackedNumbers:
    """Bytes of a blob (docs/packing.md): ``strips`` of 64 rows, in each ``tiles`` of 128 k, then the row part if ``group`` is
    0. ``groups``: scales of a row. ``stored_bits``: of the blob for each weight, scales and padding too."""

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


@entry
@dataclasses.dataclass(frozen=True)
class PackedProblem:
    """``D = act(scale_x * X W^T + bias)``: X m x k in 16 bits or e4m3, W n x k packed, D m x n.

    Types are names. ``d`` left out is X's type, or bf16 if that is e4m3. Strides (``x_ld``, ``d_ld``, in elements) are 0 where
    rows are packed. ``bias`` is the type of a bias, None without. ``scale_x``, of e4m3 tokens: "none", "tensor" (one fp32) or
    "vector" (one for each token).
    """

    m: int
    n: int
    k: int
    weights: WeightFormat = WeightFormat()
    x: str = "bf16"
    d: Optional[str] = None
    bias: Optional[str] = None
    activation: str = "none"
    x_ld: int = 0
    d_ld: int = 0
    scale_x: str = "none"

    def struct(self) -> PackedProblemStruct:
        """As the C interface has it. Raises ``InvalidArgument`` for a name that is none."""
        if not isinstance(self.weights, WeightFormat):
            raise errors.InvalidArgument(f"weights = {shown(self.weights)} must be a sluice.WeightFormat, as packed.format is")
        x = number_of("x", self.x, DTYPES)
        output = self.d if self.d is not None else "bf16" if DTYPES[x] == "e4m3" else DTYPES[x]
        return PackedProblemStruct(
            m=size_of("m", self.m), n=size_of("n", self.n), k=size_of("k", self.k), x=x, d=number_of("d", output, DTYPES),
            scale_x=number_of("scale_x", self.scale_x, SCALES), weights=self.weights.struct(), bias=int(self.bias is not None),
            bias_type=number_of("bias", self.bias, DTYPES) if self.bias is not None else 0,
            activation=number_of("activation", self.activation, ACTIVATIONS), x_ld=size_of("x_ld", self.x_ld),
            d_ld=size_of("d_ld", self.d_ld))
