# SPDX-License-Identifier: Apache-2.0
"""The own loops: what an arm gives (``Arm``, ``Program``), and the token that is measured. The embedding, the bf16 head, the greedy
choice and the state are the same in all of them.
"""
from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Callable, ContextManager, Optional

import torch.nn.functional as F
from torch import Tensor

from models import Model, State


@dataclasses.dataclass
class Program:
    """An arm of one batch.

    - ``hidden(count)``: a body of ``count`` layers: from the state's tokens to what the head reads.
    - ``weights``: the layers' weights, for their bytes.
    - ``layers(count)``: the same without the embedding; chains only. ``chain(count)``: that chain.
    - ``notes()``: what the record says besides, once the program has been built and captured.
    """

    hidden: Callable[[int], Callable[[], Tensor]]
    weights: Any
    layers: Optional[Callable[[int], Callable[[], Tensor]]] = None
    chain: Optional[Callable[[int], Any]] = None
    notes: Callable[[], dict] = dict


class Arm:
    """One way to decode. ``kind`` and ``accuracy``: as a Recipe's. ``seconds``: what building it takes on a GPU, roughly."""

    seconds = 12.0

    def __init__(self, name: str, kind: str, accuracy: str):
        self.name, self.kind, self.accuracy = name, kind, accuracy

    def scope(self) -> ContextManager:
        """Settings under which the program is built, captured and run."""
        return contextlib.nullcontext()

    def build(self, model: Model, state: State) -> Program:
        raise NotImplementedError


def token_body(model: Model, state: State, hidden: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """One token: layers, head, greedy choice; the state moves on. Returns the logits."""
    def body() -> Tensor:
        logits = F.linear(hidden(), model.head)
        chosen(state, logits)
        return logits
    return body


def chosen(state: State, logits: Tensor) -> None:
    """Greedy choice: the next tokens, and lengths one larger."""
    state.token.copy_(logits.argmax(-1))
    state.lengths.add_(1)


def embedded(model: Model, state: State) -> Tensor:
    return F.embedding(state.token, model.embedding)
