# SPDX-License-Identifier: Apache-2.0
"""Layers that train in FP8, on the host: weights that stay cast, parameters and states, conversion of models."""
import copy
import functools
import importlib

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from fp8_on_host import ALL, BF16, FP32, converted, gradients_of, in_two_walks, layer_of, model_of, on_host, real, same, step  # noqa: E402, F401
from sluice.torch import fp8_linear  # noqa: E402
from sluice.torch._fp8_recipes import training_recipe  # noqa: E402
from sluice.torch.nn import fp8_training_pays  # noqa: E402


# ---- weights that stay cast
def casts_of_weights(on_host):  # noqa: F811
    return [granularity for shape, granularity, _ in on_host.casts if shape == (144, 256)]


@ALL
def test_kept_weights_are_cast_once(on_host, recipe, weight_gradient):  # noqa: F811
    layer, x, dy = layer_of(recipe, weight_gradient), real(130, 256), real(130, 144, seed=1)
    wanted = step(layer, x, dy)
    cast = training_recipe(recipe, weight_gradient).weight
    once = [cast.rows] if cast.rows == cast.columns else [cast.rows, cast.columns]
    on_host.casts.clear()
    with st.nn.weights_kept(torch.nn.Sequential(layer)):
        assert not on_host.casts, "nothing is cast at the entry"
        for _ in range(3):
            assert all(same(one, other) for one, other in zip(step(layer, x, dy), wanted))
        assert casts_of_weights(on_host) == once
        with st.nn.weights_kept(layer):  # adds nothing
            step(layer, x, dy)
        step(layer, x, dy)
        assert casts_of_weights(on_host) == once
    assert not fp8_linear._kept
    step(layer, x, dy)
    assert casts_of_weights(on_host) == once + [cast.rows, cast.columns]


def test_a_weight_is_never_stale_outside(on_host):  # noqa: F811
    layer, x, dy = layer_of(), real(130, 256), real(130, 144, seed=1)
    with st.nn.weights_kept(layer):
        before = step(layer, x, dy)
    for write in (lambda w: w.data.mul_(3), lambda w: w.detach().copy_(real(144, 256, seed=7)), lambda w: w.untyped_storage().fill_(0)):
        write(layer.weight)
        fresh = copy.deepcopy(layer)
        with st.nn.weights_kept(layer):
            assert all(same(one, other) for one, other in zip(step(layer, x, dy), step(fresh, x, dy)))
        after = step(layer, x, dy)
        assert not same(after[0], before[0])
        before = after


def test_another_weight_inside_is_cast_by_itself(on_host):  # noqa: F811
    layer, x, dy = layer_of(), real(130, 256), real(130, 144, seed=1)
    with st.nn.weights_kept(layer):
        step(layer, x, dy)
        layer.weight = torch.nn.Parameter(real(144, 256, seed=9))
        assert all(same(one, other) for one, other in zip(step(layer, x, dy), step(copy.deepcopy(layer), x, dy)))
        layer.weight.data = real(144, 256, seed=10)
        assert all(same(one, other) for one, other in zip(step(layer, x, dy), step(copy.deepcopy(layer), x, dy)))


def test_memory_that_another_weight_takes_is_not_mistaken(on_host):  # noqa: F811
    """FSDP frees a storage and gathers another layer's weight at the same address."""
    layer, x, dy = layer_of(), real(130, 256), real(130, 144, seed=1)
    with st.nn.weights_kept(layer):
        step(layer, x, dy)
        place, kept = next(iter(fp8_linear._kept.items()))
        kept.weight.untyped_storage().resize_(0)
        other = layer_of()
        torch.nn.init.normal_(other.weight)
        fp8_linear._kept[fp8_linear._place(other.weight)] = kept
        assert all(same(one, other_) for one, other_ in zip(step(other, x, dy), step(copy.deepcopy(other), x, dy)))
        del fp8_linear._kept[fp8_linear._place(other.weight)]
    assert place not in fp8_linear._kept


def test_compiled_layers_use_kept_weights(on_host):  # noqa: F811
    layer, x, dy = layer_of(), real(130, 256), real(130, 144, seed=1)
    compiled, wanted = torch.compile(layer, backend="aot_eager"), step(layer, x, dy)
    on_host.casts.clear()
    with st.nn.weights_kept(layer):
        for _ in range(2):
            assert all(same(one, other) for one, other in zip(gradients_of(layer, x, dy, compiled), wanted))
    assert casts_of_weights(on_host) == ["row"]

    @functools.partial(torch.compile, backend="aot_eager", fullgraph=True)
    def traced(x):
        with st.nn.weights_kept(layer):
            return layer(x)

    with pytest.raises(Exception, match="weights_kept"):
        traced(x)


@pytest.mark.parametrize("captured, mention", [(True, "enter it inside of the capture"), (False, "leave the block before the capture ends")])
def test_a_block_lies_on_one_side_of_a_capture(on_host, monkeypatch, captured, mention):  # noqa: F811
    layer, x, dy = layer_of(), real(130, 256), real(130, 144, seed=1)
    state = [not captured]
    monkeypatch.setattr(fp8_linear, "_is_capturing", lambda tensor: state[0])
    with st.nn.weights_kept(layer):
        step(layer, x, dy)
        state[0] = captured
        with pytest.raises(sluice.InvalidArgument, match=mention):
            layer(x)


# ---- the layer and models
def test_a_layer_keeps_its_parameter():
    plain = torch.nn.Linear(128, 64)
    layer = st.nn.Linear.from_linear(plain, "block", backward="fp8", keep="input")
    assert layer.weight is plain.weight and layer.bias is plain.bias and layer.weight.requires_grad and layer.keep == "input"
    assert list(layer.state_dict()) == ["weight", "bias"] and [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    assert layer.to(BF16).weight.dtype is BF16 and layer.weight_bytes == 128 * 64 * 2
    assert "backward=fp8" in repr(layer) and copy.deepcopy(layer).backward == "fp8"
    torch.nn.Linear(128, 64).load_state_dict(layer.state_dict())
    other = layer_of("row", k=128, n=64)
    other.load_state_dict(plain.state_dict())
    assert torch.equal(other.weight, plain.weight.to(BF16)) and other.problem(16).scale_a == "vector"
    assert st.nn.main_grad_views(torch.nn.Sequential(other)).numel() == 64 * 128


def test_conversion_keeps_parameters_and_says_what_loses():
    reports = []
    model = torch.nn.ModuleDict({"wide": torch.nn.Linear(4096, 4096, device="meta"), "narrow": torch.nn.Linear(4096, 256, device="meta"),
                                 "odd": torch.nn.Linear(4096, 4100, device="meta"), "lm_head": torch.nn.Linear(4096, 8192, device="meta")})
    weights = {name: module.weight for name, module in model.items()}
    st.nn.convert_(model, recipe="row", backward="fp8", report=reports.append)
    done = reports[0]
    assert done.converted == ("wide",) and all(model[name].weight is weights[name] for name in model)
    assert set(done.left_out) == {"odd"} and "out_features = 4100" in done.left_out["odd"]
    assert set(done.skipped) == {"narrow", "lm_head"} and "narrow=True takes it too" in done.skipped["narrow"]
    assert "= 482 for in_features = 4096 and out_features = 256" in str(done) and done.old_bytes == done.new_bytes
    with pytest.raises(sluice.InvalidArgument, match="narrow=True"):
        st.nn.convert_(model_of(), recipe="row", backward="fp8")
    assert type(converted("row")[2]) is st.nn.Linear


def test_tied_weights_stay_tied():
    model = torch.nn.ModuleDict({"embedding": torch.nn.Embedding(64, 128), "out": torch.nn.Linear(128, 64)})
    model["out"].weight = model["embedding"].weight
    st.nn.convert_(model, recipe="row", backward="fp8", narrow=True, report=lambda done: None)
    assert type(model["out"]) is st.nn.Linear and model["out"].weight is model["embedding"].weight


def test_which_layers_gain(monkeypatch):
    recipes = importlib.import_module("sluice.torch._fp8_recipes")
    for rate, least in ((4800, 910), (3350, 1300)):
        monkeypatch.setattr(recipes, "_rate_of", lambda device, rate=rate: rate)
        assert fp8_training_pays(least, least) and not fp8_training_pays(least - 50, least - 50)
        assert not fp8_training_pays(10**6, least // 2 - 20) and fp8_training_pays(10**6, least // 2 + 20) and not fp8_training_pays(0, 0)


def test_a_model_learns(on_host):  # noqa: F811
    torch.manual_seed(0)
    model = st.nn.convert_(torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16)), recipe="row", backward="fp8",
                           narrow=True, report=lambda done: None)
    right, optimizer, losses = torch.randn(32, 16) / 6, torch.optim.SGD(model.parameters(), lr=0.2), []
    for turn in range(40):
        optimizer.zero_grad()
        with st.nn.weights_kept(model):
            for micro in range(2):
                x = real(64, 32, dtype=FP32, seed=2 * turn + micro)
                loss = torch.nn.functional.mse_loss(model(x), x @ right)
                loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.6 * losses[0], losses


@pytest.mark.parametrize("reshard", [True, False])
def test_fsdp_gathers_in_16_bits(on_host, reshard):  # noqa: F811
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        x, dy = real(130, 128, dtype=FP32), real(130, 64, seed=1)
        model = st.nn.convert_(model_of(FP32), recipe="row", backward="fp8", narrow=True, report=lambda done: None)
        wanted = gradients_of(copy.deepcopy(model).to(BF16), x.to(BF16), dy)
        policy = fsdp.MixedPrecisionPolicy(param_dtype=BF16, reduce_dtype=FP32)
        mesh = dist.init_device_mesh("cpu", (1,))
        for layer in (model[0], model[2], model):
            fsdp.fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
        for _ in range(2):
            with st.nn.weights_kept(model):
                made = gradients_of(model, x, dy)
            made = [one.to_local() if hasattr(one, "to_local") else one for one in made]
            assert all(torch.equal(one.to(BF16), other) for one, other in zip(made, wanted)) and made[2].dtype is FP32
    finally:
        dist.destroy_process_group()


@ALL
def test_torchs_split_backward(on_host, recipe, weight_gradient):  # noqa: F811
    in_two_walks(on_host, converted(recipe, weight_gradient), real(130, 128), real(130, 64, seed=1))


@pytest.mark.parametrize("make", [lambda: real(64, 32).t(), lambda: real(32, 80)[:, 3:67], lambda: real(32, 128)[:, ::2]])
def test_inputs_with_gaps_are_copied(on_host, make):
    layer, x = layer_of("row", k=64, n=32), make()
    assert same(layer(x), layer(x.contiguous()))
