# SPDX-License-Identifier: Apache-2.0
"""The keys of a model's config.json. A key is read by what computes with it, or known to change nothing; any other key refuses the
model. So a config that says something new is never read as if it had not said it. Used by architecture.py."""
from __future__ import annotations

import fnmatch
from typing import Any, Dict, Mapping, NoReturn, Set

from ...errors import InvalidArgument

# Keys that change nothing in the logits of a causal decode, as shell patterns.
_HARMLESS = (
    "_*", "transformers_version", "transformers.js_config", "architectures", "model_type", "dtype", "torch_dtype", "id2label", "label2id",
    "problem_type", "return_dict", "output_hidden_states", "output_attentions", "use_cache", "initializer_range", "initializer_factor",
    "*dropout", "*dropout_prob", "*_pdrop", "pretraining_tp", "auto_map", "task_specific_params", "finetuning_task", "tokenizer_class",
    "output_router_logits", "router_aux_loss_coef", "router_jitter_noise",  # for training
    "prefix", "is_llama_config", "unsloth_*", "chunk_size_feed_forward", "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id",
    "decoder_start_token_id", "name_or_path", "attn_implementation", "base_model_*", "tie_encoder_decoder", "torchscript",
    # settings of generate that older files hold here
    "do_sample", "temperature", "top_k", "top_p", "typical_p", "max_length", "min_length", "num_beams", "num_beam_groups",
    "num_return_sequences",
    "repetition_penalty", "length_penalty", "diversity_penalty", "encoder_no_repeat_ngram_size", "no_repeat_ngram_size", "early_stopping",
    "output_scores", "return_dict_in_generate", "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values", "bad_words_ids",
    "suppress_tokens", "begin_suppress_tokens", "exponential_decay_length_penalty")

# Says what a key stands for that decode does not compute.
WHY = {
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "moe_intermediate_size"),
                    "the model has experts, whose router decode knows for qwen3_moe and mixtral alone"),
    "kv_lora_rank": "its keys and values come from low-rank projections (MLA), which the attention's cache does not hold",
    "q_lora_rank": "its queries come from low-rank projections (MLA)",
    "attn_logit_softcapping": "scores are capped by a tanh, which the attention does not compute (Gemma 2)",
    "final_logit_softcapping": "logits are capped by a tanh (Gemma 2)",
    "query_pre_attn_scalar": "scores have a scale of their own, and blocks have norms behind attention and feed-forward (Gemma 2, 3)",
    "layer_norm_eps": "its norms are LayerNorm, with a mean and mostly a bias; decode has RMSNorm",
    "layer_norm_epsilon": "its norms are LayerNorm, with a mean and mostly a bias; decode has RMSNorm",
    "norm_epsilon": "its norms are LayerNorm, with a mean and a bias; decode has RMSNorm",
    "norm_eps": "its norms are not those of Llama; decode has RMSNorm with the key rms_norm_eps",
    "alibi": "positions are biases of scores (ALiBi), which the attention does not add",
    "use_alibi": "positions are biases of scores (ALiBi), which the attention does not add",
    "attn_config": "attention has settings of its own (MPT: ALiBi, clipped qkv)",
    "parallel_attn": "attention and feed-forward run side by side on one norm; decode has them one behind the other",
    "use_parallel_residual": "attention and feed-forward run side by side on one norm; decode has them one behind the other",
    "parallel_residual": "attention and feed-forward run side by side on one norm; decode has them one behind the other",
    "logit_scale": "logits are multiplied by it (Cohere)",
    "clip_qkv": "queries, keys and values are clipped",
    "logits_scaling": "logits are divided by it (Granite)",
    "residual_multiplier": "each block's result is multiplied by it before it is added (Granite)",
    "attention_multiplier": "scores have a scale of their own (Granite)",
    "embedding_multiplier": "embeddings are multiplied by it (Granite)",
    "position_embedding_type": "positions are not rotations",
    "use_qk_norm": "queries and keys have a norm that this reader does not know",
    "qk_layernorm": "queries and keys have a norm that this reader does not know",
    "rope_interleaved": "pairs of neighbours are rotated; decode rotates halves",
    "quantization_config": "its weights are quantised; load the 16-bit checkpoint, or st.nn.convert_ a loaded "
                           "model (docs/python-models.md)",
    "text_config": "it holds a language model beside others; pass the language model alone, with its own config",
    "vision_config": "it reads images; pass the language model alone, with its own config",
    "is_encoder_decoder": "it has an encoder; decode runs causal models of one stack",
    "add_cross_attention": "it attends to an encoder; decode runs causal models of one stack",
    "attention_chunk_size": "attention is cut into chunks",
    "pruned_heads": "some heads are removed",
    "mamba_d_state": "some layers are state spaces", "ssm_cfg": "its layers are state spaces", "state_size": "its layers are state spaces",
}


def says_nothing(value: Any) -> bool:
    """Returns whether a key's value switches nothing on."""
    return value is None or value is False or (isinstance(value, (dict, list, tuple)) and not value)


def refuse_key(key: str, value: Any, reason: str) -> NoReturn:
    shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "..."
    raise InvalidArgument(f"the model's config says {key} = {shown}: {reason}")


class Settings:
    """A config as a mapping that remembers which keys were read."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = dict(config)
        self._read: Set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._config

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the value of a key and marks it as read. The default also replaces None."""
        self._read.add(key)
        value = self._config.get(key)
        return default if value is None else value

    def need(self, key: str, what: str) -> Any:
        value = self.get(key)
        if value is None:
            raise InvalidArgument(f"the model's config has no {key}, {what}: is it the config.json of a causal language model?")
        return value

    def positive(self, key: str, what: str, default: Any = None) -> int:
        value = self.get(key, default)
        if value is None:
            self.need(key, what)
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            refuse_key(key, value, f"it must be a positive whole number, {what}")
        return value

    def refuse_known_difference(self) -> None:
        """Refuses by the first key that says what other models compute. For a model whose type is not known."""
        for key, reason in WHY.items():
            if key in self._config and key not in self._read and not says_nothing(self._config[key]):
                refuse_key(key, self._config[key], reason)

    def refuse_unread(self, model_type: str) -> None:
        """Refuses by the first key that nobody read and that is not known to change nothing."""
        self.refuse_known_difference()
        for key, value in self._config.items():
            if key in self._read or says_nothing(value) or any(fnmatch.fnmatchcase(key, pattern) for pattern in _HARMLESS):
                continue
            refuse_key(key, value, f"decode does not know what it changes in a model of type {model_type!r}. If it changes nothing, delete "
                                   "it from the config; else its meaning must be added to python/sluice/torch/decode/architecture.py")

    def as_dict(self) -> Dict[str, Any]:
        return dict(self._config)
