# SPDX-License-Identifier: Apache-2.0
"""The array operations that sluice.weights needs, implemented for numpy and for torch under the same names.

Neither module is imported here: a caller that passes an array has imported its module. Element types have the names of
sluice._names, or are uint8, int32, int64 and fp64.
"""
from __future__ import annotations

import contextlib
import sys
from typing import Any, ContextManager, Optional, Tuple, Union

from .._names import ALIASES
from ..errors import InvalidArgument, InvalidSize, InvalidType, WrongDevice

Array = Any  # numpy.ndarray or torch.Tensor
_LONG_NAMES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "e4m3": "float8_e4m3fn",
               "e8m0": "uint8"}


def type_of(array: Array) -> str:
    """Returns the name of an array's element type: "fp16", "bf16", "int32" ..."""
    text = str(array.dtype).rsplit(".", maxsplit=1)[-1]
    return "fp64" if text in ("float64", "double") else ALIASES.get(text, text)


class _Shared:
    """Operations that have the same name in numpy and torch."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def signed_words(self, array: Array) -> Array:
        return array.view(self.module.int32) if type_of(array) == "uint32" else array

    def divide_by(self, array: Array, number: float) -> Array:
        # The divisor is an array, because torch on a GPU multiplies with the reciprocal of a number. Bits would then differ
        # from a CPU's.
        return array / self.module.full_like(array, number)

    def one_for_zero(self, array: Array) -> Array:
        return self.module.where(array == 0, self.module.ones_like(array), array)

    def all_finite(self, array: Array) -> bool:
        return bool(self.module.isfinite(array).all())


class Numpy(_Shared):
    def quiet(self) -> ContextManager:
        """Returns a context without warnings about values that are not finite."""
        return self.module.errstate(all="ignore")

    def plain(self, array: Array) -> Array:
        return array

    def type(self, name: str) -> Any:
        try:
            return self.module.dtype(_LONG_NAMES.get(name, name))
        except TypeError:
            raise InvalidType(f"numpy has no {name} of its own, and arrays of ml_dtypes cannot be handed over: choose fp16 or "
                              "fp32, or give torch tensors") from None

    def empty(self, shape: Tuple[int, ...], name: str) -> Array:
        return self.module.empty(shape, self.type(name))

    def cast(self, array: Array, name: str) -> Array:
        return array.astype(self.type(name))

    def contiguous(self, array: Array) -> Array:
        return self.module.ascontiguousarray(array)

    def stable_order(self, array: Array) -> Array:
        return array.argsort(kind="stable")

    def counting(self, count: int) -> Array:
        return self.module.arange(count)

    def take(self, array: Array, order: Array, axis: int) -> Array:
        return self.module.take(array, order, axis=axis)

    def amax(self, array: Array) -> Array:
        return array.max(axis=-1)

    def amin(self, array: Array) -> Array:
        return array.min(axis=-1)

    def clip(self, array: Array, low: Optional[float], high: Optional[float]) -> Array:
        return self.module.clip(array, low, high)

    def round_even(self, array: Array) -> Array:
        return self.module.rint(array)


class Torch(_Shared):
    def __init__(self, module: Any, device: Any) -> None:
        super().__init__(module)
        self.device = device

    def quiet(self) -> ContextManager:
        return contextlib.nullcontext()

    def plain(self, array: Array) -> Array:
        return array.detach()  # a checkpoint's tensors are often parameters, and no autograd graph is needed

    def type(self, name: str) -> Any:
        return getattr(self.module, _LONG_NAMES.get(name, name))

    def empty(self, shape: Tuple[int, ...], name: str) -> Array:
        return self.module.empty(shape, dtype=self.type(name), device=self.device)

    def cast(self, array: Array, name: str) -> Array:
        return array.to(self.type(name))

    def contiguous(self, array: Array) -> Array:
        return array.contiguous()

    def stable_order(self, array: Array) -> Array:
        return self.module.argsort(array, stable=True)

    def counting(self, count: int) -> Array:
        return self.module.arange(count, device=self.device)

    def take(self, array: Array, order: Array, axis: int) -> Array:
        return self.module.index_select(array, axis, order)

    def amax(self, array: Array) -> Array:
        return array.amax(-1)

    def amin(self, array: Array) -> Array:
        return array.amin(-1)

    def clip(self, array: Array, low: Optional[float], high: Optional[float]) -> Array:
        return array.clamp(low, high)

    def round_even(self, array: Array) -> Array:
        return array.round()


Library = Union[Numpy, Torch]


def _is_of(array: object, module: Any, name: str) -> bool:
    return isinstance(array, getattr(module, name, ()))


def library_of(**arrays: Any) -> Library:
    """Returns the implementation (numpy or torch) for the given arrays, keyed by argument name; None is skipped. Raises
    ``InvalidType`` or ``InvalidArgument`` unless all are of one kind, and ``WrongDevice`` unless all are on one device."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    first = ""
    for name, array in arrays.items():
        if array is None:
            continue
        if not (_is_of(array, torch, "Tensor") or _is_of(array, numpy, "ndarray")):
            raise InvalidType(f"{name} is {type(array).__name__} and must be a torch tensor or a numpy array: "
                              "numpy.asarray() makes one of most things")
        first = first or name
        one = arrays[first]
        if _is_of(one, torch, "Tensor") != _is_of(array, torch, "Tensor"):
            raise InvalidArgument(f"{first} is {type(one).__name__} and {name} is {type(array).__name__}: give all as torch "
                                  "tensors or all as numpy arrays")
        if _is_of(array, torch, "Tensor") and array.device != one.device:
            raise WrongDevice(f"{first} is on {one.device} and {name} on {array.device}: move them to one device with .to()")
    if not first:
        raise InvalidArgument(f"{', '.join(arrays)}: no array is given")
    one = arrays[first]
    return Torch(torch, one.device) if _is_of(one, torch, "Tensor") else Numpy(numpy)


def check_given(name: str, array: Optional[Array]) -> None:
    """Raises ``InvalidType`` for None: ``library_of`` skips None, because some arguments may be left out."""
    if array is None:
        raise InvalidType(f"{name} is None and must be a torch tensor or a numpy array: it cannot be left out")


def check_type(name: str, array: Array, wanted: Tuple[str, ...], remedy: str) -> None:
    check_given(name, array)
    if type_of(array) not in wanted:
        raise InvalidType(f"{name} is {type_of(array)} and must be {' or '.join(wanted)}: {remedy}")


def check_shape(name: str, array: Array, wanted: Tuple[int, ...], meaning: str) -> None:
    check_given(name, array)
    if tuple(array.shape) != tuple(wanted):
        raise InvalidSize(f"{name} has shape {tuple(array.shape)} and must have {tuple(wanted)}, {meaning}")


def check_matrix(name: str, array: Array, meaning: str) -> None:
    if getattr(array, "is_meta", False):
        raise WrongDevice(f"{name} is on the meta device, which holds no data: load it first")
    check_given(name, array)
    if len(array.shape) != 2 or 0 in array.shape:
        raise InvalidSize(f"{name} has shape {tuple(array.shape)} and must be a matrix that is not empty, {meaning}")
