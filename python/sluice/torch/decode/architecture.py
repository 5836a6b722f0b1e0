# SPDX-License-Identifier: Apache-2.0
"""An Architecture is what a config.json says about a model, in decode's own words. There is one for Llama, Mistral,
Qwen2, Qwen3, Phi-3, Gemma, SmolLM3, Granite, Qwen3-MoE and Mixtral. A family is added here, with the keys that its code reads. Types that are not listed are
refused, even if all keys and tensors are Llama's: their code may compute something else with them (GLM and Helium rotate neighbours)."""
from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ...errors import InvalidArgument
from .rope import Rope, rope_of
from .settings import Settings, refuse_key


@dataclasses.dataclass(frozen=True)
class ExpertNames:
    """Names of experts in a type's files. A loaded model has the matrices of all experts in one tensor instead: mlp.experts.gate_up_proj
    and mlp.experts.down_proj, and mlp.gate for the router."""

    folder: str
    gate: str
    up: str
    down: str


@dataclasses.dataclass(frozen=True)
class Experts:
    """The experts of a model. ``renormalised``: the weights of a token's ``chosen`` experts add up to 1. ``layers``: True where the
    feed-forward consists of experts."""

    count: int
    chosen: int
    inner: int
    renormalised: bool
    layers: Tuple[bool, ...]
    names: ExpertNames


@dataclasses.dataclass(frozen=True)
class Family:
    """A type of model: what its code does, and what its config's keys mean where a file leaves them out."""

    head_dim: Optional[int] = None  # None: width / heads
    epsilon: float = 1e-6
    tied: bool = False
    qkv_bias: bool = False  # always; else the key attention_bias says it
    o_bias: bool = True  # with attention_bias
    attention_bias: bool = False  # the key exists
    mlp_bias: bool = False  # the key exists
    head_norms: bool = False
    fused: bool = False  # qkv_proj and gate_up_proj
    window: str = "none"  # none, always (sliding_window alone), switched (use_sliding_window too)
    default_window: Optional[int] = None
    norm_offset: float = 0.0
    scaled_embedding: bool = False
    activation: str = "silu"
    multipliers: bool = False  # Granite's
    nope: bool = False
    theta: float = 10000.0
    experts: Optional[ExpertNames] = None


FAMILIES: Dict[str, Family] = {
    "llama": Family(attention_bias=True, mlp_bias=True),
    "mistral": Family(window="always", default_window=4096),
    "qwen2": Family(qkv_bias=True, window="switched"),
    "qwen3": Family(head_dim=128, attention_bias=True, head_norms=True, window="switched"),
    "phi3": Family(epsilon=1e-5, fused=True, window="always"),
    "gemma": Family(head_dim=256, tied=True, attention_bias=True, norm_offset=1.0, scaled_embedding=True, activation="gelu_pytorch_tanh"),
    "smollm3": Family(tied=True, attention_bias=True, mlp_bias=True, window="switched", nope=True, theta=2000000.0),
    "granite": Family(attention_bias=True, mlp_bias=True, multipliers=True),
    "qwen3_moe": Family(attention_bias=True, head_norms=True, window="switched",
                        experts=ExpertNames("mlp", "gate_proj", "up_proj", "down_proj")),
    "mixtral": Family(epsilon=1e-5, window="always", theta=1000000.0, experts=ExpertNames("block_sparse_moe", "w1", "w3", "w2")),
}
_ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu"}


@dataclasses.dataclass(frozen=True)
class Architecture:
    """Sizes and switches of a model. ``windows`` and ``rotates`` have one entry a layer."""

    model_type: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocab: int
    epsilon: float
    activation: str
    tied: bool
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    head_norms: bool
    fused: bool
    norm_offset: float
    embedding_scale: float
    residual_scale: float
    logits_scale: float
    softmax_scale: float
    windows: Tuple[Optional[int], ...]
    rotates: Tuple[bool, ...]
    rope: Rope
    positions: int
    notes: Tuple[str, ...] = ()
    experts: Optional[Experts] = None

    @property
    def q_columns(self) -> int:
        return self.heads * self.head_dim

    @property
    def qkv_columns(self) -> int:
        return (self.heads + 2 * self.kv_heads) * self.head_dim


def architecture_of(config: Mapping[str, Any]) -> Architecture:
    """Returns the architecture of a config. Raises ``InvalidArgument``, which names the key, for one that decode does not compute."""
    settings = Settings(config)
    model_type = settings.need("model_type", "which says whose code it is")
    if model_type not in FAMILIES:
        settings.refuse_known_difference()
        raise UnknownType(f"the model's config says model_type = {model_type!r}: decode knows {', '.join(sorted(FAMILIES))}. No key of the "
                          "config differs in a way that decode could name, but the same keys may mean something else in that code: add the "
                          "type to FAMILIES in python/sluice/torch/decode/architecture.py after comparing logits")
    family = FAMILIES[model_type]
    heads = settings.positive("num_attention_heads", "the number of query heads")
    width = settings.positive("hidden_size", "the width of the residual stream")
    layers = settings.positive("num_hidden_layers", "the number of layers")
    kv_heads = settings.positive("num_key_value_heads", "the number of key heads", heads)
    head_dim = settings.positive("head_dim", "the columns of a head", family.head_dim or width // heads)
    if heads % kv_heads:
        refuse_key("num_key_value_heads", kv_heads, f"it must divide num_attention_heads = {heads}")
    positions = settings.positive("max_position_embeddings", "the longest sequence")
    attention_bias = family.attention_bias and bool(settings.get("attention_bias", False))
    notes: List[str] = []
    made = Architecture(
        model_type=model_type, layers=layers, width=width, heads=heads, kv_heads=kv_heads, head_dim=head_dim,
        inner=settings.positive("intermediate_size", "the columns of the feed-forward"),
        vocab=settings.positive("vocab_size", "the number of tokens"),
        epsilon=float(settings.get("rms_norm_eps", family.epsilon)), activation=_activation(settings, family, notes),
        tied=bool(settings.get("tie_word_embeddings", False if "tie_word_embeddings" in settings else family.tied)),
        qkv_bias=family.qkv_bias or attention_bias, o_bias=family.o_bias and attention_bias,
        mlp_bias=family.mlp_bias and bool(settings.get("mlp_bias", False)), head_norms=family.head_norms, fused=family.fused,
        norm_offset=family.norm_offset, **_scales(settings, family, width, head_dim),
        rotates=(rotates := _rotates(settings, family, layers)), windows=_windows(settings, family, rotates),
        rope=rope_of(settings, head_dim, positions, family.theta), positions=positions, notes=tuple(notes),
        experts=None if family.experts is None else _experts(settings, family.experts, layers))
    settings.refuse_unread(model_type)
    return made


def _experts(settings: Settings, names: ExpertNames, layers: int) -> Experts:
    key = "num_local_experts" if "num_local_experts" in settings else "num_experts"
    count = settings.positive(key, "the number of experts")
    chosen = settings.positive("num_experts_per_tok", "the experts of a token", 2)
    if chosen > min(count, 32) or count > 1024:
        refuse_key("num_experts_per_tok", chosen, f"it must be at most {key} = {count} and 32, with up to 1,024 experts")
    if names.folder != "mlp":  # Mixtral: every layer, and no keys for what follows
        return Experts(count, chosen, settings.positive("intermediate_size", "the columns of an expert"), True, (True,) * layers, names)
    step, dense = settings.get("decoder_sparse_step", 1), settings.get("mlp_only_layers", [])
    sparse = tuple(i not in dense and step > 0 and (i + 1) % step == 0 for i in range(layers))
    return Experts(count, chosen, settings.positive("moe_intermediate_size", "the columns of an expert"),
                   bool(settings.get("norm_topk_prob", False)), sparse, names)


class UnknownType(InvalidArgument):
    """The model's type is unknown, and no key says how it differs; its tensors may."""


def _activation(settings: Settings, family: Family, notes: List[str]) -> str:
    name = settings.get("hidden_act", family.activation)
    if family.scaled_embedding:  # Gemma's files name it twice, and mean the tanh where they say "gelu"
        name = settings.get("hidden_activation", name)
        name = "gelu_pytorch_tanh" if name == "gelu" else name
    if name not in _ACTIVATIONS:
        refuse_key("hidden_act", name, f"the gate's activation must be one of {', '.join(_ACTIVATIONS)}")
    if name == "gelu_pytorch_tanh":
        notes.append("hidden_act = 'gelu_pytorch_tanh' is computed as the exact GELU, which differs by less than 5e-4")
    return _ACTIVATIONS[name]


def _scales(settings: Settings, family: Family, width: int, head_dim: int) -> Dict[str, float]:
    embedding, residual, logits, softmax = (width ** 0.5 if family.scaled_embedding else 1.0), 1.0, 1.0, head_dim ** -0.5
    if family.multipliers:
        embedding = float(settings.get("embedding_multiplier", 1.0))
        residual = float(settings.get("residual_multiplier", 1.0))
        logits = 1.0 / float(settings.get("logits_scaling", 1.0))
        softmax = float(settings.get("attention_multiplier", 1.0))
    return {"embedding_scale": embedding, "residual_scale": residual, "logits_scale": logits, "softmax_scale": softmax}


def _windows(settings: Settings, family: Family, rotates: Tuple[bool, ...]) -> Tuple[Optional[int], ...]:
    """Returns for each layer how many tokens it attends to, with its own; None: all."""
    layers = len(rotates)
    kinds = settings.get("layer_types")
    if kinds is not None and len(kinds) != layers:
        refuse_key("layer_types", kinds, f"it must have num_hidden_layers = {layers} entries")
    for kind in kinds or ():
        if kind not in ("full_attention", "sliding_attention"):
            refuse_key("layer_types", kind, "decode computes full_attention and sliding_attention")
    first = settings.get("max_window_layers", 28) if family.window == "switched" and not family.nope else 0
    switched_on = family.window != "switched" or bool(settings.get("use_sliding_window", False))
    if family.window == "none":
        if kinds and "sliding_attention" in kinds:
            refuse_key("layer_types", kinds, "a model of this type has no sliding window that decode knows")
        return (None,) * layers
    window = settings.get("sliding_window", None if "sliding_window" in settings else family.default_window)
    if not switched_on or window is None:
        return (None,) * layers
    if kinds is None:
        return tuple(int(window) if i >= first and not (family.nope and rotates[i]) else None for i in range(layers))
    if family.window == "always":  # the window is in all layers, whatever the kinds say
        return (int(window),) * layers
    return tuple(int(window) if kind == "sliding_attention" else None for kind in kinds)


def _rotates(settings: Settings, family: Family, layers: int) -> Tuple[bool, ...]:
    if not family.nope:
        return (True,) * layers
    interval = settings.get("no_rope_layer_interval", 4)
    rotates = settings.get("no_rope_layers", [int((i + 1) % interval != 0) for i in range(layers)])
    if len(rotates) != layers:
        refuse_key("no_rope_layers", rotates, f"it must have num_hidden_layers = {layers} entries, 1 where a layer rotates")
    return tuple(map(bool, rotates))
