# SPDX-License-Identifier: Apache-2.0
"""``sluice.torch.nn.Linear``: a linear in 16 bits or FP8 that trains, or in FP8 whose weights are codes."""
from __future__ import annotations

from typing import Callable, ContextManager, Optional, Union

import torch
from torch import Tensor

from .._arguments import shown
from ..errors import Error, InvalidArgument
from ..plans import Rows, prepare, prepare_quantizers
from ..problems import Problem
from ..weights.checkpoints import Fp8Weights
from ._entry import checked, op
from ._fp8_recipes import check_training, training_problems
from ._layers import ANY_ROWS, NEEDS_16_BITS, HoldsWorkspace, backward_problems, check_layer, linear_problem
from ._library import as_matrix, scales_shape
from ._states import QuantizedState
from .autograd import needs_grad
from .fp8_linear import keep_weights, linear_in_fp8, prepare_casts
from .functional import linear, scaled_mm
from .packed_linear import PACKED_RECIPES, gpu_of
from .quantize import quantize, quantize_reference, quantize_static

# Maps each recipe to the granularity of the weight's scales and that of the input's scales.
RECIPES = {"tensor": ("tensor", "tensor"), "row": ("row", "row"), "block": ("128x128", "1x128")}


def _check_recipe(recipe: Optional[str]) -> None:
    if recipe is not None and recipe not in RECIPES:
        raise InvalidArgument(f"recipe = {shown(recipe)} must be None (16 bits) or one of {', '.join(RECIPES)} (FP8)"
                              + (f"; {shown(recipe)} is the recipe of {PACKED_RECIPES[recipe].__name__}" if recipe in PACKED_RECIPES else ""))


def why_not_linear(module: torch.nn.Module, recipe: Optional[str], backward: Optional[str] = None,
                   weight_gradient: str = "fp8") -> Optional[str]:
    """Returns the reason why a ``Linear`` cannot be made from a module; None if it can."""
    if type(module) is not torch.nn.Linear:
        return f"it is a {type(module).__name__}, and a plain torch.nn.Linear is replaced" + (
            ": one derived from it may do more" if isinstance(module, torch.nn.Linear) else "")
    dtype = module.weight.dtype
    if dtype is torch.float32 and recipe is None:
        return NEEDS_16_BITS
    if dtype not in (torch.bfloat16, torch.float16, torch.float32):
        return f"its weight is {dtype} and must be bfloat16, float16 or (where it is quantised) float32"
    try:
        _check_products(module, recipe, backward, weight_gradient, dtype, module.weight.requires_grad)
    except Error as error:
        return str(error)
    return None


def _check_products(layer: torch.nn.Module, recipe: Optional[str], backward: Optional[str], weight_gradient: str, dtype: torch.dtype,
                    trains: bool) -> None:
    """Raises the error of the first product that no kernel takes. ``trains``: whether a layer in 16 bits shall have a backward."""
    if backward is not None:
        check_layer(layer, training_problems(layer, recipe, weight_gradient, dtype))
        return
    check_layer(layer, [linear_problem(layer, ANY_ROWS, recipe, dtype)] + (backward_problems(layer, dtype) if recipe is None and trains else []))


class Linear(HoldsWorkspace, QuantizedState):
    """``torch.nn.Linear`` computed by sluice.

    Parameters have torch's names. A size or type that no kernel takes raises in the constructor, not at the first call.

    - ``recipe``: None keeps weights in 16 bits, trainable. "tensor", "row" and "block" keep them in float8_e4m3fn, as
      ``weight_e4m3`` and ``weight_scale``, and quantise the input in a fused kernel. The output has the input's type.
    - ``backward``: "fp8" makes a layer with a recipe train. It keeps ``weight`` in 16 bits or fp32, and casts it at each use. Input and
      output are bf16, fp16 or fp32; under ``torch.autocast`` the output has autocast's type. Both features are multiples of 16.
    - ``keep``: what such a layer saves of its input for the weight's gradient. "columns" saves its codes, a byte an element; "input" saves
      the input itself, which costs nothing if another operation saves it too.
    - ``weight_gradient``: "16bit" multiplies the output's gradient and the input in 16 bits. The input is then saved, whatever ``keep``.
    - ``use_fast_accum``: as for ``scaled_mm``; sums are promoted without it.
    - ``fuse_quantizer``: under torch.compile, torch's own operations quantise the input, and the compiler fuses them with the
      operations before. The compiler's divisions are approximate, so bits may differ from those of the kernel.
    - ``deterministic``: as for ``linear``; an attribute, which may be changed at any time.
    - ``input_scale``: a buffer, None at first. For "tensor" it may hold one calibrated fp32 scale (``from_quantized``), by which the
      input is then quantised in one pass.
    - ``workspace``: an attribute too, None at first. If it is a ``sluice.Workspace``, the layer's products, quantiser and
      backward use it instead of lent ones. It is None in copies and pickles of the layer.
    """

    backward: Optional[str] = None  # for pickles of layers from before there was one
    keep, weight_gradient = "columns", "fp8"
    weight: torch.nn.Parameter
    weight_e4m3: torch.nn.Parameter
    weight_scale: Tensor
    input_scale: Optional[Tensor]
    bias: Optional[torch.nn.Parameter]

    @checked
    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, recipe: Optional[str] = None,
                 device: Union[str, int, torch.device, None] = None, dtype: Optional[torch.dtype] = None, use_fast_accum: bool = False,
                 fuse_quantizer: bool = False, deterministic: bool = True, backward: Optional[str] = None, keep: str = "columns",
                 weight_gradient: str = "fp8") -> None:
        super().__init__()
        _check_recipe(recipe)
        self._set(in_features, out_features, recipe, use_fast_accum, fuse_quantizer, deterministic, backward, keep, weight_gradient)
        dtype = dtype or torch.bfloat16
        self.register_parameter(self.codes_name or "weight", None)  # registered first, to keep torch's order of parameters
        self.bias = None
        if bias:
            self.bias = torch.nn.Parameter(torch.zeros(out_features, device=device, dtype=dtype), requires_grad=self.codes_name is None)
        _check_products(self, recipe, backward, weight_gradient, dtype, True)
        shape = (out_features, in_features)
        if self.codes_name is None:
            self.weight = torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
            torch.nn.init.kaiming_uniform_(self.weight, a=5**0.5)
        else:
            self.weight_e4m3 = torch.nn.Parameter(torch.zeros(shape, device=device, dtype=torch.float8_e4m3fn), requires_grad=False)
            self.register_buffer("weight_scale", torch.ones(scales_shape(shape, RECIPES[recipe][0]), device=device))
            self.register_buffer("input_scale", None)

    def _set(self, in_features: int, out_features: int, recipe: Optional[str], use_fast_accum: bool, fuse_quantizer: bool,
             deterministic: bool, backward: Optional[str] = None, keep: str = "columns", weight_gradient: str = "fp8") -> None:
        check_training(recipe, backward, keep, weight_gradient, fuse_quantizer)
        self.in_features, self.out_features, self.recipe = in_features, out_features, recipe
        self.backward, self.keep, self.weight_gradient = backward, keep, weight_gradient
        self.codes_name = None if recipe is None or backward is not None else "weight_e4m3"
        self.use_fast_accum, self.fuse_quantizer, self.deterministic = use_fast_accum, fuse_quantizer, deterministic

    @classmethod
    @checked
    def from_linear(cls, module: torch.nn.Linear, recipe: Optional[str], *,
                    use_fast_accum: bool = False, fuse_quantizer: bool = False, deterministic: bool = True,
                    backward: Optional[str] = None, keep: str = "columns", weight_gradient: str = "fp8") -> "Linear":
        """Makes the layer from a ``torch.nn.Linear``. A layer that trains (``recipe`` None, or ``backward`` "fp8") shares the
        parameters; else the weight is quantised once. Raises ``InvalidArgument``, with the reason from ``why_not``, for a layer that no
        kernel takes."""
        _check_recipe(recipe)
        made = cls.__new__(cls)
        torch.nn.Module.__init__(made)
        made._set(getattr(module, "in_features", 0), getattr(module, "out_features", 0), recipe, use_fast_accum, fuse_quantizer, deterministic,
                  backward, keep, weight_gradient)
        reason = why_not_linear(module, recipe, backward, weight_gradient)
        if reason is not None:
            raise InvalidArgument(f"Linear.from_linear: {reason}")
        weight = module.weight
        if made.codes_name is None:
            made.weight, made.bias = weight, module.bias  # in torch's order: optimizers identify parameters by position
            return made.train(module.training)
        with torch.no_grad():
            quantized, scale = (quantize if weight.is_cuda else quantize_reference)(weight.detach().contiguous(), RECIPES[recipe][0])
        made._hold(quantized, scale, None, module.bias)
        return made.train(module.training)

    @classmethod
    @checked
    def from_quantized(cls, weights: Fp8Weights, bias: Optional[Tensor] = None, *, use_fast_accum: bool = False,
                       fuse_quantizer: bool = False) -> "Linear":
        """Makes the layer from FP8 weights of a checkpoint (``sluice.weights.from_fp8``), on the same tensors. ``bias``: n values.

        Raises ``InvalidArgument`` for weights that are not torch tensors and for another shape of the bias, and the error of the
        product for sizes and types that no kernel takes.
        """
        if not isinstance(weights, Fp8Weights) or not isinstance(weights.codes, Tensor):
            raise InvalidArgument(f"weights = {shown(weights)} must be Fp8Weights of torch tensors: sluice.weights.from_fp8 makes them")
        n, k = weights.shape
        if bias is not None and tuple(bias.shape) != (n,):
            raise InvalidArgument(f"bias has shape {tuple(bias.shape)} and must have ({n},), a value for each output")
        if weights.codes.stride() != (k, 1):
            raise InvalidArgument(f"weight has strides {weights.codes.stride()} and must have ({k}, 1): pass weight.contiguous()")
        made = cls.__new__(cls)
        torch.nn.Module.__init__(made)
        made._set(k, n, weights.recipe, use_fast_accum, fuse_quantizer, True)
        made._hold(weights.codes, weights.scales, weights.input_scale, bias)
        check_layer(made, [linear_problem(made, ANY_ROWS, weights.recipe, made._input_type(None), use_fast_accum=use_fast_accum)])
        return made

    def _hold(self, codes: Tensor, scale: Tensor, input_scale: Optional[Tensor], bias: Optional[Tensor]) -> None:
        """Registers the tensors of an FP8 layer."""
        self.weight_e4m3 = torch.nn.Parameter(codes.detach(), requires_grad=False)
        self.register_buffer("weight_scale", scale)
        self.register_buffer("input_scale", input_scale)
        self.bias = None if bias is None else torch.nn.Parameter(bias.detach(), requires_grad=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Linear":
        """Applies ``.to()``, ``.cuda()`` and so on to each tensor. fp8 weights and their fp32 scales change only the device, not the
        type, which the kernels depend on."""
        if self.codes_name is None:
            return super()._apply(fn, recurse)
        kept = (self.weight_e4m3, self.weight_scale, self.input_scale)

        def keeping(tensor: Tensor) -> Tensor:
            applied = fn(tensor)
            if applied.dtype is tensor.dtype or not any(tensor is one for one in kept):
                return applied
            return tensor.to(applied.device)

        return super()._apply(keeping, recurse)

    @op(c="residual")
    def forward(self, input: Tensor, residual: Optional[Tensor] = None) -> Tensor:
        """Returns the layer's output plus ``residual`` (of the output's shape), added in the same kernel and rounded once.
        Raises ``InvalidArgument`` if an argument of an FP8 layer without a backward requires a gradient, and for a ``residual`` of a layer
        with ``backward="fp8"``."""
        if self.recipe is None:
            return linear(input, self.weight, self.bias, c=residual, workspace=self.workspace,
                          deterministic=self.deterministic)
        if self.backward is not None:
            if residual is not None:
                raise InvalidArgument("residual is given, and a Linear with backward='fp8' adds none: add it to the output")
            return linear_in_fp8(input, self)
        if needs_grad(input, residual, None, None):
            raise InvalidArgument("an FP8 Linear has no backward without backward='fp8': run it under torch.no_grad(), or convert with "
                                  "recipe=None or backward='fp8' to train")
        by_compiler = self.fuse_quantizer and torch.compiler.is_compiling()
        rows = as_matrix(input)
        if self.input_scale is not None:
            by_scale = _quantized_by if by_compiler else quantize_static
            quantized = by_scale(rows, self.input_scale), self.input_scale
        else:
            quantized = (quantize_reference(rows, self.granularity) if by_compiler
                         else quantize(rows, self.granularity, workspace=self.workspace))
        return self.of_quantized(*quantized, input.dtype, residual).view(*input.shape[:-1], self.out_features)

    @checked
    def prepare(self, rows: Rows, dtype: Optional[torch.dtype] = None) -> None:
        """Compiles and loads the kernels that ``forward`` needs for every row count of a range, like ``(1, 512)``: at
        most 12 kernels, and the input's quantiser.

        The row count is the input's elements divided by ``in_features``. ``dtype`` is the input's type. By default it is the
        bias's, or bf16 without a bias; for a 16-bit layer it is always the weight's. Calls with ``residual`` and the backward
        are not prepared: their first call compiles. Raises ``InvalidArgument`` if the layer is not on a GPU.
        """
        device = gpu_of(self.stored_weight)
        prepare(self.problem(1, dtype), m=rows, device=device)
        if self.codes_name is not None:
            prepare_quantizers(self._input_type(dtype), device=device)
        elif self.recipe is not None:
            prepare_casts(self.recipe, self.weight_gradient, self._input_type(dtype), self.weight.dtype, self.weight.device)

    @checked
    def problem(self, m: int, dtype: Optional[torch.dtype] = None) -> Problem:
        """Returns the problem of ``forward`` for an input of ``m`` rows of type ``dtype``, as in ``prepare``."""
        of = self.weight.dtype if self.recipe is None else self._input_type(dtype)
        return linear_problem(self, m, self.recipe, of, use_fast_accum=self.use_fast_accum)

    def _input_type(self, dtype: Optional[torch.dtype]) -> torch.dtype:
        return dtype or (torch.bfloat16 if self.bias is None else self.bias.dtype)

    @property
    def granularity(self) -> str:
        """The granularity of the input's scales. Raises ``InvalidArgument`` for a layer in 16 bits."""
        if self.recipe is None:
            raise InvalidArgument("a Linear with recipe=None does not quantise its input")
        return RECIPES[self.recipe][1]

    @op(mat_a="quantized", mat_b="weight_e4m3", scale_a="scale", c="residual")
    def of_quantized(self, quantized: Tensor, scale: Tensor, dtype: torch.dtype, residual: Optional[Tensor] = None) -> Tensor:
        """Returns the output, of type ``dtype``, for an input that is already quantised, such as the result of
        ``silu_mul_quantize(gate_up, layer.granularity)``. Raises ``InvalidArgument`` for a layer in 16 bits."""
        per_tensor = self.granularity == "tensor"  # raises without a recipe
        if self.codes_name is None:
            raise InvalidArgument("a Linear with backward='fp8' casts its input itself, by other scales: call it with the input")
        weight_scale = self.weight_scale.t() if self.recipe == "row" else self.weight_scale
        shape = quantized.shape[:-1]
        if not per_tensor:
            scale = as_matrix(scale)
        c = None if residual is None else as_matrix(residual)
        output = scaled_mm(as_matrix(quantized), self.weight_e4m3.t(), scale, weight_scale, self.bias, c=c,
                           out_dtype=dtype, use_fast_accum=self.use_fast_accum, workspace=self.workspace)
        return output.view(*shape, self.out_features)

    def extra_repr(self) -> str:
        return (f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
                f"recipe={self.recipe}" + ("" if self.backward is None else f", backward={self.backward}"))


def _quantized_by(rows: Tensor, scale: Tensor) -> Tensor:
    """Returns what ``quantize_static`` does, in torch's own operations."""
    return (rows.float() * scale.reciprocal()).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)


@checked
def weights_kept(model: torch.nn.Module) -> ContextManager[None]:
    """Returns a ``with`` block in which layers with ``backward="fp8"`` cast each weight once: for the steps between two updates.

    A weight is cast at its first use inside, for forward and backward at once, and its codes are dropped at the exit. Whoever enters the block
    says that the weights do not change inside: a change is not seen there. A weight that is replaced or moved meanwhile is cast at each use,
    and so is one that FSDP gathers.

    Compiled layers use the codes too. A block inside of another adds nothing to it. With a CUDA graph the whole block lies inside of the
    capture, or outside of all; anything else raises ``InvalidArgument``. So does a model without such a layer, and a block that
    torch.compile traces.

        with st.nn.weights_kept(model):
            for batch in batches:
                loss_of(model, batch).backward()
        optimizer.step()
    """
    if torch.compiler.is_compiling():
        raise InvalidArgument("weights_kept is entered in a function that torch.compile traces: enter it outside, around the call of the "
                              "compiled function")
    weights = [module.weight for module in model.modules() if isinstance(module, Linear) and module.backward is not None]
    if not weights:
        raise InvalidArgument("model has no layer with backward='fp8', whose weights would be kept: convert it with "
                              "convert_(model, recipe=..., backward='fp8')")
    return keep_weights(weights)
