# SPDX-License-Identifier: Apache-2.0
"""Products of groups on the GPU, against fp64 and against the dense product of each group, bit by bit. Graphs are replayed with
other tables. A layer of experts is compared with the dense sum."""
import pytest

torch = pytest.importorskip("torch")

import sluice.torch as st  # noqa: E402
from gpu_helpers import BF16, E4M3, FP32, exactly, needs_gpu, powers, real, whole  # noqa: E402
from sluice.torch import deep_gemm  # noqa: E402

pytestmark = needs_gpu
TABLES = [(5, 5, 200, 300), (0, 0, 0, 0), (300, 300, 300, 300), (1, 2, 3, 4), (64, 128, 192, 256), (-7, 90, 30, 2**31 - 1)]


def table(*numbers):
    return torch.tensor(numbers, dtype=torch.int32, device="cuda")


def bounds(ends, rows):
    begin, made = 0, []
    for end in ends:
        made.append((begin, max(begin, min(max(end, 0), rows))))
        begin = max(begin, min(max(end, 0), rows))
    return made


def test_a_hundred_thousand_replays_with_new_sizes():
    """Each replay draws a table on the GPU; mismatches are counted there."""
    rows, groups, replays = 256, 8, 100_000
    a, b = whole(rows, 128), whole(groups, 128, 256, seed=1)
    of_all = (a.double() @ b.double()).to(BF16)  # groups x rows x n
    places, out = torch.arange(rows, device="cuda"), torch.empty(rows, 256, device="cuda", dtype=BF16)
    wrong, changes = (torch.zeros((), device="cuda", dtype=torch.int64) for _ in range(2))
    before = torch.zeros(groups, device="cuda", dtype=torch.int32)

    def once():
        ends = torch.randint(0, rows + 30, (groups,), device="cuda").cummax(0).values.clamp(max=rows).int()
        changes.add_((ends != before).any())
        before.copy_(ends)
        out.fill_(torch.nan)
        st.grouped_mm(a, b, offs=ends, out=out)
        group = torch.searchsorted(ends, places, right=True)
        wanted = of_all[group.clamp(max=groups - 1), places]
        inside = (group < groups)[:, None]
        wrong.add_(torch.where(inside, out != wanted, ~out.isnan()).sum())

    once()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        once()
    for _ in range(replays):
        graph.replay()
    assert wrong.item() == 0 and changes.item() > 0.99 * replays
    b[3] += 1  # the count can rise
    graph.replay()
    assert wrong.item() > 0


@pytest.mark.parametrize("ends", TABLES)
def test_rows_of_groups(ends):
    a, b, bias = whole(300, 512), whole(4, 512, 384, seed=1), whole(4, 384, seed=2)
    out = torch.full((300, 384), float("nan"), device="cuda", dtype=BF16)
    st.grouped_mm(a, b, offs=table(*ends), bias=bias, out=out)
    used = torch.zeros(300, dtype=torch.bool)
    for g, (first, last) in enumerate(bounds(ends, 300)):
        exactly(out[first:last], a[first:last].double() @ b[g].double() + bias[g].double())
        used[first:last] = True
    assert out[~used.cuda()].isnan().all(), "rows of no group are left alone"


@pytest.mark.parametrize("kind", ["vector", "block"])
@pytest.mark.parametrize("ends", TABLES)
def test_scaled_rows_have_the_bits_of_a_group_alone(kind, ends):
    a, b = real(300, 512).to(E4M3), real(4, 384, 512, seed=1).to(E4M3)
    shapes = {"vector": ((300, 1), (4, 384)), "block": ((300, 4), (4, 3, 4))}[kind]
    scale_a, scale_b = powers(*shapes[0]), powers(*shapes[1], seed=1)
    made = st.scaled_grouped_mm(a, b.transpose(1, 2), scale_a, scale_b, table(*ends))
    for g, (first, last) in enumerate(bounds(ends, 300)):
        if first == last:
            continue
        alone = st.scaled_grouped_mm(a[first:last], b[g:g + 1].transpose(1, 2), scale_a[first:last].contiguous(), scale_b[g:g + 1],
                                     table(last - first))
        assert torch.equal(made[first:last].view(torch.int16), alone.view(torch.int16)), g


def test_a_graph_is_replayed_with_other_tables():
    a, b, ends = whole(300, 256), whole(4, 256, 320, seed=1), table(*TABLES[0])
    out = torch.zeros(300, 320, device="cuda", dtype=BF16)
    st.grouped_mm(a, b, offs=ends, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        st.grouped_mm(a, b, offs=ends, out=out)
    for numbers in TABLES:
        ends.copy_(table(*numbers))
        out.fill_(7)
        graph.replay()
        for g, (first, last) in enumerate(bounds(numbers, 300)):
            exactly(out[first:last], a[first:last].double() @ b[g].double())


@pytest.mark.parametrize("ends", TABLES)
def test_sums_over_groups(ends):
    x, y = whole(300, 256), whole(300, 384, seed=1)
    for dtype in (BF16, FP32):
        made = st.grouped_mm(x.t(), y, offs=table(*ends), out_dtype=dtype)
        for g, (first, last) in enumerate(bounds(ends, 300)):
            exactly(made[g], x[first:last].double().t() @ y[first:last].double())


def test_the_backward_is_that_of_a_loop():
    x, w, bias, ends = whole(300, 256), whole(4, 384, 256, seed=1), whole(4, 384, seed=2), (5, 5, 200, 290)
    leaves = [t.clone().requires_grad_() for t in (x, w, bias)]
    made = st.grouped_mm(leaves[0], leaves[1].transpose(1, 2), offs=table(*ends), bias=leaves[2], zero_rest=True)
    grad = whole(300, 384, seed=3)
    made.backward(grad)
    wide = [t.double().requires_grad_() for t in (x, w, bias)]
    rows = [wide[0][first:last] @ wide[1][g].t() + wide[2][g] for g, (first, last) in enumerate(bounds(ends, 300))]
    torch.cat(rows).backward(grad[:290].double())
    for ours, exact in zip(leaves, wide):
        exactly(ours.grad, exact.grad)


@pytest.mark.parametrize("counts", [(3, 0, 64, 17), (64, 64, 64, 64), (0, 0, 0, 0)])
def test_deep_gemms_layouts(counts):
    a, b = real(4, 64, 512).to(E4M3), real(4, 384, 512, seed=1).to(E4M3)
    scale_a, scale_b = powers(4, 64, 4), powers(4, 3, 4, seed=1)
    d = torch.zeros(4, 64, 384, device="cuda", dtype=BF16)
    deep_gemm.m_grouped_fp8_gemm_nt_masked((a, scale_a), (b, scale_b), d, table(*counts), 16)
    rows = torch.cat([torch.nn.functional.pad(a[g, :n].view(torch.uint8), (0, 0, 0, 128 - n)) for g, n in enumerate(counts)]).view(E4M3)
    scales = torch.cat([torch.nn.functional.pad(scale_a[g, :n], (0, 0, 0, 128 - n)) for g, n in enumerate(counts)])
    ends = table(*(128 * g + n for g, n in enumerate(counts)))
    indices = torch.full((512,), -1, dtype=torch.int32, device="cuda")
    for g, n in enumerate(counts):
        indices[128 * g:128 * g + n] = g
    if 0 in counts:  # a group without rows takes no 128 rows of padding
        return
    for layout, psum in ((ends, True), (indices, False)):
        out = torch.zeros(512, 384, device="cuda", dtype=BF16)
        deep_gemm.m_grouped_fp8_gemm_nt_contiguous((rows, scales), (b, scale_b), out, layout, use_psum_layout=psum)
        for g, n in enumerate(counts):
            assert torch.equal(out[128 * g:128 * g + n].view(torch.int16), d[g, :n].view(torch.int16))


@pytest.mark.parametrize("kind", ["bf16", "row", "block", "packed"])
@pytest.mark.parametrize("tokens", [1, 3, 20])
def test_slots_are_products_of_their_own(kind, tokens):
    experts, chosen, n, k = 24, 6, 384, 512
    x, w = whole(tokens, k), whole(experts, n, k, seed=1)
    ids = torch.randint(-1, experts + 1, (tokens, chosen), device="cuda", dtype=torch.int32, generator=torch.Generator("cuda").manual_seed(tokens))
    out = torch.full((tokens * chosen, n), float("nan"), device="cuda", dtype=BF16)
    wide, of_rows = w.double(), torch.ones(tokens, 1, device="cuda", dtype=torch.float64)
    if kind == "packed":
        each = [st.pack_int4(expert, 128) for expert in w]
        wide = torch.stack([st.packed_mm(torch.eye(k, device="cuda", dtype=BF16), one).t() for one in each]).double()
        st.slots_mm(x, st.stack_packed(each), ids, out=out)
    elif kind == "bf16":
        st.slots_mm(x, w.transpose(1, 2), ids, out=out)
    else:
        scale_x, scale_w = (powers(tokens, 1), powers(experts, n)) if kind == "row" else (powers(tokens, 4), powers(experts, 3, 4))
        st.slots_mm(x.to(E4M3), w.to(E4M3).transpose(1, 2), ids, scale_a=scale_x, scale_b=scale_w, out=out)
        wide = wide * (scale_w.double()[..., None] if kind == "row" else scale_w.double().repeat_interleave(128, 1).repeat_interleave(128, 2))
        of_rows = scale_x.double() if kind == "row" else scale_x.double().repeat_interleave(128, 1)
    rows = x.double() * of_rows
    for slot, e in enumerate(ids.flatten().tolist()):
        if 0 <= e < experts:
            wanted = rows[slot // chosen] @ wide[e].t()
            if kind == "packed":
                assert (out[slot].double() - wanted).norm() <= 0.01 * wanted.norm()
            else:
                exactly(out[slot], wanted)
        else:
            assert out[slot].isnan().all(), "a slot of no expert"


@pytest.mark.parametrize("tokens", [1, 7, 64, 500])
@pytest.mark.parametrize("recipe", [None, "row", "1x128"])
@pytest.mark.parametrize("kind", [torch.int32, torch.int64], ids=["int32", "int64"])  # few tokens of int32 are not sorted
def test_a_layer_of_experts(tokens, recipe, kind):
    experts, chosen, width, inner = 16, 4, 512, 256
    x, w13, w2 = real(tokens, width), real(experts, 2 * inner, width, seed=1) / 16, real(experts, width, inner, seed=2) / 16
    weights, ids = real(tokens, experts, dtype=FP32, seed=3).softmax(-1).topk(chosen)
    ids[0, 0] = -1
    ids = ids.to(kind)
    more = {}
    if recipe is not None:
        parts = [[st.quantize(each.contiguous(), "row" if recipe == "row" else "128x128") for each in w] for w in (w13, w2)]
        w13, w2 = (torch.stack([codes for codes, _ in part]) for part in parts)
        scales = [torch.stack([scale for _, scale in part]) for part in parts]
        more = dict(zip(("scale_w13", "scale_w2"), (s.squeeze(-1) if recipe == "row" else s for s in scales)))
    made = st.moe.experts(x, ids, weights, w13, w2, **more)
    wide13, wide2 = w13.double(), w2.double()
    if recipe == "row":
        wide13, wide2 = wide13 * more["scale_w13"].double()[..., None], wide2 * more["scale_w2"].double()[..., None]
    elif recipe:
        wide13 = wide13 * more["scale_w13"].double().repeat_interleave(128, 1).repeat_interleave(128, 2)
        wide2 = wide2 * more["scale_w2"].double().repeat_interleave(128, 1).repeat_interleave(128, 2)
    total = torch.zeros(tokens, width, device="cuda", dtype=torch.float64)
    for j in range(chosen):
        has = ids[:, j] >= 0
        e = ids[:, j].clamp(min=0)
        gate, up = torch.einsum("eoi,ti->teo", wide13, x.double())[torch.arange(tokens), e.long()].chunk(2, -1)
        y = torch.einsum("toi,ti->to", wide2[e.long()], torch.nn.functional.silu(gate) * up)
        total += weights[:, j, None].double() * y * has[:, None]
    error = (made.double() - total).norm() / total.norm()
    assert error < (0.01 if recipe is None else 0.05), error
    same = {flag: st.moe.experts(x, ids, weights, w13, w2, batch_invariant=flag, **more) for flag in (False, True)}
    for batch_invariant, wanted in same.items():
        steps = st.Steps()
        out = steps.experts(x, ids, weights, w13, w2, batch_invariant=batch_invariant, **more)
        st.Chain(steps).run()
        assert torch.equal(out, wanted), "a chain has the bits of its ops"
    alone = st.moe.experts(x[:1], ids[:1], weights[:1], w13, w2, batch_invariant=True, **more)
    assert torch.equal(alone, same[True][:1])
