# SPDX-License-Identifier: Apache-2.0
"""Training of linears in FP8 on a GPU: the quantiser in both orders bit for bit, products of the codes against float64, gradients against exact
ones, captures and streams. test_fp8_training.py has the same without a GPU."""
import copy
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from fp8_on_host import ALL, converted, cosine, cosines, gradients_of, same, step  # noqa: E402
from gpu_helpers import BF16, E4M3, E5M2, FP16, FP32, needs_gpu, real  # noqa: E402
from sluice.torch._fp8_recipes import training_recipe  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

pytestmark = needs_gpu
GRANULARITIES = ["tensor", "row", "1x128", "128x128"]
SHAPES = [(1, 16), (1, 4096), (127, 144), (128, 128), (129, 272), (300, 1008), (4096, 512), (77, 8208), (5000, 48)]


def same_as_the_reference(x, granularity, **options):
    both, wanted = st.quantize_both(x, granularity, sums=True, **options), st.quantize_both_reference(x, granularity, sums=True, **options)
    for name in ("rows", "row_scales", "columns", "column_scales"):
        one, other = getattr(both, name), getattr(wanted, name)
        nans = one.float().isnan()
        assert one.shape == other.shape and one.dtype is other.dtype and torch.equal(nans, other.float().isnan()), name
        assert same(one.float().masked_fill(nans, 0), other.float().masked_fill(nans, 0)), name
    finite = x.isfinite().all(0)
    most = float(x[:, finite].float().abs().max()) if finite.any() else 0.0
    assert torch.allclose(both.sums[finite], x[:, finite].double().sum(0).float(), rtol=1e-5, atol=1e-4 * most)
    assert not both.sums[~finite].isfinite().any()


# ---- casts in both orders
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_both_orders_have_the_references_bits(shape, granularity):
    for dtype in (BF16, FP16, FP32):
        x = real(*shape, dtype=dtype)
        for options in (dict(), dict(power_of_two=True), dict(dtype=E5M2), dict(dtype=E5M2, power_of_two=True)):
            same_as_the_reference(x, granularity, **options)


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("power_of_two", [False, True])
def test_special_numbers(granularity, power_of_two):
    for rms in (1e-30, 1e-12, 1e-10, 1e-8, 1e4, 1e30):
        same_as_the_reference(real(129, 272, dtype=FP32) * rms, granularity, power_of_two=power_of_two)
    x = real(300, 528)
    x[0], x[:, 5], x[130, 7], x[131, 400] = 0, 0, float("nan"), 3e38
    same_as_the_reference(x, granularity, power_of_two=power_of_two)
    x[132, 9] = float("inf")
    same_as_the_reference(x, granularity, power_of_two=power_of_two)
    same_as_the_reference(torch.zeros_like(x), granularity, power_of_two=power_of_two)


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_views_and_a_second_call(granularity):
    same_as_the_reference(real(129, 600)[:, 8:280], granularity)
    big = st.quantize_both(real(4096, 512), granularity)  # its memory is used again by the next call
    del big
    same_as_the_reference(real(130, 512), granularity)


def test_bad_inputs_are_refused():
    for x, kind in ((real(64, 128).t(), sluice.InvalidStride), (real(64, 128).cpu(), sluice.WrongDevice), (real(2, 64, 128), sluice.InvalidSize),
                    (real(64, 136), sluice.Error), (real(64, 136)[:, 1:129], sluice.Error)):
        with pytest.raises(kind, match="input"):
            st.quantize_both(x)


# ---- gradients
def layer_of(recipe, weight_gradient="fp8", k=1024, n=768, dtype=BF16, **more):
    torch.manual_seed(k + n)
    layer = st.nn.Linear(k, n, recipe=recipe, backward="fp8", weight_gradient=weight_gradient, dtype=dtype, device="cuda", **more)
    torch.nn.init.normal_(layer.bias)
    return layer


def of_codes(matrix, cast, rows, power_of_two):
    """Returns a matrix as its codes say, in fp64."""
    granularity = cast.rows if rows else cast.columns
    made = st.quantize_both_reference(matrix if rows else matrix.t().contiguous(), granularity, dtype=cast.dtype, power_of_two=power_of_two)
    scales, (height, width) = made.row_scales.double(), made.rows.shape
    if granularity == "128x128":
        scales = scales.repeat_interleave(128, 0)[:height]
    if granularity in ("1x128", "128x128"):
        scales = scales.repeat_interleave(128, 1)[:, :width]
    return made.rows.double() * scales


def is_product(got, a, b, bias=0.0):
    """Compares with ``a @ b.t() + bias`` in fp64, by the bound of promoted sums (docs/numerics.md) and the result's rounding."""
    wanted, k = a @ b.t() + bias, a.shape[1]
    unit = {BF16: 2.0**-8, FP16: 2.0**-11, FP32: 2.0**-24}[got.dtype]
    bound = (136 * 2.0**-13 + (k / 128 + 10) * 2.0**-24) * (a.abs() @ b.abs().t()) + unit * wanted.abs() + 1e-30
    assert ((got.double() - wanted).abs() <= bound).all()


@ALL
@pytest.mark.parametrize("tokens", [1, 127, 129, 2048])
@pytest.mark.parametrize("dtype", [BF16, FP32])
def test_products_are_those_of_the_codes(recipe, weight_gradient, tokens, dtype):
    if (weight_gradient, dtype) == ("16bit", FP32):
        return
    layer, x, dy = layer_of(recipe, weight_gradient, dtype=dtype), real(tokens, 1024, dtype=dtype), real(tokens, 768, dtype=dtype, seed=1)
    y, dx, dw, db = step(layer, x, dy)
    casts, w = training_recipe(recipe, weight_gradient), layer.weight.detach()
    of = lambda matrix, cast, rows: of_codes(matrix, cast, rows, casts.power_of_two)  # noqa: E731
    is_product(y, of(x, casts.input, True), of(w, casts.weight, True), layer.bias.detach().double())
    is_product(dx, of(dy, casts.gradient, True), of(w, casts.weight, False))
    if weight_gradient == "fp8":
        is_product(dw, of(dy, casts.gradient, False), of(x, casts.input, False))
    else:
        is_product(dw, dy.double().t(), x.double().t())
    assert torch.allclose(db.double(), dy.double().sum(0), rtol=2**-7, atol=1e-2)


BARS = {"tensor": (0.998, 0.5), "row": (0.999, 0.998), "block": (0.999, 0.998)}


@ALL
@pytest.mark.parametrize("size", [1.0, 1e-8, 1e-10])
def test_gradients_point_where_exact_ones_do(recipe, weight_gradient, size):
    layer, x = layer_of(recipe, weight_gradient), real(4096, 1024)
    dy = (real(4096, 768, dtype=FP32, seed=1) * torch.exp(1.5 * real(4096, 1, dtype=FP32, seed=2)) * size).to(BF16)
    whole, worst = BARS[recipe]
    w = layer.weight.detach().double()
    for got, wanted in zip(step(layer, x, dy)[1:3], (dy.double() @ w, dy.double().t() @ x.double())):
        rows = cosines(got, wanted).sort().values
        assert cosine(got, wanted) > whole and rows[len(rows) // 100] > worst, (recipe, float(rows[0]))


@ALL
def test_main_grad_is_added_to(recipe, weight_gradient):
    layer, x, dy = layer_of(recipe, weight_gradient), real(777, 1024).requires_grad_(), real(777, 768, seed=1)
    st.nn.main_grad_views(torch.nn.Sequential(layer))
    layer(x).backward(dy)
    once = layer.weight.main_grad.clone()
    layer(x).backward(dy)
    assert torch.allclose(layer.weight.main_grad, 2 * once, rtol=1e-6, atol=1e-6) and layer.weight.grad is None
    assert cosine(once, dy.double().t() @ x.detach().double()) > 0.998


@ALL
def test_every_way_has_the_same_bits(recipe, weight_gradient):
    model, x, dy = converted(recipe, weight_gradient).cuda(), real(300, 128), real(300, 64, seed=1)
    wanted = gradients_of(model, x, dy)
    ways = [None, lambda x: checkpoint(model, x, use_reentrant=False), torch.compile(model, fullgraph=True)]
    for way in ways[:2]:
        assert all(same(one, other) for one, other in zip(gradients_of(model, x, dy, way), wanted))
    # The compiler's GELU rounds in another way, so a layer by itself is compared.
    layer = model[0]
    made = [gradients_of(layer, x, real(300, 256), way) for way in (torch.compile(layer), None)]
    assert all(same(one, other) for one, other in zip(*made))
    assert cosine(gradients_of(model, x, dy, ways[2])[2], wanted[2]) > 0.999
    with st.nn.weights_kept(model):
        for _ in range(2):
            assert all(same(one, other) for one, other in zip(gradients_of(model, x, dy), wanted))


# ---- SwiGLU
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("shape", [(1, 32), (129, 288), (130, 544), (2048, 2048)])
@pytest.mark.parametrize("dtype", [BF16, FP16])
def test_swiglu_is_cast_as_it_is_computed(granularity, shape, dtype):
    x, dy = real(*shape, dtype=dtype), real(shape[0], shape[1] // 2, dtype=dtype, seed=1)
    got, wanted = st.quantize_both(x, granularity, gated=True), st.quantize_both(st.silu_mul(x), granularity)
    assert all(same(one, other) for one, other in zip(got[:4], wanted[:4])), "silu_mul has the same exponential"
    got = st.quantize_both(x, granularity, dtype=E5M2, gated=True, gradient=dy, sums=True)
    wanted = st.quantize_both_reference(x, granularity, dtype=E5M2, gated=True, gradient=dy, sums=True)
    for one, other in zip(got[:4], wanted[:4]):
        assert one.shape == other.shape and one.stride() == other.stride() and cosine(one.float(), other.float()) > 0.9999
    assert torch.allclose(got.sums, wanted.sums, rtol=1e-2, atol=1e-2 * float(wanted.sums.abs().max()))


@pytest.mark.parametrize("recipe", ["tensor", "row", "block"])
@pytest.mark.parametrize("keep", ["columns", "input"])
def test_feed_forward_is_its_layers_with_silu_between(recipe, keep):
    layer = st.nn.FeedForward(layer_of(recipe, k=512, n=1536, keep=keep), layer_of(recipe, k=768, n=512, keep=keep))
    x, dy = real(777, 512), real(777, 512, seed=1) * 1e-4

    def apart(x):
        gate, up = layer.gate_up(x).float().chunk(2, -1)
        return layer.down((torch.nn.functional.silu(gate) * up).to(BF16))

    got = gradients_of(layer, x, dy)
    assert all(cosine(one, other) > 0.999 for one, other in zip(got, gradients_of(layer, x, dy, apart)))
    for way in (torch.compile(layer, fullgraph=True), lambda x: checkpoint(layer, x, use_reentrant=False)):
        assert all(same(one, other) for one, other in zip(gradients_of(layer, x, dy, way), got))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_fsdp_of_two_ranks():
    script = pathlib.Path(__file__).with_name("gpu_fsdp.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


# ---- captures and streams
def captured(work):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


@ALL
@pytest.mark.parametrize("keeps", [False, True])
def test_a_captured_step_reads_the_weights_of_its_replay(recipe, weight_gradient, keeps):
    """The captured step accumulates two batches and updates the weight; its replays equal eager steps."""
    layer = layer_of(recipe, weight_gradient)
    xs, dys = [real(300, 1024, seed=i) for i in range(2)], [real(300, 768, seed=i + 5) for i in range(2)]

    def work(layer):
        def passes():
            for x, dy in zip(xs, dys):
                layer(x).backward(dy)

        layer.weight.grad, layer.bias.grad = None, None
        if keeps:
            with st.nn.weights_kept(layer):
                passes()
        else:
            passes()
        with torch.no_grad():
            layer.weight.sub_(layer.weight.grad, alpha=1e-3)

    before = layer.weight.detach().clone()
    graph = captured(lambda: work(layer))
    with torch.no_grad():
        layer.weight.copy_(before)
    eager = copy.deepcopy(layer)
    for turn in range(3):
        graph.replay()
        work(eager)
        assert same(layer.weight.detach(), eager.weight.detach()), turn
        with torch.no_grad():  # a write between replays, which changes no address
            layer.weight.data.mul_(1.5)
            eager.weight.data.mul_(1.5)


def test_a_block_outside_of_a_capture_is_refused():
    layer, x = layer_of("row"), real(128, 1024)
    layer(x)
    with st.nn.weights_kept(layer):
        with pytest.raises(sluice.InvalidArgument, match="enter it inside of the capture"), torch.cuda.graph(torch.cuda.CUDAGraph()):
            layer(x)


def test_streams_keep_their_own_codes():
    layer, x, dy = layer_of("row", k=4096, n=4096), real(4096, 4096), real(4096, 4096, seed=1)
    wanted, side = step(layer, x, dy), torch.cuda.Stream()
    for _ in range(5):
        with st.nn.weights_kept(layer):
            side.wait_stream(torch.cuda.current_stream())
            one = step(layer, x, dy)
            with torch.cuda.stream(side):
                other = step(copy.copy(layer), x, dy)
            torch.cuda.current_stream().wait_stream(side)
            assert all(same(a, b) and same(a, c) for a, b, c in zip(wanted, one, other))


def saved_bytes(keep):
    """Bytes that a forward of an 8192 x 4096 input keeps for its backward, beside the input itself."""
    layer, x = layer_of("row", k=4096, n=4096, keep=keep), real(8192, 4096).requires_grad_()
    layer(x).sum().backward()  # makes what every later step uses
    before = torch.cuda.memory_allocated()
    y = layer(x * 1)
    return torch.cuda.memory_allocated() - before - y.nbytes


def test_memory_that_is_saved():
    """The input's columns take a byte per element instead of two."""
    columns, whole = saved_bytes("columns"), saved_bytes("input")
    assert columns < 0.6 * whole, (columns, whole)



def test_a_converted_model_learns():
    torch.manual_seed(0)
    model = st.nn.convert_(torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)).cuda(), recipe="row",
                           backward="fp8", narrow=True, report=lambda done: None)
    right, optimizer, losses = torch.randn(256, 256, device="cuda") / 16, torch.optim.AdamW(model.parameters(), lr=2e-3), []
    for turn in range(60):
        x = real(512, 256, dtype=FP32, seed=turn)
        with torch.autocast("cuda", BF16):
            loss = torch.nn.functional.mse_loss(model(x).float(), x @ right)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0], losses
