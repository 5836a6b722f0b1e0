# SPDX-License-Identifier: Apache-2.0
"""Greedy tokens in one Triton kernel: the largest logit of each row, and the books of sampling.py. In torch operations the same takes
about a dozen launches per token.

Some CTAs share a row's logits. The last of them to arrive enters the row's token, and the last row counts the step.
"""
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .sampling import STOPS, Books

BLOCK = 4096  # logits that a CTA reads at once
CTAS = 264  # two on each SM of H100 and H200


@triton.jit
def _enter_best(logits, pitch, vocab, values, places, tickets, tokens, made, most, step, lengths, finished, stops, pad, rows,
                SPLITS: tl.constexpr, ROUNDED: tl.constexpr, WIDTH: tl.constexpr, STOP_COUNT: tl.constexpr, DEPENDENT: tl.constexpr):
    if DEPENDENT:
        tl.extra.cuda.gdc_wait()
    split, row = tl.program_id(0), tl.program_id(1)
    each = tl.cdiv(tl.cdiv(vocab, SPLITS), WIDTH) * WIDTH
    best = tl.full([WIDTH], -float("inf"), tl.float32)
    place = tl.full([WIDTH], 0, tl.int32)
    for start in range(split * each, tl.minimum(split * each + each, vocab), WIDTH):
        at = start + tl.arange(0, WIDTH)
        value = tl.load(logits + row.to(tl.int64) * pitch + at, mask=at < vocab, other=-float("inf")).to(tl.float32)
        better = value > best
        best = tl.where(better, value, best)
        place = tl.where(better, at, place)
    top = tl.max(best, 0)
    first = tl.min(tl.where(best == top, place, vocab), 0)  # the first of equal logits, as argmax takes
    tl.store(values + row * SPLITS + split, top)
    tl.store(places + row * SPLITS + split, first)
    tl.debug_barrier()
    if tl.atomic_add(tickets + row, 1, sem="acq_rel", scope="gpu") == SPLITS - 1:
        s = tl.arange(0, ROUNDED)
        value = tl.load(values + row * SPLITS + s, mask=s < SPLITS, other=-float("inf"), cache_modifier=".cg")
        found = tl.load(places + row * SPLITS + s, mask=s < SPLITS, other=vocab, cache_modifier=".cg")
        picked = tl.min(tl.where(value == tl.max(value, 0), found, vocab), 0)
        picked = tl.where(picked < vocab, picked, 0)  # all are NaN
        now = tl.load(step)
        ended = tl.load(finished + row) != 0
        entered = tl.where(ended, tl.load(pad), picked.to(tl.int64))
        tl.store(made + row.to(tl.int64) * most + now, entered)
        tl.store(tokens + row, picked.to(tl.int64))
        stop = tl.load(stops + tl.arange(0, STOP_COUNT))
        ended = ended | (tl.max((stop == picked).to(tl.int32), 0) != 0)
        tl.store(finished + row, ended.to(tl.uint8))
        tl.store(lengths + row, tl.where(ended, -1, tl.load(lengths + row) + 1))
        tl.store(tickets + row, 0)
        tl.debug_barrier()
        if tl.atomic_add(tickets + rows, 1, sem="acq_rel", scope="gpu") == rows - 1:
            tl.store(step, now + 1)
            tl.store(tickets + rows, 0)


class Greedy:
    """Does ``books.enter(books.pick(logits, "greedy"))`` in one launch. Logits may be pitched rows. A row of NaN takes token 0."""

    def __init__(self, books: Books, rows: int, device: object, dependent: bool = True) -> None:
        self._books, self._rows, self._dependent = books, rows, dependent
        self._splits = max(1, min(32, CTAS // rows))
        self._values = torch.zeros(rows, self._splits, dtype=torch.float32, device=device)
        self._places = torch.zeros(rows, self._splits, dtype=torch.int32, device=device)
        self._tickets = torch.zeros(rows + 1, dtype=torch.int32, device=device)

    def enter(self, logits: Tensor) -> None:
        b = self._books
        more = {"launch_pdl": True} if self._dependent else {}
        _enter_best[(self._splits, self._rows)](
            logits, logits.stride(0), logits.shape[1], self._values, self._places, self._tickets, b.tokens, b.made, b.made.shape[1], b.step,
            b.lengths, b.finished.view(torch.uint8), b.stops, b.pad, self._rows, SPLITS=self._splits,
            ROUNDED=triton.next_power_of_2(self._splits), WIDTH=BLOCK, STOP_COUNT=STOPS, DEPENDENT=self._dependent, num_warps=8, **more)
