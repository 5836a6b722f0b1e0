# SPDX-License-Identifier: Apache-2.0
"""The parts of a token, each measured alone: attention, the head, and the choice of a token with the next embedding. With the layers
of a chain alone (cell.py) they say what a token costs besides its parts.
"""
from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from attend import Attention
from clocks import Contender, Loop, race
from loops import chosen, embedded
from models import BF16, Model, State


def parts(model: Model, state: State, contexts: list[int], rounds: int) -> dict[str, Any]:
    """Microseconds: ``head_us``, ``sampling_us``, ``attention_us`` of a layer by context (ordinary launches)."""
    cuda, sizes = model.device != "cpu", model.sizes
    x = torch.randn(state.batch, sizes.width, device=model.device, dtype=BF16)
    logits = F.linear(x, model.head)
    qkv = torch.randn(state.batch, sizes.shape("qkv")[0], device=model.device, dtype=BF16)
    attention = Attention(model, state, dependent=False)
    out = attention.new_out(static=False)

    def sampled() -> torch.Tensor:
        chosen(state, logits)
        return embedded(model, state)

    def attended() -> None:
        for caches, norms in zip(state.caches, model.head_norms):
            attention(qkv, *caches, out, *norms, None)
    state.begin(contexts[0])
    head, sampling = (Contender(Loop(body, cuda), lambda: state.begin(contexts[0])) for body in (lambda: F.linear(x, model.head), sampled))
    race([head, sampling], rounds)
    loop, found = Loop(attended, cuda), {}
    for context in contexts:
        one = Contender(loop, lambda context=context: state.begin(context))
        race([one], rounds)
        found[str(context)] = round(one.median() / model.layers, 2)
    return {"head_us": round(head.median(), 2), "sampling_us": round(sampling.median(), 2), "attention_us": found}
