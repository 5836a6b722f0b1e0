# SPDX-License-Identifier: Apache-2.0
"""Layers that replace ``torch.nn.Linear`` and torch's convolutions, and ``convert_``, which puts them into a model.

``Linear`` (linear_layer.py) computes in 16 bits or in FP8. ``Linear4bit``, ``Linear8bit`` and ``LinearPacked`` (packed_linear.py)
hold packed weights. ``FeedForward`` (feed_forward.py) trains a SwiGLU in FP8. ``Conv1d``, ``Conv2d`` and ``Conv3d`` (nn_conv.py) are in 16 bits.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Tuple, Union

import torch
from torch import Tensor

from .._arguments import did_you_mean, shown
from ..errors import InvalidArgument
from ..formats import WeightFormat
from ..plans import Rows
from ..weights import QuantizedWeights
from ..weights.checkpoints import Fp8Weights
from ._conv_layout import channels_last_strides, round_up
from ._conversion import Conversion, Exceptions, bytes_of, log_conversion, named_parameters, why_nothing
from ._entry import checked
from ._foreign_layers import bytes_of_foreign, foreign_kind, why_not_foreign
from ._fp8_recipes import check_training, fp8_training_pays, why_it_loses
from ._layers import let_layers_race, why_not_packed
from ._library import scales_shape
from ._states import load_strictly, quantized_layers
from .feed_forward import FeedForward
from .linear_layer import RECIPES, Linear, weights_kept, why_not_linear
from .nn_conv import LAYERS, SluiceConvolution, Conv1d, Conv2d, Conv3d, fallbacks, why_not_convert
from .packed_linear import PACKED_RECIPES, Linear4bit, Linear8bit, LinearPacked, gpu_of

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Conversion", "FeedForward", "Linear", "Linear4bit", "Linear8bit", "LinearPacked", "can_convert",
           "convert_", "fallbacks", "fp8_training_pays", "load_", "main_grad_views", "prepare_rows", "weights_kept", "why_not"]

# The layer classes that ``convert_`` produces.
CONVERTED = (Linear, LinearPacked, SluiceConvolution)


@checked
def prepare_rows(model: torch.nn.Module, rows: Rows, dtype: Optional[torch.dtype] = None) -> int:
    """Calls ``prepare(rows, dtype)`` of every sluice layer of a model, once for layers with equal problems. Returns the
    number of different problems; each has at most 12 kernels of its own."""
    seen, cast = set(), set()
    for module in model.modules():
        if isinstance(module, FeedForward):
            kind = (module.gate_up.recipe, module.down.recipe, module.gate_up._input_type(dtype), module.gate_up.weight.device)
            if kind not in cast:
                cast.add(kind)
                module.prepare_casts(dtype)
        if not isinstance(module, (Linear, LinearPacked)):
            continue
        key = (module.problem(1, dtype), gpu_of(module.stored_weight))
        if key not in seen:
            seen.add(key)
            module.prepare(rows, dtype)
    return len(seen)


@checked
def why_not(module: torch.nn.Module, recipe: Optional[str], activations: Optional[str] = None, backward: Optional[str] = None,
            weight_gradient: str = "fp8") -> Optional[str]:
    """Returns the reason why ``convert_`` does not replace a module: its class, or the rule that its sizes or its type
    break. Returns None if the module can be replaced. Of a quantised layer of another library the tensors are read."""
    check_options(recipe, activations)
    check_training(recipe, backward, "columns", weight_gradient, False)
    kind = foreign_kind(module)
    if kind is not None and backward is not None:
        return f"it is a {type(module).__name__}, whose weight is quantised: there is no weight of 16 bits or fp32 to train"
    if kind is not None:
        return why_not_foreign(module, kind, recipe, None, lambda weights: _of_foreign(weights, module, activations, {}))
    if recipe is None and isinstance(module, torch.nn.modules.conv._ConvNd):
        return why_not_convert(module)
    if recipe in PACKED_RECIPES and type(module) is torch.nn.Linear:
        return why_not_packed(module, PACKED_RECIPES[recipe], activations)
    return why_not_linear(module, recipe, backward, weight_gradient)


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
             tied: bool = False, backward: Optional[str] = None, keep: str = "columns", weight_gradient: str = "fp8", narrow: bool = False,
             report: Callable[[Conversion], Any] = log_conversion) -> torch.nn.Module:
    """Replaces, in place, every ``torch.nn.Linear`` of a model that a kernel takes and for which ``filter_fn(module, name)``
    is true. Returns the model. A linear that is used in several places is replaced by one layer in all of them.

    Quantised linears of other libraries are replaced too, if ``recipe`` is what they compute: transformers' ``FP8Linear`` (on the same
    tensors), and those of compressed-tensors, GPTQ and AWQ. Linears that such a checkpoint left in 16 bits then stay so.

    - ``recipe``: None (16 bits, trainable), an FP8 recipe of ``Linear``, or "int4" or "int8" (weights rounded and
      packed). It has no default, because None trains and the others are forward only, unless ``backward`` is given. None replaces
      convolutions too, including fp32 ones for ``torch.autocast``, and makes their weights channels_last; ``fallbacks`` lists those that
      torch computes.
    - ``group``: for packed recipes, the columns that share a scale; 128 by default.
    - ``activations``: for "int4", "e4m3" quantises the input to e4m3, with one scale per token. None keeps it in 16 bits.
    - ``lm_head``: True quantises the output head too: a layer named ``lm_head``, or the result of ``get_output_embeddings()``.
    - ``tied``: True also quantises layers whose weight is tied to another module. They get codes of their own, the other module keeps
      its weight, and ``model.tie_weights()`` raises from then on. With ``recipe=None`` tied layers are always replaced, and their
      weights stay shared.
    - ``backward``, ``keep``, ``weight_gradient``: as for ``Linear``. With ``backward="fp8"`` layers keep their parameters and train in FP8.
      A layer that is expected to train slower so stays as it is (``fp8_training_pays``); ``narrow=True`` takes it too. Tied weights stay
      shared. Quantised layers of other libraries are left out.
    - ``report``: a function that is called with a ``Conversion``: the layers converted and left, the reasons and the bytes.
      ``report=print`` prints it. By default it is logged (logger "sluice").

    First calls of the new layers, and of their gradients, race three kernels where that is free, for six problems of each size of
    weight; SLUICE_RACE=0 switches it off (docs/tuning.md).

    A model on the meta device can be converted too; ``load_state_dict(state, assign=True)`` then fills it. Raises ``InvalidArgument``
    with the reason if no layer is replaced: a model in fp32 for ``recipe=None``, a filter that matches nothing, or a model that is
    converted already.
    """
    check_options(recipe, activations, group, use_fast_accum or fuse_quantizer or not deterministic)
    check_training(recipe, backward, keep, weight_gradient, fuse_quantizer)
    if narrow and backward is None:
        raise InvalidArgument("narrow = True is for backward = 'fp8': pass that too, or leave it out")
    if recipe in PACKED_RECIPES:
        options: dict = {"group": 128 if group is None else group, "activations": activations}
        made_by = f"{PACKED_RECIPES[recipe].__name__}.from_linear(model)"
    else:
        options = {"use_fast_accum": use_fast_accum, "fuse_quantizer": fuse_quantizer, "deterministic": deterministic}
        made_by = "Linear.from_linear(model, recipe)"
    if backward is not None:
        options.update(backward=backward, keep=keep, weight_gradient=weight_gradient)
    kinds = (torch.nn.Linear, torch.nn.modules.conv._ConvNd) if recipe is None else (torch.nn.Linear,)
    if type(model) is torch.nn.Linear or (recipe is None and type(model) in LAYERS):
        made_by = f"{LAYERS[type(model)].__name__}.from_conv(model)" if type(model) in LAYERS else made_by
        raise InvalidArgument("convert_ replaces the layers inside of a model, and this model is one itself: "
                              f"use model = {made_by}")
    exceptions = Exceptions(model, lm_head or recipe is None, tied or recipe is None or backward is not None)
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
            if child in foreign and backward is None:
                reason = None if child in made else why_not_foreign(child, foreign[child], recipe, group, make(child))
            else:
                reason = None if child in made else why_not(child, recipe, activations, backward, weight_gradient)
            if reason is not None:
                left_out[full_name] = reason
                continue
            reason = None if child in made else exceptions.why_skipped(child, full_name)
            if reason is None and foreign and child not in foreign and recipe is not None and backward is None:
                reason = ("the model's quantised layers are another library's, and this one it left in 16 bits: call convert_ again to take "
                          "it too")
            if reason is None and backward is not None and not narrow:
                reason = why_it_loses(child.in_features, child.out_features, child.weight.device)
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
    let_layers_race(made.values())
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
    let_layers_race(made.values())
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
        elif isinstance(module, Linear) and module.codes_name is None and module.weight.requires_grad:
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
