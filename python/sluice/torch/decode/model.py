# SPDX-License-Identifier: Apache-2.0
"""A model as decode holds it: packed layers, norms, embedding and head on one device. Made by a Reader part by part, or from a folder that
``save`` wrote."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch
from torch import Tensor

from ...errors import InvalidArgument, InvalidSize
from .architecture import Architecture
from .now import rows_for
from .progress import Progress
from .reader import Part, Reader
from .recipes import Layer
from .reference import Heads
from .rope import Rope
from .weights import Dense, Operand, operand_of

PRODUCTS = ("qkv", "o", "gate_up", "down")


def products_of(layer: Layer) -> Dict[str, Operand]:
    """Returns a layer's products by name; a layer of experts also has a router."""
    names = PRODUCTS if layer.router is None else (*PRODUCTS, "router")
    return {name: getattr(layer, name) for name in names}


class Model:
    """The tensors of a model and how its layers attend. ``layers`` is a list of Layer."""

    def __init__(self, shape: Architecture, max_length: int, dtype: torch.dtype) -> None:
        self.shape, self.max_length, self.dtype = shape, max_length, dtype
        self.layers: List[Layer] = []
        self.embedding: Tensor
        self.final_norm: Tensor
        self.head: Operand
        self._tables: Dict[bool, Tuple[Tensor, Tensor]] = {}

    def embed(self, tokens: Tensor) -> Tensor:
        """Returns embeddings, tokens x width, scaled as the model does."""
        made = self.embedding.index_select(0, tokens)
        return made if self.shape.embedding_scale == 1.0 else made.mul_(self.scale_of_embedding)

    @property
    def scale_of_embedding(self) -> float:
        """Gemma rounds it to the embedding's type; Granite does not."""
        scale = self.shape.embedding_scale
        return float(torch.tensor(scale, dtype=self.dtype)) if self.shape.norm_offset else scale

    def heads(self, layer: int) -> Heads:
        s = self.shape
        return Heads(s.heads, s.kv_heads, s.head_dim, s.epsilon, s.softmax_scale, self.window(layer))

    def window(self, layer: int) -> Optional[int]:
        """Returns the layer's window; None if max_length fits into it."""
        window = self.shape.windows[layer]
        return None if window is None or window >= self.max_length else window

    def tables(self, layer: int, rows: Optional[int] = None) -> Tuple[Tensor, Tensor]:
        """Returns cosines and sines of a layer, of the first ``rows`` positions or of all. Padded prompts go beyond max_length."""
        rotates = self.shape.rotates[layer]
        if rotates not in self._tables:
            self._tables[rotates] = self.shape.rope.tables(rows_for(self.max_length), self.embedding.device, rotates)
        cos, sin = self._tables[rotates]
        return cos[:rows], sin[:rows]

    def set_scales(self, scales: Tensor) -> None:
        """Sets the static scales, layers x 4, where the chains read them. Their memory stays the same."""
        for layer, own in zip(self.layers, scales.tolist()):
            for place, value in zip(layer.scales or (), own):
                place.fill_(value)

    def make_scales(self) -> None:
        """Makes room for static scales. Each is at a multiple of 16 bytes."""
        room = torch.ones(len(self.layers), 4, 4, dtype=torch.float32, device=self.embedding.device)
        for i, layer in enumerate(self.layers):
            layer.scales = [room[i, j, 0] for j in range(4)]

    def scales(self) -> Optional[Tensor]:
        if self.layers[0].scales is None:
            return None
        return torch.stack([torch.stack(layer.scales) for layer in self.layers]).cpu()

    def weight_bytes(self, rows: Optional[int] = None) -> int:
        """Returns the bytes of all products and norms, without the embedding. With a number of ``rows``, those that a step of so many
        tokens reads: of experts as many as tokens reach that choose evenly."""
        small = [t for w in self.layers for t in (w.norm1, w.norm2, w.q_norm, w.k_norm) if t is not None] + [self.final_norm]
        e, used = self.shape.experts, 1.0
        if e is not None and rows is not None:
            used = 1.0 - (1.0 - e.chosen / e.count) ** rows
        of_products = sum(operand.nbytes * (used if w.router is not None and name in ("gate_up", "down") else 1.0)
                          for w in self.layers for name, operand in products_of(w).items())
        return int(of_products) + self.head.nbytes + sum(t.numel() * t.element_size() for t in small)


def read_model(reader: Reader, recipe: Optional[str], head: Optional[str], machine: Any, *, max_length: int, dtype: torch.dtype, group: int,
               fast: bool, show: Optional[bool]) -> Model:
    """Returns the model, with each product quantised on the machine's device as soon as it is read. A product's 16-bit weight is freed
    before the next one is read."""
    check_recipe(recipe, reader.shape)
    made, device = Model(reader.shape, max_length, dtype), machine.device

    def moved(tensor: Tensor) -> Tensor:
        return tensor.to(device, non_blocking=False)

    def vector(part: Optional[Part]) -> Optional[Tensor]:
        return None if part is None else torch.cat(reader.read(part, moved)).to(dtype).contiguous()

    def operand(kind: Optional[str], weight: Part, bias: Optional[Part], gated: bool) -> Operand:
        name = weight.names[0]
        try:
            own = None if bias is None else reader.read(bias, moved)
            return operand_of(kind, reader.read(weight, moved), own, dtype=dtype, gated=gated, group=group, fast=fast,
                              quantize=machine.quantize, experts=weight.experts)
        except InvalidArgument as error:
            raise type(error)(f"{name}: {error}") from error

    with torch.no_grad(), machine.current(), Progress("packing weights", len(reader.layers) + 1, show) as bar:
        for parts in reader.layers:
            products = {name: operand(None if name == "router" else recipe, *part, name == "gate_up")
                        for name, part in parts.products.items()}
            made.layers.append(Layer(vector(parts.norm1), vector(parts.norm2), q_norm=vector(parts.q_norm), k_norm=vector(parts.k_norm),
                                     **products))
            bar.step()
        made.embedding = reader.read(reader.embedding, moved)[0].to(dtype).contiguous()
        made.final_norm = vector(reader.final_norm)
        if reader.head is None and head is None:
            made.head = Dense(None, False, made.embedding)
        else:
            made.head = operand(head, reader.head or reader.embedding, None, False)
        bar.step()
    if recipe == "tensor":
        made.make_scales()
    return made


def check_recipe(recipe: Optional[str], shape: Architecture) -> None:
    if shape.experts is not None and recipe == "tensor":
        raise InvalidArgument(f"recipe = {recipe!r}, and the model has experts ({shape.model_type}): their products have the recipes 'row', "
                              "'int4' and None")


def check_length(max_length: Optional[int], shape: Architecture) -> int:
    """Returns the longest sequence. Raises ``InvalidSize`` beyond what the model's rotation holds for."""
    rope: Rope = shape.rope
    most = shape.positions if rope.most is None else min(rope.most, shape.positions)
    if max_length is None:
        return min(4096, most)
    if not 0 < max_length <= most:
        why = rope.why_most if rope.most is not None and rope.most < shape.positions else "the config's max_position_embeddings"
        raise InvalidSize(f"max_length = {max_length} must be in 1..{most}: {why}")
    return max_length


def tensors_of(model: Model) -> Tuple[Dict[str, Tensor], Dict[str, Mapping[str, Any]]]:
    """Returns all tensors by name, and the facts of the operands, as a folder holds them. The head is left out where it is the
    embedding."""
    tensors: Dict[str, Tensor] = {"embedding": model.embedding, "final_norm": model.final_norm}
    facts: Dict[str, Mapping[str, Any]] = {}

    def add(name: str, operand: Operand) -> None:
        facts[name] = operand.facts()
        tensors.update({f"{name}.{key}": tensor for key, tensor in operand.tensors().items()})

    for i, layer in enumerate(model.layers):
        for name, operand in products_of(layer).items():
            add(f"layers.{i}.{name}", operand)
        for name in ("norm1", "norm2", "q_norm", "k_norm"):
            if getattr(layer, name) is not None:
                tensors[f"layers.{i}.{name}"] = getattr(layer, name)
    if not (isinstance(model.head, Dense) and model.head.weight is model.embedding):
        add("head", model.head)
    return tensors, facts
