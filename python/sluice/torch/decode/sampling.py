# SPDX-License-Identifier: Apache-2.0
"""Picks tokens from logits and keeps the books of a generation, in torch operations on device tensors that a CUDA graph captures.

Sampled tokens are the largest of ``logits / temperature + noise``, where noise is Gumbel's (that is a draw from the softmax). The noise is
a hash of (seed, row, step, token). So the noise of a row depends neither on the batch nor on the bucket, and a seed gives it again.
"""
from __future__ import annotations

from typing import List, Optional

import torch
from torch import Tensor

MODES = ("greedy", "sample", "filter", "forced")
STOPS = 16  # the most stop tokens
_MIX = (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F)  # odd 32-bit constants
_LOW = 0xFFFFFFFF


def _mixed(x: Tensor, by: int) -> Tensor:
    """Returns a bijection of 32-bit numbers in int64, whose every output bit depends on all input bits after two calls."""
    x = (x ^ (x >> 16)) * by & _LOW
    return x ^ (x >> 15)


def noise(keys: Tensor, step: Tensor, tokens: Tensor) -> Tensor:
    """Returns Gumbel noise in fp32, rows x tokens. ``keys``: int64, one per row. ``step``: int64, one value. ``tokens``: int64, rows x
    tokens or one row."""
    row = _mixed(_mixed(keys + step * _MIX[0] & _LOW, _MIX[1]), _MIX[2])
    bits = _mixed(_mixed((tokens * _MIX[3] & _LOW) ^ row[:, None], _MIX[1]), _MIX[2])
    uniform = ((bits >> 9).float() + 0.5) * (1.0 / (1 << 23))  # in (0, 1), exactly
    return -torch.log(-torch.log(uniform))


def row_keys(seed: int, rows: int, device: object) -> Tensor:
    """Returns a key for each row."""
    numbers = torch.arange(rows, dtype=torch.int64)
    low, high = seed & _LOW, seed >> 32 & _LOW
    return _mixed(_mixed((numbers + 1) * _MIX[0] & _LOW ^ low, _MIX[1]) ^ high, _MIX[2]).to(device)


class Books:
    """The state of a bucket's generation. All are device tensors with fixed addresses.

    - ``tokens``: int64 [rows], the next input. ``lengths``: int32 [rows], how many tokens the cache holds; -1: the row is inactive.
    - ``made``: int64 [rows, most], the new tokens; ``step``: int64 [1], how many there are. ``finished``: bool [rows].
    """

    def __init__(self, rows: int, most: int, vocab: int, device: object) -> None:
        def new(*size: int, dtype: torch.dtype = torch.int64, fill: float = 0) -> Tensor:
            return torch.full(size, fill, dtype=dtype, device=device)

        self.tokens, self.lengths = new(rows), new(rows, dtype=torch.int32, fill=-1)
        self.slots = torch.arange(rows, dtype=torch.int32, device=device)
        self.made, self.step, self.finished = new(rows, most), new(1), new(rows, dtype=torch.bool, fill=1)
        self.stops, self.pad = new(STOPS, fill=-1), new(1)
        self.keys, self.temperature = new(rows), new(1, dtype=torch.float32, fill=1)
        self.top_k, self.top_p = new(1), new(1, dtype=torch.float32, fill=1)
        self.forced = new(rows, most)
        self._ids = torch.arange(vocab, dtype=torch.int64, device=device)[None]

    def begin(self, prompt_lengths: List[int], stops: List[int], pad: int, seed: int, temperature: float, top_k: int, top_p: float,
              forced: Optional[Tensor] = None) -> None:
        """Sets everything for prompts that are in the cache. Rows beyond them are inactive."""
        rows, live = self.tokens.shape[0], len(prompt_lengths)
        self.lengths.copy_(torch.tensor([n - 1 for n in prompt_lengths] + [-1] * (rows - live), dtype=torch.int32))
        self.finished.copy_(torch.tensor([False] * live + [True] * (rows - live)))
        self.stops.copy_(torch.tensor(stops + [-1] * (STOPS - len(stops))))
        self.tokens.fill_(0)
        self.made.fill_(pad)
        self.step.zero_()
        self.pad.fill_(pad)
        self.keys.copy_(row_keys(seed, rows, self.keys.device))
        self.temperature.fill_(temperature or 1.0)
        self.top_k.fill_(top_k or self._ids.shape[1])
        self.top_p.fill_(top_p)
        if forced is not None:
            self.forced[:live, :forced.shape[1]].copy_(forced)

    def rest(self) -> None:
        """Makes all rows inactive, so that a token changes nothing but the books."""
        self.begin([], [], 0, 0, 0.0, 0, 1.0)

    def pick(self, logits: Tensor, mode: str) -> Tensor:
        """Returns the next token of each row, int64."""
        if mode == "greedy":
            return logits.argmax(-1)
        if mode == "forced":
            return self.forced.gather(1, self.step.expand(logits.shape[0])[:, None])[:, 0]
        scaled = logits.float() / self.temperature
        if mode == "sample":
            return (scaled + noise(self.keys, self.step, self._ids)).argmax(-1)
        ordered, ids = torch.sort(scaled, dim=-1, descending=True, stable=True)
        ordered = ordered.masked_fill(self._ids >= self.top_k, -torch.inf)
        share = ordered.softmax(-1)
        before = share.cumsum(-1) - share  # 0 for the likeliest token, which always stays
        ordered = ordered.masked_fill(before >= self.top_p, -torch.inf)
        best = (ordered + noise(self.keys, self.step, ids)).argmax(-1, keepdim=True)
        return ids.gather(1, best)[:, 0]

    def enter(self, picked: Tensor) -> None:
        """Enters one token of each row, which is the next input. Rows that have finished get the padding token, which need not be one of
        the vocabulary, so it is no input."""
        self.tokens.copy_(picked)
        entered = torch.where(self.finished, self.pad, picked)
        self.made.scatter_(1, self.step.expand(picked.shape[0])[:, None], entered[:, None])
        self.step.add_(1)
        self.lengths.add_(1)
        self.finished.logical_or_((picked[:, None] == self.stops[None]).any(1))
        self.lengths.masked_fill_(self.finished, -1)
