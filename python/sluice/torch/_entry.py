# SPDX-License-Identifier: Apache-2.0
"""Converts errors where tensors enter the package. An exception that torch raises for an argument, or for a tensor that
no kernel can read, leaves as an ``Error``.

A call is examined only after it failed. A call that does not fit the parameters raises Python's own ``TypeError`` here.
"""
from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Optional, TypeVar

import torch

from .._arguments import as_ours
from ..errors import Error, InvalidType

Entered = TypeVar("Entered", bound=Callable[..., Any])

# RuntimeErrors about an argument begin like this: it is no tensor, it stands in a condition, it has no memory of its own.
_OF_ARGUMENTS = ("Expected a value of type", "Boolean value of Tensor", "doesn't have storage")


def _of_torch(name: str, error: Exception) -> Optional[Error]:
    """Converts a ``RuntimeError`` of torch into an ``Error``. Returns None for one that is not about an argument, such as
    one about exhausted memory."""
    if isinstance(error, NotImplementedError) and "sharding strategy" in str(error):
        return InvalidType(f"{name}: a DTensor is given, and products have no sharding rule: pass the shards (x.to_local()) and "
                           "reduce the result yourself")
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return InvalidType(f"{name} cannot be called inside of torch.vmap, torch.func.grad, jvp and their kin: its tensors have no "
                           "memory there; give the batch as leading dimensions, and use .backward() for gradients")
    first_line = str(error).partition("\n")[0]
    if isinstance(error, RuntimeError) and any(words in first_line for words in _OF_ARGUMENTS):
        return as_ours(name, TypeError(first_line))
    return None


def _without_autocast(error: InvalidType) -> Optional[Error]:
    """Returns an error that mentions torch.autocast if it is on: it casts operands of torch's operations, and not of
    ours. Returns None if it is off."""
    if not any(torch.is_autocast_enabled(kind) for kind in ("cuda", "cpu")):
        return None
    return InvalidType(f"{error}. torch.autocast is on, and casts for torch's own operations only: cast the operands yourself "
                       "(x.to(torch.bfloat16)), and keep the layers' weights in 16 bits")


def _explain(name: str, error: Exception) -> None:
    if isinstance(error, Error):
        casts = name.startswith("conv")  # as torch's convolutions do
        ours = _without_autocast(error) if isinstance(error, InvalidType) and not casts else None
    else:
        ours = as_ours(name, error) or _of_torch(name, error)
    if ours is not None:
        raise ours from error


def op(function: Entered) -> Entered:
    """Decorates a function that takes tensors, so that its errors are converted. The result's source writes out the
    function's own parameters. A call through it takes 0.1 us more, and one through ``*arguments, **named`` 0.37 us more
    (on a CPU of 2 GHz)."""
    parameters = inspect.signature(function).parameters.values()
    before = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    after = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    taken = ", ".join(before + (["*"] + after if after else []))
    given = ", ".join(before + [f"{name}={name}" for name in after])
    name = function.__name__
    source = f"""
def {name}({taken}):
    try:
        return function({given})
    except Exception as error:
        explain({name!r}, error)
        raise
"""
    scope: dict[str, Any] = {"function": function, "explain": _explain}
    exec(compile(source, f"<entry of sluice.torch.{name}>", "exec"), scope)  # noqa: S102 - the text holds only our own names
    entered = functools.update_wrapper(scope[name], function)
    entered.__defaults__, entered.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return entered  # type: ignore[no-any-return]
