# SPDX-License-Identifier: Apache-2.0
"""A bucket: one number of rows with its buffers, chain, attention, books, and a captured graph of a token for each way to pick tokens."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import Tensor

from .model import Model
from .recipes import Buffers, Recipe, Stream
from .sampling import Books

SIZES = (1, 2, 4, 8, 16, 32, 64)
SMS = 132  # H100 and H200 have so many.


def begins_early(groups: int) -> bool:
    """Returns whether attention begins while the product in front of it ends, for so many rows times heads of keys. Not where its CTAs
    fill the SMs about once: there tokens took up to 1.2 times as long with it (docs/findings/whole-models.md)."""
    return groups <= SMS // 8 or groups > 2 * SMS


class Caches:
    """Keys and values of all layers, [slots, kv_heads, max_length, head_dim]. They grow when a larger bucket is made; then graphs that
    hold the old addresses are captured again (``version``)."""

    def __init__(self, model: Model, device: Any) -> None:
        self._model, self._device = model, device
        self.layers: List[Tuple[Tensor, Tensor]] = []
        self.slots, self.version = 0, 0

    def need(self, slots: int) -> None:
        if slots <= self.slots:
            return
        s = self._model.shape
        # Freed before the larger ones are made. If these do not fit, the next call makes new ones, and graphs of the old are stale.
        self.layers, self.slots, self.version = [], 0, self.version + 1
        size = (slots, s.kv_heads, self._model.max_length, s.head_dim)
        self.layers = [tuple(torch.zeros(size, dtype=self._model.dtype, device=self._device) for _ in range(2)) for _ in range(s.layers)]
        self.slots = slots

    def bytes_at(self, length: float) -> float:
        """Returns the bytes that the attention of one row reads with so many tokens in the cache."""
        s = self._model.shape
        one = 2 * s.kv_heads * s.head_dim * torch.tensor([], dtype=self._model.dtype).element_size()
        return sum(one * min(length, self._model.window(i) or length) for i in range(s.layers))


class Bucket:
    def __init__(self, rows: int, model: Model, recipe: Recipe, machine: Any, caches: Caches,
                 attention: Optional[Callable[..., Any]], overlap: str, tune: Optional[float]) -> None:
        self.rows, self._model, self._machine, self._caches = rows, model, machine, caches
        device = machine.device
        self.buffers = Buffers(recipe.name, rows, model.shape, model.dtype, device, recipe.activation)
        self.books = Books(rows, model.max_length, model.shape.vocab, device)
        self._enter_greedy = machine.greedy(self.books, rows)
        self._by_kind: Dict[Tuple[Optional[int], bool], Any] = {}
        self._attentions = [self._attention(i, attention or machine.attention) for i in range(model.shape.layers)]
        experts = model.shape.experts
        self._choose = None if experts is None else machine.router(rows, experts.count, experts.chosen, experts.renormalised)
        self.chain = machine.chain(self._record(recipe), overlap, tune)
        self._tokens: Dict[str, Tuple[int, Any]] = {}

    def _attention(self, layer: int, factory: Callable[..., Any]) -> Any:
        """Returns the attention of a layer; layers of one window and rotation share it, and so its scratch memory."""
        model, s = self._model, self._model.shape
        key = (model.window(layer), s.rotates[layer])
        if key not in self._by_kind:
            rotary = model.tables(layer) if s.rotates[layer] else None
            self._by_kind[key] = factory(heads=s.heads, kv_heads=s.kv_heads, head_dim=s.head_dim, rotary=rotary, rows=self.rows,
                                         max_length=model.max_length, epsilon=s.epsilon, softmax_scale=s.softmax_scale,
                                         window=model.window(layer), dtype=model.dtype, device=self._machine.device,
                                         dependent=begins_early(self.rows * s.kv_heads))
        return self._by_kind[key]

    def _record(self, recipe: Recipe) -> Any:
        """Records the steps: a gap in each layer, where attention runs, and one in each layer of experts, where they are chosen."""
        steps, b = self._machine.steps(), self.buffers
        state = Stream(b.stream)
        for layer, attention in zip(self._model.layers, self._attentions):

            def attend(qkv: Tensor, out: Tensor, out_scale: Optional[Tensor]) -> Tensor:
                # `writes` protects weights that later steps read early; caches are none, and they move when they grow.
                _gap(steps, "attention", attention, (out,))
                return out

            def choose(logits: Tensor, ids: Tensor, weights: Tensor) -> Tuple[Tensor, Tensor]:
                _gap(steps, "choose", self._choose, (ids, weights))
                return ids, weights

            state = recipe.layer(steps, layer, state, b, attend, choose)
        recipe.end(steps, self._model.final_norm, self._model.head, state, b)
        return steps

    def body(self, mode: str) -> None:
        """Enqueues a token: embedding, parts of the chain with attention between them, the pick, the books."""
        b, books, chain = self.buffers, self.books, self.chain
        torch.index_select(self._model.embedding, 0, books.tokens, out=b.stream)
        if self._model.shape.embedding_scale != 1.0:
            b.stream.mul_(self._model.scale_of_embedding)
        part = 0
        for layer, attention, cache in zip(self._model.layers, self._attentions, self._caches.layers):
            chain.run(part)
            attention(b.qkv, *cache, books.slots, books.lengths, b.attended, q_norm=layer.q_norm, k_norm=layer.k_norm,
                      out_scale=None if layer.scales is None else layer.scales[1])
            part += 1
            if layer.router is not None:
                chain.run(part)
                self._choose(b.router, books.lengths, b.ids, b.weights)
                part += 1
        chain.run(part)
        self.pick(mode)

    def pick(self, mode: str) -> None:
        if mode == "greedy":
            self._enter_greedy(self.buffers.logits)
        else:
            self.books.enter(self.books.pick(self.buffers.logits, mode))

    def token(self, mode: str) -> Any:
        """Returns the captured token of a mode, made when first needed. All rows are inactive meanwhile."""
        version, made = self._tokens.get(mode, (-1, None))
        if version != self._caches.version:
            self.books.rest()
            made = self._machine.capture(self.chain, lambda: self.body(mode))
            self._tokens[mode] = (self._caches.version, made)
        return made


def _gap(steps: Any, name: str, kernel: Any, writes: Tuple[Tensor, ...]) -> None:
    """Adds a gap where the caller launches ``kernel``, which says what it promises."""
    steps.gap(name, writes=writes, waits=bool(kernel.waits), triggers=bool(kernel.triggers), nodes=int(kernel.nodes),
              programmatic_edges=int(getattr(kernel, "programmatic_edges", 0)))


def bucket_for(rows: int) -> int:
    return next(size for size in SIZES if size >= rows)
