# SPDX-License-Identifier: Apache-2.0
"""Tiny random models of transformers and engines of them on the host twin, for the tests of sluice.decode."""
import math

import torch
import transformers
from chain_on_host import HostMachine
from sluice.torch.decode import decode

torch.set_num_threads(1)
SMALL = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, vocab_size=97,
             max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=None)
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
KINDS = {
    "llama": ("Llama", {}),
    "llama-biases": ("Llama", dict(attention_bias=True, mlp_bias=True, rope_parameters=LLAMA3)),
    "llama-tied": ("Llama", dict(tie_word_embeddings=True, head_dim=32)),
    "mistral": ("Mistral", {}),
    "mistral-window": ("Mistral", dict(sliding_window=5)),
    "qwen2": ("Qwen2", {}),
    "qwen2-window": ("Qwen2", dict(use_sliding_window=True, sliding_window=5, max_window_layers=1)),
    "qwen3": ("Qwen3", dict(head_dim=32)),
    "qwen3-biases": ("Qwen3", dict(head_dim=32, attention_bias=True)),
    "phi3": ("Phi3", {}),
    "phi3-partial": ("Phi3", dict(rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5})),
    "smollm3": ("SmolLM3", dict(no_rope_layer_interval=2)),
    "gemma": ("Gemma", dict(head_dim=32, hidden_act="gelu_pytorch_tanh")),
    "qwen3moe": ("Qwen3Moe", dict(head_dim=32, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=32, norm_topk_prob=True)),
    "qwen3moe-mixed": ("Qwen3Moe", dict(head_dim=32, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=48, norm_topk_prob=False,
                                        decoder_sparse_step=2, attention_bias=True)),
    "mixtral": ("Mixtral", dict(num_local_experts=4, num_experts_per_tok=2)),
    "granite": ("Granite", dict(embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.1, logits_scaling=4.0)),
}
# The largest difference of logits from transformers, in fp32, and relative to them. Gemma's GELU is the exact one instead of the tanh's.
NEAR = {"gemma": 2e-3}


def model_of(kind, dtype=torch.float32, **more):
    """Returns a model whose every tensor matters: weights of unit gain, norms around 1, biases that are not 0."""
    name, own = KINDS[kind]
    config = getattr(transformers, name + "Config")(**{**SMALL, **own, **more})
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = getattr(transformers, name + "ForCausalLM")(config).eval()
    generator = torch.Generator().manual_seed(1)
    for key, value in model.named_parameters():
        values = torch.randn(value.shape, generator=generator)
        scale = 0.3 if value.dim() == 1 else 1.5 / math.sqrt(value.shape[-1])
        offset = 1.0 if "norm" in key and kind != "gemma" else 0.0
        value.data = values * scale + offset
    return model.requires_grad_(False).to(dtype)


def engine_of(model, recipe=None, dtype=torch.float32, **more):
    return decode(model, recipe, dtype=dtype, _machine=HostMachine(), **more)


def sequences(count=3, seed=2, longest=12, vocab=97):
    """Returns prompts of different lengths and what follows them."""
    generator = torch.Generator().manual_seed(seed)
    lengths = [longest, 1, 7, 4, 9][:count]
    prompts = [torch.randint(2, vocab, (n,), generator=generator) for n in lengths]
    return prompts, torch.randint(2, vocab, (count, 8), generator=generator)


def logits_of_transformers(model, prompts, tokens):
    made = []
    for prompt, own in zip(prompts, tokens):
        whole = torch.cat((prompt, own))[None]
        made.append(model(whole, use_cache=False).logits[0, prompt.numel() - 1:-1].float())
    return torch.stack(made)


def relative(got, wanted):
    return float((got.float() - wanted).norm() / wanted.norm())
