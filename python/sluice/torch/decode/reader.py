# SPDX-License-Identifier: Apache-2.0
"""Reads a model's tensors by their names, in the parts that decode packs: joined products, norms, embedding, head. It checks every shape
before anything is packed, and refuses a model with a tensor that nothing reads."""
from __future__ import annotations

import dataclasses
from typing import Callable, Dict, List, Optional, Set, Tuple

import torch
from torch import Tensor

from ...errors import InvalidArgument, InvalidType
from .architecture import FAMILIES, Architecture, Experts, UnknownType, architecture_of
from .source import Source, unread

_FLOATS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
# Tensors of other models, as endings of their names, with what they do.
_WHY = (
    ("post_feedforward_layernorm.weight", "a norm behind the feed-forward (post-norms)"),
    ("pre_feedforward_layernorm.weight", "a second norm in front of the feed-forward"),
    ("mlp.gate.weight", "a router of experts"), ("mlp.router.weight", "a router of experts"),
    ("block_sparse_moe.gate.weight", "a router of experts"),
    ("experts.gate_up_proj", "experts"), ("layernorm.bias", "a LayerNorm's bias"), ("norm.bias", "a LayerNorm's bias"),
    ("kv_a_proj_with_mqa.weight", "low-rank keys and values (MLA)"), ("sinks", "attention sinks"), ("lora_A", "an adapter: merge it first"),
    ("weight_scale_inv", "weights that are quantised already"), ("qweight", "weights that are quantised already"),
    ("weight_packed", "weights that are quantised already"), ("weight_e4m3", "a model that st.nn.convert_ converted: pass it before that"),
    ("score.weight", "a classifier's head"), ("sub_norm.weight", "a norm inside of a block"),
)


@dataclasses.dataclass(frozen=True)
class Part:
    """Tensors of a model that are one operand: ``rows`` are stacked in this order. ``scale`` multiplies them, ``offset`` is added.
    ``experts``: the operand is so many matrices. One tensor holds them all, or each has tensors of its own."""

    names: Tuple[str, ...]
    rows: Tuple[int, ...]
    columns: Optional[int]  # None: a vector
    scale: float = 1.0
    offset: float = 0.0
    experts: int = 0


@dataclasses.dataclass(frozen=True)
class LayerParts:
    """``products`` maps qkv, o, gate_up and down to weight and bias; in a layer of experts also router."""

    products: Dict[str, Tuple[Part, Optional[Part]]]
    norm1: Part
    norm2: Part
    q_norm: Optional[Part]
    k_norm: Optional[Part]


class Reader:
    """The parts of a model. Raises ``InvalidArgument``, which names the key or the tensor, unless decode computes the whole model."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._read: Set[str] = set()
        self._have = set(source.names)
        self.config = source.config
        try:
            self.shape = architecture_of(source.config)
        except UnknownType as error:
            self._refuse_tensors_of_unknown(error)
        shape = self.shape
        self.layers = [self._layer(i) for i in range(shape.layers)]
        self.embedding = self._part(["model.embed_tokens.weight"], [shape.vocab], shape.width)
        self.final_norm = self._norm("model.norm.weight", shape.width, shape.logits_scale)
        self.head = self._head()
        for name in unread(source.names, self._read):
            reason = next((f": {why}" for ending, why in _WHY if name.endswith(ending) or ending in name.split(".")), "")
            raise InvalidArgument(f"the model has the tensor {name}, which decode does not read{reason}. A {shape.model_type} model of "
                                  "transformers has none of this name")

    # ---- names
    def _layer(self, i: int) -> LayerParts:
        s, at = self.shape, f"model.layers.{i}."
        q, kv = s.q_columns, s.kv_heads * s.head_dim
        if s.fused:
            qkv = (["self_attn.qkv_proj"], [q + 2 * kv])
            gate_up = (["mlp.gate_up_proj"], [2 * s.inner])
        else:
            qkv = (["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], [q, kv, kv])
            gate_up = (["mlp.gate_proj", "mlp.up_proj"], [s.inner, s.inner])

        def product(names: List[str], rows: List[int], columns: int, bias: bool, scale: float = 1.0) -> Tuple[Part, Optional[Part]]:
            weight = self._part([f"{at}{name}.weight" for name in names], rows, columns, scale)
            return weight, self._part([f"{at}{name}.bias" for name in names], rows, None, scale) if bias else None

        if s.experts is not None and s.experts.layers[i]:
            feed_forward = self._experts(at, s.experts)
        else:
            feed_forward = {"gate_up": product(*gate_up, s.width, s.mlp_bias),
                            "down": product(["mlp.down_proj"], [s.width], s.inner, s.mlp_bias, s.residual_scale)}
        return LayerParts(
            products={"qkv": product(*qkv, s.width, s.qkv_bias),
                      "o": product(["self_attn.o_proj"], [s.width], q, s.o_bias, s.residual_scale), **feed_forward},
            norm1=self._norm(at + "input_layernorm.weight", s.width),
            norm2=self._norm(at + "post_attention_layernorm.weight", s.width),
            q_norm=self._norm(at + "self_attn.q_norm.weight", s.head_dim) if s.head_norms else None,
            k_norm=self._norm(at + "self_attn.k_norm.weight", s.head_dim) if s.head_norms else None)

    def _experts(self, at: str, e: Experts) -> Dict[str, Tuple[Part, Optional[Part]]]:
        width, names = self.shape.width, e.names
        if f"{at}mlp.experts.gate_up_proj" in self._have:  # a loaded model
            gate_up = self._part([f"{at}mlp.experts.gate_up_proj"], [e.count * 2 * e.inner], width)
            down = self._part([f"{at}mlp.experts.down_proj"], [e.count * width], e.inner)
            router = f"{at}mlp.gate.weight"
        else:
            each = [f"{at}{names.folder}.experts.{j}." for j in range(e.count)]
            gate_up = self._part([f"{one}{name}.weight" for one in each for name in (names.gate, names.up)], [e.inner] * (2 * e.count), width)
            down = self._part([f"{one}{names.down}.weight" for one in each], [width] * e.count, e.inner)
            router = f"{at}{names.folder}.gate.weight"
        return {"gate_up": (dataclasses.replace(gate_up, experts=e.count), None), "down": (dataclasses.replace(down, experts=e.count), None),
                "router": (self._part([router], [e.count], width), None)}

    def _head(self) -> Optional[Part]:
        """Returns the head; None if it is the embedding."""
        s, name = self.shape, "lm_head.weight"
        if name not in self._have and not s.tied:
            raise InvalidArgument("the model has no tensor lm_head.weight, and its config says tie_word_embeddings = False: is it a model "
                                  "without a head (AutoModel)? Load it with AutoModelForCausalLM")
        if name not in self._have:
            return None
        part = self._part([name], [s.vocab], s.width)
        if not s.tied:
            return part
        own, shared = self._source.tensor(name), self._source.tensor("model.embed_tokens.weight")
        if own.data_ptr() != shared.data_ptr() and not torch.equal(own, shared):
            raise InvalidArgument("the model's config says tie_word_embeddings = True, and lm_head.weight differs from "
                                  "model.embed_tokens.weight: set the key to False if the head is a weight of its own")
        return None

    def _norm(self, name: str, columns: int, scale: float = 1.0) -> Part:
        return self._part([name], [columns], None, scale, self.shape.norm_offset)

    def _part(self, names: List[str], rows: List[int], columns: Optional[int], scale: float = 1.0, offset: float = 0.0) -> Part:
        for name, count in zip(names, rows):
            if name not in self._have:
                raise InvalidArgument(f"the model has no tensor {name}, which a {self.shape.model_type} model with this config has"
                                      + self._hint(name))
            self._read.add(name)
        return Part(tuple(names), tuple(rows), columns, scale, offset)

    def _hint(self, name: str) -> str:
        folder = name.rsplit(".", 2)[0]
        there = sorted(other for other in self._have if other.startswith(folder + "."))[:6]
        return f". It has {', '.join(there)}" if there else ""

    def _refuse_tensors_of_unknown(self, error: UnknownType) -> None:
        """Raises for the first tensor by which a model of an unknown type differs from Llama; else the given error."""
        names = self._source.names
        unknown = f"the model's config says model_type = {self.config.get('model_type')!r}, which decode does not know"
        for name in names:
            for ending, why in _WHY:
                if name.endswith(ending):
                    raise InvalidArgument(f"{unknown}, and it has the tensor {name}: {why}") from error
        for name in ("model.embed_tokens.weight", "model.layers.0.input_layernorm.weight", "model.layers.0.post_attention_layernorm.weight",
                     "model.layers.0.mlp.gate_proj.weight", "model.norm.weight"):
            if name not in self._have:
                raise InvalidArgument(f"{unknown}, and it has no tensor {name}, which Llama's layers have") from error
        raise error

    # ---- data
    def read(self, part: Part, place: Callable[[Tensor], Tensor]) -> List[Tensor]:
        """Returns the tensors of a part, each after ``place`` moved it, scaled and offset. Raises ``InvalidArgument`` or ``InvalidType``
        for a wrong shape or type."""
        made = []
        for name, rows in zip(part.names, part.rows):
            tensor = self._source.tensor(name)
            wanted = (rows,) if part.columns is None else (rows, part.columns)
            if part.experts and len(part.names) == 1:
                wanted = (part.experts, rows // part.experts, part.columns)
            if tuple(tensor.shape) != wanted:
                raise InvalidArgument(f"{name} has shape {tuple(tensor.shape)} and must have {wanted}, which the config's sizes say")
            if tensor.dtype not in _FLOATS:
                raise InvalidType(f"{name} is {tensor.dtype} and must be bf16, fp16 or fp32: pass the checkpoint before it was quantised")
            tensor = place(tensor.flatten(0, -2) if tensor.dim() == 3 else tensor)
            if part.offset:
                tensor = tensor.float() + part.offset
            if part.scale != 1.0:
                tensor = tensor.float() * part.scale
            made.append(tensor)
        return made


def known_types() -> List[str]:
    return sorted(FAMILIES)


__all__ = ["Architecture", "LayerParts", "Part", "Reader", "known_types"]
