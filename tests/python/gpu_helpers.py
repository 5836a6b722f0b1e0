# SPDX-License-Identifier: Apache-2.0
"""Helpers of the GPU tests: data whose products are exact, and their reference in fp64."""
import pytest

torch = pytest.importorskip("torch")

BF16, FP16, FP32, E4M3, E5M2 = torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn, torch.float8_e5m2
has_hopper = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
needs_gpu = pytest.mark.skipif(not has_hopper, reason="needs a GPU of compute capability 9.0")


def whole(*shape, dtype=BF16, low=-1, high=1, seed=0):
    """Returns whole numbers that are so small that every sum is exact."""
    generator = torch.Generator(device="cuda").manual_seed(seed + sum(shape))
    return torch.randint(low, high + 1, shape, device="cuda", generator=generator).to(torch.float32).to(dtype)


def real(*shape, dtype=BF16, seed=0):
    generator = torch.Generator(device="cuda").manual_seed(seed + sum(shape))
    return torch.randn(shape, device="cuda", generator=generator).to(dtype)


def powers(*shape, seed=0):
    """Returns scales of 1/2, 1 and 2, with which products are exact."""
    generator = torch.Generator(device="cuda").manual_seed(seed + sum(shape))
    return 2.0 ** torch.randint(-1, 2, shape, device="cuda", generator=generator).float()


def exactly(result, expected, dtype=None):
    """Asserts that the result has the bits of the fp64 `expected`, rounded once."""
    rounded = expected.to(dtype or result.dtype)
    assert result.dtype == rounded.dtype and result.shape == rounded.shape
    wrong = (result.float() != rounded.float()).sum().item()
    assert wrong == 0, f"{wrong} of {result.numel()} elements differ"


def spread(scales, rows, columns):
    """Returns block scales of 128 x 128 spread over the elements; of 1 x 128 if there is one scale per row.
    """
    wide = scales.repeat_interleave(128, 1)[:, :columns]
    return wide if scales.shape[0] == rows else wide.repeat_interleave(128, 0)[:rows]
