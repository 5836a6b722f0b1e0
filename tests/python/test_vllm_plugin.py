# SPDX-License-Identifier: Apache-2.0
"""Tests of the plugin of vLLM without vLLM. Its classes stand on stubs with the signatures of vLLM 0.20.2, which tools/vllm_contract.py
compares with the wheel. They compute on the CPU, by references in the kernels' place. Nothing here is a server."""
import importlib
import logging
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sluice.torch")

import sluice  # noqa: E402
from sluice import vllm as plugin  # noqa: E402
from sluice.torch.quantize import quantize_reference  # noqa: E402

E4M3, BF16, FP16 = torch.float8_e4m3fn, torch.bfloat16, torch.float16
# The parts of vLLM that the plugin stands on: path -> text. QuantFP8 is torch's arithmetic here.
STUBS = {
    "vllm/__init__.py": "",
    "vllm/scalar_type.py": "class scalar_types:\n    uint4 = 'uint4'\n    uint4b8 = 'uint4b8'\n    uint8b128 = 'uint8b128'\n",
    "vllm/platforms/__init__.py": """
import enum
from .interface import Platform
class PlatformEnum(enum.Enum):
    CUDA = 0
    ROCM = 1
current_platform = Platform()
""",
    "vllm/platforms/interface.py": """
class Platform:
    hopper = True
    supported_quantization = []
    @classmethod
    def is_device_capability(cls, capability, device_id=0):
        return cls.hopper and capability == 90
""",
    "vllm/model_executor/__init__.py": "",
    "vllm/model_executor/utils.py": "def set_weight_attrs(weight, weight_attrs):\n    weight.attrs = weight_attrs\n",
    "vllm/model_executor/parameter.py": """
import torch
class ModelWeightParameter(torch.nn.Parameter):
    def __new__(cls, *, data, **_):
        return super().__new__(cls, data, requires_grad=False)
    def __init__(self, *, data, input_dim, output_dim, weight_loader):
        self.input_dim, self.output_dim, self.weight_loader = input_dim, output_dim, weight_loader
def permute_param_layout_(param, input_dim, output_dim, **kwargs):
    if (param.input_dim, param.output_dim) != (input_dim, output_dim):
        param.data = param.data.t()
        param.input_dim, param.output_dim = input_dim, output_dim
    return param
""",
    "vllm/model_executor/kernels/__init__.py": "",
    "vllm/model_executor/kernels/linear/__init__.py": """
from vllm.platforms import PlatformEnum
from .kernels import FP8ScaledMMLinearKernel, FP8ScaledMMLinearLayerConfig, MPLinearKernel, MPLinearLayerConfig
_POSSIBLE_FP8_KERNELS = {PlatformEnum.CUDA: [FP8ScaledMMLinearKernel]}
_POSSIBLE_KERNELS = {PlatformEnum.CUDA: [MPLinearKernel]}
def register_linear_kernel(kernel_class, platform, kernel_type="mp"):
    {"fp8": _POSSIBLE_FP8_KERNELS, "mp": _POSSIBLE_KERNELS}[kernel_type].setdefault(platform, []).append(kernel_class)
""",
    "vllm/model_executor/kernels/linear/kernels.py": """
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any
import torch
from sluice.torch.quantize import quantize_reference
@dataclass
class FP8ScaledMMLinearLayerConfig:
    weight_quant_key: Any
    activation_quant_key: Any
    weight_shape: tuple
    input_dtype: Any
    out_dtype: Any
class FP8ScaledMMLinearKernel(ABC):
    @classmethod
    @abstractmethod
    def is_supported(cls, compute_capability=None): ...
    @classmethod
    @abstractmethod
    def can_implement(cls, c): ...
    def __init__(self, c, layer_param_names):
        assert self.can_implement(c)[0] and self.is_supported()[0]
        self.config, self.layer_param_names = c, layer_param_names
    def process_weights_after_loading(self, layer): pass
    def _get_layer_params(self, layer):
        w, w_s, x_s, x_s_ub = self.layer_param_names
        return getattr(layer, w), getattr(layer, w_s), getattr(layer, x_s, None), getattr(layer, x_s_ub, None)
    def apply_weights(self, layer, x, bias=None):
        w, w_s, x_s, _ = self._get_layer_params(layer)
        x_2d = x.view(-1, x.shape[-1])
        if x_s is None:
            q, x_s = quantize_reference(x_2d, "row" if self.config.activation_quant_key.scale.group_shape.is_per_token() else "tensor")
        else:
            q = (x_2d / x_s).clamp(-448, 448).to(torch.float8_e4m3fn)
        return self.apply_scaled_mm(A=q, B=w, out_dtype=self.config.out_dtype or x.dtype, As=x_s, Bs=w_s, bias=bias,
                                    output_shape=[*x.shape[:-1], w.shape[1]])
    @abstractmethod
    def apply_scaled_mm(self, *, A, B, out_dtype, As, Bs, bias, output_shape): ...
    def get_output_padding(self): return None
@dataclass
class MPLinearLayerConfig:
    full_weight_shape: tuple
    partition_weight_shape: tuple
    weight_type: Any
    act_type: Any
    group_size: int
    zero_points: bool
    has_g_idx: bool
    out_type: Any = None
class MPLinearKernel(ABC):
    @classmethod
    @abstractmethod
    def get_min_capability(cls): ...
    @classmethod
    @abstractmethod
    def can_implement(cls, c): ...
    def __init__(self, c, w_q_param_name, w_s_param_name, w_zp_param_name=None, w_gidx_param_name=None):
        assert self.can_implement(c)
        self.config, self.w_q_name, self.w_s_name = c, w_q_param_name, w_s_param_name
    @abstractmethod
    def process_weights_after_loading(self, layer): ...
    @abstractmethod
    def apply_weights(self, layer, x, bias=None): ...
    def _transform_param(self, layer, name, fn):
        setattr(layer, name, torch.nn.Parameter(fn(getattr(layer, name)).data, requires_grad=False))
""",
    "vllm/model_executor/layers/__init__.py": "",
    "vllm/model_executor/layers/linear.py": """
from abc import ABC, abstractmethod
import torch
class LinearMethodBase(ABC):
    @abstractmethod
    def create_weights(self, layer, input_size_per_partition, output_partition_sizes, input_size, output_size, params_dtype,
                       **extra_weight_attrs): ...
    @abstractmethod
    def apply(self, layer, x, bias=None): ...
    def process_weights_after_loading(self, layer): pass
class UnquantizedLinearMethod(LinearMethodBase):
    def create_weights(self, layer, input_size_per_partition, output_partition_sizes, input_size, output_size, params_dtype,
                       **extra_weight_attrs): pass
    def apply(self, layer, x, bias=None): pass
class LinearBase(torch.nn.Module): pass
""",
    "vllm/model_executor/layers/quantization/__init__.py": """
from .base_config import QuantizationConfig
METHODS = {}
def register_quantization_config(quantization):
    def wrap(cls):
        assert issubclass(cls, QuantizationConfig)
        METHODS[quantization] = cls
        return cls
    return wrap
""",
    "vllm/model_executor/layers/quantization/base_config.py": """
from abc import ABC, abstractmethod
class QuantizationConfig(ABC):
    def __init__(self): self.packed_modules_mapping = {}
    @abstractmethod
    def get_name(self): ...
    @abstractmethod
    def get_supported_act_dtypes(self): ...
    @classmethod
    @abstractmethod
    def get_min_capability(cls): ...
    @staticmethod
    @abstractmethod
    def get_config_filenames(): ...
    @classmethod
    @abstractmethod
    def from_config(cls, config): ...
    @abstractmethod
    def get_quant_method(self, layer, prefix): ...
""",
    "vllm/model_executor/layers/quantization/utils/__init__.py": "",
    "vllm/model_executor/layers/quantization/utils/quant_utils.py": """
from dataclasses import dataclass
from typing import Any, NamedTuple
class GroupShape(NamedTuple):
    row: int
    col: int
    def is_per_tensor(self): return self == (-1, -1)
    def is_per_token(self): return self == (1, -1)
    def is_per_channel(self): return self == (-1, 1)
@dataclass(frozen=True)
class ScaleDesc:
    dtype: Any
    static: bool
    group_shape: GroupShape
@dataclass(frozen=True)
class QuantKey:
    dtype: Any
    scale: ScaleDesc
    scale2: Any = None
    symmetric: bool = True
""",
}


class Vllm:
    """The stubs in a folder that Python imports from."""

    def __init__(self, folder: pathlib.Path, monkeypatch):
        self.folder = folder
        monkeypatch.syspath_prepend(str(folder))
        for path, text in STUBS.items():
            self.write(path, text)

    def write(self, path, text):
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, encoding="utf-8")

    def change(self, path, old, new):
        assert old in STUBS[path]
        self.write(path, STUBS[path].replace(old, new))

    def __getattr__(self, name):
        return importlib.import_module(f"vllm.{name}")

    @property
    def linear(self):
        return importlib.import_module("vllm.model_executor.kernels.linear")

    def kernels(self, name="_POSSIBLE_FP8_KERNELS"):
        return getattr(self.linear, name)[self.platforms.PlatformEnum.CUDA]

    @property
    def methods(self):
        return importlib.import_module("vllm.model_executor.layers.quantization").METHODS


def forget():
    for name in [name for name in sys.modules if name == "vllm" or name.startswith("vllm.")]:
        del sys.modules[name]


@pytest.fixture
def vllm(tmp_path, monkeypatch):
    forget()
    for name in ("SLUICE_VLLM_FIRST", "SLUICE_VLLM_RECIPE", "SLUICE_VLLM_ROWS", "SLUICE_VLLM_FAST_ACCUM", "PYTHONDONTWRITEBYTECODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield Vllm(tmp_path, monkeypatch)
    forget()


@pytest.fixture
def references(monkeypatch):
    """Puts torch's arithmetic in the place of the kernels. Returns what they were called with."""
    seen = []

    def scaled(a, b, scale_a, scale_b, bias=None, *, out_dtype, use_fast_accum=False, **_):
        assert scale_a.numel() == 1 or scale_a.shape == (a.shape[0], 1)
        assert scale_b.numel() == 1 or scale_b.shape == (1, b.shape[1])
        seen.append(("scaled_mm", tuple(scale_a.shape), tuple(scale_b.shape), use_fast_accum))
        y = a.float() @ b.float() * scale_a * scale_b
        return (y if bias is None else y + bias).to(out_dtype)

    def packed(op, out, dtype, x, blob, numbers, scale_x, gamma, epsilon, bias, *_):
        seen.append(("packed_mm", numbers))
        format = sluice.WeightFormat("uint4", numbers[1], {BF16: "bf16", FP16: "fp16"}[dtype])  # noqa: A001
        weights = sluice.PackedWeights(blob, numbers[5], numbers[6], format)
        assert weights.numbers == numbers
        codes, scales, _ = weights.unpack()
        group = numbers[1] or numbers[6]
        y = x.float() @ ((codes.float() - 8) * scales.float().repeat_interleave(group, 1)).t()
        return (y if bias is None else y + bias).to(dtype)

    layer, functional, library = (importlib.import_module(f"sluice.torch.{name}") for name in ("linear_layer", "functional", "_library"))
    linear = importlib.import_module("sluice.torch.packed_linear")
    monkeypatch.setattr(functional, "scaled_mm", scaled)
    monkeypatch.setattr(layer, "scaled_mm", lambda *all, c=None, workspace=None, **named: scaled(*all, **named))
    monkeypatch.setattr(layer, "quantize", lambda x, granularity, workspace=None: quantize_reference(x, granularity))
    monkeypatch.setattr(library, "dispatch", packed)
    monkeypatch.setattr(linear, "dispatch", packed)
    return seen


def keys(vllm, a, b, static=False):
    """Returns the quantisation keys of activations and weights: "tensor", "token", "channel" or "block"."""
    module = importlib.import_module("vllm.model_executor.layers.quantization.utils.quant_utils")
    shape = {"tensor": (-1, -1), "token": (1, -1), "channel": (-1, 1), "block": (128, 128)}
    return [module.QuantKey(E4M3, module.ScaleDesc(torch.float32, of is b or static, module.GroupShape(*shape[of]))) for of in (a, b)]


def fp8_config(vllm, a="token", b="channel", n=64, k=256, out=BF16):
    activations, weights = keys(vllm, a, b)
    return vllm.linear.FP8ScaledMMLinearLayerConfig(weights, activations, (n, k), BF16, out)


NAMES = ["weight", "weight_scale", "input_scale", "input_scale_ub"]


# ---- register
def test_all_parts_are_registered_once_and_last(vllm, caplog):
    with caplog.at_level(logging.WARNING):
        plugin.register()
        plugin.register()
    assert not caplog.records
    for name, kernel in (("_POSSIBLE_FP8_KERNELS", "SluiceFP8ScaledMMLinearKernel"), ("_POSSIBLE_KERNELS", "SluiceMPLinearKernel")):
        assert [one.__name__ for one in vllm.kernels(name)][1:] == [kernel]
        assert not vllm.kernels(name)[-1].__abstractmethods__
    assert list(vllm.methods) == ["sluice"] and vllm.methods["sluice"]().get_name() == "sluice"


def test_it_is_first_where_the_user_says_so(vllm, monkeypatch):
    monkeypatch.setenv("SLUICE_VLLM_FIRST", "1")
    plugin.register()
    assert [one.__name__ for one in vllm.kernels()] == ["SluiceFP8ScaledMMLinearKernel", "FP8ScaledMMLinearKernel"]


@pytest.mark.parametrize("path, old, new, part", [
    ("kernels/linear/kernels.py", "def apply_scaled_mm(self, *, A, B,", "def apply_scaled_mm(self, *, A, B, C,", "fp8"),
    ("kernels/linear/kernels.py", "    def get_output_padding(self): return None",
     "    def get_output_padding(self): return None\n    @abstractmethod\n    def input_quant_key(self): ...", "fp8"),
    ("kernels/linear/kernels.py", "    weight_shape: tuple\n", "", "fp8"),
    ("kernels/linear/__init__.py", "_POSSIBLE_FP8_KERNELS", "_KERNELS_OF_FP8", "fp8"),
    ("kernels/linear/kernels.py", "def _transform_param(self, layer, name, fn)", "def _transform_param(self, layer, fn, name)", "mp"),
    ("kernels/linear/kernels.py", "    group_size: int\n", "", "mp"),
    ("parameter.py", "def permute_param_layout_", "def permute_layout_", "mp"),
    ("layers/linear.py", "def apply(self, layer, x, bias=None)", "def apply(self, layer, x)", "quantization"),
    ("layers/quantization/base_config.py", "def from_config(cls, config)", "def from_config(cls, config, prefix)", "quantization"),
    ("utils.py", "def set_weight_attrs", "def weight_attrs_of", "quantization"),
])
def test_a_difference_stops_its_part_with_a_warning_and_no_other(vllm, caplog, path, old, new, part):
    vllm.change(f"vllm/model_executor/{path}", old, new)
    with caplog.at_level(logging.WARNING):
        plugin.register()
    assert len(caplog.records) == 1 and f"{part} is not registered" in caplog.text and "0.20.2" in caplog.text
    registered = {"fp8": "SluiceFP8" in str(getattr(vllm.linear, "_POSSIBLE_FP8_KERNELS", "")), "quantization": bool(vllm.methods),
                  "mp": "SluiceMP" in str(vllm.linear._POSSIBLE_KERNELS)}
    assert registered == {name: name != part for name in registered}


def test_whatever_vllm_raises_is_a_warning(vllm, caplog):
    path = "vllm/model_executor/kernels/linear/__init__.py"
    vllm.write(path, STUBS[path].partition("    {")[0] + "    raise ValueError('no such kind')\n")
    with caplog.at_level(logging.WARNING):
        plugin.register()
    assert len(caplog.records) == 2 and "no such kind" in caplog.text and vllm.methods


def test_without_vllm_it_warns_and_returns(monkeypatch, caplog):
    forget()
    monkeypatch.setitem(sys.modules, "vllm", None)
    with caplog.at_level(logging.WARNING):
        plugin.register()
    assert len(caplog.records) == 3


def test_the_stubs_are_as_the_tool_reads_them(source_root, monkeypatch):
    """The plugin checks the contract at run time, the tool in source. Both accept the stubs, and both find a change."""
    monkeypatch.syspath_prepend(str(source_root / "tools"))
    tool = importlib.import_module("vllm_contract")
    contract = tool.contract_of(pathlib.Path(plugin.__file__).read_text(encoding="utf-8"))
    assert contract == plugin.CONTRACT and tool.self_test() == 0
    assert tool.check(tool.Source(STUBS), contract) == {part: [] for part in contract}
    changed = {path: text.replace("def apply(self, layer, x, bias=None)", "def apply(self, layer, x)") for path, text in STUBS.items()}
    assert [part for part, faults in tool.check(tool.Source(changed), contract).items() if faults] == ["quantization"]


# ---- FP8
def test_fp8_takes_hopper_and_its_kinds_of_scales(vllm):
    plugin.register()
    kernel = vllm.kernels()[-1]
    assert kernel.is_supported(90) == (True, None) and kernel.is_supported()[0] and not kernel.is_supported(100)[0]
    vllm.platforms.Platform.hopper = False
    assert "9.0" in kernel.is_supported()[1]
    for a, b in (("token", "channel"), ("tensor", "tensor"), ("token", "tensor"), ("tensor", "channel")):
        assert kernel.can_implement(fp8_config(vllm, a, b)) == (True, None)
    assert "per token" in kernel.can_implement(fp8_config(vllm, "token", "block"))[1]
    assert "multiple of 16" in kernel.can_implement(fp8_config(vllm, k=250))[1]
    assert "E5M2" in kernel.can_implement(fp8_config(vllm, out=torch.float8_e5m2))[1].upper()
    config = fp8_config(vllm)
    object.__setattr__(config.weight_quant_key, "dtype", torch.int8)
    assert "weights of e4m3" in kernel.can_implement(config)[1]


@pytest.mark.parametrize("a, b, static", [("token", "channel", False), ("tensor", "tensor", True), ("token", "tensor", False),
                                          ("tensor", "channel", False)])
def test_fp8_computes_the_layer(vllm, references, monkeypatch, a, b, static):
    plugin.register()
    monkeypatch.setenv("SLUICE_VLLM_FAST_ACCUM", "1" if static else "0")
    weight, bias, x = torch.randn(64, 256), torch.randn(64, dtype=BF16), torch.randn(2, 5, 256, dtype=BF16)
    q, scale = quantize_reference(weight, "row" if b == "channel" else "tensor")
    layer = torch.nn.Module()
    layer.weight, layer.weight_scale = torch.nn.Parameter(q.t(), requires_grad=False), torch.nn.Parameter(scale, requires_grad=False)
    layer.input_scale = torch.tensor(0.01) if static else None
    kernel = vllm.kernels()[-1](fp8_config(vllm, a, b), NAMES)
    kernel.process_weights_after_loading(layer)
    y = kernel.apply_weights(layer, x, bias)
    expected = x.float() @ weight.t() + bias
    assert y.shape == (2, 5, 64) and y.dtype is BF16 and float((y - expected).norm() / expected.norm()) < 0.06
    assert references[-1][3] is static


def test_kernels_are_made_ready_for_rows_when_weights_are_on_a_gpu(monkeypatch):
    seen = []
    monkeypatch.setattr(importlib.import_module("sluice.plans"), "prepare", lambda *all, **named: seen.append((all, named)))
    plugin._ready("problem", torch.device("cuda", 1))
    plugin._ready("problem", torch.device("cpu"))
    monkeypatch.setenv("SLUICE_VLLM_ROWS", "64")
    plugin._ready("problem", torch.device("cuda", 0))
    monkeypatch.setenv("SLUICE_VLLM_ROWS", "0")
    plugin._ready("problem", torch.device("cuda", 0))
    assert seen == [(("problem",), {"m": (1, 512), "device": 1}), (("problem",), {"m": (1, 64), "device": 0})]


# ---- int4
def mp_config(vllm, n=64, k=256, group=128, act=BF16, kind="uint4b8", zeros=False, g_idx=False):
    return vllm.linear.MPLinearLayerConfig((k, n), (k, n), kind, act, group, zeros, g_idx)


def test_int4_takes_symmetric_groups(vllm):
    plugin.register()
    kernel = vllm.kernels("_POSSIBLE_KERNELS")[-1]
    assert kernel.get_min_capability() == 90
    for group in (32, 64, 128, -1):
        for act in (BF16, FP16):
            assert kernel.can_implement(mp_config(vllm, group=group, act=act)) == (True, None)
    for named, words in ((dict(kind="uint8b128"), "uint4b8"), (dict(zeros=True), "zero points"), (dict(g_idx=True), "g_idx"),
                         (dict(group=256), "groups of"), (dict(act=torch.float32), "bf16 and fp16"),
                         (dict(k=200, group=128), "whole groups")):
        can, reason = kernel.can_implement(mp_config(vllm, **named))
        assert not can and words in reason, reason
    vllm.platforms.Platform.hopper = False
    assert "9.0" in kernel.can_implement(mp_config(vllm))[1]


@pytest.mark.parametrize("group, act, turned", [(128, BF16, False), (32, FP16, True), (-1, BF16, True)])
def test_int4_computes_the_layer(vllm, references, group, act, turned):
    """``turned``: words and scales lie by rows of outputs, as compressed-tensors stores them; else as GPTQ does."""
    plugin.register()
    n, k = 64, 256
    parameter = importlib.import_module("vllm.model_executor.parameter").ModelWeightParameter
    codes = torch.randint(0, 16, (n, k))
    words = (codes.view(n, k // 8, 8) << torch.arange(0, 32, 4)).sum(-1).to(torch.int64)
    words = torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)
    scales = (torch.rand(n, k // (k if group == -1 else group)) + 0.5).to(act)
    layer = torch.nn.Module()
    for name, value in (("qweight", words), ("scales", scales)):
        data = value if turned else value.t().contiguous()
        setattr(layer, name, parameter(data=data, input_dim=int(turned), output_dim=int(not turned), weight_loader=None))
    kernel = vllm.kernels("_POSSIBLE_KERNELS")[-1](mp_config(vllm, n, k, group, act), "qweight", "scales")
    kernel.process_weights_after_loading(layer)
    assert layer.qweight.dtype is torch.uint8 and layer.scales.numel() == 0
    x, bias = torch.randn(2, 3, k).to(act), torch.randn(n).to(act)
    expected = x.float() @ ((codes - 8) * scales.float().repeat_interleave(k if group == -1 else group, 1)).t() + bias
    y = kernel.apply_weights(layer, x, bias)
    assert y.shape == (2, 3, n) and y.dtype is act and torch.allclose(y.float(), expected, rtol=0.02, atol=0.5)


# ---- quantisation
@pytest.mark.parametrize("recipe", plugin.RECIPES)
def test_a_linear_is_quantised_when_it_is_loaded(vllm, references, recipe):
    plugin.register()
    base = importlib.import_module("vllm.model_executor.layers.linear")
    config = vllm.methods["sluice"].from_config({"quant_method": "sluice", "recipe": recipe, "ignore": ["lm_head"]})
    layer = base.LinearBase()
    method = config.get_quant_method(layer, "model.layers.0.mlp.down_proj")
    method.create_weights(layer, 256, [32, 32], 256, 64, BF16, weight_loader="loads", prefix="p")
    assert layer.weight.shape == (64, 256) and (layer.weight.input_dim, layer.weight.output_dim) == (1, 0)
    assert layer.weight.weight_loader == "loads" and layer.weight.attrs == {"prefix": "p"}
    values = torch.randn(64, 256, dtype=BF16)
    layer.weight.data.copy_(values)
    method.process_weights_after_loading(layer)
    method.process_weights_after_loading(layer)
    x, bias = torch.randn(3, 256, dtype=BF16), torch.randn(64, dtype=BF16)
    expected = x.float() @ values.float().t() + bias
    y = method.apply(layer, x, bias)
    assert layer.weight.numel() == 0 and float((y - expected).norm() / expected.norm()) < (0.2 if recipe == "int4" else 0.06)
    assert references[-1][0] == ("packed_mm" if recipe == "int4" else "scaled_mm")


def test_what_no_kernel_takes_stays_in_16_bits(vllm, caplog):
    plugin.register()
    base = importlib.import_module("vllm.model_executor.layers.linear")
    layer, method = base.LinearBase(), vllm.methods["sluice"]().get_quant_method(base.LinearBase(), "x")
    method.create_weights(layer, 250, [64], 250, 64, BF16, weight_loader=None)
    layer.weight.data.normal_()
    with caplog.at_level(logging.WARNING):
        method.process_weights_after_loading(layer)
    x = torch.randn(3, 250, dtype=BF16)
    assert "64 x 250 stays in 16 bits" in caplog.text and torch.equal(method.apply(layer, x), torch.nn.functional.linear(x, layer.weight))


def test_which_layers_are_quantised(vllm, monkeypatch):
    plugin.register()
    base, made = importlib.import_module("vllm.model_executor.layers.linear"), vllm.methods["sluice"]
    config = made.from_config({"recipe": "row", "ignore": ["lm_head"]})
    assert config.get_quant_method(torch.nn.Module(), "x") is None
    assert isinstance(config.get_quant_method(base.LinearBase(), "model.lm_head"), base.UnquantizedLinearMethod)
    assert made().recipe == "row" and made.get_min_capability() == 90 and made.get_config_filenames() == []
    monkeypatch.setenv("SLUICE_VLLM_RECIPE", "int4")
    assert made().recipe == "int4" and made.from_config({"recipe": "tensor"}).recipe == "tensor"
    with pytest.raises(sluice.InvalidArgument, match="recipe = 'rows'"):
        made("rows")
    with pytest.raises(sluice.InvalidArgument, match="original checkpoint"):
        made.from_config({"recipe": "row", "kept": []})
