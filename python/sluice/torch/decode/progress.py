# SPDX-License-Identifier: Apache-2.0
"""A progress bar on a terminal's standard error. It prints nothing if that is no terminal."""
from __future__ import annotations

import sys
import time
from typing import Any, Optional

_WIDTH, _EVERY_S = 30, 0.1


class Progress:
    """Counts steps: ``with Progress("packing", 32) as bar: bar.step()``. ``show`` None: on a terminal only."""

    def __init__(self, what: str, total: int, show: Optional[bool] = None, stream: Any = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._shown = bool(getattr(self._stream, "isatty", lambda: False)()) if show is None else show
        self._what, self._total, self._done = what, total, 0
        self._since, self._last = time.monotonic(), 0.0

    def __enter__(self) -> "Progress":
        self._draw()
        return self

    def step(self, count: int = 1) -> None:
        self._done += count
        if time.monotonic() - self._last >= _EVERY_S or self._done >= self._total:
            self._draw()

    def __exit__(self, *_: Any) -> None:
        if self._shown:
            self._stream.write("\n")
            self._stream.flush()

    def _draw(self) -> None:
        if not self._shown:
            return
        self._last = time.monotonic()
        share = self._done / self._total if self._total else 1.0
        bar = "#" * round(share * _WIDTH)
        self._stream.write(f"\r{self._what} [{bar:<{_WIDTH}}] {self._done} of {self._total}, {self._last - self._since:.0f} s")
        self._stream.flush()
