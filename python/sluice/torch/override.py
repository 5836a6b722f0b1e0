# SPDX-License-Identifier: Apache-2.0
"""``override``: sends torch's own ``_scaled_mm``, ``_grouped_mm`` and ``_scaled_grouped_mm`` to sluice where sluice is right and faster,
and to torch's kernel elsewhere.

Each part is testable without a GPU. _override_route.py is the mechanism: registration, decisions, counts. _override_dense.py and
_override_groups.py say of each op how its calls are read, judged and computed. _override_reasons.py has the reasons why torch computes a
call. This file has what users enter. docs/override.md is its page.
"""
from __future__ import annotations

import math
from typing import Optional

import torch
from torch import Tensor

from .._arguments import shown
from ..errors import InvalidArgument
from ..plans import Rows, plan
from . import _override_dense, _override_groups
from ._entry import checked
from ._override_route import Counts, Route, Rule


def _on_one_hopper(*tensors: Tensor) -> bool:
    device = tensors[0].device
    return all(tensor.is_cuda and tensor.device == device for tensor in tensors) and torch.cuda.get_device_capability(device) == (9, 0)


# ---- what users enter
class override:  # noqa: N801 - it is entered like torch.no_grad
    """Sends ``torch._scaled_mm`` on Hopper GPUs to sluice, where sluice computes the same and was measured to be no slower, and with
    ``min_gain=0`` also ``torch._grouped_mm`` and ``torch._scaled_grouped_mm``. All else goes to torch, as before. It holds for all
    threads of the process, in eager calls, compiled graphs, CUDA graphs and backwards.

    >>> with st.override():
    ...     y = model(x)            # torchao's fp8 layers, or any code that calls torch._scaled_mm
    >>> st.override().enable()      # until disable(), or the end of the process
    >>> print(st.override.counts())

    - ``min_gain``: a call is taken if on no measured product of its kind torch's time divided by sluice's was below this. By default
      sluice lost at most 2 % on any. 1.0: only kinds on which it never lost. 0: all that it can compute. Products of groups were not
      measured, so only 0 takes them.
    - ``rows``: the least and the largest m that are taken, like ``(1, 64)``; None: all. For groups m is the rows of all groups. A new m
      may compile a kernel, for half a second; ``sluice.prepare(problem, m=(1, 64))`` does that before.

    Overrides may be nested; the last one entered decides. Results have sluice's bits (docs/numerics.md), so they may differ from torch's
    within the products' bounds. Raises ``InvalidArgument`` for a ``min_gain`` below 0 and for ``rows`` that are no range, and under a
    PyTorch before 2.11.
    """

    route = Route("CUDA", (_override_dense.CALLS, _override_groups.CALLS, _override_groups.SCALED_CALLS), _on_one_hopper,
                  lambda problem, device: plan(problem, device=device).source)

    @checked
    def __init__(self, *, min_gain: float = 0.98, rows: Optional[Rows] = None) -> None:
        if not min_gain >= 0:
            raise InvalidArgument(f"override: min_gain = {shown(min_gain)} must be at least 0: 0 takes all that sluice can compute")
        bounds = (1, math.inf) if rows is None else (rows[0], rows[-1]) if len(rows) else (1, 0)
        if not 0 < bounds[0] <= bounds[1]:
            raise InvalidArgument(f"override: rows = {shown(rows)} must be the least and the largest m, like (1, 64)")
        self._rule = Rule(float(min_gain), bounds, {})

    def enable(self) -> "override":
        """Turns the override on, once more if it is on already. Returns itself."""
        self.route.enter(self, self._rule)
        return self

    def disable(self) -> None:
        """Turns off what one ``enable`` turned on. Raises ``InvalidArgument`` if none is left. From the last one on, calls go straight
        to torch; each eager one costs about 2 us more than before the first ``enable``."""
        self.route.leave(self)

    def __enter__(self) -> "override":
        return self.enable()

    def __exit__(self, *_: object) -> None:
        self.disable()

    @classmethod
    def counts(cls) -> Counts:
        """Returns how many calls were taken, and how many torch computed, by reason. A replay of a CUDA graph is no call."""
        return cls.route.counts()

    @classmethod
    def reset_counts(cls) -> None:
        """Sets all counts to 0."""
        cls.route.reset_counts()
