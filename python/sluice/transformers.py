# SPDX-License-Identifier: Apache-2.0
"""A quantizer for transformers: ``import sluice.transformers`` registers it, and ``SluiceConfig`` chooses the recipe.

    import sluice.transformers
    from transformers import AutoModelForCausalLM
    config = sluice.transformers.SluiceConfig("row")
    model = AutoModelForCausalLM.from_pretrained(folder, quantization_config=config)
    model.save_pretrained(other)                             # from_pretrained(other) reads it, and quantises nothing again

The import also registers ``experts_implementation="sluice"`` (transformers_experts.py).

Each weight is quantised when it is loaded, one by one, so the device never holds the model in 16 bits. The layers are those of
``st.nn.convert_``, and so are the bits.
"""
from __future__ import annotations

import copy
import re
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

try:
    from transformers.core_model_loading import ConversionOps
    from transformers.quantizers.auto import (AUTO_QUANTIZATION_CONFIG_MAPPING, AUTO_QUANTIZER_MAPPING, register_quantization_config,
                                              register_quantizer)
    from transformers.quantizers.base import HfQuantizer
    from transformers.utils.quantization_config import QuantizationConfigMixin
except ImportError as error:
    raise ImportError("sluice.transformers needs transformers 5.17 or newer: pip install 'transformers>=5.17'") from error

import torch
from torch import Tensor

from ._arguments import did_you_mean, list_of, shown, switch_of
from .errors import InvalidArgument, InvalidType
from .formats import WeightFormat
from .torch._library import scales_shape
from .torch.nn import RECIPES, Linear, LinearPacked, check_options, convert_
from .torch.packed_linear import PACKED_RECIPES
from .transformers_experts import arrange_experts
from .transformers_experts import register as _register_experts

__all__ = ["SluiceConfig", "SluiceQuantizer", "arrange_experts"]

NAME = "sluice"
_OFF_THE_GPU = ("cpu", "disk", "meta")


class SluiceConfig(QuantizationConfigMixin):
    """The argument ``quantization_config`` of ``from_pretrained``. ``save_pretrained`` writes it into config.json.

    - ``recipe``, ``group``, ``activations``, ``use_fast_accum``, ``fuse_quantizer``: as for ``st.nn.convert_``, but not None as recipe.
    - ``lm_head``: True quantises the output head too. A head whose weight is tied to the embedding is refused.
    - ``modules_to_not_convert``: names of layers, or of modules around them, that stay as they are. A name may leave out what comes
      before a dot or after one, and may be a regular expression: "mlp" or "layers.0", "layers.(0|31).self_attn".
    - ``kept``, ``scale_type``: written by the quantizer for the next load: the names of the linears that stayed, and the type of the
      scales of packed weights. Leave them out.

    Raises ``InvalidArgument`` or ``InvalidType`` for an unknown recipe or argument, and for arguments that contradict each other.
    """

    def __init__(self, recipe: Optional[str] = None, *, group: Optional[int] = None, activations: Optional[str] = None,
                 lm_head: bool = False, modules_to_not_convert: Optional[Sequence[str]] = None, use_fast_accum: bool = False,
                 fuse_quantizer: bool = False, kept: Optional[Sequence[str]] = None, scale_type: Optional[str] = None,
                 quant_method: str = NAME, **others: Any) -> None:
        if others:
            known = ("recipe", "group", "activations", "lm_head", "modules_to_not_convert", "use_fast_accum", "fuse_quantizer")
            given = next(iter(others))
            meant = did_you_mean(given, known) or f": it takes {', '.join(known)}; if config.json has it, a newer sluice wrote that"
            raise InvalidArgument(f"SluiceConfig takes no {shown(given)}{meant}")
        if recipe is None:
            raise InvalidArgument("recipe = None quantises nothing, and SluiceConfig needs a recipe: try SluiceConfig('row'). For layers "
                                  "of 16 bits load the model without quantization_config, and call st.nn.convert_(model, recipe=None)")
        for name, value in (("lm_head", lm_head), ("use_fast_accum", use_fast_accum), ("fuse_quantizer", fuse_quantizer)):
            switch_of(name, value)
        check_options(recipe, activations, group, use_fast_accum or fuse_quantizer)
        if group is not None:
            WeightFormat(PACKED_RECIPES[recipe].DEFAULT.type, group).numbers(512, 512)  # raises for a group that no kernel takes
        self.quant_method = quant_method
        self.recipe, self.group, self.activations, self.lm_head = recipe, group, activations, lm_head
        self.use_fast_accum, self.fuse_quantizer = use_fast_accum, fuse_quantizer
        self.modules_to_not_convert = _patterns(modules_to_not_convert)
        self.kept, self.scale_type = None if kept is None else list(kept), scale_type

    def options(self) -> Dict[str, Any]:
        """Returns the arguments of ``from_linear`` of this recipe's layer."""
        if self.recipe not in PACKED_RECIPES:
            return {"recipe": self.recipe, "use_fast_accum": self.use_fast_accum, "fuse_quantizer": self.fuse_quantizer}
        return {"group": 128 if self.group is None else self.group, "activations": self.activations, "scale_type": self.scale_type}


def _patterns(names: Optional[Sequence[str]]) -> Optional[List[str]]:
    def checked(name: object) -> str:
        if not isinstance(name, str) or not name:
            raise InvalidType(f"modules_to_not_convert has {shown(name)} and must hold names of modules: pass a list of str")
        try:
            re.compile(name)
        except re.error as error:
            raise InvalidArgument(f"modules_to_not_convert has {shown(name)}, which is no name and no regular expression ({error}): "
                                  "write a backslash before a character that is meant as it is") from None
        return name

    return None if names is None else list_of("modules_to_not_convert", names, checked)


def _names(pattern: str, name: str) -> bool:
    """Returns whether an entry of ``modules_to_not_convert`` names a module or one around it."""
    return re.fullmatch(rf"(?:.*\.)?(?:{pattern})(?:\..*)?", name) is not None


class _QuantizeWeight(ConversionOps):
    """Turns the weight of a layer, as the loader has read it, into the layer's codes and scales."""

    def __init__(self, quantizer: "SluiceQuantizer") -> None:
        self._quantizer = quantizer

    @torch.no_grad()
    def convert(self, input_dict: Dict[str, Any], *, model: torch.nn.Module, missing_keys: Any = None, **others: Any) -> Dict[str, Tensor]:
        made: Dict[str, Tensor] = {}
        for name, value in input_dict.items():
            if self._quantizer.param_needs_quantization(model, name):
                tensor = value[0] if isinstance(value, list) else value
                made.update(self._quantizer.quantized(model.get_submodule(name.rpartition(".")[0]), name, tensor))
                if missing_keys is not None:  # no layer has a tensor of the name weight: of a file that lacks it the codes are missing
                    missing_keys.difference_update([f"{layer}.weight" for layer in self._quantizer.layers])
            else:
                made[name] = value
        return made


class SluiceQuantizer(HfQuantizer):
    """Puts sluice's layers into a model that transformers loads, and quantises their weights unless the folder has them quantised."""

    quantization_config: SluiceConfig

    def __init__(self, quantization_config: SluiceConfig, **options: Any) -> None:
        super().__init__(copy.copy(quantization_config), **options)  # a copy, because a load writes into it
        self._handles: List[Any] = []
        self._ignored: Any = None

    def validate_environment(self, *arguments: Any, device_map: Any = None, **others: Any) -> None:
        """Raises ``InvalidArgument`` for a ``device_map`` with a place where no layer of sluice runs."""
        if isinstance(device_map, dict):
            places = {module: str(place) for module, place in device_map.items()}
            wrong = [module for module, place in places.items() if place.partition(":")[0] in _OFF_THE_GPU]
            if wrong:
                raise InvalidArgument(
                    f"device_map puts {wrong[0] or 'the model'} on {places[wrong[0]]} and must put all of it on GPUs, because sluice's "
                    "layers run there only: pass device_map='cuda', or leave it out. Without a GPU, and without device_map, the model "
                    "is quantised on the CPU and can be saved")

    def update_device_map(self, device_map: Any) -> Any:
        """Returns the current GPU where no ``device_map`` is given, so that weights are quantised there."""
        return {"": torch.cuda.current_device()} if device_map is None and torch.cuda.is_available() else device_map

    def param_needs_quantization(self, model: torch.nn.Module, param_name: str, **others: Any) -> bool:
        """Returns whether a name is that of a weight to be quantised: never, if the folder holds codes."""
        if self.pre_quantized:
            return False
        layer, _, last = param_name.rpartition(".")
        return last == "weight" and layer in self.layers and isinstance(self.layers[layer], (Linear, LinearPacked))

    def get_quantize_ops(self) -> ConversionOps:
        return _QuantizeWeight(self)

    def is_serializable(self, *arguments: Any, **others: Any) -> bool:
        return True

    @property
    def is_trainable(self) -> bool:
        return False

    @property
    def is_compileable(self) -> bool:
        return True

    def quantized(self, layer: Any, name: str, weight: Tensor) -> Dict[str, Tensor]:
        """Returns the tensors that a layer holds instead of a weight of that name."""
        if tuple(weight.shape) != (layer.out_features, layer.in_features):
            raise InvalidArgument(f"{name} has shape {tuple(weight.shape)} and must have {(layer.out_features, layer.in_features)}: load "
                                  "the folder with its own config.json")
        plain = torch.nn.Linear(1, 1, bias=False, device="meta")
        plain.in_features, plain.out_features = layer.in_features, layer.out_features
        plain.weight = torch.nn.Parameter(weight, requires_grad=False)
        made = type(layer).from_linear(plain, **self.quantization_config.options())
        prefix = name.rpartition(".")[0] + "."
        return {prefix + own: tensor for own, tensor in (*made._parameters.items(), *made._buffers.items()) if tensor is not None}

    def _process_model_before_weight_loading(self, model: torch.nn.Module, **others: Any) -> None:
        """Replaces linears of a model on the meta device. The first load chooses them and notes those that stay; later ones follow
        the note."""
        config = self.quantization_config
        if self.pre_quantized and config.kept is not None:
            kept = {_own(model, name) for name in config.kept}
            for name, child in list(_linears(model)):
                if _own(model, name) not in kept:
                    model.set_submodule(name, _layer_of(child, config))
        else:
            self._choose(model)
        self.layers = {name: module for name, module in model.named_modules() if isinstance(module, (Linear, LinearPacked))}
        self._hide_marks(model)

    def _choose(self, model: torch.nn.Module) -> None:
        config = self.quantization_config
        patterns = [*(config.modules_to_not_convert or ())]
        modules = [name for name, _ in model.named_modules() if name]
        for pattern in patterns:
            if not self.pre_quantized and not any(_names(pattern, name) for name in modules):
                raise InvalidArgument(f"modules_to_not_convert has {shown(pattern)}, and the model has no such module"
                                      f"{did_you_mean(pattern, sorted({part for name in modules for part in name.split('.')}))}")
        patterns += [*(getattr(model, "_keep_in_fp32_modules", None) or ()), *(getattr(model, "_keep_in_fp32_modules_strict", None) or ())]
        ties = getattr(model, "all_tied_weights_keys", None) or {}
        tied = {name.removesuffix(".weight") for name in (*ties.keys(), *ties.values())}
        head = next((name for name, _ in _linears(model) if name in tied), None)
        if config.lm_head and head is not None:
            raise InvalidArgument(f"lm_head = True, and the weight of {head} is tied to {ties.get(head + '.weight', 'another')} in this "
                                  "model: leave lm_head out; to quantise a copy for the head, load the model without "
                                  "quantization_config, and call st.nn.convert_(model, recipe=..., lm_head=True, tied=True)")
        options = config.options()
        options.pop("scale_type", None)
        if config.recipe in PACKED_RECIPES and config.scale_type is None:
            config.scale_type = str(next((child.weight.dtype for _, child in _linears(model)), torch.bfloat16)).rpartition(".")[2]
        convert_(model, lambda module, name: name not in tied and not any(_names(pattern, name) for pattern in patterns),
                 **{"recipe": config.recipe, **options}, lm_head=config.lm_head)
        config.kept = [name for name, _ in _linears(model)]

    def _hide_marks(self, model: torch.nn.Module) -> None:
        """Replaces the mark ``weight`` in the layers' states until the model is loaded: the loader takes a state for the list of
        tensors to load. A weight that is to be quantised looks as in the file; a mark in a file is not loaded."""
        for layer in self.layers.values():
            dtype = layer.bias.dtype if layer.bias is not None else self._dtype_of(model)
            self._handles.append(layer.register_state_dict_post_hook(self._hook(dtype)))
        self._ignored = getattr(model, "_keys_to_ignore_on_load_unexpected", None)
        if self.pre_quantized:
            marks = {rf"(^|\.){re.escape(_own(model, name))}\.weight$" for name in self.layers}
            model._keys_to_ignore_on_load_unexpected = {*(self._ignored or ()), *marks}

    def _hook(self, dtype: torch.dtype) -> Any:
        def hook(layer: Any, state: Dict[str, Any], prefix: str, metadata: Any) -> None:
            del state[f"{prefix}weight"]
            if not self.pre_quantized:
                state[f"{prefix}weight"] = torch.empty((layer.out_features, layer.in_features), dtype=dtype, device="meta")

        return hook

    def _dtype_of(self, model: torch.nn.Module) -> torch.dtype:
        return getattr(model, "dtype", torch.bfloat16)

    def _process_model_after_weight_loading(self, model: torch.nn.Module, **others: Any) -> torch.nn.Module:
        """Checks that each layer has all its tensors, and of the sizes and format that the layer was made for."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        model._keys_to_ignore_on_load_unexpected = self._ignored
        for name, layer in self.layers.items():
            for own, tensor in (*layer._parameters.items(), *layer._buffers.items()):
                if tensor is None:
                    continue
                tensor.requires_grad_(False)
                if own != "bias" and not getattr(tensor, "_is_hf_initialized", False):
                    raise InvalidArgument(f"the folder lacks {name}.{own}, or its weight: load a folder that save_pretrained wrote")
            wrong = _why_wrong(layer)
            if wrong is not None:
                raise InvalidArgument(f"{name}{wrong}: load the folder with its own config.json")
        return model


def _why_wrong(layer: Any) -> Optional[str]:
    """Returns what a loaded layer holds that is not of its sizes or format; None if all fits."""
    if isinstance(layer, Linear):
        wanted: Tuple[int, ...] = (layer.out_features, layer.in_features)
        codes, name = layer.weight_e4m3, "weight_e4m3"
        if codes.dtype is not torch.float8_e4m3fn:
            return f".weight_e4m3 is {codes.dtype} and must be torch.float8_e4m3fn"
        if tuple(codes.shape) == wanted:
            codes, name, wanted = layer.weight_scale, "weight_scale", scales_shape(wanted, RECIPES[layer.recipe][0])
        return None if tuple(codes.shape) == wanted else f".{name} has shape {tuple(codes.shape)} and must have {wanted}"
    head = [int(value) for value in layer.weight_format.reshape(-1)]
    blob = layer.format.numbers(layer.out_features, layer.in_features).blob_bytes
    if head != [layer.format.number, layer.out_features, layer.in_features]:
        return f".weight_format is {head} and must be {[layer.format.number, layer.out_features, layer.in_features]}"
    return None if layer.weight_packed.numel() == blob else f".weight_packed has {layer.weight_packed.numel()} bytes and must have {blob}"


def _linears(model: torch.nn.Module) -> Iterator[Tuple[str, torch.nn.Linear]]:
    return ((name, module) for name, module in model.named_modules() if isinstance(module, torch.nn.Linear))


def _own(model: torch.nn.Module, name: str) -> str:
    """Returns a module's name without the prefix that a model with a head adds to that of its base."""
    return name.removeprefix(getattr(model, "base_model_prefix", "") + ".")


def _layer_of(linear: torch.nn.Linear, config: SluiceConfig) -> torch.nn.Module:
    """Returns the layer of the recipe for a linear on the meta device."""
    return PACKED_RECIPES.get(config.recipe, Linear).from_linear(linear, **config.options())


if NAME not in AUTO_QUANTIZER_MAPPING:
    register_quantization_config(NAME)(SluiceConfig)
    register_quantizer(NAME)(SluiceQuantizer)
else:  # the module was imported again
    AUTO_QUANTIZATION_CONFIG_MAPPING[NAME], AUTO_QUANTIZER_MAPPING[NAME] = SluiceConfig, SluiceQuantizer


_register_experts()
