# SPDX-License-Identifier: Apache-2.0
"""The attention of all own loops: head norms, rotation, cache and attention in one kernel, ``sluice.torch.attention.Attention``.

The same by its definition, in torch's operations: the reference of logits, and what runs on a CPU. For compiled layers it is
an op of torch.library. The op does not declare that it writes caches: they are read and written by it alone, in the order of
layers, and a compiler that knew might copy them.
"""
from __future__ import annotations

import os
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from models import BF16, EPSILON, Model, State, rms_norm

E4M3 = torch.float8_e4m3fn
LARGEST = 448.0


def defined(model: Model, state: State, qkv: Tensor, k_cache: Tensor, v_cache: Tensor, q_norm: Optional[Tensor],
            k_norm: Optional[Tensor], out_scale: Optional[Tensor]) -> Tensor:
    """Attention of one new token of each sequence, by its definition. Writes the token's key and value at the sequence's length,
    and returns batch x (heads * dim): bf16, or e4m3 of the values divided by ``out_scale``."""
    sizes, batch = model.sizes, qkv.shape[0]
    q, k, v = (part.view(batch, -1, sizes.dim) for part in qkv.split(sizes.parts_of_qkv, -1))
    if q_norm is not None:
        q, k = rms_norm(q.float(), q_norm), rms_norm(k.float(), k_norm)  # rounded once, after the rotation, as in the kernel
    at = state.lengths.long()
    cos, sin = (table[at][:, None] for table in model.rotary)

    def turned(x: Tensor) -> Tensor:
        low, high = x.float().chunk(2, -1)
        return torch.cat((low * cos - high * sin, high * cos + low * sin), -1).to(qkv.dtype)
    rows = state.slots.long()
    k_cache[rows, :, at] = turned(k)
    v_cache[rows, :, at] = v
    seen = (torch.arange(k_cache.shape[2], device=qkv.device) <= at[:, None])[:, None, None]
    out = F.scaled_dot_product_attention(turned(q)[:, :, None], k_cache[rows], v_cache[rows], attn_mask=seen, enable_gqa=True)
    out = out.reshape(batch, -1)
    return out if out_scale is None else (out.float() / out_scale).clamp(-LARGEST, LARGEST).to(E4M3)


class Attention:
    """Attention of one batch: the kernel on a GPU and in Triton's interpreter, the definition elsewhere. ``dependent``: it is launched
    dependent, waits, and lets go early, as a gap of a chain promises."""

    def __init__(self, model: Model, state: State, dependent: bool):
        sizes, self.model, self.state = model.sizes, model, state
        self.kernel: Any = None
        if model.device != "cpu" or os.environ.get("TRITON_INTERPRET") == "1":
            from sluice.torch.attention import Attention as Kernel
            self.kernel = Kernel(heads=sizes.heads, kv_heads=sizes.kv, head_dim=sizes.dim, rotary=model.rotary, rows=state.batch,
                                 max_length=model.length, epsilon=EPSILON, dtype=BF16, device=torch.device(model.device),
                                 dependent=dependent)

    def __call__(self, qkv: Tensor, k_cache: Tensor, v_cache: Tensor, out: Tensor, q_norm: Optional[Tensor], k_norm: Optional[Tensor],
                 out_scale: Optional[Tensor]) -> None:
        """Writes the result into ``out``, bf16 or, with ``out_scale``, e4m3."""
        if self.kernel is None:
            out.copy_(defined(self.model, self.state, qkv, k_cache, v_cache, q_norm, k_norm, out_scale))
        else:
            self.kernel(qkv, k_cache, v_cache, self.state.slots, self.state.lengths, out, q_norm=q_norm, k_norm=k_norm, out_scale=out_scale)

    def writes(self, layer: int, out: Tensor) -> tuple[Tensor, ...]:
        """The tensors that a call in a layer writes."""
        caches = self.state.caches[layer]
        return (*caches, out) if self.kernel is None else self.kernel.writes(*caches, out)

    def launches(self) -> dict[str, int]:
        """The launches of a call, as ``Steps.gap`` takes them."""
        return {} if self.kernel is None else {"nodes": self.kernel.nodes, "programmatic_edges": self.kernel.programmatic_edges}

    def new_out(self, static: bool) -> Tensor:
        """An output: e4m3 if the scale is ``static``, else bf16."""
        sizes = self.model.sizes
        return torch.empty(self.state.batch, sizes.heads * sizes.dim, device=self.model.device, dtype=E4M3 if static else BF16)


CALLS: list[Attention] = []  # the op's arguments are tensors and numbers: a number stands for its place here


def numbered(attention: Attention) -> int:
    CALLS.append(attention)
    return len(CALLS) - 1


@torch.library.custom_op("sluice_decode_arms::attend", mutates_args=())
def attend(qkv: Tensor, k_cache: Tensor, v_cache: Tensor, q_norm: Optional[Tensor], k_norm: Optional[Tensor],
           out_scale: Optional[Tensor], number: int) -> Tensor:
    """Attention ``CALLS[number]`` for compiled layers."""
    out = CALLS[number].new_out(out_scale is not None)
    CALLS[number](qkv, k_cache, v_cache, out, q_norm, k_norm, out_scale)
    return out


@attend.register_fake
def _(qkv, k_cache, v_cache, q_norm, k_norm, out_scale, number):  # type: ignore[no-untyped-def]
    return CALLS[number].new_out(out_scale is not None)
