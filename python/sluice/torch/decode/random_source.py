# SPDX-License-Identifier: Apache-2.0
"""Random weights of a config, made one tensor at a time where they are used: for benches, and to try a size without its checkpoint."""
from __future__ import annotations

import math
import zlib
from typing import Any, Dict, List, Mapping

import torch
from torch import Tensor

from .architecture import Architecture, architecture_of
from .source import Source

# Configs of known models, as their config.json has them.
CONFIGS: Dict[str, Dict[str, Any]] = {
    "llama3-8b": dict(model_type="llama", hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                      num_key_value_heads=8, head_dim=128, vocab_size=128256, max_position_embeddings=8192, rms_norm_eps=1e-5,
                      rope_parameters={"rope_type": "default", "rope_theta": 500000.0}, tie_word_embeddings=False),
    "qwen3-8b": dict(model_type="qwen3", hidden_size=4096, intermediate_size=12288, num_hidden_layers=36, num_attention_heads=32,
                     num_key_value_heads=8, head_dim=128, vocab_size=151936, max_position_embeddings=40960, rms_norm_eps=1e-6,
                     rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}, tie_word_embeddings=False),
    "qwen3-30b-a3b": dict(model_type="qwen3_moe", hidden_size=2048, intermediate_size=6144, moe_intermediate_size=768, num_experts=128,
                          num_experts_per_tok=8, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[], num_hidden_layers=48,
                          num_attention_heads=32, num_key_value_heads=4, head_dim=128, vocab_size=151936, max_position_embeddings=40960,
                          rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
                          tie_word_embeddings=False),
}


class RandomSource(Source):
    """A model with the config's tensors: matrices of unit gain in ``dtype``, norms around 1. A tensor's values depend on its name and
    ``seed`` alone, so each reading gives the same ones on one kind of device."""

    place = "random weights"

    def __init__(self, config: Mapping[str, Any], device: Any = "cuda", *, seed: int = 0, dtype: torch.dtype = torch.bfloat16) -> None:
        self.config, self.generation = dict(config), {}
        self._device, self._seed, self._dtype = torch.device(device), seed, dtype
        self.shape = architecture_of(config)
        self._sizes = _sizes(self.shape)
        self.names: List[str] = list(self._sizes)

    def tensor(self, name: str) -> Tensor:
        size = self._sizes[name]
        generator = torch.Generator(self._device).manual_seed(zlib.crc32(name.encode()) + self._seed)
        values = torch.randn(size, generator=generator, device=self._device, dtype=torch.float32)
        if len(size) > 1:
            return values.mul_(1 / math.sqrt(size[-1])).to(self._dtype)
        offset = 1 - self.shape.norm_offset if "norm" in name else 0
        return values.mul_(0.1).add_(offset).to(self._dtype)


def _sizes(s: Architecture) -> Dict[str, tuple]:
    made = {"model.embed_tokens.weight": (s.vocab, s.width), "model.norm.weight": (s.width,)}
    if not s.tied:
        made["lm_head.weight"] = (s.vocab, s.width)
    kv = s.kv_heads * s.head_dim
    attention = {"qkv_proj": s.qkv_columns} if s.fused else {"q_proj": s.q_columns, "k_proj": kv, "v_proj": kv}
    for i in range(s.layers):
        at = f"model.layers.{i}."
        products = {**{f"self_attn.{name}": (rows, s.width, s.qkv_bias) for name, rows in attention.items()},
                    "self_attn.o_proj": (s.width, s.q_columns, s.o_bias)}
        if s.experts is not None and s.experts.layers[i]:
            e = s.experts
            products["mlp.gate"] = (e.count, s.width, False)
            made[f"{at}mlp.experts.gate_up_proj"] = (e.count, 2 * e.inner, s.width)
            made[f"{at}mlp.experts.down_proj"] = (e.count, s.width, e.inner)
        else:
            inner = {"gate_up_proj": 2 * s.inner} if s.fused else {"gate_proj": s.inner, "up_proj": s.inner}
            products.update({f"mlp.{name}": (rows, s.width, s.mlp_bias) for name, rows in inner.items()})
            products["mlp.down_proj"] = (s.width, s.inner, s.mlp_bias)
        for name, (rows, columns, bias) in products.items():
            made[f"{at}{name}.weight"] = (rows, columns)
            if bias:
                made[f"{at}{name}.bias"] = (rows,)
        for name in ("input_layernorm", "post_attention_layernorm"):
            made[f"{at}{name}.weight"] = (s.width,)
        for name in ("q_norm", "k_norm") if s.head_norms else ():
            made[f"{at}self_attn.{name}.weight"] = (s.head_dim,)
    return made
