# SPDX-License-Identifier: Apache-2.0
"""Recognises the quantised linears of other libraries in a loaded model, by the tensors that they hold, and reads their weights.

Taken are transformers' ``FP8Linear``; linears of compressed-tensors, of the formats "pack-quantized" and "float-quantized"; and
linears of GPTQ and AWQ whose tensors lie as in the checkpoint. No library is imported. The readers are those of sluice.weights.
``convert_`` and ``why_not`` (nn.py) are the callers.
"""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Union

import torch
from torch import Tensor

from .._arguments import shown
from ..errors import (InvalidArgument, InvalidConfig, InvalidSize, InvalidStride, InvalidType, Misaligned, UnsupportedArch, WrongDevice)
from ..weights import QuantizedWeights
from ..weights.checkpoints import Fp8Weights, from_awq, from_compressed_tensors, from_fp8, from_gptq
from ._states import QuantizedState

Weights = Union[Fp8Weights, QuantizedWeights]
# These errors say that a layer does not fit. Others, such as a driver's, are raised.
_DOES_NOT_FIT = (InvalidArgument, InvalidConfig, InvalidSize, InvalidStride, InvalidType, Misaligned, UnsupportedArch, WrongDevice)
_FP8, _COMPRESSED, _WORDS = "FP8Linear", "compressed-tensors", "GPTQ or AWQ"
# Most classes of these packages sort GPTQ's or AWQ's tensors for a kernel, some of them in place and at equal shapes. Classes of the
# plain files keep them as they are stored.
_SORTING_PACKAGES = ("auto_gptq", "gptqmodel", "awq", "optimum")
_PLAIN_FILES = ("qlinear_cuda", "qlinear_cuda_old", "qlinear_triton", "torch", "tritonv2", "torch_awq", "gemm_awq", "gemm_awq_triton",
                "gemm")
_SORTED_NAMES = ("exllama", "marlin", "machete", "bitblas", "ipex", "gemv", "fused")
# Handles that a class makes when it has sorted its tensors.
_HANDLES = ("q4", "q_handle", "q_tensors")


def foreign_kind(module: torch.nn.Module) -> Optional[str]:
    """Returns which library's quantised linear a module is; None for all others, such as a plain ``torch.nn.Linear``."""
    if isinstance(module, QuantizedState):
        return None
    names = {*module._parameters, *module._buffers}
    if {"qweight", "qzeros", "scales"} <= names:
        return _WORDS
    if getattr(module, "quantization_scheme", None) is not None and names & {"weight", "weight_packed"} and "weight_scale" in names:
        # A layer that compressed-tensors has decompressed is one of 16 bits, which its own forward quantises.
        return _COMPRESSED
    weight = module._parameters.get("weight")
    if "weight_scale_inv" in names and weight is not None and weight.element_size() == 1:
        return _FP8
    return None


def bytes_of_foreign(module: torch.nn.Module) -> int:
    """Returns the bytes of a layer's codes, scales and zeros."""
    tensors = (*module._parameters.items(), *module._buffers.items())
    return sum(tensor.numel() * tensor.element_size() for name, tensor in tensors if tensor is not None and name != "bias")


def recipe_of(module: torch.nn.Module, kind: str) -> str:
    """Returns the recipe that computes what a layer computes. Raises ``InvalidArgument``, with the reason, if there is none."""
    _check_alone(module)
    return {_FP8: _recipe_of_fp8, _COMPRESSED: _recipe_of_compressed, _WORDS: _recipe_of_words}[kind](module)


def read_foreign(module: torch.nn.Module, kind: str, recipe: Optional[str], group: Optional[int]) -> Weights:
    """Reads a layer's weights for a recipe; FP8 tensors are not copied. ``group``: the group that the caller asks for, or None.

    Raises ``InvalidArgument`` if another recipe or group is the layer's own, and the reader's error for tensors that contradict
    each other.
    """
    own = recipe_of(module, kind)
    if recipe != own:
        raise InvalidArgument(f"it is a {type(module).__name__} whose weight is quantised already, and recipe = {shown(recipe)} would "
                              f"quantise it again: recipe = {own!r} takes it as it is")
    with torch.no_grad():
        weights = _READERS[kind](module, own)
    if isinstance(weights, QuantizedWeights) and group is not None and group not in (weights.group, weights.group or weights.shape[1]):
        raise InvalidArgument(f"group = {group}, and its weight has groups of {weights.group or weights.shape[1]}: leave group out")
    return weights


def why_not_foreign(module: torch.nn.Module, kind: str, recipe: Optional[str], group: Optional[int],
                    make: Callable[[Weights], Any]) -> Optional[str]:
    """Returns the reason why ``make`` cannot make a layer of a module's weights; None if it can."""
    try:
        make(read_foreign(module, kind, recipe, group))
    except _DOES_NOT_FIT as error:
        return str(error)
    return None


# ---- FP8Linear of transformers ----
def _recipe_of_fp8(module: Any) -> str:
    block = getattr(module, "block_size", None)
    if block is None or (tuple(block) == (module.out_features, module.in_features) != (128, 128)):
        return "row" if getattr(module, "activation_scale", None) is None else "tensor"  # without a scale it quantises each token
    if tuple(block) != (128, 128):
        raise InvalidArgument(f"it has scales for blocks of {block[0]} x {block[1]}, and the kernels take 128 x 128: leave it as it is")
    if getattr(module, "activation_scale", None) is not None:
        raise InvalidArgument("it has one given scale of the input and scales per block of the weight, which no kernel takes together: "
                              "leave it as it is, or set its activation_scale to None to quantise inputs as they come")
    return "block"


def _read_fp8(module: Any, recipe: str) -> Weights:
    _check_e4m3(module)
    scale = None if recipe != "tensor" else module.activation_scale
    return from_fp8(module.weight, module.weight_scale_inv, scale, recipe=recipe)


def _check_e4m3(module: Any) -> None:
    if module.weight.dtype is not torch.float8_e4m3fn:
        raise InvalidType(f"its weight is {module.weight.dtype} and must be torch.float8_e4m3fn: leave it as it is")


# ---- compressed-tensors ----
def _recipe_of_compressed(module: Any) -> str:
    weights, inputs = module.quantization_scheme.weights, module.quantization_scheme.input_activations
    if getattr(module.quantization_scheme, "output_activations", None) is not None:
        raise InvalidArgument("its scheme quantises the output too, which no layer here does: leave it as it is")
    kind, bits, strategy = _text(weights.type), weights.num_bits, _text(weights.strategy)
    if "weight_packed" in module._parameters or "weight_packed" in module._buffers:
        if kind != "int" or bits not in (4, 8):
            raise InvalidArgument(f"its weight is packed as {kind}{bits}, and int4 and int8 are taken: leave it as it is")
        if inputs is not None:
            raise InvalidArgument(f"its scheme quantises the input to {_text(inputs.type)}{inputs.num_bits}, and layers of packed "
                                  "integers here take 16 bits: leave it as it is")
        if strategy not in ("group", "channel"):
            raise InvalidArgument(f"its weight has scales per {strategy}, and per group or channel are taken: leave it as it is")
        return f"int{bits}"
    if module.weight.element_size() > 1:
        raise InvalidArgument(f"its weight is {module.weight.dtype}, decompressed, and its forward rounds it at each call: load the "
                              "model with run_compressed=True")
    if kind != "float" or bits != 8:
        raise InvalidArgument(f"its weight is {kind}{bits}, not packed, and FP8 is taken: leave it as it is")
    if inputs is None:
        raise InvalidArgument("its scheme quantises the weight to FP8 and leaves the input in 16 bits; layers here quantise both: "
                              "leave it as it is, or dequantise the weight and convert that")
    given, per = not inputs.dynamic, _text(inputs.strategy)
    if _text(inputs.type) != "float" or inputs.num_bits != 8:
        raise InvalidArgument(f"its scheme quantises the input to {_text(inputs.type)}{inputs.num_bits}, and FP8 is taken: leave it as it "
                              "is")
    recipe = {("tensor", "tensor"): "tensor", ("tensor", "token"): "row", ("channel", "token"): "row",
              ("block", "group"): "block"}.get((strategy, per))
    if recipe is None or (given and recipe != "tensor"):
        raise InvalidArgument(f"its weight has scales per {strategy} and its input "
                              f"{'one given scale' if given else f'scales per {per}'}, which no kernel takes together: leave it as it is")
    for what, sizes in (("weight", getattr(weights, "block_structure", None)), ("input", [getattr(inputs, "group_size", None)])):
        if recipe == "block" and list(sizes or ()) not in ([128, 128], [128]):
            raise InvalidArgument(f"its {what} has scales for blocks of {' x '.join(map(str, sizes or ('unknown size',)))}, and the "
                                  "kernels take 128: leave it as it is")
    return recipe


def _read_compressed(module: Any, recipe: str) -> Weights:
    weights = module.quantization_scheme.weights
    if recipe in ("int4", "int8"):
        zeros = None if weights.symmetric else getattr(module, "weight_zero_point", None)
        if not weights.symmetric and zeros is None:
            raise InvalidArgument("its scheme is not symmetric, and it has no weight_zero_point: load the checkpoint whole")
        group = -1 if _text(weights.strategy) == "channel" else weights.group_size
        return from_compressed_tensors(module.weight_packed, module.weight_scale, module.weight_shape, zeros,
                                       getattr(module, "weight_g_idx", None), bits=weights.num_bits, group=group)
    _check_e4m3(module)
    given = recipe == "tensor" and not module.quantization_scheme.input_activations.dynamic
    scale = getattr(module, "input_scale", None) if given else None
    if given and scale is None:
        raise InvalidArgument("its scheme has a given scale of the input, and it has no input_scale: load the checkpoint whole")
    return from_fp8(module.weight, module.weight_scale, scale, recipe=recipe)


def _text(value: Any) -> str:
    return str(getattr(value, "value", value))


# ---- GPTQ and AWQ ----
def _recipe_of_words(module: Any) -> str:
    kind = type(module)
    path, text = kind.__module__.split("."), f"{kind.__module__}.{kind.__qualname__}".lower()
    packages = path[0] in _SORTING_PACKAGES and path[-1] not in _PLAIN_FILES
    if packages or any(name in text for name in _SORTED_NAMES) or any(hasattr(module, name) for name in _HANDLES):
        raise InvalidArgument(f"it is a {kind.__name__} of {kind.__module__}, which may have sorted its tensors for its own kernel: "
                              "load the model with the backend that keeps them as they are stored (gptqmodel: BACKEND.TORCH), or read "
                              "the files (examples/load_checkpoint.py)")
    if getattr(module, "adapter", None) is not None:
        raise InvalidArgument("it has an adapter (LoRA), which a layer here has not: load the model without it")
    if getattr(module, "online_full_had", False) or getattr(module, "online_partial_had", False):
        raise InvalidArgument("it rotates its input before the product, which a layer here does not: leave it as it is")
    bits = _first_of(module, "bits", "w_bit")
    if bits not in (4, 8):
        raise InvalidArgument(f"its weight has {bits} bits, and 4 or 8 are taken: leave it as it is")
    return f"int{bits}"


def _read_words(module: Any, recipe: str) -> Weights:
    k, n = _first_of(module, "in_features", "infeatures"), _first_of(module, "out_features", "outfeatures")
    group, bits = _first_of(module, "group_size"), int(recipe[3:])
    group = -1 if group in (k, -1) else group
    if tuple(module.qweight.shape) == (k, n * bits // 32):  # AWQ packs outputs, GPTQ columns
        if bits != 4:
            raise InvalidArgument("it is of AWQ with 8 bits, and 4 are taken: leave it as it is")
        return from_awq(module.qweight, module.qzeros, module.scales, group=group)
    form = module.qzero_format() if callable(getattr(module, "qzero_format", None)) else 1  # gptqmodel turns version 1 into 2 when it loads
    symmetric = getattr(module, "sym", None)
    return from_gptq(module.qweight, module.qzeros, module.scales, getattr(module, "g_idx", None), bits=bits, group=group, k=k,
                     checkpoint_format="gptq" if form == 1 else "gptq_v2", symmetric=symmetric if isinstance(symmetric, bool) else None)


def _first_of(module: Any, *names: str) -> Any:
    for name in names:
        if getattr(module, name, None) is not None:
            return getattr(module, name)
    raise InvalidArgument(f"it has no attribute {' or '.join(names)}, which says how its tensors lie: leave it as it is")


def _check_alone(module: torch.nn.Module) -> None:
    """Raises ``InvalidArgument`` for a module with hooks, which a new layer would not have."""
    if module._forward_hooks or module._forward_pre_hooks:
        raise InvalidArgument(f"it has a hook on its forward, which {type(module).__name__} needs or somebody added, and a new layer "
                              "would not have it: remove the hook, or leave the layer as it is")


_READERS = {_FP8: _read_fp8, _COMPRESSED: _read_compressed, _WORDS: _read_words}
