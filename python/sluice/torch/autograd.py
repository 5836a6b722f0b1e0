# SPDX-License-Identifier: Apache-2.0
"""The backward of a 16-bit linear: two products of our own, one for the input and one for the weight.

The products read their operands in the layouts they have. The backward is not registered with the ops, because a
registered one costs more than a launch.

A graph says which gradients it can give; a walk of autograd's engine (one call of ``backward()`` or ``torch.autograd.grad()``) says
which of them it uses. Only those are computed here, and only they reach ``main_grad``.
"""
from __future__ import annotations

import threading
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from ..errors import InvalidArgument, InvalidSize, InvalidType
from ..plans import Workspace
from ._library import LINEAR, MM, add_mm_, any_order_of, as_matrix, dispatch, workspace_number

_is_compiling = torch.compiler.is_compiling


def needs_grad(a: Tensor, b: Optional[Tensor], bias: Optional[Tensor], c: Optional[Tensor]) -> bool:
    """Returns whether a backward is wanted for any of them. The conditions are written out, because every eager call asks."""
    return torch.is_grad_enabled() and (
        a.requires_grad or (b is not None and b.requires_grad) or (bias is not None and bias.requires_grad)
        or (c is not None and c.requires_grad))


def refuse_grad(what: str) -> None:
    """Raises ``InvalidArgument`` for an op without a backward. Callers ask ``needs_grad`` first, so that other calls cost
    nothing more."""
    raise InvalidArgument(f"{what} has no backward, and a gradient is wanted of one of its arguments: call it under "
                          "torch.no_grad(), or detach() them")


def refuse_second_derivative() -> None:
    """Raises ``InvalidArgument`` in a backward that is itself to be differentiated: products have no second derivative, and a gradient
    without one would count as a constant. The backward of a compiled graph is torch's, and answers for itself."""
    if torch.is_grad_enabled() and not _is_compiling():
        raise InvalidArgument("create_graph=True wants a second derivative, and sluice's products have none: leave create_graph out, or "
                              "use torch's linear and convolutions in this part of the model")


def _product(a: Tensor, b: Tensor, dtype: torch.dtype, workspace: int) -> Tensor:
    return dispatch(MM, None, dtype, a, b, 1.0, 0.0, False, None, None, None, False, None, workspace)


def add_product_(total: Tensor, a: Tensor, b: Tensor, deterministic: bool, workspace: int = 0) -> None:
    """Computes ``total += a @ b`` with an fp32 ``total``. The memory system adds, so no kernel reads ``total``.
    ``deterministic``: as for ``any_order_of``."""
    add_mm_(total, a, b, any_order_of(deterministic), workspace)


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


# ---- walks
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

    That keeps a node between its two walks by the Python object alone, which does not own a node of a Python function, and by the
    gradients that a prehook was given. The gradients given here own the node, through an output of it without elements
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
    weight.grad_added_to_main_grad = True  # type: ignore[attr-defined]
    if not walk.returns_weight:
        add(main_grad)
        return None
    gradient = product(torch.float32)
    main_grad.add_(gradient)
    return gradient.to(dtype)


def holder_of_main_grad(weight: Tensor) -> Optional[Tensor]:
    """Returns the weight if it has a ``main_grad``, or may have one by the time of the backward. Raises as ``main_grad_of``."""
    return weight if main_grad_of(weight) is not None or weight.is_leaf else None


def differentiable_linear(input: Tensor, weight: Tensor, bias: Optional[Tensor], deterministic: bool,
                          workspace: Optional[Workspace]) -> Tensor:
    """Applies ``LinearFunction``. Eager autograd keeps the workspace alive for the backward."""
    return result_of(LinearFunction.apply(input, weight, bias, deterministic, workspace_number(workspace),
                                          None if _is_compiling() else workspace))


@splittable
class LinearFunction(torch.autograd.Function):
    """``input @ weight.t() + bias`` with a backward.

    If ``weight.main_grad`` is an fp32 tensor of the weight's shape when the backward runs, the weight's gradient is added to it.
    ``weight.grad`` then stays as it is, and ``weight.grad_added_to_main_grad`` becomes True.
    """

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Optional[Tensor], deterministic: bool, workspace: int,
                kept: Optional[Workspace]) -> Any:
        ctx.workspace, ctx.kept, ctx.deterministic = workspace, kept, deterministic
        ctx.holder = holder_of_main_grad(weight)
        ctx.bias_shape_and_type = None if bias is None else (bias.shape, bias.dtype)
        return with_owner(ctx, dispatch(LINEAR, None, input.dtype, input, weight, bias, None, None, False, None, workspace), input, weight)

    @staticmethod
    def backward(ctx: Any, grad_output: Optional[Tensor], owner: Optional[Tensor] = None) -> tuple:
        refuse_second_derivative()
        input, weight = saved_of(ctx, 2)
        grad_input = grad_weight = grad_bias = None
        if grad_output is None:
            return None, None, None, None, None, None
        # Autograd may hand in an expanded tensor (the gradient of a sum), which is no layout for a kernel.
        grad, rows, walk = as_matrix(grad_output).contiguous(), as_matrix(input), walk_of(ctx)
        if walk.input:
            grad_input = _product(grad, weight, input.dtype, ctx.workspace).view(input.shape)
        if walk.weight:
            grad_weight = weight_gradient(
                ctx.holder, weight.dtype, walk, lambda dtype: _product(grad.t(), rows, dtype, ctx.workspace),
                lambda total: add_product_(total, grad.t(), rows, ctx.deterministic, ctx.workspace))
        if walk.bias:
            shape, dtype = ctx.bias_shape_and_type
            grad_bias = grad.sum(0, dtype=dtype).view(shape)
        return grad_input, grad_weight, grad_bias, None, None, None
