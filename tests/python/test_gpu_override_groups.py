# SPDX-License-Identifier: Apache-2.0
"""Products of groups under ``st.override`` on a GPU, against torch's own, bit by bit: numbers are small, so that all sums are exact."""
import contextlib

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from gpu_helpers import BF16, E4M3, FP16, needs_gpu, powers, whole  # noqa: E402
from sluice.torch import _override_groups as groups, _override_reasons as why  # noqa: E402

pytestmark = needs_gpu
TABLES = [(5, 5, 200, 300), (0, 0, 0, 0), (300, 300, 300, 300), (64, 128, 192, 256)]


def table(*numbers):
    return torch.tensor(numbers, dtype=torch.int32, device="cuda")


@contextlib.contextmanager
def counted(taken, passed=None):
    st.override.reset_counts()
    with st.override(min_gain=0):
        yield
    assert st.override.counts() == (taken, passed or {})


def equal(inside, outside, rows=None):
    assert (inside.dtype, inside.shape, inside.stride()) == (outside.dtype, outside.shape, outside.stride())
    assert torch.equal(inside[:rows], outside[:rows])


@pytest.mark.parametrize("ends", TABLES)
@pytest.mark.parametrize("dtype", [BF16, FP16])
@pytest.mark.parametrize("n", [384, 380])
def test_rows_of_groups(ends, dtype, n):
    a, by_rows = whole(300, 512, dtype=dtype), whole(4, 512, 384, dtype=dtype, seed=1)[:, :, :n]
    for b in (by_rows, whole(4, n, 512, dtype=dtype, seed=2).transpose(1, 2)):
        outside = torch._grouped_mm(a, b, offs=table(*ends))
        with counted(1):
            inside = torch._grouped_mm(a, b, offs=table(*ends))
        equal(inside, outside, ends[-1])


@pytest.mark.parametrize("ends", TABLES)
def test_sums_over_groups(ends):
    x, y = whole(300, 256), whole(300, 384, seed=1)
    outside = torch._grouped_mm(x.t(), y, offs=table(*ends))
    with counted(1):
        inside = torch._grouped_mm(x.t(), y, offs=table(*ends))
    equal(inside, outside)


def test_batches():
    for a, b in ((whole(4, 60, 256), whole(4, 256, 384, seed=1)), (whole(4, 64, 256).transpose(1, 2), whole(4, 380, 64).transpose(1, 2))):
        outside = torch._grouped_mm(a, b)
        with counted(1):
            inside = torch._grouped_mm(a, b)
        equal(inside, outside)


@pytest.mark.parametrize("ends", TABLES)
@pytest.mark.parametrize("fast", [False, True])
def test_fp8_rows_of_groups(ends, fast):
    call = whole(300, 512, dtype=E4M3), whole(4, 384, 512, dtype=E4M3, seed=1).transpose(1, 2), powers(300), powers(4, 384, seed=1), table(*ends)
    outside = torch._scaled_grouped_mm(*call, use_fast_accum=fast)
    with counted(1):
        inside = torch._scaled_grouped_mm(*call, use_fast_accum=fast)
    equal(inside, outside, ends[-1])


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients(compiled):
    x, w, ends, grad = whole(300, 256), whole(4, 384, 256, seed=1), table(5, 5, 200, 300), whole(300, 384, seed=2)

    def product(x, w, ends):
        return torch._grouped_mm(x, w.transpose(1, 2), offs=ends)

    run, found = torch.compile(product) if compiled else product, []
    for context in (contextlib.nullcontext(), counted(3)):
        leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
        with context:
            made = run(*leaves, ends)
            made.backward(grad)
        found.append((made.detach(), *(leaf.grad for leaf in leaves)))
    for outside, inside in zip(*found):
        equal(inside, outside)


def test_a_graph_is_replayed_with_other_tables():
    a, b, ends = whole(300, 256), whole(4, 256, 328, seed=1), table(*TABLES[0])
    other = whole(300, 264)[:, :256], whole(4, 256, 344, seed=1)
    torch._grouped_mm(*other, offs=ends)  # torch's own first call is outside of a capture, too
    sluice.prepare(groups.problem_of_groups(a, b, ends))
    graph = torch.cuda.CUDAGraph()
    with counted(1, {why.IN_CAPTURE: 1}), torch.cuda.graph(graph):
        made, of_torch = torch._grouped_mm(a, b, offs=ends), torch._grouped_mm(*other, offs=ends)
    for numbers in TABLES:
        ends.copy_(table(*numbers))
        graph.replay()
        equal(made, torch._grouped_mm(a, b, offs=ends), numbers[-1])
        equal(of_torch, torch._grouped_mm(*other, offs=ends), numbers[-1])


def test_what_torch_refuses_raises_torchs_error():
    a, b, ends = whole(300, 256), whole(4, 256, 384, seed=1), table(*TABLES[0])
    odd = whole(4 * 60 * 256 + 1)[1:].view(4, 60, 256)
    for call in ((a, b, None), (a[:, :128], b, ends), (a[:, ::2], b[:, :128], ends), (a, b, ends.long()), (odd, b)):
        with pytest.raises(RuntimeError) as outside:
            torch._grouped_mm(*call)
        with st.override(min_gain=0), pytest.raises(type(outside.value)) as inside:
            torch._grouped_mm(*call)
        assert str(inside.value).partition("\n")[0] == str(outside.value).partition("\n")[0]
