# SPDX-License-Identifier: Apache-2.0
"""Finds out which gradients a backward pass uses, and handles ``main_grad``.

An autograd graph can produce a gradient for every input that requires one. One call of ``backward()`` or ``torch.autograd.grad()``,
called a walk here, may use only some of them. Only the used gradients are computed and added to ``main_grad``.
"""
from __future__ import annotations

import threading
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from ..errors import InvalidSize, InvalidType

_is_compiling = torch.compiler.is_compiling


class Walk(NamedTuple):
    """The gradients that a walk uses."""

    input: bool
    weight: bool
    bias: bool
    returns_weight: bool = False
    """Whether the walk returns the weight's gradient to its caller, as ``torch.autograd.grad`` does."""


_NOT_USED, _USED, _RETURNED = range(3)


def _use_of(node: Any) -> int:
    """Returns how the current walk uses the gradient that is passed to ``node``."""
    if node is None:
        return _NOT_USED
    try:
        return _USED if torch._C._will_engine_execute_node(node) else _NOT_USED
    except RuntimeError:  # torch raises this for a leaf whose gradient torch.autograd.grad() returns
        return _RETURNED


def walk_of(ctx: Any) -> Walk:
    """Returns which gradients the current walk uses, for a function whose first arguments are input, weight and bias. In a compiled
    graph these are all that the graph can produce."""
    if _is_compiling() or torch._C._current_graph_task_id() == -1:
        return Walk(*ctx.needs_input_grad[:3])
    uses = [_use_of(node) for node, _ in ctx.next_functions]  # one per tensor argument
    return Walk(uses[0] != _NOT_USED, uses[1] != _NOT_USED, len(uses) > 2 and uses[2] != _NOT_USED, uses[1] == _RETURNED)


class _Held(tuple):
    """The gradients that a node's prehook receives, with an attribute that keeps the node alive as long as they are kept."""

    owner: Optional[Tensor] = None


def splittable(function: Any) -> Any:
    """Decorates an autograd function, so that torch's split backward (``torch.distributed.pipelining``, zero bubble) works.

    Between its two walks torch keeps the Python object of a node and the gradients that its prehook received. The Python object does
    not own the C++ node, which would be freed. So the gradients that the prehook receives here own the node, through an extra output
    without elements (``with_owner``).
    """
    backward = function._backward_cls

    def register_prehook(node: Any, hook: Callable[[tuple], Any]) -> Any:
        def holding(gradients: tuple) -> Any:
            held = _Held(gradients)
            node.__dict__.setdefault("held", []).append(held)
            return hook(held)

        return super(backward, node).register_prehook(holding)

    backward.register_prehook = register_prehook
    return function


def with_owner(ctx: Any, result: Tensor, *saved: Optional[Tensor]) -> Any:
    """Saves tensors for the backward. In eager mode returns the result and an empty tensor that owns the node (``splittable``)."""
    if _is_compiling():
        ctx.save_for_backward(*saved)
        return result
    owner = result.new_empty(0)
    ctx.save_for_backward(*saved, owner)
    ctx.set_materialize_grads(False)
    return result, owner


def result_of(returned: Any) -> Tensor:
    """Returns the result of a function that returned ``with_owner``."""
    return returned[0] if isinstance(returned, tuple) else returned


def saved_of(ctx: Any, count: int) -> Sequence[Tensor]:
    """Returns the ``count`` tensors that ``with_owner`` saved. Call it once per backward: under activation checkpointing, saved
    tensors can be read only once."""
    saved = ctx.saved_tensors
    if len(saved) > count:  # an eager forward saved the owner too; a compiled forward did not
        for held in ctx.__dict__.pop("held", ()):
            held.owner = saved[count]
    return saved[:count]


# ---- main_grad
def main_grad_of(weight: Tensor) -> Optional[Tensor]:
    """Returns ``weight.main_grad``, to which the weight's gradient is added; None if there is no such attribute. Raises
    ``InvalidType`` or ``InvalidSize`` unless it is fp32 and of the weight's shape."""
    main_grad = getattr(weight, "main_grad", None)
    if main_grad is None:
        return None
    if main_grad.dtype is not torch.float32:
        raise InvalidType(f"weight.main_grad is {main_grad.dtype} and must be torch.float32: gradients are added to it in "
                          "fp32; make it .float(), or None to have weight.grad")
    if main_grad.shape != weight.shape:
        raise InvalidSize(f"weight.main_grad has shape {tuple(main_grad.shape)} and must have the weight's, "
                          f"{tuple(weight.shape)}: pass a .view() of it")
    return main_grad


class _Additions(threading.local):
    """Per thread, the streams on which the current walk has added to each ``main_grad``, keyed by its address."""

    walk = -1
    streams: Dict[int, Any] = {}


_additions = _Additions()


def _wait_for(stream: Any) -> None:
    """Makes the stream on which ``backward()`` was called wait for ``stream``."""
    current = torch.cuda.current_stream(stream.device)
    if current != stream:
        current.wait_stream(stream)


def order_addition(main_grad: Tensor) -> None:
    """Orders the next addition to ``main_grad`` after this walk's additions on other streams, and before the caller's work after
    ``backward()``. Autograd's engine does that only for ``weight.grad``."""
    walk = torch._C._current_graph_task_id()
    if walk == -1 or not main_grad.is_cuda:
        return
    if walk != _additions.walk:
        _additions.walk, _additions.streams = walk, {}
    stream, streams = torch.cuda.current_stream(main_grad.device), _additions.streams
    if stream not in streams.values():
        torch.autograd.Variable._execution_engine.queue_callback(lambda: _wait_for(stream))
    last = streams.get(main_grad.data_ptr())
    if last is not None and last != stream:
        stream.wait_stream(last)
    streams[main_grad.data_ptr()] = stream


def adds_to_main_grad(holder: Optional[Tensor]) -> bool:
    """Returns whether a backward adds the weight's gradient to ``holder.main_grad`` (see ``holder_of_main_grad``)."""
    return holder is not None and main_grad_of(holder) is not None


def weight_gradient(weight: Optional[Tensor], dtype: torch.dtype, walk: Walk, product: Callable[[torch.dtype], Tensor],
                    add: Callable[[Tensor], None]) -> Optional[Tensor]:
    """Returns the weight's gradient of type ``dtype``, computed by ``product(dtype)``. If the weight has a ``main_grad``, calls
    ``add(weight.main_grad)`` instead and returns None. In ``torch.autograd.grad()``, which returns the gradient, it does both."""
    if not adds_to_main_grad(weight):
        return product(dtype)
    main_grad = main_grad_of(weight)
    if not _is_compiling():
        order_addition(main_grad)
    weight.grad_added_to_main_grad = True
    if not walk.returns_weight:
        add(main_grad)
        return None
    gradient = product(torch.float32)
    main_grad.add_(gradient)
    return gradient.to(dtype)


def holder_of_main_grad(weight: Tensor) -> Optional[Tensor]:
    """Returns the weight if it has a ``main_grad`` or may get one before the backward (it is a leaf); else None. Raises as
    ``main_grad_of`` does."""
    return weight if main_grad_of(weight) is not None or weight.is_leaf else None
