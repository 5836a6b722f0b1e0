# SPDX-License-Identifier: Apache-2.0
"""sluice.torch without a GPU: errors, fake tensors, tracing, quantisers by their definition, converted models."""
import inspect

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from sluice import _binding as binding  # noqa: E402
from sluice.torch.autograd import add_product_  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

E4M3 = torch.float8_e4m3fn


def bf16(*shape):
    return torch.zeros(*shape, dtype=torch.bfloat16)


BAD = [
    ("host memory", lambda: st.mm(bf16(64, 256), bf16(256, 512)), sluice.WrongDevice, "a is in host memory"),
    ("shape", lambda: st.mm(bf16(64, 256), bf16(512, 256)), sluice.InvalidSize, "b has shape (512, 256)"),
    ("linear's weight", lambda: st.linear(bf16(2, 8, 256), bf16(256, 512)), sluice.InvalidSize, "columns of input"),
    ("linear's gaps", lambda: st.linear(bf16(4, 8, 256)[:, ::3], bf16(512, 256)), sluice.InvalidStride,
     "input.contiguous()"),
    ("fp8 layout", lambda: st.scaled_mm(bf16(64, 256).to(E4M3), bf16(256, 512).to(E4M3), torch.ones(()), torch.ones(())),
     sluice.InvalidStride, "mat_b.t().contiguous().t()"),
    ("scale's type", lambda: st.scaled_mm(bf16(64, 256).to(E4M3), bf16(512, 256).to(E4M3).t(), bf16(1), torch.ones(1)),
     sluice.InvalidType, "scale_a is bf16"),
    ("scale_result", lambda: st.scaled_mm(bf16(1, 1), bf16(1, 1), torch.ones(1), torch.ones(1), scale_result=torch.ones(1)),
     sluice.InvalidArgument, "scale_result"),
    ("out against out_dtype", lambda: st.mm(bf16(8, 8), bf16(8, 8), out=bf16(8, 8), out_dtype=torch.float32),
     sluice.InvalidArgument, "out_dtype"),
    ("out's gradient", lambda: st.mm(bf16(8, 8), bf16(8, 8), out=bf16(8, 8).requires_grad_()), sluice.InvalidArgument,
     "out.detach()"),
    ("a quantiser's out of another gradient", lambda: st.quantize(bf16(8, 16), "row", scales=torch.ones(8, 1, requires_grad=True)),
     sluice.InvalidArgument, "out.detach()"),
    ("integers", lambda: st.mm(torch.zeros(8, 8, dtype=torch.int32), bf16(8, 8)), sluice.InvalidType, "a has an element"),
    ("activation", lambda: st.linear(bf16(8, 8), bf16(8, 8), activation="tanh"), sluice.InvalidArgument, "tanh"),
    ("no tensor", lambda: st.scaled_mm(bf16(8, 8), bf16(8, 8), 3.0, torch.ones(1)), sluice.InvalidType,
     "scale_a is a float and must be a tensor"),
    ("backward of more", lambda: st.linear(bf16(8, 8).requires_grad_(), bf16(8, 8), activation="relu"),
     sluice.InvalidArgument, "differentiable"),
    ("backward of another type", lambda: st.mm(bf16(8, 8).requires_grad_(), bf16(8, 8), out_dtype=torch.float32),
     sluice.InvalidArgument, "out_dtype"),
    ("fp8 backward", lambda: st.scaled_mm(bf16(8, 16).to(E4M3), bf16(16, 16).to(E4M3).t(), torch.ones(()), torch.ones(()),
                                          bf16(16).requires_grad_()), sluice.InvalidArgument, "scaled_mm has no backward"),
    ("fp8 backward of a residual", lambda: st.scaled_mm(bf16(8, 16).to(E4M3), bf16(16, 16).to(E4M3).t(), torch.ones(()),
                                                        torch.ones(()), c=bf16(8, 16).requires_grad_()),
     sluice.InvalidArgument, "scaled_mm has no backward"),
    ("backward of a residual", lambda: st.linear(bf16(8, 16), bf16(16, 16), c=bf16(8, 16).requires_grad_()),
     sluice.InvalidArgument, "without c"),
    ("a residual's shape", lambda: st.linear(bf16(2, 8, 16), bf16(16, 16), c=bf16(2, 8, 8)), sluice.InvalidSize, "c has shape"),
    ("an fp8 layer's residual", lambda: st.nn.Linear(16, 16, recipe="row")(bf16(8, 16), bf16(8, 16).requires_grad_()),
     sluice.InvalidArgument, "no backward"),
    ("fp8 backward of a scale", lambda: st.scaled_mm(bf16(8, 16).to(E4M3), bf16(16, 16).to(E4M3).t(), torch.ones(()),
                                                     torch.ones((), requires_grad=True)), sluice.InvalidArgument, "no_grad"),
    ("quantiser's backward", lambda: st.quantize(bf16(8, 16).requires_grad_(), "row"), sluice.InvalidArgument,
     "quantize has no backward"),
    ("an odd number of gated columns", lambda: st.silu_mul_quantize(bf16(8, 15), "row"), sluice.InvalidSize, "15 columns"),
    ("gated quantiser's backward", lambda: st.silu_mul_quantize(bf16(8, 16).requires_grad_(), "row"), sluice.InvalidArgument,
     "silu_mul_quantize has no backward"),
    ("quantised input of a 16-bit layer", lambda: st.nn.Linear(8, 8).of_quantized(bf16(8, 8).to(E4M3), torch.ones(1), torch.float32),
     sluice.InvalidArgument, "recipe=None"),
    ("a 16-bit layer's granularity", lambda: st.nn.Linear(8, 8).granularity, sluice.InvalidArgument, "recipe=None"),
    ("static quantiser's backward", lambda: st.quantize_static(bf16(8, 16).requires_grad_(), torch.ones(1)),
     sluice.InvalidArgument, "quantize_static has no backward"),
    ("deep_gemm's backward", lambda: st.deep_gemm.fp8_gemm_nt((bf16(8, 16), torch.ones(8, 1)), (bf16(8, 16), torch.ones(1, 1)),
                                                              bf16(8, 8), bf16(8, 8).requires_grad_()),
     sluice.InvalidArgument, "fp8_gemm_nt has no backward"),
    ("a model that is a linear", lambda: st.nn.convert_(torch.nn.Linear(16, 16), recipe="row"), sluice.InvalidArgument,
     "Linear.from_linear(model, recipe)"),
    ("granularity", lambda: st.quantize(bf16(8, 8), "2x2"), sluice.InvalidArgument, "128x128"),
    ("quantised layout", lambda: st.quantize(bf16(8, 16).t(), "row"), sluice.InvalidStride, "input.contiguous()"),
    ("recipe", lambda: st.nn.Linear(8, 8, recipe="blocks"), sluice.InvalidArgument, "block"),
    ("deep_gemm's recipe", lambda: st.deep_gemm.fp8_gemm_nt((1, 1), (1, 1), bf16(1), recipe=(1, 1, 128)),
     sluice.InvalidArgument, "(1, 128, 128)"),
]


@pytest.mark.parametrize("call, kind, mention", [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_calls_raise_what_fits_and_name_the_argument(call, kind, mention):
    with pytest.raises(kind) as caught:
        call()
    assert mention in str(caught.value)


def test_fakes_have_the_shapes_and_types_of_the_real_ones():
    with FakeTensorMode():
        x = torch.zeros(4, 16, 256, dtype=torch.bfloat16, device="cuda")
        w = torch.zeros(512, 256, dtype=torch.bfloat16, device="cuda")
        one = torch.ones((), device="cuda")
        assert st.linear(x, w).shape == (4, 16, 512)
        assert st.mm(x[0], w.t(), out_dtype=torch.float32).dtype == torch.float32
        product = st.scaled_mm(x[0].to(E4M3), w.to(E4M3).t(), one, one, out_dtype=torch.bfloat16)
        assert product.shape == (16, 512) and product.dtype == torch.bfloat16 and product.is_cuda
        assert st.scaled_mm(x[0].to(E4M3), w.to(E4M3).t(), one, one, c=product, out_dtype=torch.bfloat16).shape == (16, 512)
        assert st.linear(x, w, c=torch.zeros(4, 16, 512, dtype=torch.bfloat16, device="cuda")).shape == (4, 16, 512)
        out = torch.zeros(16, 512, dtype=torch.bfloat16, device="cuda")
        assert st.mm(x[0], w.t(), out=out) is out
        quantized, scales = st.quantize(x, "1x128")
        assert quantized.dtype == E4M3 and quantized.shape == x.shape and scales.shape == (4, 16, 2)
        quantized, scales = st.silu_mul_quantize(x, "row")
        assert quantized.dtype == E4M3 and quantized.shape == (4, 16, 128) and scales.shape == (4, 16, 1)


def test_a_model_is_traced_whole_with_dynamic_rows():
    seen = []

    def backend(graph, example):
        seen.append(graph)
        return graph.forward

    model = torch.nn.Sequential(torch.nn.Linear(256, 512, dtype=torch.bfloat16), torch.nn.ReLU(),
                                torch.nn.Linear(512, 128, dtype=torch.bfloat16))
    st.nn.convert_(model, recipe="row")
    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=True)
    for rows in (3, 5, 8):
        with pytest.raises(sluice.WrongDevice), torch.no_grad():
            compiled(bf16(rows, 256))
    assert len(seen) == 1, "rows must not recompile"
    targets = [str(node.target) for node in seen[0].graph.nodes]
    assert sum("sluice.scaled_mm" in target for target in targets) == 2
    assert sum("sluice.quantize" in target for target in targets) == 2


def test_a_backward_is_traced():
    from torch._functorch.aot_autograd import aot_module_simplified
    graphs = []

    def compiler(graph, example):
        graphs.append(graph)
        return graph.forward

    def backend(graph, example):
        return aot_module_simplified(graph, example, fw_compiler=compiler, bw_compiler=compiler)

    weight = torch.zeros(512, 256, dtype=torch.bfloat16, requires_grad=True)
    with pytest.raises(sluice.WrongDevice):
        torch.compile(lambda x: st.linear(x, weight).sum(), backend=backend, fullgraph=True)(bf16(8, 256))
    assert any("sluice.linear" in str(node.target) for node in graphs[0].graph.nodes)


class OnHost:
    """Replaces the binding's product by one on the host, and records the calls."""

    def __init__(self):
        self.called = []
        self.workspaces = []

    def product(self, *pairs):
        names = {number: name for name, number in binding.FIELDS.items()}
        given = {names[field]: value for field, value in zip(pairs[::2], pairs[1::2])}
        self.workspaces.append(given.get("workspace", 0))
        if "weight" in given:
            self.called.append("linear")
            bias = given.get("bias")
            given["out"].copy_(given["input"].float() @ given["weight"].float().t() + (0 if bias is None else bias))
        elif "add" in given:
            self.called.append("add_mm in any order" if given["any_order"] else "add_mm")
            given["total"] += given["a"].float() @ given["b"].float()
        else:
            self.called.append("mm")
            given["out"].copy_(given["a"] @ given["b"])


@pytest.fixture
def on_host(monkeypatch):
    fake = OnHost()
    monkeypatch.setattr(binding, "product", fake.product)
    torch._dynamo.reset()
    return fake


class GivenWorkspace:
    address = 4711


def test_a_workspace_is_used_by_all_products_of_forward_and_backward(on_host):
    x = torch.ones(4, 16, dtype=torch.bfloat16, requires_grad=True)
    weight = torch.ones(32, 16, dtype=torch.bfloat16, requires_grad=True)
    given = GivenWorkspace()
    for call in (lambda workspace: st.linear(x, weight, workspace=workspace), lambda workspace: st.mm(x, weight.t(), workspace=workspace)):
        call(given).sum().backward()
        assert on_host.workspaces == [4711] * 3, on_host.called
        call(None).sum().backward()
        assert on_host.workspaces[3:] == [0] * 3
        on_host.workspaces.clear()
    main = weight_with_main_grad()
    layer = st.nn.Linear(16, 32)
    layer.weight, layer.workspace = main, given
    layer(x).sum().backward()
    assert on_host.workspaces == [4711] * 3 and on_host.called[-1] == "add_mm"


def weight_with_main_grad(dtype=torch.float32, shape=(32, 16)):
    weight = torch.nn.Parameter(torch.ones(32, 16, dtype=torch.bfloat16))
    weight.main_grad = torch.full(shape, 0.25, dtype=dtype)
    return weight


def test_the_weights_gradient_is_one_product_added_to_main_grad(on_host):
    weight = weight_with_main_grad()
    for _ in range(2):
        st.linear(torch.ones(2, 4, 16, dtype=torch.bfloat16), weight).sum().backward()
    assert on_host.called == ["linear", "add_mm"] * 2
    assert (weight.main_grad == 16.25).all() and weight.grad is None and weight.grad_added_to_main_grad


def test_the_order_of_its_parts_can_be_waived(on_host):
    layer = st.nn.convert_(torch.nn.Sequential(torch.nn.Linear(16, 32, dtype=torch.bfloat16)), recipe=None,
                           deterministic=False)[0]
    layer.weight.main_grad = torch.zeros(32, 16)
    x = torch.ones(4, 16, dtype=torch.bfloat16)
    layer(x).sum().backward()
    layer.deterministic = True
    layer(x).sum().backward()
    st.linear(x, layer.weight, deterministic=False).sum().backward()
    torch.use_deterministic_algorithms(True)
    try:
        st.linear(x, layer.weight, deterministic=False).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert on_host.called[1::2] == ["add_mm in any order", "add_mm", "add_mm in any order", "add_mm"]


@pytest.mark.parametrize("bias", [torch.ones(32, dtype=torch.bfloat16), torch.ones(1, 32, dtype=torch.bfloat16), torch.ones(32)])
def test_the_gradient_of_a_bias_has_its_shape_and_type(on_host, bias):
    bias.requires_grad_()
    st.linear(torch.ones(2, 300, 16, dtype=torch.bfloat16), torch.ones(32, 16, dtype=torch.bfloat16), bias,
              activation="none").sum().backward()
    assert bias.grad.shape == bias.shape and bias.grad.dtype is bias.dtype and (bias.grad == 600).all()


def test_a_backward_that_saved_what_was_written_into_raises(on_host):
    saved = torch.ones(4, 16, dtype=torch.bfloat16)
    x = torch.ones(4, 16, dtype=torch.bfloat16, requires_grad=True)
    for write in (lambda: st.mm(saved, torch.eye(16, dtype=torch.bfloat16), out=saved),
                  lambda: st.linear(saved, torch.eye(16, dtype=torch.bfloat16), out=saved)):
        total = (x * saved).sum()
        write()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            total.backward()
    with torch.inference_mode():
        kept = torch.ones(4, 16, dtype=torch.bfloat16)
        assert st.mm(saved, torch.eye(16, dtype=torch.bfloat16), out=kept) is kept


def test_what_is_written_into_fakes_counts_too(on_host):
    with FakeTensorMode():
        x, w = torch.zeros(4, 16, dtype=torch.bfloat16), torch.zeros(16, 16, dtype=torch.bfloat16)
        for write in (lambda out: st.mm(x, w, out=out), lambda out: st.linear(x, w, out=out)):
            out = torch.zeros(4, 16, dtype=torch.bfloat16)
            before = out._version
            write(out)
            assert out._version == before + 1


def test_a_gradient_of_fakes_is_a_fake(on_host):
    with FakeTensorMode():
        x = torch.zeros(4, 16, dtype=torch.bfloat16, requires_grad=True)
        w = torch.zeros(32, 16, dtype=torch.bfloat16, requires_grad=True)
        st.linear(x, w).sum().backward()
        assert x.grad.shape == x.shape and w.grad.shape == w.shape
    assert on_host.called == []


def test_a_second_derivative_raises(on_host):
    x = torch.ones(4, 16, dtype=torch.bfloat16, requires_grad=True)
    weight = torch.ones(32, 16, dtype=torch.bfloat16, requires_grad=True)
    for loss in (lambda y: y.sum(), lambda y: (y ** 2).sum()):
        with pytest.raises(sluice.InvalidArgument, match="create_graph=True wants a second derivative"):
            torch.autograd.grad(loss(st.linear(x, weight)), x, create_graph=True)


@pytest.mark.parametrize("given, kind, mention", [
    (dict(dtype=torch.bfloat16), sluice.InvalidType, "weight.main_grad is torch.bfloat16"),
    (dict(shape=(16, 32)), sluice.InvalidSize, "(16, 32) and must have the weight's, (32, 16)"),
])
def test_a_main_grad_that_cannot_be_added_to_is_refused(given, kind, mention):
    with pytest.raises(kind) as caught:
        st.linear(bf16(4, 16), weight_with_main_grad(**given))
    assert mention in str(caught.value)


@pytest.mark.parametrize("deterministic, called", [(True, "add_mm"), (False, "add_mm in any order")])
def test_a_compiled_model_adds_to_main_grad(on_host, deterministic, called):
    weight = weight_with_main_grad()
    compiled = torch.compile(lambda x: st.linear(x, weight, deterministic=deterministic), backend="aot_eager")
    for _ in range(2):
        compiled(torch.ones(8, 16, dtype=torch.bfloat16)).sum().backward()
    assert on_host.called == ["linear", called] * 2
    assert (weight.main_grad == 16.25).all() and weight.grad is None and weight.grad_added_to_main_grad


@pytest.mark.parametrize("deterministic, called", [(True, "add_mm"), (False, "add_mm in any order")])
def test_an_addition_is_traced(monkeypatch, deterministic, called):
    fake, total = OnHost(), torch.full((32, 16), 0.25)
    monkeypatch.setattr(binding, "product", fake.product)
    add = torch.compile(lambda a, b: add_product_(total, a.t(), b, deterministic), backend="aot_eager", fullgraph=True)
    add(torch.ones(8, 32, dtype=torch.bfloat16), torch.ones(8, 16, dtype=torch.bfloat16))
    assert fake.called == [called] and (total == 8.25).all()


@pytest.mark.parametrize("granularity, shape", [("tensor", ()), ("row", (200, 1)), ("1x128", (200, 3)), ("128x128", (2, 3))])
def test_the_reference_quantiser_gives_back_the_input(granularity, shape):
    x = torch.randn(200, 300)
    quantized, scales = st.quantize_reference(x, granularity)
    assert scales.shape == shape and quantized.shape == x.shape
    full = scales
    if granularity in ("1x128", "128x128"):
        full = scales.repeat_interleave(128, 1)[:, :300]
        full = full.repeat_interleave(128, 0)[:200] if granularity == "128x128" else full
    assert ((quantized.float() * full - x).abs() <= x.abs() / 16 + full * 2**-9).all()


def test_the_reference_quantiser_keeps_to_the_ends_of_the_range():
    x = torch.tensor([[0.0, 1e-6, -2e-5], [float("nan"), 1.0, 2.0], [float("inf"), 1.0, -1.0]])
    quantized, scales = st.quantize_reference(x, "row")
    assert scales[0] == torch.tensor(1e-4) * (1 / 448)
    assert quantized[0].float().tolist()[0] == 0.0
    assert quantized[1].float().isnan().all() and scales[1].isnan()
    assert quantized[2].float()[1:].abs().tolist() == [0.0, 0.0]


def test_conversion_takes_what_it_can_and_keeps_names():
    model = torch.nn.ModuleDict({"a": torch.nn.Linear(256, 512, dtype=torch.bfloat16),
                                 "odd": torch.nn.Linear(100, 256, dtype=torch.bfloat16),
                                 "head": torch.nn.Linear(256, 512, bias=False, dtype=torch.bfloat16)})
    weight = model["a"].weight.detach().clone()
    st.nn.convert_(model, lambda module, name: name != "head", recipe="block")
    assert isinstance(model["a"], st.nn.Linear) and type(model["odd"]) is torch.nn.Linear
    assert type(model["head"]) is torch.nn.Linear
    assert set(model["a"].state_dict()) == {"weight", "weight_e4m3", "weight_scale", "bias"}
    scale = model["a"].weight_scale.repeat_interleave(128, 0).repeat_interleave(128, 1)
    assert torch.allclose(model["a"].weight_e4m3.float() * scale, weight.float(), rtol=1 / 16, atol=1e-4)


def test_sixteen_bit_conversion_shares_parameters():
    plain = torch.nn.Linear(256, 512, dtype=torch.bfloat16)
    made = st.nn.Linear.from_linear(plain, None)
    assert made.weight is plain.weight and made.bias is plain.bias


def test_conversion_goes_by_type_and_keeps_what_the_module_was():
    def model():
        return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Linear(32, 16, dtype=torch.float16),
                                   torch.nn.Linear(16, 16, dtype=torch.float64)).eval()

    fp8 = st.nn.convert_(model(), recipe="row")
    assert [type(layer) is st.nn.Linear for layer in fp8] == [True, True, False]
    sixteen = st.nn.convert_(model(), recipe=None)
    assert [type(layer) is st.nn.Linear for layer in sixteen] == [False, True, False]
    assert not any(layer.training for layer in (*fp8, *sixteen))


def three_linears():
    return torch.nn.ModuleDict({"good": torch.nn.Linear(128, 64, dtype=torch.bfloat16),
                                "odd": torch.nn.Linear(100, 64, dtype=torch.bfloat16),
                                "head": torch.nn.Linear(128, 30, dtype=torch.bfloat16)})


@pytest.mark.parametrize("recipe, left_out", [(None, {}), ("row", {"odd": "100"}), ("int4", {"odd": "in_features = 100 must be a multiple of 8"})])
def test_conversion_reports_what_it_left_out_and_why(recipe, left_out, caplog):
    reports = []
    st.nn.convert_(three_linears(), recipe=recipe, report=reports.append)
    assert set(reports[0].left_out) == set(left_out)
    assert set(reports[0].converted) == {"good", "odd", "head"} - set(left_out)
    for name, mention in left_out.items():
        assert mention in reports[0].left_out[name] and mention in str(reports[0])
    st.nn.convert_(three_linears(), lambda module, name: name != "head", recipe=recipe)
    if left_out:
        assert caplog.records[-1].levelname == "WARNING" and "1 kept by filter_fn" in caplog.text and "odd: " in caplog.text
    count = len(caplog.records)
    st.nn.convert_(three_linears(), lambda module, name: name == "good", recipe=recipe)
    assert [record.levelname for record in caplog.records[count:]] in ([], ["INFO"]), "a filter is no reason to warn"


def test_a_model_in_fp32_is_refused_where_16_bits_are_multiplied():
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 16))
    with pytest.raises(sluice.InvalidArgument, match="none of the model's 2 linears. 0: .*float32.*bfloat16.*autocast"):
        st.nn.convert_(model, recipe=None)
    assert type(model[0]) is torch.nn.Linear
    with pytest.raises(sluice.InvalidArgument, match="float32"):
        st.nn.Linear.from_linear(model[0], None)


@pytest.mark.parametrize("make, kind, mention", [
    (lambda: st.nn.Linear(100, 64, recipe="row"), sluice.Misaligned, "Linear: in_features = 100 must be a multiple of 16"),
    (lambda: st.nn.Linear(72, 64, recipe="row"), sluice.Misaligned, "72"),
    (lambda: st.nn.Linear(64, 64, dtype=torch.float32), sluice.InvalidType, "fp32"),
    (lambda: st.nn.Linear.from_linear(torch.nn.Linear(100, 64, dtype=torch.bfloat16), "row"), sluice.InvalidArgument, "100"),
])
def test_layers_refuse_when_they_are_made(make, kind, mention):
    with pytest.raises(kind) as caught:
        make()
    assert mention in str(caught.value)
    assert st.nn.Linear(64, 30, recipe="row").weight_e4m3.shape == (30, 64), "a D of any stride works"
    assert st.nn.Linear(101, 50257).weight.shape == (50257, 101), "16-bit operands of any stride work"


def test_autocast_is_refused_by_name():
    x, layer = torch.zeros(8, 16), st.nn.Linear(16, 16)
    with pytest.raises(sluice.InvalidType) as plain:
        st.linear(x, x)
    assert "autocast" not in str(plain.value)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(sluice.InvalidType, match="torch.autocast is on"):
        layer(x)
    torch.set_autocast_enabled("cuda", True)  # torch.autocast would leave it off without a GPU
    try:
        with pytest.raises(sluice.InvalidType, match="torch.autocast is on"):
            st.linear(x, x)
    finally:
        torch.set_autocast_enabled("cuda", False)


def test_sums_are_promoted_unless_fast_ones_are_asked_for():
    assert sluice.Problem(1, 1, 1).accumulate == "promoted"
    layers = [st.nn.Linear(16, 16, recipe="row"), st.nn.Linear.from_linear(torch.nn.Linear(16, 16), "row"),
              st.nn.convert_(torch.nn.Sequential(torch.nn.Linear(16, 16)), recipe="row")[0]]
    assert [layer.problem(16).accumulate for layer in layers] == ["promoted"] * 3
    assert st.nn.Linear(16, 16, recipe="row", use_fast_accum=True).problem(16).accumulate == "fast"
    a, b, out = bf16(16, 16).to(E4M3), bf16(16, 16).to(E4M3).t(), bf16(16, 16)
    assert sluice.problem_of(a, b, out).accumulate == "promoted"
    assert sluice.problem_of(a, b, out, use_fast_accum=True).accumulate == "fast"
    for name, function in (("scaled_mm", st.scaled_mm), ("mm", st.mm)):
        assert inspect.signature(function).parameters["use_fast_accum"].default is False, name


def test_a_linear_in_two_places_stays_one():
    shared = torch.nn.Linear(16, 16, dtype=torch.bfloat16)
    model = st.nn.convert_(torch.nn.Sequential(shared, torch.nn.Sequential(shared), shared), recipe="tensor")
    assert type(model[0]) is st.nn.Linear and model[0] is model[2] is model[1][0]


@pytest.mark.parametrize("change", [lambda m: m.half(), lambda m: m.to(torch.float16), lambda m: m.to("cpu", torch.float16)])
def test_fp8_weights_and_their_scales_keep_their_types(change):
    layer = st.nn.Linear.from_linear(torch.nn.Linear(128, 256, dtype=torch.bfloat16), recipe="block")
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    change(layer)
    assert layer.weight_e4m3.dtype is E4M3 and layer.weight_scale.dtype is torch.float32 and layer.bias.dtype is torch.float16
    assert torch.equal(layer.weight_e4m3.float(), before["weight_e4m3"].float())
    assert torch.equal(layer.weight_scale, before["weight_scale"])
    assert layer.to("meta").weight_e4m3.is_meta and layer.weight_e4m3.dtype is E4M3
    plain = st.nn.Linear(16, 16)
    assert change(plain).weight.dtype is torch.float16


@pytest.mark.parametrize("recipe, scales", [(None, "none"), ("tensor", "tensor"), ("row", "vector"), ("block", "block")])
def test_a_linear_says_which_problem_it_multiplies(recipe, scales):
    layer = st.nn.Linear(256, 512, recipe=recipe, dtype=torch.float16)
    problem = layer.problem(16)
    assert (problem.m, problem.n, problem.k, problem.scale_a, problem.scale_b) == (16, 512, 256, scales, scales)
    assert sluice.plan(problem).problem is problem
    assert "fp16" in str(sluice.plan(problem))  # the type of inputs and D
    assert layer.problem(16, torch.bfloat16).bias.endswith("float16")
    with pytest.raises(sluice.InvalidArgument, match="must be on a GPU"):
        layer.prepare(rows=(1, 16))
    with pytest.raises(sluice.InvalidArgument, match="must be on a GPU"):
        st.nn.prepare_rows(torch.nn.Sequential(torch.nn.ReLU(), layer), (1, 16))


def test_a_packed_linear_does_too():
    layer = st.nn.Linear4bit(256, 512)
    assert layer.problem(16) == sluice.Problem(16, 512, 256, packed=layer.format, **dict.fromkeys(("a", "d", "bias"), "torch.bfloat16"))
    tokens = st.nn.Linear4bit(256, 512, bias=False, activations="e4m3").problem(4, torch.float16)
    assert (tokens.a, tokens.d, tokens.scale_a, tokens.bias) == ("e4m3", "torch.float16", "vector", None)
    with pytest.raises(sluice.InvalidArgument, match="must be on a GPU"):
        layer.prepare(rows=(1, 16))
