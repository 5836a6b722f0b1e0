# SPDX-License-Identifier: Apache-2.0
"""``Linear`` in 16 bits (with a backward) and in FP8 (forward only), in the place of ``torch.nn.Linear``; ``Linear4bit``,
``Linear8bit`` and ``LinearPacked`` (packed_linear.py) for packed weights; and ``convert_``, which puts them into a model."""
from __future__ import annotations

import logging
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor

from .._arguments import shown
from ..errors import Error, InvalidArgument
from ..plans import Rows, Workspace, prepare, prepare_quantizers
from ..problems import Problem
from ._layers import ANY_ROWS, NEEDS_16_BITS, backward_problems, check_layer, linear_problem, why_not_packed
from ._library import as_matrix, scales_shape
from .autograd import needs_grad
from .functional import linear, scaled_mm
from .packed_linear import PACKED_RECIPES, Linear4bit, Linear8bit, LinearPacked, gpu_of
from .quantize import quantize, quantize_reference

__all__ = ["Conversion", "Linear", "Linear4bit", "Linear8bit", "LinearPacked", "can_convert", "convert_", "prepare_rows",
           "why_not"]

# Recipe: what shares a scale in the weight and in the input.
RECIPES = {"tensor": ("tensor", "tensor"), "row": ("row", "row"), "block": ("128x128", "1x128")}


def _check_recipe(recipe: Optional[str]) -> None:
    if recipe is not None and recipe not in RECIPES:
        raise InvalidArgument(f"recipe = {shown(recipe)} must be None (16 bits) or one of {', '.join(RECIPES)}; "
                              f"convert_ takes {', '.join(PACKED_RECIPES)} too")


class Linear(torch.nn.Module):
    """``torch.nn.Linear`` computed by sluice.

    ``recipe`` None keeps weights in 16 bits, trainable. "tensor", "row" and "block" keep them in float8_e4m3fn beside
    their ``weight_scale`` and quantise the input in a fused kernel; the output has the input's type. Parameters are
    called as torch's are. A size or type that no kernel takes raises here, and not at the first call. ``use_fast_accum``: as
    for ``scaled_mm``; sums are promoted without it. ``fuse_quantizer``: under torch.compile the input is quantised by torch's
    own operations, which the compiler fuses with what came before (its divisions are approximate, so bits may differ from the
    kernel's).
    ``deterministic``: as for ``linear``; an attribute, which may be changed at any time. So is ``workspace``, None at first:
    a ``sluice.Workspace`` that the layer's products, quantiser and backward use instead of those that are lent.
    """

    weight: torch.nn.Parameter
    weight_scale: Tensor
    bias: Optional[torch.nn.Parameter]
    workspace: Optional[Workspace] = None

    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, recipe: Optional[str] = None,
                 device: Union[str, int, torch.device, None] = None, dtype: Optional[torch.dtype] = None, use_fast_accum: bool = False,
                 fuse_quantizer: bool = False, deterministic: bool = True) -> None:
        super().__init__()
        _check_recipe(recipe)
        self._set(in_features, out_features, recipe, use_fast_accum, fuse_quantizer, deterministic)
        dtype = dtype or torch.bfloat16
        self.bias = None
        if bias:
            self.bias = torch.nn.Parameter(torch.zeros(out_features, device=device, dtype=dtype), requires_grad=recipe is None)
        check_layer(self, [linear_problem(self, ANY_ROWS, recipe, dtype)] + (backward_problems(self, dtype) if recipe is None else []))
        shape = (out_features, in_features)
        if recipe is None:
            self.weight = torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
            torch.nn.init.kaiming_uniform_(self.weight, a=5**0.5)
        else:
            self.weight = torch.nn.Parameter(torch.zeros(shape, device=device, dtype=torch.float8_e4m3fn), requires_grad=False)
            self.register_buffer("weight_scale", torch.ones(scales_shape(shape, RECIPES[recipe][0]), device=device))

    def _set(self, in_features: int, out_features: int, recipe: Optional[str], use_fast_accum: bool, fuse_quantizer: bool,
             deterministic: bool) -> None:
        self.in_features, self.out_features, self.recipe = in_features, out_features, recipe
        self.use_fast_accum, self.fuse_quantizer, self.deterministic = use_fast_accum, fuse_quantizer, deterministic

    @classmethod
    def from_linear(cls, module: torch.nn.Linear, recipe: Optional[str], *,
                    use_fast_accum: bool = False, fuse_quantizer: bool = False, deterministic: bool = True) -> "Linear":
        """Of a ``torch.nn.Linear``: its very parameters in 16 bits (``recipe`` None), or its weight quantised once. Raises
        ``InvalidArgument`` for a layer that cannot be taken, with what ``why_not`` says of it."""
        _check_recipe(recipe)
        reason = why_not(module, recipe)
        if reason is not None:
            raise InvalidArgument(f"Linear.from_linear: {reason}")
        made = cls.__new__(cls)
        torch.nn.Module.__init__(made)
        made._set(module.in_features, module.out_features, recipe, use_fast_accum, fuse_quantizer, deterministic)
        weight, made.bias = module.weight, module.bias
        if recipe is None:
            made.weight = weight
            return made.train(module.training)
        with torch.no_grad():
            quantized, scale = (quantize if weight.is_cuda else quantize_reference)(weight.detach().contiguous(), RECIPES[recipe][0])
        made.weight = torch.nn.Parameter(quantized, requires_grad=False)
        made.register_buffer("weight_scale", scale)
        if module.bias is not None:
            made.bias = torch.nn.Parameter(module.bias.detach(), requires_grad=False)
        return made.train(module.training)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Linear":
        """What ``.to()`` and its kin do to each tensor. fp8 weights and their fp32 scales move, and keep their types: as
        another type they would be other numbers, and no kernel takes them."""
        if self.recipe is None:
            return super()._apply(fn, recurse)
        kept = (self.weight, self.weight_scale)

        def keeping(tensor: Tensor) -> Tensor:
            applied = fn(tensor)
            if applied.dtype is tensor.dtype or not any(tensor is one for one in kept):
                return applied
            return tensor.to(applied.device)

        return super()._apply(keeping, recurse)

    def forward(self, input: Tensor, residual: Optional[Tensor] = None) -> Tensor:
        """The layer's output, plus ``residual`` (of the output's shape) in the same kernel, rounded once."""
        if self.recipe is None:
            return linear(input, self.weight, self.bias, c=residual, workspace=self.workspace,
                          deterministic=self.deterministic)
        if needs_grad(input, residual, None, None):
            raise InvalidArgument("an FP8 Linear has no backward: run it under torch.no_grad(), or convert with "
                                  "recipe=None to train")
        by_compiler = self.fuse_quantizer and torch.compiler.is_compiling()
        rows = as_matrix(input)
        quantized = (quantize_reference(rows, self.granularity) if by_compiler
                     else quantize(rows, self.granularity, workspace=self.workspace))
        return self.of_quantized(*quantized, input.dtype, residual).view(*input.shape[:-1], self.out_features)

    def prepare(self, rows: Rows, dtype: Optional[torch.dtype] = None) -> None:
        """Makes ready what ``forward`` needs for every number of rows of a range, like ``(1, 512)``: at most 12 kernels, and
        the input's quantiser. Rows are the elements of the input over ``in_features``. ``dtype`` is the input's; left out,
        the bias's, else bf16 (of a layer in 16 bits, the weight's). Without ``residual``; a backward compiles as it comes.
        """
        device = gpu_of(self.weight)
        prepare(self.problem(1, dtype), m=rows, device=device)
        if self.recipe is not None:
            prepare_quantizers(self._input_type(dtype), device=device)

    def problem(self, m: int, dtype: Optional[torch.dtype] = None) -> Problem:
        """What ``forward`` multiplies for an input of ``m`` rows of type ``dtype``, as above."""
        of = self.weight.dtype if self.recipe is None else self._input_type(dtype)
        return linear_problem(self, m, self.recipe, of, use_fast_accum=self.use_fast_accum)

    def _input_type(self, dtype: Optional[torch.dtype]) -> torch.dtype:
        return dtype or (torch.bfloat16 if self.bias is None else self.bias.dtype)

    @property
    def granularity(self) -> str:
        """Of the quantised input; of an FP8 layer."""
        if self.recipe is None:
            raise InvalidArgument("a Linear with recipe=None does not quantise its input")
        return RECIPES[self.recipe][1]

    def of_quantized(self, quantized: Tensor, scale: Tensor, dtype: torch.dtype, residual: Optional[Tensor] = None) -> Tensor:
        """The output, of type ``dtype``, for an input that was quantised by ``granularity`` already, as by
        ``silu_mul_quantize(gate_up, layer.granularity)``."""
        per_tensor = self.granularity == "tensor"  # raises where there is no recipe
        weight_scale = self.weight_scale.t() if self.recipe == "row" else self.weight_scale
        shape = quantized.shape[:-1]
        if not per_tensor:
            scale = as_matrix(scale)
        c = None if residual is None else as_matrix(residual)
        output = scaled_mm(as_matrix(quantized), self.weight.t(), scale, weight_scale, self.bias, c=c,
                           out_dtype=dtype, use_fast_accum=self.use_fast_accum, workspace=self.workspace)
        return output.view(*shape, self.out_features)

    def extra_repr(self) -> str:
        return (f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
                f"recipe={self.recipe}")


def prepare_rows(model: torch.nn.Module, rows: Rows, dtype: Optional[torch.dtype] = None) -> int:
    """``prepare(rows, dtype)`` of every layer of a model that has it, once for layers with equal problems. Returns how many
    different ones there were: each has at most 12 kernels of its own."""
    seen = set()
    for module in model.modules():
        if not isinstance(module, (Linear, LinearPacked)):
            continue
        weight = module.weight if isinstance(module, Linear) else module.weight_packed
        key = (module.problem(1, dtype), gpu_of(weight))
        if key not in seen:
            seen.add(key)
            module.prepare(rows, dtype)
    return len(seen)


class Conversion(NamedTuple):
    """What ``convert_`` did with the linears of a model; ``str()`` of it is the report that is logged."""

    recipe: Optional[str]
    converted: Tuple[str, ...]
    """Names of the layers that were replaced."""
    left_out: Dict[str, str]
    """Name of each ``torch.nn.Linear`` (or layer made from one) that no kernel takes, and why."""
    filtered: Tuple[str, ...]
    """Names of those that ``filter_fn`` kept."""

    def __str__(self) -> str:
        lines = [f"convert_(recipe={self.recipe!r}): {len(self.converted)} layers converted, {len(self.left_out)} left out, "
                 f"{len(self.filtered)} kept by filter_fn"]
        return "\n".join(lines + [f"  {name}: {reason}" for name, reason in self.left_out.items()])


def log_conversion(done: Conversion) -> None:
    """To the logger "sluice": a warning if a layer was left out, else information."""
    logging.getLogger("sluice").log(logging.WARNING if done.left_out else logging.INFO, "%s", done)


def why_not(module: torch.nn.Module, recipe: Optional[str], activations: Optional[str] = None) -> Optional[str]:
    """Why ``convert_`` leaves a module as it is: what it is not, or the rule that its sizes or its type break. None: it can be
    taken."""
    if type(module) is not torch.nn.Linear:
        return f"it is a {type(module).__name__}, and a plain torch.nn.Linear is replaced" + (
            ": one derived from it may do more" if isinstance(module, torch.nn.Linear) else "")
    dtype = module.weight.dtype
    if recipe in PACKED_RECIPES:
        return why_not_packed(module, PACKED_RECIPES[recipe], activations)
    if dtype is torch.float32 and recipe is None:
        return NEEDS_16_BITS
    if dtype not in (torch.bfloat16, torch.float16, torch.float32):
        return f"its weight is {dtype} and must be bfloat16, float16 or (where it is quantised) float32"
    problems = [linear_problem(module, ANY_ROWS, recipe, dtype)]
    if recipe is None and module.weight.requires_grad:
        problems += backward_problems(module, dtype)
    try:
        check_layer(module, problems)
    except Error as error:
        return str(error)
    return None


def can_convert(module: torch.nn.Module, recipe: Optional[str], activations: Optional[str] = None) -> bool:
    """Is it a plain linear of sizes and a type that the recipe takes? ``why_not`` says what stands against it."""
    return why_not(module, recipe, activations) is None


def _check_options(recipe: Optional[str], activations: Optional[str], group: Optional[int], fp8_options: bool) -> None:
    if activations is not None and recipe != "int4":
        raise InvalidArgument(f"activations = {shown(activations)} is for recipe = 'int4', not {shown(recipe)}: leave it out")
    if recipe in PACKED_RECIPES:
        if fp8_options:
            raise InvalidArgument(f"use_fast_accum, fuse_quantizer and deterministic mean nothing for recipe = {shown(recipe)}: leave "
                                  "them out")
        return
    _check_recipe(recipe)
    if group is not None:
        raise InvalidArgument(f"group = {group} is for the recipes {', '.join(PACKED_RECIPES)}: leave it out")


def _replacement(child: torch.nn.Linear, recipe: Optional[str], options: dict) -> torch.nn.Module:
    if recipe not in PACKED_RECIPES:
        return Linear.from_linear(child, recipe, **options)
    return PACKED_RECIPES[recipe].from_linear(child, **options)


def convert_(model: torch.nn.Module, filter_fn: Optional[Callable[[torch.nn.Module, str], bool]] = None, *,
             recipe: Optional[str], use_fast_accum: bool = False, fuse_quantizer: bool = False,
             deterministic: bool = True, group: Optional[int] = None, activations: Optional[str] = None,
             report: Callable[[Conversion], Any] = log_conversion) -> torch.nn.Module:
    """Replaces every ``torch.nn.Linear`` of a model that can be taken, and for which ``filter_fn(module, name)`` is true,
    in place. Returns the model. A linear that is used in several places stays one.

    ``recipe`` has no default, for one of them trains and the others are forward only: None (16 bits, trainable) and the FP8
    ones of ``Linear``, or "int4" and "int8": weights rounded and packed, with a scale for each ``group`` (128) of k, input in
    16 bits, or with ``activations="e4m3"`` ("int4" only) quantised to e4m3, a scale a token.

    ``report`` is called with a ``Conversion``, which names the layers that were left out and why; by default it is logged
    (logger "sluice"). Raises ``InvalidArgument`` with the first reason if no linear at all could be taken: a model in fp32 for
    ``recipe=None``, say.
    """
    _check_options(recipe, activations, group, use_fast_accum or fuse_quantizer or not deterministic)
    if recipe in PACKED_RECIPES:
        options: dict = {"group": 128 if group is None else group, "activations": activations}
        made_by = f"{PACKED_RECIPES[recipe].__name__}.from_linear(model)"
    else:
        options = {"use_fast_accum": use_fast_accum, "fuse_quantizer": fuse_quantizer, "deterministic": deterministic}
        made_by = "Linear.from_linear(model, recipe)"
    if type(model) is torch.nn.Linear:
        raise InvalidArgument("convert_ replaces the linears inside of a model, and this model is one itself: "
                              f"use model = {made_by}")
    made: Dict[torch.nn.Module, torch.nn.Module] = {}
    converted, left_out, filtered = [], {}, []
    for name, module in list(model.named_modules()):
        for child_name, child in list(module._modules.items()):  # named_children() leaves out those seen before
            if not isinstance(child, torch.nn.Linear):
                continue
            full_name = f"{name}.{child_name}" if name else child_name
            if filter_fn is not None and not filter_fn(child, full_name):
                filtered.append(full_name)
                continue
            reason = None if child in made else why_not(child, recipe, activations)
            if reason is not None:
                left_out[full_name] = reason
                continue
            if child not in made:
                made[child] = _replacement(child, recipe, options)
            setattr(module, child_name, made[child])
            converted.append(full_name)
    if left_out and not converted:
        name, reason = next(iter(left_out.items()))
        raise InvalidArgument(f"convert_(recipe={recipe!r}) can take none of the model's {len(left_out)} linears. {name}: {reason}")
    report(Conversion(recipe, tuple(converted), left_out, tuple(filtered)))
    return model
