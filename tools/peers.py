# SPDX-License-Identifier: Apache-2.0
"""Races sluice and its peers through torch, and keeps the record. int4_peers.py and torch_rowwise.py say who runs.

Times are taken as by `sluice bench` (docs/performance.md). A contender is a CUDA graph of many launches over
copies in turn, cold in L2. Rounds are in turn, with a rest and an untimed replay before each. Each contender is
checked before it is timed. Names in records are those of bench/record.cc.
"""
import argparse
import dataclasses
import json
import math
import os
import pathlib
import sys
import time
from typing import Callable

from machine import commit, nvidia_smi

OURS = "sluice"
REPLAY_US = 3000.0
SCREEN_REPLAYS = 3
MAX_LAUNCHES = 2000
L2_TIMES = 3  # weights of all copies, as multiples of L2
OK, WRONG, CUT, IMPOSSIBLE = 0, 1, 3, 77


def quantile(values: list[float], q: float) -> float:
    """Linear between neighbours, as in sluice/run/quantiles.cc."""
    ranked = sorted(values)
    at = q * (len(ranked) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (at - low)


def launches_for(each_us: float, copies: int) -> int:
    """The launches that fill a replay, at least one for each copy."""
    return min(MAX_LAUNCHES, max(int(REPLAY_US / max(each_us, 0.5)), copies, 2))


def copies_for(weight_bytes: int, l2_bytes: int) -> int:
    return max(2, math.ceil(L2_TIMES * l2_bytes / weight_bytes))


def turns(count: int, round_index: int) -> list[int]:
    """The order of a round, rotated so that none always follows the hottest one."""
    return [(turn + round_index) % count for turn in range(count)]


def contender_json(name: str, detail: str, rounds: list[float], launches: int, verdict: str) -> dict:
    us = {key: round(quantile(rounds, q), 3) for key, q in (("median", 0.5), ("p10", 0.1), ("p90", 0.9))}
    return {"name": name, "detail": detail, "us": us, "launches": launches, "rounds": [round(us, 3) for us in rounds], "verified": True, "verdict": verdict}


@dataclasses.dataclass
class Wanted:
    """A right result in fp64, and the bound of each element's error; 0: every bit must be right."""
    wanted: object
    bound: object

    def judge(self, d):
        """Returns the errors. Raises ArithmeticError if `d` is wrong; NaN is wrong."""
        error = (d.double() - self.wanted).abs()
        wrong = ~(error <= self.bound)
        if bool(wrong.any()):
            raise ArithmeticError(f"{int(wrong.sum())} of {wrong.numel()} elements are wrong")
        return error

    @staticmethod
    def exact(torch, wanted, dtype) -> tuple:
        """The fields for sums of whole numbers, which D rounds once."""
        return wanted.to(dtype).double(), torch.zeros_like(wanted)


@dataclasses.dataclass
class Entry:
    """A contender in the race. `launch` takes the number of a copy; `check` raises if the contender is wrong, and
    returns the verdict."""
    name: str
    detail: str
    launch: Callable[[int], None]
    check: Callable[[], str]


@dataclasses.dataclass
class Race:
    """Times launches over so many copies of one problem's operands."""
    torch: object
    copies: int
    rounds: int
    rest_ms: float

    def capture(self, launch: Callable[[int], None], launches: int):
        torch = self.torch
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()  # not by torch.cuda.graph(), which collects garbage: 600 times a shape
        with torch.cuda.stream(stream):
            launch(0)
            stream.synchronize()
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for i in range(launches):
                    launch(i % self.copies)
            finally:
                graph.capture_end()
        return graph

    def replay_us(self, graph, launches: int) -> float:
        """The untimed replay wakes the clocks and keeps the queue full while the timed one is submitted."""
        torch = self.torch
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph.replay()
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) * 1000 / launches

    def screen(self, launch: Callable[[int], None]) -> float:
        launches = 2 * self.copies
        graph = self.capture(launch, launches)
        return min(self.replay_us(graph, launches) for _ in range(SCREEN_REPLAYS))

    def run(self, entries: list[Entry]) -> list[dict]:
        """Races all in turn, round after round. A wrong one is named and not timed."""
        graphs, wrong = [], []
        for entry in entries:
            try:
                verdict = entry.check()
                launches = launches_for(self.screen(entry.launch), self.copies)
                graphs.append((entry, self.capture(entry.launch, launches), launches, verdict))
            except Exception as why:
                wrong.append({"name": entry.name, "detail": entry.detail, "verified": False, "error": str(why)})
        times = [[] for _ in graphs]
        for index in range(self.rounds):
            for who in turns(len(graphs), index):
                time.sleep(self.rest_ms / 1000)
                times[who].append(self.replay_us(graphs[who][1], graphs[who][2]))
        return [contender_json(entry.name, entry.detail, each, launches, verdict)
                for (entry, _, launches, verdict), each in zip(graphs, times)] + wrong


def launched_twice(torch, like, launch: Callable, judge: Callable):
    """Judges two launches, because the second finds the state that the first left. D, or the memory that a contender
    allocates for it, is filled with NaN before."""
    for _ in range(2):
        d, freed = (torch.full_like(like, math.nan) for _ in range(2))
        del freed
        found = judge(launch(d))
    return found


def plan_words(plan) -> tuple[str, str]:
    """How a plan was chosen, and its kernel."""
    return plan.source, next(line.partition(" ")[2].strip() for line in plan.text.splitlines() if line.startswith("kernel"))


def faults(shapes: list[dict]) -> list[str]:
    return [f"{shape['name']}: {c['name']}: {c['error']}" for shape in shapes for c in shape["contenders"] if "error" in c]


def torch_here():
    """Returns torch. Returns None, and prints why, if it is missing or sees no Hopper GPU."""
    try:
        import torch
    except ImportError as why:
        print(f"not possible here: {why}")
        return None
    if not torch.cuda.is_available() or torch.cuda.get_device_capability(0) != (9, 0):
        print("not possible here: torch sees no Hopper GPU")
        return None
    return torch


def head_of(torch, arguments: argparse.Namespace, schema: str, versions: dict, **method: str) -> dict:
    """The head of a record: machine, versions, method."""
    gpu = nvidia_smi(("name", "driver_version", "power.limit", "clocks.max.sm", "clocks.max.mem"))
    return {"schema": schema, "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "command": " ".join([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]), "commit": commit(),
            "machine": {"gpu": torch.cuda.get_device_name(0), "cpus": os.cpu_count(), "nvidia_smi": gpu},
            "versions": {"python": sys.version.split()[0], "torch": torch.__version__, **versions, "cuda": torch.version.cuda},
            "method": {"mode": "cold", "rounds": arguments.rounds, "rest_ms": arguments.rest_ms, "replay_us": REPLAY_US, "l2_times": L2_TIMES,
                       "fill": "normal", **method}}


def measure(arguments: argparse.Namespace, head: dict, problems: list, shape_of: Callable) -> int:
    """Races problem after problem until the time is up, and returns the exit status. The record is written after each
    shape, because a machine may be taken away; tools/report.py makes tables of it."""
    end, shapes = time.monotonic() + arguments.seconds, []
    for problem in problems:
        if time.monotonic() > end:
            break
        if sys.stderr.isatty():
            print(f"\r\x1b[K{len(shapes)}/{len(problems)} {problem}"[:160], end="", file=sys.stderr, flush=True)
        shapes.append(shape_of(problem))
        if arguments.json:
            arguments.json.write_text(json.dumps({**head, "cut": len(problems) - len(shapes), "shapes": shapes}, indent=1) + "\n")
    print("\n".join([*faults(shapes), f"{len(shapes)} of {len(problems)} problems"]))
    return WRONG if faults(shapes) else CUT if len(shapes) < len(problems) else OK


def parser_of(text: str, rounds: int, rest_ms: float, seconds: float) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", "--out", type=pathlib.Path, help="where the record goes")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--rest-ms", type=float, default=rest_ms)
    parser.add_argument("--seconds", type=float, default=seconds, help=f"begin no problem later than this (default {seconds:g})")
    return parser
