# SPDX-License-Identifier: Apache-2.0
"""How the products of a compiled layer compute: in bf16, FP8 by torch or torchao, int4 by tinygemm, or by sluice's layers.

A ``Recipe`` holds no weights: they are tuples of tensors or layers, so that all layers of a model share compiled code.
"""
from __future__ import annotations

import functools
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from attend import E4M3, LARGEST
from models import BF16

GROUP = 128  # weights that share a scale, in int4
MARGIN = 1.25  # a calibrated scale has room for inputs this much larger


def row_quantized(x: Tensor) -> tuple[Tensor, Tensor]:
    largest = x.abs().amax(-1, keepdim=True).float().clamp(1e-4)
    return (x.float() * (LARGEST / largest)).clamp(-LARGEST, LARGEST).to(E4M3), largest / LARGEST


class Recipe:
    """bf16. ``kind`` names what ``pack`` makes, ``accuracy`` the bound of logits (agree.py)."""

    kind, accuracy = "bf16", "bf16"

    def pack(self, weight: Tensor, largest: float, product: str) -> tuple:
        """``largest``: the magnitude of the product's input, as calibrated."""
        return (weight,)

    def quantized(self, x: Tensor, packed: tuple) -> tuple:
        return (x,)

    def product(self, quantized: tuple, packed: tuple) -> Tensor:
        return F.linear(quantized[0], packed[0])

    def attention_scale(self, packed_o: tuple) -> Optional[Tensor]:
        """The scale with which attention writes e4m3 for ``o``; None: it writes bf16."""
        return None

    def __call__(self, x: Tensor, packed: tuple) -> Tensor:
        return self.product(self.quantized(x, packed), packed)


class Fp8Row(Recipe):
    """torch._scaled_mm, a scale for each row of weights and each token."""

    kind, accuracy = "row", "row"

    def pack(self, weight, largest, product):
        return row_quantized(weight)

    def quantized(self, x, packed):
        return row_quantized(x)

    def product(self, quantized, packed):
        return scaled_product(quantized[0], packed[0].t(), quantized[1], packed[1].t())


class Fp8Static(Recipe):
    """torch._scaled_mm, one scale for a weight and one given scale for its input; attention writes e4m3 itself."""

    kind, accuracy = "tensor", "tensor"

    def pack(self, weight, largest, product):
        amax = weight.abs().amax().float().clamp(1e-4)
        scale = torch.tensor(max(largest, 1e-4) * MARGIN / LARGEST, device=weight.device)
        return (weight.float() * (LARGEST / amax)).clamp(-LARGEST, LARGEST).to(E4M3), amax / LARGEST, scale, 1.0 / scale

    def quantized(self, x, packed):
        return ((x.float() * packed[3]).clamp(-LARGEST, LARGEST).to(E4M3),)

    def product(self, quantized, packed):
        return scaled_product(quantized[0], packed[0].t(), packed[2], packed[1])

    def attention_scale(self, packed_o):
        return packed_o[2]


def scaled_product(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> Tensor:
    """torch's product; by definition on a CPU, where torch has no row scales."""
    if a.device.type == "cpu":
        return ((a.float() @ b.float()) * scale_a * scale_b).to(BF16)
    return torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=BF16, use_fast_accum=True)


class Tinygemm(Recipe):
    """torch's int4 product, groups of GROUP, rounded to the nearest code."""

    kind, accuracy = "tinygemm", "int4"

    def pack(self, weight, largest, product):
        rows, columns = weight.shape
        groups = weight.float().view(rows, columns // GROUP, GROUP)
        scale = (groups.abs().amax(-1, keepdim=True) / 7.0).clamp(1e-6)
        codes = (groups / scale).round().add(8).clamp(0, 15).view(rows, columns).to(torch.int32)
        scales = scale[..., 0].to(BF16)
        scales_and_zeros = torch.stack((scales, torch.zeros_like(scales)), -1).transpose(0, 1).contiguous()
        if not weight.is_cuda:
            return torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1), scales_and_zeros
        return torch.ops.aten._convert_weight_to_int4pack((codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8), 8), scales_and_zeros

    def product(self, quantized, packed):
        x = quantized[0]
        multiply = torch.ops.aten._weight_int4pack_mm if x.is_cuda else torch.ops.aten._weight_int4pack_mm_for_cpu
        return multiply(x, packed[0], GROUP, packed[1])


def linear_of(weight: Tensor) -> torch.nn.Sequential:
    """A model of one linear layer with this weight."""
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    return torch.nn.Sequential(layer)


class TorchAo(Recipe):
    """torchao's Float8DynamicActivationFloat8WeightConfig, a scale for each row: its tensors in torch's linear."""

    kind, accuracy = "torchao", "row"

    def pack(self, weight, largest, product):
        from torchao.quantization import Float8DynamicActivationFloat8WeightConfig, PerRow, quantize_
        model = linear_of(weight)
        # Without its settings of Inductor, which would change the arms compiled later.
        quantize_(model, Float8DynamicActivationFloat8WeightConfig(granularity=PerRow(), set_inductor_config=False))
        return (model[0].weight,)


class Converted(Recipe):
    """The layer that ``st.nn.convert_`` makes of a linear layer."""

    def __init__(self, recipe: str):
        self.kind, self.accuracy, self.recipe = f"convert_{recipe}", recipe, recipe

    def pack(self, weight, largest, product):
        import sluice.torch as st
        more: dict[str, Any] = {"use_fast_accum": True, "fuse_quantizer": True} if self.recipe == "row" else {}
        return (st.nn.convert_(linear_of(weight), recipe=self.recipe, report=lambda _: None, **more)[0],)

    def product(self, quantized, packed):
        return packed[0](quantized[0])


@functools.lru_cache(maxsize=None)
def recipe(name: str) -> Recipe:
    """The recipe of this name; one object each, so that compiled code is found again."""
    made = {"bf16": Recipe, "row": Fp8Row, "tensor": Fp8Static, "tinygemm": Tinygemm, "torchao": TorchAo}
    return made[name]() if name in made else Converted(name.removeprefix("convert_"))
