# SPDX-License-Identifier: Apache-2.0
"""SwiGLU trained in FP8 without a GPU: beside its two layers with torch's own silu between them, and what is saved, cast and compiled."""
import copy
import functools
import pickle

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from fp8_on_host import BF16, E4M3, E5M2, FP32, cosine, gradients_of, in_two_walks, layer_of, on_host, real, same  # noqa: E402, F401 (a fixture)
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

RECIPES = ("tensor", "row", "block")
WIDTH, INNER = 256, 144


def feed_forward(recipe="row", bias=True, **more):
    return st.nn.FeedForward(layer_of(recipe, k=WIDTH, n=2 * INNER, bias=bias, **more), layer_of(recipe, k=INNER, n=WIDTH, bias=bias, **more))


def apart(layer, x):
    """Computes it with torch's own operations between the layers."""
    gate, up = layer.gate_up(x).float().chunk(2, -1)
    return layer.down((torch.nn.functional.silu(gate) * up).to(x.dtype))


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("keep", ["columns", "input"])
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_its_layers_with_silu_between(on_host, recipe, keep, bias):  # noqa: F811
    layer, x, dy = feed_forward(recipe, bias, keep=keep), real(2, 65, WIDTH), real(2, 65, WIDTH, seed=1) * 1e-4
    got, wanted = gradients_of(layer, x, dy), gradients_of(layer, x, dy, functools.partial(apart, layer))
    # One rounding more or less to 16 bits before a cast moves some codes by a unit.
    assert all(one.shape == other.shape and cosine(one, other) > 0.9995 for one, other in zip(got, wanted))
    assert same(got[0], wanted[0]), "silu(gate) * up is rounded once by both"
    if bias:
        assert same(layer.down.bias.grad, dy.reshape(-1, WIDTH).float().sum(0).to(BF16))


def test_nothing_between_the_layers_is_written_in_16_bits(on_host):  # noqa: F811
    layer, x, dy = feed_forward(bias=False), real(130, WIDTH), real(130, WIDTH, seed=1)
    gradients_of(layer, x, dy)
    tokens, both = (130, WIDTH), (130, 2 * INNER)
    assert [cast[0] for cast in on_host.casts if cast[0][0] == 130] == [tokens, both, tokens, both]
    assert on_host.gates.count((True, False)) == 1 and on_host.gates.count((True, True)) == 1
    assert len(on_host.products) == 6


@pytest.mark.parametrize("keep", ["columns", "input"])
def test_what_is_saved(on_host, keep):  # noqa: F811
    layer, found = feed_forward("row", False, keep=keep), []

    def pack(tensor):
        if tensor.numel():
            found.append((tensor.dtype, tuple(tensor.shape)))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = layer(real(130, WIDTH).requires_grad_())
    weights = [(BF16, (2 * INNER, WIDTH)), (BF16, (WIDTH, INNER))]
    of_columns = [(E4M3, (WIDTH, 256)), (FP32, (WIDTH, 1)), (E4M3, (INNER, 256)), (FP32, (INNER, 1))]
    inputs = of_columns if keep == "columns" else [(BF16, (130, WIDTH)), (BF16, (130, 2 * INNER))]
    assert sorted(map(str, found)) == sorted(map(str, [*weights, (BF16, (130, 2 * INNER)), *inputs]))
    y.backward(real(130, WIDTH))


def test_gradients_that_nobody_wants_are_not_computed(on_host):  # noqa: F811
    layer, x = feed_forward(), real(130, WIDTH)
    layer.gate_up.weight.requires_grad_(False)
    layer.gate_up.bias.requires_grad_(False)
    y = layer(x)
    on_host.products.clear()
    y.sum().backward()  # the first layer needs nothing, so neither does the second's input
    assert len(on_host.products) == 1 and layer.down.weight.grad is not None
    layer.down.requires_grad_(False)
    layer.gate_up.bias.requires_grad_(True)
    layer.zero_grad(set_to_none=True)
    layer(x).sum().backward()
    assert layer.gate_up.bias.grad is not None and layer.down.weight.grad is None
    with torch.no_grad():
        assert same(layer(x), y.detach())


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("compiled", [False, True])
def test_main_grads_are_added_to(on_host, recipe, compiled):  # noqa: F811
    layer, x, dy = feed_forward(recipe), real(130, WIDTH), real(130, WIDTH, seed=1)
    wanted = gradients_of(layer, x, dy)
    st.nn.main_grad_views(layer)
    layer.zero_grad(set_to_none=True)
    call = torch.compile(layer, backend="aot_eager") if compiled else layer
    for _ in range(2):
        call(x).backward(dy)
    for linear, gradient in ((layer.gate_up, wanted[2]), (layer.down, wanted[4])):
        assert linear.weight.grad is None and linear.weight.grad_added_to_main_grad
        assert torch.allclose(linear.weight.main_grad, 2 * gradient.float(), rtol=2**-7, atol=1e-3)


FROZEN = {"all but gate_up.bias": ("gate_up.weight", "down.weight", "down.bias"), "weights": ("gate_up.weight", "down.weight"),
          "gate_up": ("gate_up.weight", "gate_up.bias"), "down": ("down.weight", "down.bias")}


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("frozen", FROZEN)
@pytest.mark.parametrize("of_input", [False, True])
def test_what_is_frozen_changes_no_bit_under_inductor(on_host, recipe, frozen, of_input):  # noqa: F811
    layer, x, dy = feed_forward(recipe), real(130, WIDTH), real(130, WIDTH, seed=1)
    whole = dict(zip(["y", "x", *dict(layer.named_parameters())], gradients_of(layer, x, dy)))
    for name in FROZEN[frozen]:
        layer.get_parameter(name).requires_grad_(False)

    def run(call):
        layer.zero_grad(set_to_none=True)
        given = x.detach().requires_grad_(of_input)
        call(given).backward(dy)
        return {**{name: one.grad for name, one in layer.named_parameters() if one.grad is not None}, **({"x": given.grad} if of_input else {})}

    eager, compiled = run(layer), run(torch.compile(layer, backend="inductor"))
    assert eager.keys() == compiled.keys() == {*dict(layer.named_parameters()), *(["x"] if of_input else [])} - {*FROZEN[frozen]}
    assert all(same(eager[name], compiled[name]) for name in eager)
    assert all(same(eager[name], whole[name]) for name in eager if name != "gate_up.bias")  # summed by tiles where it is cast


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("keep", ["columns", "input"])
def test_compiled_and_checkpointed_bits_are_eager_ones(on_host, recipe, keep):  # noqa: F811
    layer = feed_forward(recipe, keep=keep)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=True)
    for tokens in (130, 7):
        x, dy = real(tokens, WIDTH), real(tokens, WIDTH, seed=1)
        wanted = gradients_of(layer, x, dy)
        for call in (compiled, lambda x: checkpoint(layer, x, use_reentrant=False), lambda x: checkpoint(layer, x, use_reentrant=True)):
            assert all(same(one, other) for one, other in zip(gradients_of(layer, x, dy, call), wanted))


def test_autocast_and_tokens_that_are_not_there(on_host):  # noqa: F811
    layer = feed_forward(dtype=FP32)
    with torch.autocast("cpu", BF16):
        y, *found = gradients_of(layer, real(5, WIDTH, dtype=FP32), real(5, WIDTH))
    assert y.dtype is BF16 and all(one.dtype is FP32 for one in found)
    with pytest.raises(sluice.InvalidType, match="gate and up are kept in 16 bits"):
        layer(real(5, WIDTH, dtype=FP32))
    on_host.products.clear()
    got = gradients_of(feed_forward(), real(0, WIDTH), real(0, WIDTH))
    assert got[0].shape == (0, WIDTH) and all((one == 0).all() for one in got) and not on_host.products


@pytest.mark.parametrize("recipe", RECIPES)
def test_fakes_pass_the_librarys_checks(recipe):
    with FakeTensorMode():
        layer = feed_forward(recipe)
        x = torch.zeros(129, WIDTH, dtype=BF16, requires_grad=True)
        layer(x).sum().backward()
        assert x.grad.shape == x.shape and layer.gate_up.weight.grad.shape == (2 * INNER, WIDTH)
        both = st.quantize_both(torch.zeros(129, 64, dtype=BF16), "1x128", gated=True)
        assert both.rows.shape == (129, 32) and both.column_scales.shape == (32, 2)


def test_torchs_split_backward(on_host):  # noqa: F811
    in_two_walks(on_host, feed_forward(), real(130, WIDTH), real(130, WIDTH, seed=1))


@pytest.mark.parametrize("tokens", [0, 1, 128, 130])
@pytest.mark.parametrize("granularity", ["tensor", "row", "1x128", "128x128"])
@pytest.mark.parametrize("gradient", [False, True])
def test_fakes_lie_as_results_do(on_host, tokens, granularity, gradient):  # noqa: F811
    x, dy = real(tokens, 64), real(tokens, 32) if gradient else None
    made = [st.quantize_both(x, granularity, gated=True, gradient=dy, sums=True), st.quantize_both_reference(x, granularity, gated=True,
                                                                                                       gradient=dy, sums=True)]
    with FakeTensorMode() as mode:
        given = [None if one is None else mode.from_tensor(one) for one in (x, dy)]
        made.append(st.quantize_both(given[0], granularity, gated=True, gradient=given[1], sums=True))
    for one, *others in zip(*made):
        assert all((one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride()) for other in others)


def test_state_of_the_layers(on_host):  # noqa: F811
    layer = feed_forward()
    state = layer.state_dict()
    assert list(state) == ["gate_up.weight", "gate_up.bias", "down.weight", "down.bias"]
    other = copy.deepcopy(layer)
    torch.nn.init.zeros_(other.down.weight)
    other.load_state_dict(state)
    x, dy = real(5, WIDTH), real(5, WIDTH, seed=1)
    assert all(same(one, two) for one, two in zip(gradients_of(layer, x, dy), gradients_of(pickle.loads(pickle.dumps(other)), x, dy)))


class Adapted(st.nn.Linear):
    pass


def hooked(layer):
    layer.down.register_forward_hook(lambda *given: None)


@pytest.mark.parametrize("change, kind, mention", [
    (hooked, sluice.InvalidArgument, "down has hooks, which do not run"),
    (lambda layer: setattr(layer, "down", torch.nn.Linear(INNER, WIDTH)), sluice.InvalidArgument, "down is a torch.nn.modules.linear.Linear"),
    (lambda layer: setattr(layer.down, "__class__", Adapted), sluice.InvalidArgument, "down is a Adapted, and a plain Linear is computed"),
    (lambda layer: setattr(layer.down, "weight_gradient", "16bit"), sluice.InvalidArgument, "down has weight_gradient = '16bit'"),
    (lambda layer: setattr(layer, "down", st.nn.Linear(INNER, WIDTH, recipe="row")), sluice.InvalidArgument, "backward = None, which must be 'fp8'"),
    (lambda layer: setattr(layer, "down", layer_of(k=128, n=WIDTH)), sluice.InvalidSize, "must have 256, gate and up for each of down's 128"),
    (lambda layer: layer.down.double(), sluice.InvalidType, "down.weight is torch.float64"),
])
def test_layers_that_were_changed_are_refused(on_host, change, kind, mention):  # noqa: F811
    layer = feed_forward()
    change(layer)
    with pytest.raises(kind) as caught:
        layer(real(4, WIDTH))
    assert mention in str(caught.value), str(caught.value)


def test_fsdp_shards_it_as_one(on_host):  # noqa: F811
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        x, dy = real(130, WIDTH), real(130, WIDTH, seed=1)
        layer = feed_forward(dtype=FP32)
        wanted = gradients_of(copy.deepcopy(layer).to(BF16), x, dy)
        mesh = dist.init_device_mesh("cpu", (1,))
        other = copy.deepcopy(layer)
        fsdp.fully_shard(layer, mesh=mesh, mp_policy=fsdp.MixedPrecisionPolicy(param_dtype=BF16, reduce_dtype=FP32))
        made = [one.to_local() if hasattr(one, "to_local") else one for one in gradients_of(layer, x, dy)]
        assert all(torch.equal(one.to(BF16), wide) for one, wide in zip(made, wanted))
        fsdp.fully_shard(other.down, mesh=mesh)
        with pytest.raises(sluice.InvalidArgument, match="shard, compile or checkpoint the FeedForward"):
            other(x)
    finally:
        dist.destroy_process_group()


def test_it_is_made_ready(on_host):  # noqa: F811
    layer = feed_forward("tensor")
    layer.prepare_casts(BF16)
    assert on_host.gates == [(True, False), (True, True)] and not on_host.products


def linear(**more):
    return st.nn.Linear(WIDTH, 2 * INNER, **{"recipe": "row", "backward": "fp8", **more})


@pytest.mark.parametrize("layers, kind, mention", [
    (lambda: (torch.nn.Linear(8, 8), linear()), sluice.InvalidArgument, "gate_up is a torch.nn.modules.linear.Linear and must be a sluice.torch.nn.Linear"),
    (lambda: (linear(backward=None), linear()), sluice.InvalidArgument, "backward='fp8'"),
    (lambda: (linear(), linear(weight_gradient="16bit")), sluice.InvalidArgument, "down has weight_gradient = '16bit'"),
    (lambda: (linear(), linear()), sluice.InvalidSize, "gate_up has 288 outputs and must have 512"),
])
def test_layers_that_do_not_fit(layers, kind, mention):
    with pytest.raises(kind) as caught:
        st.nn.FeedForward(*layers())
    assert mention in str(caught.value), str(caught.value)


@pytest.mark.parametrize("call, kind, mention", [
    (lambda: st.quantize_both_reference(real(8, 32), gradient=real(8, 16)), sluice.InvalidArgument, "gated = False"),
    (lambda: st.quantize_both_reference(real(8, 32, dtype=FP32), gated=True), sluice.InvalidType, "gate and up must be"),
    (lambda: st.quantize_both_reference(real(8, 33), gated=True), sluice.InvalidSize, "as many each"),
    (lambda: st.quantize_both_reference(real(8, 32), gated=True, gradient=real(8, 32)), sluice.InvalidSize, "must have (8, 16)"),
    (lambda: st.quantize_both_reference(real(8, 32), gated=True, gradient=real(8, 16, dtype=FP32)), sluice.InvalidType, "gradient is torch.float32"),
    (lambda: st.quantize_both(real(8, 32), gated=True, gradient=real(8, 16).requires_grad_()), sluice.InvalidArgument, "has no backward"),
])
def test_misuse_of_the_cast_is_named(call, kind, mention):
    with pytest.raises(kind) as caught:
        call()
    assert mention in str(caught.value), str(caught.value)


def test_the_casts_of_swiglu_by_their_definition():
    x, dy = real(130, 64).requires_grad_(), real(130, 32, seed=1)
    gate, up = x.float().chunk(2, -1)
    product = torch.nn.functional.silu(gate) * up
    gradient, = torch.autograd.grad(product, x, dy.float())
    made = st.quantize_both_reference(x.detach(), "row", gated=True, sums=True)
    assert same(made.rows, st.quantize_both_reference(product.detach().to(BF16), "row").rows)
    of_gradient = st.quantize_both_reference(x.detach(), "row", dtype=E5M2, gated=True, gradient=dy)
    wide = of_gradient.rows.float() * of_gradient.row_scales
    assert cosine(wide, gradient) > 0.998 and of_gradient.columns.shape == (64, 256)
