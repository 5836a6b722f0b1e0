# SPDX-License-Identifier: Apache-2.0
"""Describes convolutions: their sizes, types and epilogues. Needs neither a GPU nor torch."""
from __future__ import annotations

import ctypes
import dataclasses
from typing import Any, Optional, Sequence, Tuple, Union

from . import errors
from ._arguments import check_array, entry, shown, size_of
from ._library import ConvStruct, MatrixStruct, ProblemStruct, lib, new_call
from ._names import DTYPES, SCALES, number_of
from .problems import call_pairs, epilogue_fields, epilogue_of, output_type

CONV_OPS = ("fprop", "dgrad", "wgrad")
MOST_AXES = 3
# One number for all axes, or one per axis, outermost first.
PerAxis = Union[int, Sequence[int]]


def _numbers(what: str, values: object) -> list[int]:
    """Returns a list of sizes. Raises ``InvalidType`` for anything that is not a list of integers."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise errors.InvalidType(f"{what} = {shown(values)} must be a tuple of integers, and is of type {type(values).__name__}")
    return [size_of(f"{what}[{i}]", value) for i, value in enumerate(values[:16])]


def per_axis(what: str, value: object, axes: int) -> Tuple[int, ...]:
    """Returns one number per axis; a single ``value`` applies to all ``axes`` axes. Raises ``InvalidType``, or
    ``InvalidArgument`` for a list of another length."""
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        if len(value) != axes:
            raise errors.InvalidArgument(f"{what} = {shown(value)} must be one number, or {axes}, one for each axis")
        return tuple(_numbers(what, value))
    return (size_of(what, value),) * axes


def output_size(sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
                padding_after: Sequence[int], dilation: Sequence[int]) -> Tuple[int, ...]:
    """Returns the spatial size of y. It is 0 along an axis that is smaller than the filter, and the library refuses 0."""
    rooms = [size + before + after - d * (k - 1) - 1 for size, k, before, after, d
             in zip(sizes, kernel, padding, padding_after, dilation)]
    return tuple(0 if room < 0 else room // step + 1 for room, step in zip(rooms, stride))


@entry
@dataclasses.dataclass(frozen=True)
class Convolution:
    """A convolution with torch's semantics (no groups), or one of its two gradients: a problem for ``plan()``, ``compile()`` and
    ``prepare()``. ``y = act(alpha * scale_x * scale_w * (x convolved with w) + beta * C + bias)``.

    Tensors are channels_last. Lists are outermost first. The fields and their defaults:

    - ``op`` = "fprop": y of x and w. "dgrad": dx of dy and w. "wgrad": dw of dy and x.
    - ``input``: the shape of x in torch's order, (images, channels, axes), with one to three axes.
    - ``filter``: (filters, axes), the shape of w without its channels.
    - ``stride`` = 1, ``padding`` = 0, ``dilation`` = 1: one number, or one per axis. ``padding_after`` = None: the
      padding at the end of each axis of x; None means equal to ``padding``.
    - ``dtype`` = "bf16": the type of both tensors that are read. ``out_dtype`` = None: the type of the result, by default
      ``dtype``, or bf16 for fp8.
    - ``input_pitch`` = 0, ``output_pitch`` = 0: elements from one pixel to the next, of x and of y. 0: no gaps.
    - ``bias`` = None, ``activation`` = "none", ``scale_x`` = "none" or "tensor", ``scale_w`` = "none", "tensor" or "vector",
      ``scale_d`` = "none" or "tensor": as in ``Problem``; only for fprop. A vector has one scale per filter.
    - ``c`` = None: the type of a residual, whose layout is that of the result.
    - ``accumulate`` = "promoted", ``update`` = "set", ``deterministic`` = True: as in ``Problem``. "add" is only for wgrad.
    """

    op: str
    input: Sequence[int]
    filter: Sequence[int]
    stride: PerAxis = 1
    padding: PerAxis = 0
    dilation: PerAxis = 1
    padding_after: Optional[PerAxis] = None
    dtype: str = "bf16"
    out_dtype: Optional[str] = None
    input_pitch: int = 0
    output_pitch: int = 0
    bias: Optional[str] = None
    activation: str = "none"
    c: Optional[str] = None
    scale_x: str = "none"
    scale_w: str = "none"
    scale_d: str = "none"
    accumulate: str = "promoted"
    update: str = "set"
    deterministic: bool = True

    def _sizes(self) -> ConvStruct:
        op = number_of("op", self.op, CONV_OPS) + 1
        x, w = _numbers("input", self.input), _numbers("filter", self.filter)
        axes = len(x) - 2
        if not 1 <= axes <= MOST_AXES:
            raise errors.InvalidSize(f"input = {shown(self.input)} must have 3 to 5 numbers: images, channels, and 1 to 3 axes")
        if len(w) != axes + 1:
            raise errors.InvalidSize(f"filter = {shown(self.filter)} must have {axes + 1} numbers: filters, and the {axes} axes of "
                                     f"input = {shown(self.input)}")
        padding = per_axis("padding", self.padding, axes)
        after = padding if self.padding_after is None else per_axis("padding_after", self.padding_after, axes)
        three = ctypes.c_int64 * MOST_AXES
        return ConvStruct(
            op=op, spatial=axes, images=x[0], channels=x[1], filters=w[0], size=three(*x[2:]), filter=three(*w[1:]),
            stride=three(*per_axis("stride", self.stride, axes)), dilation=three(*per_axis("dilation", self.dilation, axes)),
            padding=three(*padding), padding_after=three(*after), uneven_padding=int(after != padding), x_pitch=size_of("input_pitch", self.input_pitch),
            y_pitch=size_of("output_pitch", self.output_pitch))

    def struct(self) -> ProblemStruct:
        """Returns the struct of the C interface. Raises ``InvalidArgument`` for an unknown name, and ``InvalidSize`` for
        lists of the wrong length."""
        dtype = number_of("dtype", self.dtype, DTYPES)
        return ProblemStruct(
            batch=1, a=MatrixStruct(type=dtype), b=MatrixStruct(type=dtype),
            d=MatrixStruct(type=output_type(dtype, self.out_dtype, "out_dtype")),
            scale_a=number_of("scale_x", self.scale_x, SCALES), scale_b=number_of("scale_w", self.scale_w, SCALES),
            conv=self._sizes(), **epilogue_fields(self))

    @property
    def output(self) -> Tuple[int, ...]:
        """The shape of y, in torch's order. An axis is 0 if the filter does not fit into it."""
        s = self._sizes()
        size, kernel, stride, *others = (list(numbers[:s.spatial]) for numbers
                                         in (s.size, s.filter, s.stride, s.padding, s.padding_after, s.dilation))
        if min(stride) < 1:
            raise errors.InvalidSize(f"stride = {shown(self.stride)} must be 1 or more along each axis")
        return (s.images, s.filters, *output_size(size, kernel, stride, *others))

    @property
    def text(self) -> str:
        """The convolution in a few words, as ``repr`` of its plan shows it."""
        return f"{self.op} {'x'.join(map(str, self.input))} filter {'x'.join(map(str, self.filter))}"

    def flags(self) -> str:
        """Returns the problem as flags of the ``sluice`` program: ``sluice tune``, ``plan`` and ``compile`` with them, or a
        line of a ``--shapes`` file, treat exactly this problem. Raises ``InvalidArgument`` for an unknown name."""
        from ._flags import flags_of

        return flags_of(self.struct())

    def check(self) -> None:
        """Raises the error that a convolution of this problem would raise for its sizes, types and strides. Plans nothing
        and needs no GPU."""
        lib.sluice_check(ctypes.byref(new_call(self.struct())))

    @classmethod
    def from_struct(cls, s: ProblemStruct) -> "Convolution":
        v = s.conv
        if not 1 <= v.op <= len(CONV_OPS):
            raise errors.InvalidArgument(f"conv.op = {v.op} must be 1 to {len(CONV_OPS)}: this struct is of a product")

        def axes(values: Any) -> Tuple[int, ...]:
            return tuple(values[:v.spatial])

        after = axes(v.padding_after if v.uneven_padding else v.padding)
        return cls(
            CONV_OPS[v.op - 1], (v.images, v.channels, *axes(v.size)), (v.filters, *axes(v.filter)), axes(v.stride),
            axes(v.padding), axes(v.dilation), after if after != axes(v.padding) else None, DTYPES[s.a.type], DTYPES[s.d.type], v.x_pitch,
            v.y_pitch, scale_x=SCALES[s.scale_a], scale_w=SCALES[s.scale_b], **epilogue_of(s))


@entry
def convolution_of(op: str, input: Any, weight: Any, output: Any, *, stride: PerAxis = 1, padding: PerAxis = 0,  # noqa: A002
                   dilation: PerAxis = 1, padding_after: Optional[PerAxis] = None, bias: Any = None, c: Any = None,
                   scale_x: Any = None, scale_w: Any = None, scale_d: Any = None, activation: str = "none",
                   use_fast_accum: bool = False, update: str = "set", deterministic: bool = True) -> Convolution:
    """Returns the problem of a convolution of arrays (torch tensors, or anything that speaks DLPack, also in host memory).

    ``input``, ``weight`` and ``output`` are x, w and y. Messages call the one that ``op`` computes "out", and a y that is read
    "grad_output". Reads shapes, strides and types, never data. Raises the errors that the convolution itself would raise for
    them.
    """
    from . import _binding as f  # imports tvm_ffi, which imports torch where there is one

    arrays = {"input": input, "weight": weight, "output": output, "bias": bias, "c": c, "scale_x": scale_x, "scale_w": scale_w,
              "scale_d": scale_d}
    for name, array in arrays.items():
        check_array(name, array)
    number = number_of("op", op, CONV_OPS) + 1
    axes = min(max(getattr(input, "ndim", 4) - 2, 1), MOST_AXES)
    lists = (per_axis("stride", stride, axes), per_axis("padding", padding, axes),
             None if padding_after is None else per_axis("padding_after", padding_after, axes), per_axis("dilation", dilation, axes))
    x = f.OUT if number == f.DGRAD else f.INPUT
    w = f.OUT if number == f.WGRAD else f.WEIGHT
    y = f.OUT if number == f.FPROP else f.GRAD_OUTPUT
    struct = ProblemStruct()
    f.conv_problem_of(f.OP, number, x, input, w, weight, y, output, *f.geometry_fields(*lists), f.C, c, f.BIAS, bias,
                      f.SCALE_X, scale_x, f.SCALE_W, scale_w, f.SCALE_D, scale_d,
                      *call_pairs(f, activation, use_fast_accum, update, deterministic), f.PROBLEM, ctypes.addressof(struct))
    return Convolution.from_struct(struct)
