# SPDX-License-Identifier: Apache-2.0
"""Products of groups in sluice.torch without a GPU: what they pass to the library, errors, fake tensors, DeepGEMM's layouts.

``on_host`` computes what a call of the library describes, row by row, so that a wrong table, pitch or view gives wrong numbers.
To see it fail: let ``_masked`` pass pitch 1, or ``ends_of_indices`` leave out cummax.
"""
import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from sluice import _binding as binding  # noqa: E402
from sluice.torch import deep_gemm  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

E4M3 = torch.float8_e4m3fn
NAMES = {number: name for name, number in binding.FIELDS.items()}


def rows_of(table, groups, pitch, total):
    """Yields the rows of each group as docs/groups.md has them."""
    end = 0
    for g, number in enumerate(table.tolist()):
        begin = min(-(-end // pitch) * pitch if groups == 1 else g * pitch, total)
        end = max(begin, min(number, total)) if groups == 1 else begin + min(max(number, 0), pitch, total - begin)
        yield g, range(begin, end)


def blocks(scale, rows, columns):
    return scale.repeat_interleave(128, -1)[..., :columns] if rows is None else scale.repeat_interleave(
        128, -2)[..., :rows, :].repeat_interleave(128, -1)[..., :columns]


@pytest.fixture
def on_host(monkeypatch):
    seen = []

    def product(*pairs):
        x = {NAMES[field]: value for field, value in zip(pairs[::2], pairs[1::2])}
        seen.append(x)
        a, b, out, table = x["mat_a"], x["mat_b"], x["out"], x["offs"]
        if x["groups"] == 3:
            assert a.stride(0) == 1 and b.stride(1) == 1 and a.shape[1] == b.shape[0] and x["scale_a"] is None
            for g, rows in rows_of(table, 1, x["group_pitch"], a.shape[1]):
                made = a[:, rows].double() @ b[rows].double()
                out[g] = (made if x.get("c") is None else made + x["c"][g].double()).to(out.dtype)
            return
        assert a.dim() == 2 and b.dim() == 3 and out.dim() == 2 and out.shape[0] == a.shape[0], "rows of all groups"
        assert a.stride(-1) == 1 and out.stride(-1) == 1 and table.dtype is torch.int32 and table.shape == b.shape[:1]
        assert a.element_size() == 2 or b.stride(-2) == 1, "fp8 weights have k contiguous"
        wide_a, wide_b = a.double(), b.double()
        scale_a, scale_b = x["scale_a"], x["scale_b"]
        if scale_a is not None and scale_a.dim() == 3:
            assert scale_a.stride(1) == 1 and scale_a.shape[:2] == (b.shape[0], x["group_pitch"]) and x["groups"] == 2
            scale_a = scale_a.reshape(-1, scale_a.shape[2])
        if scale_a is not None and scale_a.dim() == 2 and scale_a.shape[1] > 1:
            wide_a = wide_a * blocks(scale_a.double(), None, a.shape[1])
            wide_b = wide_b * blocks(scale_b.double(), b.shape[2], b.shape[1]).transpose(-2, -1)
        elif scale_a is not None:
            wide_a, wide_b = wide_a * scale_a.double().view(-1, 1), wide_b * scale_b.double().view(b.shape[0], 1, -1)
        for g, rows in rows_of(table, x["groups"], x["group_pitch"], a.shape[0]):
            made = wide_a[rows] @ wide_b[g]
            if x.get("bias") is not None:
                made = made + x["bias"][g].double()
            if x.get("activation"):
                made = (lambda y: y, torch.relu, torch.nn.functional.gelu, torch.nn.functional.silu)[x["activation"]](made)
            out[rows] = made.to(out.dtype)

    monkeypatch.setattr(binding, "product", product)
    return seen


def bf16(*shape):
    return torch.randint(-3, 4, shape).bfloat16()


def poisoned(*shape, dtype=torch.bfloat16):
    return torch.full(shape, float("nan"), dtype=dtype)


def ends(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


def expected(a, b, bounds):
    return torch.cat([(a[first:last].double() @ b[g].double()) for g, (first, last) in enumerate(bounds)])


def test_rows_are_multiplied_by_the_matrix_of_their_group(on_host):
    a, b = bf16(20, 32), bf16(3, 32, 16)
    out = poisoned(20, 16)
    assert st.grouped_mm(a, b, offs=ends(5, 5, 18), out=out) is out
    assert torch.equal(out[:18].double(), expected(a, b, [(0, 5), (5, 5), (5, 18)]))
    assert out[18:].isnan().all(), "rows of no group are left alone"
    bias = bf16(3, 16)
    made = st.grouped_mm(a, b, offs=ends(5, 5, 18), bias=bias, out_dtype=torch.float32, activation="relu", zero_rest=True)
    assert torch.equal(made[5:18].double(), torch.relu(a[5:18].double() @ b[2].double() + bias[2].double()))
    assert made.dtype is torch.float32 and not made[18:].any()
    again = st.grouped_mm(a, b, offs=ends(5, 5, 18), zero_rest=True, out=out)
    assert not again[18:].any() and not again.isnan().any()


def test_columns_of_groups_are_rows_of_the_transposed_product(on_host):
    a, b = bf16(3, 16, 32), bf16(20, 32).t()
    made = st.grouped_mm(a, b, offs=ends(5, 5, 20))
    assert made.shape == (16, 20)
    for g, (first, last) in enumerate([(0, 5), (5, 5), (5, 20)]):
        assert torch.equal(made[:, first:last].double(), a[g].double() @ b[:, first:last].double())


def test_sums_over_groups_are_gradients_of_weights(on_host):
    x, y, table = bf16(20, 32), bf16(20, 16), ends(5, 5, 18)
    made = st.grouped_mm(x.t(), y, offs=table, out_dtype=torch.float32)
    assert made.shape == (3, 32, 16) and not made[1].any()
    for g, (first, last) in enumerate([(0, 5), (5, 5), (5, 18)]):
        assert torch.equal(made[g].double(), x[first:last].double().t() @ y[first:last].double())
    total = torch.randn(3, 32, 16)
    d = torch.empty_like(total)
    deep_gemm.k_grouped_bf16_gemm_tn_contiguous(x[:18], y[:18], d, [5, 0, 13], ends(5, 0, 13), c=total)
    assert torch.allclose(d, total + made)


@pytest.mark.parametrize("transposed", [False, True], ids=["k x n", "n x k"])
def test_the_backward_is_that_of_a_loop(on_host, transposed):
    x, w, bias = bf16(20, 32), bf16(3, 16, 32).transpose(1, 2) if transposed else bf16(3, 32, 16), bf16(3, 16)
    grad = bf16(20, 16)
    leaves = [t.detach().clone(memory_format=torch.preserve_format).requires_grad_() for t in (x, w, bias)]
    made = st.grouped_mm(leaves[0], leaves[1], offs=ends(5, 5, 18), bias=leaves[2], zero_rest=True)
    made.backward(grad)
    wide = [t.double().requires_grad_() for t in (x, w, bias)]
    rows = [wide[0][first:last] @ wide[1][g] + wide[2][g] for g, (first, last) in enumerate([(0, 5), (5, 5), (5, 18)])]
    torch.cat(rows).backward(grad[:18].double())
    for ours, exact in zip(leaves, wide):
        assert ours.grad.dtype is torch.bfloat16 and torch.equal(ours.grad, exact.grad.bfloat16())
    assert leaves[1].grad.stride() == leaves[1].stride()
    with pytest.raises(sluice.InvalidArgument, match="differentiable"):
        st.grouped_mm(leaves[0], leaves[1], offs=ends(5, 5, 18), activation="relu")


@pytest.mark.parametrize("kind", ["tensor", "vector", "block"])
def test_scaled_rows(on_host, kind):
    a, b = bf16(20, 256).to(E4M3), bf16(3, 384, 256).to(E4M3)
    shapes = {"tensor": ((), ()), "vector": ((20, 1), (3, 384)), "block": ((20, 2), (3, 3, 2))}[kind]
    scale_a, scale_b = (torch.rand(shape) + 0.5 for shape in shapes)
    if kind == "tensor":
        with pytest.raises(RuntimeError):  # the stand-in has no scale for all; the library has
            st.scaled_grouped_mm(a, b.transpose(1, 2), scale_a, scale_b, ends(5, 5, 18))
        assert on_host[-1]["scale_b"] is scale_b
        return
    made = st.scaled_grouped_mm(a, b.transpose(1, 2), scale_a, scale_b, ends(5, 5, 20), out_dtype=torch.float32)
    x = a.double() * (scale_a.double() if kind == "vector" else blocks(scale_a.double(), None, 256))
    w = b.double() * (scale_b.double()[..., None] if kind == "vector" else blocks(scale_b.double(), 384, 256))
    wanted = expected(x, w.transpose(1, 2), [(0, 5), (5, 5), (5, 20)])
    assert torch.allclose(made.double(), wanted, rtol=1e-6)
    assert st.scaled_grouped_mm(a, b.transpose(1, 2), scale_a, scale_b, ends(1, 2, 3)).dtype is torch.bfloat16
    if kind == "block":
        turned = by_columns(scale_a)
        assert torch.equal(st.scaled_grouped_mm(a, b.transpose(1, 2), turned, scale_b, ends(5, 5, 20), out_dtype=torch.float32), made)
        assert on_host[-1]["scale_a"] is turned, "not a copy"


def by_columns(scales, ld=None):
    """Returns scales of A as DeepGEMM's quantisers store them: by columns, whose distance is a multiple of 4."""
    *groups, rows, columns = scales.shape
    ld = -(-rows // 4) * 4 if ld is None else ld
    stored = torch.full((*groups, columns, ld), float("nan"))
    stored[..., :rows] = scales.transpose(-2, -1)
    return stored[..., :rows].transpose(-2, -1)


def of_indices(counts, pitch):
    """Returns m_indices of groups that are padded to the pitch, and the (begin, end) of each."""
    indices, bounds = [], []
    for g, count in enumerate(counts):
        bounds.append((len(indices), len(indices) + count))
        indices += [g] * count + [-1] * (-count % pitch)
    return torch.tensor(indices, dtype=torch.int32), bounds


@pytest.mark.parametrize("counts", [[5, 0, 200, 128], [0, 0, 0, 3], [128, 128, 128, 128], [0, 1, 0, 0]])
def test_deep_gemms_contiguous_layout(on_host, counts):
    indices, bounds = of_indices(counts, 128)
    rows = len(indices)
    a16, b16 = bf16(rows, 128), bf16(4, 256, 128)
    for psum in (False, True):
        d = poisoned(rows, 256)
        layout = ends(*(end for _, end in bounds)) if psum else indices
        deep_gemm.m_grouped_bf16_gemm_nt_contiguous(a16, b16, d, layout, use_psum_layout=psum)
        for g, (first, last) in enumerate(bounds):
            assert torch.equal(d[first:last].double(), a16[first:last].double() @ b16[g].double().t())
        assert torch.equal(d.isnan().all(1), indices < 0), "rows that pad are not written"


@pytest.mark.parametrize("stored", [lambda scales: scales, by_columns, lambda scales: by_columns(scales, 70)],
                         ids=["rows", "columns", "wide columns"])
@pytest.mark.parametrize("counts", [[3, 0, 64], [64, 64, 64], [0, 0, 0]])
def test_deep_gemms_masked_layout(on_host, counts, stored):
    a, b = bf16(3, 64, 256).to(E4M3), bf16(3, 384, 256).to(E4M3)
    scale_a, scale_b = torch.rand(3, 64, 2) + 0.5, torch.rand(3, 3, 2) + 0.5
    d = poisoned(3, 64, 384)
    deep_gemm.m_grouped_fp8_gemm_nt_masked((a, stored(scale_a)), (b, scale_b), d, ends(*counts), expected_m=8)
    assert on_host[-1]["scale_a"].dim() == (2 if stored(scale_a).is_contiguous() else 3)
    for g, count in enumerate(counts):
        x = a[g].double() * blocks(scale_a[g].double(), None, 256)
        w = b[g].double() * blocks(scale_b[g].double(), 384, 256)
        assert torch.allclose(d[g, :count].double(), x[:count] @ w.t(), rtol=1e-2, atol=1e-2)
        assert d[g, count:].isnan().all()
    with pytest.raises(sluice.InvalidStride, match="contiguous"):
        deep_gemm.m_grouped_bf16_gemm_nt_masked(bf16(3, 64, 64)[:, :32], bf16(3, 8, 64), poisoned(3, 32, 8), ends(1, 1, 1))
    with pytest.raises(sluice.InvalidSize, match="a has shape"):
        deep_gemm.m_grouped_bf16_gemm_nt_masked(bf16(64, 64), bf16(3, 8, 64), poisoned(3, 32, 8), ends(1, 1, 1))


ROWS, WEIGHTS, TABLE = bf16(64, 128), bf16(4, 128, 256), ends(1, 2, 3, 4)
BAD = [
    ("no table", lambda: st.grouped_mm(ROWS, WEIGHTS), sluice.InvalidArgument, "offs is missing"),
    ("a table of batches", lambda: st.grouped_mm(WEIGHTS, WEIGHTS.transpose(1, 2), offs=TABLE), sluice.InvalidArgument, "leave it out"),
    ("sums of k-major operands", lambda: st.grouped_mm(ROWS, bf16(128, 64), offs=TABLE), sluice.InvalidType, "A is k-major"),
    ("a bias of sums", lambda: st.grouped_mm(ROWS.t(), ROWS, offs=TABLE, bias=bf16(4, 128)), sluice.InvalidArgument, "sums over groups"),
    ("dimensions", lambda: st.grouped_mm(ROWS[0], WEIGHTS, offs=TABLE), sluice.InvalidSize, "mat_a has 1 dimensions"),
    ("a long table", lambda: st.grouped_mm(ROWS, WEIGHTS, offs=TABLE.long()), sluice.InvalidType, "offs is int64 and must be int32"),
    ("a short table", lambda: st.grouped_mm(ROWS, WEIGHTS, offs=TABLE[:3]), sluice.InvalidSize, "a number for each matrix of mat_b"),
    ("gaps in the table", lambda: st.grouped_mm(ROWS, WEIGHTS, offs=torch.zeros(8, dtype=torch.int32)[::2]), sluice.InvalidStride,
     "offs.contiguous()"),
    ("k", lambda: st.grouped_mm(ROWS, WEIGHTS[:, :64], offs=TABLE), sluice.InvalidSize, "mat_b has shape"),
    ("a bias for all", lambda: st.grouped_mm(ROWS, WEIGHTS, offs=TABLE, bias=bf16(256)), sluice.InvalidSize, "(4, 256)"),
    ("host memory", lambda: st.grouped_mm(ROWS, WEIGHTS, offs=TABLE), sluice.WrongDevice, "mat_a is in host memory"),
    ("a gradient of sums", lambda: st.grouped_mm(bf16(64, 128).requires_grad_().t(), ROWS, offs=TABLE), sluice.InvalidArgument,
     "differentiable"),
    ("a bias of columns", lambda: st.grouped_mm(WEIGHTS, bf16(64, 256).t(), offs=TABLE, bias=bf16(4, 128)), sluice.InvalidArgument,
     "groups of columns"),
    ("scales of rows", lambda: st.scaled_grouped_mm(ROWS.to(E4M3), bf16(4, 256, 128).to(E4M3).transpose(1, 2), torch.ones(63), torch.ones(4, 256), TABLE),
     sluice.InvalidSize, "(64, 1) one for each row"),
    ("scales of columns", lambda: st.scaled_grouped_mm(ROWS.to(E4M3), bf16(4, 256, 128).to(E4M3).transpose(1, 2), torch.ones(64), torch.ones(256), TABLE),
     sluice.InvalidSize, "(4, 256) one for each column"),
    ("fp8 layout", lambda: st.scaled_grouped_mm(ROWS.to(E4M3), WEIGHTS.to(E4M3), torch.ones(64), torch.ones(4, 256), TABLE), sluice.InvalidStride,
     "mat_b"),
    ("a turned A", lambda: st.grouped_mm(bf16(128, 64).t(), WEIGHTS, offs=TABLE), sluice.InvalidType, "mn-major"),
]


@pytest.mark.parametrize("call,error,words", [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_calls_name_the_value_and_the_remedy(call, error, words):
    with pytest.raises(error) as raised:
        call()
    assert words in str(raised.value), raised.value


def test_fakes_have_the_shape_and_the_errors():
    with FakeTensorMode():
        a, b, table = (torch.empty(*x.shape, dtype=x.dtype, device="cuda") for x in (ROWS, WEIGHTS, TABLE))
        made = st.grouped_mm(a, b.transpose(1, 2).contiguous().transpose(1, 2), offs=table, gated=True, activation="silu")
        assert made.shape == (64, 128) and made.dtype is torch.bfloat16 and made.device.type == "cuda"
        with pytest.raises(sluice.InvalidSize, match="a number for each matrix"):
            st.grouped_mm(a, b, offs=table[:2])
        q = torch.empty(64, 128, dtype=E4M3, device="cuda")
        w = torch.empty(4, 256, 128, dtype=E4M3, device="cuda").transpose(1, 2)
        scales = torch.empty(64, 1, device="cuda"), torch.empty(4, 2, 1, device="cuda")
        assert st.scaled_grouped_mm(q, w, *scales, table).dtype is torch.bfloat16
        codes, blocks_of_d = st.scaled_grouped_mm_quantize(q, w, *scales, table, activation="silu", gated=True)
        assert codes.shape == (64, 128) and codes.dtype is E4M3 and blocks_of_d.shape == (64, 1)
        assert st.scaled_grouped_mm(q, w, *scales, table, row_factors=torch.empty(64, device="cuda")).shape == (64, 256)
        with pytest.raises(sluice.InvalidSize, match="row_factors has shape"):
            st.scaled_grouped_mm(q, w, *scales, table, row_factors=torch.empty(63, device="cuda"))
        with pytest.raises(sluice.InvalidSize, match="scale_b has shape"):
            st.scaled_grouped_mm(q, w, scales[0], scales[1][:2], table)


def test_a_problem_of_groups_is_described_and_flagged():
    made = sluice.Problem(64, 256, 128, batch=4, groups="ends", group_pitch=128)
    assert made.flags().split()[2:8] == ["--batch", "4", "--groups", "ends", "--group-pitch", "128"]
    again = sluice.Problem.from_struct(made.struct())
    assert (again.groups, again.group_pitch, again.batch) == ("ends", 128, 4)
    assert "in 4 groups by ends pitch 128" in sluice.plan(made, gpu="h200").text
    with pytest.raises(sluice.InvalidArgument, match="group"):
        sluice.Problem(64, 256, 128, groups="rows").check()
    with pytest.raises(sluice.InvalidArgument, match="groups.pitch = 7"):
        sluice.Problem(64, 256, 128, group_pitch=7, packed=sluice.WeightFormat()).check()


def test_the_backward_is_traced(on_host):
    x, w, bias, table = bf16(20, 32), bf16(3, 32, 16), bf16(3, 16), ends(5, 5, 18)
    grads = []
    for call in (st.grouped_mm, torch.compile(st.grouped_mm, backend="aot_eager", fullgraph=True)):
        leaves = [t.clone().requires_grad_() for t in (x, w, bias)]
        call(leaves[0], leaves[1], offs=table, bias=leaves[2], zero_rest=True).float().square().sum().backward()
        grads.append([leaf.grad for leaf in leaves])
    assert all(torch.equal(eager, traced) for eager, traced in zip(*grads))
