# SPDX-License-Identifier: Apache-2.0
"""sluice.torch.moe on a GPU: tables against torch's stable sort, rows and sums bit by bit, graphs, chains and torch.compile."""
import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from gpu_helpers import BF16, FP16, exactly, needs_gpu, real, whole  # noqa: E402

pytestmark = needs_gpu
EXPERTS = 64


def chosen_ids(tokens, chosen, dtype=torch.int64, seed=0, experts=EXPERTS):
    """Returns ids of which about one in ten is outside of [0, experts)."""
    generator = torch.Generator(device="cuda").manual_seed(seed + tokens)
    return torch.randint(-3, experts + 3, (tokens, chosen), device="cuda", generator=generator).to(dtype)


def by_torch(ids, experts, pitch, rows):
    """Returns the tables of ``route``, computed with a stable sort."""
    flat = ids.flatten().long()
    inside = (flat >= 0) & (flat < experts)
    counts = torch.bincount(flat[inside], minlength=experts)
    begins = (counts + pitch - 1).div(pitch, rounding_mode="floor").mul(pitch).cumsum(0).roll(1)
    begins[0] = 0
    order = torch.where(inside, flat, experts).argsort(stable=True)[:int(inside.sum())]
    rank = torch.arange(order.numel(), device="cuda") - (counts.cumsum(0) - counts)[flat[order]]
    row = begins[flat[order]] + rank
    row_of_slot, token_of_row = torch.full_like(flat, -1), torch.full((rows,), -1, device="cuda")
    fits = row < rows
    row_of_slot[order[fits]] = row[fits]
    token_of_row[row[fits]] = order[fits] // ids.shape[-1]
    return (begins + counts).clamp(max=rows).int(), row_of_slot.view(ids.shape).int(), token_of_row.int()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("tokens", [1, 7, 512, 4096, 9000])
@pytest.mark.parametrize("pitch", [1, 128])
def test_route_is_a_stable_sort(dtype, tokens, pitch):
    ids = chosen_ids(tokens, 8, dtype)
    for rows in (None, tokens * 5):
        tables = st.moe.route(ids, EXPERTS, pitch=pitch, rows=rows)
        for found, wanted in zip(tables, by_torch(ids, EXPERTS, pitch, tables[2].numel())):
            assert torch.equal(found, wanted)
    wide = torch.full((tokens, 16), -1, device="cuda", dtype=dtype)
    wide[:, :8] = ids
    assert all(map(torch.equal, st.moe.route(wide[:, :8], EXPERTS), st.moe.route(ids, EXPERTS))), "ids whose rows have gaps"


@pytest.mark.parametrize("dtype", [BF16, FP16])
def test_gathered_rows_are_those_of_the_table(dtype):
    x = real(300, 1024, dtype=dtype)
    token_of_row = st.moe.route(chosen_ids(300, 4), EXPERTS, pitch=16)[2]
    inside = (token_of_row >= 0)[:, None]
    rows = torch.where(inside, x[token_of_row.clamp(min=0)], torch.zeros((), device="cuda", dtype=dtype))
    assert torch.equal(st.moe.gather(x, token_of_row), rows)
    for granularity in ("1x128", "row"):
        codes, scales = st.moe.gather(x, token_of_row, granularity)
        wanted, of_rows = st.quantize(rows, granularity)
        assert torch.equal(codes.view(torch.uint8), wanted.view(torch.uint8))
        assert torch.equal(scales, torch.where(inside, of_rows, torch.ones((), device="cuda")))
    scale = torch.full((), 0.01, device="cuda")
    codes, same = st.moe.gather(x, token_of_row, scale=scale)
    assert same is scale and torch.equal(codes.view(torch.uint8), st.quantize_static(rows, scale).view(torch.uint8))


def layer(x, ids, weights, w):
    ends, row_of_slot, token_of_row = st.moe.route(ids, EXPERTS)
    rows = st.moe.gather(x, token_of_row)
    expert = torch.searchsorted(ends, torch.arange(rows.shape[0], device="cuda", dtype=torch.int32), right=True).clamp(max=EXPERTS - 1)
    return st.moe.combine(rows * w[expert], row_of_slot, weights, x)


def by_hand(x, ids, weights, w):
    out = x.double()
    for j in range(ids.shape[1]):
        inside = ((ids[:, j] >= 0) & (ids[:, j] < EXPERTS))[:, None]
        out = torch.where(inside, out + weights[:, j, None].double() * (x * w[ids[:, j].clamp(0, EXPERTS - 1)]).double(), out)
    return out


def data(tokens, seed=0):
    return whole(tokens, 512, seed=seed), chosen_ids(tokens, 8, seed=seed), whole(tokens, 8, dtype=torch.float32, seed=seed + 1)


def test_a_layer_is_exact_also_in_a_graph_and_compiled():
    w = whole(EXPERTS, 512, seed=9)
    sluice.prepare_experts("bf16")
    x, ids, weights = data(257)
    exactly(layer(x, ids, weights, w), by_hand(x, ids, weights, w))
    compiled = torch.compile(layer, fullgraph=True)
    exactly(compiled(x, ids, weights, w), by_hand(x, ids, weights, w))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = layer(x, ids, weights, w)
    for seed in range(1, 6):
        for tensor, other in zip((x, ids, weights), data(257, seed)):
            tensor.copy_(other)
        graph.replay()
        exactly(out, by_hand(x, ids, weights, w))


def test_a_chain_of_the_three_gives_the_same():
    x, ids, weights = data(96)
    steps = st.Steps()
    _, row_of_slot, token_of_row = steps.route(ids, EXPERTS)
    rows = steps.gather(x, token_of_row)
    out = steps.combine(rows, row_of_slot, weights, x)
    chain = st.Chain(steps)
    for seed in range(3):
        for tensor, other in zip((x, ids, weights), data(96, seed)):
            tensor.copy_(other)
        chain.run()
        exactly(out, by_hand(x, ids, weights, torch.ones(EXPERTS, 512, device="cuda", dtype=BF16)))
