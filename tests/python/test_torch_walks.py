# SPDX-License-Identifier: Apache-2.0
"""A backward computes the gradients that its walk uses, and only those reach main_grad; split backwards, streams, copies of layers.
test_gpu_walks.py has the same on a GPU."""
import copy
import gc
import io
import weakref

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from conv_on_host import on_host  # noqa: E402, F401 (a fixture)
from sluice.torch import _walks  # noqa: E402
from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from walk_cases import CASES, Case, whole  # noqa: E402

BF16 = torch.bfloat16
ALL = pytest.mark.parametrize("name", CASES)


# ---- what a walk uses
WALKS_TO_THE_INPUT = {"grad": lambda case, y: torch.autograd.grad(y, case.x, case.dy),
                      "backward(inputs)": lambda case, y: y.backward(case.dy, inputs=[case.x]),
                      "with a graph that stays": lambda case, y: torch.autograd.grad(y, case.x, case.dy, retain_graph=True)}


@ALL
@pytest.mark.parametrize("walk", WALKS_TO_THE_INPUT)
def test_a_walk_to_the_input_leaves_main_grad_as_it_was(on_host, name, walk):  # noqa: F811
    case = Case(name, "cpu")
    found = WALKS_TO_THE_INPUT[walk](case, case.forward())
    assert torch.equal((case.x.grad if found is None else found[0]).double(), case.dx)
    assert case.added(0) and len(on_host.called) == 2, "forward, and one product"


@ALL
def test_walks_add_once_each(on_host, name):  # noqa: F811
    case = Case(name, "cpu")
    y = case.forward()
    torch.autograd.grad(y, case.x, case.dy, retain_graph=True)
    y.backward(case.dy, retain_graph=True)
    assert case.added(1) and case.w.grad is None and torch.equal(case.x.grad.double(), case.dx)
    y.backward(case.dy, inputs=[case.w])
    assert case.added(2) and torch.equal(case.x.grad.double(), case.dx) and case.w.grad is None
    assert len(on_host.called) == 1 + 1 + 2 + 1
    assert any("add" in call for call in on_host.called) == case.adds


@ALL
def test_a_gradient_that_is_returned_is_the_gradient(on_host, name):  # noqa: F811
    case = Case(name, "cpu")
    dw, = torch.autograd.grad(case.forward(), case.w, case.dy)
    assert torch.equal(dw.double(), case.dw.to(BF16).double()) and case.added(1) and case.w.grad is None
    dx, dw = torch.autograd.grad(case.forward(), (case.x, case.w), case.dy)
    assert torch.equal(dw.double(), case.dw.to(BF16).double()) and torch.equal(dx.double(), case.dx) and case.added(2)


@ALL
def test_without_main_grad_a_walk_computes_what_it_uses(on_host, name):  # noqa: F811
    case = Case(name, "cpu", main_grad=False)
    for wanted in ((case.x,), (case.w,), (case.x, case.w)):
        on_host.called.clear()
        found = torch.autograd.grad(case.forward(), wanted, case.dy)
        assert len(on_host.called) == 1 + len(wanted)
        assert all(torch.equal(got.double(), (case.dx if of is case.x else case.dw).to(BF16).double()) for got, of in zip(found, wanted))


def test_a_bias_gets_its_gradient_by_itself(on_host):  # noqa: F811
    x, w, bias = whole(4, 16, device="cpu"), whole(24, 16, device="cpu").requires_grad_(), torch.zeros(24, requires_grad=True)
    found, = torch.autograd.grad(st.linear(x, w, bias).sum(), bias)
    assert (found == 4).all() and on_host.called == ["linear"]


def test_a_transposed_convolution_computes_what_a_walk_uses(on_host):  # noqa: F811
    x, w = whole(1, 8, 4, 4, device="cpu").requires_grad_(), whole(8, 16, 3, 3, device="cpu").requires_grad_()
    for wanted, product in ((x, "conv"), (w, "conv_weight")):
        on_host.called.clear()
        torch.autograd.grad(st.conv_transpose2d(x, w).sum(), wanted)
        assert on_host.called == ["conv_input", product]


@ALL
def test_main_grad_is_the_one_of_the_backward(on_host, name):  # noqa: F811
    case = Case(name, "cpu")
    y, old = case.forward(), case.w.main_grad
    case.w.main_grad = torch.ones_like(old)
    y.backward(case.dy, retain_graph=True)
    assert (old == 1).all() and case.added(1)
    case.w.main_grad = None
    y.backward(case.dy)
    assert torch.equal(case.w.grad.double(), case.dw.to(BF16).double())


@ALL
@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_adds_once(on_host, name, reentrant):  # noqa: F811
    case = Case(name, "cpu")
    checkpoint(lambda x: case.ours(x * 1, case.w), case.x, use_reentrant=reentrant).backward(case.dy)
    assert case.added(1) and torch.equal(case.x.grad.double(), case.dx)
    if not reentrant:
        torch.autograd.grad(checkpoint(lambda x: case.ours(x * 1, case.w), case.x, use_reentrant=False), case.x, case.dy)
        assert case.added(1)


@ALL
def test_hooks_of_a_weight_run_once(on_host, name):  # noqa: F811
    """DDP's and Megatron's hooks stand at the node that accumulates a weight's gradient."""
    case, seen = Case(name, "cpu"), []
    node = case.w.view_as(case.w).grad_fn.next_functions[0][0]
    node.register_hook(lambda *_: seen.append(case.added(1)))
    case.forward().backward(case.dy)
    assert seen == [True]
    torch.autograd.grad(case.forward(), case.x, case.dy)
    assert seen == [True]


def test_a_gradient_that_does_not_come_is_zero(on_host):  # noqa: F811
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return None

    for name in CASES:
        case = Case(name, "cpu")
        Nothing.apply(case.forward()).backward(case.dy)
        assert case.added(0) and (case.x.grad is None or (case.x.grad == 0).all())


# ---- split backwards
def models():
    linear = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 16))
    conv = torch.nn.Sequential(torch.nn.Conv2d(16, 24, 3), torch.nn.ReLU(), torch.nn.Conv2d(24, 5, 1))
    return {"linears": (linear, (8, 16), (8, 16)), "convolutions": (conv, (2, 16, 6, 6), (2, 5, 4, 4))}


@pytest.mark.parametrize("kind", models())
@pytest.mark.parametrize("with_main_grad", [False, True])
def test_torchs_split_backward(on_host, kind, with_main_grad):  # noqa: F811
    torch.manual_seed(0)
    model, shape, of_output = models()[kind]
    model = model.to(BF16)
    reference = copy.deepcopy(model).double()
    st.nn.convert_(model, recipe=None)
    if with_main_grad:
        st.nn.main_grad_views(model)
    pending, nodes = [], []
    # Two passes for the inputs, then two for the weights, as in a zero-bubble schedule.
    for micro in range(2):
        x, dy = whole(*shape, device="cpu", seed=micro).requires_grad_(), whole(*of_output, device="cpu", seed=micro + 5)
        reference(x.detach().double()).backward(dy.double())
        y = model(x)
        nodes += [weakref.ref(y.grad_fn)]
        dx, groups = stage_backward_input([y], [dy], [x], model.parameters())
        assert x.grad is not None and dx[0] is not None
        assert not with_main_grad or all((p.main_grad == 0).all() for p in model.parameters() if p.dim() > 1)
        pending.append(groups)
        del y
    products = len(on_host.called)
    for groups in pending:
        stage_backward_weight(model.parameters(), groups)
    assert len(on_host.called) == products + 4, "a product for each weight, and none for an input"
    for (name, parameter), wanted in zip(model.named_parameters(), reference.parameters()):
        got = parameter.main_grad if with_main_grad and parameter.dim() > 1 else parameter.grad
        assert (got.double() - wanted.grad).norm() < 2e-2 * wanted.grad.norm(), name
    del pending, groups
    assert [node() for node in nodes] == [None, None], "nothing keeps a node behind its walks"


def test_a_split_backward_that_stops_keeps_nothing(on_host):  # noqa: F811
    layer = st.nn.Linear(16, 24)
    x = whole(4, 16, device="cpu").requires_grad_()
    y = layer(x)
    node = weakref.ref(y.grad_fn)
    _, groups = stage_backward_input([y], [torch.ones_like(y)], [x], layer.parameters())
    del y
    assert node() is not None
    del groups
    gc.collect()
    assert node() is None


# ---- streams
class FakeStream:
    device = "cuda:0"

    def __init__(self, name, log):
        self.name, self.log = name, log

    def wait_stream(self, other):
        self.log.append(f"{self.name} waits for {other.name}")


class OnCuda:
    """As much of a GPU tensor as ordering additions needs."""

    is_cuda, device = True, "cuda:0"

    def __init__(self, address):
        self.data_ptr = lambda: address


class Adds(torch.autograd.Function):
    """Adds to a main_grad on a stream, as a backward node whose forward ran on that stream."""

    @staticmethod
    def forward(ctx, x, total, stream, current):
        ctx.call = total, stream, current
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        total, stream, current = ctx.call
        current[:], before = [stream], list(current)
        _walks.order_addition(total)
        current[:] = before
        return grad, None, None, None


def test_the_callers_stream_waits_for_each_that_added(monkeypatch):
    log = []
    caller, one, two = (FakeStream(name, log) for name in ("caller", "one", "two"))
    current = [caller]
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: current[0])
    first, second = OnCuda(1), OnCuda(2)
    x = torch.ones(3, requires_grad=True)

    def walk(*additions):
        log.clear()
        y = x
        for total, stream in reversed(additions):  # the backward visits the last forward first
            y = Adds.apply(y, total, stream, current)
        y.sum().backward()
        return log

    assert walk((first, caller)) == []
    assert walk((first, one), (second, one)) == ["caller waits for one"]
    assert walk((first, one), (second, two)) == ["caller waits for one", "caller waits for two"]
    assert walk((first, one), (first, two)) == ["two waits for one", "caller waits for one", "caller waits for two"], "a tied weight"
    assert walk((first, two)) == ["caller waits for two"], "another walk's streams are not waited for"
    _walks.order_addition(first)  # outside of a backward pass


def test_an_addition_is_ordered_before_it_runs(on_host, monkeypatch):  # noqa: F811
    for name in CASES:
        case, seen = Case(name, "cpu"), []
        monkeypatch.setattr(_walks, "order_addition", lambda total: seen.append((total is case.w.main_grad, len(on_host.called))))
        before = len(on_host.called)
        case.forward().backward(case.dy)
        assert len(seen) == 1 and seen[0][0] and seen[0][1] < len(on_host.called) and seen[0][1] > before


# ---- parameters and copies
def plain_model():
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Conv1d(8, 8, 1), torch.nn.Linear(32, 16, bias=False)).to(BF16)


@pytest.mark.parametrize("recipe", [None, "row", "block"])
def test_parameters_stand_in_torchs_order(recipe):
    plain = plain_model()
    ours = st.nn.convert_(copy.deepcopy(plain), recipe=recipe)
    stored = "weight" if recipe is None else "weight_e4m3"
    of = lambda module: [name.replace(stored, "weight") for name, _ in module.named_parameters()]  # noqa: E731
    assert of(ours) == of(plain)
    assert of(st.nn.Linear(16, 32, recipe=recipe)) == ["weight", "bias"]
    assert of(st.nn.Conv2d(8, 8, 1)) == ["weight", "bias"]


def test_an_optimizers_state_of_before_the_conversion_loads(on_host):  # noqa: F811
    plain = plain_model()
    ours = st.nn.convert_(copy.deepcopy(plain), recipe=None)
    theirs = torch.optim.AdamW(plain.parameters())
    for parameter in plain.parameters():
        parameter.grad = torch.ones_like(parameter)
    theirs.step()
    mine = torch.optim.AdamW(ours.parameters())
    mine.load_state_dict(theirs.state_dict())
    for parameter in ours.parameters():
        assert mine.state[parameter]["exp_avg"].shape == parameter.shape


class GivenWorkspace:
    address = 4711

    def __reduce__(self):
        raise sluice.InvalidType("a Workspace is memory of a GPU")


def through_a_file(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, through_a_file, torch.optim.swa_utils.AveragedModel],
                         ids=lambda copied: copied.__name__)
def test_a_copy_of_a_layer_has_no_workspace(on_host, copied):  # noqa: F811
    model = torch.nn.Sequential(st.nn.Linear(16, 16), st.nn.Linear(16, 16, recipe="row"), st.nn.Conv1d(8, 8, 1, dtype=BF16))
    for layer in model:
        layer.workspace = GivenWorkspace()
    made = torch.nn.Sequential(*map(copied, model)) if copied is copy.copy else copied(model)
    made = getattr(made, "module", made)
    for layer, other in zip(model, made):
        assert other.workspace is None and layer.workspace.address == 4711 and type(other) is type(layer)
        assert list(other.state_dict()) == list(layer.state_dict())
        assert all(torch.equal(a.float(), b.float()) for a, b in zip(layer.state_dict().values(), other.state_dict().values()))
    x = whole(4, 16, device="cpu")
    assert torch.equal(made[0](x), model[0](x))
