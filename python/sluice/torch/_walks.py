# SPDX-License-Identifier: Apache-2.0
"""Gradients that a walk of autograd's engine uses, and ``main_grad``.

A graph says which gradients it can give. A walk is one call of ``backward()`` or ``torch.autograd.grad()``, and uses some of them. Only
those are computed, and only they reach ``main_grad``.
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
    """Returns what the present walk does with the gradient that goes to ``node``."""
    if node is None:
        return _NOT_USED
    try:
        return _USED if torch._C._will_engine_execute_node(node) else _NOT_USED
    except RuntimeError:  # torch answers so for a leaf whose gradient torch.autograd.grad() returns
        return _RETURNED


def walk_of(ctx: Any) -> Walk:
    """Returns the gradients that the present walk uses, of a function whose first arguments are input, weight and bias. In a compiled
    graph they are those that the graph can give."""
    if _is_compiling() or torch._C._current_graph_task_id() == -1:
        return Walk(*ctx.needs_input_grad[:3])
    uses = [_use_of(node) for node, _ in ctx.next_functions]  # one for each argument that is a tensor
    return Walk(uses[0] != _NOT_USED, uses[1] != _NOT_USED, len(uses) > 2 and uses[2] != _NOT_USED, uses[1] == _RETURNED)


class _Held(tuple):
    """The gradients that a node's prehook is given. Whoever keeps them keeps the node too."""

    owner: Optional[Tensor] = None


def splittable(function: Any) -> Any:
    """Decorates an autograd function, so that torch's split backward (``torch.distributed.pipelining``, zero bubble) works.

    Between its two walks torch keeps the Python object of a node, and the gradients that a prehook was given. The object of a Python
    function does not own its node, so the node would be gone. The gradients given here own it, through an output without elements
    (``with_owner``).
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
    """Saves tensors for the backward. Returns what an eager ``forward`` returns: the result, and the owner of its node."""
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
    """Returns the ``count`` tensors that ``with_owner`` saved. Call it once in a backward: a checkpoint hands them out once."""
    saved = ctx.saved_tensors
    if len(saved) > count:  # a forward that was compiled has no owner, and its backward may be eager
        for held in ctx.__dict__.pop("held", ()):
            held.owner = saved[count]
    return saved[:count]


# ---- main_grad
def main_grad_of(weight: Tensor) -> Optional[Tensor]:
    """Returns ``weight.main_grad``, to which the weight's gradient is added, or None without one. Raises ``InvalidType`` or
    ``InvalidSize`` unless it is fp32 and of the weight's shape."""
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
    """The streams on which the present walk has added to a ``main_grad``, by its address."""

    walk = -1
    streams: Dict[int, Any] = {}


_additions = _Additions()


def _wait_for(stream: Any) -> None:
    """Lets the stream that called ``backward()`` wait for another."""
    current = torch.cuda.current_stream(stream.device)
    if current != stream:
        current.wait_stream(stream)


def order_addition(main_grad: Tensor) -> None:
    """Puts the next addition to ``main_grad`` behind those of this walk on other streams, and in front of what the caller's stream
    does behind ``backward()``. The engine does so for ``weight.grad`` alone."""
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
    """Returns whether a backward adds the gradient to ``main_grad`` of its ``holder_of_main_grad``."""
    return holder is not None and main_grad_of(holder) is not None


def weight_gradient(weight: Optional[Tensor], dtype: torch.dtype, walk: Walk, product: Callable[[torch.dtype], Tensor],
                    add: Callable[[Tensor], None]) -> Optional[Tensor]:
    """Returns the weight's gradient of type ``dtype``, or None after ``add(weight.main_grad)``. A walk that returns the gradient has
    both. ``product(dtype)`` makes the gradient."""
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
    """Returns the weight if it has a ``main_grad``, or may have one by the time of the backward. Raises as ``main_grad_of``."""
    return weight if main_grad_of(weight) is not None or weight.is_leaf else None
