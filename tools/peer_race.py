# SPDX-License-Identifier: Apache-2.0
"""Times contenders that torch launches, as `sluice bench` does (docs/performance.md). Each is a CUDA graph of
many launches over copies in turn. Rounds are in turn, with a rest and an untimed replay before each.
triton_sweep.py and int4_peers.py race here.
"""
import dataclasses
import importlib
import os
import sys
import time
from typing import Callable

from triton_record import contender_json, launches_for, nvidia_smi, turns

ROUNDS, REST_MS, REPLAY_US = 9, 20.0, 3000.0
SCREEN_REPLAYS = 3


def torch_with_gpu(*others: str):
    """Imports torch and the other modules, and returns torch. Returns None, and prints why, if one is missing or torch sees no GPU."""
    try:
        torch, *_ = [importlib.import_module(name) for name in ("torch", *others)]
    except ImportError as why:
        print(f"not possible here: {why}")
        return None
    if not torch.cuda.is_available():
        print("not possible here: torch sees no GPU")
        return None
    return torch


@dataclasses.dataclass
class Entry:
    """A contender: a name, its detail, and launch(copy)."""
    name: str
    detail: str
    launch: Callable[[int], None]


@dataclasses.dataclass
class Clock:
    """Times launches over `copies` of one problem's operands."""
    torch: object
    copies: list

    def capture(self, launch: Callable[[int], None], launches: int):
        torch = self.torch
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()  # not torch.cuda.graph(), which collects garbage, 600 times per shape
        with torch.cuda.stream(stream):
            launch(0)
            stream.synchronize()
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for i in range(launches):
                    launch(i % len(self.copies))
            finally:
                graph.capture_end()
        return graph

    def replay_us(self, graph, launches: int) -> float:
        """Returns the time of a launch in a replay. The untimed replay before it raises the clocks, and keeps
        the queue full while the timed one is submitted."""
        torch = self.torch
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph.replay()
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) * 1000 / launches

    def screen(self, launch: Callable[[int], None]) -> float:
        launches = 2 * len(self.copies)
        graph = self.capture(launch, launches)
        return min(self.replay_us(graph, launches) for _ in range(SCREEN_REPLAYS))


def race(clock: Clock, entries: list[Entry], check: Callable[[Entry], str]) -> list[dict]:
    """Times all contenders in turn, round after round. `check` raises for a wrong one; that is reported and
    not timed."""
    graphs, results, timed = [], {}, []
    for entry in entries:
        try:
            verdict = check(entry)
            launches = launches_for(clock.screen(entry.launch), len(clock.copies), REPLAY_US)
            graphs.append((entry, clock.capture(entry.launch, launches), launches, verdict))
        except Exception as why:
            results[entry.name] = {"name": entry.name, "detail": entry.detail, "verified": False, "error": str(why)}
    rounds = [[] for _ in graphs]
    for index in range(ROUNDS):
        for who in turns(len(graphs), index):
            time.sleep(REST_MS / 1000)
            rounds[who].append(clock.replay_us(graphs[who][1], graphs[who][2]))
    for (entry, _, launches, verdict), times in zip(graphs, rounds):
        timed.append(contender_json(entry.name, entry.detail, times, launches, verdict))
    return timed + list(results.values())


def machine_json(torch, **versions: str) -> dict:
    gpu = nvidia_smi(("name", "driver_version", "power.limit", "clocks.max.sm", "clocks.max.mem"))
    return {"machine": {"gpu": torch.cuda.get_device_name(0), "cpus": os.cpu_count(), "nvidia_smi": gpu},
            "versions": {"python": sys.version.split()[0], "torch": torch.__version__, **versions, "cuda": torch.version.cuda}}
