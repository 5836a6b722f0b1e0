# SPDX-License-Identifier: Apache-2.0
"""Layers that replace ``torch.nn.Linear`` and torch's convolutions, and ``convert_``, which puts them into a model.

``Linear`` computes in 16 bits (with a backward) or in FP8 (forward only). ``Linear4bit``, ``Linear8bit`` and
``LinearPacked`` (packed_linear.py) hold packed weights. ``Conv1d``, ``Conv2d`` and ``Conv3d`` (nn_conv.py) are in 16 bits.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Tuple, Union

import torch
from torch import Tensor

from .._arguments import did_you_mean, shown
from ..errors import Error, InvalidArgument
from ..formats import WeightFormat
from ..plans import Rows, prepare, prepare_quantizers
from ..problems import Problem
from ..weights import QuantizedWeights
from ..weights.checkpoints import Fp8Weights
from ._conv_layout import channels_last_strides, round_up
from ._conversion import Conversion, Exceptions, bytes_of, log_conversion, named_parameters, why_nothing
from ._entry import checked, op
from ._foreign_layers import bytes_of_foreign, foreign_kind, why_not_foreign
from ._layers import ANY_ROWS, NEEDS_16_BITS, HoldsWorkspace, backward_problems, check_layer, linear_problem, why_not_packed
from ._library import as_matrix, scales_shape
from ._states import QuantizedState, load_strictly, quantized_layers
from .autograd import needs_grad
from .functional import linear, scaled_mm
from .nn_conv import LAYERS, SluiceConvolution, Conv1d, Conv2d, Conv3d, fallbacks, why_not_convert
from .packed_linear import PACKED_RECIPES, Linear4bit, Linear8bit, LinearPacked, gpu_of
from .quantize import quantize, quantize_reference, quantize_static

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Conversion", "Linear", "Linear4bit", "Linear8bit", "LinearPacked", "can_convert", "convert_",
           "fallbacks", "load_", "main_grad_views", "prepare_rows", "why_not"]

# Maps each recipe to the granularity of the weight's scales and that of the input's scales.
RECIPES = {"tensor": ("tensor", "tensor"), "row": ("row", "row"), "block": ("128x128", "1x128")}


def _check_recipe(recipe: Optional[str]) -> None:
    if recipe is not None and recipe not in RECIPES:
        raise InvalidArgument(f"recipe = {shown(recipe)} must be None (16 bits) or one of {', '.join(RECIPES)} (FP8)"
                              + (f"; {shown(recipe)} is the recipe of {PACKED_RECIPES[recipe].__name__}" if recipe in PACKED_RECIPES else ""))


class Linear(HoldsWorkspace, QuantizedState):
    """``torch.nn.Linear`` computed by sluice.

    Parameters have torch's names. A size or type that no kernel takes raises in the constructor, not at the first call.

    - ``recipe``: None keeps weights in 16 bits, trainable. "tensor", "row" and "block" keep them in float8_e4m3fn, as
      ``weight_e4m3`` and ``weight_scale``, and quantise the input in a fused kernel. The output has the input's type.
    - ``use_fast_accum``: as for ``scaled_mm``; sums are promoted without it.
    - ``fuse_quantizer``: under torch.compile, torch's own operations quantise the input, and the compiler fuses them with the
      operations before. The compiler's divisions are approximate, so bits may differ from those of the kernel.
    - ``deterministic``: as for ``linear``; an attribute, which may be changed at any time.
    - ``input_scale``: a buffer, None at first. For "tensor" it may hold one calibrated fp32 scale (``from_quantized``), by which the
      input is then quantised in one pass.
    - ``workspace``: an attribute too, None at first. If it is a ``sluice.Workspace``, the layer's products, quantiser and
      backward use it instead of lent ones. It is None in copies and pickles of the layer.
    """

    weight: torch.nn.Parameter
    weight_e4m3: torch.nn.Parameter
    weight_scale: Tensor
    input_scale: Optional[Tensor]
    bias: Optional[torch.nn.Parameter]

    @checked
    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, recipe: Optional[str] = None,
                 device: Union[str, int, torch.device, None] = None, dtype: Optional[torch.dtype] = None, use_fast_accum: bool = False,
                 fuse_quantizer: bool = False, deterministic: bool = True) -> None:
        super().__init__()
        _check_recipe(recipe)
        self._set(in_features, out_features, recipe, use_fast_accum, fuse_quantizer, deterministic)
        dtype = dtype or torch.bfloat16
        self.register_parameter(self.codes_name or "weight", None)  # registered first, to keep torch's order of parameters
        self.bias = None
        if bias:
            self.bias = torch.nn.Parameter(torch.zeros(out_features, device=device, dtype=dtype), requires_grad=recipe is None)
        check_layer(self, [linear_problem(self, ANY_ROWS, recipe, dtype)] + (backward_problems(self, dtype) if recipe is None else []))
        shape = (out_features, in_features)
        if recipe is None:
            self.weight = torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
            torch.nn.init.kaiming_uniform_(self.weight, a=5**0.5)
        else:
            self.weight_e4m3 = torch.nn.Parameter(torch.zeros(shape, device=device, dtype=torch.float8_e4m3fn), requires_grad=False)
            self.register_buffer("weight_scale", torch.ones(scales_shape(shape, RECIPES[recipe][0]), device=device))
            self.register_buffer("input_scale", None)

    def _set(self, in_features: int, out_features: int, recipe: Optional[str], use_fast_accum: bool, fuse_quantizer: bool,
             deterministic: bool) -> None:
        self.in_features, self.out_features, self.recipe = in_features, out_features, recipe
        self.codes_name = None if recipe is None else "weight_e4m3"
        self.use_fast_accum, self.fuse_quantizer, self.deterministic = use_fast_accum, fuse_quantizer, deterministic

    @classmethod
    @checked
    def from_linear(cls, module: torch.nn.Linear, recipe: Optional[str], *,
                    use_fast_accum: bool = False, fuse_quantizer: bool = False, deterministic: bool = True) -> "Linear":
        """Makes the layer from a ``torch.nn.Linear``. In 16 bits (``recipe`` None) it shares the parameters; else it
        quantises the weight once. Raises ``InvalidArgument``, with the reason from ``why_not``, for a layer that no kernel
        takes."""
        _check_recipe(recipe)
        reason = why_not(module, recipe)
        if reason is not None:
            raise InvalidArgument(f"Linear.from_linear: {reason}")
        made = cls.__new__(cls)
        torch.nn.Module.__init__(made)
        made._set(module.in_features, module.out_features, recipe, use_fast_accum, fuse_quantizer, deterministic)
        weight = module.weight
        if recipe is None:
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
        if self.recipe is None:
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
        Raises ``InvalidArgument`` if an argument of an FP8 layer requires a gradient."""
        if self.recipe is None:
            return linear(input, self.weight, self.bias, c=residual, workspace=self.workspace,
                          deterministic=self.deterministic)
        if needs_grad(input, residual, None, None):
            raise InvalidArgument("an FP8 Linear has no backward: run it under torch.no_grad(), or convert with "
                                  "recipe=None to train")
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
        if self.recipe is not None:
            prepare_quantizers(self._input_type(dtype), device=device)

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
                f"recipe={self.recipe}")


def _quantized_by(rows: Tensor, scale: Tensor) -> Tensor:
    """Returns what ``quantize_static`` does, in torch's own operations."""
    return (rows.float() * scale.reciprocal()).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)


# The layer classes that ``convert_`` produces.
CONVERTED = (Linear, LinearPacked, SluiceConvolution)


@checked
def prepare_rows(model: torch.nn.Module, rows: Rows, dtype: Optional[torch.dtype] = None) -> int:
    """Calls ``prepare(rows, dtype)`` of every sluice layer of a model, once for layers with equal problems. Returns the
    number of different problems; each has at most 12 kernels of its own."""
    seen = set()
    for module in model.modules():
        if not isinstance(module, (Linear, LinearPacked)):
            continue
        key = (module.problem(1, dtype), gpu_of(module.stored_weight))
        if key not in seen:
            seen.add(key)
            module.prepare(rows, dtype)
    return len(seen)


@checked
def why_not(module: torch.nn.Module, recipe: Optional[str], activations: Optional[str] = None) -> Optional[str]:
    """Returns the reason why ``convert_`` does not replace a module: its class, or the rule that its sizes or its type
    break. Returns None if the module can be replaced. Of a quantised layer of another library the tensors are read."""
    check_options(recipe, activations)
    kind = foreign_kind(module)
    if kind is not None:
        return why_not_foreign(module, kind, recipe, None, lambda weights: _of_foreign(weights, module, activations, {}))
    if recipe is None and isinstance(module, torch.nn.modules.conv._ConvNd):
        return why_not_convert(module)
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


@checked
def can_convert(module: torch.nn.Module, recipe: Optional[str], activations: Optional[str] = None) -> bool:
    """Returns whether a module is a plain linear (or convolution) whose sizes and type the recipe takes. ``why_not`` returns the reason."""
    return why_not(module, recipe, activations) is None


def check_options(recipe: Optional[str], activations: Optional[str], group: Optional[int] = None, fp8_options: bool = False) -> None:
    known = (*RECIPES, *PACKED_RECIPES)
    if recipe is not None and recipe not in known:
        raise InvalidArgument(f"recipe = {shown(recipe)} must be one of {', '.join(RECIPES)} (FP8), {', '.join(PACKED_RECIPES)} (packed) "
                              f"or None (16 bits){': did you mean row?' if recipe in ('fp8', 'e4m3') else did_you_mean(recipe, known)}")
    if activations not in (None, "e4m3"):
        raise InvalidArgument(f"activations = {shown(activations)} must be None (16 bits, as they come) or 'e4m3'")
    if activations is not None and recipe != "int4":
        raise InvalidArgument(f"activations = {shown(activations)} is for recipe = 'int4', not {shown(recipe)}: leave it out")
    if recipe in PACKED_RECIPES:
        if fp8_options:
            raise InvalidArgument(f"use_fast_accum, fuse_quantizer and deterministic mean nothing for recipe = {shown(recipe)}: leave "
                                  "them out")
        return
    if group is not None:
        raise InvalidArgument(f"group = {group} is for the recipes {', '.join(PACKED_RECIPES)}: leave it out")


def _replacement(child: torch.nn.Module, recipe: Optional[str], options: dict) -> torch.nn.Module:
    if type(child) in LAYERS:
        return LAYERS[type(child)].from_conv(child, deterministic=options["deterministic"])
    if recipe not in PACKED_RECIPES:
        return Linear.from_linear(child, recipe, **options)
    return PACKED_RECIPES[recipe].from_linear(child, **options)


def _of_foreign(weights: Union[Fp8Weights, QuantizedWeights], module: torch.nn.Module, activations: Optional[str],
                options: dict) -> torch.nn.Module:
    """Makes the layer for the weights of another library's layer."""
    bias = getattr(module, "bias", None)
    if isinstance(weights, Fp8Weights):
        fp8 = {name: options[name] for name in ("use_fast_accum", "fuse_quantizer") if name in options}
        return Linear.from_quantized(weights, bias, **fp8).train(module.training)
    kind = Linear4bit if weights.bits == 4 else Linear8bit
    return kind.from_quantized(weights, bias, activations=activations).train(module.training)


@checked
def convert_(model: torch.nn.Module, filter_fn: Optional[Callable[[torch.nn.Module, str], bool]] = None, *,
             recipe: Optional[str], use_fast_accum: bool = False, fuse_quantizer: bool = False,
             deterministic: bool = True, group: Optional[int] = None, activations: Optional[str] = None, lm_head: bool = False,
             tied: bool = False, report: Callable[[Conversion], Any] = log_conversion) -> torch.nn.Module:
    """Replaces, in place, every ``torch.nn.Linear`` of a model that a kernel takes and for which ``filter_fn(module, name)``
    is true. Returns the model. A linear that is used in several places is replaced by one layer in all of them.

    Quantised linears of other libraries are replaced too, if ``recipe`` is what they compute: transformers' ``FP8Linear`` (on the same
    tensors), and those of compressed-tensors, GPTQ and AWQ. Linears that such a checkpoint left in 16 bits then stay so.

    - ``recipe``: None (16 bits, trainable), an FP8 recipe of ``Linear``, or "int4" or "int8" (weights rounded and
      packed). It has no default, because None trains and the others are forward only. None replaces convolutions too, including
      fp32 ones for ``torch.autocast``, and makes their weights channels_last; ``fallbacks`` lists those that torch computes.
    - ``group``: for packed recipes, the columns that share a scale; 128 by default.
    - ``activations``: for "int4", "e4m3" quantises the input to e4m3, with one scale per token. None keeps it in 16 bits.
    - ``lm_head``: True quantises the output head too: a layer named ``lm_head``, or the result of ``get_output_embeddings()``.
    - ``tied``: True also quantises layers whose weight is tied to another module. They get codes of their own, the other module keeps
      its weight, and ``model.tie_weights()`` raises from then on. With ``recipe=None`` tied layers are always replaced, and their
      weights stay shared.
    - ``report``: a function that is called with a ``Conversion``: the layers converted and left, the reasons and the bytes.
      ``report=print`` prints it. By default it is logged (logger "sluice").

    A model on the meta device can be converted too; ``load_state_dict(state, assign=True)`` then fills it. Raises ``InvalidArgument``
    with the reason if no layer is replaced: a model in fp32 for ``recipe=None``, a filter that matches nothing, or a model that is
    converted already.
    """
    check_options(recipe, activations, group, use_fast_accum or fuse_quantizer or not deterministic)
    if recipe in PACKED_RECIPES:
        options: dict = {"group": 128 if group is None else group, "activations": activations}
        made_by = f"{PACKED_RECIPES[recipe].__name__}.from_linear(model)"
    else:
        options = {"use_fast_accum": use_fast_accum, "fuse_quantizer": fuse_quantizer, "deterministic": deterministic}
        made_by = "Linear.from_linear(model, recipe)"
    kinds = (torch.nn.Linear, torch.nn.modules.conv._ConvNd) if recipe is None else (torch.nn.Linear,)
    if type(model) is torch.nn.Linear or (recipe is None and type(model) in LAYERS):
        made_by = f"{LAYERS[type(model)].__name__}.from_conv(model)" if type(model) in LAYERS else made_by
        raise InvalidArgument("convert_ replaces the layers inside of a model, and this model is one itself: "
                              f"use model = {made_by}")
    exceptions = Exceptions(model, lm_head or recipe is None, tied or recipe is None)
    foreign = {module: kind for module in model.modules() for kind in (foreign_kind(module),) if kind is not None}
    made: Dict[torch.nn.Module, torch.nn.Module] = {}
    converted, left_out, filtered, skipped = [], {}, [], {}

    def make(child: torch.nn.Module) -> Callable[[Union[Fp8Weights, QuantizedWeights]], None]:
        return lambda weights: made.update({child: _of_foreign(weights, child, activations, options)})

    for name, module in list(model.named_modules()):
        for child_name, child in list(module._modules.items()):  # not named_children(), which lists a module used twice only once
            if child not in foreign and (not isinstance(child, kinds) or isinstance(child, SluiceConvolution)):
                continue
            full_name = f"{name}.{child_name}" if name else child_name
            if filter_fn is not None and not filter_fn(child, full_name):
                filtered.append(full_name)
                continue
            if child in foreign:
                reason = None if child in made else why_not_foreign(child, foreign[child], recipe, group, make(child))
            else:
                reason = None if child in made else why_not(child, recipe, activations)
            if reason is not None:
                left_out[full_name] = reason
                continue
            reason = None if child in made else exceptions.why_skipped(child, full_name)
            if reason is None and foreign and child not in foreign and recipe is not None:
                reason = ("the model's quantised layers are another library's, and this one it left in 16 bits: call convert_ again to take "
                          "it too")
            if reason is not None:
                skipped[full_name] = reason
                continue
            if child not in made:
                made[child] = _replacement(child, recipe, options)
            setattr(module, child_name, made[child])
            converted.append(full_name)
    done = Conversion(recipe, tuple(converted), left_out, tuple(filtered), skipped,
                      sum(bytes_of_foreign(child) if child in foreign else bytes_of(child.weight) for child in made),
                      sum(layer.weight_bytes if isinstance(layer, (Linear, LinearPacked)) else bytes_of(layer.weight) for layer in made.values()),
                      dict(named_parameters(model, CONVERTED)))
    if not converted:
        raise InvalidArgument(why_nothing(done, model, CONVERTED))
    report(done)
    return model


@checked
def load_(model: torch.nn.Module, state: Mapping[str, Tensor], *, assign: bool = False) -> torch.nn.Module:
    """Loads the state of a converted model into a model of the same structure, in place. Returns the model.

    Each ``torch.nn.Linear`` whose weight is quantised in ``state`` is replaced by the fitting layer, with the stored codes as they
    are. ``assign``: as in ``torch.nn.Module.load_state_dict``; True uses the state's tensors instead of copying them, which a model
    on the meta device needs. A state does not hold the options ``use_fast_accum`` and ``fuse_quantizer``, which are attributes of
    layers.

    Raises ``InvalidArgument`` for a state without quantised layers, a missing or unexpected key, or a tensor of another shape.
    """
    layers = quantized_layers(state)
    if not layers:
        raise InvalidArgument(f"state has {len(state)} tensors and no layer that convert_ quantised: use model.load_state_dict(state)")
    made: Dict[torch.nn.Module, torch.nn.Module] = {}
    for name, tensors in layers.items():
        try:
            child = model.get_submodule(name)
        except AttributeError:
            raise InvalidArgument(f"state has {name}, and the model has no such layer: give the state of a model of the same "
                                  "structure") from None
        if isinstance(child, CONVERTED):
            continue
        if type(child) is not torch.nn.Linear or not name:
            raise InvalidArgument(f"state has quantised weights for {name or 'the model itself'}, a {type(child).__name__}: only a plain "
                                  "torch.nn.Linear inside of a model is replaced")
        if child not in made:
            made[child] = _empty_of(child, tensors)
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, made[child])
    load_strictly(model, state, assign)
    return model


def _empty_of(child: torch.nn.Linear, tensors: Mapping[str, Tensor]) -> torch.nn.Module:
    """Returns a quantised layer with the sizes of a linear, ready to load ``tensors``, its part of a state."""
    bias = tensors.get("bias")
    how = {"bias": bias is not None, "device": child.weight.device, "dtype": None if bias is None else bias.dtype}
    sizes = child.in_features, child.out_features
    if "weight_packed" in tensors:
        format = WeightFormat.from_number(int(tensors["weight_format"].reshape(-1)[0]))  # noqa: A001
        kind = next((kind for kind in PACKED_RECIPES.values() if kind.TYPES == (format.type,)), LinearPacked)
        made: torch.nn.Module = kind(*sizes, format=format, act_order="permutation" in tensors, **how)
    else:
        scales = tensors["weight_scale"].shape
        shape = (child.out_features, child.in_features)
        recipe = next((name for name in RECIPES if scales_shape(shape, RECIPES[name][0]) == tuple(scales)), None)
        if recipe is None:
            raise InvalidArgument(f"state has weight_scale of shape {tuple(scales)} for a weight of {shape}, and no recipe has such scales")
        made = Linear(*sizes, recipe=recipe, **how)
        if "input_scale" in tensors:
            made.input_scale = torch.ones((), device=child.weight.device)
    return made.train(child.training)


@checked
def main_grad_views(model: torch.nn.Module, buffer: Optional[Tensor] = None) -> Tensor:
    """Sets ``main_grad`` of the weight of each trainable sluice layer to a view of one flat fp32 buffer, which is zeroed and
    returned. The views of convolutions have channels_last strides, so that kernels can add to them.

    ``buffer``: a buffer to use instead of a new one. Raises ``InvalidArgument`` unless it is fp32, flat and long enough.
    """
    weights: Dict[Tensor, Tuple[int, ...]] = {}
    for module in model.modules():
        if isinstance(module, SluiceConvolution) and module.fallback_reason is None and module.weight.requires_grad:
            weights[module.weight] = channels_last_strides(module.weight.shape)
        elif isinstance(module, Linear) and module.recipe is None and module.weight.requires_grad:
            weights[module.weight] = (module.in_features, 1)
    starts, end = [], 0
    for weight in weights:
        starts.append(end)
        end += round_up(weight.numel(), 64)  # each view begins at a multiple of 256 bytes
    if buffer is None:
        buffer = torch.empty(end, dtype=torch.float32, device=next(iter(weights)).device if weights else None)
    if buffer.dtype is not torch.float32 or buffer.dim() != 1 or not buffer.is_contiguous() or buffer.numel() < end:
        raise InvalidArgument(f"buffer is {buffer.dtype} of shape {tuple(buffer.shape)} and must be torch.float32, flat, and of "
                              f"{end} elements: leave it out for a new one")
    buffer.zero_()
    for (weight, strides), start in zip(weights.items(), starts):
        weight.main_grad = buffer.as_strided(weight.shape, strides, buffer.storage_offset() + start)
    return buffer
