# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions without a GPU, against torch in float64: sizes, gradients, tracing, bad calls."""
import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from conv_on_host import on_host  # noqa: E402, F401 (a fixture)
from test_torch_conv import BF16, FP32, bf16, channels_last, compiled_with, is_packed, same, whole  # noqa: E402

OURS = {3: st.conv_transpose1d, 4: st.conv_transpose2d, 5: st.conv_transpose3d}
TORCHS = {3: torch.nn.functional.conv_transpose1d, 4: torch.nn.functional.conv_transpose2d, 5: torch.nn.functional.conv_transpose3d}
CASES = [
    ("3x3", (2, 16, 5, 6), (16, 8, 3, 3), dict(padding=1)),
    ("4x4 stride 2", (2, 16, 5, 6), (16, 8, 4, 4), dict(padding=1, stride=2)),
    ("3x3 stride 2 and output padding", (1, 8, 5, 6), (8, 24, 3, 3), dict(padding=1, stride=2, output_padding=(1, 0))),
    ("dilation", (1, 8, 5, 6), (8, 8, 3, 2), dict(dilation=2, stride=(1, 2))),
    ("odd channels", (2, 6, 5, 4), (6, 3, 3, 3), dict(stride=2)),
    ("patches of 2", (2, 16, 5, 6), (16, 16, 2, 2), dict(stride=2)),
    ("patches of 4 to 3 channels", (2, 16, 3, 2), (16, 3, 4, 4), dict(stride=4)),
    ("patches and output padding", (2, 16, 3, 2), (16, 3, 4, 4), dict(stride=4, output_padding=3)),
    ("1-D", (2, 8, 9), (8, 16, 4), dict(stride=3, padding=1)),
    ("output padding by the dilation", (1, 8, 5, 6), (8, 8, 3, 2), dict(dilation=(3, 2), padding=(1, 0), output_padding=(2, 1))),
    ("output padding by dilation and stride", (1, 8, 5, 6), (8, 8, 3, 2), dict(dilation=(4, 1), stride=2, padding=1, output_padding=(3, 1))),
    ("3-D", (1, 8, 3, 4, 3), (8, 8, 3, 2, 2), dict(stride=(1, 2, 2), padding=(1, 0, 0))),
]


def in_float64(x, w, bias, arguments, upstream):
    x, w, bias = (t.detach().double().requires_grad_() for t in (x, w, bias))
    y = TORCHS[x.dim()](x, w, None, **arguments).to(BF16).double().detach() - TORCHS[x.dim()](x, w, None, **arguments).detach()
    y = y + TORCHS[x.dim()](x, w, bias, **arguments)  # the addition of the bias rounds once more
    y.backward(upstream(y).double())
    return y.detach(), x.grad, w.grad, bias.grad


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
@pytest.mark.parametrize("compiled", [False, True])
def test_forward_and_gradients_are_exact(on_host, case, compiled):  # noqa: F811
    _, shape, filters, arguments = case
    x, w = channels_last(whole(*shape)).requires_grad_(), channels_last(whole(*filters, seed=1)).requires_grad_()
    bias = whole(filters[1], seed=2).requires_grad_()
    call = OURS[x.dim()]
    y = (compiled_with(lambda *t: call(*t, **arguments), []) if compiled else lambda *t: call(*t, **arguments))(x, w, bias)
    assert is_packed(y)
    y.backward(upstream := whole(*y.shape, seed=3))
    for got, expected in zip((y.detach(), x.grad, w.grad, bias.grad), in_float64(x, w, bias, arguments, lambda _: upstream)):
        same(got, expected)
    with torch.no_grad():
        assert torch.equal(call(x, w, bias, **arguments), y)


def test_one_image_without_a_batch(on_host):  # noqa: F811
    x, w, bias = whole(16, 5, 6), whole(16, 8, 3, 3, seed=1), whole(8, seed=2)
    same(st.conv_transpose2d(x, w, stride=2), TORCHS[4](x.double(), w.double(), stride=2))
    assert st.conv_transpose1d(x[:, 0], w[..., 0], bias).shape == (8, 8)


def test_autocast_gives_fp32_gradients(on_host):  # noqa: F811
    x, w = whole(2, 8, 4, 4, dtype=FP32).requires_grad_(), whole(8, 8, 3, 3, dtype=FP32).requires_grad_()
    with torch.autocast("cpu", BF16):
        y = st.conv_transpose2d(x, w, stride=2)
    y.sum().backward()
    assert (y.dtype, x.grad.dtype, w.grad.dtype) == (BF16, FP32, FP32)


@pytest.mark.parametrize("call, mention", [
    (lambda: st.conv_transpose2d(bf16(1, 8, 4, 4), bf16(16, 8, 3, 3)), "(16, 8, 3, 3)"),
    (lambda: st.conv_transpose2d(bf16(1, 8, 4, 4), bf16(8, 8, 3, 3), groups=2), "groups = 2"),
    (lambda: st.conv_transpose2d(bf16(1, 8, 4, 4), bf16(8, 8, 4, 4), stride=3), "9 phases"),
    (lambda: st.conv_transpose2d(bf16(1, 8, 4, 4), bf16(8, 8, 3, 3), stride=2, output_padding=2), "output_padding = 2"),
    (lambda: st.conv_transpose2d(bf16(1, 8, 4, 4), bf16(8, 8, 3, 3), dilation=2, output_padding=2), "less than stride (1, 1) or dilation (2, 2)"),
    (lambda: st.conv_transpose2d(bf16(8, 4), bf16(8, 8, 3, 3)), "must have 4 dimensions"),
    (lambda: st.conv_transpose2d(bf16(1, 8, 1, 1), bf16(8, 8, 3, 3), padding=2), "the output would have"),
])
def test_bad_calls_raise_and_name_the_argument(call, mention):
    with pytest.raises(sluice.InvalidSize) as caught:
        call()
    assert mention in str(caught.value)
