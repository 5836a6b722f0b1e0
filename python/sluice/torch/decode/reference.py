# SPDX-License-Identifier: Apache-2.0
"""Attention and the choice of experts in torch operations: those of prompts, and classes with the arguments of
sluice.torch.attention.Attention and router.Router, for tests and for reading what the kernels promise. Sums are fp32; attention rounds
where its kernel does: after the head norms and rotation, and at the end."""
from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .weights import E4M3_MAX


class Heads(NamedTuple):
    """How many heads a row of qkv has, and what is done to them."""

    heads: int
    kv_heads: int
    head_dim: int
    epsilon: float
    softmax_scale: float
    window: Optional[int]


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Returns heads, rows x heads x columns in fp32, with their first columns rotated; cos and sin: rows x pairs."""
    pairs = cos.shape[-1]
    low, high, rest = x[..., :pairs], x[..., pairs:2 * pairs], x[..., 2 * pairs:]
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((low * cos - high * sin, high * cos + low * sin, rest), -1)


def split(qkv: Tensor, h: Heads, cos: Tensor, sin: Tensor, q_norm: Optional[Tensor], k_norm: Optional[Tensor]) -> Tuple[Tensor, ...]:
    """Returns q, k and v, rows x heads x columns in qkv's type, with head norms and rotation applied to q and k."""
    rows = qkv.shape[0]
    q, k, v = qkv.view(rows, -1, h.head_dim).split([h.heads, h.kv_heads, h.kv_heads], 1)

    def made(x: Tensor, gamma: Optional[Tensor]) -> Tensor:
        x = x.float()
        if gamma is not None:
            x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + h.epsilon) * gamma.float()
        return turned(x, cos, sin).to(qkv.dtype)

    return made(q, q_norm), made(k, k_norm), v


def attend_prompt(q: Tensor, k: Tensor, v: Tensor, h: Heads) -> Tensor:
    """Returns causal attention of one sequence, rows x (heads * columns); q, k, v as ``split`` gives them."""
    rows = q.shape[0]
    mask = None
    if h.window is not None and h.window < rows:
        behind = torch.arange(rows, device=q.device)[:, None] - torch.arange(rows, device=q.device)[None]
        mask = (behind >= 0) & (behind < h.window)
    out = F.scaled_dot_product_attention(q.transpose(0, 1)[None], k.transpose(0, 1)[None], v.transpose(0, 1)[None], attn_mask=mask,
                                         is_causal=mask is None, scale=h.softmax_scale, enable_gqa=h.heads != h.kv_heads)
    return out[0].transpose(0, 1).reshape(rows, -1)


class ReferenceAttention:
    """One token per row, by torch. It neither waits nor triggers, and runs rows one after another, with the host's help."""

    nodes, waits, triggers = 1, False, False

    def __init__(self, *, heads: int, kv_heads: int, head_dim: int, rotary: Optional[Tuple[Tensor, Tensor]], rows: int, max_length: int,
                 epsilon: float, softmax_scale: Optional[float] = None, window: Optional[int] = None,
                 dtype: torch.dtype = torch.bfloat16, device: Any = None, splits: Optional[int] = None, dependent: bool = True) -> None:
        self._heads = Heads(heads, kv_heads, head_dim, epsilon, head_dim ** -0.5 if softmax_scale is None else softmax_scale, window)
        self._cos, self._sin = rotary or [torch.zeros(max_length, 0, device=device)] * 2

    def __call__(self, qkv: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Optional[Tensor], lengths: Tensor, out: Tensor, *,
                 q_norm: Optional[Tensor] = None, k_norm: Optional[Tensor] = None, out_scale: Optional[Tensor] = None) -> Tensor:
        h = self._heads
        for row, length in enumerate(lengths.tolist()):
            if length < 0:
                out[row] = 0
                continue
            slot = row if slots is None else int(slots[row])
            at = slice(length, length + 1)
            q, k, v = split(qkv[row:row + 1], h, self._cos[at], self._sin[at], q_norm, k_norm)
            k_cache[slot, :, length], v_cache[slot, :, length] = k[0], v[0]
            first = 0 if h.window is None else max(0, length + 1 - h.window)
            keys, values = k_cache[slot, :, first:length + 1].float(), v_cache[slot, :, first:length + 1].float()
            group = h.heads // h.kv_heads
            scores = torch.einsum("hgd,htd->hgt", q[0].float().view(h.kv_heads, group, -1), keys) * h.softmax_scale
            result = torch.einsum("hgt,htd->hgd", scores.softmax(-1), values).reshape(-1)
            if out_scale is not None:
                result = (result * (1.0 / out_scale)).clamp(-E4M3_MAX, E4M3_MAX)
            out[row] = result.to(out.dtype)
        return out


def choose_reference(logits: Tensor, chosen: int, renormalised: bool) -> Tuple[Tensor, Tensor]:
    """Returns the experts of each row, int32, and their weights, fp32: the ``chosen`` largest values of the softmax."""
    weights, ids = torch.softmax(logits.float(), -1).topk(chosen, -1)
    return ids.int(), weights / weights.sum(-1, keepdim=True) if renormalised else weights


class ReferenceRouter:
    """The experts of a bucket's rows, by torch, with the arguments of router.Router."""

    nodes, waits, triggers = 1, False, False

    def __init__(self, rows: int, experts: int, chosen: int, renormalised: bool) -> None:
        self._chosen, self._renormalised = chosen, renormalised

    def __call__(self, logits: Tensor, lengths: Optional[Tensor], ids: Tensor, weights: Tensor) -> None:
        found, shares = choose_reference(logits, self._chosen, self._renormalised)
        if lengths is not None:
            found = found.masked_fill((lengths < 0).unsqueeze(-1), -1)
        ids.copy_(found)
        weights.copy_(shares)
