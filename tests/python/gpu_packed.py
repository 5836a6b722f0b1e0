# SPDX-License-Identifier: Apache-2.0
"""Packed weights on the GPU together with their values in fp64, with which tests compare packed products."""
import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from gpu_helpers import BF16, E4M3, FP16, powers, whole  # noqa: E402

def kernel_of(problem):
    """Returns the kernel that the planner chooses for a packed ``Problem``: "narrow", "strip" or "wide". The plan is an
    H200's."""
    config = sluice.plan(problem).config
    return config.split("Schedule::")[1].split(",")[0]


IMPLIED = {"uint4": 8, "int8": 128, "e4m3": 0}


def seeded(seed):
    return torch.Generator(device="cuda").manual_seed(seed)


class Weights:
    """n x k weights in a format, and the parts of their reference in fp64. The reference is computed from the
    arrays, not from the blob."""

    def __init__(self, codes, scales, zeros, group, kind, order="half"):
        k = codes.shape[1]

        def spread(values):
            return values.double().repeat_interleave(group or k, 1)[:, :k]

        self.packed = st.pack(codes, scales, zeros, type=kind, group=group, order=order)
        self.kind = kind
        self.values = codes.view(E4M3).double() if kind == "e4m3" else codes.double()
        self.scales = spread(scales)
        self.zeros = IMPLIED[kind] if zeros is None else spread(zeros)

    def matrix(self):
        return self.scales * (self.values - self.zeros)

    def magnitude(self, dtype):
        """Returns the magnitudes that the error bound counts (sluice/kernels/packed_reference.h). bf16 and e4m3 tokens meet
        codes with an offset."""
        offset = {BF16: {"uint4": 16, "int8": 272, "e4m3": 0}[self.kind], E4M3: -8}.get(dtype, 0)
        zeros = self.zeros if isinstance(self.zeros, torch.Tensor) else torch.tensor(float(self.zeros), device=self.values.device)
        return self.scales.abs() * ((self.values + offset).abs() + (zeros + offset).abs())


def whole_weights(n, k, group=64, zeros=True, kind="uint4", scale=FP16, seed=0, order="half"):
    """Returns weights with codes of every value, whole zeros, and powers of two as scales. Sums of few small tokens are then
    exact."""
    shape = (n, -(-k // group) if group else 1)
    codes = torch.randint(0, 16 if kind == "uint4" else 256, (n, k), device="cuda", generator=seeded(seed), dtype=torch.uint8)
    if kind == "e4m3":
        codes = whole(n, k, dtype=E4M3, low=-8, high=8, seed=seed).view(torch.uint8)
    zero_values = None
    if zeros:
        zero_values = torch.randint(0, 16, shape, device="cuda", generator=seeded(seed + 1)).to(scale)
    return Weights(codes, powers(*shape, seed=seed).to(scale), zero_values, group, kind, order)
