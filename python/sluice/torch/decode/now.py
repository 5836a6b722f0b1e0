# SPDX-License-Identifier: Apache-2.0
"""The methods of st.Steps as calls that run at once, for prompts. ``functions`` is sluice.torch, or a twin of it in the tests. Outputs are
new; the arguments of a recording (out, sum, scales, name) are None or ignored."""
from __future__ import annotations

import functools
from typing import Any, Optional

from torch import Tensor

GATED_ROWS = 128  # tokens of 16 bits up to which a packed product is gated
_OF_EXPERTS = ("route", "gather", "combine")
_OF_RECORDING = ("out", "sum", "scales", "name")


class Now:
    def __init__(self, functions: Any) -> None:
        self._st = functions

    def __getattr__(self, name: str) -> Any:
        """Returns the function of a step's name, which runs at once."""
        made = functools.partial(_run, getattr(self._st.moe if name in _OF_EXPERTS else self._st, name))
        setattr(self, name, made)
        return made

    def packed_mm(self, x: Tensor, packed: Any, bias: Optional[Tensor] = None, *, gated: bool = False, activation: Optional[str] = None,
                  **more: Any) -> Tensor:
        """Runs the product; a gated one of more rows than its kernels have as two, one for each half of the weights."""
        if gated and x.shape[0] > GATED_ROWS:
            gate, up = packed.halves()
            of_gate, of_up = (None, None) if bias is None else bias.chunk(2)
            return self._st.packed_mm(x, gate, of_gate, activation=activation).mul_(self._st.packed_mm(x, up, of_up))
        return _run(self._st.packed_mm, x, packed, bias, gated=gated, activation=activation, **more)


def _run(function: Any, *arguments: Any, **named: Any) -> Any:
    return function(*arguments, **{name: value for name, value in named.items() if name not in _OF_RECORDING})


def rows_for(tokens: int) -> int:
    """Returns the number of rows that a prompt is padded to: powers of two from 16 to 512, then multiples of 512. So few problems are
    planned and compiled."""
    if tokens > 512:
        return -(-tokens // 512) * 512
    return max(16, 1 << (tokens - 1).bit_length())
