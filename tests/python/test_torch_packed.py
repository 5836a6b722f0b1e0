# SPDX-License-Identifier: Apache-2.0
"""sluice.torch's packed weights without a GPU: fakes, tracing, modules and their states, and errors."""
import dataclasses

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tvm_ffi")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from sluice import _binding as binding  # noqa: E402
from sluice.formats import ORDERS, WEIGHT_TYPES  # noqa: E402
from sluice.problems import DTYPES  # noqa: E402
import sluice.weights as sw  # noqa: E402
import weight_layouts  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

BF16, FP16, E4M3 = torch.bfloat16, torch.float16, torch.float8_e4m3fn


def weights(n=192, k=256, group=64, dtype=BF16, **more):
    torch.manual_seed(n + k)
    return st.pack_int4(torch.randn(n, k).to(dtype), group, **more)


def permuted(packed):
    return dataclasses.replace(packed, permutation=torch.randperm(packed.k))


def bf16(*shape):
    return torch.zeros(*shape, dtype=BF16)


def e4m3(*shape):
    return torch.zeros(*shape, dtype=E4M3)


BAD = [
    ("host memory", lambda: st.packed_mm(bf16(4, 256), weights()), sluice.WrongDevice, "x is in host memory"),
    ("columns", lambda: st.packed_mm(bf16(4, 128), weights()), sluice.InvalidSize, "m x 256"),
    ("type of x", lambda: st.packed_mm(torch.zeros(4, 256), weights()), sluice.InvalidType, "x.half() or .bfloat16()"),
    ("x by columns", lambda: st.packed_mm(bf16(256, 4).t(), weights()), sluice.InvalidStride, "pass x.contiguous()"),
    ("gaps in x", lambda: st.packed_mm(bf16(4, 8, 256)[:, ::3], weights()), sluice.InvalidStride, "x.contiguous()"),
    ("an expanded x", lambda: st.packed_mm(bf16(1, 256).expand(4, 256), weights()), sluice.InvalidStride, "rows apart"),
    ("shape of out", lambda: st.packed_mm(bf16(4, 256), weights(), out=bf16(4, 100)), sluice.InvalidSize,
     "out has shape (4, 100) and must have (4, 192)"),
    ("type of out", lambda: st.packed_mm(bf16(4, 256), weights(), out=torch.zeros(4, 192, dtype=torch.float64)),
     sluice.InvalidType, "out has an element type"),
    ("out by columns", lambda: st.packed_mm(bf16(4, 256), weights(), out=bf16(192, 4).t()), sluice.InvalidStride,
     "its own memory"),
    ("out against out_dtype", lambda: st.packed_mm(bf16(4, 256), weights(), out=bf16(4, 192), out_dtype=FP16),
     sluice.InvalidArgument, "out_dtype"),
    ("shape of a bias", lambda: st.packed_mm(bf16(4, 256), weights(), bf16(7)), sluice.InvalidSize, "bias has shape (7,)"),
    ("type of a bias", lambda: st.packed_mm(bf16(4, 256), weights(), torch.zeros(192, dtype=torch.int32)), sluice.InvalidType,
     "bias is int32"),
    ("gaps in a bias", lambda: st.packed_mm(bf16(4, 256), weights(), bf16(384)[::2]), sluice.InvalidStride,
     "bias.contiguous()"),
    ("activation", lambda: st.packed_mm(bf16(4, 256), weights(), activation="tanh"), sluice.InvalidArgument, "tanh"),
    ("scales of 16-bit tokens", lambda: st.packed_mm(bf16(4, 256), weights(), scale_x=torch.ones(4, 1)), sluice.InvalidArgument,
     "scale_x is given and x is bf16"),
    ("shape of scales", lambda: st.packed_mm(e4m3(4, 256), weights(order="byte"), scale_x=torch.ones(3)), sluice.InvalidSize,
     "scale_x has shape (3,) and must have (4,) or (4, 1)"),
    ("type of scales", lambda: st.packed_mm(e4m3(4, 256), weights(order="byte"), scale_x=bf16(4)), sluice.InvalidType,
     "scale_x is bf16 and must be fp32"),
    ("gaps in scales", lambda: st.packed_mm(e4m3(4, 256), weights(order="byte"), scale_x=torch.ones(4, 2)[:, :1]),
     sluice.InvalidStride, "scale_x.contiguous()"),
    ("a gradient of scales", lambda: st.packed_mm(e4m3(4, 256), weights(order="byte"), scale_x=torch.ones(4).requires_grad_()),
     sluice.InvalidArgument, "packed_mm has no backward"),
    ("e4m3 output of 16-bit tokens", lambda: st.packed_mm(bf16(4, 256), weights(), out=e4m3(4, 192)), sluice.InvalidType, "e4m3"),
    ("e4m3 activations of 8 bits", lambda: st.nn.Linear8bit.from_linear(torch.nn.Linear(64, 64), activations="e4m3"),
     sluice.InvalidArgument, "use Linear4bit"),
    ("activations that are none", lambda: st.nn.Linear4bit(64, 64, activations="int8"), sluice.InvalidArgument, "'e4m3'"),
    ("activations and a format", lambda: st.nn.Linear4bit(64, 64, format=sluice.WeightFormat(), activations="e4m3"),
     sluice.InvalidArgument, "needs 'byte'"),
    ("activations of another recipe", lambda: st.nn.convert_(torch.nn.Sequential(), recipe="int8", activations="e4m3"),
     sluice.InvalidArgument, "for recipe = 'int4'"),
    ("a gradient of x", lambda: st.packed_mm(bf16(4, 256).requires_grad_(), weights()), sluice.InvalidArgument,
     "packed_mm has no backward"),
    ("a gradient of a bias", lambda: st.packed_mm(bf16(4, 256), weights(), bf16(192).requires_grad_()), sluice.InvalidArgument,
     "no_grad"),
    ("a gradient of a module's input", lambda: st.nn.Linear4bit.from_packed(weights())(bf16(4, 256).requires_grad_()),
     sluice.InvalidArgument, "Linear4bit has no backward"),
    ("act-order and more columns", lambda: st.packed_mm(bf16(4, 512), permuted(weights())), sluice.InvalidSize,
     "x has shape (4, 512) and must have 256 columns"),
    ("act-order and fewer columns", lambda: st.packed_mm(bf16(4, 128), permuted(weights())), sluice.InvalidSize, "256 columns"),
    ("act-order and e4m3", lambda: st.packed_mm(e4m3(4, 512), permuted(weights(order="byte"))), sluice.InvalidSize, "256 columns"),
    ("act-order and a scalar", lambda: st.packed_mm(bf16(()), permuted(weights())), sluice.InvalidSize, "shape ()"),
    ("a module in act-order and more columns", lambda: st.nn.Linear4bit.from_packed(permuted(weights()))(bf16(4, 512)),
     sluice.InvalidSize, "256 columns"),
    ("a shard and sharded tokens", lambda: st.packed_mm(bf16(4, 128), permuted(weights()).slice_k(0, 128)), sluice.InvalidSize,
     "256 columns"),
    ("a scale type that is none", lambda: st.pack_e4m3(bf16(64, 128), scale_type="float8"), sluice.InvalidArgument,
     "scale_type = 'float8' must be one of fp16, bf16, fp32"),
    ("a scale type of torch", lambda: st.pack_e4m3(bf16(64, 128), scale_type=E4M3), sluice.InvalidArgument, "scale_type = torch.fl"),
    ("e4m3 scales too large", lambda: st.pack_e4m3(torch.full((64, 128), 1e9), scale_type="fp16"), sluice.InvalidArgument,
     "scale_type='fp32'"),
    ("codes of int8", lambda: st.pack(torch.zeros(64, 128, dtype=torch.int8), torch.ones(64, 1)), sluice.InvalidType,
     "codes is int8 and must be uint8"),
    ("a column twice", lambda: st.pack(torch.zeros(64, 128, dtype=torch.uint8), torch.ones(64, 1),
                                       permutation=torch.zeros(128, dtype=torch.int32)), sluice.InvalidArgument, "holds 0 twice"),
    ("a gated product of other weights", lambda: st.packed_mm(bf16(4, 256), weights(), gated=True), sluice.InvalidConfig,
     "pack the weights with gated=True"),
    ("a plain product of gated weights", lambda: st.packed_mm(bf16(4, 256), weights(gated=True)), sluice.InvalidConfig,
     "packed.halves()"),
    ("a layer of gated weights", lambda: st.nn.LinearPacked.from_packed(weights(gated=True)), sluice.InvalidConfig, "packed.halves()"),
    ("8 bits in 4", lambda: st.nn.Linear4bit.from_packed(st.pack_int8(bf16(64, 128))), sluice.InvalidArgument,
     "use LinearPacked"),
    ("a bias of another size", lambda: st.nn.Linear4bit.from_packed(weights(), bf16(100)), sluice.InvalidArgument, "(192,)"),
    ("numpy weights", lambda: st.nn.Linear4bit.from_quantized(sw.quantize_groups(bf16(64, 128).float().numpy())),
     sluice.InvalidArgument, "torch tensors"),
    ("options of other recipes", lambda: st.nn.convert_(torch.nn.Sequential(), recipe="int4", fuse_quantizer=True),
     sluice.InvalidArgument, "mean nothing"),
    ("a group for FP8", lambda: st.nn.convert_(torch.nn.Sequential(), recipe="block", group=64), sluice.InvalidArgument,
     "int4, int8"),
    ("a recipe that is none", lambda: st.nn.convert_(torch.nn.Sequential(), recipe="int3"), sluice.InvalidArgument, "int4"),
    ("a model that is a linear", lambda: st.nn.convert_(torch.nn.Linear(16, 16), recipe="int4"), sluice.InvalidArgument,
     "Linear4bit.from_linear(model)"),
]


def test_the_package_has_it_too():
    assert sluice.packed_mm is st.packed_mm and sluice.__dict__["packed_mm"] is st.packed_mm
    assert "packed_mm" not in sluice.__all__, "import * would import torch"
    with pytest.raises(AttributeError, match="no attribute 'scaled_mm'"):
        sluice.scaled_mm  # noqa: B018


@pytest.mark.parametrize("call, kind, mention", [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_calls_raise_what_fits_and_name_the_argument(call, kind, mention):
    with pytest.raises(kind) as caught:
        call()
    assert mention in str(caught.value)


def test_fakes_have_the_shapes_and_types_of_the_real_ones():
    packed = permuted(weights())
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = dataclasses.replace(packed, blob=mode.from_tensor(packed.blob), permutation=mode.from_tensor(packed.permutation))
        x = torch.zeros(4, 16, 256, dtype=BF16)
        assert st.packed_mm(x, fake).shape == (4, 16, 192) and st.packed_mm(x, fake).dtype == BF16
        assert st.packed_mm(x, fake, activation="gelu", out_dtype=torch.float32).dtype == torch.float32
        out = torch.zeros(16, 192, dtype=FP16)
        assert st.packed_mm(x[0], fake, out=out) is out
        with pytest.raises(sluice.InvalidSize, match="m x 256: a column for each k"):
            torch.ops.sluice.packed_mm(x[..., :128], fake.blob, fake.numbers, None, None, 0.0, None, None, None, False, None, 0, BF16)
        scales, bytes_ = torch.ones(4, 16, 1), dataclasses.replace(fake, format=dataclasses.replace(fake.format, order="byte"))
        assert st.packed_mm(x.to(E4M3), bytes_, scale_x=scales).dtype == BF16
        assert st.packed_mm(x.to(E4M3), bytes_, scale_x=scales, out_dtype=FP16).shape == (4, 16, 192)
        with pytest.raises(sluice.InvalidArgument, match="only e4m3 tokens have scales"):
            st.packed_mm(x, fake, scale_x=scales)


class OnHost:
    """Replaces the binding's packed_mm by a product on the host with the dequantised weights."""

    def __init__(self):
        self.called = 0

    def product(self, *pairs):
        names = {number: name for name, number in binding.FIELDS.items()}
        given = {names[field]: value for field, value in zip(pairs[::2], pairs[1::2])}
        x, out, bias, scale_x = given["x"], given["out"], given.get("bias"), given.get("scale_x")
        self.called += 1
        kind, group, scale, zeros, order = (given[f"format.{name}"] for name in ("type", "group", "scale", "zeros", "order"))
        made = sluice.WeightFormat(WEIGHT_TYPES[kind - 1], group, DTYPES[scale], bool(zeros), ORDERS[order])
        packed = sluice.PackedWeights(given["packed.blob"], given["n"], given["k"], made)
        assert (x.dtype is E4M3) == (packed.format.order == "byte")
        y = x.double() @ sw.dequantize(packed.quantized()).T * (1 if scale_x is None else scale_x.double())
        y = y + (0 if bias is None else bias.double())
        out.copy_([lambda v: v, torch.relu, torch.nn.functional.gelu, torch.nn.functional.silu][given.get("activation", 0)](y))

    def quantize(self, *pairs):
        given = dict(zip(pairs[::2], pairs[1::2]))
        assert given[binding.GRANULARITY] == 1 and given[binding.WORKSPACE] == 0
        values, factors = st.quantize_reference(given[binding.INPUT], "row")
        output, scales = given[binding.OUTPUT], given[binding.SCALES]
        output.view(torch.uint8).copy_(values.view(torch.uint8))
        scales.copy_(factors)


@pytest.fixture
def on_host(monkeypatch):
    fake = OnHost()
    monkeypatch.setattr(binding, "product", fake.product)
    monkeypatch.setattr(binding, "quantize", fake.quantize)
    torch._dynamo.reset()
    return fake


def test_the_permutation_is_of_the_tokens_columns(on_host):
    quantized = dataclasses.replace(sw.quantize_groups(torch.randn(64, 256), 32, symmetric=False),
                                    permutation=torch.randperm(256))
    packed = st.pack_int4(quantized)
    x, layer = torch.randn(3, 5, 256).half(), torch.empty(64, 256, dtype=torch.float64)
    layer[:, quantized.permutation] = sw.dequantize(quantized)
    expected = x.double() @ layer.T
    assert torch.equal(st.packed_mm(x, packed, out_dtype=torch.float32), expected.float())
    assert torch.equal(st.nn.Linear4bit.from_quantized(quantized)(x), expected.half())


@pytest.mark.parametrize("act_order", [False, True])
def test_a_module_of_e4m3_activations_quantises_its_input(on_host, act_order):
    torch.manual_seed(2)
    quantized = sw.quantize_groups(torch.randn(64, 256), 32, symmetric=False)
    permutation = torch.randperm(256) if act_order else None
    layer = st.nn.Linear4bit.from_quantized(dataclasses.replace(quantized, permutation=permutation), torch.randn(64),
                                            activations="e4m3")
    assert layer.activations == "e4m3" and layer.format.order == "byte" and "activations=e4m3" in repr(layer)
    for dtype in (BF16, FP16, torch.float32):
        x = torch.randn(3, 5, 256).to(dtype)
        tokens, scales = st.quantize_reference(x if permutation is None else x[..., permutation], "row")
        expected = tokens.double() @ sw.dequantize(quantized).T * scales.double() + layer.bias.double()
        assert torch.equal(layer(x), expected.to(dtype)) and layer(x).dtype == dtype
        own = st.quantize_reference(x, "row")
        with torch.no_grad():
            assert torch.equal(st.packed_mm(own[0], layer.packed, layer.bias, scale_x=own[1], out_dtype=dtype), layer(x))


def test_shards_in_act_order_take_whole_tokens(on_host):
    packed, x = permuted(weights()), torch.randn(5, 256).half()
    whole = st.packed_mm(x, packed, out_dtype=torch.float32)
    parts = [packed.slice_k(0, 128), packed.slice_k(128, 256)]
    layers = [st.nn.Linear4bit.from_packed(part) for part in parts]
    total = sum(st.packed_mm(x, part, out_dtype=torch.float32) for part in parts)
    assert torch.allclose(total, whole, atol=1e-3)
    assert [layer.packed.token_width for layer in layers] == [256, 256]
    for layer, part in zip(layers, parts):
        again = st.nn.Linear4bit(128, 192, bias=False, format=part.format, act_order=True, width=256)
        again.load_state_dict(layer.state_dict())
        assert torch.equal(again(x), layer(x)) and torch.equal(layer(x), st.packed_mm(x, part))
        with pytest.raises(RuntimeError, match="make the module with width="):
            st.nn.Linear4bit(128, 192, bias=False, format=part.format, act_order=True).load_state_dict(layer.state_dict())


def checkpoint_layers():
    """Returns a name, the layer as a writer of its format stores it, and the QuantizedWeights that an
    importer reads."""
    def ints(values):
        return torch.tensor(values, dtype=torch.int32)

    def half(values):
        return torch.tensor(values, dtype=FP16)

    for name, bits, act_order in (("gptq", 4, False), ("gptq in act-order", 4, True), ("gptq of 8 bits", 8, False)):
        layer = weight_layouts.Layer(64, 128, 32, bits)
        layer = layer.in_act_order() if act_order else layer
        qweight, qzeros, scales = weight_layouts.gptq(layer)
        yield name, layer, sw.from_gptq(ints(qweight), ints(qzeros), half(scales), ints(layer.g_idx), bits=bits, group=32)
    layer = weight_layouts.Layer(64, 128, 64)
    qweight, qzeros, scales = weight_layouts.awq(layer)
    yield "awq", layer, sw.from_awq(ints(qweight), ints(qzeros), half(scales), group=64)
    layer = weight_layouts.Layer(64, 128, 32, zero=8)
    packed, scales, shape, _ = weight_layouts.compressed_tensors(layer)
    yield "compressed-tensors", layer, sw.from_compressed_tensors(ints(packed), half(scales), torch.tensor(shape), group=32)


@pytest.mark.parametrize("index", range(5))
def test_layers_of_checkpoints_are_multiplied(on_host, index):
    name, layer, quantized = list(checkpoint_layers())[index]
    made = st.nn.LinearPacked.from_quantized(quantized, torch.arange(64).half())
    assert (made.permutation is not None) == ("act-order" in name) and made.format.zeros == (name != "compressed-tensors")
    x = torch.randint(-4, 5, (6, 128)).half()
    matrix = torch.tensor(layer.matrix(), dtype=torch.float64)
    assert torch.equal(st.packed_mm(x, made.packed, made.bias, out_dtype=torch.float32),
                       (x.double() @ matrix.T + made.bias.double()).float())


@pytest.mark.parametrize("act_order", [False, True])
def test_a_model_is_traced_whole_with_dynamic_rows(on_host, act_order):
    seen = []

    def backend(graph, example):
        seen.append(graph)
        return graph.forward

    packed = permuted(weights()) if act_order else weights()
    model = torch.nn.Sequential(st.nn.Linear4bit.from_packed(packed, bf16(192)), torch.nn.ReLU())
    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for rows in (3, 5, 8):
            x = torch.randn(rows, 256).to(BF16)
            assert torch.equal(compiled(x), model(x))
    assert len(seen) == 1, "rows must not recompile"
    assert sum("sluice.packed_mm" in str(node.target) for node in seen[0].graph.nodes) == 1


def test_a_model_of_e4m3_activations_is_traced_whole_with_dynamic_rows(on_host):
    model = torch.nn.Sequential(st.nn.Linear4bit.from_packed(permuted(weights(order="byte")), bf16(192)), torch.nn.ReLU())
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=True)
    with torch.no_grad(), torch._dynamo.config.patch(error_on_recompile=True):
        for rows in (3, 5, 8):
            x = torch.randn(rows, 256).to(BF16)
            assert torch.equal(compiled(x), model(x))


@pytest.mark.parametrize("with_out", [False, True])
def test_a_function_of_packed_weights_is_traced(on_host, with_out):
    packed = permuted(weights())

    def function(x, out):
        return st.packed_mm(x, packed, activation="relu", out=out if with_out else None)

    compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for rows in (3, 5, 8):
            x = torch.randn(rows, 256).to(BF16)
            assert torch.equal(compiled(x, bf16(rows, 192)), function(x, bf16(rows, 192)))


@pytest.mark.parametrize("format", [sluice.WeightFormat(group=64, scale="bf16"), sluice.WeightFormat("int8", 0, "fp32", True)])
@pytest.mark.parametrize("act_order", [False, True])
def test_a_state_goes_into_another_module(on_host, format, act_order):  # noqa: A002
    pack = st.pack_int4 if format.type == "uint4" else st.pack_int8
    packed = pack(torch.randn(100, 200), format.group, symmetric=not format.zeros, scale_type=format.scale)
    packed = permuted(packed) if act_order else packed
    layer = st.nn.LinearPacked.from_packed(packed, torch.randn(100).half())
    other = st.nn.LinearPacked(200, 100, format=format, act_order=act_order, dtype=FP16)
    assert set(layer.state_dict()) == {"weight", "weight_packed", "weight_format", "bias"} | ({"permutation"} if act_order else set())
    other.load_state_dict(layer.state_dict())
    x = torch.randn(4, 200).to(BF16)
    assert torch.equal(other(x), layer(x)) and other(x).dtype == BF16
    assert other.packed.permutation is None or torch.equal(other.packed.permutation, packed.permutation)
    with torch.device("meta"):
        assigned = st.nn.LinearPacked(200, 100, format=format, act_order=act_order)
    assigned.load_state_dict(layer.state_dict(), assign=True)
    assert torch.equal(assigned(x), layer(x))


@pytest.mark.parametrize("made", [dict(format=sluice.WeightFormat(group=64, scale="fp16")), dict(act_order=True),
                                  dict(format=sluice.WeightFormat(group=32, scale="bf16")),
                                  dict(format=sluice.WeightFormat(group=64, scale="bf16", order="byte"))])
def test_a_state_of_another_format_is_refused(made):
    """fp16 and bf16 scales take the same number of bytes, so only their names distinguish the blobs."""
    state = st.nn.Linear4bit.from_packed(weights(), bf16(192)).state_dict()
    with pytest.raises(RuntimeError, match="permutation" if "act_order" in made else "weight_format: the state is of 192 x 256"):
        st.nn.Linear4bit(256, 192, **{"format": sluice.WeightFormat(group=64, scale="bf16"), **made}).load_state_dict(state)


def test_conversion_rounds_to_nearest_and_keeps_the_rest():
    model = torch.nn.ModuleDict({"a": torch.nn.Linear(256, 100, dtype=BF16), "odd": torch.nn.Linear(100, 256, dtype=BF16),
                                 "head": torch.nn.Linear(256, 512, bias=False, dtype=FP16),
                                 "fp32": torch.nn.Linear(256, 512)}).eval()
    before, bias = model["a"].weight.detach().clone(), model["a"].bias
    st.nn.convert_(model, lambda module, name: name != "head", recipe="int4", group=64)
    assert [type(layer).__name__ for layer in model.values()] == ["Linear4bit", "Linear", "Linear", "Linear"]
    layer = model["a"]
    assert layer.format == sluice.WeightFormat(group=64, scale="bf16") and not layer.training
    assert layer.bias.data_ptr() == bias.data_ptr() and not layer.bias.requires_grad
    assert torch.equal(sw.dequantize(layer.packed.quantized()), sw.dequantize(sw.quantize_groups(before, 64)))
    st.nn.convert_(model, recipe="int8")
    assert type(model["head"]) is st.nn.Linear8bit and model["head"].format == sluice.WeightFormat("int8", 128, "fp16")
    assert type(model["a"]) is st.nn.Linear4bit


def test_conversion_with_e4m3_activations():
    model = torch.nn.ModuleDict({"a": torch.nn.Linear(256, 100, dtype=BF16), "fp32": torch.nn.Linear(256, 512),
                                 "odd": torch.nn.Linear(104, 256, dtype=BF16)})
    st.nn.convert_(model, recipe="int4", group=64, activations="e4m3")
    assert [type(layer).__name__ for layer in model.values()] == ["Linear4bit", "Linear4bit", "Linear"]
    assert model["a"].format == sluice.WeightFormat(group=64, scale="bf16", order="byte")
    assert model["fp32"].activations == "e4m3"
    state, other = model["a"].state_dict(), st.nn.Linear4bit(256, 100, activations="e4m3")
    assert other.format == sluice.WeightFormat(order="byte")
    with pytest.raises(RuntimeError, match="weight_format"):
        other.load_state_dict(state)
    st.nn.Linear4bit(256, 100, format=model["a"].format, activations="e4m3").load_state_dict(state)


def test_to_changes_the_type_of_the_bias_alone():
    layer = st.nn.Linear4bit.from_packed(permuted(weights()), bf16(192))
    blob = layer.weight_packed.clone()
    layer.half().to(torch.float32).to(FP16)
    assert torch.equal(layer.weight_packed, blob) and layer.permutation.dtype == torch.int64 and layer.bias.dtype == FP16
    assert layer.to("meta").weight_packed.is_meta
    assert "group=64" in repr(layer)


def test_a_linear_in_two_places_stays_one():
    shared = torch.nn.Linear(16, 16, dtype=BF16)
    model = st.nn.convert_(torch.nn.Sequential(shared, torch.nn.Sequential(shared), shared), recipe="int4")
    assert type(model[0]) is st.nn.Linear4bit and model[0] is model[2] is model[1][0]
