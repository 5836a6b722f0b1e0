# SPDX-License-Identifier: Apache-2.0
"""The router of a layer of experts behind its product: each row's experts and their weights out of the logits, in one Triton kernel. It
runs in a gap of the chain, and keeps both promises of one (docs/chain-gaps.md)."""
from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _choose(logits, lengths, ids, weights, pitch, experts, CHOSEN: tl.constexpr, ROUNDED: tl.constexpr, WIDTH: tl.constexpr,
            RENORMALISED: tl.constexpr, DEPENDENT: tl.constexpr):
    if DEPENDENT:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row = tl.program_id(0)
    e, j = tl.arange(0, WIDTH), tl.arange(0, ROUNDED)
    value = tl.load(logits + row.to(tl.int64) * pitch + e, mask=e < experts, other=-float("inf")).to(tl.float32)
    share = tl.exp(value - tl.max(value, 0))
    share = share / tl.sum(share, 0)
    share = tl.where(e < experts, share, -1.0)  # never chosen
    found = tl.full([ROUNDED], -1, tl.int32)
    weight = tl.zeros([ROUNDED], tl.float32)
    for place in tl.static_range(CHOSEN):
        best = tl.max(share, 0)
        at = tl.min(tl.where(share == best, e, WIDTH), 0)  # the first of equal ones; WIDTH if all are NaN
        found = tl.where(j == place, at, found)
        weight = tl.where(j == place, best, weight)
        share = tl.where(e == at, -1.0, share)
    if RENORMALISED:
        weight = weight / tl.sum(weight, 0)
    rests = tl.load(lengths + row) < 0
    found = tl.where(rests | (found >= experts), -1, found)
    tl.store(ids + row * CHOSEN + j, found, mask=j < CHOSEN)
    tl.store(weights + row * CHOSEN + j, weight, mask=j < CHOSEN)


class Router:
    """Chooses experts for the rows of a bucket, in one launch. Rows that rest (``lengths`` below 0) and rows of NaN get the ids -1, which
    cost nothing."""

    nodes = 1

    def __init__(self, rows: int, experts: int, chosen: int, renormalised: bool, dependent: bool = True) -> None:
        self._rows, self._experts, self._chosen, self._renormalised = rows, experts, chosen, renormalised
        self.waits = self.triggers = dependent

    def __call__(self, logits: Tensor, lengths: Tensor, ids: Tensor, weights: Tensor) -> None:
        """``logits``: rows x experts, rows may be pitched. ``ids``: int32, and ``weights``: fp32, both rows x chosen, are written."""
        more = {"launch_pdl": True} if self.waits else {}
        _choose[(self._rows,)](logits, lengths, ids, weights, logits.stride(0), self._experts, CHOSEN=self._chosen,
                               ROUNDED=triton.next_power_of_2(self._chosen), WIDTH=triton.next_power_of_2(self._experts),
                               RENORMALISED=self._renormalised, DEPENDENT=self.waits, num_warps=1 if self._experts <= 256 else 4, **more)
