# SPDX-License-Identifier: Apache-2.0
"""On a GPU, a backward pass computes exactly the gradients that were requested: main_grad, partial passes,
torch's split backward, streams, captures. test_torch_walks.py has the tests without a GPU."""
import copy

import pytest

torch = pytest.importorskip("torch")

import sluice.torch as st  # noqa: E402
from gpu_helpers import BF16, needs_gpu, real, whole  # noqa: E402
from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from walk_cases import CASES, Case  # noqa: E402

pytestmark = needs_gpu
ALL = pytest.mark.parametrize("name", CASES)


@ALL
def test_walks_touch_main_grad_if_they_use_the_weights_gradient(name):
    case = Case(name, "cuda")
    y = case.forward()
    dx, = torch.autograd.grad(y, case.x, case.dy, retain_graph=True)
    y.backward(case.dy, inputs=[case.x], retain_graph=True)
    assert case.added(0) and torch.equal(dx.double(), case.dx) and torch.equal(case.x.grad, dx)
    y.backward(case.dy, retain_graph=True)
    y.backward(case.dy, inputs=[case.w], retain_graph=True)
    assert case.added(2) and case.w.grad is None
    dw, = torch.autograd.grad(y, case.w, case.dy)
    assert case.added(3) and torch.equal(dw.double(), case.dw.to(BF16).double())


@ALL
@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_adds_once(name, reentrant):
    case = Case(name, "cuda")
    checkpoint(lambda x: case.ours(x * 1, case.w), case.x, use_reentrant=reentrant).backward(case.dy)
    assert case.added(1) and torch.equal(case.x.grad.double(), case.dx)


@pytest.mark.parametrize("with_main_grad", [False, True])
@pytest.mark.parametrize("kind", ["linears", "convolutions"])
def test_torchs_split_backward(kind, with_main_grad):
    torch.manual_seed(0)
    if kind == "linears":
        model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 16))
        x, dy = real(8, 16), real(8, 16, seed=1)
    else:
        model = torch.nn.Sequential(torch.nn.Conv2d(16, 24, 3), torch.nn.ReLU(), torch.nn.Conv2d(24, 5, 1))
        x, dy = real(2, 16, 6, 6), real(2, 5, 4, 4, seed=1)
    model = model.to("cuda", BF16)
    reference = copy.deepcopy(model).cpu().double()
    st.nn.convert_(model, recipe=None)
    if with_main_grad:
        st.nn.main_grad_views(model)
    reference(x.cpu().double()).backward(dy.cpu().double())
    x.requires_grad_()
    y = model(x)
    _, groups = stage_backward_input([y], [dy], [x], model.parameters())
    stage_backward_weight(model.parameters(), groups)
    for (name, parameter), wanted in zip(model.named_parameters(), reference.parameters()):
        got = parameter.main_grad if with_main_grad and parameter.dim() > 1 else parameter.grad
        assert (got.cpu().double() - wanted.grad).norm() < 3e-2 * wanted.grad.norm(), name


def test_parameters_stand_in_torchs_order():
    plain = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16)).to("cuda", BF16)
    ours = st.nn.convert_(copy.deepcopy(plain), recipe=None)
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in plain.named_parameters()]


def on_side(call):
    """Runs a forward on another stream, and lets the current one wait for it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        made = call()
    torch.cuda.current_stream().wait_stream(side)
    return made


@pytest.mark.parametrize("kind", ["linear", "conv2d"])
def test_main_grad_is_ready_for_the_stream_that_called_backward(kind):
    if kind == "linear":
        x, w = real(8192, 8192), torch.nn.Parameter(real(8192, 8192, seed=1))
        forward = lambda: st.linear(x, w)  # noqa: E731
    else:
        x, w = (real(64, 512, 28, 28).to(memory_format=torch.channels_last),
                torch.nn.Parameter(real(512, 512, 3, 3, seed=1).to(memory_format=torch.channels_last)))
        forward = lambda: st.conv2d(x, w, padding=1)  # noqa: E731
    w.main_grad = torch.zeros_like(w, dtype=torch.float32)
    for turn in range(6):
        w.main_grad.zero_()
        loss = on_side(lambda: forward().float().mean())
        loss.backward()
        early = w.main_grad.clone()
        torch.cuda.synchronize()
        assert torch.equal(early, w.main_grad), turn


def test_a_weight_that_two_streams_use_is_added_to_in_turn():
    # Whole numbers, so sums are exact in any order.
    x, w = whole(4096, 4096), torch.nn.Parameter(whole(4099, 4096, seed=1))
    w.main_grad = torch.zeros_like(w, dtype=torch.float32)
    st.linear(x, w).float().sum().backward()
    wanted = 2 * w.main_grad.clone()
    for _ in range(4):
        w.main_grad.zero_()
        one, two = on_side(lambda: st.linear(x, w).float().sum()), on_side(lambda: st.linear(x, w).float().sum())
        (one + two).backward()
        assert torch.equal(w.main_grad, wanted)


@ALL
def test_a_captured_backward_of_another_stream_adds_at_each_replay(name):
    case = Case(name, "cuda")

    def step():
        on_side(case.forward).backward(case.dy)

    on_side(step)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(3):
        graph.replay()
    assert case.added(4)
