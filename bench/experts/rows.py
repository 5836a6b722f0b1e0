# SPDX-License-Identifier: Apache-2.0
"""Times fp8 products of groups with a scale per row and per column beside CUTLASS and torch: cold weights, CUDA graphs, in turns.

    PYTHONPATH=python python bench/experts/rows.py OUT.json [--ops _C_stable_libtorch.abi3.so] [--seconds 240] [--only few|many]

The file of --ops is that of vLLM 0.20.2's wheel, whose cutlass_moe_mm is its grouped GEMM of CUTLASS; without it the peer is left out. Its
kernels for Hopper take such scales or one per tensor. The ones for block scales are for Blackwell alone, so products.py cannot have them.
torch is torch._scaled_grouped_mm. Both sum in the tensor cores alone, and so does "sluice, fast sums"; "sluice" adds up in fp32.

Groups are equal, and problems those of products.py. The peer's table of sizes is there before; its kernel that makes pointers is part of
its op. `floor_us` is bytes at 4.5 TB/s, or flops at 1685 TFLOP/s. `difference` is that of the last group from the product of dequantised
codes. Copies of weights are equal.
"""
import pathlib
import sys

import torch

import sluice.torch as st
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from products import BF16, FEW, FP8_RATE, MANY, MOST_COPIES, arguments_of, cases_of, copies_of, floor_of, measured, walk

SWAPPED_ROWS = 64  # up to so many rows in all, the peer computes the transpose, and takes sizes in that order


class Case:
    """One problem, with copies of its weights that together are larger than L2."""

    def __init__(self, groups, rows, n, k):
        self.groups, self.rows, self.n, self.k = groups, rows, n, k
        self.x, scale = st.quantize(torch.randn(groups * rows, k, device="cuda", dtype=BF16), "row")
        self.scale_x = scale.view(-1)
        codes, scales = st.quantize(torch.randn(groups, n, k, device="cuda", dtype=BF16) / k**0.5, "row")
        self.scale_w = scales.view(groups, n)
        self.w = [codes] + [codes.clone() for _ in range(copies_of(codes.numel(), MOST_COPIES) - 1)]
        self.ends = torch.arange(1, groups + 1, device="cuda", dtype=torch.int32) * rows
        self.d = torch.empty(groups * rows, n, device="cuda", dtype=BF16)

    def sluice(self, i, fast=False):
        return st.scaled_grouped_mm(self.x, self.w[i].transpose(1, 2), self.scale_x, self.scale_w, self.ends, use_fast_accum=fast,
                                    out=self.d)

    def torch(self, i):
        return torch._scaled_grouped_mm(self.x, self.w[i].transpose(1, 2), self.scale_x, self.scale_w, self.ends, out_dtype=BF16,
                                        use_fast_accum=True)

    def cutlass(self):
        """Returns the peer's call, with a result of its own."""
        def numbers(*values, dtype):
            return torch.tensor(values, device="cuda", dtype=dtype).repeat(self.groups, 1)

        swapped = self.groups * self.rows <= SWAPPED_ROWS
        sizes = numbers(*((self.n, self.rows) if swapped else (self.rows, self.n)), self.k, dtype=torch.int32)
        pitch, pitch_d = (numbers(columns, dtype=torch.int64).view(-1) for columns in (self.k, self.n))
        starts = torch.arange(self.groups, device="cuda", dtype=torch.int64) * self.rows
        scale_x, d = self.scale_x.view(-1, 1), torch.empty_like(self.d)

        def call(i):
            torch.ops._C.cutlass_moe_mm(d, self.x, self.w[i], scale_x, self.scale_w, starts, sizes, pitch, pitch, pitch_d, True, True)
            return d

        return call

    def difference(self, made):
        """Returns that of the last group's rows of ``made``."""
        x = self.x[-self.rows:].float() * self.scale_x[-self.rows:, None]
        wanted = x @ (self.w[0][-1].float() * self.scale_w[-1, :, None]).t()
        return ((made[-self.rows:].float() - wanted).norm() / wanted.norm()).item()


def run(with_peer, kind, **size):
    """Returns what is measured of one case of the list ``kind``. Raises if ours differs."""
    case = Case(**size)
    calls = {"sluice": case.sluice, "sluice, fast sums": lambda i: case.sluice(i, True), "torch": case.torch}
    if with_peer:
        calls["CUTLASS (vLLM)"] = case.cutlass()
    record = measured({name: (call, len(case.w)) for name, call in calls.items()})
    differences = {name: case.difference(calls[name](0)) for name in record["us"]}
    if not all(value < 0.01 for name, value in differences.items() if name.startswith("sluice")):
        raise AssertionError(f"results differ: {differences}")
    return record | {"difference": differences, "floor_us": floor_of(1, FP8_RATE, **size)}


def main():
    lists = {"few": FEW, "many": MANY}
    arguments = arguments_of(__doc__, list(lists), "--ops")
    if arguments.ops:
        torch.ops.load_library(arguments.ops)
    walk(arguments.out, arguments.seconds, cases_of(lists, arguments.only), lambda **case: run(arguments.ops is not None, **case))


if __name__ == "__main__":
    main()
