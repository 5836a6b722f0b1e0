# SPDX-License-Identifier: Apache-2.0
"""Effects of a call on its surroundings: streams, graphs, threads and allocations."""

import time

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from gpu_helpers import BF16, E4M3, exactly, needs_gpu, real, whole  # noqa: E402
from thread_helpers import in_threads  # noqa: E402

pytestmark = needs_gpu


def test_the_current_stream_is_used():
    a, w = whole(64, 8192), whole(512, 8192, seed=1)
    out = torch.zeros(64, 512, device="cuda", dtype=BF16)
    st.mm(a, w.t(), out=out)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    looked, cycles = 0, 20_000_000  # about 10 ms
    while looked < 20:
        out.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(cycles)
            st.mm(a, w.t(), out=out)
        untouched = bool((out == 0).all())
        if side.query():  # too late to conclude anything, because another process uses the GPU too
            cycles *= 2
            assert cycles < 10**11, "the side stream is done before the default stream is, always"
        else:
            looked += 1
            assert untouched, "the default stream must not have been used, nor anything waited for"
        side.synchronize()
        exactly(out, a.double() @ w.double().t())


def test_two_streams_at_once_with_split_sums():
    problem = sluice.Problem(128, 512, 8192)
    sluice.prepare(sluice.plan(problem, schedule="cooperative", tile=(128, 128), cluster=(1, 1), splits=4))
    streams = [torch.cuda.Stream() for _ in range(2)]
    a, w = [whole(128, 8192, seed=i) for i in range(2)], whole(512, 8192, seed=9)
    outs = [torch.zeros(128, 512, device="cuda", dtype=BF16) for _ in range(2)]
    torch.cuda.synchronize()
    for _ in range(200):
        for i, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                st.mm(a[i], w.t(), out=outs[i])
    torch.cuda.synchronize()
    for i in range(2):
        exactly(outs[i], a[i].double() @ w.double().t())
    sluice.verify_workspaces()


def test_a_capture_of_what_was_not_prepared_raises_and_names_prepare():
    a, w = whole(40, 1304), whole(648, 1304, seed=1)
    out = torch.zeros(40, 648, device="cuda", dtype=BF16)
    caught = []
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        try:
            st.mm(a, w.t(), out=out)
        except sluice.NotPrepared as error:
            caught.append(str(error))
        out.fill_(3)
    assert caught and "prepare()" in caught[0]
    graph.replay()
    assert (out == 3).all(), "the capture itself must have survived"


@pytest.mark.parametrize("splits", [None, 4])
def test_a_prepared_product_is_captured_and_replayed(splits):
    k = 8192 if splits else 1312
    problem = sluice.Problem(40, 640, k)
    choices = dict(schedule="cooperative", tile=(128, 128), cluster=(1, 1), splits=splits) if splits else {}
    sluice.prepare(sluice.plan(problem, **choices) if splits else problem)
    a, w = whole(40, k), whole(640, k, seed=1)
    out = torch.zeros(40, 640, device="cuda", dtype=BF16)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        st.mm(a, w.t(), out=out)
    for seed in range(3):
        a.copy_(whole(40, k, seed=seed + 10))
        graph.replay()
        exactly(out, a.double() @ w.double().t())
    sluice.verify_workspaces()


def split_products(count, m=64, n=128, k=4096):
    """Returns products so small that several run side by side. Each is added to its own output, so that a wrong replay
    stays visible."""
    problem = sluice.Problem(m, n, k, c="fp32", d="fp32")
    sluice.prepare(sluice.plan(problem, schedule="ping_pong", tile=(64, 64), cluster=(1, 1), splits=8, combine="last_arriver"))
    return [(whole(m, k, seed=i), whole(n, k, seed=100 + i), torch.zeros(m, n, device="cuda")) for i in range(count)]


LAUNCHES = 64  # so many that a replay takes longer than enqueuing it


def captured(products, workspace=None, launches=LAUNCHES):
    """Captures graphs without naming a stream. PyTorch then captures all in one stream of its own."""
    graphs = []
    for a, w, out in products:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(launches):
                st.mm(a, w.t(), out=out, c=out, workspace=workspace)
        graphs.append(graph)
    return graphs


def replayed_at_once(graphs, products, replays=100):
    """Returns how many products are wrong after so many replays of each graph, each in its own stream. Sums stay below
    2^24."""
    streams = [torch.cuda.Stream() for _ in graphs]
    for _, _, out in products:
        out.zero_()
    torch.cuda.synchronize()
    for _ in range(replays):
        for graph, stream in zip(graphs, streams):
            with torch.cuda.stream(stream):
                graph.replay()
    torch.cuda.synchronize()
    return sum(not torch.equal(out.double(), replays * LAUNCHES * (a.double() @ w.double().t())) for a, w, out in products)


def test_graphs_captured_the_default_way_are_replayed_at_once():
    products = split_products(3)
    graphs = captured(products)
    for _ in range(10):
        assert replayed_at_once(graphs, products) == 0
    sluice.verify_workspaces()


def test_sharing_a_workspace_between_them_is_seen():
    """Planted bug: if graphs share one workspace, products must be wrong."""
    products, shared = split_products(3), sluice.Workspace()
    graphs = captured(products, shared)
    assert any(replayed_at_once(graphs, products) > 0 for _ in range(40))


def test_a_hundred_graphs_of_which_nobody_knew_and_their_memory_is_used_again():
    products = split_products(1) * 100
    before = sluice.holdings()
    graphs = captured(products, launches=1)
    assert sluice.holdings().workspaces == before.workspaces + 100
    for graph in graphs:
        graph.reset()
    graphs.clear()
    torch.cuda.synchronize()
    for _ in range(200):  # the driver returns memory on a thread of its own
        if sluice.holdings().workspaces == before.workspaces:
            break
        time.sleep(0.01)
    held = sluice.holdings()
    assert held.workspaces == before.workspaces
    graphs = captured(products[:10])
    assert sluice.holdings().workspace_bytes == held.workspace_bytes


def test_a_workspace_of_the_callers_is_used_wherever_a_launch_needs_one():
    sluice.prepare_quantizers("bf16")
    mine = sluice.Workspace()
    x, gated = real(32, 512), real(32, 1024)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    before = sluice.holdings().workspaces
    with torch.cuda.stream(stream):  # no workspace was lent to this stream
        q, scale = st.quantize(x, "tensor", workspace=mine)
        st.silu_mul_quantize(gated, "tensor", workspace=mine)
        for recipe in ("tensor", "row", "block"):
            layer = st.nn.Linear(512, 256, recipe=recipe, device="cuda")
            layer.workspace = mine
            with torch.no_grad():
                layer(x)
        weight = real(128, 64).requires_grad_()
        split = dict(schedule="cooperative", tile=(128, 128), cluster=(1, 1), splits=4)
        sluice.prepare(sluice.plan(sluice.Problem(128, 64, 4096, a_major="mn", b_major="mn"), **split))
        st.linear(real(4096, 64), weight, workspace=mine).sum().backward()
    stream.synchronize()
    assert sluice.holdings().workspaces == before
    plain, plain_scale = st.quantize(x, "tensor")
    assert torch.equal(q.view(torch.uint8), plain.view(torch.uint8)) and torch.equal(scale, plain_scale)
    mine.verify()


def test_a_workspace_of_the_callers_under_torch_compile():
    (a, w, out), = split_products(1)
    mine, other = sluice.Workspace(), sluice.Workspace()
    calls = []

    @torch.compile(fullgraph=True)
    def compiled(a, w, c, workspace):
        return st.mm(a, w.t(), c=c, out_dtype=torch.float32, workspace=workspace)

    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    before = sluice.holdings().workspaces
    with torch.cuda.stream(stream):
        for workspace in (mine, other, mine):
            calls.append(compiled(a, w, out, workspace))
    stream.synchronize()
    assert sluice.holdings().workspaces == before
    for call in calls:
        assert torch.equal(call.double(), a.double() @ w.double().t())


def test_quantisers_and_modules_are_captured():
    sluice.prepare_quantizers("bf16")
    for recipe in ("tensor", "row", "block"):
        layer = st.nn.Linear.from_linear(torch.nn.Linear(512, 256, dtype=BF16, device="cuda"), recipe)
        x = real(32, 512)
        with torch.no_grad():
            expected = layer(x)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                captured = layer(x)
            captured.zero_()
            for _ in range(3):
                graph.replay()
        assert torch.equal(captured, expected), recipe
    sluice.verify_workspaces()


def test_threads():
    wrong = []

    def work(seed):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for i in range(50):
                a, w = whole(16 + i, 256, seed=seed), whole(256, 256, seed=seed + 1)
                result = st.mm(a, w.t())
                if not torch.equal(result.float(), (a.float() @ w.float().t()).to(BF16).float()):
                    wrong.append((seed, i))
        stream.synchronize()

    in_threads(work, (0, 100, 200, 300))
    assert not wrong


def test_nothing_is_allocated_but_the_output():
    a, w = whole(64, 256, dtype=E4M3), whole(512, 256, dtype=E4M3).t()
    one = torch.ones((), device="cuda")
    out = torch.empty(64, 512, device="cuda", dtype=BF16)
    st.scaled_mm(a, w, one, one, out=out)

    def allocations():
        return torch.cuda.memory_stats()["allocation.all.allocated"]

    before = allocations()
    for _ in range(10):
        st.scaled_mm(a, w, one, one, out=out)
    assert allocations() == before
    st.scaled_mm(a, w, one, one, out_dtype=BF16)
    assert allocations() == before + 1
