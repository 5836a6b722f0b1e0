# SPDX-License-Identifier: Apache-2.0
"""The weights of one product, quantised part by part where the products run, and the product itself as a step. Each kind has the same
``product`` for steps that are recorded (st.Steps) and for calls that run now (now.py)."""
from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Tuple, Union

import torch
from torch import Tensor

from ...errors import InvalidArgument
from ...formats import WeightFormat
from ...packed import PackedWeights
from ...packed_experts import PackedExperts, stack_packed

E4M3_MAX = 448.0
LEAST = 1e-4  # the smallest largest magnitude that a scale is made for, as in the quantisers


@dataclasses.dataclass
class Operand:
    """A weight n x k with its bias, or one for each expert: experts x n x k. ``gated``: rows of the gate, then rows of ``up``. Products of
    experts take ``offs``, the ends of the groups, or ``ids``, the experts of slots."""

    bias: Optional[Tensor]
    gated: bool

    def tensors(self) -> Dict[str, Tensor]:
        raise NotImplementedError

    def sizes(self) -> List[Tuple[int, ...]]:
        """Returns n and k of each product that a prompt runs; none of experts."""
        weight = getattr(self, "weight")
        return [tuple(weight.shape)] if weight.dim() == 2 else []

    def facts(self) -> Dict[str, Any]:
        """Returns what a file holds besides the tensors."""
        return {"kind": self.KIND, "gated": self.gated}

    @property
    def nbytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors().values())

    def _with_bias(self, **own: Tensor) -> Dict[str, Tensor]:
        return own if self.bias is None else {**own, "bias": self.bias}


@dataclasses.dataclass
class Dense(Operand):
    """16 bits."""

    weight: Tensor
    KIND = "dense"

    def tensors(self) -> Dict[str, Tensor]:
        return self._with_bias(weight=self.weight)

    def product(self, ops: Any, x: Tensor, **more: Any) -> Tensor:
        if "ids" in more:
            return ops.slots_mm(x, self.weight.transpose(-2, -1), bias=self.bias, **more)
        if self.weight.dim() == 3:
            return ops.grouped_mm(x, self.weight.transpose(-2, -1), bias=self.bias, **more)
        return ops.linear(x, self.weight, self.bias, **more)

    def matrix(self) -> Tensor:
        return self.weight


@dataclasses.dataclass
class Scaled(Operand):
    """e4m3 with fp32 scales: one per row (n x 1, or experts x n x 1), or one for all (no dimension)."""

    weight: Tensor
    scale: Tensor
    fast: bool = False
    KIND = "scaled"

    def tensors(self) -> Dict[str, Tensor]:
        return self._with_bias(weight=self.weight, scale=self.scale)

    def product(self, ops: Any, x: Tensor, scale_x: Tensor, out_dtype: torch.dtype, **more: Any) -> Tensor:
        if "ids" in more:
            return ops.slots_mm(x, self.weight.transpose(-2, -1), scale_a=scale_x, scale_b=self.scale.squeeze(-1), bias=self.bias,
                                out_dtype=out_dtype, use_fast_accum=self.fast, **more)
        if self.weight.dim() == 3:
            return ops.scaled_grouped_mm(x, self.weight.transpose(-2, -1), scale_x, self.scale.squeeze(-1), bias=self.bias,
                                         out_dtype=out_dtype, use_fast_accum=self.fast, **more)
        scale = self.scale.t() if self.scale.dim() == 2 else self.scale
        return ops.scaled_mm(x, self.weight.t(), scale_x, scale, self.bias, out_dtype=out_dtype, use_fast_accum=self.fast, **more)

    def matrix(self) -> Tensor:
        """Returns the weight in fp32, as its codes have it."""
        return self.weight.float() * self.scale


@dataclasses.dataclass
class Packed(Operand):
    """4 bits in groups (docs/packed.md)."""

    packed: Union[PackedWeights, PackedExperts]
    KIND = "packed"

    def sizes(self) -> List[Tuple[int, ...]]:
        if isinstance(self.packed, PackedExperts):
            return []
        n, k = self.packed.n, self.packed.k
        return [(n, k), (n // 2, k)] if self.gated else [(n, k)]  # the halves: now.py

    def tensors(self) -> Dict[str, Tensor]:
        return self._with_bias(blob=self.packed.blob)

    def facts(self) -> Dict[str, Any]:
        kind = self.packed.format
        return {**super().facts(), "n": self.packed.n, "k": self.packed.k, "type": kind.type, "group": kind.group, "scale": kind.scale,
                "zeros": kind.zeros, "order": kind.order}

    def product(self, ops: Any, x: Tensor, **more: Any) -> Tensor:
        if "ids" in more:
            return ops.slots_mm(x, self.packed, bias=self.bias, **more)
        if isinstance(self.packed, PackedExperts):
            return ops.packed_grouped_mm(x, self.packed, more.pop("offs"), self.bias, **more)
        return ops.packed_mm(x, self.packed, self.bias, **more)


def operand_of(kind: Optional[str], parts: List[Tensor], bias: Optional[List[Tensor]], *, dtype: torch.dtype, gated: bool, group: int,
               fast: bool, quantize: Any, experts: int = 0) -> Operand:
    """Returns the operand of a recipe's ``kind`` ("row", "tensor", "int4" or None) from the rows of its parts, which lie where it will.
    ``quantize(input, granularity)`` is the quantiser there. ``experts``: the rows are those of so many, one behind the other."""
    if experts == 0:
        return _operand_of_rows(kind, parts, bias, dtype, gated, group, fast, quantize)
    if kind == "int4":
        from ...packed import pack_int4

        each = torch.cat(parts).unflatten(0, (experts, -1))
        return Packed(None, gated, stack_packed([pack_int4(own.to(dtype), group, gated=gated) for own in each]))
    made = _operand_of_rows(kind, parts, None, dtype, gated, group, fast, quantize)
    assert isinstance(made, (Dense, Scaled))
    made.weight = made.weight.unflatten(0, (experts, -1))
    if isinstance(made, Scaled):
        made.scale = made.scale.unflatten(0, (experts, -1))
    return made


def _operand_of_rows(kind: Optional[str], parts: List[Tensor], bias: Optional[List[Tensor]], dtype: torch.dtype, gated: bool, group: int,
                     fast: bool, quantize: Any) -> Operand:
    own = None if bias is None else torch.cat([part.to(dtype) for part in bias])
    if kind is None:
        return Dense(own, gated, torch.cat([part.to(dtype) for part in parts]) if len(parts) > 1 else parts[0].to(dtype).contiguous())
    if kind == "int4":
        from ...packed import pack_int4

        whole = torch.cat([part.to(dtype) for part in parts]) if len(parts) > 1 else parts[0].to(dtype).contiguous()
        return Packed(own, gated, pack_int4(whole, group, gated=gated))
    rows, columns = sum(part.shape[0] for part in parts), parts[0].shape[1]
    codes = torch.empty(rows, columns, dtype=torch.float8_e4m3fn, device=parts[0].device)
    if kind == "row":
        scales, at = torch.empty(rows, 1, dtype=torch.float32, device=codes.device), 0
        for part in parts:
            end = at + part.shape[0]
            values = part if part.dtype in (torch.bfloat16, torch.float16, torch.float32) else part.float()
            codes[at:end], scales[at:end] = quantize(values.contiguous(), "row")
            at = end
        return Scaled(own, gated, codes, scales, fast)
    amax = torch.stack([part.abs().amax().float() for part in parts]).amax().clamp(LEAST)
    at = 0
    for part in parts:
        codes[at:at + part.shape[0]] = (part.float() * (E4M3_MAX / amax)).clamp(-E4M3_MAX, E4M3_MAX).to(codes.dtype)
        at += part.shape[0]
    return Scaled(own, gated, codes, amax / E4M3_MAX, fast)


def operand_from(tensors: Dict[str, Tensor], facts: Dict[str, Any], fast: bool) -> Operand:
    """Returns the operand that ``tensors()`` and ``facts()`` were taken from. Raises ``InvalidArgument`` for another kind."""
    bias, gated = tensors.get("bias"), bool(facts["gated"])
    if facts["kind"] == Dense.KIND:
        return Dense(bias, gated, tensors["weight"])
    if facts["kind"] == Scaled.KIND:
        return Scaled(bias, gated, tensors["weight"], tensors["scale"], fast)
    if facts["kind"] == Packed.KIND:
        made = WeightFormat(facts["type"], facts["group"], facts["scale"], facts["zeros"], facts["order"])
        kind = PackedExperts if tensors["blob"].dim() == 2 else PackedWeights
        return Packed(bias, gated, kind(tensors["blob"], facts["n"], facts["k"], made, gated=gated))
    raise InvalidArgument(f"the folder holds weights of kind {facts['kind']!r}, which this version of sluice does not know: quantise the "
                          "model again")
