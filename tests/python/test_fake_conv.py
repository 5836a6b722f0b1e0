# SPDX-License-Identifier: Apache-2.0
"""Convolutions on the fake GPU of tests/unit, below sluice.torch: which kernels are launched, and which are
kept loaded."""
import pytest

from fake_gpu import launches_of, on_gpu

import sluice  # noqa: E402
from sluice import _binding as f  # noqa: E402

PADDED = f.geometry_fields((1, 1), (1, 1), None, (1, 1))


def image(dtype, shape, pitch=None):
    """Returns an array of the fake GPU in torch's order, with channels_last strides."""
    strides, step = [0] * len(shape), pitch or shape[1]
    for i in range(len(shape) - 1, 1, -1):
        strides[i], step = step, step * shape[i]
    strides[0], strides[1] = step, 1
    return on_gpu(dtype, shape, strides)


@pytest.fixture
def layer():
    return image("bf16", (2, 64, 14, 14)), image("bf16", (128, 64, 3, 3)), image("bf16", (2, 128, 14, 14))


def calls_of(x, w, y):
    return ((f.OP, f.FPROP, f.INPUT, x, f.WEIGHT, w, f.OUT, y, *PADDED),
            (f.OP, f.DGRAD, f.GRAD_OUTPUT, y, f.WEIGHT, w, f.OUT, x, *PADDED),
            (f.OP, f.WGRAD, f.GRAD_OUTPUT, y, f.INPUT, x, f.OUT, w, *PADDED))


def test_all_three_ops_are_launched(layer):
    for call in calls_of(*layer):
        f.convolution(*call)
        assert launches_of(lambda call=call: f.convolution(*call)) >= 1


def test_a_problem_of_the_same_sizes_is_ready(layer):
    x, w, y = image("fp16", (3, 64, 14, 14)), image("fp16", (128, 64, 3, 3)), image("fp16", (3, 128, 14, 14))
    for op, call in zip(("fprop", "dgrad", "wgrad"), calls_of(x, w, y)):
        sluice.prepare(sluice.Convolution(op, (3, 64, 14, 14), (128, 3, 3), padding=1, dtype="fp16"))
        before = sluice.holdings().kernels
        f.convolution(*call)
        assert sluice.holdings().kernels == before


def test_gradients_are_added_to_a_total(layer):
    x, _, y = layer
    total = image("fp32", (128, 64, 3, 3))
    add = (f.OP, f.WGRAD, f.GRAD_OUTPUT, y, f.INPUT, x, f.TOTAL, total, *PADDED, f.ADD, True)
    assert launches_of(lambda: f.convolution(*add)) >= 1
    before = sluice.holdings().kernels
    f.convolution(*add, f.ANY_ORDER, True)
    assert sluice.holdings().kernels == before + 1
    with pytest.raises(sluice.InvalidType, match="fp32"):
        f.convolution(f.OP, f.WGRAD, f.GRAD_OUTPUT, y, f.INPUT, x, f.TOTAL, layer[1], *PADDED, f.ADD, True)


def test_the_forward_epilogue_and_the_callers_workspace(layer):
    x, w, y = layer
    more = (f.BIAS, on_gpu("fp32", (128,)), f.C, image("bf16", (2, 128, 14, 14)), f.ACTIVATION, 1)
    workspace = sluice.Workspace()
    assert launches_of(lambda: f.convolution(*calls_of(x, w, y)[0], *more, f.WORKSPACE, workspace.address)) >= 1
    fp8 = image("e4m3", (2, 128, 14, 14)), image("e4m3", (128, 128, 3, 3))
    scales = (f.SCALE_X, on_gpu("fp32", (1,)), f.SCALE_W, on_gpu("fp32", (128,)))
    assert launches_of(lambda: f.convolution(*calls_of(*fp8, y)[0], *scales, f.USE_FAST_ACCUM, True)) >= 1


def test_refusals_launch_nothing(layer):
    x, w, y = layer
    nchw = on_gpu("bf16", (2, 64, 14, 14))

    def refused():
        with pytest.raises(sluice.InvalidStride, match="input.contiguous"):
            f.convolution(*calls_of(nchw, w, y)[0])
        with pytest.raises(sluice.InvalidSize, match="weight has shape"):
            f.convolution(*calls_of(x, image("bf16", (128, 32, 3, 3)), y)[0])
        with pytest.raises(sluice.Aliasing, match="overlaps input "):
            f.convolution(*calls_of(x, image("bf16", (64, 64, 3, 3)), x)[0])

    assert launches_of(refused) == 0
