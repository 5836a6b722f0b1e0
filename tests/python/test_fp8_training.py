# SPDX-License-Identifier: Apache-2.0
"""Training of linears in FP8 without a GPU: gradients against float64, what is cast and saved, compiled and checkpointed bits.
test_gpu_fp8_training.py has the same on a GPU."""
import copy
import functools
import importlib

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from fp8_on_host import (ALL, BF16, E4M3, FP16, FP32, converted, cosine, cosines, gradients_of, layer_of, model_of,  # noqa: E402
                         on_host, real, same, step)  # noqa: F401 (a fixture)
from sluice.torch._fp8_recipes import training_recipe  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts  # noqa: E402

quantizer = importlib.import_module("sluice.torch.quantize")
RECIPES = ["tensor", "row", "block"]


@pytest.mark.parametrize("call, kind, mention", [
    (lambda: st.nn.Linear(16, 16, recipe="row", backward="bf16"), sluice.InvalidArgument, "backward = 'bf16' must be 'fp8'"),
    (lambda: st.nn.Linear(16, 16, backward="fp8"), sluice.InvalidArgument, "recipe = None has no backward in FP8"),
    (lambda: st.nn.Linear(16, 16, recipe="rows", backward="fp8"), sluice.InvalidArgument, "recipe = 'rows'"),
    (lambda: st.nn.Linear(16, 16, recipe="row", backward="fp8", keep="inputs"), sluice.InvalidArgument, "did you mean input?"),
    (lambda: st.nn.Linear(16, 16, recipe="row", keep="input"), sluice.InvalidArgument, "is for backward = 'fp8'"),
    (lambda: st.nn.Linear(16, 16, recipe="row", backward="fp8", weight_gradient="bf16"), sluice.InvalidArgument, "fp8, 16bit"),
    (lambda: st.nn.Linear(16, 16, recipe="row", backward="fp8", fuse_quantizer=True), sluice.InvalidArgument, "fuse_quantizer"),
    (lambda: st.nn.Linear(16, 24, recipe="row", backward="fp8"), sluice.Misaligned, "out_features = 24 must be a multiple of 16"),
    (lambda: st.nn.Linear(24, 16, recipe="row", backward="fp8"), sluice.Misaligned, "in_features = 24 must be a multiple of 16"),
    (lambda: st.nn.Linear(16, 16, recipe="row", backward="fp8")(real(4, 32)), sluice.InvalidSize, "in_features = 16 columns"),
    (lambda: st.nn.Linear(16, 16, recipe="row", backward="fp8")(real(4, 16).to(E4M3)), sluice.InvalidType, "input is torch.float8_e4m3fn"),
    (lambda: st.nn.Linear(16, 16, recipe="row", backward="fp8")(real(4, 16), real(4, 16)), sluice.InvalidArgument, "residual is given"),
    (lambda: st.nn.Linear(16, 16, recipe="row", backward="fp8", weight_gradient="16bit")(real(4, 16, dtype=FP32)), sluice.InvalidType,
     "torch.autocast"),
    (lambda: st.nn.Linear(16, 16, recipe="row", backward="fp8").of_quantized(real(4, 16).to(E4M3), torch.ones(4, 1), BF16),
     sluice.InvalidArgument, "casts its input itself"),
    (lambda: st.nn.weights_kept(torch.nn.Sequential(st.nn.Linear(16, 16))), sluice.InvalidArgument, "no layer with backward='fp8'"),
    (lambda: st.nn.convert_(model_of(), recipe="int4", backward="fp8"), sluice.InvalidArgument, "recipe = 'int4' has no backward"),
    (lambda: st.nn.convert_(model_of(), recipe="row", narrow=True), sluice.InvalidArgument, "narrow = True is for"),
])
def test_misuse_is_named(call, kind, mention):
    with pytest.raises(kind) as caught:
        call()
    assert mention in str(caught.value), str(caught.value)


# ---- gradients
def exact(layer, x, dy):
    x, w, dy = x.double(), layer.weight.detach().double(), dy.double()
    flat, gradient = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    return x @ w.t() + layer.bias.detach().double(), dy @ w, gradient.t() @ flat, gradient.sum(0)




@ALL
@pytest.mark.parametrize("tokens", [1, 127, 129])
def test_gradients_are_the_products_of_the_codes(on_host, recipe, weight_gradient, tokens):  # noqa: F811
    layer, x, dy = layer_of(recipe, weight_gradient), real(tokens, 256), real(tokens, 144, seed=1)
    y, dx, dw, db = step(layer, x, dy)
    casts = training_recipe(recipe, weight_gradient)

    def of(matrix, cast, rows):
        """Returns a matrix as its codes say."""
        made = st.quantize_both_reference(matrix if rows else matrix.t().contiguous(), cast.rows if rows else cast.columns, dtype=cast.dtype,
                                          power_of_two=casts.power_of_two)
        scales, (height, width) = made.row_scales.double(), made.rows.shape
        if scales.dim() and scales.shape[0] != height:
            scales = scales.repeat_interleave(128, 0)[:height]
        scales = scales.repeat_interleave(128, 1)[:, :width] if scales.dim() and scales.shape[1] > 1 else scales
        return made.rows.double() * scales

    w = layer.weight.detach()
    wanted = of(x, casts.input, True) @ of(w, casts.weight, True).t() + layer.bias.detach().double()
    assert torch.allclose(y.double(), wanted, rtol=2**-8, atol=1e-6)
    assert torch.allclose(dx.double(), of(dy, casts.gradient, True) @ of(w, casts.weight, False).t(), rtol=2**-8, atol=1e-6)
    wanted = of(dy, casts.gradient, False) @ of(x, casts.input, False).t() if weight_gradient == "fp8" else dy.double().t() @ x.double()
    assert torch.allclose(dw.double(), wanted, rtol=2**-8, atol=1e-6)
    assert torch.allclose(db.double(), dy.double().sum(0), rtol=2**-7, atol=1e-2)


# The cosines with the exact result that a recipe reaches: of the whole matrix, and of the worst hundredth of its rows.
BARS = {"tensor": (0.998, 0.5), "row": (0.999, 0.998), "block": (0.999, 0.998)}


@ALL
def test_gradients_point_where_exact_ones_do(on_host, recipe, weight_gradient):  # noqa: F811
    layer, x, dy = layer_of(recipe, weight_gradient, k=512, n=256), real(512, 512), real(512, 256, seed=1, spread=1.5) * 1e-6
    for got, wanted in zip(step(layer, x, dy)[:3], exact(layer, x, dy)):
        whole, worst = BARS[recipe]
        rows = cosines(got, wanted).sort().values
        assert cosine(got, wanted) > whole and rows[len(rows) // 100] > worst, (recipe, rows[:8])


def of_a_small_loss(recipe):
    """Returns the least cosine of gradients with exact ones. e5m2 holds smaller numbers, so its floor is seen later."""
    layer, x, dy = layer_of(recipe, k=128, n=64), real(128, 128), real(128, 64, seed=1) * (1e-14 if recipe == "tensor" else 1e-10)
    return min(cosine(got, wanted) for got, wanted in list(zip(step(layer, x, dy), exact(layer, x, dy)))[1:3])


@pytest.mark.parametrize("recipe", RECIPES)
def test_small_gradients_live(on_host, recipe, monkeypatch):  # noqa: F811
    assert of_a_small_loss(recipe) > 0.998 - 1e-3 * (recipe == "tensor")
    monkeypatch.setattr(quantizer, "SMALLEST_OF_BOTH", 1e-4)
    assert of_a_small_loss(recipe) < 0.9, "the planted floor is not seen"


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_loss_may_be_scaled(on_host, recipe):  # noqa: F811
    layer, x, dy = layer_of(recipe), real(130, 256), real(130, 144, seed=1) * 1e-7
    plain, scaled = step(layer, x, dy), step(layer, x, dy * 2.0**20)
    for one, other in zip(plain[1:], scaled[1:]):
        assert same(one, other * 2.0**-20)
    for granularity, power_of_two in (("row", True), ("1x128", False), ("tensor", False)):
        one, other = (st.quantize_both_reference(matrix, granularity, power_of_two=power_of_two) for matrix in (dy, dy * 2.0**20))
        assert same(one.rows, other.rows) and same(one.columns, other.columns)


@ALL
@pytest.mark.parametrize("dtype", [FP16, FP32])
def test_types(on_host, recipe, weight_gradient, dtype):  # noqa: F811
    if (dtype, weight_gradient) == (FP32, "16bit"):
        return
    layer, x, dy = layer_of(recipe, weight_gradient, dtype=dtype), real(2, 65, 256, dtype=dtype), real(2, 65, 144, dtype=dtype, seed=1)
    made = step(layer, x, dy)
    assert [one.dtype for one in made] == [dtype] * 4 and [one.shape for one in made[:2]] == [(2, 65, 144), (2, 65, 256)]
    for got, wanted in zip(made, exact(layer, x, dy)):
        assert cosine(got, wanted) > 0.997


@ALL
def test_autocast_casts_no_parameter(on_host, recipe, weight_gradient):  # noqa: F811
    layer = layer_of(recipe, weight_gradient, dtype=FP32)
    given = {}
    for dtype in (FP32, BF16):
        x = real(130, 256).to(dtype).requires_grad_()
        with torch.autocast("cpu", BF16):
            y = layer(x)
        assert y.dtype is BF16
        layer.zero_grad()
        y.backward(real(130, 144, seed=1))
        assert x.grad.dtype is dtype and layer.weight.grad.dtype is layer.bias.grad.dtype is FP32
        given[dtype] = layer.weight.grad.clone(), y.detach()
    assert all(same(one, other) for one, other in zip(given[FP32], given[BF16]))
    assert cosine(layer.weight.grad, exact(layer, real(130, 256), real(130, 144, seed=1))[2]) > 0.997


# ---- what is cast, saved and computed
def saved_by(call):
    """Returns the result of a call, and the types and shapes of what autograd saved in it."""
    found = []

    def pack(tensor):
        if tensor.numel():
            found.append((tensor.dtype, tuple(tensor.shape)))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        return call(), found


@pytest.mark.parametrize("keep, weight_gradient, of_input", [("columns", "fp8", (E4M3, (256, 256))), ("input", "fp8", (BF16, (130, 256))),
                                                             ("columns", "16bit", (BF16, (130, 256)))])
def test_nothing_in_fp8_is_saved_but_the_inputs_columns(on_host, keep, weight_gradient, of_input):  # noqa: F811
    layer, x = layer_of("row", weight_gradient, keep=keep), real(130, 256).requires_grad_()
    y, found = saved_by(lambda: layer(x))
    scales = [(FP32, (256, 1))] if of_input[0] is E4M3 else []
    assert sorted(map(str, found)) == sorted(map(str, [(BF16, (144, 256)), of_input, *scales]))
    y.backward(real(130, 144))


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_inputs_columns_may_be_cast_later(on_host, recipe):  # noqa: F811
    x, dy = real(130, 256), real(130, 144, seed=1)
    made = [step(layer_of(recipe, keep=keep), x, dy) for keep in ("columns", "input")]
    assert all(same(one, other) for one, other in zip(*made))


def test_what_is_not_needed_is_not_computed(on_host):  # noqa: F811
    layer, x, dy = layer_of(), real(130, 256), real(130, 144)
    with torch.no_grad():
        layer(x)
    assert on_host.casts == [((130, 256), "row", False), ((144, 256), "row", False)] and len(on_host.products) == 1

    def walk(wanted, x):
        on_host.casts.clear(), on_host.products.clear()
        torch.autograd.grad(layer(x), wanted, dy)
        return on_host.casts[2:], len(on_host.products) - 1

    x = x.requires_grad_()
    assert walk([x], x) == ([((130, 144), "row", False), ((144, 256), "row", False)], 1)
    assert walk([layer.weight], x) == ([((130, 144), "row", False)], 1)
    assert walk([x, layer.weight, layer.bias], x) == ([((130, 144), "row", True), ((144, 256), "row", False)], 2)
    assert walk([layer.bias], x) == ([], 0)
    layer.weight.requires_grad_(False)
    assert walk([x], x)[1] == 1 and on_host.casts[0] == ((130, 256), "row", False)
    layer.weight.requires_grad_(True)
    assert walk([layer.weight], x.detach())[1] == 1
    assert {call[3] for call in on_host.products} == {"promoted"}
    fast = layer_of(use_fast_accum=True)
    on_host.products.clear()
    step(fast, x, dy)
    assert [call[3] for call in on_host.products] == ["fast", "promoted", "promoted"], "gradients are promoted always"


@ALL
def test_a_batch_without_tokens_and_an_expanded_gradient(on_host, recipe, weight_gradient):  # noqa: F811
    layer = layer_of(recipe, weight_gradient)
    y, dx, dw, db = step(layer, real(2, 0, 256), real(2, 0, 144))
    assert y.shape == (2, 0, 144) and dx.shape == (2, 0, 256) and (dw == 0).all() and (db == 0).all() and not on_host.products
    x = real(130, 256)
    expanded, plain = step(layer, x, torch.ones((), dtype=BF16).expand(130, 144)), step(layer, x, torch.ones(130, 144, dtype=BF16))
    assert all(same(one, other) for one, other in zip(expanded, plain))


def test_a_second_derivative_raises(on_host):  # noqa: F811
    x = real(4, 256).requires_grad_()
    with pytest.raises(sluice.InvalidArgument, match="create_graph=True"):
        torch.autograd.grad(layer_of()(x).sum(), x, create_graph=True)


class GivenWorkspace:
    address = 4711


def test_a_workspace_is_used_by_all(on_host):  # noqa: F811
    layer = layer_of()
    layer.workspace = GivenWorkspace()
    step(layer, real(130, 256), real(130, 144))
    assert set(on_host.workspaces) == {4711}


@ALL
def test_main_grad(on_host, recipe, weight_gradient):  # noqa: F811
    layer, x, dy = layer_of(recipe, weight_gradient), real(130, 256).requires_grad_(), real(130, 144, seed=1)
    wide = copy.deepcopy(layer).float()
    wide.weight_gradient = "fp8"
    wanted = step(wide, x, dy.float())[2] if weight_gradient == "fp8" else (dy.double().t() @ x.detach().double()).float()
    buffer = st.nn.main_grad_views(torch.nn.Sequential(layer))
    assert buffer.numel() >= 144 * 256
    for _ in range(2):
        layer(x).backward(dy)
    assert torch.allclose(layer.weight.main_grad, 2 * wanted, rtol=1e-5, atol=1e-6) and layer.weight.grad is None
    assert layer.weight.grad_added_to_main_grad
    dw, = torch.autograd.grad(layer(x), layer.weight, dy)
    assert torch.allclose(layer.weight.main_grad, 3 * wanted, rtol=1e-5, atol=1e-6) and torch.allclose(dw.float(), wanted, rtol=2**-7, atol=1e-4)


# ---- compile and checkpoints
@pytest.mark.parametrize("recipe, weight_gradient, keep", [("tensor", "fp8", "columns"), ("row", "fp8", "columns"), ("row", "16bit", "columns"),
                                                           ("block", "fp8", "input")])
def test_compiled_bits_are_eager_ones(on_host, recipe, weight_gradient, keep):  # noqa: F811
    model = converted(recipe, weight_gradient, keep=keep)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=True)
    for tokens in (130, 7):
        x, dy = real(tokens, 128), real(tokens, 64, seed=1)
        wanted = gradients_of(model, x, dy)
        assert all(same(one, other) for one, other in zip(gradients_of(model, x, dy, compiled), wanted))
    with torch.autocast("cpu", BF16):
        assert compiled(real(5, 128, dtype=FP32)).dtype is BF16
    with torch.no_grad():
        assert same(compiled(real(130, 128)), model(real(130, 128)))


def test_a_compiled_main_grad(on_host):  # noqa: F811
    layer, x, dy = layer_of(), real(130, 256).requires_grad_(), real(130, 144, seed=1)
    layer.weight.main_grad = torch.zeros(144, 256)
    layer(x).backward(dy)
    wanted, layer.weight.main_grad = layer.weight.main_grad, torch.zeros(144, 256)
    torch.compile(layer, backend="aot_eager")(x).backward(dy)
    assert same(layer.weight.main_grad, wanted) and layer.weight.grad is None


@ALL
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_changes_no_bit(on_host, recipe, weight_gradient, reentrant):  # noqa: F811
    model, x, dy = converted(recipe, weight_gradient), real(130, 128), real(130, 64, seed=1)
    wanted = gradients_of(model, x, dy)
    got = gradients_of(model, x, dy, lambda x: checkpoint(model, x, use_reentrant=reentrant))
    assert all(same(one, other) for one, other in zip(got, wanted))


@pytest.mark.parametrize("saves", [True, False])
def test_selective_checkpointing_sees_the_op(on_host, saves):  # noqa: F811
    model, x, dy = converted("row"), real(130, 128), real(130, 64, seed=1)
    wanted = gradients_of(model, x, dy)
    on_host.products.clear()
    policy = lambda context, op, *given, **named: (  # noqa: E731
        CheckpointPolicy.MUST_SAVE if saves and op is torch.ops.sluice.fp8_linear.default else CheckpointPolicy.PREFER_RECOMPUTE)
    context = functools.partial(create_selective_checkpoint_contexts, policy)
    got = gradients_of(model, x, dy, lambda x: checkpoint(model, x, use_reentrant=False, context_fn=context))
    assert all(same(one, other) for one, other in zip(got, wanted))
    assert len(on_host.products) == (6 if saves else 8), "a saved op does not run again"


@ALL
@pytest.mark.parametrize("tokens", [1, 127, 129])
def test_fakes_pass_the_librarys_checks(recipe, weight_gradient, tokens):
    with FakeTensorMode():
        layer = layer_of(recipe, weight_gradient, k=144, n=272)
        x = torch.zeros(tokens, 144, dtype=BF16, requires_grad=True)
        y = layer(x)
        y.sum().backward()
        assert y.shape == (tokens, 272) and x.grad.shape == x.shape and layer.weight.grad.shape == layer.weight.shape
        both = st.quantize_both(x.detach(), "1x128", sums=True)
        assert both.columns.shape == (144, -(-tokens // 128) * 128) and both.column_scales.shape == (144, -(-tokens // 128))
        assert both.sums.shape == (144,) and st.quantize_both(x.detach()).sums is None


def test_the_order_of_an_additions_parts_can_be_waived(on_host):  # noqa: F811
    layer, x, dy = layer_of(), real(130, 256), real(130, 144, seed=1)
    layer.weight.main_grad = torch.zeros(144, 256)
    for layer.deterministic in (True, False):
        layer(x).backward(dy)
    assert on_host.any_order == [False, True]


@pytest.mark.parametrize("shape", [(6, 256), (2, 3, 256), (256,)])
def test_an_output_may_be_written_into(on_host, shape):  # noqa: F811
    layer, x = layer_of(), real(*shape).requires_grad_()
    y = layer(x)
    wanted, y = y.detach() + 1, y.add_(1)
    assert torch.equal(y, wanted) and y.shape == (*shape[:-1], 144)
    y.relu_().sum().backward()
    assert x.grad.shape == x.shape
