# SPDX-License-Identifier: Apache-2.0
"""Runs one prompt through the layers, on the tensors that the chain reads, and writes the caches. A prompt runs by itself, padded behind
its end, so its bits depend on no other sequence. Also the calibration of static scales, which computes in the model's 16 bits."""
from __future__ import annotations

from typing import Any, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .now import rows_for
from .recipes import Layer, NoBuffers, Recipe, Stream
from .reference import Heads, attend_prompt, choose_reference, split
from .weights import E4M3_MAX, LEAST

# Static scales leave room for what prompts did not show. In a floating type that costs no precision, but for the smallest values.
CALIBRATION_MARGIN = 2.0


def prompt_stream(model: Any, tokens: Tensor, padded: bool = True) -> Tensor:
    """Returns the embeddings of a prompt on the model's device, padded to the rows that products run with."""
    rows = rows_for(tokens.numel()) if padded else tokens.numel()
    ids = torch.zeros(rows, dtype=torch.int64)
    ids[:tokens.numel()] = tokens
    return model.embed(ids.to(model.embedding.device))


def run_prompt(model: Any, recipe: Recipe, ops: Any, tokens: Tensor, caches: List[tuple], slot: int) -> Tensor:
    """Writes the keys and values of ``tokens`` (int64, in host memory) into ``slot`` and returns the last one's logits, 1 x vocab."""
    count, buffers = tokens.numel(), NoBuffers()
    state = Stream(prompt_stream(model, tokens))
    rows = state.stream.shape[0]
    for i, w in enumerate(model.layers):
        heads, cos, sin = model.heads(i), *model.tables(i, rows)

        def attend(qkv: Tensor, out: None, out_scale: Optional[Tensor]) -> Tensor:
            q, k, v = split(qkv, heads, cos, sin, w.q_norm, w.k_norm)
            keys, values = caches[i]
            keys[slot, :, :count].copy_(k[:count].transpose(0, 1))
            values[slot, :, :count].copy_(v[:count].transpose(0, 1))
            made = attend_prompt(q, k, v, heads)
            return made if out_scale is None else ops.quantize_static(made, out_scale)

        def choose(logits: Tensor, ids: None, weights: None) -> Tuple[Tensor, Tensor]:
            e = model.shape.experts
            found, shares = choose_reference(logits, e.chosen, e.renormalised)
            found[count:] = -1  # rows that pad the prompt cost nothing
            return found, shares

        state = recipe.layer(ops, w, state, buffers, attend, choose)
    last = Stream(*(None if x is None else x[count - 1:count].contiguous() for x in state))
    return recipe.end(ops, model.final_norm, model.head, last, buffers)


def calibrate(model: Any, recipe: Recipe, prompts: List[Tensor]) -> Tensor:
    """Returns fp32 scales, layers x 4, of the inputs of qkv, o, gate_up and down: CALIBRATION_MARGIN times the largest magnitude of the
    prompts / 448. Layers run in 16 bits, with weights as their codes have them, one product's weights at a time."""
    most = torch.zeros(len(model.layers), 4, dtype=torch.float32, device=model.embedding.device)
    gate = {"silu": F.silu, "gelu": F.gelu, "relu": F.relu}[recipe.activation]
    streams = [prompt_stream(model, tokens, padded=False) for tokens in prompts]
    for i, w in enumerate(model.layers):
        weights = {name: getattr(w, name).matrix().to(recipe.dtype) for name in ("qkv", "o", "gate_up", "down")}
        streams = [_layer_in_16_bits(model, recipe, i, w, weights, x, most[i], gate) for x in streams]
        del weights
    return most.clamp(LEAST) * (CALIBRATION_MARGIN / E4M3_MAX)


def _layer_in_16_bits(model: Any, recipe: Recipe, i: int, w: Layer, weights: Any, x: Tensor, most: Tensor, gate: Any) -> Tensor:
    def norm(y: Tensor, gamma: Tensor) -> Tensor:
        y32 = y.float()
        return (y32 * torch.rsqrt(y32.square().mean(-1, keepdim=True) + recipe.epsilon) * gamma.float()).to(y.dtype)

    def product(name: str, place: int, y: Tensor) -> Tensor:
        most[place] = torch.maximum(most[place], y.abs().amax().float())
        return F.linear(y, weights[name], getattr(w, name).bias)

    heads: Heads = model.heads(i)
    q, k, v = split(product("qkv", 0, norm(x, w.norm1)), heads, *model.tables(i, x.shape[0]), w.q_norm, w.k_norm)
    x = x + product("o", 1, attend_prompt(q, k, v, heads))
    left, right = product("gate_up", 2, norm(x, w.norm2)).chunk(2, -1)
    return x + product("down", 3, gate(left) * right)
