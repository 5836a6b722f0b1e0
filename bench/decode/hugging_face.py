# SPDX-License-Identifier: Apache-2.0
"""Arms of transformers, on the same weights (views of the joined ones) and the same cached tokens. They call the model's forward
once per token, with a DynamicCache, or under torch.compile with a StaticCache; what generate() adds is left out.
"""
from __future__ import annotations

import inspect
import statistics
import time
from typing import Any, Callable

import torch
from torch import Tensor

from models import BF16, EPSILON, Model, State

TOKENS = 32  # a window has so many


def model_of(model: Model) -> Any:
    """A LlamaForCausalLM or Qwen3ForCausalLM with these weights."""
    import transformers
    sizes = model.sizes
    made, config_of = ((transformers.Qwen3ForCausalLM, transformers.Qwen3Config) if sizes.head_norms
                       else (transformers.LlamaForCausalLM, transformers.LlamaConfig))
    config = config_of(hidden_size=sizes.width, intermediate_size=sizes.inner, num_hidden_layers=model.layers, head_dim=sizes.dim,
                       num_attention_heads=sizes.heads, num_key_value_heads=sizes.kv, vocab_size=sizes.vocab, rms_norm_eps=EPSILON,
                       max_position_embeddings=max(8192, model.length), tie_word_embeddings=False, dtype=BF16,
                       rope_parameters={"rope_type": "default", "rope_theta": sizes.theta})
    config._attn_implementation = "sdpa"
    with torch.device("meta"):
        found = made(config)
    found.load_state_dict(state_of(model), strict=True, assign=True)
    with torch.device(model.device):  # its buffers are in no state
        found.model.rotary_emb = type(found.model.rotary_emb)(config)
    return found.eval().requires_grad_(False)


def state_of(model: Model) -> dict[str, Tensor]:
    """transformers' names of the model's tensors."""
    sizes = model.sizes
    state = {"model.embed_tokens.weight": model.embedding, "model.norm.weight": model.final, "lm_head.weight": model.head}
    for i, weights in enumerate(model.weights):
        parts = dict(zip("qkv", weights["qkv"].split(sizes.parts_of_qkv)))
        gate, up = weights["gate_up"].chunk(2)
        named = {**{f"self_attn.{p}_proj": w for p, w in parts.items()}, "self_attn.o_proj": weights["o"], "mlp.gate_proj": gate,
                 "mlp.up_proj": up, "mlp.down_proj": weights["down"], "input_layernorm": model.gammas[i][0],
                 "post_attention_layernorm": model.gammas[i][1]}
        if sizes.head_norms:
            named |= {"self_attn.q_norm": model.head_norms[i][0], "self_attn.k_norm": model.head_norms[i][1]}
        state |= {f"model.layers.{i}.{name}.weight": tensor for name, tensor in named.items()}
    return state


class HuggingFace:
    """``static``: compiled, StaticCache. ``measure`` gives microseconds by the number of layers, and the first logits."""

    accuracy, kind = "bf16", "bf16"

    def __init__(self, name: str, static: bool):
        self.name, self.static, self.seconds = name, static, 75.0 if static else 12.0

    def measure(self, model: Model, state: State, context: int, counts: tuple[int, ...],
                windows: int = 3) -> tuple[dict[int, float], Tensor]:
        whole, found = model_of(model), {}
        layers = list(whole.model.layers)
        for count in counts:
            whole.model.layers = torch.nn.ModuleList(layers[:count])
            whole.config.num_hidden_layers = count
            torch._dynamo.reset()
            found[count], logits = self._steps(whole, model, state, context, count, windows)
        return found, logits

    def _cache(self, whole: Any, state: State, context: int, count: int, room: int) -> Any:
        import transformers
        cache = (transformers.StaticCache(config=whole.config, max_cache_len=context + room) if self.static
                 else transformers.DynamicCache(config=whole.config))
        at = {"cache_position": torch.arange(context, device=state.token.device)}
        for i in range(count):
            cache.update(*(part[:, :, :context].contiguous() for part in state.caches[i]), i, at)
        return cache

    def _steps(self, whole: Any, model: Model, state: State, context: int, count: int, windows: int) -> tuple[float, Tensor]:
        cuda = model.device != "cpu"
        step: Callable = whole.forward
        of_cache = "cache" if "cache" in inspect.signature(step).parameters else "past_key_values"  # transformers 5.17
        if self.static:
            step = torch.compile(whole.forward, fullgraph=True, dynamic=False,
                                 **({"mode": "reduce-overhead"} if cuda else {"backend": "aot_eager"}))
        tokens, took, first = TOKENS if cuda else 2, [], None
        with torch.no_grad():
            cache = self._cache(whole, state, context, count, (windows + 1) * tokens)
            place = torch.full((state.batch, 1), context, device=model.device)
            state.begin(context)
            token = state.token[:, None].clone()
            for _ in range(windows + 1):
                _wait(cuda)
                begin = time.perf_counter()
                for _ in range(tokens):
                    if cuda and self.static:
                        torch.compiler.cudagraph_mark_step_begin()
                    logits = step(input_ids=token, position_ids=place, use_cache=True, **{of_cache: cache}).logits[:, -1]
                    first = logits.clone() if first is None else first
                    token, place = logits.argmax(-1, keepdim=True).clone(), place + 1
                _wait(cuda)
                took.append((time.perf_counter() - begin) / tokens * 1e6)
        assert first is not None
        return statistics.median(took[1:]), first  # the first window compiles and records


def _wait(cuda: bool) -> None:
    if cuda:
        torch.cuda.synchronize()
