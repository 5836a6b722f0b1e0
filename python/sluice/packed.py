# SPDX-License-Identifier: Apache-2.0
"""Weights of few bits in the form that kernels read: one blob (docs/packing.md). On numpy arrays and torch tensors, which are
packed where they are: by a kernel on a GPU, on the CPU in host memory. Neither module is imported."""
from __future__ import annotations

import ctypes
import dataclasses
import sys
from typing import Any, NamedTuple, Optional, Tuple, Union

from . import errors
from ._arguments import check_one_of, check_span, entry, integer, shown
from .formats import CODE_BITS, PackedProblem, WeightFormat
from .problems import DTYPES, number_of
from .weights import QuantizedWeights, quantize_groups
from .weights._arrays import Array, check_given, check_matrix, check_shape, check_type, library_of, type_of
from .weights._groups import group_count, group_parts, group_view
from .weights.canonical import SCALE_TYPES, check_permutation, check_quantized, check_width

_GROUPS = (0, 32, 64, 128)
_E4M3_MAX = 448.0


class Unpacked(NamedTuple):
    """What was packed: a byte a code, n x k; scales and zeros (or None), n x groups."""

    codes: Array
    scales: Array
    zeros: Optional[Array]


@entry
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PackedWeights:
    """n x k weights (outputs x what is summed over) in one blob: ``D = X[:, permutation] @ W.T``.

    ``blob``: uint8, as long as ``format.numbers(n, k).blob_bytes``, on a GPU for products. ``permutation``: None, or the column
    of the tokens that each column of the weights meets (act-order). ``width``: how many columns those tokens have, None for k;
    more of a shard (``slice_k`` says it).
    """

    blob: Array
    n: int
    k: int
    format: WeightFormat
    permutation: Optional[Array] = None
    width: Optional[int] = None
    numbers: Tuple[int, ...] = dataclasses.field(init=False)  # of the format, n and k, once and not at every product

    def __post_init__(self) -> None:
        library_of(blob=self.blob, permutation=self.permutation)
        if not isinstance(self.format, WeightFormat):
            raise errors.InvalidType(f"format = {shown(self.format)} must be a sluice.WeightFormat, as that of other packed "
                                     "weights is")
        wanted = self.format.numbers(self.n, self.k).blob_bytes
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
        return f"<sluice.PackedWeights {self.n}x{self.k}, {self.format.text}{order}, {self.nbytes} bytes on {place}>"

    @property
    def shape(self) -> Tuple[int, int]:
        """``(n, k)``."""
        return self.n, self.k

    @property
    def token_width(self) -> int:
        """Columns that tokens must have."""
        return self.k if self.permutation is None or self.width is None else self.width

    @property
    def group(self) -> int:
        """Columns that share a scale; 0: all."""
        return self.format.group

    @property
    def nbytes(self) -> int:
        """Of the blob, which is what a product reads."""
        return int(self.blob.shape[0])

    @property
    def stored_bits(self) -> float:
        """Of the blob for each weight, scales and padding too."""
        return self.format.numbers(self.n, self.k).stored_bits

    def problem(self, m: int, x: Optional[str] = None, *, d: Optional[str] = None, bias: Optional[str] = None,
                activation: str = "none", scale_x: Optional[str] = None, **more: Any) -> PackedProblem:
        """The problem of ``m`` tokens (in packed rows) times these weights, for ``packed_plan`` and ``prepare``. ``x`` left out is
        bf16, or in the order "byte" e4m3, then with a scale for each token unless ``scale_x`` says otherwise; ``more`` as ``PackedProblem`` has it."""
        x = x if x is not None else "e4m3" if self.format.order == "byte" else "bf16"
        scale_x = scale_x if scale_x is not None else "vector" if DTYPES[number_of("x", x, DTYPES)] == "e4m3" else "none"
        return PackedProblem(m, self.n, self.k, self.format, x, d, bias, activation, scale_x=scale_x, **more)

    def unpack(self) -> Unpacked:
        """The arrays that were packed, bit for bit, where the blob is. Codes of e4m3 are the bytes of their bits."""
        from . import _binding as f

        library = library_of(blob=self.blob)
        shape = (self.n, group_count(self.k, self.group) if self.k else 0)
        codes = library.empty((self.n, self.k), "uint8")
        scales = library.empty(shape, self.format.scale)
        zeros = library.empty(shape, self.format.scale) if self.format.zeros else None
        f.unpack(f.CODES, codes, f.SCALES, scales, f.ZEROS, zeros, f.BLOB, _readable("blob", self.blob),
                 *f.format_fields(self.format.values))
        return Unpacked(codes, scales, zeros)

    def quantized(self) -> QuantizedWeights:
        """The same in canonical form. e4m3 weights have none, and raise ``InvalidType``."""
        if self.format.type == "e4m3":
            raise errors.InvalidType("weights are e4m3, and QuantizedWeights holds integers: call unpack()")
        codes, scales, zeros = self.unpack()
        return QuantizedWeights(codes, scales, zeros, self.group, self.permutation, CODE_BITS[self.format.type], self.width)

    def slice_rows(self, start: int, stop: int) -> "PackedWeights":
        """Outputs ``start`` to ``stop``, both multiples of 64 or the end: a column-parallel shard. A view of the blob."""
        _check_slice("rows", start, stop, self.n, 64)
        strip = self.format.numbers(self.n, self.k).strip_bytes
        blob = self.blob[start // 64 * strip:-(-stop // 64) * strip]
        return dataclasses.replace(self, blob=blob, n=stop - start)

    def slice_k(self, start: int, stop: int) -> "PackedWeights":
        """Columns ``start`` to ``stop``, both multiples of 128 or the end: a row-parallel shard. A copy of its part of the blob.
        Its permutation still counts columns of the whole tokens (as ``QuantizedWeights.columns`` has it)."""
        _check_slice("columns", start, stop, self.k, 128)
        library = library_of(blob=self.blob)
        whole, part = self.format.numbers(self.n, self.k), self.format.numbers(self.n, stop - start)
        source = self.blob.reshape(whole.strips, whole.strip_bytes)
        target = library.empty((whole.strips, part.strip_bytes), "uint8")
        first, tiles = start // 128 * whole.tile_bytes, part.tiles * whole.tile_bytes
        target[:, :tiles] = source[:, first:first + tiles]
        target[:, tiles:] = source[:, whole.tiles * whole.tile_bytes:]  # the rows' scales, if they are for all of k
        return dataclasses.replace(self, blob=target.reshape(-1), k=stop - start,
                                   permutation=None if self.permutation is None else self.permutation[start:stop],
                                   width=None if self.permutation is None else self.token_width)

    def to(self, device: Any) -> "PackedWeights":
        """On another device; torch tensors only."""
        if not hasattr(self.blob, "to"):
            raise errors.InvalidType(f"blob is {type(self.blob).__name__}, which knows no devices: pack torch tensors")
        return dataclasses.replace(self, blob=self.blob.to(device),
                                   permutation=None if self.permutation is None else self.permutation.to(device))


def _readable(name: str, array: Array) -> Array:
    """An array that is read only, as one that may be handed over. numpy lends no read-only ones, which files often give; so its
    memory is lent as it is, and nothing writes there."""
    flags = getattr(array, "flags", None)
    if flags is None or flags.writeable:
        return array
    if not flags.c_contiguous:
        raise errors.InvalidStride(f"{name} is read-only and has shape {tuple(array.shape)} and gaps: pass "
                                   f"numpy.ascontiguousarray({name}) (nothing is copied silently)")
    memory = (ctypes.c_char * max(array.nbytes, 1)).from_address(array.ctypes.data)
    return sys.modules["numpy"].ndarray(array.shape, array.dtype, memory)  # also of a memmap, which is made otherwise


def _check_slice(what: str, start: int, stop: int, size: int, unit: int) -> None:
    check_span(what, start, stop, size)
    if start % unit or (stop % unit and stop != size):
        raise errors.InvalidSize(f"{what} {start} to {stop} cut a tile: both must be multiples of {unit}, or the end be {size}; "
                                 "slice the QuantizedWeights (rows, columns) and pack the parts")


@entry
def pack(codes: Array, scales: Array, zeros: Optional[Array] = None, *, type: str = "uint4",  # noqa: A002
         group: int = 128, permutation: Optional[Array] = None, order: str = "half",
         width: Optional[int] = None) -> PackedWeights:
    """Of arrays as their owner has them: ``codes`` uint8, n x k (0 to 15; value + 128 of int8; the bits of e4m3, or
    float8_e4m3fn), ``scales`` and perhaps ``zeros`` n x groups, fp16, bf16 or fp32; all row-major without gaps.

    ``order``: "half" for 16-bit tokens, "byte" for e4m3 ones (uint4 only). Runs on the current stream for tensors on a GPU, where
    of a uint4 only the lower half is looked at; in host memory a code past 15 raises. ``permutation`` and ``width`` as
    ``PackedWeights`` has them: each column once, which is looked at here (it waits for the GPU), and not at products.
    """
    from . import _binding as f

    library = library_of(codes=codes, scales=scales, zeros=zeros, permutation=permutation)
    check_given("codes", codes)
    if len(codes.shape) != 2:
        raise errors.InvalidSize(f"codes has shape {tuple(codes.shape)} and must have two dimensions, n x k")
    check_type("scales", scales, SCALE_TYPES, "convert them")
    made = WeightFormat(type, group, type_of(scales), zeros is not None, order)
    n, k = (int(extent) for extent in codes.shape)
    if permutation is not None:
        check_shape("permutation", permutation, (k,), "an index for each column of the weights")
        check_type("permutation", permutation, ("int32", "int64"), "it holds columns of the tokens")
        check_width(width, k, True)
        check_permutation(library, permutation, k if width is None else width)
    blob = library.empty((made.numbers(n, k).blob_bytes,), "uint8")
    f.pack(f.CODES, _readable("codes", codes), f.SCALES, _readable("scales", scales), f.ZEROS,
           None if zeros is None else _readable("zeros", zeros), f.BLOB, blob, *f.format_fields(made.values))
    return PackedWeights(blob, n, k, made, permutation, width)


@entry
def pack_quantized(weights: QuantizedWeights, *, order: str = "half") -> PackedWeights:
    """Of weights in canonical form (``sluice.weights``), 4 or 8 bits, their permutation too. Views are copied for it."""
    check_quantized(weights)
    library = library_of(codes=weights.codes)
    group = weights.group
    if group not in _GROUPS:
        if group < weights.shape[1]:
            raise errors.InvalidConfig(f"group = {group} has no kernels: it must be 32, 64, 128 or 0 (all of k); quantise the "
                                       "weights again")
        group = 0  # one group holds all
    zeros = None if weights.zeros is None else library.contiguous(weights.zeros)
    return pack(library.contiguous(weights.codes), library.contiguous(weights.scales), zeros,
                type="uint4" if weights.bits == 4 else "int8", group=group, permutation=weights.permutation, order=order,
                width=weights.width)


def _pack_bits(bits: int, name: str, weight: Union[Array, QuantizedWeights], group: Optional[int], symmetric: Optional[bool],
               scale_type: Optional[str], order: str = "half") -> PackedWeights:
    if isinstance(weight, QuantizedWeights):
        if group is not None or symmetric is not None or scale_type is not None:
            raise errors.InvalidArgument(f"{name}: the weights are quantised; leave group, symmetric and scale_type out, or "
                                         "give a float weight")
        if weight.bits != bits:
            raise errors.InvalidArgument(f"{name}: the weights have {weight.bits} bits; call "
                                         f"{'pack_int8' if bits == 4 else 'pack_int4'}")
        return pack_quantized(weight, order=order)
    return pack_quantized(quantize_groups(weight, 128 if group is None else group, symmetric=True if symmetric is None else symmetric,
                                          scale_type=scale_type, bits=bits), order=order)


@entry
def pack_int4(weight: Union[Array, QuantizedWeights], group: Optional[int] = None, *, symmetric: Optional[bool] = None,
              scale_type: Optional[str] = None, order: str = "half") -> PackedWeights:
    """Of a float weight, n x k, which is rounded first as ``sluice.weights.quantize_groups`` does (``group`` 128, symmetric and
    its own type for scales, if they are left out), or of ``QuantizedWeights`` of 4 bits, whose group they have. ``order``: "half"
    for 16-bit tokens, "byte" for e4m3 ones."""
    return _pack_bits(4, "pack_int4", weight, group, symmetric, scale_type, order)


@entry
def pack_int8(weight: Union[Array, QuantizedWeights], group: Optional[int] = None, *, symmetric: Optional[bool] = None,
              scale_type: Optional[str] = None) -> PackedWeights:
    """The same in 8 bits, for 16-bit tokens."""
    return _pack_bits(8, "pack_int8", weight, group, symmetric, scale_type)


@entry
def pack_e4m3(weight: Array, group: int = 128, *, scale_type: Optional[str] = None) -> PackedWeights:
    """Of a float weight, n x k, rounded to float8_e4m3fn with ``scale = max|w| / 448`` for each group, rounded to
    ``scale_type`` (the weight's own) before it is used. torch tensors; weights that are e4m3 already go to ``pack``."""
    library = library_of(weight=weight)
    check_matrix("weight", weight, "n x k")
    check_type("weight", weight, SCALE_TYPES, "convert it; e4m3 weights with their scales go to sluice.pack(..., type='e4m3')")
    if not hasattr(library.module, "float8_e4m3fn"):
        raise errors.InvalidType("numpy has no float8_e4m3fn: give a torch tensor, or codes and scales to "
                                 "sluice.pack(..., type='e4m3')")
    if integer("group", group) not in _GROUPS:
        raise errors.InvalidConfig(f"group = {group}: it must be 32, 64, 128 or 0 (all of k)")
    scale_type = type_of(weight) if scale_type is None else scale_type
    check_one_of("scale_type", scale_type, SCALE_TYPES)
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
    return pack(codes, scales, type="e4m3", group=group)
