# SPDX-License-Identifier: Apache-2.0
"""A linear that trains in FP8: the products of its forward and its backward multiply fp8 codes.

Ops cast their operands and multiply them. Fp8 tensors that leave an op are the input's columns, and within a backward the gradient's codes:
no weight's. Weights are cast at each use, from the parameter as it is then. Only inside of ``weights_kept`` are their codes used again.

The two linears of a SwiGLU (``swiglu_in_fp8``) cast ``silu(gate) * up`` and its gradients as they compute them, and write neither in 16 bits.

The ops of torch.compile and of policies of selective checkpointing are ``sluice::fp8_linear``, ``sluice::fp8_linear_casts``,
``sluice::fp8_linear_backward`` and ``sluice::fp8_linear_backward_add``.
"""
from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .. import _binding as f
from ..errors import InvalidArgument, InvalidSize, InvalidType
from ..plans import Workspace
from ._conv_layout import owned
from ._fakes import check_product
from ._fp8_recipes import Cast, training_recipe
from ._library import MM, PLAIN, SCALED_MM, _define, add_mm_, any_order_of, as_matrix, dispatch, takes_no_dispatcher, workspace_number, written
from ._walks import holder_of_main_grad, result_of, saved_of, splittable, walk_of, weight_gradient, with_owner
from .autograd import needs_grad, refuse_second_derivative
from .quantize import THE_INPUT, BothOrders, Source, _both_on_gpu, new_both, whole

_is_compiling = torch.compiler.is_compiling
_FLOATS = (torch.bfloat16, torch.float16, torch.float32)


class Codes(NamedTuple):
    """A matrix of fp8 codes whose rows lie along the sum, its scales, and the granularity of these."""

    codes: Tensor
    scales: Tensor
    granularity: str


# ---- casts
def _cast(quantizer: Any, matrix: Tensor, cast: Cast, power_of_two: bool, rows: bool, columns: bool, sums: bool, workspace: int,
          source: Source = THE_INPUT) -> BothOrders:
    """Casts a matrix, or what ``source`` makes of it, in the orders that are wanted: by one call of ``quantizer`` if their scales are of one
    kind."""
    if rows and columns and cast.rows != cast.columns:
        one = quantizer(matrix, cast.rows, cast.dtype, power_of_two, True, False, sums, workspace, source)
        other = quantizer(matrix, cast.columns, cast.dtype, power_of_two, False, True, False, workspace, source)
        return BothOrders(*one[:2], *other[2:4], one[4])
    return BothOrders(*quantizer(matrix, cast.rows if rows else cast.columns, cast.dtype, power_of_two, rows, columns, sums, workspace, source))


def _order(made: BothOrders, cast: Cast, rows: bool) -> Codes:
    return Codes(made.rows, made.row_scales, cast.rows) if rows else Codes(made.columns, made.column_scales, cast.columns)


def _prepare_cast(cast: Cast, power_of_two: bool, dtype: torch.dtype, device: torch.device, source: Source = THE_INPUT) -> None:
    """Makes a quantiser ready: it casts a matrix of zeros."""
    for granularity in {cast.rows, cast.columns}:
        _both_on_gpu(torch.zeros(16, 32, device=device, dtype=dtype), granularity, cast.dtype, power_of_two, True, True, False, 0, source)


def prepare_casts(recipe: str, weight_gradient: str, input_dtype: torch.dtype, weight_dtype: torch.dtype, device: torch.device) -> None:
    """Makes the quantisers of a layer's three operands ready."""
    casts = training_recipe(recipe, weight_gradient)
    for dtype, cast in ((input_dtype, casts.input), (weight_dtype, casts.weight), (input_dtype, casts.gradient)):
        _prepare_cast(cast, casts.power_of_two, dtype, device)


def prepare_swiglu(gate_up: str, down: str, dtype: torch.dtype, device: torch.device) -> None:
    """Makes the quantisers of ``silu(gate) * up`` and of its gradients ready; ``gate_up`` and ``down`` are the recipes of the layers."""
    casts = training_recipe(down, "fp8")
    _prepare_cast(casts.input, casts.power_of_two, dtype, device, Source(True))
    casts = training_recipe(gate_up, "fp8")
    _prepare_cast(casts.gradient, casts.power_of_two, dtype, device, Source(True, torch.zeros(16, 16, device=device, dtype=dtype)))


# ---- weights that stay cast
class _Kept:
    """The codes of a weight inside of ``weights_kept``. ``captured``: whether the block was entered in a capture. The codes of each stream are
    its own, so that no stream waits for another."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight.detach()  # its memory cannot become another tensor's
        self.captured = _is_capturing(weight)
        self.codes: Dict[tuple, BothOrders] = {}

    def holds(self, weight: Tensor) -> bool:
        """Returns whether ``weight`` is this weight. A storage that was freed, as FSDP does, has another address than before."""
        mine = self.weight
        return (mine.data_ptr() == weight.data_ptr() and mine.shape == weight.shape and mine.dtype is weight.dtype
                and mine.stride() == weight.stride())


_kept: Dict[tuple, _Kept] = {}


def _is_capturing(tensor: Tensor) -> bool:
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def _place(weight: Tensor) -> tuple:
    return weight.device, weight.data_ptr()


@contextlib.contextmanager
def keep_weights(weights: Sequence[Tensor]) -> Iterator[None]:
    """Keeps the codes of weights from their first use inside of the block to its end. A weight that an outer block keeps stays that one's."""
    mine = {_place(weight): _Kept(weight) for weight in weights if weight.__class__ in PLAIN and weight.numel() and _place(weight) not in _kept}
    _kept.update(mine)
    try:
        yield
    finally:
        for place in mine:
            _kept.pop(place, None)


def _cast_weight(weight: Tensor, cast: Cast, power_of_two: bool, rows: bool, workspace: int) -> Codes:
    """Casts a weight in one order, or returns the codes that ``weights_kept`` keeps."""
    kept = _kept.get(_place(weight)) if _kept else None
    if kept is None or not kept.holds(weight):
        return _order(_cast(_both_on_gpu, weight, cast, power_of_two, rows, not rows, False, workspace), cast, rows)
    captures = _is_capturing(weight)
    if captures != kept.captured:
        raise InvalidArgument(
            "weights_kept was entered outside of the CUDA graph's capture that uses its weights, and a replay would read codes that are "
            "dropped by then: enter it inside of the capture" if captures else
            "weights_kept was entered inside of a CUDA graph's capture, and its weights are used after that: leave the block before the capture "
            "ends")
    stream = torch.cuda.current_stream(weight.device).cuda_stream if weight.is_cuda else 0
    key = cast, power_of_two, stream
    if key not in kept.codes:
        kept.codes[key] = _cast(_both_on_gpu, weight, cast, power_of_two, True, True, False, workspace)
    return _order(kept.codes[key], cast, rows)


# ---- products
def _operands(a: Codes, b: Codes, bias: Optional[Tensor], use_fast_accum: bool, workspace: int) -> tuple:
    scales_of_b = b.scales.t() if b.granularity == "row" else b.scales
    return (a.codes, b.codes.t(), a.scales, scales_of_b, use_fast_accum, bias, None, None, False, None, workspace)


def _product(dtype: torch.dtype, a: Codes, b: Codes, bias: Optional[Tensor], use_fast_accum: bool, workspace: int) -> Tensor:
    """Returns ``a @ b.t() + bias``: each product of codes is made here."""
    return dispatch(SCALED_MM, None, dtype, *_operands(a, b, bias, use_fast_accum, workspace))


def _add_weight_product_(total: Tensor, gradient: Codes, input: Codes, any_order: bool, workspace: int) -> None:
    """Computes ``total += gradient @ input.t()`` with an fp32 ``total``, by the kernel itself: nothing of the weight's size is made."""
    a, b, scale_a, scale_b = _operands(gradient, input, None, False, workspace)[:4]
    f.product(f.MAT_A, a, f.MAT_B, b, f.TOTAL, total, f.SCALE_A, scale_a, f.SCALE_B, scale_b, f.ADD, True, f.ANY_ORDER, any_order,
              f.WORKSPACE, workspace)


class _Steps(NamedTuple):
    """The functions that the ops are made of: for tensors with memory, or for fake ones."""

    quantize: Any
    weight: Any
    product: Any
    add: Any
    product_16: Any
    add_16: Any


_EXTRAS_16 = (1.0, 0.0, False, None, None, None, False, None)
_REAL = _Steps(_both_on_gpu, _cast_weight, _product, _add_weight_product_,
               lambda dtype, a, b, workspace: dispatch(MM, None, dtype, a, b, *_EXTRAS_16, workspace), add_mm_)


def _fake_quantizer(matrix: Tensor, granularity: str, dtype: torch.dtype, power_of_two: bool, rows: bool, columns: bool, sums: bool,
                    workspace: int, source: Source = THE_INPUT) -> tuple:
    return new_both(matrix, granularity, dtype, rows, columns, sums, source)


def _fake_product(dtype: torch.dtype, *operands: Any) -> Tensor:
    return SCALED_MM.fake(dtype, *_operands(*operands))  # type: ignore[no-any-return]


def _fake_add(total: Tensor, gradient: Codes, input: Codes, any_order: bool, workspace: int) -> None:
    a, b, scale_a, scale_b = _operands(gradient, input, None, False, workspace)[:4]
    check_product({"mat_a": a, "mat_b": b, "total": total, "scale_a": scale_a, "scale_b": scale_b}, update=1)


_FAKE = _Steps(_fake_quantizer,
               lambda weight, cast, power_of_two, rows, workspace:
               _order(_cast(_fake_quantizer, weight, cast, power_of_two, rows, not rows, False, workspace), cast, rows),
               _fake_product, _fake_add, lambda dtype, a, b, workspace: MM.fake(dtype, a, b, *_EXTRAS_16, workspace),
               lambda total, a, b, any_order, workspace: check_product({"a": a, "b": b, "total": total}, update=1))


# ---- ops
def _cast_nothing(matrix: Tensor, cast: Cast, power_of_two: bool, rows: bool, columns: bool, source: Source) -> BothOrders:
    """Returns the casts of a matrix that no product will read: zeros."""
    made = _cast(_fake_quantizer, matrix, cast, power_of_two, rows, columns, False, 0, source)
    return BothOrders(*(None if one is None else one.zero_() for one in made))  # type: ignore[arg-type]


def _forward(steps: _Steps, input: Tensor, weight: Tensor, bias: Optional[Tensor], recipe: str, weight_gradient: str, columns: bool,
             use_fast_accum: bool, out_dtype: torch.dtype, workspace: int, gated: bool) -> Tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
    """Returns the output, and the codes and scales of the input's columns; these are None unless ``columns``. ``gated``: the input holds
    gate and up, and ``silu(gate) * up`` is multiplied."""
    casts, source = training_recipe(recipe, weight_gradient), Source(gated)
    if steps is _REAL and (input.numel() == 0 or weight.numel() == 0):  # nothing is cast or multiplied
        x = _cast_nothing(input, casts.input, casts.power_of_two, True, columns, source)
        y = input.new_zeros((input.shape[0], weight.shape[0]), dtype=out_dtype)
        y = y if bias is None else y + bias.to(out_dtype)
    else:
        x = _cast(steps.quantize, input, casts.input, casts.power_of_two, True, columns, False, workspace, source)
        w = steps.weight(weight, casts.weight, casts.power_of_two, True, workspace)
        y = steps.product(out_dtype, _order(x, casts.input, True), w, bias, use_fast_accum, workspace)
    return y, x.columns, x.column_scales


def _gradient_casts(steps: _Steps, grad: Tensor, gate_up: Optional[Tensor], recipe: str, weight_gradient: str, rows: bool, columns: bool,
                    sums: bool, workspace: int) -> BothOrders:
    """Returns the casts of the output's gradient that are wanted, and its sums. With ``gate_up``, the output, ``grad`` is that of
    ``silu(gate) * up``."""
    casts = training_recipe(recipe, weight_gradient)
    matrix, source = (grad, THE_INPUT) if gate_up is None else (gate_up, Source(True, grad))
    if steps is _REAL and (grad.numel() == 0 or not (rows or columns)):
        made = _cast_nothing(matrix, casts.gradient, casts.power_of_two, rows, columns, source)
        return made._replace(sums=source.matrix(matrix).sum(0, dtype=torch.float32) if sums else None)
    if not (rows or columns):
        return BothOrders(*[None] * 4, grad.new_empty(source.shape(matrix)[1], dtype=torch.float32))  # type: ignore[arg-type]
    return _cast(steps.quantize, matrix, casts.gradient, casts.power_of_two, rows, columns, sums, workspace, source)


def _backward(steps: _Steps, total: Optional[Tensor], any_order: bool, rows: Optional[Tensor], row_scales: Optional[Tensor],
              columns: Optional[Tensor], column_scales: Optional[Tensor], weight: Tensor, input: Optional[Tensor], input_columns: Optional[Tensor],
              input_scales: Optional[Tensor], recipe: str, weight_gradient: str, input_dtype: torch.dtype, weight_dtype: torch.dtype, workspace: int,
              gated: bool, grad: Optional[Tensor]) -> Tuple[Optional[Tensor], Optional[Tensor]]:
    """Returns the gradients of input and weight: of the input if the output's gradient is given in ``rows``, of the weight if in ``columns``, or
    in 16 bits as ``grad``. That is added to ``total`` instead, if it is given. ``input`` is cast if its columns are not given; ``gated`` is as in
    the forward."""
    casts, codes = training_recipe(recipe, weight_gradient), columns if grad is None else grad
    dx = dw = None
    if codes is not None and steps is _REAL and (codes.numel() == 0 or weight.numel() == 0):
        dw = torch.zeros_like(weight, dtype=weight_dtype) if total is None else None
    elif grad is not None:
        in_16_bits = grad.t(), input.to(grad.dtype)  # type: ignore[union-attr]
        if total is None:
            dw = steps.product_16(weight_dtype, *in_16_bits, workspace)
        else:
            steps.add_16(total, *in_16_bits, any_order, workspace)
    elif columns is not None:
        if input_columns is None:
            made = _cast(steps.quantize, input, casts.input, casts.power_of_two, False, True, False, workspace, Source(gated))
            x = _order(made, casts.input, False)
        else:
            x = Codes(input_columns, input_scales, casts.input.columns)  # type: ignore[arg-type]
        dy = Codes(columns, column_scales, casts.gradient.columns)  # type: ignore[arg-type]
        if total is None:
            dw = steps.product(weight_dtype, dy, x, None, False, workspace)
        else:
            steps.add(total, dy, x, any_order, workspace)
    if rows is not None and steps is _REAL and (rows.numel() == 0 or weight.numel() == 0):
        dx = rows.new_zeros((rows.shape[0], weight.shape[1]), dtype=input_dtype)
    elif rows is not None:
        w = steps.weight(weight, casts.weight, casts.power_of_two, False, workspace)
        w = w._replace(codes=w.codes[:, :weight.shape[0]])  # without the zeros behind the outputs
        dx = steps.product(input_dtype, Codes(rows, row_scales, casts.gradient.rows), w, None, False, workspace)  # type: ignore[arg-type]
    return dx, dw


_FORWARD = _define(
    "fp8_linear(Tensor input, Tensor weight, Tensor? bias, str recipe, str weight_gradient, bool columns, bool use_fast_accum, "
    "ScalarType out_dtype, int workspace, bool gated) -> (Tensor, Tensor, Tensor)",
    lambda *given: whole(_forward(_REAL, *given), given[0]), lambda *given: whole(_forward(_FAKE, *given), given[0]))
# Two ops, so that a compiled graph frees the gradient in 16 bits before the products.
_CASTS = _define(
    "fp8_linear_casts(Tensor grad, Tensor? gate_up, str recipe, str weight_gradient, bool rows, bool columns, bool sums, int workspace) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    lambda *given: whole(_gradient_casts(_REAL, *given), given[0], given[2] == "tensor" and given[4] and given[5]),
    lambda *given: whole(_gradient_casts(_FAKE, *given), given[0]))
_OF_BACKWARD = ("Tensor? rows, Tensor? row_scales, Tensor? columns, Tensor? column_scales, Tensor weight, Tensor? input, Tensor? input_columns, "
                "Tensor? input_scales, str recipe, str weight_gradient, ScalarType input_dtype, ScalarType weight_dtype, int workspace, bool gated, "
                "Tensor? grad")
_BACKWARD = _define(f"fp8_linear_backward({_OF_BACKWARD}) -> (Tensor, Tensor)",
                    lambda *given: whole(_backward(_REAL, None, False, *given), given[4]),
                    lambda *given: whole(_backward(_FAKE, None, False, *given), given[4]))
_BACKWARD_ADD = _define(f"fp8_linear_backward_add(Tensor(total!) total, bool any_order, {_OF_BACKWARD}) -> Tensor",
                        lambda *given: whole(_backward(_REAL, *given)[:1], given[6])[0],
                        lambda *given: whole(_backward(_FAKE, *given)[:1], given[6])[0])


def _takes_no_dispatcher(tensor: Tensor) -> bool:
    """Returns whether a call may go around the dispatcher. A mode of torch's, as selective checkpointing's, must see the op."""
    return takes_no_dispatcher(tensor) and torch._C._len_torch_dispatch_stack() == 0


# ---- autograd
def _computed_in(input: Tensor) -> torch.dtype:
    """Returns the output's type: the one that torch.autocast casts to, if it is on, else the input's."""
    kind = input.device.type
    return torch.get_autocast_dtype(kind) if kind != "meta" and torch.is_autocast_enabled(kind) else input.dtype


class Call(NamedTuple):
    """The options of one linear, those of ``nn.Linear``; the workspace's address, and the object that keeps it alive."""

    recipe: str
    keep: str
    weight_gradient: str
    use_fast_accum: bool
    deterministic: bool
    dtype: torch.dtype
    workspace: int
    owner: Optional[Workspace]
    makes_gate_up: bool = False
    """Whether the output is gate and up, of which the next linear multiplies ``silu(gate) * up``."""


def call_of(layer: Any, dtype: torch.dtype, **more: bool) -> Call:
    """Returns the call of a ``Linear`` with ``backward="fp8"`` whose output has type ``dtype``."""
    workspace = layer.workspace
    return Call(layer.recipe, layer.keep, layer.weight_gradient, layer.use_fast_accum, layer.deterministic, dtype, workspace_number(workspace),
                None if _is_compiling() else workspace, **more)


def _check_input(input: Tensor, weight: Tensor) -> None:
    if input.dtype not in _FLOATS or weight.dtype not in _FLOATS:
        name, given = ("input", input) if input.dtype not in _FLOATS else ("weight", weight)
        raise InvalidType(f"{name} is {given.dtype} and must be bfloat16, float16 or float32: convert it")
    if input.dim() == 0 or input.shape[-1] != weight.shape[1]:
        raise InvalidSize(f"input has shape {tuple(input.shape)} and must have in_features = {weight.shape[1]} columns")


def _output(input: Tensor, weight: Tensor, bias: Optional[Tensor], call: Call, columns: bool, gated: bool) -> tuple:
    """Returns what ``_forward`` does; the output has the input's leading dimensions."""
    arguments = (as_matrix(input).contiguous(), weight, bias, call.recipe, call.weight_gradient, columns, call.use_fast_accum, call.dtype,
                 call.workspace, gated)
    y, codes, scales = _forward(_REAL, *arguments) if _takes_no_dispatcher(input) else _FORWARD(*arguments)
    return y.view(*input.shape[:-1], weight.shape[0]), codes, scales


def linear_in_fp8(input: Tensor, layer: Any) -> Tensor:
    """Returns the output of a ``Linear`` with ``backward="fp8"``."""
    weight, bias, call = layer.weight, layer.bias, call_of(layer, _computed_in(input))
    _check_input(input, weight)
    if not needs_grad(input, weight, bias, None):
        return _output(input, weight, bias, call, False, False)[0]  # type: ignore[no-any-return]
    if call.weight_gradient == "16bit" and call.dtype is torch.float32:
        raise InvalidType("input is torch.float32, and weight_gradient = '16bit' multiplies gradients in 16 bits: convert it, or use "
                          "torch.autocast")
    return result_of(Fp8LinearFunction.apply(input, weight, bias, call, None))


def swiglu_in_fp8(input: Tensor, gate_up: Any, down: Any) -> Tensor:
    """Returns ``down(silu(gate) * up)``, where gate and up are the halves of ``gate_up(input)``; both are ``Linear`` with
    ``backward="fp8"``."""
    _check_input(input, gate_up.weight)
    dtype = _computed_in(input)
    if dtype is torch.float32:
        raise InvalidType("input is torch.float32, and gate and up are kept in 16 bits: convert it, or use torch.autocast")
    first, second = call_of(gate_up, dtype, makes_gate_up=True), call_of(down, dtype)
    if not any(needs_grad(input, layer.weight, layer.bias, None) for layer in (gate_up, down)):
        both = _output(input, gate_up.weight, gate_up.bias, first, False, False)[0]
        return _output(both, down.weight, down.bias, second, False, True)[0]  # type: ignore[no-any-return]
    product, both = Fp8LinearFunction.apply(input, gate_up.weight, gate_up.bias, first, None)[:2]
    return result_of(Fp8LinearFunction.apply(product, down.weight, down.bias, second, both))


@splittable
class Fp8LinearFunction(torch.autograd.Function):
    """``input @ weight.t() + bias`` in FP8 with a backward in FP8.

    Saved for the backward are the weight itself, and either the input's columns in FP8 or the input. ``weight.main_grad`` is as for
    ``LinearFunction``.

    With ``call.makes_gate_up`` the output is saved, too. The first result stands for ``silu(gate) * up``: it has its shape and no memory of its
    own, and its gradient comes back for it. The second result is the output, gate and up. Passed as ``gate_up`` with the first as ``input``, the
    next linear multiplies what they stand for.
    """

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Optional[Tensor], call: Call, gate_up: Optional[Tensor]) -> Any:
        needs = ctx.needs_input_grad
        columns = needs[1] and call.weight_gradient == "fp8" and call.keep == "columns"
        ctx.call, ctx.types, ctx.gated = call, (input.dtype, weight.dtype, bias if bias is None else bias.dtype), gate_up is not None
        ctx.holder = holder_of_main_grad(weight)
        read = input if gate_up is None else gate_up
        y, codes, scales = _output(read, weight, bias, call, columns, ctx.gated)
        y = owned(y)
        saved = weight, read if needs[1] and not columns else None, codes if columns else None, scales if columns else None
        if not call.makes_gate_up:
            return with_owner(ctx, y, *saved, None)
        ctx.mark_non_differentiable(y)
        product = y.new_empty((1,)).expand(*y.shape[:-1], y.shape[-1] // 2)
        made = with_owner(ctx, product, *saved, y)
        return (made[0], y, made[1]) if isinstance(made, tuple) else (made, y)

    @staticmethod
    def backward(ctx: Any, grad_output: Optional[Tensor], *of_others: Optional[Tensor]) -> tuple:
        refuse_second_derivative()
        weight, input, columns, scales, gate_up = saved_of(ctx, 5)
        if grad_output is None:
            return None, None, None, None, None
        call: Call = ctx.call
        input_dtype, weight_dtype, bias_dtype = ctx.types
        walk, grad = walk_of(ctx), as_matrix(grad_output).contiguous()  # a sum's gradient has zero strides, which no kernel takes
        input = None if input is None else as_matrix(input).contiguous()
        gate_up = None if gate_up is None else as_matrix(gate_up)
        direct, in_fp8, found = _takes_no_dispatcher(grad), call.weight_gradient == "fp8", []
        wanted = walk.input, walk.weight and in_fp8
        made = BothOrders(*[None] * 5)  # type: ignore[arg-type]
        if any((*wanted, walk.bias)):
            given = grad, gate_up, call.recipe, call.weight_gradient, *wanted, walk.bias, call.workspace
            made = BothOrders(*(_gradient_casts(_REAL, *given) if direct else _CASTS(*given)))
        of_rows, of_columns = (part if is_wanted else (None, None) for part, is_wanted in zip((made[:2], made[2:4]), wanted))
        before = weight, input, columns, scales, call.recipe, call.weight_gradient, input_dtype
        behind = call.workspace, ctx.gated, None if in_fp8 or not walk.weight else grad

        def product(dtype: torch.dtype) -> Optional[Tensor]:
            arguments = *of_rows, *of_columns, *before, dtype, *behind
            dx, dw = _backward(_REAL, None, False, *arguments) if direct else _BACKWARD(*arguments)
            found.append(dx)
            return dw  # type: ignore[no-any-return]

        def add(total: Tensor) -> None:
            arguments = total, any_order_of(call.deterministic), *of_rows, *of_columns, *before, weight_dtype, *behind
            found.append(_backward(_REAL, *arguments)[0] if direct else _BACKWARD_ADD(*arguments))
            written(total)

        if walk.weight:
            grad_weight = weight_gradient(ctx.holder, weight_dtype, walk, product, add)  # type: ignore[arg-type]
        else:
            grad_weight = product(weight_dtype) if walk.input else None
        return (found[0].view(*grad_output.shape[:-1], weight.shape[1]) if walk.input else None, grad_weight if walk.weight else None,
                made.sums.to(bias_dtype) if walk.bias else None, None, None)  # type: ignore[union-attr]
