# SPDX-License-Identifier: Apache-2.0
"""The Triton kernels of triton_sweep.py: D (m x n, bf16) = scale_a * scale_b * A (m x k) W^T (n x k), e4m3,
optionally split along k. Written for few tokens. Importing this needs torch and Triton.
"""
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from triton_configs import Config, kernels_of

SMALL, LARGE = 256, 1024  # elements of D that one CTA finishes
FEW = 1 << 17  # elements of D up to which the small block fills the GPU better


def finish_block(count: int, way: str) -> int:
    """A thread must clear the places that it has read, which is sure only with the small block: 256 elements
    give it two in each layout. With 1024 Triton gives 4 to a load of fp32 and 8 to a store of bf16. In the
    record of 2fb7ff2 exactly the atomic splits with that block (D above FEW, 48 tokens on) were wrong, and no
    other. Why the barrier between does not help is unknown, and the cure is not yet tested on a GPU."""
    return SMALL if count <= FEW or way == "atomic" else LARGE


@triton.jit(do_not_specialize=["m"])
def multiply(a, w, d, scale_a, scale_b, m, n, k, k_of_split, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
             BLOCK_K: tl.constexpr, WEIGHTS_FIRST: tl.constexpr, TMA: tl.constexpr, WAY: tl.constexpr):
    """Computes one tile, or a slice of its k. `a` and `w` are pointers or, with TMA, tensor descriptors. Rows
    past m are zeros; n and k are whole blocks."""
    first_m = tl.program_id(1) * BLOCK_M
    first_n = tl.program_id(0) * BLOCK_N
    split = tl.program_id(2)
    rows = first_m + tl.arange(0, BLOCK_M)
    columns = first_n + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    first_k = split * k_of_split
    if WEIGHTS_FIRST:
        sums = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    else:
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for at in range(first_k, first_k + k_of_split, BLOCK_K):
        if TMA:
            a_tile = a.load([first_m, at])
            w_tile = w.load([first_n, at])
        else:
            a_tile = tl.load(a + rows[:, None] * k + (at + inner)[None, :], mask=rows[:, None] < m, other=0.0)
            w_tile = tl.load(w + columns[:, None] * k + (at + inner)[None, :])
        if WEIGHTS_FIRST:
            sums = tl.dot(w_tile, a_tile.T, sums)
        else:
            sums = tl.dot(a_tile, w_tile.T, sums)
    if WEIGHTS_FIRST:
        sums = sums.T
    places = rows[:, None] * n + columns[None, :]
    inside = rows[:, None] < m
    if WAY == "direct":
        scale = tl.load(scale_a) * tl.load(scale_b)
        tl.store(d + places, (sums * scale).to(tl.bfloat16), mask=inside)
    elif WAY == "atomic":
        tl.atomic_add(d + places, sums, mask=inside, sem="relaxed")
    else:
        tl.store(d + split * m * n + places, sums, mask=inside)


@triton.jit
def finish(partials, d, scale_a, scale_b, count, SLOTS: tl.constexpr, CLEARS: tl.constexpr, BLOCK: tl.constexpr):
    """Adds up the slots in order, scales and rounds. After atomics there is one slot, which is zeroed for the
    next launch; that is cheaper than a separate launch."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    sums = tl.zeros((BLOCK,), tl.float32)
    for slot in tl.static_range(SLOTS):
        sums += tl.load(partials + slot * count + places, mask=inside, other=0.0)
    if CLEARS:
        # Waits until every thread of the block has read, because another thread may read the place that this
        # one clears.
        tl.debug_barrier()
        tl.store(partials + places, tl.zeros((BLOCK,), tl.float32), mask=inside)
    scale = tl.load(scale_a) * tl.load(scale_b)
    tl.store(d + places, (sums * scale).to(tl.bfloat16), mask=inside)


class TritonProduct:
    """A config on the copies of one problem. launch(i) enqueues all kernels for copy i."""

    def __init__(self, config: Config, copies: list, scales: tuple):
        self.config, self.copies, self.scales = config, copies, scales
        a, w, _ = copies[0]
        self.m, self.k, self.n = a.shape[0], a.shape[1], w.shape[0]
        self.grid = (self.n // config.block_n, triton.cdiv(self.m, config.block_m), config.split_k)
        self.inputs = [(a, w) for a, w, _ in copies]
        if config.tma:
            self.inputs = [(TensorDescriptor.from_tensor(a, [config.block_m, config.block_k]),
                            TensorDescriptor.from_tensor(w, [config.block_n, config.block_k])) for a, w, _ in copies]
        slots = {"direct": 0, "atomic": 1, "workspace": config.split_k}[config.way]
        self.slots = slots
        self.partials = torch.zeros(slots * self.m * self.n, dtype=torch.float32, device=a.device) if slots else None

    def launch(self, index: int) -> None:
        c, d = self.config, self.copies[index][2]
        a, w = self.inputs[index]
        target = d if self.partials is None else self.partials
        multiply[self.grid](a, w, target, *self.scales, self.m, self.n, self.k, self.k // c.split_k, BLOCK_M=c.block_m,
                            BLOCK_N=c.block_n, BLOCK_K=c.block_k, WEIGHTS_FIRST=c.weights_first, TMA=c.tma, WAY=c.way,
                            num_warps=c.warps, num_stages=c.stages)
        if self.partials is None:
            return
        count = self.m * self.n
        block = finish_block(count, c.way)
        finish[(triton.cdiv(count, block),)](self.partials, d, *self.scales, count, SLOTS=self.slots,
                                             CLEARS=c.way == "atomic", BLOCK=block, num_warps=4)


def compile_ahead(job: tuple) -> str:
    """Compiles one kernel into Triton's cache on disk, by running it on a small problem in its own process.
    Returns why that failed, or "". Users of the config get the error again."""
    config, n, k = job
    try:
        torch.cuda.set_device(0)
        like = [(torch.zeros((rows, k), dtype=torch.float8_e4m3fn, device="cuda")) for rows in (config.block_m, n)]
        d = torch.empty((config.block_m, n), dtype=torch.bfloat16, device="cuda")
        one = torch.ones(1, dtype=torch.float32, device="cuda")
        TritonProduct(config, [(*like, d)], (one, one)).launch(0)
        torch.cuda.synchronize()
        return ""
    except Exception as why:  # out of shared memory, or a layout that Triton does not compile
        return f"{config.text()}: {type(why).__name__}: {str(why).splitlines()[0] if str(why) else ''}"


def kernels_ahead(blocks: set[int], n: int, k: int) -> list[tuple]:
    return [(config, n, k) for block_m in sorted(blocks) for config in kernels_of(block_m)]
