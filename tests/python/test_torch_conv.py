# SPDX-License-Identifier: Apache-2.0
"""Convolutions of sluice.torch without a GPU, against torch in float64: geometries, layouts, gradients, tracing, bad calls.

Data are whole numbers, so every result is one rounding of the float64 one, and a wrong tap, pad or channel shows.
"""
import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from conv_cases import CASES, CAUSAL, IDS  # noqa: E402
from conv_on_host import on_host  # noqa: E402, F401 (a fixture)
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
OURS = {3: st.conv1d, 4: st.conv2d, 5: st.conv3d}
TORCHS = {3: torch.nn.functional.conv1d, 4: torch.nn.functional.conv2d, 5: torch.nn.functional.conv3d}


def whole(*shape, dtype=BF16, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randint(-2, 3, shape, generator=generator).to(dtype)


def channels_last(x):
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


def is_packed(x):
    return x.movedim(1, -1).is_contiguous()


def of_case(case, dtype=BF16):
    _, shape, (filters, *kernel), arguments = case
    return whole(*shape, dtype=dtype), whole(filters, shape[1], *kernel, dtype=dtype, seed=1), whole(filters, dtype=dtype, seed=2), arguments


def same(got, wanted, dtype=None):
    rounded = wanted.to(dtype or got.dtype)
    assert got.dtype is rounded.dtype and got.shape == rounded.shape, (got.dtype, got.shape, rounded.shape)
    assert torch.equal(got.double(), rounded.double()), f"{(got != rounded).sum().item()} of {got.numel()} elements differ"


def in_float64(x, w, bias, arguments, upstream):
    x, w, bias = (t.detach().double().requires_grad_() for t in (x, w, bias))
    y = TORCHS[x.dim()](x, w, bias, **arguments)
    y.backward(upstream(y).double())
    return y.detach(), x.grad, w.grad, bias.grad


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("lay", [channels_last, lambda x: x], ids=["channels_last", "NCHW"])
def test_forward_and_gradients_are_exact(on_host, case, lay):  # noqa: F811
    x, w, bias, arguments = of_case(case)
    x, w, bias = lay(x).requires_grad_(), lay(w).requires_grad_(), bias.requires_grad_()
    y = OURS[x.dim()](x, w, bias, **arguments)
    upstream = whole(*y.shape, seed=3)
    wanted = in_float64(x, w, bias, arguments, lambda _: upstream)
    assert is_packed(y)
    y.backward(lay(upstream))
    for got, expected in zip((y.detach(), x.grad, w.grad, bias.grad), wanted):
        same(got, expected)
    with torch.no_grad():
        same(OURS[x.dim()](x, w, bias, **arguments), wanted[0])
    assert "add" not in "".join(on_host.called)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_gradient_functions_are_torchs(on_host, case):  # noqa: F811
    x, w, _, arguments = of_case(case, FP16)
    axes, padding = x.dim() - 2, arguments.get("padding", 0)
    y = TORCHS[x.dim()](x.double(), w.double(), **arguments)
    dy = whole(*y.shape, dtype=FP16, seed=3)
    _, dx, dw, _ = in_float64(x, w, torch.zeros(w.shape[0]), arguments, lambda _: dy)
    of_x, of_w = getattr(st.grad, f"conv{axes}d_input"), getattr(st.grad, f"conv{axes}d_weight")
    assert list(__import__("inspect").signature(of_x).parameters)[:7] == list(
        __import__("inspect").signature(getattr(torch.nn.grad, f"conv{axes}d_input")).parameters)
    more = dict(arguments, padding=padding)
    same(of_x(x.shape, w, dy, **more), dx)
    same(of_x(tuple(x.shape), channels_last(w), channels_last(dy), out_dtype=FP32, **more), dx, FP32)
    same(of_w(x, w.shape, dy, **more), dw)
    same(of_w(x, w.shape, dy, out_dtype=FP32, **more), dw, FP32)
    for total in (torch.full(w.shape, 0.25), channels_last(torch.full(w.shape, 0.25))):
        assert of_w(x, w.shape, dy, total=total, **more) is total
        same(total, dw + 0.25)


@pytest.mark.parametrize("case", CAUSAL, ids=[case[0] for case in CAUSAL])
def test_zeros_before_and_behind_the_image_may_differ(on_host, case):  # noqa: F811
    _, shape, (filters, *kernel), pads = case
    x, w = whole(*shape).requires_grad_(), whole(filters, shape[1], *kernel, seed=1).requires_grad_()
    y = OURS[x.dim()](x, w, padding=pads)
    y.backward(upstream := whole(*y.shape, seed=3))
    wide = torch.nn.functional.pad(x.detach().double().requires_grad_(), [side for pair in reversed(pads) for side in pair])
    wide = wide.detach().requires_grad_()
    wanted = TORCHS[x.dim()](wide, w64 := w.detach().double().requires_grad_())
    wanted.backward(upstream.double())
    inner = wide.grad[(..., *(slice(first, size - last) for (first, last), size in zip(pads, wide.shape[2:])))]
    for got, expected in ((y.detach(), wanted.detach()), (x.grad, inner), (w.grad, w64.grad)):
        same(got, expected)


# ---- layouts
def copies_of(call):
    before = st.conv_layout_copies()
    result = call()
    return st.conv_layout_copies() - before, result


def test_only_what_is_not_channels_last_is_copied_and_counted(on_host):  # noqa: F811
    x, w = channels_last(whole(2, 16, 5, 6)), channels_last(whole(8, 16, 3, 3))
    c = whole(2, 8, 3, 4)
    assert copies_of(lambda: st.conv2d(x, w))[0] == 0 and on_host.given[-1]["input"] is x and on_host.given[-1]["weight"] is w
    assert copies_of(lambda: st.conv2d(x.contiguous(), w))[0] == 1
    assert copies_of(lambda: st.conv2d(x, w.contiguous()))[0] == 1
    assert copies_of(lambda: st.conv2d(x, w, c=c))[0] == 1
    assert copies_of(lambda: st.conv2d(x, w, c=channels_last(c)))[0] == 0
    x.requires_grad_(), w.requires_grad_()
    assert copies_of(lambda: st.conv2d(x, w).backward(channels_last(c)))[0] == 0
    assert copies_of(lambda: st.conv2d(x, w).backward(c))[0] == 1, "the gradient is made channels_last once for both products"
    assert copies_of(lambda: st.conv2d(x, w).sum().backward())[0] == 1, "an expanded gradient"


@pytest.mark.parametrize("shape", [(1, 16, 5, 6), (2, 16, 1, 6), (2, 16, 5, 1), (1, 16, 1, 6), (1, 16, 1, 1), (3, 16, 1, 1), (1, 16, 5, 1),
                                   (1, 16, 5), (2, 16, 1), (1, 16, 3, 1, 4), (2, 16, 1, 3, 1)])
@pytest.mark.parametrize("sliced", [False, True])
def test_the_stride_of_a_dimension_of_size_1_says_nothing(on_host, shape, sliced):  # noqa: F811
    x = channels_last(whole(shape[0], 32 if sliced else 16, *shape[2:]))[:, :16]
    w = channels_last(whole(8, 16, *[1] * (len(shape) - 2)))
    wanted = TORCHS[len(shape)](x.double(), w.double())
    for spelling in (0, 1, 3, 7, 16, 96, 10**6):
        strides = [spelling if size == 1 else stride for size, stride in zip(shape, x.stride())]
        given, filters = x.as_strided(shape, strides), w.as_strided(w.shape, (16, 1, *[spelling] * (len(shape) - 2)))
        copies, y = copies_of(lambda: OURS[len(shape)](given, filters))
        assert copies == 0 and on_host.given[-1]["input"] is given and on_host.given[-1]["weight"] is filters, strides
        same(y, wanted)


def test_a_slice_of_channels_is_read_and_written_in_place(on_host):  # noqa: F811
    wide, w = channels_last(whole(2, 48, 5, 6)), channels_last(whole(8, 16, 3, 3))
    x, wanted = wide[:, 16:32], TORCHS[4](wide[:, 16:32].double(), w.double())
    copies, y = copies_of(lambda: st.conv2d(x, w))
    assert copies == 0 and on_host.given[-1]["input"] is x
    same(y, wanted)
    into = channels_last(torch.full((2, 24, 3, 4), 7, dtype=BF16))
    out = into[:, 8:16]
    assert st.conv2d(x, w, out=out) is out and (into[:, :8] == 7).all() and (into[:, 16:] == 7).all()
    same(out, wanted)
    odd = channels_last(whole(2, 20, 5, 6))[:, :16]  # pixels of 40 bytes: TMA steps by 16
    copies, y = copies_of(lambda: st.conv2d(odd, w))
    assert copies == 1
    same(y, TORCHS[4](odd.double(), w.double()))


def test_one_image_without_a_batch(on_host):  # noqa: F811
    x, w = whole(16, 5, 6), whole(8, 16, 3, 3)
    same(st.conv2d(x, w), TORCHS[4](x.double(), w.double()))
    same(st.conv1d(x[0], whole(4, 5, 3)), TORCHS[3](x[0].double(), whole(4, 5, 3).double()))


# ---- epilogues
@pytest.mark.parametrize("filters", [8, 5])
@pytest.mark.parametrize("kernel, stride", [(3, 1), (4, 4)])
def test_activation_residual_and_output(on_host, filters, kernel, stride):  # noqa: F811
    x, w, bias = whole(2, 3, 8, 8), whole(filters, 3, kernel, kernel, seed=1), whole(filters, dtype=FP32, seed=2)
    plain = TORCHS[4](x.double(), w.double(), bias.double(), stride=stride)
    c = whole(*plain.shape, seed=3)
    same(st.conv2d(x, w, bias, stride, c=c, activation="relu"), torch.relu(plain + c.double()))
    same(st.conv2d(x, w, bias, stride, out_dtype=FP32), plain, FP32)
    out = channels_last(torch.empty(plain.shape, dtype=BF16))
    assert st.conv2d(x, w, bias, stride, out=out) is out
    same(out, plain)
    assert st.conv2d(x, w, bias, stride, c=out, out=out) is out
    same(out, plain.to(BF16).double() + plain)


def test_fp8_forward(on_host):  # noqa: F811
    x, w = whole(1, 16, 5, 6).to(torch.float8_e4m3fn), whole(8, 16, 3, 3, seed=1).to(torch.float8_e4m3fn)
    scales = 2.0 ** torch.arange(-4, 4)
    plain = TORCHS[4](x.double(), w.double())
    y = st.conv2d(x, w, scale_x=torch.tensor(0.5), scale_w=scales, out_dtype=BF16)
    same(y, plain * 0.5 * scales.double().view(1, 8, 1, 1))


# ---- gradients
def test_gradients_that_nobody_wants_are_not_computed(on_host):  # noqa: F811
    x, w = whole(1, 8, 5, 6), whole(8, 8, 3, 3)
    st.conv2d(x, w.clone().requires_grad_()).sum().backward()
    assert on_host.called == ["conv", "conv_weight"]
    st.conv2d(x.clone().requires_grad_(), w).sum().backward()
    assert on_host.called[2:] == ["conv", "conv_input"]
    y = st.conv2d(x, w.clone().requires_grad_())
    assert [tensor is None for tensor in y.grad_fn.saved_tensors][:2] == [False, True], "an operand that no gradient needs is not kept"


@pytest.mark.parametrize("channels, kernel, stride", [(8, 3, 1), (3, 4, 4)])
def test_no_images_are_no_product(on_host, channels, kernel, stride):  # noqa: F811
    x, w = bf16(0, channels, 8, 8).requires_grad_(), whole(5, channels, kernel, kernel).requires_grad_()
    y = st.conv2d(x, w, stride=stride)
    assert y.shape == TORCHS[4](x.float(), w.float(), stride=stride).shape
    y.sum().backward()
    assert x.grad.shape == x.shape and (w.grad == 0).all() and on_host.called == []
    w.main_grad = torch.full(w.shape, 0.25)
    st.conv2d(x, w, stride=stride).sum().backward()
    assert (w.main_grad == 0.25).all()


def empty(*shape, **more):
    return torch.zeros(*shape, dtype=BF16, **more)


# Calls with n images that are invalid for one image too.
BAD_BATCHES = [
    ("the filter does not fit", lambda n: st.conv2d(empty(n, 8, 2, 2), empty(8, 8, 3, 3)), sluice.InvalidSize, "would have 0 rows"),
    ("with a gradient", lambda n: st.conv2d(empty(n, 8, 2, 2), empty(8, 8, 3, 3, requires_grad=True)), sluice.InvalidSize, "would have 0 rows"),
    ("odd channels", lambda n: st.conv2d(empty(n, 3, 2, 2), empty(5, 3, 3, 3)), sluice.InvalidSize, "would have 0 rows"),
    ("patches", lambda n: st.conv2d(empty(n, 3, 2, 2), empty(8, 3, 4, 4), stride=4), sluice.InvalidSize, "at least one patch"),
    ("a stride", lambda n: st.conv2d(empty(n, 8, 20, 20), empty(8, 8, 3, 3), stride=9), sluice.InvalidSize, "stride = 9"),
    ("taps", lambda n: st.conv_transpose2d(empty(n, 8, 8, 8), empty(8, 8, 20, 20)), sluice.InvalidSize, "400 taps"),
    ("an activation", lambda n: st.conv2d(empty(n, 8, 8, 8), empty(8, 8, 3, 3), activation="tanh"), sluice.InvalidArgument, "tanh"),
    ("a bias's type", lambda n: st.conv2d(empty(n, 8, 8, 8), empty(8, 8, 3, 3), torch.zeros(8, dtype=torch.float64)), sluice.InvalidType, "bias"),
    ("an output's type", lambda n: st.conv2d(empty(n, 8, 8, 8), empty(8, 8, 3, 3), out_dtype=torch.int32), sluice.InvalidType, "out has"),
    ("a residual", lambda n: st.conv2d(empty(n, 8, 8, 8), empty(8, 8, 3, 3), c=empty(n, 8, 5, 5)), sluice.InvalidSize, "c has shape"),
    ("a scale", lambda n: st.conv2d(empty(n, 16, 8, 8).to(torch.float8_e4m3fn), empty(8, 16, 3, 3).to(torch.float8_e4m3fn), scale_x=torch.ones(2),
                                    out_dtype=BF16), sluice.InvalidSize, "scale_x"),
    ("a weight's gradient", lambda n: st.grad.conv2d_weight(empty(n, 8, 2, 2), (8, 8, 3, 3), empty(n, 8, 0, 0)), sluice.InvalidSize, "0 rows"),
    ("an input's gradient", lambda n: st.grad.conv2d_input((n, 8, 2, 2), empty(8, 8, 3, 3), empty(n, 8, 0, 0)), sluice.InvalidSize, "0 rows"),
]


@pytest.mark.parametrize("call, kind, mention", [row[1:] for row in BAD_BATCHES], ids=[row[0] for row in BAD_BATCHES])
def test_an_empty_batch_is_refused_as_a_full_one(call, kind, mention):
    with pytest.raises(kind, match=mention):
        call(0)


def test_an_empty_batch_is_taken_as_a_full_one(on_host):  # noqa: F811
    x, w, c = empty(0, 3, 8, 8), whole(5, 3, 3, 3), empty(0, 5, 6, 6)
    out = channels_last(empty(0, 5, 6, 6))
    assert st.conv2d(x, w, c=c, out=out, activation="relu") is out
    assert st.conv2d(x, w, whole(5, dtype=FP32), out_dtype=FP32).dtype is FP32
    assert st.conv_transpose2d(empty(0, 5, 4, 4), w).shape == (0, 3, 6, 6)
    assert st.grad.conv2d_input((0, 3, 8, 8), w, c).shape == (0, 3, 8, 8)
    assert (st.grad.conv2d_weight(x, w.shape, c) == 0).all()
    with torch.autocast("cpu", BF16):
        assert st.conv2d(x.float(), w.float()).dtype is BF16
    assert on_host.called == []


def test_a_second_derivative_raises(on_host):  # noqa: F811
    x, w = whole(1, 8, 5, 6).requires_grad_(), whole(8, 8, 3, 3).requires_grad_()
    for convolution in (st.conv2d, st.conv_transpose2d):
        # The first loss has a gradient that requires no gradient itself.
        for loss in (lambda y: y.sum(), lambda y: (y ** 2).sum()):
            with pytest.raises(sluice.InvalidArgument, match="create_graph=True wants a second derivative"):
                torch.autograd.grad(loss(convolution(x, w)), x, create_graph=True)


class GivenWorkspace:
    address = 4711


def test_a_workspace_serves_all_products(on_host):  # noqa: F811
    x, w = whole(1, 8, 5, 6).requires_grad_(), whole(8, 8, 3, 3).requires_grad_()
    st.conv2d(x, w, workspace=GivenWorkspace()).sum().backward()
    w.main_grad = torch.zeros(8, 8, 3, 3).to(memory_format=torch.channels_last)
    st.conv2d(x, w, workspace=GivenWorkspace()).sum().backward()
    assert [given["workspace"] for given in on_host.given] == [4711] * 6 and on_host.called[-1] == "add_conv_weight"


# ---- autocast
@pytest.mark.parametrize("kernel", [3, 4])
def test_autocast_gives_fp32_gradients_from_the_accumulators(on_host, kernel):  # noqa: F811
    stride = 4 if kernel == 4 else 1  # patches
    x, w, bias = (t.mul_(1 + 2**-12) for t in (whole(4, 3, 16, 16, dtype=FP32), whole(8, 3, kernel, kernel, dtype=FP32), whole(8, dtype=FP32)))
    x, w, bias = x.requires_grad_(), w.requires_grad_(), bias.requires_grad_()
    with torch.autocast("cpu", BF16):
        y = st.conv2d(x, w, bias, stride)
    assert y.dtype is BF16
    upstream = whole(*y.shape, seed=3) * 37 + 1
    y.backward(upstream)
    cast = [t.detach().to(BF16) for t in (x, w)]
    wanted = in_float64(*cast, bias, dict(stride=stride), lambda _: upstream)
    same(y.detach(), wanted[0])
    for got, expected in zip((x.grad, w.grad, bias.grad), wanted[1:]):
        same(got, expected, FP32)
    assert not torch.equal(w.grad, w.grad.to(BF16).float()), "fp32 that was rounded to 16 bits would be no better than they"


def test_autocast_casts_16_bits_too_and_leaves_float64(on_host):  # noqa: F811
    with torch.autocast("cpu", BF16):
        assert st.conv2d(whole(1, 8, 4, 4, dtype=FP16), whole(8, 8, 3, 3, dtype=FP32)).dtype is BF16
        with pytest.raises(sluice.InvalidType, match="float64"):
            st.conv2d(whole(1, 8, 4, 4, dtype=torch.float64), whole(8, 8, 3, 3, dtype=torch.float64))
    with pytest.raises(sluice.InvalidType, match="use torch.autocast"):
        st.conv2d(whole(1, 8, 4, 4), whole(8, 8, 3, 3, dtype=FP32))
    with pytest.raises(sluice.InvalidType, match="input is torch.float32.*torch.autocast"):
        st.conv2d(whole(1, 8, 4, 4, dtype=FP32), whole(8, 8, 3, 3, dtype=FP32))


# ---- torch.compile
def compiled_with(function, graphs):
    from torch._functorch.aot_autograd import aot_module_simplified

    def compiler(graph, example):
        graphs.append(graph)
        return graph.forward

    def backend(graph, example):
        return aot_module_simplified(graph, example, fw_compiler=compiler, bw_compiler=compiler)

    return torch.compile(function, backend=backend, fullgraph=True)


@pytest.mark.parametrize("case", CASES[:2] + CASES[5:6] + CASES[13:14] + CASES[23:25] + CASES[27:28] + CASES[33:34],
                         ids=IDS[:2] + IDS[5:6] + IDS[13:14] + IDS[23:25] + IDS[27:28] + IDS[33:34])
@pytest.mark.parametrize("lay", [channels_last, lambda x: x], ids=["channels_last", "NCHW"])
def test_a_compiled_convolution_trains(on_host, case, lay):  # noqa: F811
    x, w, bias, arguments = of_case(case)
    x, w, bias = lay(x).requires_grad_(), lay(w).requires_grad_(), bias.requires_grad_()
    graphs = []
    y = compiled_with(lambda *t: OURS[x.dim()](*t, **arguments), graphs)(x, w, bias)
    upstream = whole(*y.shape, seed=3)
    y.backward(lay(upstream))
    for got, expected in zip((y.detach(), x.grad, w.grad, bias.grad), in_float64(x, w, bias, arguments, lambda _: upstream)):
        same(got, expected)
    targets = [str(node.target) for graph in graphs for node in graph.graph.nodes]
    patches = case[0].startswith("patches")
    assert sum(("sluice.linear" if patches else "sluice.conv.default") in target for target in targets) == 1
    assert sum(("sluice.mm" if patches else "sluice.conv_gradients.default") in target for target in targets) == (2 if patches else 1)


def test_a_compiled_model_under_autocast(on_host):  # noqa: F811
    x, w = whole(2, 8, 6, 6, dtype=FP32), whole(8, 8, 3, 3, dtype=FP32).requires_grad_()

    def step(x, w):
        with torch.autocast("cpu", BF16):
            return st.conv2d(torch.relu(st.conv2d(x, w, padding=1)), w, padding=1)

    y = compiled_with(step, [])(x, w)
    y.sum().backward()
    grad = w.grad.clone()
    w.grad = None
    step(x, w).sum().backward()
    assert y.dtype is BF16 and torch.equal(w.grad, grad)


def test_inference_is_traced_with_any_number_of_images(on_host):  # noqa: F811
    w, seen = channels_last(whole(8, 8, 3, 3)), []

    def backend(graph, example):
        seen.append(graph)
        return graph.forward

    traced = torch.compile(lambda x: st.conv2d(x, w, padding=1, activation="relu"), backend=backend, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for images in (2, 3, 5):
            x = channels_last(whole(images, 8, 6, 7))
            same(traced(x), torch.relu(TORCHS[4](x.double(), w.double(), padding=1)))
    assert len(seen) == 1, "the number of images must not recompile"


def test_a_plain_convolution_is_traced_as_the_op_without_an_epilogue(on_host):  # noqa: F811
    x, w, graphs = channels_last(whole(2, 8, 6, 7)), channels_last(whole(8, 8, 3, 3)), []
    with torch.no_grad():
        y = compiled_with(lambda x, w: st.conv2d(x, w, padding=1), graphs)(x, w)
    same(y, TORCHS[4](x.double(), w.double(), padding=1))
    assert [str(node.target) for graph in graphs for node in graph.graph.nodes if "sluice" in str(node.target)] == ["sluice.conv.default"]


def test_training_is_traced_with_any_number_of_images(on_host):  # noqa: F811
    w, seen = channels_last(whole(8, 8, 3, 3)).requires_grad_(), []

    def backend(graph, example):
        seen.append(graph)
        return torch._dynamo.backends.debugging.aot_eager(graph, example)

    traced = torch.compile(lambda x: st.conv2d(x, w, padding=1), backend=backend, fullgraph=True, dynamic=True)
    for images in (2, 3, 5):
        x = channels_last(whole(images, 8, 6, 7)).requires_grad_()
        upstream = whole(images, 8, 6, 7, seed=3)
        w.grad = None
        traced(x).backward(upstream)
        expected = in_float64(x, w, torch.zeros(8), dict(padding=1), lambda _: upstream)  # noqa: B023
        same(x.grad, expected[1])
        same(w.grad, expected[2])
    assert len(seen) == 1, "the number of images must not recompile"


GEOMETRY = [1] * 8
OP_CALLS = {
    "conv": lambda x, w, dy: (x, w, GEOMETRY, None, 0, BF16),
    "conv_fused": lambda x, w, dy: (x, w, GEOMETRY, None, 0, dy, "relu", None, None, None, False, BF16),
    "conv_input": lambda x, w, dy: (dy, w, list(x.shape), GEOMETRY, 0, FP32),
    "conv_weight": lambda x, w, dy: (dy, x, list(w.shape), GEOMETRY, 0, FP32),
    "conv_gradients": lambda x, w, dy: (dy, x, w, list(x.shape), list(w.shape), GEOMETRY, 0, BF16, FP32),
}


@pytest.mark.parametrize("name", OP_CALLS)
def test_opcheck(on_host, name):  # noqa: F811
    arguments = OP_CALLS[name](channels_last(whole(2, 8, 6, 7)), channels_last(whole(16, 8, 3, 3)), channels_last(whole(2, 16, 6, 7)))
    torch.library.opcheck(getattr(torch.ops.sluice, name).default, arguments, test_utils=(
        "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"))


def test_fakes_have_the_shapes_types_and_strides_of_the_real_ones():
    with FakeTensorMode():
        x = torch.zeros(2, 16, 9, 8, dtype=BF16, device="cuda").to(memory_format=torch.channels_last)
        w = torch.zeros(24, 16, 3, 3, dtype=BF16, device="cuda")
        y = st.conv2d(x, w, padding=1, stride=2)
        assert y.shape == (2, 24, 5, 4) and y.dtype is BF16 and y.is_cuda and is_packed(y)
        assert st.conv2d(x, w, out_dtype=FP32).dtype is FP32
        dx = st.grad.conv2d_input(x.shape, w, y, 2, 1)
        assert dx.shape == x.shape and is_packed(dx)
        dw = st.grad.conv2d_weight(x, w.shape, y, 2, 1, out_dtype=FP32)
        assert dw.shape == w.shape and dw.dtype is FP32 and is_packed(dw)
        z = st.conv1d(torch.zeros(2, 16, 9, dtype=BF16, device="cuda"), torch.zeros(8, 16, 3, dtype=BF16, device="cuda"))
        assert z.shape == (2, 8, 7) and is_packed(z)
        out = torch.zeros(2, 24, 7, 6, dtype=BF16, device="cuda").to(memory_format=torch.channels_last)
        assert st.conv2d(x, w, out=out) is out


def test_fakes_refuse_what_the_call_refuses():
    with FakeTensorMode():
        x, w = torch.zeros(2, 16, 40, 40, dtype=BF16, device="cuda"), torch.zeros(24, 16, 3, 3, dtype=BF16, device="cuda")
        with pytest.raises(sluice.InvalidSize, match="stride"):
            st.conv2d(x, w, stride=9)
        with pytest.raises(sluice.InvalidStride):
            st.conv2d(x, w, out=torch.zeros(2, 24, 38, 38, dtype=BF16, device="cuda"))


# ---- bad calls
def bf16(*shape):
    return torch.zeros(*shape, dtype=BF16)


X, W, Y = bf16(2, 16, 6, 6), bf16(8, 16, 3, 3), bf16(2, 8, 4, 4)
BAD = [
    ("host memory", lambda: st.conv2d(X, W), sluice.WrongDevice, "host memory"),
    ("groups", lambda: st.conv2d(X, W, groups=2), sluice.InvalidSize, "groups = 2 must be 1"),
    ("channels", lambda: st.conv2d(X, bf16(8, 12, 3, 3)), sluice.InvalidSize, "input has 16 channels and weight has 12"),
    ("channels that padding would hide", lambda: st.conv2d(bf16(1, 3, 6, 6), bf16(8, 5, 3, 3)), sluice.InvalidSize, "3 channels"),
    ("dimensions", lambda: st.conv2d(bf16(2, 2, 16, 6, 6), W), sluice.InvalidSize, "must have 4 dimensions"),
    ("a filter's dimensions", lambda: st.conv3d(bf16(2, 16, 6, 6, 6), W), sluice.InvalidSize, "weight has shape (8, 16, 3, 3)"),
    ("same with a stride", lambda: st.conv2d(X, W, stride=2, padding="same"), sluice.InvalidArgument, "needs stride 1"),
    ("a padding's name", lambda: st.conv2d(X, W, padding="full"), sluice.InvalidArgument, "'same', 'valid'"),
    ("numbers of an axis", lambda: st.conv2d(X, W, stride=(1, 1, 1)), sluice.InvalidArgument, "stride = (1, 1, 1) must have 2 numbers"),
    ("a float", lambda: st.conv2d(X, W, padding=0.5), sluice.InvalidType, "padding = 0.5 must be an integer"),
    ("no stride", lambda: st.conv2d(X, W, stride=0), sluice.InvalidSize, "at least 1"),
    ("negative padding", lambda: st.conv2d(X, W, padding=((0, -1), (0, 0))), sluice.InvalidSize, "at least 0"),
    ("a bias's shape", lambda: st.conv2d(X, W, bf16(9)), sluice.InvalidSize, "a value for each filter, (8,)"),
    ("a residual's shape", lambda: st.conv2d(X, W, c=bf16(2, 8, 4, 5)), sluice.InvalidSize, "must have the output's, (2, 8, 4, 4)"),
    ("activation", lambda: st.conv2d(X, W, activation="tanh"), sluice.InvalidArgument, "tanh"),
    ("types", lambda: st.conv2d(X.half(), W), sluice.InvalidType, "weight is torch.bfloat16"),
    ("integers", lambda: st.conv2d(X.int(), W.int()), sluice.InvalidType, "torch.int32"),
    ("no patch", lambda: st.conv2d(bf16(1, 3, 8, 8), bf16(8, 3, 16, 16), stride=16), sluice.InvalidSize, "one patch"),
    ("a sparse input", lambda: st.conv2d(torch.zeros(2, 8, 4, 4).to_sparse(), W), sluice.InvalidType, "input.to_dense()"),
    ("no tensor", lambda: st.conv2d([1], W), sluice.InvalidType, "input is a list and must be a tensor"),
    ("backward of more", lambda: st.conv2d(X.clone().requires_grad_(), W, activation="relu"), sluice.InvalidArgument, "differentiable"),
    ("backward of a residual", lambda: st.conv2d(X, W, c=Y.clone().requires_grad_()), sluice.InvalidArgument, "without c"),
    ("backward into fp32", lambda: st.conv2d(X.clone().requires_grad_(), W, out_dtype=FP32), sluice.InvalidArgument, "out_dtype"),
    ("more phases than a launch has", lambda: st.conv2d(X.clone().requires_grad_(), W, stride=3, padding=1), sluice.InvalidSize, "9 phases"),
    ("out's gradient", lambda: st.conv2d(X, W, out=Y.clone().requires_grad_()), sluice.InvalidArgument, "out.detach()"),
    ("out against out_dtype", lambda: st.conv2d(X, W, out=Y, out_dtype=FP32), sluice.InvalidArgument, "out_dtype"),
    ("a gradient's shape", lambda: st.grad.conv2d_input((2, 16, 6, 6), W, bf16(2, 8, 5, 4)), sluice.InvalidSize, "(2, 8, 4, 4)"),
    ("a shape's length", lambda: st.grad.conv2d_input((16, 6, 6), W, Y), sluice.InvalidArgument, "4 numbers"),
    ("a gradient's type", lambda: st.grad.conv2d_weight(X, W.shape, Y.float()), sluice.InvalidType, "grad_output is torch.float32"),
    ("a gradient's channels", lambda: st.grad.conv2d_weight(X, (8, 12, 3, 3), Y), sluice.InvalidSize, "weight has 12"),
    ("a total in 16 bits", lambda: st.grad.conv2d_weight(X, W.shape, Y, total=W.clone()), sluice.InvalidType, "total is torch.bfloat16"),
    ("a gradient of a gradient", lambda: st.grad.conv2d_input(X.shape, W.clone().requires_grad_(), Y), sluice.InvalidArgument, "no backward"),
    ("a main_grad's shape", lambda: st.conv2d(X, with_main_grad(bf16(8, 16, 3, 3), torch.zeros(8, 16, 9))), sluice.InvalidSize, "(8, 16, 9)"),
]


def with_main_grad(weight, main_grad):
    weight.requires_grad_().main_grad = main_grad
    return weight


@pytest.mark.parametrize("call, kind, mention", [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_calls_raise_what_fits_and_name_the_argument(call, kind, mention):
    with pytest.raises(kind) as caught:
        call()
    assert mention in str(caught.value)
