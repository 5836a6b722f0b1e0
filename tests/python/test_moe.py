# SPDX-License-Identifier: Apache-2.0
"""sluice.torch.moe without a GPU: fakes, tracing, errors, and a layer of experts whose kernels are written in torch."""
import pytest

torch = pytest.importorskip("torch")

import sluice.torch as st  # noqa: E402
from sluice import _binding as binding  # noqa: E402
from sluice import errors  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

TOKENS, CHOSEN, EXPERTS, WIDTH = 37, 4, 9, 32


class OnHost:
    """The three kernels by their definition, in torch, on tensors in host memory."""

    @staticmethod
    def values(pairs):
        names = {number: name for name, number in binding.FIELDS.items()}
        return {names[number]: value for number, value in zip(pairs[::2], pairs[1::2])}

    def route(self, *pairs):
        v = self.values(pairs)
        ids, rows, tokens = v["topk_ids"].reshape(-1).tolist(), v["row_of_slot"].view(-1), v["token_of_row"]
        chosen = v["topk_ids"].shape[-1]
        rows.fill_(-1), tokens.fill_(-1)
        row = 0
        for expert in range(v["ends"].numel()):
            row = -(-row // v["pitch"]) * v["pitch"]
            for slot in (slot for slot, chosen_expert in enumerate(ids) if chosen_expert == expert):
                if row < tokens.numel():
                    rows[slot], tokens[row] = row, slot // chosen
                row += 1
            v["ends"][expert] = min(row, tokens.numel())

    def gather(self, *pairs):
        v = self.values(pairs)
        x, index = v["input"].reshape(-1, v["input"].shape[-1]), v["token_of_row"].long()
        inside = (index >= 0) & (index < x.shape[0])
        rows = torch.where(inside[:, None], x[index.clamp(0, x.shape[0] - 1)], torch.zeros((), dtype=x.dtype))
        if "scales" not in v:
            v["output"].copy_(rows)
            return
        assert not v["scale_given"]
        codes, scales = st.quantize_reference(rows, ("tensor", "row", "1x128")[v["granularity"]])
        v["output"].copy_(codes)
        v["scales"].copy_(torch.where(inside[:, None], scales, torch.ones(())))

    def combine(self, *pairs):
        v = self.values(pairs)
        rows, y = v["row_of_slot"].reshape(-1, v["row_of_slot"].shape[-1]), v["y"].float()
        out = torch.zeros(rows.shape[0], y.shape[1]) if v["shared"] is None else v["shared"].float().reshape(rows.shape[0], -1)
        slots = torch.arange(rows.numel()).view(rows.shape)
        for j in range(rows.shape[1]):
            index = rows[:, j].long()
            if v["experts"] != 0:
                index = torch.where((index >= 0) & (index < v["experts"]), slots[:, j], -1)
            has = (index >= 0) & (index < y.shape[0])
            weights = 1.0 if v["topk_weights"] is None else v["topk_weights"].reshape(rows.shape)[:, j, None]
            out = torch.where(has[:, None], out + weights * y[index.clamp(0, y.shape[0] - 1)], out)
        v["out"].copy_(out.view(v["out"].shape))


@pytest.fixture
def on_host(monkeypatch):
    for name in ("route", "gather", "combine"):
        monkeypatch.setattr(binding, name, getattr(OnHost(), name))


def inputs():
    torch.manual_seed(3)
    x = torch.randn(TOKENS, WIDTH, dtype=torch.bfloat16)
    scores = torch.rand(TOKENS, EXPERTS)
    weights, ids = scores.topk(CHOSEN)
    ids[5] = -1  # a token that pads a graph
    ids[6, 2] = EXPERTS  # an expert of another rank
    return x, ids, weights, torch.randn(EXPERTS, WIDTH, WIDTH, dtype=torch.bfloat16) / 8


def layer(x, ids, weights, w, pitch=1):
    ends, row_of_slot, token_of_row = st.moe.route(ids, EXPERTS, pitch=pitch)
    rows = st.moe.gather(x, token_of_row)
    # Stands for the product of groups: the expert of a row is the number of ends at or below it.
    expert = torch.searchsorted(ends, torch.arange(rows.shape[0], dtype=torch.int32), right=True).clamp(max=EXPERTS - 1)
    y = torch.bmm(rows[:, None], w[expert])[:, 0]
    return st.moe.combine(y, row_of_slot, weights, x)


def dense(x, ids, weights, w):
    out = x.float()
    for j in range(CHOSEN):
        has = (ids[:, j] >= 0) & (ids[:, j] < EXPERTS)
        y = torch.bmm(x[:, None], w[ids[:, j].clamp(0, EXPERTS - 1)])[:, 0].float()
        out = torch.where(has[:, None], out + weights[:, j, None] * y, out)
    return out.bfloat16()


@pytest.mark.parametrize("pitch", [1, 16])
def test_a_layer_is_the_sum_of_its_experts(on_host, pitch):
    x, ids, weights, w = inputs()
    assert torch.equal(layer(x, ids, weights, w, pitch), dense(x, ids, weights, w))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_layer_is_traced_as_one_graph(on_host, dynamic):
    x, ids, weights, w = inputs()
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    assert torch.equal(compiled(x, ids, weights, w), layer(x, ids, weights, w))
    fewer = slice(0, 20)
    assert torch.equal(compiled(x[fewer], ids[fewer], weights[fewer], w), layer(x[fewer], ids[fewer], weights[fewer], w))


def test_fakes_have_the_shapes_and_types_of_the_real_ones(on_host):
    x, ids, weights, _ = inputs()

    def all_of(x, ids, weights):
        made = [*st.moe.route(ids, EXPERTS), *st.moe.route(ids, EXPERTS, pitch=64, rows=100)]
        token_of_row, row_of_slot = made[2], made[1]
        made += [st.moe.gather(x, token_of_row), *st.moe.gather(x, token_of_row, "1x128"), *st.moe.gather(x, token_of_row, "row")]
        return [*made, st.moe.combine(made[6], row_of_slot, weights, x), st.moe.combine(made[6], row_of_slot)]

    real = all_of(x, ids, weights)
    with FakeTensorMode() as mode:
        fake = all_of(*(mode.from_tensor(tensor) for tensor in (x, ids, weights)))
    for one, other in zip(real, fake):
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())


def test_leading_dimensions_are_tokens(on_host):
    x, ids, weights, w = inputs()
    wanted = layer(x[:36], ids[:36], weights[:36], w)
    in_batches = [tensor[:36].view(4, 9, -1) for tensor in (x, ids, weights)]
    assert torch.equal(layer(*in_batches, w), wanted.view(4, 9, -1))


def test_a_given_scale_is_returned(on_host, monkeypatch):
    x, ids, *_ = inputs()
    seen = []
    monkeypatch.setattr(binding, "gather", lambda *pairs: seen.append(OnHost.values(pairs)))
    token_of_row, scale = st.moe.route(ids, EXPERTS)[2], torch.ones(())
    out, returned = st.moe.gather(x, token_of_row, "tensor", scale=scale)
    assert returned is scale and out.dtype is torch.float8_e4m3fn and seen[0]["scales"] is scale and seen[0]["scale_given"]
    assert st.moe.gather(x, token_of_row, scale=scale)[1] is scale, "a scale alone is one of the whole matrix"


def test_default_rows_fit_all_slots(on_host):
    ids = torch.arange(12).view(3, 4) % 5
    for pitch in (1, 7, 64):
        ends, row_of_slot, token_of_row = st.moe.route(ids, 5, pitch=pitch)
        assert (row_of_slot >= 0).all() and token_of_row.numel() == 12 + (5 * (pitch - 1) if pitch > 1 else 0)
        assert (token_of_row >= 0).sum() == 12 and ends[-1] <= token_of_row.numel()
    assert st.moe.route(ids, 1024, pitch=64)[2].numel() == 12 * 64, "no more gaps than slots"


def test_errors_say_the_callers_names():
    ids, x = torch.zeros(4, 2, dtype=torch.int64), torch.zeros(4, 8, dtype=torch.bfloat16)
    rows = torch.zeros(4, 2, dtype=torch.int32)
    with pytest.raises(errors.WrongDevice, match="topk_ids.* in host memory"):
        st.moe.route(ids, 8)
    with pytest.raises(errors.InvalidType, match="topk_ids is torch.float32"):
        st.moe.route(ids.float(), 8)
    with pytest.raises(errors.InvalidSize, match="experts = 0"):
        st.moe.route(ids, 0)
    with pytest.raises(errors.InvalidSize, match="pitch = 0"):
        st.moe.route(ids, 8, pitch=0)
    with pytest.raises(errors.InvalidSize, match="topk_ids has shape"):
        st.moe.route(ids[0], 8)
    with pytest.raises(errors.WrongDevice, match="x is in host memory"):
        st.moe.gather(x, rows[:, 0].contiguous())
    with pytest.raises(errors.InvalidType, match="token_of_row is torch.int64"):
        st.moe.gather(x, ids[:, 0])
    with pytest.raises(errors.InvalidArgument, match="granularity"):
        st.moe.gather(x, rows[:, 0].contiguous(), "1x64")
    with pytest.raises(errors.InvalidArgument, match="only 'tensor' takes one"):
        st.moe.gather(x, rows[:, 0].contiguous(), "row", scale=torch.ones(()))
    with pytest.raises(errors.WrongDevice, match="y is in host memory"):
        st.moe.combine(x, rows)
    with pytest.raises(errors.InvalidType, match="topk_weights is torch.bfloat16"):
        st.moe.combine(x, rows, torch.ones(4, 2, dtype=torch.bfloat16))
    with pytest.raises(errors.InvalidArgument, match="combine has no backward"):
        st.moe.combine(x.clone().requires_grad_(), rows)
    with pytest.raises(errors.InvalidArgument, match="gather has no backward"):
        st.moe.gather(x.clone().requires_grad_(), rows[:, 0].contiguous())


def test_steps_of_a_chain_make_the_same_checks():
    steps = st.Steps()
    ids, x = torch.zeros(4, 2, dtype=torch.int64), torch.zeros(4, 8, dtype=torch.bfloat16)
    rows, index = torch.zeros(4, 2, dtype=torch.int32), torch.zeros(6, dtype=torch.int32)
    for name, add in (("ids", lambda: steps.route(ids, 8, pitch=4)), ("input", lambda: steps.gather(x, index)),
                      ("input", lambda: steps.gather(x, index, "1x128")), ("input", lambda: steps.gather(x, index, scale=torch.ones(1))),
                      ("y", lambda: steps.combine(x, rows, torch.ones(4, 2), x.clone()))):
        with pytest.raises(errors.WrongDevice, match=f"{name} is in host memory, and a chain runs on a GPU"):
            add()  # all other checks passed
    with pytest.raises(errors.InvalidSize, match="output has shape"):
        steps.gather(x, index, out=x)
    with pytest.raises(errors.InvalidSize, match="out has shape"):
        steps.combine(x, rows, out=torch.zeros(3, 8, dtype=torch.bfloat16))
    assert len(steps) == 0


# ---- the whole layer
def gated_by(activation, gate_up):
    gate, up = gate_up.chunk(2, -1)
    if activation == "clamped_swiglu":  # as transformers' GptOssExperts._apply_gate
        gate, up = gate.clamp(max=7.0), up.clamp(min=-7.0, max=7.0)
        return (up + 1) * gate * torch.sigmoid(gate * 1.702)
    return {"silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu, "relu": torch.relu}[activation](gate) * up


def grouped_on_host(mat_a, mat_b, table, *, scale_a=None, scale_b=None, bias=None, activation=None, gated=False, out=None,
                    out_dtype=None, groups=1, pitch=1, **_):
    """``product_of_groups`` by its definition."""
    if groups == 3:
        made = torch.zeros(table.numel(), mat_a.shape[0], mat_b.shape[1])
    elif groups == 4:
        made = torch.full((table.numel(), mat_b.shape[2]), float("nan"))
    else:
        made = torch.full((mat_a.shape[0], mat_b.shape[2]), float("nan")) if out is None else out.float()
    wide_a, wide_b, begin = mat_a.float(), mat_b.float(), 0
    if scale_a is not None and scale_b.dim() == 3:
        wide_a = wide_a * scale_a.repeat_interleave(128, -1)[:, :mat_a.shape[1]]
        wide_b = wide_b * scale_b.repeat_interleave(128, 1)[:, :mat_b.shape[2]].repeat_interleave(128, 2)[..., :mat_b.shape[1]].transpose(1, 2)
    elif scale_a is not None:
        wide_a, wide_b = wide_a * scale_a.view(-1, 1), wide_b * scale_b[:, None]
    for g, end in enumerate(table.tolist()):
        if groups == 4 and 0 <= end < mat_b.shape[0]:
            made[g] = wide_a[g // pitch] @ wide_b[end] + (0 if bias is None else bias[end].float())
        if groups == 4:
            continue
        if groups == 3:
            made[g] = wide_a[:, begin:end] @ wide_b[begin:end]
        else:
            made[begin:end] = wide_a[begin:end] @ wide_b[g] + (0 if bias is None else bias[g].float())
        begin = end
    if gated:
        made = gated_by(activation, made)
    dtype = out_dtype or (mat_a.dtype if out is None else out.dtype)
    if out is not None:
        out.copy_(made)
        return out
    return made.to(dtype)


@pytest.fixture
def layer_on_host(on_host, monkeypatch):
    from sluice.torch import grouped, moe, quantize_reference
    monkeypatch.setattr(grouped, "product_of_groups", grouped_on_host)
    monkeypatch.setattr(moe, "scaled_grouped_mm_quantize", lambda a, b, scale_a, scale_b, offs, *, bias, activation, gated, workspace: quantize_reference(
        grouped_on_host(a, b, offs, scale_a=scale_a, scale_b=scale_b, bias=bias, activation=activation, gated=gated, out_dtype=torch.float32).nan_to_num(),
        "1x128"))
    monkeypatch.setattr(moe, "quantize", lambda x, granularity: quantize_reference(x.nan_to_num(), granularity))
    monkeypatch.setattr(moe, "silu_mul_quantize", lambda x, granularity: quantize_reference(
        torch.nn.functional.silu(x.nan_to_num().chunk(2, -1)[0].float()) * x.nan_to_num().chunk(2, -1)[1].float(), granularity))


INNER = 24


def weights_of(inner=INNER, width=WIDTH):
    return (torch.randn(EXPERTS, 2 * inner, width) / 6).bfloat16(), (torch.randn(EXPERTS, width, inner) / 5).bfloat16()


def dense_layer(x, ids, weights, w13, w2, shared=None, biases=None, activation="silu"):
    """The layer token by token."""
    out = torch.zeros(x.shape[0], w2.shape[1]) if shared is None else shared.float()
    rows = []
    for t in range(x.shape[0]):
        total = out[t]
        for j, e in enumerate(ids[t].tolist()):
            if 0 <= e < EXPERTS:
                gate_up = w13[e].float() @ x[t].float() + (0 if biases is None else biases[0][e].float())
                y = w2[e].float() @ gated_by(activation, gate_up) + (0 if biases is None else biases[1][e].float())
                total = total + weights[t, j] * y
        rows.append(total)
    return torch.stack(rows)


def test_a_layer_of_experts_is_the_dense_sum(layer_on_host):
    x, ids, weights, _ = inputs()
    w13, w2 = weights_of()
    shared = torch.randn(TOKENS, WIDTH).bfloat16()
    made = st.moe.experts(x, ids, weights, w13, w2, shared=shared)
    wanted = dense_layer(x, ids, weights, w13, w2, shared)
    assert made.dtype is torch.bfloat16 and torch.allclose(made.float(), wanted, rtol=2e-2, atol=2e-2)
    assert torch.equal(made[5], shared[5]), "a token without experts"
    assert st.moe.experts(x[None], ids[None], weights[None], w13, w2).shape == (1, TOKENS, WIDTH)


def biases_of(inner=INNER, width=WIDTH):
    """Biases so large that gates and ups are clamped."""
    return (4 * torch.randn(EXPERTS, 2 * inner)).bfloat16(), torch.randn(EXPERTS, width).bfloat16()


@pytest.mark.parametrize("activation", ["silu", "gelu", "relu", "clamped_swiglu"])
def test_activations_and_biases_of_a_layer(layer_on_host, activation):
    x, ids, weights, _ = inputs()
    (w13, w2), (bias_13, bias_2) = weights_of(), biases_of()
    made = st.moe.experts(x, ids, weights, w13, w2, bias_13=bias_13, bias_2=bias_2, activation=activation)
    wanted = dense_layer(x, ids, weights, w13, w2, None, (bias_13, bias_2), activation)
    assert (made.float() - wanted).norm() <= 0.02 * wanted.norm()
    with pytest.raises(errors.InvalidArgument, match="activation = 'swish' must be one of silu, gelu, relu, clamped_swiglu"):
        st.moe.experts(x, ids, weights, w13, w2, activation="swish")
    leaves = [t.clone().requires_grad_() for t in (x, weights, w13, w2, bias_13, bias_2)]
    st.moe.experts(leaves[0], ids, leaves[1], leaves[2], leaves[3], bias_13=leaves[4], bias_2=leaves[5],
                   activation=activation).float().square().sum().backward()
    with pytest.raises(errors.InvalidArgument, match="batch_invariant = True and an argument requires a gradient"):
        st.moe.experts(leaves[0], ids, leaves[1], leaves[2], leaves[3], batch_invariant=True)
    wide = [t.detach().float().requires_grad_() for t in leaves]
    dense_layer(wide[0], ids, wide[1], wide[2], wide[3], None, wide[4:], activation).square().sum().backward()
    for ours, exact in zip(leaves, wide):
        assert (ours.grad.float() - exact.grad).norm() <= 0.06 * exact.grad.norm()


@pytest.mark.parametrize("activation", ["silu", "clamped_swiglu"])
@pytest.mark.parametrize("granularity,inner", [("row", 96), ("1x128", 128), ("1x128", 96)], ids=["row", "blocks", "gates of no blocks"])
def test_a_layer_of_fp8_experts(layer_on_host, granularity, inner, activation):
    torch.manual_seed(5)
    x, (w13, w2) = torch.randn(TOKENS, 256).bfloat16(), weights_of(inner, 256)
    _, ids, weights, _ = inputs()
    biases = biases_of(inner, 256) if activation == "clamped_swiglu" else (None, None)

    def quantized(w):
        made = [st.quantize_reference(each, "row" if granularity == "row" else "128x128") for each in w]
        scales = torch.stack([scale for _, scale in made])
        return torch.stack([codes for codes, _ in made]), scales.squeeze(-1) if granularity == "row" else scales

    (q13, s13), (q2, s2) = quantized(w13), quantized(w2)
    made = st.moe.experts(x, ids, weights, q13, q2, scale_w13=s13, scale_w2=s2, bias_13=biases[0], bias_2=biases[1],
                          activation=activation)
    wanted = dense_layer(x, ids, weights, w13, w2, None, None if biases[0] is None else biases, activation)
    error = (made.float() - wanted).norm() / wanted.norm()
    assert error < 0.08, error
    with pytest.raises(errors.InvalidArgument, match="given together"):
        st.moe.experts(x, ids, weights, q13, q2, scale_w13=s13)
    with pytest.raises(errors.InvalidArgument, match="given together"):
        st.moe.experts(x, ids, weights, w13, w2, scale_w2=s2)


@pytest.mark.parametrize("recipe", [None, "row", "1x128"])
def test_few_tokens_are_not_sorted(layer_on_host, monkeypatch, recipe):
    from sluice.torch import moe

    monkeypatch.setattr(moe, "route", lambda *_: pytest.fail("sorted"))
    torch.manual_seed(9)
    width, inner, biased = 256, 128, recipe == "row"
    x, (w13, w2) = torch.randn(2, width).bfloat16(), weights_of(inner, width)
    ids = torch.tensor([[3, 0, 8, -1], [1, 3, EXPERTS, 2]], dtype=torch.int32)
    weights, shared, biases = torch.rand(2, 4), torch.randn(2, width).bfloat16(), biases_of(inner, width) if biased else (None, None)
    more = {}
    given13, given2 = w13, w2
    if recipe is not None:
        parts = [[st.quantize_reference(each, "row" if recipe == "row" else "128x128") for each in w] for w in (w13, w2)]
        given13, given2 = (torch.stack([codes for codes, _ in part]) for part in parts)
        scales = [torch.stack([scale for _, scale in part]) for part in parts]
        more = dict(zip(("scale_w13", "scale_w2"), (s.squeeze(-1) if recipe == "row" else s for s in scales)))
    made = st.moe.experts(x, ids, weights, given13, given2, shared=shared, bias_13=biases[0], bias_2=biases[1], **more)
    wanted = dense_layer(x, ids, weights, w13, w2, shared, biases if biased else None)
    assert (made.float() - wanted).norm() < (0.01 if recipe is None else 0.08) * wanted.norm()


def test_when_tokens_are_sorted_though_they_are_few():
    from sluice.torch._moe_ops import layer_takes_slots

    def takes(tokens, chosen, experts, inner, width, dtype=torch.int32, batch_invariant=False, granularity="1x128", all_experts=None):
        w13, w2 = (torch.empty(experts, *shape, dtype=torch.float8_e4m3fn, device="meta") for shape in ((2 * inner, width), (width, inner)))
        x = torch.empty(tokens, width, dtype=torch.bfloat16, device="meta")
        return layer_takes_slots(x, torch.zeros(tokens, chosen, dtype=dtype, device="meta"), w13, w2, granularity, batch_invariant,
                                 all_experts or experts)

    qwen, deepseek = (128, 768, 2048), (256, 256, 7168)  # experts, inner, width; the latter in eight parts
    assert [takes(t, 8, *qwen) for t in (1, 2, 4, 8, 16)] == [True, True, True, True, False]
    assert [takes(t, 8, *deepseek) for t in (1, 4, 8, 16)] == [True, True, True, False]
    assert takes(1, 8, 32, 2048, 7168), "experts of a token differ"
    of_rank = (32, 2048, 7168)  # DeepSeek-V3 on eight GPUs, each of which gets one slot per token in the mean
    assert [takes(t, 8, *of_rank) for t in (2, 4)] == [False, False]
    assert [takes(t, 8, *of_rank, all_experts=256) for t in (2, 8, 16)] == [True, True, False]
    assert takes(2, 12, 8, 2048, 7168, all_experts=64), "a token may choose more experts than a rank has"
    assert not takes(1, 8, *qwen, dtype=torch.int64) and not takes(1, 8, *qwen, batch_invariant=True)
    assert not takes(1, 8, 128, 96, 2048) and takes(1, 8, 128, 96, 2048, granularity="row") and not takes(1, 40, 32, 256, 512)


@pytest.mark.parametrize("given", [63, 0, -1])
def test_all_experts_are_no_fewer_than_those_of_the_weights(given):
    w13, w2 = torch.ones(64, 512, 256).bfloat16(), torch.ones(64, 256, 256).bfloat16()
    with pytest.raises(errors.InvalidSize, match=f"all_experts = {given} must be at least 64, the experts of w13"):
        st.moe.experts(torch.ones(2, 256).bfloat16(), torch.zeros(2, 1).int(), None, w13, w2, all_experts=given)


def test_few_slots_of_a_rank_take_two_kernels_for_gates():
    from sluice.torch._moe_ops import gates_in_one_kernel

    up = torch.empty(64, 256, 512, device="meta")  # two tiles of 256 gates per expert
    ids = torch.empty(4, 8, device="meta")
    assert gates_in_one_kernel(ids, up, "1x128", "silu", False, 64) and not gates_in_one_kernel(ids, up, "1x128", "silu", False, 128)


def test_a_layer_of_a_rank_is_right_by_slots_and_sorted(layer_on_host):
    """Ids of other ranks are -1; four of eight experts are here."""
    made = [[0, -1], [-1, 3], [-1, -1], [2, 0]]
    ids, weights = torch.tensor(made, dtype=torch.int32), torch.rand(4, 2)
    w13, w2 = torch.randn(4, 512, 256).bfloat16() / 16, torch.randn(4, 256, 256).bfloat16() / 16
    x = torch.randn(4, 256).bfloat16()
    by_slots, by_sort = (st.moe.experts(x, kind, weights, w13, w2, all_experts=8).float() for kind in (ids, ids.long()))
    assert (by_slots - by_sort).norm() <= 0.01 * by_sort.norm() and (by_slots[2] == 0).all()


@pytest.mark.parametrize("tokens,batch_invariant,activation,in_two", [
    (1, False, "silu", True), (31, False, "silu", True), (32, False, "silu", False), (1, True, "silu", False), (1, False, "relu", False)])
def test_few_tokens_take_two_kernels_for_gates_unless_bits_must_not_change(layer_on_host, monkeypatch, tokens, batch_invariant, activation,
                                                                           in_two):
    from sluice.torch import moe

    experts, width, inner = 64, 256, 256
    w13, w2 = torch.ones(experts, 2 * inner, width).to(torch.float8_e4m3fn), torch.ones(experts, width, inner).to(torch.float8_e4m3fn)
    ids = torch.arange(tokens)[:, None] % experts
    called = []
    for name in ("silu_mul_quantize", "scaled_grouped_mm_quantize"):
        real = getattr(moe, name)
        monkeypatch.setattr(moe, name, lambda *args, name=name, real=real, **more: called.append(name) or real(*args, **more))
    st.moe.experts(torch.ones(tokens, width).bfloat16(), ids, None, w13, w2, scale_w13=torch.ones(experts, 4, 2),
                   scale_w2=torch.ones(experts, 2, 2), batch_invariant=batch_invariant, activation=activation)
    assert called == ["silu_mul_quantize" if in_two else "scaled_grouped_mm_quantize"]


@pytest.mark.parametrize("recipe,batch_invariant,kind_of_ids,names", [
    (None, False, torch.int64, "route gather gate_up down combine"), ("row", False, torch.int64, "route gather gate_up quantize down combine"),
    ("1x128", False, torch.int64, "route gather gate_up quantize down combine"), ("1x128", True, torch.int32, "route gather gate_up down combine"),
    (None, False, torch.int32, "gate_up down combine"), ("row", False, torch.int32, "quantize_x gate_up quantize down combine"),
    ("1x128", False, torch.int32, "quantize_x gate_up quantize down combine")])
def test_the_steps_of_a_layer(recipe, batch_invariant, kind_of_ids, names):
    class Noted(st.Steps):
        def __init__(self):
            self.noted = []

        def _add(self, add, name, *pairs):
            self.noted.append(name)

    steps, experts, width, inner = Noted(), 4, 256, 128
    kind = torch.bfloat16 if recipe is None else torch.float8_e4m3fn
    w13, w2 = torch.empty(experts, 2 * inner, width, dtype=kind), torch.empty(experts, width, inner, dtype=kind)
    shapes = {None: (), "row": ((2 * inner,), (width,)), "1x128": ((2, 2), (2, 1))}[recipe]
    more = {name: torch.empty(experts, *shape) for name, shape in zip(("scale_w13", "scale_w2"), shapes)}
    x, ids = torch.empty(3, width, dtype=torch.bfloat16), torch.zeros(3, 2, dtype=kind_of_ids)
    for error, words, wrong in ((errors.InvalidType, "topk_weights is torch.bfloat16", (x, ids, torch.ones(3, 2).bfloat16(), w13, w2, more)),
                                (errors.InvalidArgument, "given together", (x, ids, None, w13, w2, {"scale_w2": torch.ones(4, 2, 1)})),
                                (errors.InvalidArgument, "given together", (x, ids, None, w13, w2, {"scale_w13": torch.ones(4, 2, 2)}))):
        with pytest.raises(error, match=words):
            steps.experts(*wrong[:-1], **wrong[-1])
    assert steps.noted == [], "a call that is refused adds no step"
    out = steps.experts(x, ids, torch.ones(3, 2), w13, w2, batch_invariant=batch_invariant, **more)
    assert out.shape == (3, width) and steps.noted == [f"experts.{each}" for each in names.split()]


@pytest.mark.parametrize("activation", ["silu", "clamped_swiglu"])
def test_a_layer_of_packed_experts(layer_on_host, monkeypatch, activation):
    from sluice.torch import moe

    def on_host(x, packed, offs, bias=None, *, activation=None, gated=False):
        packed.check_gated(gated)
        weights = torch.stack([torch.as_tensor(st_weights.dequantize(packed.expert(i).quantized())) for i in range(len(packed))]).to(x.dtype)
        return grouped_on_host(x, weights.transpose(1, 2), offs, bias=bias, activation=activation, gated=gated)

    import sluice.weights as st_weights
    monkeypatch.setattr(moe, "packed_grouped_mm", on_host)
    torch.manual_seed(7)
    x, (w13, w2) = torch.randn(TOKENS, 128).bfloat16(), weights_of(64, 128)
    _, ids, weights, _ = inputs()
    biases = biases_of(64, 128)
    packed = [st.stack_packed([st.pack_int4(each, 32, gated=gated) for each in w]) for w, gated in ((w13, True), (w2, False))]
    rounded = [torch.stack([torch.as_tensor(st_weights.dequantize(p.expert(i).quantized())) for i in range(EXPERTS)]) for p in packed]
    made = st.moe.experts(x, ids, weights, *packed, bias_13=biases[0], bias_2=biases[1], activation=activation)
    wanted = dense_layer(x, ids, weights, *rounded, None, biases, activation)
    assert (made.float() - wanted).norm() < 0.02 * wanted.norm()
    with pytest.raises(errors.InvalidArgument, match="w13 or w2 is packed: both are"):
        st.moe.experts(x, ids, weights, packed[0], w2)
    with pytest.raises(errors.InvalidArgument, match="batch_invariant"):
        st.moe.experts(x, ids, weights, *packed, batch_invariant=True)
    with pytest.raises(errors.InvalidArgument, match="leave scale_w13"):
        st.moe.experts(x, ids, weights, *packed, scale_w13=torch.ones(EXPERTS, 128))


def test_the_backward_of_a_layer_is_that_of_the_dense_sum(layer_on_host):
    x, ids, weights, _ = inputs()
    leaves = [t.clone().requires_grad_() for t in (x, weights, *weights_of())]
    made = st.moe.experts(leaves[0], ids, leaves[1], leaves[2], leaves[3])
    grad = torch.randn(TOKENS, WIDTH)
    made.float().backward(grad)
    wide = [t.detach().float().requires_grad_() for t in leaves]
    dense_layer(wide[0], ids, wide[1], wide[2], wide[3]).backward(grad)
    for ours, exact in zip(leaves, wide):
        assert not ours.grad.isnan().any()
        assert (ours.grad.float() - exact.grad).norm() <= 0.03 * exact.grad.norm()
