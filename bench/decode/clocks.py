# SPDX-License-Identifier: Apache-2.0
"""A token as one CUDA graph, and times of such graphs in turn: round after round, each contender has a window of replays."""
from __future__ import annotations

import dataclasses
import statistics
import time
from typing import Any, Callable, Optional

import torch

from machine import nvidia_smi

WARM_UPS, WINDOW_US, LEAST, MOST = 3, 16e3, 4, 16  # a window has from LEAST to MOST replays, about WINDOW_US of them


class Loop:
    """``body`` as one CUDA graph; on a CPU a plain call. ``graph`` is None there."""

    def __init__(self, body: Callable[[], Any], cuda: bool):
        self.body, self.cuda, self.graph = body, cuda, None
        with torch.no_grad():
            if not cuda:
                self.result = body()
                return
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARM_UPS):
                    body()
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph(keep_graph=True)
            with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
                self.result = body()

    def run(self) -> Any:
        """Runs it once; returns the body's result, which the next run overwrites."""
        if self.graph is None:
            with torch.no_grad():
                self.result = self.body()
        else:
            self.graph.replay()
        return self.result


@dataclasses.dataclass
class Contender:
    """A loop in a race. ``reset`` comes before each window, untimed; ``us`` are the medians of its windows."""

    loop: Loop
    reset: Callable[[], None] = lambda: None
    us: list[float] = dataclasses.field(default_factory=list)
    replays: int = LEAST

    def window(self) -> float:
        """Microseconds of a replay in one window. An untimed replay keeps the queue full while the timed ones are submitted."""
        self.reset()
        if not self.loop.cuda:
            since = time.perf_counter()
            self.loop.run()
            return (time.perf_counter() - since) * 1e6
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.loop.run()
        self.reset()
        begin.record()
        for _ in range(self.replays):
            self.loop.run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / self.replays

    def median(self) -> float:
        return statistics.median(self.us)


def race(contenders: list[Contender], rounds: int) -> None:
    """Times all in turn; a round begins one place later than the one before."""
    for contender in contenders:
        least = contender.window()
        contender.replays = max(LEAST, min(MOST, int(WINDOW_US / max(least, 1.0))))
    for index in range(rounds):
        for turn in range(len(contenders)):
            contender = contenders[(turn + index) % len(contenders)]
            contender.us.append(contender.window())


def sm_mhz(contender: Contender, seconds: float = 0.25) -> Optional[int]:
    """The SM clock while replays are queued; None where no driver tells it."""
    if not contender.loop.cuda:
        return None
    for _ in range(max(1, int(seconds * 1e6 / max(contender.median(), 1.0) / MOST))):
        contender.reset()
        for _ in range(MOST):
            contender.loop.run()
    told = nvidia_smi(("clocks.sm",)).get("clocks.sm", "")
    torch.cuda.synchronize()
    return int(told) if told.isdigit() else None


def alone_us(body: Callable[[], Any], cuda: bool, rounds: int) -> float:
    """Microseconds of a body alone."""
    contender = Contender(Loop(body, cuda))
    race([contender], rounds)
    return contender.median()
