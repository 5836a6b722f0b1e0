# SPDX-License-Identifier: Apache-2.0
"""Packs weights of 4 or 8 bits into the form that kernels read: one blob (docs/packing.md).

Works on numpy arrays and torch tensors, and imports neither module. Arrays are packed where they are: by a kernel on a
GPU, by the CPU in host memory.
"""
from __future__ import annotations

import ctypes
import dataclasses
import sys
from typing import Any, NamedTuple, Optional, Tuple, Union

from . import errors
from ._arguments import check_span, entry, integer, shown, switch_of
from ._names import DTYPES, number_of
from .formats import CODE_BITS, WeightFormat, default_format
from .problems import Problem
from .weights import QuantizedWeights, quantize_groups
from .weights._arrays import Array, check_given, check_matrix, check_shape, check_type, library_of, type_of
from .weights._groups import group_count, group_parts, group_view
from .weights.canonical import SCALE_TYPES, check_permutation, check_quantized, check_width

_GROUPS = (0, 32, 64, 128)
_GATED_UNIT = 16  # n of a gated product must be a multiple of this
_E4M3_MAX = 448.0


class Unpacked(NamedTuple):
    """The arrays that were packed: ``codes``, uint8, n x k, one byte per code; ``scales`` and ``zeros`` (or None),
    n x groups."""

    codes: Array
    scales: Array
    zeros: Optional[Array]


@entry
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PackedWeights:
    """Weights of n outputs x k columns in one blob: ``D = X[:, permutation] @ W.T``.

    - ``blob``: uint8 of length ``format.numbers(n, k).blob_bytes``; products need it on a GPU. If ``gated``, it is the blob of the
      first half of n followed by the blob of the second half.
    - ``permutation``: None, or per column of the weights the column of the tokens that it is multiplied by (act-order).
    - ``width``: the number of columns of those tokens; None means k. For a shard along k it exceeds k (see ``slice_k``).
    - ``gated``: whether the weights are packed for a gated product. If n is a multiple of 128, the bytes are the same either
      way, and both kinds of product accept them.
    """

    blob: Array
    n: int
    k: int
    format: WeightFormat
    permutation: Optional[Array] = None
    width: Optional[int] = None
    gated: bool = False
    numbers: Tuple[int, ...] = dataclasses.field(init=False)  # the format's numbers, n and k: computed once, not per product

    def __post_init__(self) -> None:
        library_of(blob=self.blob, permutation=self.permutation)
        if not isinstance(self.format, WeightFormat):
            raise errors.InvalidType(f"format = {shown(self.format)} must be a sluice.WeightFormat, as that of other packed "
                                     "weights is")
        wanted = _blob_bytes(self.format, self.n, self.k, self.gated)
        check_type("blob", self.blob, ("uint8",), "it is bytes")
        if tuple(self.blob.shape) != (wanted,):
            raise errors.InvalidSize(f"blob has shape {tuple(self.blob.shape)} and must have ({wanted},), the bytes of "
                                     f"{self.n} x {self.k} weights as {self.format}")
        if self.permutation is not None:
            if tuple(self.permutation.shape) != (self.k,):
                raise errors.InvalidSize(f"permutation has shape {tuple(self.permutation.shape)} and must have ({self.k},), an "
                                         "index for each column of the weights")
            check_type("permutation", self.permutation, ("int32", "int64"), "it holds columns of the tokens")
        check_width(self.width, self.k, self.permutation is not None)
        object.__setattr__(self, "numbers", (*self.format.values, self.n, self.k))

    def __repr__(self) -> str:
        order = "" if self.permutation is None else f", act-order over {self.token_width} columns"
        place = getattr(self.blob, "device", "cpu")
        gated = ", gated" if self.gated else ""
        return f"<sluice.PackedWeights {self.n}x{self.k}, {self.format.text}{order}{gated}, {self.nbytes} bytes on {place}>"

    @property
    def shape(self) -> Tuple[int, int]:
        """``(n, k)``."""
        return self.n, self.k

    @property
    def token_width(self) -> int:
        """The number of columns that tokens must have."""
        return self.k if self.permutation is None or self.width is None else self.width

    @property
    def group(self) -> int:
        """The number of columns that share a scale; 0: all of k."""
        return self.format.group

    @property
    def nbytes(self) -> int:
        """Bytes of the blob; a product reads all of them."""
        return int(self.blob.shape[0])

    @property
    def stored_bits(self) -> float:
        """Bits of the blob for each weight, with scales and padding."""
        return 8.0 * self.nbytes / (self.n * self.k) if self.n * self.k else 0.0

    def problem(self, m: int, a: Optional[str] = None, *, scale_a: Optional[str] = None, **more: Any) -> Problem:
        """Returns the problem of ``m`` tokens (rows without gaps) times these weights, for ``plan`` and ``prepare``.

        ``a``, the type of the tokens, is bf16 by default, or e4m3 for weights in the order "byte". By default e4m3 tokens have one
        scale per token (``scale_a`` = "vector"). ``more`` holds other fields of ``Problem``.
        """
        a = a if a is not None else "e4m3" if self.format.order == "byte" else "bf16"
        scale_a = scale_a if scale_a is not None else "vector" if DTYPES[number_of("a", a, DTYPES)] == "e4m3" else "none"
        self.check_gated(more.get("gated", False))
        return Problem(m, self.n, self.k, a=a, scale_a=scale_a, packed=self.format, **more)

    def check_gated(self, gated: bool) -> None:
        """Raises ``InvalidConfig`` unless these weights are packed for a product with this value of ``gated``."""
        if self.gated == bool(gated) or not _pads_halves(self.n):
            return
        if gated:
            raise errors.InvalidConfig(f"the product is gated and n = {self.n} is no multiple of 128: pack the weights with "
                                       "gated=True, which begins each half with a strip of its own")
        raise errors.InvalidConfig(f"the weights are packed for a gated product and n = {self.n} is no multiple of 128: multiply by "
                                   "both of packed.halves(), or pack them without gated")

    def halves(self) -> Tuple["PackedWeights", "PackedWeights"]:
        """Returns the weights of the gate and of ``up``, n / 2 outputs each, as views of the blob. Raises ``InvalidConfig`` unless
        these weights are packed for a gated product, or n is a multiple of 128."""
        self.check_gated(True)
        half = self.nbytes // 2
        gate, up = (dataclasses.replace(self, blob=blob, n=self.n // 2, gated=False)
                    for blob in (self.blob[:half], self.blob[half:]))
        return gate, up

    def unpack(self) -> Unpacked:
        """Returns the arrays that were packed, bit for bit, on the blob's device. Codes of e4m3 weights are uint8 with the
        e4m3 bits."""
        from . import _binding as f

        library = library_of(blob=self.blob)
        shape = (self.n, group_count(self.k, self.group) if self.k else 0)
        codes = library.empty((self.n, self.k), "uint8")
        scales = library.empty(shape, self.format.scale)
        zeros = library.empty(shape, self.format.scale) if self.format.zeros else None
        f.unpack(f.CODES, codes, f.SCALES, scales, f.ZEROS, zeros, f.BLOB, _readable("blob", self.blob),
                 f.GATED, self.gated, *f.format_fields(self.format.values))
        return Unpacked(codes, scales, zeros)

    def quantized(self) -> QuantizedWeights:
        """Returns the weights in canonical form. Raises ``InvalidType`` for e4m3 weights, which have no such form."""
        if self.format.type == "e4m3":
            raise errors.InvalidType("weights are e4m3, and QuantizedWeights holds integers or e2m1: call unpack()")
        codes, scales, zeros = self.unpack()
        return QuantizedWeights(codes, scales, zeros, self.group, self.permutation, CODE_BITS[self.format.type], self.width,
                                "e2m1" if self.format.type == "e2m1" else None)

    def slice_rows(self, start: int, stop: int) -> "PackedWeights":
        """Returns outputs ``start`` to ``stop``, a column-parallel shard, as a view of the blob. Raises ``InvalidSize`` unless
        both are multiples of 64 (``stop`` may also be n). Raises it for gated weights whose n is not a multiple of 128, too: slice
        their ``halves()``."""
        if self.gated and _pads_halves(self.n):
            raise errors.InvalidSize(f"rows {start} to {stop} of gated weights, n = {self.n}: the halves lie apart; slice both of "
                                     "packed.halves()")
        _check_slice("rows", start, stop, self.n, 64)
        strip = self.format.numbers(self.n, self.k).strip_bytes
        blob = self.blob[start // 64 * strip:-(-stop // 64) * strip]
        return dataclasses.replace(self, blob=blob, n=stop - start)

    def slice_k(self, start: int, stop: int) -> "PackedWeights":
        """Returns columns ``start`` to ``stop``, a row-parallel shard, as a copy of its part of the blob. Raises
        ``InvalidSize`` unless both are multiples of 128 (``stop`` may also be k). The shard's permutation still holds column
        numbers of the unsharded tokens (see ``QuantizedWeights.columns``)."""
        _check_slice("columns", start, stop, self.k, 128)
        library = library_of(blob=self.blob)
        whole, part = self.format.numbers(self.n, self.k), self.format.numbers(self.n, stop - start)
        source = self.blob.reshape(-1, whole.strip_bytes)
        target = library.empty((source.shape[0], part.strip_bytes), "uint8")
        first, tiles = start // 128 * whole.tile_bytes, part.tiles * whole.tile_bytes
        target[:, :tiles] = source[:, first:first + tiles]
        target[:, tiles:] = source[:, whole.tiles * whole.tile_bytes:]  # one scale per row (group 0): stored after the tiles
        return dataclasses.replace(self, blob=target.reshape(-1), k=stop - start,
                                   permutation=None if self.permutation is None else self.permutation[start:stop],
                                   width=None if self.permutation is None else self.token_width)

    def to(self, device: Any) -> "PackedWeights":
        """Returns the weights on another device. Raises ``InvalidType`` unless they are torch tensors."""
        if not hasattr(self.blob, "to"):
            raise errors.InvalidType(f"blob is {type(self.blob).__name__}, which knows no devices: pack torch tensors")
        return dataclasses.replace(self, blob=self.blob.to(device),
                                   permutation=None if self.permutation is None else self.permutation.to(device))


def _readable(name: str, array: Array) -> Array:
    """Returns ``array``, or, if it is a read-only numpy array (such as one mapped from a file), a writable view of its memory:
    numpy exports only writable arrays through DLPack. Nothing writes to it. Raises ``InvalidStride`` for a read-only array with
    gaps."""
    flags = getattr(array, "flags", None)
    if flags is None or flags.writeable:
        return array
    if not flags.c_contiguous:
        raise errors.InvalidStride(f"{name} is read-only and has shape {tuple(array.shape)} and gaps: pass "
                                   f"numpy.ascontiguousarray({name}) (nothing is copied silently)")
    memory = (ctypes.c_char * max(array.nbytes, 1)).from_address(array.ctypes.data)
    return sys.modules["numpy"].ndarray(array.shape, array.dtype, memory)  # a memmap's own constructor takes other arguments


def _pads_halves(n: int) -> bool:
    return n // 2 % 64 != 0


def _blob_bytes(format: WeightFormat, n: int, k: int, gated: bool) -> int:  # noqa: A002
    """Returns the size of a blob in bytes. Raises ``InvalidSize`` for gated weights whose n is not a multiple of 16."""
    if not gated:
        return format.numbers(n, k).blob_bytes
    if integer("n", n) % _GATED_UNIT:
        raise errors.InvalidSize(f"n = {n} of a gated product must be a multiple of {_GATED_UNIT}: it is the rows of W, gate and up; "
                                 "pad both halves")
    return 2 * format.numbers(n // 2, k).blob_bytes


def _check_slice(what: str, start: int, stop: int, size: int, unit: int) -> None:
    check_span(what, start, stop, size)
    if start % unit or (stop % unit and stop != size):
        raise errors.InvalidSize(f"{what} {start} to {stop} cut a tile: both must be multiples of {unit}, or the end be {size}; "
                                 "slice the QuantizedWeights (rows, columns) and pack the parts")


@entry
def pack(codes: Array, scales: Array, zeros: Optional[Array] = None, *, type: str = "uint4",  # noqa: A002
         group: Optional[int] = None, permutation: Optional[Array] = None, order: str = "half",
         width: Optional[int] = None, gated: bool = False) -> PackedWeights:
    """Packs codes with their scales and optional zero points. All arrays are row-major without gaps.

    - ``codes``: n x k, uint8: 0 to 15 for "uint4", value + 128 for "int8", the bits for "e2m1" and "e4m3" (or float8_e4m3fn).
    - ``scales``, ``zeros``: n x groups, fp16, bf16 or fp32. With "e2m1" scales are uint8 (or float8_e8m0fnu), and ``group``, by
      default 128, is 32. A scale of 255, NaN, raises ``InvalidArgument``; the check synchronises with the GPU.
    - ``type``, ``group``, ``order``: as in ``WeightFormat``; ``order`` is "half" for 16-bit tokens, "byte" for e4m3 ones.
    - ``permutation``, ``width``: as in ``PackedWeights``. Each column may appear once. Checking that here synchronises with the
      GPU, so that products need not check.
    - ``gated``: True for the weights of a gated product: n / 2 rows of the gate, then n / 2 of ``up``. n is a multiple of 16.

    Tensors on a GPU are packed by a kernel on the current stream; it uses only the lower 4 bits of a uint4 code's byte. In host
    memory a uint4 code above 15 raises ``InvalidArgument``. Raises ``InvalidSize``, ``InvalidType``, ``InvalidConfig`` or
    ``InvalidArgument`` for arguments that break a rule.
    """
    from . import _binding as f

    library = library_of(codes=codes, scales=scales, zeros=zeros, permutation=permutation)
    check_given("codes", codes)
    if len(codes.shape) != 2:
        raise errors.InvalidSize(f"codes has shape {tuple(codes.shape)} and must have two dimensions, n x k")
    usual = default_format(str(type))
    has_bytes = usual.scale == "e8m0"
    check_type("scales", scales, ("uint8", "e8m0") if has_bytes else SCALE_TYPES, "convert them")
    if has_bytes:
        scales = scales.view(library.module.uint8)
        if bool((scales == 255).any()):
            raise errors.InvalidArgument("scales hold 255, the NaN of e8m0, and must be at most 254: mend the checkpoint")
    made = WeightFormat(type, usual.group if group is None else group, "e8m0" if has_bytes else type_of(scales),
                        zeros is not None, order)
    n, k = (int(extent) for extent in codes.shape)
    if permutation is not None:
        check_shape("permutation", permutation, (k,), "an index for each column of the weights")
        check_type("permutation", permutation, ("int32", "int64"), "it holds columns of the tokens")
        check_width(width, k, True)
        check_permutation(library, permutation, k if width is None else width)
    gated = bool(switch_of("gated", gated))
    blob = library.empty((_blob_bytes(made, n, k, gated),), "uint8")
    f.pack(f.CODES, _readable("codes", codes), f.SCALES, _readable("scales", scales), f.ZEROS,
           None if zeros is None else _readable("zeros", zeros), f.BLOB, blob, f.GATED, gated, *f.format_fields(made.values))
    return PackedWeights(blob, n, k, made, permutation, width, gated)


@entry
def pack_quantized(weights: QuantizedWeights, *, order: str = "half", gated: bool = False) -> PackedWeights:
    """Packs weights in canonical form (``sluice.weights``) of 4 or 8 bits or e2m1, with their permutation. Views are copied first.
    ``gated`` is that of ``pack``. Raises ``InvalidConfig`` for a group that no kernel supports."""
    check_quantized(weights)
    library = library_of(codes=weights.codes)
    group = weights.group
    if group not in _GROUPS:
        if group < weights.shape[1]:
            raise errors.InvalidConfig(f"group = {group} has no kernels: it must be 32, 64, 128 or 0 (all of k); quantise the "
                                       "weights again")
        group = 0  # one group spans all of k
    zeros = None if weights.zeros is None else library.contiguous(weights.zeros)
    return pack(library.contiguous(weights.codes), library.contiguous(weights.scales), zeros,
                type=weights.weight_type, group=group, permutation=weights.permutation, order=order,
                width=weights.width, gated=gated)


def _pack_bits(bits: int, name: str, weight: Union[Array, QuantizedWeights], group: Optional[int], symmetric: Optional[bool],
               scale_type: Optional[str], gated: bool, order: str = "half") -> PackedWeights:
    if isinstance(weight, QuantizedWeights):
        if group is not None or symmetric is not None or scale_type is not None:
            raise errors.InvalidArgument(f"{name}: the weights are quantised; leave group, symmetric and scale_type out, or "
                                         "give a float weight")
        if weight.type is not None:
            raise errors.InvalidArgument(f"{name}: the weights are {weight.type}, no integers; call pack_quantized")
        if weight.bits != bits:
            raise errors.InvalidArgument(f"{name}: the weights have {weight.bits} bits; call "
                                         f"{'pack_int8' if bits == 4 else 'pack_int4'}")
        return pack_quantized(weight, order=order, gated=gated)
    return pack_quantized(quantize_groups(weight, 128 if group is None else group, symmetric=True if symmetric is None else symmetric,
                                          scale_type=scale_type, bits=bits), order=order, gated=gated)


@entry
def pack_int4(weight: Union[Array, QuantizedWeights], group: Optional[int] = None, *, symmetric: Optional[bool] = None,
              scale_type: Optional[str] = None, order: str = "half", gated: bool = False) -> PackedWeights:
    """Packs a weight in 4 bits. ``order``: "half" for 16-bit tokens, "byte" for e4m3 ones. ``gated`` is that of ``pack``.

    ``weight`` is a float weight, n x k, or ``QuantizedWeights`` of 4 bits. A float weight is rounded first, by
    ``sluice.weights.quantize_groups``; by default ``group`` is 128, ``symmetric`` True and ``scale_type`` the weight's type.
    ``QuantizedWeights`` already have a group, symmetry and scale type: giving one of these raises ``InvalidArgument``.
    """
    return _pack_bits(4, "pack_int4", weight, group, symmetric, scale_type, gated, order)


@entry
def pack_int8(weight: Union[Array, QuantizedWeights], group: Optional[int] = None, *, symmetric: Optional[bool] = None,
              scale_type: Optional[str] = None, gated: bool = False) -> PackedWeights:
    """Packs a weight in 8 bits, for 16-bit tokens. The arguments and errors are those of ``pack_int4``."""
    return _pack_bits(8, "pack_int8", weight, group, symmetric, scale_type, gated)


@entry
def pack_e4m3(weight: Array, group: int = 128, *, scale_type: Optional[str] = None, gated: bool = False) -> PackedWeights:
    """Packs a float weight, an n x k torch tensor, rounded to float8_e4m3fn. Use ``pack`` for weights that are e4m3 already.
    ``gated`` is that of ``pack``.

    The scale of each group is ``max|w| / 448``, rounded to ``scale_type`` (the weight's own by default) before it is used.
    Raises ``InvalidType`` for a numpy array, ``InvalidConfig`` for another group than 0, 32, 64 or 128, and
    ``InvalidArgument`` if a scale is not finite.
    """
    library = library_of(weight=weight)
    check_matrix("weight", weight, "n x k")
    check_type("weight", weight, SCALE_TYPES, "convert it; e4m3 weights with their scales go to sluice.pack(..., type='e4m3')")
    if not hasattr(library.module, "float8_e4m3fn"):
        raise errors.InvalidType("numpy has no float8_e4m3fn: give a torch tensor, or codes and scales to "
                                 "sluice.pack(..., type='e4m3')")
    if integer("group", group) not in _GROUPS:
        raise errors.InvalidConfig(f"group = {group}: it must be 32, 64, 128 or 0 (all of k)")
    scale_type = type_of(weight) if scale_type is None else scale_type
    scale_type = SCALE_TYPES[number_of("scale_type", scale_type, SCALE_TYPES)]
    weight = library.plain(weight)
    n, k = weight.shape
    values = library.contiguous(library.cast(weight, "fp32"))
    scales = library.empty((n, group_count(k, group)), scale_type)
    codes = library.empty((n, k), "e4m3")
    first = 0
    for part in group_parts(k, group):
        view, own = group_view(values, part), slice(first, first + part[1])
        scales[:, own] = library.divide_by(library.amax(abs(view)), _E4M3_MAX)
        divisor = library.one_for_zero(library.cast(scales[:, own], "fp32"))
        rounded = library.cast(library.clip(view / divisor[:, :, None], -_E4M3_MAX, _E4M3_MAX), "e4m3")
        codes[:, part[0]:part[0] + part[1] * part[2]] = rounded.reshape(n, part[1] * part[2])
        first += part[1]
    if not library.all_finite(scales):
        raise errors.InvalidArgument(f"weight holds values that are not finite, or too large for scales of {scale_type}: mend the "
                                     "weight, or pass scale_type='fp32'")
    return pack(codes, scales, type="e4m3", group=group, gated=gated)
