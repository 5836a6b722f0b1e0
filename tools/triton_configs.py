# SPDX-License-Identifier: Apache-2.0
"""The Triton kernels that triton_sweep.py tries for a problem. Arithmetic only: needs neither a GPU nor
Triton."""
import dataclasses
import itertools
import math

SMEM_BYTES = 227 * 1024  # a CTA's limit on sm_90
SMEM_TARGETS = (200 * 1024, 100 * 1024)  # for one CTA per SM, or two
# split_k = 1; fp32 atomics and a conversion kernel; workspace slots and a reduction kernel.
WAYS = ("direct", "atomic", "workspace")
MAX_STAGES, MIN_STAGES = 8, 2


@dataclasses.dataclass(frozen=True)
class Config:
    """A compiled kernel, and the number of CTAs that share a tile's k (split_k)."""
    way: str
    block_m: int
    block_n: int
    block_k: int
    weights_first: bool  # D^T = W A^T: the weights are WGMMA's 64 rows, so few tokens waste none of them
    tma: bool
    stages: int
    warps: int
    split_k: int = 1

    def text(self) -> str:
        order = "weights first" if self.weights_first else "tokens first"
        return (f"{self.way} {self.block_m}x{self.block_n}x{self.block_k} split {self.split_k} {order} "
                f"{'tma' if self.tma else 'pointers'} stages {self.stages} warps {self.warps}")


def blocks_of_m(m: int) -> list[int]:
    """Returns the smallest power of two that holds all tokens (16 to 128), and its half."""
    whole = min(128, max(16, 1 << (m - 1).bit_length()))
    return [whole, whole // 2] if whole > 16 else [whole]


def stages_of(block_m: int, block_n: int, block_k: int) -> list[int]:
    one = (block_m + block_n) * block_k
    return sorted({s for target in SMEM_TARGETS if (s := min(MAX_STAGES, target // one)) >= MIN_STAGES}, reverse=True)


def kernels_of(block_m: int) -> list[Config]:
    """Returns the kernels to compile for a block of tokens; split_k is a run-time parameter."""
    kernels = []
    for weights_first, block_n, block_k in itertools.product((True, False), (32, 64, 128), (128, 256)):
        if weights_first and block_n < 64:
            continue  # WGMMA has 64 rows
        for stages, tma, way in itertools.product(stages_of(block_m, block_n, block_k), (True, False), WAYS):
            if tma and not weights_first:
                continue
            for warps in (4, 8) if block_n == 128 else (4,):
                kernels.append(Config(way, block_m, block_n, block_k, weights_first, tma, stages, warps))
    return kernels


def ctas_of(config: Config, m: int, n: int) -> int:
    return math.ceil(m / config.block_m) * math.ceil(n / config.block_n) * config.split_k


def candidates(m: int, n: int, k: int, sms: int) -> list[Config]:
    """Returns the configs that suit the problem, most likely first, so that a search that is stopped has seen
    the best ones."""
    found = []
    for block_m in blocks_of_m(m):
        for kernel in kernels_of(block_m):
            for split_k in (1,) if kernel.way == "direct" else (2, 4, 8, 16):
                config = dataclasses.replace(kernel, split_k=split_k)
                whole = n % config.block_n == 0 and k % (config.block_k * split_k) == 0
                if whole and sms / 3 <= ctas_of(config, m, n) <= 8 * sms:
                    found.append(config)
    return sorted(found, key=lambda c: distance(c, m, n, sms))


def distance(config: Config, m: int, n: int, sms: int) -> float:
    """Ranks configs: by the distance from one or two CTAs per SM (in powers of two), then configs that read
    tokens twice, then those with narrow loads."""
    share = math.log2(ctas_of(config, m, n) / sms)
    return (max(0.0, -share, share - 1) + (0.5 if config.block_m < m else 0.0) +
            (0.0 if config.weights_first else 0.5) + (0.0 if config.stages >= 4 else 0.25))
