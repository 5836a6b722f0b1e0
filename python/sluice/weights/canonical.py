# SPDX-License-Identifier: Apache-2.0
"""The canonical form of quantised weights. Every importer of a checkpoint produces it, and ``pack_quantized`` reads it.

Each byte holds one code. Each group of a row has a scale and optionally a zero point, and groups are contiguous along k. No
kernel reads this form; kernels read packed weights.
"""
from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

from .._arguments import check_span, entry, integer, shown
from .._names import number_of
from ..errors import InvalidArgument, InvalidSize, InvalidType
from ._arrays import Array, Library, check_matrix, check_shape, check_type, library_of, type_of
from ._groups import check_bits, group_count, group_parts, group_view, implied_zero

SCALE_TYPES = ("fp16", "bf16", "fp32")
FLOATS = ("fp32", "fp64")
# The values of e2m1 codes and of e8m0 scales (OCP Microscaling Formats, sections 5.3.3 and 5.4.1).
E2M1 = tuple(sign * value for sign in (1.0, -1.0) for value in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0))
E8M0 = (*(2.0 ** (byte - 127) for byte in range(255)), float("nan"))


@entry
@dataclasses.dataclass(frozen=True, eq=False)
class QuantizedWeights:
    """Weights of n outputs x k columns: ``W[o, i] = scales[o, i // group] * (codes[o, i] - zeros[o, i // group])``.

    With ``type`` = "e2m1" (MXFP4) it is ``W[o, i] = 2 ** (scales[o, i // 32] - 127) * e2m1(codes[o, i])``.

    - ``codes``: uint8, n x k, from 0 to 15 (``bits`` 4) or to 255 (``bits`` 8).
    - ``scales``: fp16, bf16 or fp32, n x groups. ``zeros``: of the same shape and type, or None for symmetric codes, whose zero
      point is 8 (128 for 8 bits).
    - ``group``: columns that share a scale; the last group may be shorter, and 0 means all of k. Any size is accepted here,
      but kernels need 32, 64, 128 or 0.
    - ``permutation``: None, or k indices. Column i of ``codes`` is multiplied by column ``permutation[i]`` of the tokens, so
      ``D = X[:, permutation] @ W.T``. Checkpoints with act-order have one, because their groups are not contiguous.
    - ``width``: the number of columns of those tokens; None means k. For a shard along k it exceeds k (see ``columns()``).
    - ``type``: None for integers of ``bits`` bits. "e2m1": codes are the bits of e2m1 numbers, scales are uint8, ``group`` is 32 and
      there are no zeros.
    """

    codes: Array
    scales: Array
    zeros: Optional[Array]
    group: int
    permutation: Optional[Array] = None
    bits: int = 4
    width: Optional[int] = None
    type: Optional[str] = None

    def __post_init__(self) -> None:
        library_of(codes=self.codes, scales=self.scales, zeros=self.zeros, permutation=self.permutation)
        check_bits(self.bits)
        if integer("group", self.group) < 0:
            raise InvalidSize(f"group = {self.group} must be 0 (all of k) or positive")
        check_matrix("codes", self.codes, "n x k")
        check_type("codes", self.codes, ("uint8",), "a byte holds one code, 0..15 of 4 bits; symmetric values + 8")
        if self.type not in (None, "e2m1"):
            raise InvalidArgument(f"type = {shown(self.type)} must be None (integers of 4 or 8 bits) or 'e2m1'")
        if self.type is not None and ((self.bits, self.group) != (4, 32) or self.zeros is not None):
            raise InvalidArgument(f"bits = {self.bits}, group = {self.group}, zeros {'left out' if self.zeros is None else 'given'}: e2m1 "
                                  "codes must have 4 bits, groups of 32 and no zeros; leave out bits and zeros, and quantise again")
        check_type("scales", self.scales, SCALE_TYPES if self.type is None else ("uint8",), "convert them")
        n, k = self.shape
        wanted = (n, group_count(k, self.group))
        check_shape("scales", self.scales, wanted, f"n x groups of {self.group or k} columns")
        if self.zeros is not None:
            check_shape("zeros", self.zeros, wanted, "as the scales")
            check_type("zeros", self.zeros, (type_of(self.scales),), "zeros are kept in the scales' type")
        if self.permutation is not None:
            check_shape("permutation", self.permutation, (k,), "an index for each column of codes")
            check_type("permutation", self.permutation, ("int32", "int64"), "it holds columns of the tokens")
        check_width(self.width, k, self.permutation is not None)

    @property
    def shape(self) -> Tuple[int, int]:
        """``(n, k)``."""
        n, k = self.codes.shape
        return n, k

    @property
    def weight_type(self) -> str:
        """The ``type`` of these weights' ``WeightFormat``."""
        return self.type or ("uint4" if self.bits == 4 else "int8")

    def rows(self, start: int, stop: int) -> "QuantizedWeights":
        """Returns outputs ``start`` to ``stop``, a column-parallel shard, as views, with the same permutation. Raises
        ``InvalidSize`` if they are out of range."""
        check_span("rows", start, stop, self.shape[0])
        return dataclasses.replace(self, codes=self.codes[start:stop], scales=self.scales[start:stop],
                                   zeros=None if self.zeros is None else self.zeros[start:stop])

    def columns(self, start: int, stop: int) -> "QuantizedWeights":
        """Returns columns ``start`` to ``stop``, a row-parallel shard, as views. Raises ``InvalidSize`` if they cut a group or are
        out of range.

        The shard's permutation still holds column numbers of the unsharded tokens. Its product is
        ``X[:, shard.permutation] @ shard.T``, where X is not sharded. If the previous layer produces X in shards, apply
        ``reorder_rows(permutation)`` to that layer first.
        """
        k = self.shape[1]
        check_span("columns", start, stop, k)
        first, last = 0, 1
        if self.group:
            if start % self.group or (stop % self.group and stop != k):
                raise InvalidSize(f"columns {start} to {stop} cut a group: both must be multiples of group = {self.group}, or "
                                  f"the end be k = {k}; shard by whole groups, or quantise with a group that divides the shard")
            first, last = start // self.group, group_count(stop, self.group)
        return dataclasses.replace(
            self, codes=self.codes[:, start:stop], scales=self.scales[:, first:last],
            zeros=None if self.zeros is None else self.zeros[:, first:last],
            permutation=None if self.permutation is None else self.permutation[start:stop],
            width=None if self.permutation is None else k if self.width is None else self.width)

    def reorder_rows(self, order: Array) -> "QuantizedWeights":
        """Returns a copy whose output j is output ``order[j]`` of these weights. Raises ``InvalidArgument`` unless ``order`` holds
        each output number once.

        A layer reordered by the next layer's permutation produces its outputs in the order in which the next layer reads them. The
        next layer then needs no permutation, and the shards of both layers match:

            down, perm = dataclasses.replace(down, permutation=None), down.permutation
            gate, up = gate.reorder_rows(perm), up.reorder_rows(perm)      # and their biases: bias[perm]
        """
        library = library_of(codes=self.codes, order=order)
        check_shape("order", order, (self.shape[0],), "one for each output")
        check_type("order", order, ("int32", "int64"), "it holds outputs")
        if not bool((order[library.stable_order(order)] == library.counting(self.shape[0])).all()):
            raise InvalidArgument(f"order must hold each output 0 to {self.shape[0] - 1} once: give a whole permutation, not "
                                  "a shard's")
        return dataclasses.replace(self, codes=library.take(self.codes, order, 0), scales=library.take(self.scales, order, 0),
                                   zeros=None if self.zeros is None else library.take(self.zeros, order, 0))


def check_quantized(weights: object) -> None:
    if not isinstance(weights, QuantizedWeights):
        raise InvalidType(f"weights = {shown(weights)} must be sluice.weights.QuantizedWeights, and is of type "
                          f"{type(weights).__name__}: an importer or quantize_groups() makes them")


def check_width(width: Optional[int], k: int, has_permutation: bool) -> None:
    """Checks ``width``, the number of columns of the tokens that a permutation of k columns selects from. Raises
    ``InvalidArgument`` for a width without a permutation, and ``InvalidSize`` for a width below k."""
    if width is not None and not has_permutation:
        raise InvalidArgument(f"width = {shown(width)} says whose columns a permutation holds, and there is none: leave it out")
    if width is not None and integer("width", width) < k:
        raise InvalidSize(f"width = {width} is less than k = {k}: it is the columns of the whole tokens; leave it out, if they are k")


def check_permutation(library: Library, permutation: Array, width: int) -> None:
    """Raises ``InvalidArgument`` unless a permutation holds distinct columns, each below ``width``. It reads the values, so it
    synchronises with the GPU."""
    if permutation.shape[0] == 0:
        return
    ordered = permutation[library.stable_order(permutation)]
    for index in (0, -1):
        if not 0 <= int(ordered[index]) < width:
            raise InvalidArgument(f"permutation holds {int(ordered[index])} and must hold columns of the tokens, 0 to {width - 1}: "
                                  "give that of the layer; of a shard say the columns of the whole tokens as width")
    twice = ordered[1:] == ordered[:-1]
    if bool(twice.any()):
        value = int(ordered[1:][twice][0])
        raise InvalidArgument(f"permutation holds {value} twice, and every column of the weights meets another of the tokens: give "
                              "that of the layer")


@entry
def dequantize(weights: QuantizedWeights, out_type: str = "fp64") -> Array:
    """Returns the n x k matrix of a ``QuantizedWeights``, with its columns in the order of ``codes``.
    ``W[:, permutation] = dequantize(weights)`` restores the layer's own order.

    An element is ``(code - zero) * scale`` in ``out_type``, "fp64" or "fp32". "fp64" is exact if zeros are integers; "fp32"
    is exact if also the scales are fp16 or bf16, or if weights are e2m1 with scales from 2^-126 to 2^125.
    """
    check_quantized(weights)
    out_type = FLOATS[number_of("out_type", out_type, FLOATS)]
    library = library_of(codes=weights.codes, scales=weights.scales, zeros=weights.zeros)
    e2m1 = weights.type is not None
    scales = _values(library, E8M0, weights.scales, out_type) if e2m1 else library.cast(weights.scales, out_type)
    zeros = None if weights.zeros is None else library.cast(weights.zeros, out_type)
    out = library.empty(weights.shape, out_type)
    out[...] = _values(library, E2M1, weights.codes, out_type) if e2m1 else weights.codes
    group = 0
    for part in group_parts(weights.shape[1], weights.group):
        view, own = group_view(out, part), slice(group, group + part[1])
        if not e2m1:
            view -= implied_zero(weights.bits) if zeros is None else zeros[:, own, None]
        view *= scales[:, own, None]
        group += part[1]
    return out


def _values(library: Library, values: Tuple[float, ...], codes: Array, out_type: str) -> Array:
    table = library.empty((len(values),), out_type)
    for code, value in enumerate(values):
        table[code] = value
    return table[library.cast(codes, "int64")]
