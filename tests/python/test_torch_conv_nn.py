# SPDX-License-Identifier: Apache-2.0
"""Convolution layers without a GPU: parameters, conversion, what is left to torch, main_grad, a model's step against torch's."""
import copy
import math

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from conv_cases import CASES, IDS  # noqa: E402
from conv_on_host import on_host  # noqa: E402, F401 (a fixture)
from test_torch_conv import BF16, FP32, TORCHS, channels_last, in_float64, is_packed, of_case, same, whole  # noqa: E402

PLAIN = {3: torch.nn.Conv1d, 4: torch.nn.Conv2d, 5: torch.nn.Conv3d}
LAYERS = {3: st.nn.Conv1d, 4: st.nn.Conv2d, 5: st.nn.Conv3d}


@pytest.mark.parametrize("shape, kernel", [((2, 16, 9), 3), ((2, 16, 6, 7), (3, 2)), ((1, 8, 4, 5, 6), 3)])
@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_layers_are_torchs_with_other_kernels(on_host, shape, kernel, mode):  # noqa: F811
    arguments = dict(padding=1, padding_mode=mode, dtype=BF16)
    torch.manual_seed(0)
    plain = PLAIN[len(shape)](shape[1], 24, kernel, **arguments)
    torch.manual_seed(0)
    layer = LAYERS[len(shape)](shape[1], 24, kernel, **arguments)
    assert isinstance(layer, PLAIN[len(shape)]) and is_packed(layer.weight)
    state = plain.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in layer.state_dict().items()) and list(state) == list(layer.state_dict())
    layer.load_state_dict(state)
    assert is_packed(layer.weight), "loading keeps the layout"
    PLAIN[len(shape)](shape[1], 24, kernel, **arguments).load_state_dict(layer.state_dict())
    x = whole(*shape)
    wanted = copy.deepcopy(plain).double()(x.double())
    assert (layer(x).double() - wanted).abs().max() <= wanted.abs().max() * 2**-8
    assert on_host.called == ["conv"]


def test_a_layer_goes_through_pickle_copy_and_other_types(on_host):  # noqa: F811
    layer = copy.deepcopy(st.nn.Conv2d(8, 16, 3, dtype=BF16, deterministic=False))
    assert layer.deterministic is False and is_packed(layer.weight)
    assert layer.half()(whole(1, 8, 5, 5, dtype=torch.float16)).dtype is torch.float16


REASONS = [
    (dict(in_channels=16, out_channels=16, kernel_size=3, groups=2), "groups = 2"),
    (dict(in_channels=3, out_channels=64, kernel_size=7, stride=2), "3 input channels are fewer than 8"),
    (dict(in_channels=16, out_channels=16, kernel_size=3, dtype=torch.float64), "torch.float64"),
    (dict(in_channels=16, out_channels=16, kernel_size=12), "taps"),
    (dict(in_channels=16, out_channels=16, kernel_size=10, stride=9), "stride"),
    (dict(in_channels=16, out_channels=16, kernel_size=4, stride=3), "phases"),
]


@pytest.mark.parametrize("arguments, reason", REASONS)
def test_a_layer_that_no_kernel_takes_is_refused_or_left_to_torch(on_host, arguments, reason):  # noqa: F811
    with pytest.raises(sluice.InvalidArgument) as caught:
        st.nn.Conv2d(**arguments)
    assert reason in str(caught.value) and "fallback=True" in str(caught.value)
    layer = st.nn.Conv2d(**arguments, fallback=True)
    plain = torch.nn.Conv2d(**arguments)
    model = torch.nn.ModuleDict({"ours": layer, "torchs": plain, "taken": st.nn.Conv2d(8, 8, 1)})
    found = st.nn.fallbacks(model)
    assert set(found) == {"ours", "torchs"} and all(reason in text for text in found.values())
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(1, arguments["in_channels"], 20, 20, dtype=layer.weight.dtype)
    assert torch.equal(layer(x), plain(x)) and on_host.called == []


def test_a_frozen_layer_is_left_to_torch_for_its_inputs_gradient(on_host):  # noqa: F811
    plain = torch.nn.Conv2d(16, 16, 5, stride=3, dtype=BF16).requires_grad_(False)
    layer = st.nn.Conv2d.from_conv(plain, fallback=True)
    assert "phases" in layer.fallback_reason and on_host.called == []
    layer(whole(1, 16, 11, 11).requires_grad_()).sum().backward()


def test_patches_of_few_channels_are_taken(on_host):  # noqa: F811
    layer = st.nn.Conv2d(3, 64, 16, stride=16, dtype=BF16)
    assert layer.fallback_reason is None and layer(whole(1, 3, 32, 32)).shape == (1, 64, 2, 2) and on_host.called == ["linear"]


class Block(torch.nn.Module):
    """A bottleneck block of ResNet-50, as in torchvision."""

    def __init__(self, wide, narrow, stride):
        super().__init__()
        conv, norm = torch.nn.Conv2d, torch.nn.BatchNorm2d
        self.conv1, self.bn1 = conv(wide, narrow, 1, bias=False), norm(narrow)
        self.conv2, self.bn2 = conv(narrow, narrow, 3, stride, 1, bias=False), norm(narrow)
        self.conv3, self.bn3 = conv(narrow, 4 * narrow, 1, bias=False), norm(4 * narrow)
        self.short, self.bn4 = conv(wide, 4 * narrow, 1, stride, bias=False), norm(4 * narrow)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        return torch.relu(self.bn3(self.conv3(y)) + self.bn4(self.short(x)))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 16, 7, 2, 3, bias=False)
        self.blocks = torch.nn.Sequential(Block(16, 8, 1), Block(32, 16, 2))
        self.grouped = torch.nn.Conv2d(64, 64, 3, groups=4)
        self.head = torch.nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.grouped(self.blocks(self.stem(x))).mean((2, 3)))


def test_conversion_takes_convolutions_and_reports_the_others(on_host):  # noqa: F811
    model, reports = Net(), []
    parameters, state = dict(model.named_parameters()), {name: value.clone() for name, value in model.state_dict().items()}
    hooked = []
    model.blocks[0].conv1.register_forward_hook(lambda *_: hooked.append(1))
    assert st.nn.convert_(model, recipe=None, report=reports.append) is model
    assert all(parameter is parameters[name] for name, parameter in model.named_parameters())
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert len(reports[0].converted) == 8 and set(reports[0].left_out) == {"stem", "grouped", "head"}
    assert set(st.nn.fallbacks(model)) == {"stem", "grouped"} and "float32" in reports[0].left_out["head"]
    assert all(is_packed(layer.weight) for layer in model.modules() if isinstance(layer, st.nn.Conv2d))
    with torch.autocast("cpu", BF16):
        model(torch.randn(2, 3, 32, 32))
    assert on_host.called == ["conv"] * 8 and hooked == [1]
    # Nothing is left to convert.
    with pytest.raises(sluice.InvalidArgument, match="none of the model's 2 layers"):
        st.nn.convert_(model, lambda module, name: name != "head", recipe=None)


def test_conversion_refuses_what_is_no_model_of_layers(on_host):  # noqa: F811
    with pytest.raises(sluice.InvalidArgument, match="Conv2d.from_conv"):
        st.nn.convert_(torch.nn.Conv2d(8, 8, 3), recipe=None)
    with pytest.raises(sluice.InvalidArgument, match="none of the model's 1 layers.*groups"):
        st.nn.convert_(torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3, groups=8)), recipe=None)
    model = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3), torch.nn.Linear(16, 16))
    assert type(st.nn.convert_(model, recipe="row")[0]) is torch.nn.Conv2d, "other recipes are of linears"
    with pytest.raises(sluice.InvalidArgument, match="takes a torch.nn.Conv2d, and not a Conv1d"):
        st.nn.Conv2d.from_conv(torch.nn.Conv1d(8, 8, 3))
    shared = torch.nn.Conv2d(8, 8, 3)
    model = st.nn.convert_(torch.nn.Sequential(shared, torch.nn.Sequential(shared)), recipe=None)
    assert type(model[0]) is st.nn.Conv2d and model[0] is model[1][0]


def train_step(model, x, labels, kind):
    with torch.autocast("cpu", kind, enabled=kind is not None):
        loss = torch.nn.functional.cross_entropy(model(x).float(), labels)
    loss.backward()
    return loss.detach(), {name: parameter.grad.double() for name, parameter in model.named_parameters()}


def test_a_residual_network_trains_a_step_to_torchs_loss(on_host):  # noqa: F811
    torch.manual_seed(1)
    plain = Net()
    ours, exact = st.nn.convert_(copy.deepcopy(plain), recipe=None), copy.deepcopy(plain).double()
    x, labels = channels_last(torch.randn(4, 3, 32, 32)), torch.randint(0, 10, (4,))
    wanted, reference = train_step(exact, x.double(), labels, None)
    losses, errors = {}, {}
    for name, model in (("torch", plain), ("ours", ours)):
        losses[name], gradients = train_step(model, x, labels, BF16)
        errors[name] = {key: ((gradients[key] - reference[key]).norm() / reference[key].norm()).item() for key in reference}
    assert abs(losses["ours"] - wanted) < 0.02
    for key in reference:
        assert errors["ours"][key] < 1.5 * errors["torch"][key] + 0.02, (key, errors["ours"][key], errors["torch"][key])
    assert on_host.called.count("conv") == 8 and on_host.called.count("conv_weight") == 8


# ---- main_grad
@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("lay", [channels_last, lambda x: x], ids=["channels_last", "KCRS"])
def test_gradients_are_added_to_main_grad(on_host, case, lay):  # noqa: F811
    x, w, bias, arguments = of_case(case)
    weight = torch.nn.Parameter(channels_last(w))
    weight.main_grad = lay(torch.full(w.shape, 0.25))
    for _ in range(2):
        y = {3: st.conv1d, 4: st.conv2d, 5: st.conv3d}[x.dim()](x, weight, bias, **arguments)
        y.backward(upstream := whole(*y.shape, seed=3))
    same(weight.main_grad, 0.25 + 2 * in_float64(x, w, bias, arguments, lambda _: upstream)[2])
    assert weight.grad is None and weight.grad_added_to_main_grad
    one_tap, padded = math.prod(w.shape[2:]) == 1, w.shape[0] % 8 or w.shape[1] % 8
    if case[0].startswith(("patches", "1-D patches", "3-D patches")) and case[0] != "patches of 2, gathered":
        in_kernel = lay is channels_last and w.shape[0] % 8 == 0 and math.prod(w.shape[1:]) % 8 == 0
        assert ("add_mm" in on_host.called) == in_kernel
    else:
        in_kernel = (lay is channels_last or one_tap) and not padded
        assert on_host.called[1] == ("add_conv_weight" if in_kernel else "conv_weight")
        if not in_kernel:
            assert on_host.given[1]["out"].dtype is FP32


def test_the_order_of_the_parts_can_be_waived(on_host):  # noqa: F811
    layer = st.nn.Conv2d(8, 8, 3, bias=False, dtype=BF16, deterministic=False)
    st.nn.main_grad_views(layer)
    x = whole(1, 8, 5, 5)
    layer(x).sum().backward()
    torch.use_deterministic_algorithms(True)
    try:
        layer(x).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    layer.deterministic = True
    layer(x).sum().backward()
    assert on_host.called[1::2] == ["add_conv_weight in any order", "add_conv_weight", "add_conv_weight"]


def test_main_grads_are_views_of_one_buffer(on_host):  # noqa: F811
    model = torch.nn.Sequential(torch.nn.Conv2d(16, 24, 3), torch.nn.Conv2d(24, 24, 3, groups=2), torch.nn.Conv2d(24, 3, 1))
    model = st.nn.convert_(model, recipe=None).append(st.nn.Linear(16, 24))
    for given in (None, torch.ones(100000)):
        flat = st.nn.main_grad_views(model, given)
        assert (given is None or flat is given) and (flat == 0).all()
        weights = [model[0].weight, model[2].weight, model[3].weight]
        for weight in weights:
            assert weight.main_grad.shape == weight.shape and weight.main_grad.untyped_storage().data_ptr() == flat.data_ptr()
            assert weight.main_grad.data_ptr() % 256 == flat.data_ptr() % 256
            weight.main_grad += 1
        assert is_packed(weights[0].main_grad) and flat.sum() == sum(weight.numel() for weight in weights), "no two overlap"
        assert not hasattr(model[1].weight, "main_grad"), "torch adds to none"
    for wrong in (torch.ones(100), torch.ones(100000, dtype=BF16), torch.ones(1000, 100)):
        with pytest.raises(sluice.InvalidArgument, match="buffer is"):
            st.nn.main_grad_views(model, wrong)


def test_a_compiled_layer_adds_to_main_grad(on_host):  # noqa: F811
    layer = st.nn.Conv2d(8, 16, 3, bias=False, dtype=BF16)
    x = whole(2, 8, 6, 6)
    st.nn.main_grad_views(layer)
    compiled = torch.compile(layer, backend="aot_eager")
    for _ in range(2):
        compiled(x).sum().backward()
    assert on_host.called == ["conv", "add_conv_weight"] * 2
    wanted = in_float64(x, layer.weight.detach(), torch.zeros(16), {}, torch.ones_like)[2]
    assert torch.allclose(layer.weight.main_grad.double(), 2 * wanted)


def test_a_compiled_layer_is_one_graph(on_host):  # noqa: F811
    model = torch.nn.Sequential(st.nn.Conv2d(8, 16, 3, padding=1, dtype=BF16), torch.nn.ReLU(), st.nn.Conv2d(16, 8, 1, dtype=BF16))
    x = whole(2, 8, 6, 6)
    with torch.no_grad():
        wanted = model(x)
    got = torch.compile(model, backend="aot_eager", fullgraph=True)(x)
    assert torch.equal(got, wanted)
    got.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_parametrised_weights_work(on_host):  # noqa: F811
    layer = torch.nn.utils.parametrizations.weight_norm(st.nn.Conv2d(8, 8, 3, dtype=FP32))
    with torch.autocast("cpu", BF16):
        layer(whole(1, 8, 5, 5)).sum().backward()
    assert layer.parametrizations.weight.original1.grad is not None
    assert TORCHS[4](whole(1, 8, 5, 5).float(), layer.weight).shape == (1, 8, 3, 3)
