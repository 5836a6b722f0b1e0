# SPDX-License-Identifier: Apache-2.0
"""Arms of the layers of layers.py: as operations one after another, and as the steps of a chain with a gap in each layer, where attention
is launched.

``overlap``: "off" (one launch after another), "untuned" (weights first, no records) or "tuned" (records, or ``Chain.tune`` where
seconds are given). ``ordinary``: "untuned" with gaps that neither wait nor trigger; the kernels are the same, so both show what these
edges gain.
"""
from __future__ import annotations

import functools
from typing import Callable, Optional

import torch
from torch import Tensor

from attend import Attention
from layers import WEIGHTS, Now, Recorded, through
from loops import Arm, Program, embedded
from models import BF16, Model, State

OVERLAPS = {"off": "off", "untuned": "weights_first", "tuned": "tuned", "ordinary": "weights_first"}


class SluiceArm(Arm):
    """An arm of layers ``by`` a name of LAYERS."""

    seconds = 8.0

    def __init__(self, name: str, by: str):
        super().__init__(name, WEIGHTS[by].kind, WEIGHTS[by].accuracy)
        self.by = by

    def packed(self, model: Model) -> list:
        return model.packed(self.kind, WEIGHTS[self.by].pack)


class Ops(SluiceArm):
    """Operations of sluice.torch, run at once: no compiler, no chain."""

    def build(self, model: Model, state: State) -> Program:
        import sluice.torch as st
        s, packed, attention = Now(st), self.packed(model), Attention(model, state, dependent=False)

        def attended(i: int, qkv: Tensor, scale: Optional[Tensor] = None) -> Tensor:
            out = attention.new_out(scale is not None)
            attention(qkv, *state.caches[i], out, *model.head_norms[i], scale)
            return out
        return Program(lambda count: lambda: through(self.by, s, model, packed, embedded(model, state), count, attended), packed)


class Chained:
    """A chain of ``count`` layers and the last norm. ``input`` is what it reads, ``out`` what the head reads."""

    def __init__(self, arm: "ChainArm", model: Model, state: State, count: int, attention: Attention):
        from sluice.torch import Chain, Steps
        early, steps = arm.overlap not in ("off", "ordinary"), Steps()
        self.input = torch.empty(state.batch, model.sizes.width, device=model.device, dtype=BF16)
        self.attention, self.gaps = attention, []
        outs: dict[bool, Tensor] = {}

        def gap(i: int, qkv: Tensor, scale: Optional[Tensor] = None) -> Tensor:
            out = outs.setdefault(scale is not None, attention.new_out(scale is not None))
            steps.gap("attention", writes=attention.writes(i, out), waits=early, triggers=early, **attention.launches())
            self.gaps.append((qkv, *state.caches[i], out, *model.head_norms[i], scale))
            return out
        self.out = through(arm.by, Recorded(steps), model, arm.packed(model), self.input, count, gap)
        if arm.tune > 0 and OVERLAPS[arm.overlap] == "tuned":
            self.chain = Chain.tune(steps, arm.tune)
        else:
            self.chain = Chain(steps, overlap=OVERLAPS[arm.overlap])

    def run(self) -> Tensor:
        for part, of in enumerate(self.gaps):
            self.chain.run(part)
            self.attention(*of)
        self.chain.run(len(self.gaps))
        return self.out


class ChainArm(SluiceArm):
    """``tune``: seconds of ``Chain.tune`` for each chain, 0: the records that ship."""

    def __init__(self, name: str, by: str, overlap: str):
        super().__init__(name, by)
        self.overlap, self.tune = overlap, 0.0

    def build(self, model: Model, state: State) -> Program:
        attention = Attention(model, state, dependent=self.overlap not in ("off", "ordinary"))
        chained = functools.lru_cache(maxsize=None)(lambda count: Chained(self, model, state, count, attention))

        def hidden(count: int) -> Callable[[], Tensor]:
            one = chained(count)

            def body() -> Tensor:
                torch.index_select(model.embedding, 0, state.token, out=one.input)
                return one.run()
            return body
        def notes() -> dict:
            chain = chained(model.layers).chain
            told = {name: getattr(chain, name) for name in ("kernels", "programmatic_edges") if hasattr(chain, name)}
            return told | ({"tune_seconds": self.tune} if self.tune else {})
        return Program(hidden, self.packed(model), layers=lambda count: chained(count).run,
                       chain=lambda count: chained(count).chain, notes=notes)
