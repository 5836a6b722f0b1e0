# SPDX-License-Identifier: Apache-2.0
"""Convolutions of sluice.torch on a GPU: exact on whole numbers, layouts, main_grad, streams and graphs, compiled, a model's step."""
import copy

import pytest

torch = pytest.importorskip("torch")

import sluice.torch as st  # noqa: E402
from conv_cases import CASES, CAUSAL, IDS  # noqa: E402
from gpu_helpers import BF16, FP16, FP32, exactly, needs_gpu, real, whole  # noqa: E402
from gpu_resnet import ResNet50, gradients_of  # noqa: E402

pytestmark = needs_gpu
OURS = {3: st.conv1d, 4: st.conv2d, 5: st.conv3d}
TORCHS = {3: torch.nn.functional.conv1d, 4: torch.nn.functional.conv2d, 5: torch.nn.functional.conv3d}
# Layers of real models with few images. They have several tiles, splits along k, phases, and channels beyond
# a block of 64.
LAYERS = [
    ("56 3x3", (4, 64, 56, 56), (64, 3, 3), dict(padding=1)),
    ("56 1x1", (4, 256, 56, 56), (128, 1, 1), {}),
    ("28 3x3/2", (4, 128, 56, 56), (128, 3, 3), dict(padding=1, stride=2)),
    ("28 1x1/2", (4, 256, 56, 56), (512, 1, 1), dict(stride=2)),
    ("7 3x3", (8, 512, 7, 7), (512, 3, 3), dict(padding=1)),
    ("320 of a U-Net", (2, 320, 32, 32), (320, 3, 3), dict(padding=1)),
    ("a VAE's 3-D", (1, 96, 5, 24, 26), (96, 3, 3, 3), dict(padding=((2, 0), (1, 1), (1, 1)))),
    ("a VAE's last", (1, 128, 64, 64), (3, 3, 3), dict(padding=1)),
    ("1-D of speech", (2, 512, 700), (512, 5), dict(padding=2)),
    ("dilation 18", (1, 64, 40, 40), (64, 3, 3), dict(padding=18, dilation=18)),
]


def channels_last(x):
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


def of_case(case, dtype=BF16):
    _, shape, (filters, *kernel), arguments = case
    return whole(*shape, dtype=dtype), whole(filters, shape[1], *kernel, dtype=dtype, seed=1), whole(filters, dtype=dtype, seed=2), arguments


def in_float64(x, w, bias, arguments, upstream):
    """Returns torch's results on the host, where float64 is computed by the plain algorithm."""
    x, w, bias = (t.detach().cpu().double().requires_grad_() for t in (x, w, bias))
    arguments, wide = dict(arguments), x
    if isinstance(arguments.get("padding"), tuple) and isinstance(arguments["padding"][0], tuple):
        wide = torch.nn.functional.pad(x, [side for pair in reversed(arguments.pop("padding")) for side in pair])
    y = TORCHS[x.dim()](wide, w, bias, **arguments)
    y.backward(upstream(y).cpu().double())
    return [t.cuda() for t in (y.detach(), x.grad, w.grad, bias.grad)]


@pytest.mark.parametrize("case", CASES + LAYERS + [(name, shape, filters, dict(padding=pads)) for name, shape, filters, pads in CAUSAL],
                         ids=IDS + [case[0] for case in LAYERS + CAUSAL])
@pytest.mark.parametrize("dtype", [BF16, FP16])
def test_forward_and_gradients_are_exact(case, dtype):
    x, w, bias, arguments = of_case(case, dtype)
    x, w, bias = (t.requires_grad_() for t in (channels_last(x), channels_last(w), bias))
    y = OURS[x.dim()](x, w, bias, **arguments)
    upstream = whole(*y.shape, dtype=dtype, seed=3)
    y.backward(upstream)
    for got, expected in zip((y.detach(), x.grad, w.grad, bias.grad), in_float64(x, w, bias, arguments, lambda _: upstream)):
        exactly(got, expected)


@pytest.mark.parametrize("case", LAYERS, ids=[case[0] for case in LAYERS])
@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("lay", [channels_last, lambda x: x], ids=["channels_last", "KCRS"])
def test_main_grad_is_added_to_in_fp32(case, deterministic, lay):
    x, w, bias, arguments = of_case(case)
    weight = torch.nn.Parameter(channels_last(w))
    weight.main_grad = lay(torch.full(w.shape, 0.25, device="cuda"))
    for _ in range(2):
        y = OURS[x.dim()](x, weight, **arguments, deterministic=deterministic)
        y.backward(upstream := whole(*y.shape, seed=3))
    exactly(weight.main_grad, 0.25 + 2 * in_float64(x, w, bias, arguments, lambda _: upstream)[2])
    assert weight.grad is None and weight.grad_added_to_main_grad


def test_a_gradient_has_the_same_bits_every_time():
    x, w = channels_last(real(16, 64, 56, 56)), channels_last(real(64, 64, 3, 3, seed=1))
    dy = channels_last(real(16, 64, 56, 56, seed=2))
    first = st.grad.conv2d_weight(x, w.shape, dy, padding=1), st.grad.conv2d_input(x.shape, w, dy, padding=1)
    for _ in range(20):
        assert torch.equal(st.grad.conv2d_weight(x, w.shape, dy, padding=1), first[0])
        assert torch.equal(st.grad.conv2d_input(x.shape, w, dy, padding=1), first[1])


def test_real_data_are_within_rounding_of_float64():
    x, w, bias = (t.requires_grad_() for t in (channels_last(real(2, 64, 28, 28)), channels_last(real(64, 64, 3, 3, seed=1)), real(64, seed=2)))
    y = st.conv2d(x, w, bias, padding=1)
    upstream = real(*y.shape, seed=3)
    y.backward(upstream)
    for got, expected in zip((y.detach(), x.grad, w.grad, bias.grad), in_float64(x, w, bias, dict(padding=1), lambda _: upstream)):
        assert ((got.double() - expected).abs() <= expected.abs() * 2**-8 + expected.abs().max() * 2**-16).all()


@pytest.mark.parametrize("shape", [(1, 64, 14, 14), (2, 64, 1, 9), (1, 64, 1, 1), (3, 64, 1, 1)])
def test_the_stride_of_a_dimension_of_size_1_says_nothing(shape):
    x, w = channels_last(whole(*shape)), channels_last(whole(64, 64, 1, 1, seed=1))
    wanted = TORCHS[4](x.cpu().double(), w.cpu().double()).cuda()
    for spelling in (0, 1, 3, 16, 10**6):
        strides = [spelling if size == 1 else stride for size, stride in zip(shape, x.stride())]
        before = st.conv_layout_copies()
        exactly(st.conv2d(x.as_strided(shape, strides), w.as_strided(w.shape, (64, 1, spelling, spelling))), wanted)
        assert st.conv_layout_copies() == before


def test_slices_of_channels_and_everything_of_the_epilogue():
    wide, w, bias = channels_last(whole(2, 192, 14, 14)), channels_last(whole(64, 64, 3, 3, seed=1)), whole(64, dtype=FP32, seed=2)
    x, c = wide[:, 64:128], channels_last(whole(2, 64, 14, 14, seed=3))
    plain = TORCHS[4](x.cpu().double(), w.cpu().double(), bias.cpu().double(), padding=1).cuda()
    into = channels_last(torch.full((2, 128, 14, 14), 7.0, device="cuda", dtype=BF16))
    st.conv2d(x, w, bias, padding=1, out=into[:, 64:])
    exactly(into[:, 64:], plain)
    assert (into[:, :64] == 7).all()
    exactly(st.conv2d(x, w, bias, padding=1, c=c, activation="relu"), torch.relu(plain + c.double()))
    exactly(st.conv2d(x, w, bias, padding=1, out_dtype=FP32), plain, FP32)


def test_fp8_forward():
    x, w = (channels_last(t).to(torch.float8_e4m3fn) for t in (whole(2, 64, 14, 14), whole(64, 64, 3, 3, seed=1)))
    scales = 2.0 ** (torch.arange(64, device="cuda") % 5 - 2).float()
    plain = TORCHS[4](x.float().cpu().double(), w.float().cpu().double(), padding=1).cuda()
    y = st.conv2d(x, w, padding=1, scale_x=torch.tensor(0.5, device="cuda"), scale_w=scales, out_dtype=BF16)
    exactly(y, plain * 0.5 * scales.double().view(1, 64, 1, 1))


def test_a_captured_step_adds_at_each_replay():
    x = channels_last(whole(2, 64, 14, 14)).requires_grad_()
    layer = st.nn.Conv2d(64, 64, 3, padding=1, bias=False, device="cuda", dtype=BF16)
    with torch.no_grad():
        layer.weight.copy_(whole(64, 64, 3, 3, seed=1))
    st.nn.main_grad_views(layer)
    upstream, graph, side = whole(2, 64, 14, 14, seed=3), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        layer(x).backward(upstream)
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        layer(x).backward(upstream)
    for _ in range(3):
        graph.replay()
    wanted = in_float64(x, layer.weight, torch.zeros(64), dict(padding=1), lambda _: upstream)[2]
    exactly(layer.weight.main_grad, 4 * wanted)


def test_a_captured_forward_pads_the_weight_of_each_replay():
    x, w = channels_last(whole(1, 64, 14, 14)), torch.nn.Parameter(channels_last(whole(3, 64, 3, 3, seed=1)))
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        st.conv2d(x, w)
        with torch.cuda.graph(graph):
            y = st.conv2d(x, w)
        w.mul_(2)
        graph.replay()
        exactly(y, TORCHS[4](x.cpu().double(), w.cpu().double()).cuda())
        exactly(st.conv2d(x, w), TORCHS[4](x.cpu().double(), w.cpu().double()).cuda())


@pytest.mark.parametrize("case", [LAYERS[0], LAYERS[2], LAYERS[7], LAYERS[8], CASES[24]], ids=lambda case: case[0])
@pytest.mark.parametrize("lay", [channels_last, lambda x: x], ids=["channels_last", "NCHW"])
def test_a_compiled_convolution_trains(case, lay):
    x, w, bias, arguments = of_case(case)
    x, w, bias = lay(x).requires_grad_(), lay(w).requires_grad_(), bias.requires_grad_()
    torch._dynamo.reset()
    y = torch.compile(lambda *t: OURS[x.dim()](*t, **arguments), fullgraph=True)(x, w, bias)
    upstream = whole(*y.shape, seed=3)
    y.backward(upstream)
    for got, expected in zip((y.detach(), x.grad, w.grad), in_float64(x, w, bias, arguments, lambda _: upstream)):
        exactly(got, expected)


def test_autocast_gives_fp32_gradients_from_the_accumulators():
    x, w = channels_last(real(4, 64, 14, 14, dtype=FP32)), channels_last(real(64, 64, 3, 3, dtype=FP32, seed=1)).requires_grad_()
    with torch.autocast("cuda", BF16):
        y = st.conv2d(x, w, padding=1)
    upstream = real(*y.shape, seed=2)
    y.backward(upstream)
    wanted = in_float64(x.to(BF16), w.to(BF16), torch.zeros(64), dict(padding=1), lambda _: upstream)[2]
    assert w.grad.dtype is FP32 and (w.grad.double() - wanted).norm() < 1e-5 * wanted.norm(), "16 bits would be off by 2e-3"


@pytest.mark.parametrize("compiled", [False, True])
def test_resnet_50_trains_a_step_to_torchs_loss(compiled):
    torch.manual_seed(0)
    plain = ResNet50().cuda().to(memory_format=torch.channels_last)
    ours = st.nn.convert_(copy.deepcopy(plain), recipe=None)
    assert list(st.nn.fallbacks(ours)) == ["conv1"]
    x, labels = torch.randn(8, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last), torch.arange(8, device="cuda")
    before = st.conv_layout_copies()
    exact, reference = gradients_of(copy.deepcopy(plain), x, labels, None)
    wanted, theirs = gradients_of(plain, x, labels, BF16)
    loss, gradients = gradients_of(torch.compile(ours) if compiled else ours, x, labels, BF16)
    assert st.conv_layout_copies() <= before + 1, "channels_last goes through the model; the mean's gradient may be expanded"
    assert abs(loss - exact) <= 2 * abs(wanted - exact) + 2e-3 * abs(exact)
    for name, gradient in reference.items():
        bound = 1.5 * (theirs[name] - gradient).norm() + 0.02 * gradient.norm()
        assert (gradients[name] - gradient).norm() <= bound, name
