# SPDX-License-Identifier: Apache-2.0
"""A plugin of vLLM: FP8 and int4 linears by sluice, and a quantisation "sluice". **It was not run in vLLM yet** (docs/vllm.md).

vLLM calls ``register`` in each of its processes, by the entry point ``vllm.general_plugins``. Each part is registered alone, and only
if vLLM's classes are as ``CONTRACT`` says: a plugin must never take a server down. tools/vllm_contract.py reads ``CONTRACT`` from this
file's text, and checks it against a wheel of vLLM without importing either.
"""
from __future__ import annotations

import importlib
import inspect
import logging
import os
from typing import Any, Dict, List, Optional, Tuple

logger = logging.getLogger("sluice.vllm")

VERSION = "0.20.2"  # the version of vLLM whose source was read

# The names of vLLM that each part uses: module, name, and what is expected of it. "abstract": exactly these methods are abstract.
# "parameters": exactly these, of a function or of methods, without self and cls. "fields" and "members": these are among them.
CONTRACT: Dict[str, List[Tuple[str, str, Dict[str, Any]]]] = {
    "fp8": [
        ("vllm.model_executor.kernels.linear", "register_linear_kernel", {"parameters": ["kernel_class", "platform", "kernel_type"]}),
        ("vllm.model_executor.kernels.linear", "_POSSIBLE_FP8_KERNELS", {}),
        ("vllm.model_executor.kernels.linear", "FP8ScaledMMLinearKernel", {
            "abstract": ["apply_scaled_mm", "can_implement", "is_supported"],
            "parameters": {"__init__": ["c", "layer_param_names"], "is_supported": ["compute_capability"], "can_implement": ["c"],
                           "process_weights_after_loading": ["layer"], "_get_layer_params": ["layer"],
                           "apply_weights": ["layer", "x", "bias"], "get_output_padding": [],
                           "apply_scaled_mm": ["A", "B", "out_dtype", "As", "Bs", "bias", "output_shape"]}}),
        ("vllm.model_executor.kernels.linear", "FP8ScaledMMLinearLayerConfig", {
            "fields": ["activation_quant_key", "out_dtype", "weight_quant_key", "weight_shape"]}),
        ("vllm.model_executor.layers.quantization.utils.quant_utils", "QuantKey", {"fields": ["dtype", "scale", "scale2", "symmetric"]}),
        ("vllm.model_executor.layers.quantization.utils.quant_utils", "ScaleDesc", {"fields": ["dtype", "group_shape", "static"]}),
        ("vllm.model_executor.layers.quantization.utils.quant_utils", "GroupShape", {
            "members": ["is_per_channel", "is_per_tensor", "is_per_token"]}),
        ("vllm.platforms", "PlatformEnum", {"members": ["CUDA"]}),
        ("vllm.platforms.interface", "Platform", {"parameters": {"is_device_capability": ["capability", "device_id"]}}),
    ],
    "mp": [
        ("vllm.model_executor.kernels.linear", "register_linear_kernel", {"parameters": ["kernel_class", "platform", "kernel_type"]}),
        ("vllm.model_executor.kernels.linear", "_POSSIBLE_KERNELS", {}),
        ("vllm.model_executor.kernels.linear", "MPLinearKernel", {
            "abstract": ["apply_weights", "can_implement", "get_min_capability", "process_weights_after_loading"],
            "parameters": {"__init__": ["c", "w_q_param_name", "w_s_param_name", "w_zp_param_name", "w_gidx_param_name"],
                           "get_min_capability": [], "can_implement": ["c"], "process_weights_after_loading": ["layer"],
                           "apply_weights": ["layer", "x", "bias"], "_transform_param": ["layer", "name", "fn"]}}),
        ("vllm.model_executor.kernels.linear", "MPLinearLayerConfig", {
            "fields": ["act_type", "group_size", "has_g_idx", "partition_weight_shape", "weight_type", "zero_points"]}),
        ("vllm.scalar_type", "scalar_types", {"members": ["uint4b8"]}),
        ("vllm.model_executor.parameter", "permute_param_layout_", {"parameters": ["param", "input_dim", "output_dim", "kwargs"]}),
        ("vllm.platforms", "PlatformEnum", {"members": ["CUDA"]}),
    ],
    "quantization": [
        ("vllm.model_executor.layers.quantization", "register_quantization_config", {"parameters": ["quantization"]}),
        ("vllm.model_executor.layers.quantization.base_config", "QuantizationConfig", {
            "abstract": ["from_config", "get_config_filenames", "get_min_capability", "get_name", "get_quant_method",
                         "get_supported_act_dtypes"],
            "parameters": {"__init__": [], "from_config": ["config"], "get_quant_method": ["layer", "prefix"]}}),
        ("vllm.model_executor.layers.linear", "LinearMethodBase", {
            "abstract": ["apply", "create_weights"],
            "parameters": {"create_weights": ["layer", "input_size_per_partition", "output_partition_sizes", "input_size", "output_size",
                                              "params_dtype", "extra_weight_attrs"],
                           "apply": ["layer", "x", "bias"], "process_weights_after_loading": ["layer"]}}),
        ("vllm.model_executor.layers.linear", "LinearBase", {}),
        ("vllm.model_executor.layers.linear", "UnquantizedLinearMethod", {"parameters": {"apply": ["layer", "x", "bias"]}}),
        ("vllm.model_executor.parameter", "ModelWeightParameter", {}),
        ("vllm.model_executor.utils", "set_weight_attrs", {"parameters": ["weight", "weight_attrs"]}),
    ],
}

RECIPES = ("row", "tensor", "int4")
_GROUPS = (32, 64, 128, -1)  # -1 is vLLM's word for one scale per row of weights


class Mismatch(Exception):
    """vLLM is not as ``CONTRACT`` says."""


def _parameters_of(function: Any) -> List[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def check(part: str) -> Dict[str, Any]:
    """Returns the names of vLLM that a part uses. Raises ``Mismatch`` for the first that is missing or not as ``CONTRACT`` says."""
    found: Dict[str, Any] = {}
    for module, name, wanted in CONTRACT[part]:
        try:
            thing = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise Mismatch(f"{module}.{name} is not there: {error}") from error
        found[name] = thing
        abstract = sorted(getattr(thing, "__abstractmethods__", ()))
        if abstract != wanted.get("abstract", abstract):
            raise Mismatch(f"{name} has the abstract methods {abstract}, expected {wanted['abstract']}")
        parameters = wanted.get("parameters", {})
        for method, names in (parameters.items() if isinstance(parameters, dict) else [("", parameters)]):
            function = getattr(thing, method, None) if method else thing
            if function is None or _parameters_of(function) != names:
                raise Mismatch(f"{name}{'.' if method else ''}{method} takes {None if function is None else _parameters_of(function)}, "
                               f"expected {names}")
        fields = getattr(thing, "__dataclass_fields__", {})
        for field in [*wanted.get("fields", ()), *wanted.get("members", ())]:
            if field not in fields and not hasattr(thing, field):
                raise Mismatch(f"{name} has no {field}")
    return found


def largest_rows() -> int:
    """Returns the most rows for which kernels are made ready when weights are loaded: SLUICE_VLLM_ROWS, by default 512."""
    return int(os.environ.get("SLUICE_VLLM_ROWS", "512"))


def _fast() -> bool:
    return os.environ.get("SLUICE_VLLM_FAST_ACCUM", "0") == "1"


def _ready(problem: Any, device: Any) -> None:
    """Compiles and loads the kernels of a problem for 1 to ``largest_rows()`` rows, if its weights are on a GPU."""
    from .plans import prepare

    if device.type == "cuda" and largest_rows() > 0:
        prepare(problem, m=(1, largest_rows()), device=device.index or 0)


def _why_no_hopper(platform: Any, compute_capability: Optional[int]) -> Optional[str]:
    hopper = platform.is_device_capability(90) if compute_capability is None else compute_capability == 90
    return None if hopper else "needs a GPU of compute capability 9.0"


def _refusal(problem: Any) -> Tuple[bool, Optional[str]]:
    """Returns what ``can_implement`` returns for a product of this problem."""
    from .errors import Error

    try:
        problem.check()
    except Error as error:
        return False, str(error)
    return True, None


def fp8_kernel(vllm: Dict[str, Any]) -> type:
    """Returns the class of FP8 products: e4m3 by e4m3, each side with one scale, or A with one per token and B with one per channel."""
    import torch

    from .problems import Problem
    from .torch.functional import scaled_mm

    class SluiceFP8ScaledMMLinearKernel(vllm["FP8ScaledMMLinearKernel"]):  # type: ignore[misc]
        @classmethod
        def is_supported(cls, compute_capability: Optional[int] = None) -> Tuple[bool, Optional[str]]:
            reason = _why_no_hopper(importlib.import_module("vllm.platforms").current_platform, compute_capability)
            return reason is None, reason

        @classmethod
        def can_implement(cls, c: Any) -> Tuple[bool, Optional[str]]:
            a, b = c.activation_quant_key, c.weight_quant_key
            for name, key in (("activations", a), ("weights", b)):
                fp32 = key.scale.dtype is torch.float32 and key.scale2 is None
                if key.dtype is not torch.float8_e4m3fn or not fp32 or not key.symmetric:
                    return False, f"takes {name} of e4m3 with fp32 scales, not {key}"
            of_a, of_b = a.scale.group_shape, b.scale.group_shape
            if not (of_a.is_per_tensor() or of_a.is_per_token()) or not (of_b.is_per_tensor() or of_b.is_per_channel()):
                return False, f"takes scales per tensor, per token and per channel, not {a} and {b}"
            n, k = c.weight_shape
            return _refusal(_problem(n, k, c))

        def process_weights_after_loading(self, layer: Any) -> None:
            super().process_weights_after_loading(layer)
            weight = self._get_layer_params(layer)[0]
            _ready(_problem(weight.shape[1], weight.shape[0], self.config), weight.device)

        def apply_scaled_mm(self, *, A: torch.Tensor, B: torch.Tensor, out_dtype: torch.dtype, As: torch.Tensor,  # noqa: N803
                            Bs: torch.Tensor, bias: Optional[torch.Tensor], output_shape: list) -> torch.Tensor:  # noqa: N803
            scale_a = As if As.numel() == 1 else As.view(-1, 1)
            scale_b = Bs if Bs.numel() == 1 else Bs.view(1, -1)  # vLLM keeps one per row of the weight, n x 1
            return scaled_mm(A, B, scale_a, scale_b, bias, out_dtype=out_dtype, use_fast_accum=_fast()).view(*output_shape)

    def _problem(n: int, k: int, c: Any) -> Problem:
        of_a = "tensor" if c.activation_quant_key.scale.group_shape.is_per_tensor() else "vector"
        of_b = "tensor" if c.weight_quant_key.scale.group_shape.is_per_tensor() else "vector"
        return Problem(16, n, k, a="e4m3", d=str(c.out_dtype or torch.bfloat16), scale_a=of_a, scale_b=of_b,
                       accumulate="fast" if _fast() else "promoted")

    return SluiceFP8ScaledMMLinearKernel


def mixed_kernel(vllm: Dict[str, Any]) -> type:
    """Returns the class of products of 16-bit tokens and symmetric 4-bit weights (vLLM's uint4b8), in groups of 32, 64, 128 or all of k."""
    import torch

    from .formats import WeightFormat
    from .packed import pack
    from .problems import Problem
    from .torch._library import PACKED_MM, dispatch

    def _format(c: Any) -> WeightFormat:
        return WeightFormat("uint4", max(c.group_size, 0), str(c.act_type))

    class SluiceMPLinearKernel(vllm["MPLinearKernel"]):  # type: ignore[misc]
        @classmethod
        def get_min_capability(cls) -> int:
            return 90

        @classmethod
        def can_implement(cls, c: Any) -> Tuple[bool, Optional[str]]:
            reason = _why_no_hopper(importlib.import_module("vllm.platforms").current_platform, None)
            if reason is not None:
                return False, reason
            if c.weight_type != vllm["scalar_types"].uint4b8 or c.zero_points or c.has_g_idx:
                return False, f"takes symmetric 4-bit weights (uint4b8) without zero points and g_idx, not {c.weight_type}"
            if c.act_type not in (torch.bfloat16, torch.float16) or c.group_size not in _GROUPS:
                return False, f"takes tokens of bf16 and fp16 and groups of {_GROUPS}, not {c.act_type} and {c.group_size}"
            k, n = c.partition_weight_shape
            if k % 8 or (c.group_size > 0 and k % c.group_size):
                return False, f"takes k in whole words of 8 codes and whole groups, not k = {k} in groups of {c.group_size}"
            return _refusal(Problem(16, n, k, a=str(c.act_type), packed=_format(c)))

        def process_weights_after_loading(self, layer: Any) -> None:
            c, permute = self.config, vllm["permute_param_layout_"]
            k, n = c.partition_weight_shape
            words = permute(getattr(layer, self.w_q_name), input_dim=0, output_dim=1, packed_dim=0).data
            scales = permute(getattr(layer, self.w_s_name), input_dim=0, output_dim=1).data
            packed = pack(codes_of(words), scales.t().to(c.act_type).contiguous(), type="uint4", group=max(c.group_size, 0))
            self._transform_param(layer, self.w_q_name, lambda old: packed.blob)
            self._transform_param(layer, self.w_s_name, lambda old: old.data.new_empty(0))  # the blob has them
            self.numbers = packed.numbers
            _ready(packed.problem(16, str(c.act_type)), packed.blob.device)

        def apply_weights(self, layer: Any, x: torch.Tensor, bias: Optional[torch.Tensor] = None) -> torch.Tensor:
            return dispatch(PACKED_MM, None, x.dtype, x, getattr(layer, self.w_q_name), self.numbers, None, None, 0.0, bias, None, None,
                            False, None, 0)

    return SluiceMPLinearKernel


def codes_of(words: Any) -> Any:
    """Returns uint8 codes, n x k, of int32 words, k/8 x n, whose lowest four bits are the code of the smallest k."""
    import torch

    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=words.device)
    return ((words.t().unsqueeze(-1) >> shifts) & 15).to(torch.uint8).reshape(words.shape[1], words.shape[0] * 8)


def quantization_config(vllm: Dict[str, Any]) -> type:
    """Returns the class of the quantisation "sluice": 16-bit checkpoints whose linears are quantised when they are loaded.

    ``recipe``: "row" and "tensor" (FP8) or "int4" (groups of 128), from the model's ``quantization_config`` or SLUICE_VLLM_RECIPE.
    ``ignore``: parts of names of layers that stay in 16 bits; the head is none of vLLM's linears.
    """
    import torch

    from .errors import Error, InvalidArgument
    from .torch.nn import Linear, Linear4bit

    class SluiceLinearMethod(vllm["LinearMethodBase"]):  # type: ignore[misc]
        def __init__(self, config: "SluiceConfig") -> None:
            self.config = config

        def create_weights(self, layer: Any, input_size_per_partition: int, output_partition_sizes: List[int], input_size: int,
                           output_size: int, params_dtype: torch.dtype, **extra_weight_attrs: Any) -> None:
            loader = extra_weight_attrs.pop("weight_loader")
            weight = vllm["ModelWeightParameter"](
                data=torch.empty(sum(output_partition_sizes), input_size_per_partition, dtype=params_dtype), input_dim=1, output_dim=0,
                weight_loader=loader)
            layer.register_parameter("weight", weight)
            vllm["set_weight_attrs"](weight, extra_weight_attrs)

        def process_weights_after_loading(self, layer: Any) -> None:
            if getattr(layer, "sluice", None) is not None:
                return  # vLLM may call it again
            n, k = layer.weight.shape
            plain = torch.nn.Linear(k, n, bias=False, device="meta")
            plain.weight = torch.nn.Parameter(layer.weight.data, requires_grad=False)
            try:
                made = (Linear4bit.from_linear(plain) if self.config.recipe == "int4"
                        else Linear.from_linear(plain, self.config.recipe, use_fast_accum=_fast()))
            except Error as error:
                logger.warning("sluice: a linear of %d x %d stays in 16 bits: %s", n, k, error)
                layer.sluice = False
                return
            layer.weight = torch.nn.Parameter(layer.weight.data.new_empty(0), requires_grad=False)
            layer.sluice = made
            if layer.weight.is_cuda and largest_rows() > 0:
                made.prepare((1, largest_rows()), plain.weight.dtype)

        def apply(self, layer: Any, x: torch.Tensor, bias: Optional[torch.Tensor] = None) -> torch.Tensor:
            if layer.sluice is False:
                return torch.nn.functional.linear(x, layer.weight, bias)
            y = layer.sluice(x)
            return y if bias is None else y + bias

    class SluiceConfig(vllm["QuantizationConfig"]):  # type: ignore[misc]
        def __init__(self, recipe: Optional[str] = None, ignore: Tuple[str, ...] = ()) -> None:
            super().__init__()
            self.recipe, self.ignore = recipe or os.environ.get("SLUICE_VLLM_RECIPE", "row"), tuple(ignore)
            if self.recipe not in RECIPES:
                raise InvalidArgument(f"recipe = {self.recipe!r} must be one of {', '.join(RECIPES)}: set it in quantization_config or "
                                      "SLUICE_VLLM_RECIPE")

        def get_name(self) -> str:
            return "sluice"

        def get_supported_act_dtypes(self) -> List[torch.dtype]:
            return [torch.bfloat16, torch.float16]

        @classmethod
        def get_min_capability(cls) -> int:
            return 90

        @staticmethod
        def get_config_filenames() -> List[str]:
            return []

        @classmethod
        def from_config(cls, config: Dict[str, Any]) -> "SluiceConfig":
            if config.get("kept") is not None:
                raise InvalidArgument("the checkpoint was quantised and saved by sluice.transformers, which this plugin does not read: "
                                      "load the original checkpoint with quantization='sluice'")
            return cls(config.get("recipe"), tuple(config.get("ignore") or ()))

        def get_quant_method(self, layer: Any, prefix: str) -> Any:
            if not isinstance(layer, vllm["LinearBase"]):
                return None
            return vllm["UnquantizedLinearMethod"]() if any(part in prefix for part in self.ignore) else SluiceLinearMethod(self)

    return SluiceConfig


def _register_kernel(kind: str, made: type, vllm: Dict[str, Any], possible: str) -> None:
    cuda = vllm["PlatformEnum"].CUDA
    if any(kernel.__name__ == made.__name__ for kernel in vllm[possible].get(cuda, ())):
        return  # vLLM may call a plugin twice
    vllm["register_linear_kernel"](made, cuda, kind)
    if os.environ.get("SLUICE_VLLM_FIRST", "0") == "1":
        kernels = vllm[possible][cuda]
        kernels.insert(0, kernels.pop(kernels.index(made)))


def register() -> None:
    """Registers what fits vLLM: kernels of FP8 and int4 linears, and the quantisation "sluice". vLLM calls it. It never raises: for a
    part that does not fit, it logs a warning."""
    made: Dict[str, Any] = {"fp8": lambda vllm: _register_kernel("fp8", fp8_kernel(vllm), vllm, "_POSSIBLE_FP8_KERNELS"),
                            "mp": lambda vllm: _register_kernel("mp", mixed_kernel(vllm), vllm, "_POSSIBLE_KERNELS"),
                            "quantization": lambda vllm: vllm["register_quantization_config"]("sluice")(quantization_config(vllm))}
    for part, put in made.items():
        try:
            put(check(part))
        except Exception as error:  # noqa: BLE001 - a plugin must never take a server down
            logger.warning("sluice: %s is not registered with vLLM (written for %s): %s", part, VERSION, error)
