#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares sluice with Marlin and Machete, vLLM's kernels for int4 weights and 16-bit tokens, called as vLLM
calls them.

    tools/int4_peers.py --wheel SMALL.whl bench/shapes/int4_*.txt --json FILE

Needs a Hopper GPU, torch, the Python package sluice (its library may be named by SLUICE_LIBRARY) and vLLM's
wheel, whole or made small by tools/vllm_library.py; vLLM is not installed. Lists have the lines of
`sluice bench --shapes`, with --weights int4, --group, --weight-scale and --dtype, both of one type.

All three get the same codes and scales (of the tokens' type, zero 8). Each is checked before it is timed: all
bits of sums of whole numbers, and real data within a bound of fp64. Then they race as peers.py says, cold L2
by copies of all operands. Machete has no groups of 32, and then the peer is Marlin alone.

SLUICE_COMMIT names the commit of the library, if that is not the one of this tree. Exit: 0, 1 a contender is
wrong or missing, 3 --seconds ran out before the last problem, 77 no GPU or torch.
"""
import dataclasses
import functools
import pathlib
import re
import sys
import time

import vllm_library
from machine import nvidia_smi
from peers import OURS, Entry, Race, Wanted, copies_for, head_of, launched_twice, measure, parser_of, plan_words, torch_here

SCHEMA = "sluice-int4-peers-1"
MOST_COPIES = 64
ZERO = 8
UINT4B8 = 4 << 8 | ZERO << 17 | 1 << 50  # vLLM's number of its type: 4 bits, bias 8, no special values
ROUNDING = {"fp16": 2.0 ** -11, "bf16": 2.0 ** -8}
# Largest allowed norm of all errors relative to the norm of all values, in units of a rounding. If weights
# and D are rounded once each, it is 0.58.
MOST_TOGETHER = 0.75
# The order in which Marlin stores the scales of 64 outputs.
SCALE_ORDER = [row + 8 * column for row in range(8) for column in range(8)]


@dataclasses.dataclass(frozen=True)
class Problem:
    list: str
    m: int
    n: int
    k: int
    group: int
    dtype: str

    @property
    def name(self) -> str:
        return f"{self.m}x{self.n}x{self.k} int4 g{self.group} {self.dtype}"


FORM = "MxNxK --weights int4 --group 32|64|128 --weight-scale T --dtype T, with T fp16 or bf16"
LINE = re.compile(r"(\d+)x(\d+)x(\d+) --weights int4 --group (32|64|128) --weight-scale (fp16|bf16) --dtype \5")


def problems_of(text: str, name: str) -> list[Problem]:
    """Returns the problems in a list's text. A line of another form is an error, so that no line is skipped silently."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        words = LINE.fullmatch(line)
        if not words:
            raise ValueError(f"{name}:{number}: {line!r} is not {FORM}")
        m, n, k, group = map(int, words.groups()[:4])
        if m < 1 or n % 128 or k % 128:
            raise ValueError(f"{name}:{number}: {line!r}: m must be at least 1, n and k multiples of 128, as Marlin and Machete need")
        found.append(Problem(name, m, n, k, group, words[5]))
    return found


@dataclasses.dataclass
class Data(Wanted):
    """Tokens and quantised weights (codes n x k, scales n x groups), and the expected result. `unit`: a rounding error of
    the tokens' type."""
    x: object
    codes: object
    scales: object
    unit: float

    @staticmethod
    def create(torch, p: Problem, whole: bool, device: str = "cuda") -> "Data":
        """Makes the data. `whole`: tokens are -1, 0 and 1 and scales are powers of two, so that all sums are exact."""
        generator = torch.Generator(device=device).manual_seed(int(whole))
        dtype, shape, unit = type_of(torch, p), (p.n, p.k // p.group), ROUNDING[p.dtype]
        codes = torch.randint(0, 16, (p.n, p.k), device=device, generator=generator, dtype=torch.uint8)
        if whole:
            x = torch.randint(-1, 2, (p.m, p.k), device=device, generator=generator).to(dtype)
            scales = torch.exp2(torch.randint(-1, 2, shape, device=device, generator=generator).float()).to(dtype)
        else:
            x = torch.randn((p.m, p.k), device=device, generator=generator).to(dtype)
            scales = (torch.rand(shape, device=device, generator=generator) * 0.02 + 0.01).to(dtype)
        wanted, magnitude = (torch.empty((p.m, p.n), dtype=torch.float64, device=device) for _ in range(2))
        for first in range(0, p.n, 2048):  # in steps, because fp64 weights of a whole layer may take 7 GB
            part = slice(first, first + 2048)
            w = (codes[part].double() - ZERO) * scales[part].double().repeat_interleave(p.group, 1)
            wanted[:, part], magnitude[:, part] = x.double() @ w.T, x.double().abs() @ w.abs().T
        if whole:
            return Data(*Wanted.exact(torch, wanted, dtype), x, codes, scales, unit)
        # D is rounded once, a weight at most twice; a sum loses a unit of fp32 for each product at worst.
        return Data(wanted, unit * wanted.abs() + (2.02 * unit + p.k * 2.0 ** -24) * magnitude, x, codes, scales, unit)

    def judge(self, d) -> float:
        """Returns the norm of all errors divided by the norm of all values, in units of a rounding."""
        together = float(super().judge(d).norm() / self.wanted.norm()) / self.unit
        if not together <= MOST_TOGETHER:
            raise ArithmeticError(f"errors of all elements together are {together:.2f} roundings, more than {MOST_TOGETHER}")
        return together


def type_of(torch, p: Problem):
    return {"fp16": torch.float16, "bf16": torch.bfloat16}[p.dtype]


def in_words(torch, codes):
    """Packs codes n x k into int32, k/8 x n: eight neighbours along k per word, lowest first, as in GPTQ's files."""
    words = torch.zeros((codes.shape[1] // 8, codes.shape[0]), dtype=torch.int32, device=codes.device)
    for i in range(8):
        words |= codes[:, i::8].t().to(torch.int32) << 4 * i
    return words


class Contender:
    """Has the library's operators. prepare() makes a contender's weights of the codes; launch() returns D."""

    def __init__(self, torch, p: Problem):
        self.torch, self.p, self.ops = torch, p, torch.ops._C

    @staticmethod
    def refuses(p: Problem) -> str:
        return ""


class Sluice(Contender):
    def __init__(self, torch, p: Problem):
        import sluice
        import sluice.torch as st
        self.sluice, self.st, self.p = sluice, st, p
        self.chosen_by, self.detail = plan_words(sluice.plan(problem_of(sluice, p), device=0))

    def prepare(self, data: Data) -> tuple:
        self.packed = self.sluice.pack(data.codes, data.scales, group=self.p.group)
        return (self.packed.blob,)

    def launch(self, x, operands: tuple, d):
        return self.st.packed_mm(x, dataclasses.replace(self.packed, blob=operands[0]), out=d)


def problem_of(sluice, p: Problem):
    return sluice.Problem(p.m, p.n, p.k, a=p.dtype, packed=sluice.WeightFormat("uint4", p.group, p.dtype))


class Marlin(Contender):
    """Calls Marlin as vLLM does: slices of split tiles summed in fp32, no atomics, no stored zeros, no act-order."""
    detail = "marlin_gemm"

    def __init__(self, torch, p: Problem):
        super().__init__(torch, p)
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        self.locks = torch.zeros(sms, dtype=torch.int32, device="cuda")
        self.none = torch.empty(0, dtype=torch.int32, device="cuda")

    @staticmethod
    def ordered(scales):
        """Converts scales from n x groups to Marlin's layout: groups x n, each 64 outputs in the order of its lanes."""
        by_group = scales.t().contiguous()
        return by_group.reshape(-1, 64)[:, SCALE_ORDER].reshape(by_group.shape).contiguous()

    def prepare(self, data: Data) -> tuple:
        words = self.ops.gptq_marlin_repack(in_words(self.torch, data.codes), self.none, self.p.k, self.p.n, 4, False)
        return words, self.ordered(data.scales)

    def launch(self, x, operands: tuple, d):
        words, scales = operands
        return self.ops.marlin_gemm(x, d, words, None, scales, None, None, self.none, self.none, self.none, self.locks, UINT4B8,
                                    self.p.m, self.p.n, self.p.k, True, False, True, False)


class Machete(Contender):
    """Calls Machete as vLLM does, so that it picks its schedule. It allocates D itself."""
    detail = "machete_mm"

    @staticmethod
    def refuses(p: Problem) -> str:
        return "vLLM gives Machete no groups of 32" if p.group == 32 else ""

    def prepare(self, data: Data) -> tuple:
        kind = data.x.dtype
        words = self.ops.machete_prepack_B(in_words(self.torch, data.codes).t().contiguous().t(), kind, UINT4B8, kind)
        return words, data.scales.t().contiguous()

    def launch(self, x, operands: tuple, d):
        words, scales = operands
        return self.ops.machete_mm(x, words, UINT4B8, None, scales, None, self.p.group, None, None, None)


CONTENDERS = {OURS: Sluice, "Marlin": Marlin, "Machete": Machete}


class Bench:
    """One problem: copies of tokens, D and each contender's weights."""

    def __init__(self, torch, p: Problem):
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.torch = torch
        self.whole, self.real = (Data.create(torch, p, whole) for whole in (True, False))
        self.copies = [(self.real.x.clone(), torch.empty((p.m, p.n), dtype=type_of(torch, p), device="cuda"))
                       for _ in range(min(MOST_COPIES, copies_for(p.n * p.k // 2, l2)))]
        self.contenders = {name: make(torch, p) for name, make in CONTENDERS.items() if not make.refuses(p)}
        self.weights: dict[str, list[tuple]] = {}
        self.seconds: dict[str, float] = {}

    def entries(self) -> list[Entry]:
        return [Entry(name, contender.detail, functools.partial(self.launch, name), functools.partial(self.check, name))
                for name, contender in self.contenders.items()]

    def launch(self, name: str, i: int) -> None:
        x, d = self.copies[i]
        self.contenders[name].launch(x, self.weights[name][i], d)

    def check(self, name: str) -> str:
        """Raises if a contender is wrong; else makes its weights for each copy."""
        contender, began = self.contenders[name], time.monotonic()
        for data in (self.whole, self.real):
            operands = contender.prepare(data)
            together = launched_twice(self.torch, self.copies[0][1], lambda d: contender.launch(data.x, operands, d), data.judge)
        self.seconds[name] = round(time.monotonic() - began, 2)
        self.weights[name] = [tuple(part.clone() for part in operands) for _ in self.copies]
        return f"whole numbers exact; real data within the bound, errors together {together:.2f} roundings"


def shape_json(torch, arguments, p: Problem) -> dict:
    """Checks and races all contenders at one problem."""
    bench = Bench(torch, p)
    contenders = Race(torch, len(bench.copies), arguments.rounds, arguments.rest_ms).run(bench.entries())
    contenders += [{"name": name, "verified": False, "refused": why} for name, make in CONTENDERS.items() if (why := make.refuses(p))]
    return {"name": p.name, "list": p.list, "chosen_by": bench.contenders[OURS].chosen_by, "copies": len(bench.copies),
            "problem": dataclasses.asdict(p), "check_seconds": bench.seconds,
            "telemetry": nvidia_smi(("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu")), "contenders": contenders}


def run(arguments, problems: list[Problem]) -> int:
    if (torch := torch_here()) is None:
        return 77
    import sluice
    versions = vllm_library.load(torch, arguments.wheel)
    sluice.compile([problem_of(sluice, p) for p in problems],
                   packers=[sluice.WeightFormat("uint4", *key) for key in sorted({(p.group, p.dtype) for p in problems})])
    head = head_of(torch, arguments, SCHEMA, versions | {"sluice": sluice.__version__})
    return measure(arguments, head, problems, functools.partial(shape_json, torch, arguments))


def main() -> int:
    parser = parser_of(__doc__, rounds=9, rest_ms=20.0, seconds=600.0)
    parser.add_argument("lists", type=pathlib.Path, nargs="+", help="files of problems")
    parser.add_argument("--wheel", type=pathlib.Path, required=True, help="vLLM's wheel, or what tools/vllm_library.py made of it")
    chosen = parser.parse_args()
    try:
        return run(chosen, [p for file in chosen.lists for p in problems_of(file.read_text(), file.stem)])
    except ValueError as why:
        parser.error(str(why))


if __name__ == "__main__":
    sys.exit(main())
