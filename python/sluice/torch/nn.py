# SPDX-License-Identifier: Apache-2.0
"""``Linear`` in 16 bits (with a backward) and in FP8 (forward only), in the place of ``torch.nn.Linear``; ``Linear4bit``,
``Linear8bit`` and ``LinearPacked`` (packed_linear.py) for packed weights; and ``convert_``, which puts them into a model."""
from __future__ import annotations

from typing import Callable, Optional, Union

import torch
from torch import Tensor

from .._arguments import shown
from ..errors import InvalidArgument
from ..plans import Rows, Workspace, prepare, prepare_quantizers
from ..problems import Problem
from ._library import as_matrix, scales_shape
from .autograd import needs_grad
from .functional import linear, scaled_mm
from .packed_linear import PACKED_RECIPES, Linear4bit, Linear8bit, LinearPacked, gpu_of
from .quantize import quantize, quantize_reference

__all__ = ["Linear", "Linear4bit", "Linear8bit", "LinearPacked", "can_convert", "convert_", "prepare_rows"]

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
    called as torch's are. ``fuse_quantizer``: under torch.compile the input is quantised by torch's own operations, which
    the compiler fuses with what came before (its divisions are approximate, so bits may differ from the kernel's).
    ``deterministic``: as for ``linear``; an attribute, which may be changed at any time. So is ``workspace``, None at first:
    a ``sluice.Workspace`` that the layer's products, quantiser and backward use instead of those that are lent.
    """

    weight: torch.nn.Parameter
    weight_scale: Tensor
    bias: Optional[torch.nn.Parameter]
    workspace: Optional[Workspace] = None

    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, recipe: Optional[str] = None,
                 device: Union[str, int, torch.device, None] = None, dtype: Optional[torch.dtype] = None, use_fast_accum: bool = True,
                 fuse_quantizer: bool = False, deterministic: bool = True) -> None:
        super().__init__()
        _check_recipe(recipe)
        self.fuse_quantizer = fuse_quantizer
        self.in_features, self.out_features = in_features, out_features
        self.recipe, self.use_fast_accum, self.deterministic = recipe, use_fast_accum, deterministic
        dtype = dtype or torch.bfloat16
        if recipe is None:
            self.weight = torch.nn.Parameter(torch.empty((out_features, in_features), device=device, dtype=dtype))
            torch.nn.init.kaiming_uniform_(self.weight, a=5**0.5)
        else:
            empty = torch.zeros((out_features, in_features), device=device, dtype=torch.float8_e4m3fn)
            self.weight = torch.nn.Parameter(empty, requires_grad=False)
            shape = scales_shape((out_features, in_features), RECIPES[recipe][0])
            self.register_buffer("weight_scale", torch.ones(shape, device=device, dtype=torch.float32))
        self.bias = None
        if bias:
            self.bias = torch.nn.Parameter(torch.zeros(out_features, device=device, dtype=dtype),
                                           requires_grad=recipe is None)

    @classmethod
    def from_linear(cls, module: torch.nn.Linear, recipe: Optional[str] = None, *,
                    use_fast_accum: bool = True, fuse_quantizer: bool = False, deterministic: bool = True) -> "Linear":
        """Of a ``torch.nn.Linear``: its very parameters in 16 bits, or its weight quantised once."""
        _check_recipe(recipe)
        weight = module.weight
        made = cls(module.in_features, module.out_features, bias=module.bias is not None, recipe=recipe, device="meta",
                   dtype=weight.dtype, use_fast_accum=use_fast_accum, fuse_quantizer=fuse_quantizer,
                   deterministic=deterministic)
        if recipe is None:
            made.weight, made.bias = weight, module.bias
            return made.train(module.training)
        granularity = RECIPES[recipe][0]
        with torch.no_grad():
            contiguous = weight.detach().contiguous()
            quantized, scale = (quantize if weight.is_cuda else quantize_reference)(contiguous, granularity)
            made.weight = torch.nn.Parameter(quantized, requires_grad=False)
            made.weight_scale = scale
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
        bias = None if self.bias is None else str(self.bias.dtype)
        sizes = {"m": m, "n": self.out_features, "k": self.in_features, "bias": bias}
        if self.recipe is None:
            return Problem(**sizes, a=str(self.weight.dtype))
        scales = {"tensor": "tensor", "row": "vector", "block": "block"}[self.recipe]
        return Problem(**sizes, a="e4m3", d=str(self._input_type(dtype)), scale_a=scales, scale_b=scales,
                       accumulate="fast" if self.use_fast_accum else "promoted")

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


def can_convert(module: torch.nn.Module, recipe: Optional[str] = "block", activations: Optional[str] = None) -> bool:
    """A plain linear whose sizes the copy engine can address, of a type that the recipe takes: bf16 and fp16, and fp32
    where the input is quantised."""
    if type(module) is not torch.nn.Linear:
        return False
    if recipe in PACKED_RECIPES:
        if activations is not None:
            return module.in_features % 16 == 0 and module.weight.dtype in (torch.bfloat16, torch.float16, torch.float32)
        return module.in_features % 8 == 0 and module.weight.dtype in (torch.bfloat16, torch.float16)
    return (module.in_features % 16 == 0 and module.out_features % 16 == 0
            and (module.weight.dtype in (torch.bfloat16, torch.float16)
                 or (recipe is not None and module.weight.dtype is torch.float32)))


def convert_(model: torch.nn.Module, filter_fn: Optional[Callable[[torch.nn.Module, str], bool]] = None, *,
             recipe: Optional[str] = "block", use_fast_accum: bool = True, fuse_quantizer: bool = False,
             deterministic: bool = True, group: Optional[int] = None,
             activations: Optional[str] = None) -> torch.nn.Module:
    """Replaces every ``torch.nn.Linear`` of a model that can be taken, and for which ``filter_fn(module, name)`` is true,
    in place. Returns the model. A linear that is used in several places stays one.

    ``recipe``: None and the FP8 ones of ``Linear``, or "int4" and "int8": weights rounded and packed, with a scale for each
    ``group`` (128) of k, input in 16 bits, or with ``activations="e4m3"`` ("int4" only) quantised to e4m3, a scale a token.
    """
    if activations is not None and recipe != "int4":
        raise InvalidArgument(f"activations = {shown(activations)} is for recipe = 'int4', not {shown(recipe)}: leave it out")
    if recipe in PACKED_RECIPES:
        if not (use_fast_accum and deterministic) or fuse_quantizer:
            raise InvalidArgument(f"use_fast_accum, fuse_quantizer and deterministic mean nothing for recipe = {shown(recipe)}: leave "
                                  "them out")
        kind = PACKED_RECIPES[recipe]

        def convert(child: torch.nn.Linear) -> torch.nn.Module:
            return kind.from_linear(child, 128 if group is None else group, activations=activations)
    else:
        _check_recipe(recipe)
        if group is not None:
            raise InvalidArgument(f"group = {group} is for the recipes {', '.join(PACKED_RECIPES)}: leave it out")

        def convert(child: torch.nn.Linear) -> torch.nn.Module:
            return Linear.from_linear(child, recipe, use_fast_accum=use_fast_accum, fuse_quantizer=fuse_quantizer,
                                      deterministic=deterministic)
    if type(model) is torch.nn.Linear:
        made_by = f"{PACKED_RECIPES[recipe].__name__}.from_linear(model)" if recipe in PACKED_RECIPES \
            else "Linear.from_linear(model, recipe)"
        raise InvalidArgument("convert_ replaces the linears inside of a model, and this model is one itself: "
                              f"use model = {made_by}")
    made: dict[torch.nn.Module, torch.nn.Module] = {}
    for name, module in list(model.named_modules()):
        for child_name, child in list(module._modules.items()):  # named_children() leaves out those seen before
            full_name = f"{name}.{child_name}" if name else child_name
            if child is None or not can_convert(child, recipe, activations) or not (filter_fn is None or filter_fn(child, full_name)):
                continue
            if child not in made:
                made[child] = convert(child)
            setattr(module, child_name, made[child])
    return model
