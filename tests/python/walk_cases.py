# SPDX-License-Identifier: Apache-2.0
"""Products with a weight, and the same in torch. They are for tests of which gradients a backward pass
computes, and where it stores them."""
import pytest

torch = pytest.importorskip("torch")

import sluice.torch as st  # noqa: E402

F = torch.nn.functional


def whole(*shape, device, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randint(-2, 3, shape, generator=generator).to(device, torch.bfloat16)


def _layer(layer, weight):
    layer.weight = weight
    return layer


# Shapes of input and weight; our function and torch's of (input, weight); whether a kernel adds to main_grad
# itself.
CASES = {
    "linear": ((4, 16), (24, 16), st.linear, F.linear, True),
    "nn.Linear": ((2, 3, 16), (24, 16), lambda x, w: _layer(st.nn.Linear(16, 24, bias=False, device="meta"), w)(x), F.linear, True),
    "conv1d": ((2, 16, 9), (8, 16, 3), st.conv1d, F.conv1d, True),
    "conv2d": ((2, 16, 6, 5), (8, 16, 3, 3), st.conv2d, F.conv2d, True),
    "conv2d, odd channels": ((2, 3, 6, 5), (5, 3, 3, 3), st.conv2d, F.conv2d, False),
    "conv2d, patches": ((2, 4, 8, 8), (8, 4, 4, 4), lambda x, w: st.conv2d(x, w, stride=4), lambda x, w: F.conv2d(x, w, stride=4), True),
    "conv3d": ((1, 8, 4, 5, 6), (8, 8, 2, 2, 2), st.conv3d, F.conv3d, True),
    "nn.Conv2d": ((2, 16, 6, 5), (8, 16, 3, 3), lambda x, w: _layer(st.nn.Conv2d(16, 8, 3, bias=False, device="meta", dtype=torch.bfloat16), w)(x),
                  F.conv2d, True),
}


class Case:
    """Input, weight with a ``main_grad`` of ones, the output's gradient, and the gradients that torch
    computes in float64."""

    def __init__(self, name, device, main_grad=True):
        shape, filters, self.ours, self.torchs, self.adds = CASES[name]
        self.x = whole(*shape, device=device).requires_grad_()
        weight = whole(*filters, device=device, seed=1)
        self.w = torch.nn.Parameter(weight.movedim(1, -1).contiguous().movedim(-1, 1))
        if main_grad:
            self.w.main_grad = torch.ones_like(self.w, dtype=torch.float32)
        x, w = (t.detach().cpu().double().requires_grad_() for t in (self.x, self.w))
        y = self.torchs(x, w)
        self.dy = whole(*y.shape, device=device, seed=2)
        self.dx, self.dw = (t.to(device) for t in torch.autograd.grad(y, (x, w), self.dy.cpu().double()))

    def forward(self):
        return self.ours(self.x, self.w)

    def added(self, times):
        """Returns True if main_grad contains its ones and the gradient ``times`` times."""
        return torch.equal(self.w.main_grad.double(), 1 + times * self.dw) and getattr(self.w, "grad_added_to_main_grad", False) == (times > 0)
