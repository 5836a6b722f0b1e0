# SPDX-License-Identifier: Apache-2.0
"""Packed weights of several experts: one blob for each, of one size and format, in one array."""
from __future__ import annotations

import dataclasses
from typing import Any, Sequence, Tuple

from . import errors
from ._arguments import entry, integer, shown
from .formats import WeightFormat
from .packed import PackedWeights
from .problems import Problem
from .weights._arrays import Array, library_of


@entry
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PackedExperts:
    """The weights of experts, n outputs x k columns each. ``stack_packed`` makes them.

    - ``blob``: uint8, experts x bytes; each row is the blob of a ``PackedWeights``.
    - ``n``, ``k``, ``format``, ``gated``: of each expert, as in ``PackedWeights``.
    """

    blob: Array
    n: int
    k: int
    format: WeightFormat
    gated: bool = False
    numbers: Tuple[int, ...] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        library_of(blob=self.blob)
        if len(self.blob.shape) != 2 or self.blob.shape[0] == 0:
            raise errors.InvalidSize(f"blob has shape {tuple(self.blob.shape)} and must have two dimensions: a blob for each expert")
        first = self.expert(0)  # checks what is the same for all
        object.__setattr__(self, "numbers", first.numbers)

    def __len__(self) -> int:
        return int(self.blob.shape[0])

    def __repr__(self) -> str:
        gated = ", gated" if self.gated else ""
        return f"<sluice.PackedExperts {len(self)} x {self.n}x{self.k}, {self.format.text}{gated}, {self.nbytes} bytes>"

    @property
    def nbytes(self) -> int:
        """Bytes of all experts."""
        return int(self.blob.shape[0] * self.blob.shape[1])

    def expert(self, number: int) -> PackedWeights:
        """Returns the weights of one expert, as a view of the blob. Raises ``InvalidSize`` for one that there is not."""
        if not 0 <= integer("number", number) < len(self):
            raise errors.InvalidSize(f"number = {number} must be in 0..{len(self) - 1}: there are so many experts")
        return PackedWeights(self.blob[number], self.n, self.k, self.format, gated=self.gated)

    def problem(self, rows: int, a: str = "bf16", **more: Any) -> Problem:
        """Returns the problem of ``rows`` rows of all experts, whose ends are in a table, for ``plan`` and ``prepare``. ``more`` holds
        other fields of ``Problem``."""
        self.check_gated(more.get("gated", False))
        return Problem(rows, self.n, self.k, batch=len(self), a=a, packed=self.format, **{"groups": "ends", **more})

    def check_gated(self, gated: bool) -> None:
        """Raises ``InvalidConfig`` unless these weights are packed for a product with this value of ``gated``."""
        self.expert(0).check_gated(gated)


@entry
def stack_packed(weights: Sequence[PackedWeights]) -> PackedExperts:
    """Returns packed weights of equal sizes and formats as those of experts. The blobs are copied into one array. Raises
    ``InvalidArgument`` for weights that differ, or that have a permutation (act-order)."""
    if not isinstance(weights, (list, tuple)):
        raise errors.InvalidType(f"weights = {shown(weights)} must be a list: the packed weights of each expert")
    if not weights:
        raise errors.InvalidArgument("weights is empty: give the packed weights of each expert")
    first = weights[0]
    for number, each in enumerate(weights):
        if not isinstance(each, PackedWeights):
            raise errors.InvalidType(f"weights[{number}] = {shown(each)} must be sluice.PackedWeights: pack each expert first")
        if (each.numbers, each.gated) != (first.numbers, first.gated):
            raise errors.InvalidArgument(f"weights[{number}] is {each!r} and weights[0] is {first!r}: all experts must have one size and "
                                         "format; pack them alike")
        if each.permutation is not None:
            raise errors.InvalidArgument(f"weights[{number}] has a permutation (act-order), and rows of experts are not permuted: pack it "
                                         "without one")
    library = library_of(**{f"blob{number}": each.blob for number, each in enumerate(weights)})
    blob = library.empty((len(weights), first.nbytes), "uint8")
    for row, each in zip(blob, weights):
        row[:] = each.blob
    return PackedExperts(blob, first.n, first.k, first.format, first.gated)
