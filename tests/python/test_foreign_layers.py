# SPDX-License-Identifier: Apache-2.0
"""Quantised linears of other libraries in ``convert_``. Each is built here tensor by tensor, from the public definition of its layout.
The layer that replaces it is compared with the fp64 weight that the layout means. Words are laid out by weight_layouts.py.
"""
import sys
import types

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from sluice.torch import linear_layer  # noqa: E402
from sluice.weights.checkpoints import Fp8Weights, from_fp8  # noqa: E402
from weight_layouts import Layer, awq, compressed_tensors, gptq, gptq_zeros  # noqa: E402

N, K = 192, 256


@pytest.fixture(scope="module")
def accuracy(source_root):
    sys.path.insert(0, str(source_root / "tools"))
    import recipe_accuracy

    yield recipe_accuracy
    sys.path.pop(0)


def holder(module):
    """Returns a model with a module that convert_ shall replace."""
    return torch.nn.ModuleDict({"layer": module})


def converted(module, recipe, **options):
    model = holder(module)
    said = []
    st.nn.convert_(model, recipe=recipe, report=said.append, **options)
    assert said[0].converted == ("layer",) and not said[0].left_out and said[0].new_bytes > 0
    return model["layer"], said[0]


def refused(module, recipe, match, **options):
    """Asserts that convert_ leaves a module, and that the reason names it and says why."""
    model = holder(module)
    with pytest.raises(sluice.InvalidArgument, match=f"(?s)layer: .*{match}"):
        st.nn.convert_(model, recipe=recipe, **options)
    assert model["layer"] is module
    if not options:
        assert st.nn.why_not(module, recipe) is not None


def codes(n=N, k=K, seed=0):
    """Returns random e4m3 codes without NaN."""
    made = torch.randint(0, 256, (n, k), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
    return torch.where((made & 127) == 127, made ^ 1, made).view(torch.float8_e4m3fn)


def scales(*shape, dtype=torch.float32):
    return (torch.rand(shape, generator=torch.Generator().manual_seed(1)) + 0.25).mul(0.01).to(dtype)


def meaning(weight, scale):
    """Returns the fp64 weight of codes and their factors, block by block."""
    n, k = weight.shape
    full = torch.empty(n, k, dtype=torch.float64)
    rows, columns = (n, k) if scale.numel() == 1 else (1, k) if tuple(scale.shape) in ((n, 1), (n,)) else (128, 128)
    for i in range(n):
        for first in range(0, k, columns):
            factor = float(scale.reshape(-1)[(i // rows) * -(-k // columns) + first // columns])
            full[i, first:first + columns] = weight[i, first:first + columns].double() * factor
    return full


# ---- transformers' FP8Linear ----
class FP8Linear(torch.nn.Linear):
    """The attributes of transformers' class of that name."""

    def __init__(self, weight, scale, block_size=(128, 128), activation_scale=None, bias=None):
        torch.nn.Module.__init__(self)
        self.in_features, self.out_features, self.block_size = weight.shape[1], weight.shape[0], block_size
        self.activation_scheme = "dynamic" if activation_scale is None else "static"
        self.weight = torch.nn.Parameter(weight, requires_grad=weight.is_floating_point())
        self.weight_scale_inv = torch.nn.Parameter(scale, requires_grad=scale.dtype is torch.float32)
        self.activation_scale = None if activation_scale is None else torch.nn.Parameter(activation_scale)
        self.bias = None if bias is None else torch.nn.Parameter(bias)


@pytest.mark.parametrize("n, k", [(192, 256), (128, 128), (100, 144), (256, 400)])
def test_a_block_layer_is_taken_on_the_same_tensors(accuracy, n, k):
    weight, scale, bias = codes(n, k), scales(-(-n // 128), -(-k // 128)), torch.randn(n).bfloat16()
    module = FP8Linear(weight, scale, bias=bias)
    layer, said = converted(module, "block")
    assert layer.recipe == "block" and layer.input_scale is None
    assert layer.weight_e4m3.data_ptr() == weight.data_ptr() and layer.weight_scale.data_ptr() == scale.data_ptr()
    assert layer.bias.data_ptr() == bias.data_ptr()
    assert not any(parameter.requires_grad for parameter in layer.parameters()) and not layer.weight_scale.requires_grad
    assert torch.equal(accuracy.dequantized(layer), meaning(weight, scale))
    assert said.old_bytes == said.new_bytes == n * k + 4 * scale.numel()


def test_the_class_of_transformers_is_taken(accuracy):
    module_of = pytest.importorskip("transformers.integrations.finegrained_fp8")
    for block, scheme, recipe in (((128, 128), "dynamic", "block"), (None, "static", "tensor"), (None, "dynamic", "row")):
        module = module_of.FP8Linear(K, N, block_size=block, activation_scheme=scheme, has_bias=True)
        weight = codes()
        scale = scales(2, 2) if block else torch.tensor(0.02)
        module.weight.data, module.weight_scale_inv.data = weight, scale
        if scheme == "static":
            module.activation_scale.data = torch.tensor(0.5)
        layer, _ = converted(module, recipe)
        assert layer.recipe == recipe and torch.equal(accuracy.dequantized(layer), meaning(weight, scale))
        assert (layer.input_scale is not None) == (scheme == "static")


def test_a_static_layer_keeps_the_scale_of_its_input(accuracy, tmp_path):
    layer, _ = converted(FP8Linear(codes(), torch.tensor(0.03), None, torch.tensor(0.25)), "tensor")
    assert layer.recipe == "tensor" and layer.input_scale.shape == () and float(layer.input_scale) == 0.25
    x = torch.randn(5, K).bfloat16() * 50
    rounded = (x.double() / 0.25).clamp(-448, 448).to(torch.float8_e4m3fn).double() * 0.25
    wanted = rounded @ (codes().double() * float(torch.tensor(0.03))).T
    got = accuracy.reference_of(layer)(x.float()).double()
    assert float((got - wanted).abs().max() / wanted.abs().max()) < 1e-6
    state = holder(layer).state_dict()
    assert float(state["layer.input_scale"]) == 0.25
    again = st.nn.load_(holder(torch.nn.Linear(K, N, bias=False)), state)["layer"]
    assert again.recipe == "tensor" and float(again.input_scale) == 0.25
    assert layer.bfloat16().input_scale.dtype is torch.float32
    with pytest.raises(sluice.InvalidArgument, match="input_scale"):  # a layer without it has another input
        st.nn.load_(holder(st.nn.Linear(K, N, False, recipe="tensor")), state)


def test_a_given_scale_of_the_input_is_used_by_forward(monkeypatch):
    """No product runs here; what forward hands to it does."""
    layer, _ = converted(FP8Linear(codes(), torch.tensor(0.03), None, torch.tensor(0.25)), "tensor")
    seen = []
    monkeypatch.setattr(linear_layer, "quantize_static", lambda rows, scale: seen.append(scale) or rows.to(torch.float8_e4m3fn))
    monkeypatch.setattr(linear_layer, "quantize", lambda *arguments, **named: pytest.fail("the input was measured"))
    monkeypatch.setattr(linear_layer, "scaled_mm", lambda a, b, scale_a, scale_b, *more, **named: seen.append(scale_a) or torch.zeros(5, N))
    layer(torch.randn(5, K).bfloat16())
    assert len(seen) == 2 and all(scale is layer.input_scale for scale in seen)


@pytest.mark.parametrize("scale, block, given, recipe, match", [
    (scales(2, 2).to(torch.float8_e8m0fnu), (128, 128), None, "block", "weight_scale is e8m0, scales of ue8m0.*leave the layer as it is"),
    (scales(2, 2).view(torch.uint8)[:, :2].clone(), (128, 128), None, "block", "weight_scale is uint8, scales of ue8m0"),
    (scales(3, 4), (64, 64), None, "block", "blocks of 64 x 64, and the kernels take 128 x 128"),
    (scales(2, 3), (128, 128), None, "block", r"weight_scale has shape \(2, 3\) and must have \(2, 2\)"),
    (scales(2, 2), (128, 128), torch.tensor(1.0), "block", "one given scale of the input and scales per block"),
    (scales(2, 2), (128, 128), None, "row", "recipe = 'row' would quantise it again: recipe = 'block' takes it as it is"),
    (scales(2, 2), (128, 128), None, None, "recipe = None would quantise it again: recipe = 'block'"),
    (scales(2, 2), (128, 128), None, "int4", "recipe = 'int4' would quantise it again"),
    (torch.tensor(0.1), None, torch.tensor(1.0), "row", "recipe = 'tensor' takes it"),
])
def test_a_layer_that_does_not_fit_is_left_with_the_reason(scale, block, given, recipe, match):
    refused(FP8Linear(codes(), scale, block, given), recipe, match)


def test_sizes_and_types_of_no_kernel_are_left():
    refused(FP8Linear(codes(64, 100), scales(1, 1)), "block", "in_features = 100 must be a multiple of 16")
    refused(FP8Linear(codes().view(torch.uint8).view(torch.float8_e5m2), scales(2, 2)), "block", "weight is torch.float8_e5m2")
    refused(FP8Linear(codes(), scales(2, 2)), "row", "quantise it again")


# ---- compressed-tensors ----
def scheme(kind, bits, strategy, inputs=None, dynamic=True, symmetric=True, group=None, block=None, outputs=None):
    def args(**more):
        return types.SimpleNamespace(type=kind, num_bits=bits, **more)

    return types.SimpleNamespace(
        weights=args(strategy=strategy, symmetric=symmetric, group_size=group, block_structure=block, dynamic=False),
        input_activations=None if inputs is None else args(strategy=inputs, dynamic=dynamic, group_size=128 if inputs == "group" else None),
        output_activations=outputs)


def compressed(n, k, of, bias=None, **tensors):
    """Returns a plain Linear whose weight the library has replaced by ``tensors``."""
    module = torch.nn.Linear(k, n, bias=False, device="meta")
    del module.weight
    for name, tensor in tensors.items():
        module.register_parameter(name, torch.nn.Parameter(tensor, requires_grad=False))
    module.bias = None if bias is None else torch.nn.Parameter(bias)
    module.quantization_scheme, module.quantization_status = of, "compressed"
    return module


def integers(bits=4, group=128, zero=None, n=64, k=256):
    """Returns a compressed-tensors layer of packed integers, and the fp64 weight that it means."""
    made = Layer(n, k, group, bits, zero)
    words, factors, shape, points = compressed_tensors(made)
    tensors = {"weight_packed": torch.tensor(words, dtype=torch.int32), "weight_scale": torch.tensor(factors, dtype=torch.bfloat16),
               "weight_shape": torch.tensor(shape)}
    if zero is None:
        tensors["weight_zero_point"] = torch.tensor(points, dtype=torch.int32)
    of = scheme("int", bits, "group" if group else "channel", symmetric=zero is not None, group=group or None)
    return compressed(n, k, of, **tensors), torch.tensor(made.matrix(), dtype=torch.float64)


@pytest.mark.parametrize("bits, group, zero", [(4, 128, 8), (4, 32, None), (4, 0, 8), (8, 128, 128), (8, 64, None)])
def test_packed_integers_are_taken(accuracy, bits, group, zero):
    module, wanted = integers(bits, group, zero)
    layer, _ = converted(module, f"int{bits}")
    assert type(layer) is (st.nn.Linear4bit if bits == 4 else st.nn.Linear8bit)
    assert torch.equal(accuracy.dequantized(layer), wanted)


@pytest.mark.parametrize("strategy, inputs, dynamic, shape, recipe", [
    ("tensor", "tensor", False, (1,), "tensor"), ("tensor", "tensor", True, (1,), "tensor"), ("tensor", "token", True, (1,), "row"),
    ("channel", "token", True, (N, 1), "row"), ("block", "group", True, (2, 2), "block")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fp8_is_taken(accuracy, strategy, inputs, dynamic, shape, recipe, dtype):
    weight, scale = codes(), scales(*shape, dtype=dtype)
    tensors = {} if dynamic else {"input_scale": torch.tensor([0.125], dtype=dtype)}
    bias = torch.randn(N).bfloat16()
    module = compressed(N, K, scheme("float", 8, strategy, inputs, dynamic, block=[128, 128] if strategy == "block" else None), bias,
                        weight=weight, weight_scale=scale, **tensors)
    layer, _ = converted(module, recipe)
    assert layer.recipe == recipe and layer.weight_e4m3.data_ptr() == weight.data_ptr() and layer.weight_scale.dtype is torch.float32
    assert torch.equal(accuracy.dequantized(layer), meaning(weight, scale.double()))
    assert layer.input_scale is None if dynamic else float(layer.input_scale) == 0.125
    assert torch.equal(layer.bias, bias)


def fp8_of(of, **tensors):
    return compressed(N, K, of, **{"weight": codes(), "weight_scale": scales(N, 1), **tensors})


@pytest.mark.parametrize("make, recipe, match", [
    (lambda: fp8_of(scheme("float", 8, "channel", "tensor", False), input_scale=torch.ones(1)), "row",
     "scales per channel and its input one given scale, which no kernel takes together"),
    (lambda: fp8_of(scheme("float", 8, "channel", "token", False), input_scale=torch.ones(1)), "row", "its input one given scale"),
    (lambda: fp8_of(scheme("float", 8, "channel")), "row", "leaves the input in 16 bits"),
    (lambda: fp8_of(scheme("float", 8, "channel", "token", outputs=True)), "row", "quantises the output too"),
    (lambda: fp8_of(scheme("float", 8, "tensor", "tensor", False), weight_scale=scales(1)), "tensor", "has no input_scale"),
    (lambda: fp8_of(scheme("float", 8, "block", "group", block=[64, 128]), weight_scale=scales(3, 2)), "block", "blocks of 64 x 128"),
    (lambda: fp8_of(scheme("int", 8, "channel", "token"), weight=torch.zeros(N, K, dtype=torch.int8)), "row", "weight is int8, not packed"),
    (lambda: fp8_of(scheme("float", 8, "channel", "token"), weight=torch.zeros(N, K, dtype=torch.bfloat16)), "row",
     "weight is torch.bfloat16, decompressed.*run_compressed=True"),
    (lambda: fp8_of(scheme("float", 8, "channel", "token"), weight_scale=scales(N - 1, 1)), "row", r"weight_scale has shape \(191, 1\)"),
    (lambda: integers(8, 64, None)[0], "int4", "recipe = 'int4' would quantise it again: recipe = 'int8'"),
    (lambda: integers(4, 16, 8)[0], "int4", "group"),
])
def test_a_scheme_that_does_not_fit_is_left_with_the_reason(make, recipe, match):
    refused(make(), recipe, match)


def test_packed_integers_with_quantised_inputs_are_left():
    module, _ = integers(4, 128, 8)
    module.quantization_scheme.input_activations = types.SimpleNamespace(type="int", num_bits=8, strategy="token", dynamic=True)
    refused(module, "int4", "quantises the input to int8")
    module, _ = integers(4, 128, None)
    del module.weight_zero_point
    refused(module, "int4", "not symmetric, and it has no weight_zero_point")
    module, _ = integers(4, 128, 8)
    module.quantization_scheme.weights.num_bits = 3
    refused(module, "int4", "packed as int3, and int4 and int8 are taken")


# ---- GPTQ and AWQ ----
class Words(torch.nn.Module):
    """A layer with GPTQ's or AWQ's tensors as buffers, and the attributes that its library gives it."""

    def __init__(self, qweight, qzeros, factors, g_idx=None, bias=None, **attributes):
        super().__init__()
        self.register_buffer("qweight", torch.tensor(qweight, dtype=torch.int32))
        self.register_buffer("qzeros", torch.tensor(qzeros, dtype=torch.int32))
        self.register_buffer("scales", torch.tensor(factors, dtype=torch.float16))
        if g_idx is not None:
            self.register_buffer("g_idx", torch.tensor(g_idx, dtype=torch.int32))
        self.register_buffer("bias", bias)
        for name, value in attributes.items():
            setattr(self, name, value)


def auto_gptq_of(made, **more):
    return Words(*gptq(made), made.g_idx, infeatures=made.k, outfeatures=made.n, bits=made.bits, group_size=made.group, **more)


@pytest.mark.parametrize("bits, group, ordered", [(4, 128, False), (4, 64, True), (8, 128, False), (4, 0, False)])
def test_gptq_is_taken(accuracy, bits, group, ordered):
    made = Layer(64, 256, group, bits)
    made = made.in_act_order() if ordered else made
    layer, _ = converted(auto_gptq_of(made, bias=torch.ones(64).half()), f"int{bits}")
    assert torch.equal(accuracy.dequantized(layer), torch.tensor(made.matrix(), dtype=torch.float64))
    assert (layer.permutation is not None) == ordered and layer.bias.dtype is torch.float16


@pytest.mark.parametrize("version", [1, 2])
def test_zeros_are_read_as_the_module_holds_them(accuracy, version):
    made = Layer(64, 256, 128)
    module = Words(*gptq(made, gptq_zeros(made, 2 - version)), made.g_idx, in_features=256, out_features=64, bits=4, group_size=128,
                   sym=False, desc_act=False, qzero_format=lambda: version)
    layer, _ = converted(module, "int4")
    assert torch.equal(accuracy.dequantized(layer), torch.tensor(made.matrix(), dtype=torch.float64))


@pytest.mark.parametrize("n", [64, 256])
@pytest.mark.parametrize("attributes", [{"w_bit": 4}, {"bits": 4}])
def test_awq_is_taken(accuracy, n, attributes):
    made = Layer(n, 256, 128)
    layer, _ = converted(Words(*awq(made), in_features=256, out_features=n, group_size=128, **attributes), "int4", activations="e4m3")
    assert layer.activations == "e4m3" and torch.equal(accuracy.dequantized(layer), torch.tensor(made.matrix(), dtype=torch.float64))


@pytest.mark.parametrize("change, match", [
    (lambda module: setattr(module, "q_handle", object()), "may have sorted its tensors"),
    (lambda module: setattr(module, "bits", 3), "its weight has 3 bits"),
    (lambda module: setattr(module, "adapter", object()), "adapter"),
    (lambda module: setattr(module, "online_full_had", True), "rotates its input"),
    (lambda module: setattr(module, "sym", True), "symmetric = True"),
    (lambda module: delattr(module, "group_size"), "has no attribute group_size"),
    (lambda module: setattr(module, "group_size", 64), "group = 64 makes 4 groups"),
    (lambda module: module.register_forward_pre_hook(lambda *all: None), "hook"),
    (lambda module: module.register_buffer("qweight", module.qweight[1:].clone()), "qweight has shape"),
])
def test_a_module_that_does_not_fit_is_left_with_the_reason(change, match):
    module = auto_gptq_of(Layer(64, 256, 128))
    change(module)
    refused(module, "int4", match)


@pytest.mark.parametrize("path, name, taken", [
    ("auto_gptq.nn_modules.qlinear.qlinear_cuda", "QuantLinear", True), ("gptqmodel.nn_modules.qlinear.torch", "TorchLinear", True),
    ("auto_gptq.nn_modules.qlinear.qlinear_exllama", "QuantLinear", False), ("gptqmodel.nn_modules.qlinear.marlin", "MarlinLinear", False),
    ("gptqmodel.nn_modules.qlinear.new_kernel", "NewLinear", False), ("awq.modules.linear.gemv_fast", "WQLinear_GEMVFast", False),
    ("mine.layers", "MarlinLinear", False), ("mine.layers", "QuantLinear", True)])
def test_classes_that_sort_their_tensors_are_left(path, name, taken):
    made = auto_gptq_of(Layer(64, 256, 128))
    made.__class__ = type(name, (Words,), {"__module__": path})
    if taken:
        converted(made, "int4")
    else:
        refused(made, "int4", f"it is a {name} of {path}, which may have sorted its tensors")


def test_another_group_or_activation_is_refused():
    refused(auto_gptq_of(Layer(64, 256, 128)), "int4", "group = 64, and its weight has groups of 128: leave group out", group=64)
    converted(auto_gptq_of(Layer(64, 256, 128)), "int4", group=128)


# ---- models ----
def test_a_model_keeps_what_its_checkpoint_left_until_asked_again():
    model = torch.nn.ModuleDict({"up": FP8Linear(codes(), scales(2, 2)), "router": torch.nn.Linear(K, 16, dtype=torch.bfloat16),
                                 "lm_head": FP8Linear(codes(seed=1), scales(2, 2))})
    said = []
    st.nn.convert_(model, recipe="block", report=said.append)
    assert said[0].converted == ("up", "lm_head") and list(said[0].skipped) == ["router"]
    assert "call convert_ again" in said[0].skipped["router"] and type(model["router"]) is torch.nn.Linear
    st.nn.convert_(model, recipe="block", report=said.append)
    assert said[1].converted == ("router",)


def test_a_model_with_layers_of_two_recipes_is_converted_in_two_calls():
    model = torch.nn.ModuleDict({"up": FP8Linear(codes(), scales(2, 2)), "down": auto_gptq_of(Layer(64, 256, 128))})
    said = []
    st.nn.convert_(model, recipe="block", report=said.append)
    assert said[0].converted == ("up",) and "recipe = 'int4' takes it as it is" in said[0].left_out["down"]
    st.nn.convert_(model, recipe="int4", report=said.append)
    assert said[1].converted == ("down",)


def test_a_layer_used_twice_is_one_layer_and_a_filter_is_asked():
    shared = FP8Linear(codes(), scales(2, 2))
    model = torch.nn.ModuleDict({"a": shared, "b": shared, "c": FP8Linear(codes(seed=2), scales(2, 2))})
    said = []
    st.nn.convert_(model, lambda module, name: name != "c", recipe="block", report=said.append)
    assert model["a"] is model["b"] and type(model["a"]) is st.nn.Linear and said[0].filtered == ("c",) and said[0].converted == ("a", "b")


def test_a_layer_without_data_is_left_or_made_without_data():
    layer, _ = converted(FP8Linear(codes().to("meta"), scales(2, 2).to("meta")), "block")
    assert layer.weight_e4m3.is_meta
    refused(auto_gptq_of(Layer(64, 256, 128)).to("meta"), "int4", "on the meta device, which holds no data: load it first")


# ---- sluice.weights and Linear.from_quantized ----
def test_the_reader_takes_shapes_as_they_are_stored():
    weight = codes()
    for shape, recipe in (((), "tensor"), ((1,), "tensor"), ((1, 1), "tensor"), ((N,), "row"), ((N, 1), "row"), ((2, 2), "block")):
        assert from_fp8(weight, scales(*shape)).recipe == recipe
    repeated = from_fp8(weight, scales(1), recipe="row")
    assert repeated.scales.shape == (N, 1) and repeated.scales.is_contiguous() and bool((repeated.scales == scales(1)).all())
    assert from_fp8(codes(100, 96), scales(1, 1), recipe="block").scales.shape == (1, 1)
    assert from_fp8(weight, scales(1), scales(1)).input_scale.shape == ()


@pytest.mark.parametrize("arguments, how, error, match", [
    ((codes()[0], scales(1)), {}, sluice.InvalidSize, "weight has shape"),
    ((codes().float(), scales(1)), {}, sluice.InvalidType, "weight is fp32 and must be e4m3"),
    ((codes(), scales(3, 3)), {}, sluice.InvalidSize, r"weight_scale has shape \(3, 3\)"),
    ((codes(), scales(N, 1)), {"recipe": "block"}, sluice.InvalidSize, r"must have \(2, 2\)"),
    ((codes(), scales(N, 1)), {"recipe": "fp8"}, sluice.InvalidArgument, "recipe = 'fp8' must be one of tensor, row, block"),
    ((codes(), scales(1).double()), {}, sluice.InvalidType, "weight_scale is fp64"),
    ((codes(), scales(N, 1), scales(1)), {}, sluice.InvalidArgument, "input_scale has shape"),
    ((codes(), scales(1), scales(2)), {}, sluice.InvalidArgument, "input_scale has shape"),
])
def test_the_reader_names_what_is_wrong(arguments, how, error, match):
    with pytest.raises(error, match=match):
        from_fp8(*arguments, **how)


def test_a_layer_of_fp8_weights_checks_its_arguments():
    good = from_fp8(codes(), scales(N, 1))
    with pytest.raises(sluice.InvalidArgument, match="must be Fp8Weights"):
        st.nn.Linear.from_quantized(codes())
    with pytest.raises(sluice.InvalidArgument, match=r"bias has shape \(3,\) and must have \(192,\)"):
        st.nn.Linear.from_quantized(good, torch.zeros(3))
    with pytest.raises(sluice.InvalidArgument, match=r"weight has strides .* pass weight.contiguous\(\)"):
        st.nn.Linear.from_quantized(Fp8Weights(codes(K, N).t(), good.scales, "row"))
