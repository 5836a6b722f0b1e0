# SPDX-License-Identifier: Apache-2.0
"""Geometry and memory layout of convolutions. Normalises strides and padding, makes tensors channels_last, pads channel counts that
kernels do not take, and turns images into a matrix of patches.

Kernels read tensors whose channels are contiguous, with pixels at multiples of 16 bytes. Any other layout is copied once, and the
copy is counted.
"""
from __future__ import annotations

import functools
import math
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from .._arguments import integer, shown
from ..errors import InvalidArgument, InvalidSize, InvalidType
from ._library import PLAIN

Numbers = Union[int, Sequence[int]]
Padding = Union[str, int, Sequence[Union[int, Sequence[int]]]]
_is_compiling = torch.compiler.is_compiling

# The distance of pixels is a multiple of 16 bytes. So the channel count is a multiple of CHANNELS for 16-bit types, and of
# CHANNELS_OF_FP8 for 8-bit types.
CHANNELS, CHANNELS_OF_FP8 = 8, 16
# TMA's im2col mode takes strides of at most 8 pixels. A strided data gradient is split into phases, one per offset within the
# stride; a launch has at most 8.
MOST_STRIDE, MOST_PHASES = 8, 8


class Geometry(NamedTuple):
    """Stride, padding before and after the input, and dilation: one number per spatial axis, outermost first."""

    stride: Tuple[int, ...]
    padding: Tuple[int, ...]
    padding_after: Tuple[int, ...]
    dilation: Tuple[int, ...]

    @property
    def numbers(self) -> Tuple[int, ...]:
        """All values in one tuple, as the ops take them."""
        return self.stride + self.padding + self.padding_after + self.dilation


def lists_of(numbers: Sequence[int]) -> Tuple[Tuple[int, ...], ...]:
    """Splits ``Geometry.numbers`` into its four tuples again."""
    axes = len(numbers) // 4
    return tuple(tuple(numbers[i:i + axes]) for i in range(0, 4 * axes, axes))


def numbers_of(what: str, value: object, axes: int, least: int) -> Tuple[int, ...]:
    """Returns one number per axis. A single number applies to all axes, as in torch."""
    if isinstance(value, (tuple, list)):
        if len(value) not in (1, axes):
            raise InvalidArgument(f"{what} = {shown(value)} must have {axes} numbers, one for each spatial axis: pass a tuple of "
                                  f"{axes}, or one number")
        numbers = tuple(integer(f"{what}[{i}]", item) for i, item in enumerate(value))
        numbers = numbers * axes if len(numbers) == 1 else numbers
    else:
        numbers = (integer(what, value),) * axes
    if min(numbers) < least:
        raise InvalidSize(f"{what} = {shown(value)} must be at least {least}: a smaller one has no meaning")
    return numbers


def _same(kernel: Sequence[int], stride: Tuple[int, ...], dilation: Tuple[int, ...]) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
    if max(stride) != 1:
        raise InvalidArgument(f"padding = 'same' needs stride 1 and stride is {stride}: pass numbers as padding")
    totals = [d * (size - 1) for d, size in zip(dilation, kernel)]
    before = tuple(total // 2 for total in totals)  # an odd total has one more zero at the end, as in torch
    return before, tuple(total - first for total, first in zip(totals, before))


def _sides(padding: Any, axes: int) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
    if isinstance(padding, (tuple, list)) and any(isinstance(item, (tuple, list)) for item in padding):
        if len(padding) != axes:
            raise InvalidArgument(f"padding = {shown(padding)} must have {axes} numbers or pairs, one for each spatial axis")
        pairs = [numbers_of("padding", item, 2, 0) for item in padding]
        return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
    both = numbers_of("padding", padding, axes, 0)
    return both, both


def _geometry(axes: int, kernel: Tuple[int, ...], stride: Any, padding: Any, dilation: Any) -> Geometry:
    strides, dilations = numbers_of("stride", stride, axes, 1), numbers_of("dilation", dilation, axes, 1)
    if not isinstance(padding, str):
        return Geometry(strides, *_sides(padding, axes), dilations)
    if padding not in ("same", "valid"):
        raise InvalidArgument(f"padding = {shown(padding)} must be 'same', 'valid', or numbers")
    before, after = _same(kernel, strides, dilations) if padding == "same" else ((0,) * axes, (0,) * axes)
    return Geometry(strides, before, after, dilations)


_kept_geometry = functools.lru_cache(maxsize=4096, typed=True)(_geometry)


def _hashable(value: Any) -> Any:
    return tuple(_hashable(item) for item in value) if isinstance(value, (list, tuple)) else value


def geometry_of(axes: int, kernel: Sequence[int], stride: Any, padding: Any, dilation: Any) -> Geometry:
    """Returns the geometry of torch's arguments for a filter of size ``kernel``. Raises ``InvalidArgument``, ``InvalidType`` or
    ``InvalidSize``."""
    if _is_compiling():
        return _geometry(axes, tuple(kernel), _hashable(stride), _hashable(padding), _hashable(dilation))
    try:
        return _kept_geometry(axes, kernel, stride, padding, dilation)
    except InvalidType:
        raise
    except TypeError:  # the cached function cannot hash lists
        return _kept_geometry(axes, tuple(kernel), _hashable(stride), _hashable(padding), _hashable(dilation))


# ---- layouts
_layout_copies = 0


def layout_copies() -> int:
    return _layout_copies


def _count_copy() -> None:
    global _layout_copies
    _layout_copies += 1


def channels_last_strides(shape: Sequence[int]) -> Tuple[int, ...]:
    """Returns the strides of a tensor (N, C, spatial...) without gaps whose channels are contiguous."""
    if len(shape) == 4:  # a fast path, because every eager call runs this
        _, channels, height, width = shape
        return (height * width * channels, 1, width * channels, channels)
    strides, step = [0] * len(shape), 1
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def is_aligned(tensor: Tensor) -> bool:
    """Returns whether a tensor begins at a multiple of 16 bytes, which TMA needs. torch.compile cannot know the address: a trace gets
    True, and the call of the compiled graph raises if that is wrong."""
    if _is_compiling():
        return True
    if tensor.__class__ not in PLAIN:
        return tensor.storage_offset() * tensor.element_size() % 16 == 0
    return tensor.data_ptr() % 16 == 0


def lies_channels_last(tensor: Tensor, may_have_pitch: bool = True) -> bool:
    """Returns whether a kernel can read the tensor without a copy: channels are contiguous and pixels equally far apart. That
    distance and the address are multiples of 16 bytes. The stride of a dimension of size 1 is ignored. ``may_have_pitch``: whether
    the distance may exceed the channels."""
    if not is_aligned(tensor):
        return False
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return True
    shape, strides = tensor.shape, tensor.stride()
    if shape[1] != 1 and strides[1] != 1:
        return False
    pitch = expected = None
    for axis in (*range(len(shape) - 1, 1, -1), 0):
        if shape[axis] == 1:
            continue
        if pitch is None:
            pitch = expected = strides[axis]
        elif strides[axis] != expected:
            return False
        expected *= shape[axis]
    if pitch is None or pitch == shape[1]:
        return True
    return bool(may_have_pitch and pitch > shape[1] and pitch * tensor.element_size() % 16 == 0)


def new_channels_last(like: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return like.new_empty_strided(tuple(shape), channels_last_strides(shape), dtype=dtype)


def round_up(count: int, multiple: int) -> int:
    return (count + multiple - 1) // multiple * multiple


def padded(count: int, dtype: torch.dtype = torch.bfloat16) -> int:
    """Returns a number of channels or columns of ``dtype``, rounded up to a multiple of 16 bytes."""
    return round_up(count, CHANNELS_OF_FP8 if dtype.itemsize == 1 else CHANNELS)


def operand(tensor: Tensor, channels: int, dtype: torch.dtype, rows: Optional[int] = None, *, may_have_pitch: bool = True,
            counted: bool = True) -> Tensor:
    """Returns the tensor as a kernel reads it: of ``dtype``, channels_last, zero-padded to ``channels`` channels and ``rows`` rows.
    Returns the tensor itself if nothing has to change; else one copy makes all changes."""
    count, own = tensor.shape[0], tensor.shape[1]
    rows = count if rows is None else rows
    lies = lies_channels_last(tensor, may_have_pitch)
    if lies and own == channels and count == rows:
        return tensor if tensor.dtype is dtype else tensor.to(dtype)  # to() keeps the order of strides
    if counted and not lies and not _is_compiling():
        _count_copy()
    made = new_channels_last(tensor, (rows, channels, *tensor.shape[2:]), dtype)
    if own == channels and count == rows:
        return made.copy_(tensor)
    filled = made if count == rows else made[:count]  # saves a view if only channels, or only rows, are padded
    (filled if own == channels else filled[:, :own]).copy_(tensor)
    if own != channels:
        made[:, own:].zero_()
    if count != rows:
        made[count:].zero_()
    return made


def laid_as(tensor: Tensor, other: Tensor) -> Tensor:
    """Returns the tensor with the strides of ``other``, which has the same shape: kernels need one layout for residual and result."""
    if all(size == 1 or one == two for size, one, two in zip(other.shape, tensor.stride(), other.stride())):
        return tensor
    if not _is_compiling():
        _count_copy()
    return tensor.new_empty_strided(tuple(other.shape), other.stride()).copy_(tensor)


def owned(tensor: Tensor) -> Tensor:
    """Returns the result of an autograd function detached if it is a view, because torch forbids changing such a view in place."""
    return tensor if _is_compiling() or tensor._base is None else tensor.detach()


def narrowed(tensor: Tensor, channels: int, rows: Optional[int] = None) -> Tensor:
    """Returns the first ``channels`` channels and ``rows`` rows of a padded result, without gaps."""
    if rows is not None and tensor.shape[0] != rows:
        tensor = tensor[:rows]
    if tensor.shape[1] == channels:
        return tensor
    # This must not be a copy_(): torch.compile (torch 2.11) traces a gradient of zero if ConvFunction's result is that of a copy_().
    return tensor[:, :channels].movedim(1, -1).contiguous().movedim(-1, 1)


# ---- patches
def takes_patches(channels: int, kernel: Sequence[int], geometry: Geometry) -> bool:
    """Returns whether a convolution is computed as a matrix product of patches. Patches must not overlap, and nothing may be padded.
    It is done if there are fewer than 8 channels, which would be padded, or if the stride is beyond TMA's im2col mode."""
    if tuple(kernel) != geometry.stride or any(geometry.padding) or any(geometry.padding_after) or max(geometry.dilation) > 1:
        return False
    taps = math.prod(kernel)
    if taps == 1:
        return False
    return channels < CHANNELS or max(kernel) > MOST_STRIDE or taps > MOST_PHASES


def _patches(images: Tensor, kernel: Sequence[int]) -> Tensor:
    """Returns a view of images of shape (N, patches along each axis ..., pixels of a patch along each axis ..., C)."""
    axes = len(kernel)
    view = images.movedim(1, -1)
    for axis, size in enumerate(kernel):
        count = images.shape[2 + axis] // size
        view = view.narrow(1 + 2 * axis, 0, count * size).unflatten(1 + 2 * axis, (count, size))
    order = [0, *(1 + 2 * axis for axis in range(axes)), *(2 + 2 * axis for axis in range(axes)), 1 + 2 * axes]
    return view.permute(order)


def rows_of_patches(images: Tensor, kernel: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Returns a matrix with one row per patch: its pixels, channels innermost, then zeros up to a multiple of 16 bytes."""
    patches = _patches(images, kernel)
    columns = math.prod(kernel) * images.shape[1]
    rows = images.new_empty((math.prod(patches.shape[:1 + len(kernel)]), padded(columns, dtype)), dtype=dtype)
    rows[:, :columns].unflatten(1, patches.shape[1 + len(kernel):]).unflatten(0, patches.shape[:1 + len(kernel)]).copy_(patches)
    if rows.shape[1] != columns:
        rows[:, columns:].zero_()
    return rows


def images_of_rows(rows: Tensor, shape: Sequence[int], kernel: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Returns images from a matrix of patches, the inverse of ``rows_of_patches``. Pixels that are in no patch are zero."""
    covered = not any(size % step for size, step in zip(shape[2:], kernel))
    make = rows.new_empty if covered else rows.new_zeros
    images = make((shape[0], *shape[2:], shape[1]), dtype=dtype).movedim(-1, 1)
    patches = _patches(images, kernel)
    columns = math.prod(kernel) * shape[1]
    patches.copy_(rows[:, :columns].unflatten(1, patches.shape[1 + len(kernel):]).unflatten(0, patches.shape[:1 + len(kernel)]))
    return images


def as_pixel_rows(tensor: Tensor) -> Tensor:
    """Returns a channels_last tensor as a matrix with one row per pixel."""
    return tensor.movedim(1, -1).flatten(0, -2)


def of_pixel_rows(rows: Tensor, images: int, sizes: Sequence[int]) -> Tensor:
    return rows.unflatten(0, (images, *sizes)).movedim(-1, 1)


# ---- arguments
def check_tensor(name: str, tensor: object, axes: Optional[int] = None) -> None:
    """Raises ``InvalidType`` unless ``tensor`` is a dense tensor. With ``axes``, calls ``check_axes`` too."""
    if not isinstance(tensor, Tensor):
        raise InvalidType(f"{name} = {shown(tensor)} must be a tensor, and is of type {type(tensor).__name__}")
    if tensor.layout is not torch.strided:
        raise InvalidType(f"{name} is {tensor.layout} and must be dense: pass {name}.to_dense()")
    if axes is not None:
        check_axes(name, tensor, axes)


def check_axes(name: str, tensor: Tensor, axes: int) -> None:
    """Raises ``InvalidSize`` unless the tensor has a batch, channels and ``axes`` spatial axes."""
    if tensor.dim() != axes + 2:
        raise InvalidSize(f"{name} has shape {tuple(tensor.shape)} and must have {axes + 2} dimensions for {axes} spatial axes")


def check_groups(groups: object) -> None:
    """Raises ``InvalidSize`` for grouped convolutions."""
    if integer("groups", groups) != 1:
        raise InvalidSize(f"groups = {shown(groups)} must be 1: run each group's channels as a convolution of its own, or use torch's")


def check_channels(input: Tensor, weight: Tensor) -> None:
    """Raises ``InvalidSize`` unless filter and input have equally many channels. The library cannot check that, because both are padded
    first."""
    if input.shape[1] != weight.shape[1]:
        raise InvalidSize(f"input has {input.shape[1]} channels and weight has {weight.shape[1]}, in shape {tuple(weight.shape)}: "
                          "they must be the same number")
    if 0 in weight.shape:
        raise InvalidSize(f"weight has shape {tuple(weight.shape)} and must not be empty")


def check_bias(bias: Optional[Tensor], count: int) -> None:
    """Raises ``InvalidSize`` unless the bias has ``count`` values."""
    if bias is None:
        return
    check_tensor("bias", bias)
    if tuple(bias.shape) != (count,):
        raise InvalidSize(f"bias has shape {tuple(bias.shape)} and must have a value for each filter, ({count},)")


def sizes_of(what: str, value: Any, axes: int) -> List[int]:
    """Returns the shape that a caller gives for a gradient as ``axes + 2`` checked integers."""
    if not isinstance(value, (tuple, list)) or len(value) != axes + 2:
        raise InvalidArgument(f"{what} = {shown(value)} must be a shape of {axes + 2} numbers")
    if _is_compiling():
        return list(value)  # in a trace the numbers may be symbols
    sizes = [integer(f"{what}[{i}]", item) for i, item in enumerate(value)]
    if min(sizes) < 0:
        raise InvalidSize(f"{what} = {shown(value)} must not be negative")
    return sizes
