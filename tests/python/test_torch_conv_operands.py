# SPDX-License-Identifier: Apache-2.0
"""Convolutions of sluice.torch with operands that no kernel reads as they are: slices at odd addresses, residuals and outputs
of other layouts, fp8 that is padded. Results are no views.
"""
import math

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from conv_on_host import on_host  # noqa: E402, F401 (a fixture)
from test_torch_conv import BF16, FP32, TORCHS, bf16, channels_last, copies_of, in_float64, same, whole  # noqa: E402


def test_a_slice_that_does_not_begin_at_16_bytes_is_copied(on_host):  # noqa: F811
    wide, w = channels_last(whole(2, 48, 5, 6)), channels_last(whole(8, 16, 3, 3))
    wanted = TORCHS[4](wide[:, 4:20].double(), w.double())
    copies, y = copies_of(lambda: st.conv2d(wide[:, 4:20], w))
    assert copies == 1
    same(y, wanted)
    x = wide[:, 16:32].detach().requires_grad_()
    upstream = channels_last(whole(2, 16, 3, 4))[:, 4:12]
    assert copies_of(lambda: st.conv2d(x, w).backward(upstream))[0] == 1
    same(x.grad, in_float64(x, w, torch.zeros(8), {}, lambda _: upstream)[1])
    into = channels_last(torch.full((2, 24, 3, 4), 7, dtype=BF16))
    out = into[:, 4:12]
    assert st.conv2d(wide[:, 4:20], w, out=out) is out and (into[:, :4] == 7).all() and (into[:, 12:] == 7).all()
    same(out, wanted)
    assert st.conv2d(wide[:, 4:20], w, c=out, out=out) is out
    same(out, 2 * wanted)
    size = (8, 16, 3, 3)
    total = torch.full((math.prod(size) + 1,), 0.25)[1:].view(8, 3, 3, 16).movedim(-1, 1)
    assert total.data_ptr() % 16 == 4
    st.grad.conv2d_weight(wide[:, 16:32], size, upstream, total=total)
    same(total, 0.25 + in_float64(x, w, torch.zeros(8), {}, lambda _: upstream)[2])


def test_a_residual_is_given_the_layout_of_the_result(on_host):  # noqa: F811
    x, w = channels_last(whole(2, 16, 5, 6)), channels_last(whole(8, 16, 3, 3))
    plain, wide = TORCHS[4](x.double(), w.double()), channels_last(whole(2, 24, 3, 4, seed=3))
    c, out = wide[:, 8:16], channels_last(torch.empty(2, 32, 3, 4, dtype=BF16))[:, 16:24]
    for given, wanted_copies, arguments in ((c, 1, {}), (channels_last(c), 1, dict(out=out)), (c, 1, dict(out=out)), (c, 0, dict(out=wide[:, :8]))):
        copies, y = copies_of(lambda: st.conv2d(x, w, c=given, **arguments))
        assert copies == wanted_copies
        same(y, plain + c.double())


@pytest.mark.parametrize("shape, filters, images", [((1, 8, 3, 4), 8, 2), ((2, 1, 3, 4), 12, 2), ((2, 12, 1, 1), 12, 2), ((5, 8, 3, 4), 8, 0)])
def test_out_has_exactly_the_outputs_shape(on_host, shape, filters, images):  # noqa: F811
    with pytest.raises(sluice.InvalidSize, match="out has shape .* and must have the output's"):
        st.conv2d(bf16(images, 16, 5, 6), whole(filters, 16, 3, 3), out=channels_last(bf16(*shape)))
    assert on_host.called == []


@pytest.mark.parametrize("shape, kernel, stride", [((1, 16, 5, 6), 3, 1), ((2, 3, 28, 30), 14, 14), ((1, 20, 6, 6), 3, 3)])
@pytest.mark.parametrize("filters, of_filters", [(16, True), (12, True), (8, False), (1, False)])
def test_fp8_scales_and_padding(on_host, shape, kernel, stride, filters, of_filters):  # noqa: F811
    e4m3 = torch.float8_e4m3fn
    x, w = whole(*shape).to(e4m3), whole(filters, shape[1], kernel, kernel, seed=1).to(e4m3)
    scale_x, scale_w = torch.tensor(0.5), 2.0 ** (torch.arange(filters) % 5 - 4) if of_filters else torch.tensor([0.25])
    plain = TORCHS[4](x.double(), w.double(), stride=stride) * 0.5 * scale_w.double().view(1, -1, 1, 1)
    bias, c = whole(filters, seed=2), whole(*plain.shape, seed=3)
    call = dict(scale_x=scale_x, scale_w=scale_w, use_fast_accum=True, stride=stride)
    same(st.conv2d(x, w, bias, out_dtype=FP32, c=c, **call), plain + c.double() + bias.double().view(1, -1, 1, 1), FP32)
    same(st.conv2d(x, w, scale_d=torch.tensor(4.0), **call), (plain / 4).float(), e4m3)
    assert all(given["use_fast_accum"] for given in on_host.given)
    with pytest.raises(sluice.InvalidSize, match="scale_w has shape"):
        st.conv2d(x, w, scale_x=scale_x, scale_w=torch.ones(24))


@pytest.mark.parametrize("convolution, shape, filters, stride", [
    (st.conv2d, (2, 8, 6, 6), (12, 8, 3, 3), 1), (st.conv2d, (2, 3, 8, 8), (16, 3, 4, 4), 4), (st.conv2d, (2, 3, 8, 8), (5, 3, 4, 4), 4),
    (st.conv2d, (2, 8, 6), (12, 8, 3), 1), (st.conv_transpose2d, (2, 8, 6, 6), (8, 12, 3, 3), 1),
    (st.conv_transpose2d, (2, 8, 6, 6), (8, 3, 4, 4), 4)])
def test_a_result_may_be_changed_in_place(on_host, convolution, shape, filters, stride):  # noqa: F811
    convolution = st.conv1d if len(shape) == 3 else convolution
    x, w = whole(*shape).requires_grad_(), whole(*filters, seed=1).requires_grad_()
    convolution(x, w, stride=stride).mul_(2).relu_().sum().backward()
    torchs = getattr(torch.nn.functional, convolution.__name__)
    x64, w64 = (t.detach().double().requires_grad_() for t in (x, w))
    (torchs(x64, w64, stride=stride) * 2).relu().sum().backward()
    same(x.grad, x64.grad)
    same(w.grad, w64.grad)
