# SPDX-License-Identifier: Apache-2.0
"""Describes packed weights and products with them: formats, sizes, types. Needs neither a GPU nor torch."""
from __future__ import annotations

import ctypes
import dataclasses
from typing import Optional, Tuple

from . import errors
from ._arguments import entry, integer, shown, size_of, switch_of
from ._library import PackedNumbersStruct, ProblemStruct, WeightFormatStruct, lib
from .problems import ACTIVATIONS, DTYPES, SCALES, number_of

WEIGHT_TYPES = ("uint4", "int8", "e4m3")
ORDERS = ("half", "byte")
CODE_BITS = {"uint4": 4, "int8": 8, "e4m3": 8}


@entry
@dataclasses.dataclass(frozen=True)
class WeightFormat:
    """A format of packed weights: ``W = scale * (code - zero)``, with one scale per ``group`` columns of a row.

    The fields and their defaults:

    - ``type`` = "uint4": codes are 0 to 15. "int8": a code is the value + 128. "e4m3": a code is the value's bits.
    - ``group`` = 128: columns that share a scale; 32, 64 or 128, or 0 for one scale per row.
    - ``scale`` = "fp16": the type of scales and zeros; "bf16" or "fp32".
    - ``zeros`` = False: the zero point is 8 (uint4), 128 (int8) or 0 (e4m3). True: one zero point is stored per scale.
    - ``order`` = "half": codes are stored in the order that 16-bit tokens need; "byte": in the order that e4m3 tokens need
      (uint4 only).
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
        return WeightFormatStruct(type=number_of("type", self.type, WEIGHT_TYPES), group=group,
                                  scale=number_of("scale", self.scale, DTYPES), zeros=switch_of("zeros", self.zeros),
                                  order=number_of("order", self.order, ORDERS))

    @property
    def text(self) -> str:
        """The format in a few words, as ``repr`` of packed weights shows it."""
        zeros, order = ", zeros" if self.zeros else "", "" if self.order == "half" else ", byte order"
        return f"{self.type} by {self.group or 'row'}, {self.scale} scales{zeros}{order}"

    @property
    def values(self) -> Tuple[int, int, int, int, int]:
        """``type``, ``group``, ``scale``, ``zeros`` and ``order`` as numbers of the C interface."""
        s = self.struct()
        return s.type, s.group, s.scale, s.zeros, s.order

    @property
    def number(self) -> int:
        """The whole format as one number, as the state of a layer stores it."""
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
        """Returns the sizes of the parts of a blob of n x k weights. Raises ``InvalidConfig`` if the format breaks a
        rule."""
        found = PackedNumbersStruct()
        lib.sluice_packed_numbers_of(ctypes.byref(self.struct()), size_of("n", n), size_of("k", k), ctypes.byref(found))
        return PackedNumbers(**{name: getattr(found, name) for name, _ in PackedNumbersStruct._fields_})


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


@entry
@dataclasses.dataclass(frozen=True)
class PackedProblem:
    """A product with packed weights: ``D = act(scale_x * X W^T + bias) + C``.

    X is m x k in 16 bits or e4m3, W is n x k and packed, D is m x n. The fields and their defaults; types are names:

    - ``m``, ``n``, ``k``: sizes. ``weights`` = WeightFormat(): the format of W.
    - ``x`` = "bf16": the type of X, the tokens; "fp16" or "e4m3". ``d`` = None: D has X's type, or bf16 if that is e4m3.
    - ``bias`` = None: the type of a bias with one value per row of W.
    - ``activation`` = "none", "relu", "gelu" (the exact one) or "silu".
    - ``x_ld`` = 0, ``d_ld`` = 0, ``c_ld`` = 0: the row pitch in elements. 0: rows have no gaps.
    - ``scale_x`` = "none": the fp32 scales of e4m3 tokens; "tensor" is one value, "vector" one per token.
    - ``gated`` = False: True makes D m x n / 2, the activation of W's first half of rows times its second half. n is a
      multiple of 16, and W is packed with ``gated=True``.
    - ``c`` = False: True adds a residual C of D's type after the activation (at most 64 tokens in 16 bits; not gated).
    - ``scale_d`` = "none": "tensor" divides the result by one fp32 before it is rounded to an e4m3 D.
    - ``norm_x`` = False: True applies RMSNorm to the tokens first, with a gamma of k values (at most 8 bf16 tokens).
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
    gated: bool = False
    c: bool = False
    c_ld: int = 0
    scale_d: str = "none"
    norm_x: bool = False

    def struct(self) -> ProblemStruct:
        """Returns the struct of the C interface. Raises ``InvalidArgument`` for an unknown name."""
        if not isinstance(self.weights, WeightFormat):
            raise errors.InvalidArgument(f"weights = {shown(self.weights)} must be a sluice.WeightFormat, as packed.format is")
        x = number_of("x", self.x, DTYPES)
        d = number_of("d", self.d if self.d is not None else "bf16" if DTYPES[x] == "e4m3" else DTYPES[x], DTYPES)
        residual = switch_of("c", self.c)
        return ProblemStruct(
            m=size_of("m", self.m), n=size_of("n", self.n), k=size_of("k", self.k), batch=1, packed=1, a=x, d=d,
            scale_a=number_of("scale_x", self.scale_x, SCALES), scale_d=number_of("scale_d", self.scale_d, SCALES),
            weights=self.weights.struct(), bias=int(self.bias is not None),
            bias_type=number_of("bias", self.bias, DTYPES) if self.bias is not None else 0,
            activation=number_of("activation", self.activation, ACTIVATIONS), gated=switch_of("gated", self.gated), residual=residual,
            c_type=d if residual else 0, norm_x=switch_of("norm_x", self.norm_x), a_ld=size_of("x_ld", self.x_ld),
            d_ld=size_of("d_ld", self.d_ld), c_ld=size_of("c_ld", self.c_ld))

    def flags(self) -> str:
        """Returns the problem as flags of the ``sluice`` program: ``sluice tune``, ``plan`` and ``compile`` with them, or a
        line of a ``--shapes`` file, treat exactly this problem. Raises ``InvalidArgument`` for an unknown name."""
        from ._flags import flags_of

        return flags_of(self.struct())

    def check(self) -> None:
        """Raises the error that a product of this problem would raise for its sizes, types and strides. Plans nothing
        and needs no GPU."""
        lib.sluice_problem_check(ctypes.byref(self.struct()))
