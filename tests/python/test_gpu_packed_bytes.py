# SPDX-License-Identifier: Apache-2.0
"""Products of e4m3 tokens and 4-bit weights on the GPU. The tests cover exact integers, the stated bound, scales of tokens,
modules that quantise their input, the compiler, graphs and misuse."""
import dataclasses
import itertools

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
import sluice.weights as sw  # noqa: E402
from gpu_helpers import BF16, E4M3, FP16, FP32, exactly, needs_gpu, powers, real, whole  # noqa: E402
from gpu_packed import Weights, kernel_of, whole_weights  # noqa: E402

pytestmark = needs_gpu

FORMATS = [sluice.WeightFormat("uint4", group, scale, zeros, "byte")
           for group, scale, zeros in itertools.product((0, 32, 64, 128), ("fp16", "bf16", "fp32"), (False, True))]
NAMES = ["-".join([str(f.group), f.scale, "zeros" if f.zeros else "plain"]) for f in FORMATS]
LAYER, TOKENS = 4096, (1, 33, 300)


@pytest.fixture(scope="module", autouse=True)
def compiled_ahead():
    """Compiles all kernels of the layer's test in parallel."""
    problems = [sluice.Problem(m, LAYER, LAYER, packed=weights, a="e4m3", d="fp32", scale_a="vector") for weights in FORMATS
                for m in TOKENS]
    sluice.compile(problems, packers=FORMATS)


def bytes_of_whole(*shape, seed=0):
    return whole(*shape, dtype=E4M3, low=-4, high=4, seed=seed)


def exact_weights(n, k, group=64, zeros=True, seed=0):
    return whole_weights(n, k, group, zeros=zeros, seed=seed, order="byte")


def within_bound(result, x, weights, scale_x=1.0, bias=None):
    """Asserts that every element is one rounding of a number within the bound around its value, as
    sluice/check/packed_data.cc does."""
    scale = torch.as_tensor(scale_x, device="cuda").double()
    value = scale * (x.double() @ weights.matrix().T)
    magnitude = scale.abs() * (x.double().abs() @ weights.magnitude(E4M3).T)
    if bias is not None:
        value = value + bias.double()
    k, group = x.shape[-1], weights.packed.group or 128
    bound = (group // 32 * 34 * 2.0**-13 + (k / 32 + 40) * 2.0**-24) * magnitude + 2.0**-23 * value.abs()
    low, high = (value - bound).to(result.dtype), (value + bound).to(result.dtype)
    wrong = ~((result >= low) & (result <= high))  # NaN is wrong too
    assert result.shape == value.shape and not wrong.any(), f"{wrong.sum().item()} of {wrong.numel()} are out of the bound"
    # The bound is for the worst case; errors of random data are far smaller. An error of one per cent over
    # all elements would not be rounding.
    assert (result.double() - value).norm() <= (2e-3 + torch.finfo(result.dtype).eps) * value.norm()


@pytest.mark.parametrize("weights", FORMATS, ids=NAMES)
def test_a_layer_and_its_quantised_input_are_within_the_bound(weights):
    layer = real(LAYER, LAYER, dtype=BF16, seed=7) * 0.02
    packed = st.pack_int4(layer, weights.group, symmetric=not weights.zeros, scale_type=weights.scale, order="byte")
    assert packed.format == weights
    reference = Weights(*packed.unpack(), weights.group, "uint4", "byte")
    assert torch.equal(reference.packed.blob, packed.blob)
    for m in TOKENS:
        assert kernel_of(sluice.Problem(m, LAYER, LAYER, packed=weights, a="e4m3", d="fp32", scale_a="vector")) == "strip"
        q, scales = st.quantize(real(m, LAYER, seed=m), "row")
        result = st.packed_mm(q, packed, scale_x=scales, out_dtype=FP32)
        within_bound(result, q, reference, scales)
        assert torch.equal(result, st.packed_mm(q, packed, scale_x=scales, out_dtype=FP32)), "the same bits on every run"


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("n, k, group", [(64, 128, 0), (200, 528, 32), (1000, 80, 64), (130, 1024, 128)])
def test_whole_numbers_are_exact(zeros, n, k, group):
    weights = exact_weights(n, k, group, zeros)
    for m in (1, 3, 8, 16, 33, 64, 128, 200):
        x, scales = bytes_of_whole(m, k, seed=m), powers(m, 1, seed=m)
        expected = scales.double() * (x.double() @ weights.matrix().T)
        for out_dtype in (BF16, FP16, FP32):
            exactly(st.packed_mm(x, weights.packed, scale_x=scales, out_dtype=out_dtype), expected, out_dtype)


def test_a_scale_for_all_for_each_and_none():
    weights, x = exact_weights(192, 256), bytes_of_whole(2, 5, 256)
    plain = x.double() @ weights.matrix().T
    exactly(st.packed_mm(x, weights.packed), plain, BF16)
    exactly(st.packed_mm(x, weights.packed, scale_x=torch.tensor(0.5, device="cuda")), 0.5 * plain, BF16)
    scales = powers(2, 5, 1)
    exactly(st.packed_mm(x, weights.packed, scale_x=scales, out_dtype=FP32), scales.double() * plain, FP32)
    exactly(st.packed_mm(x[0], weights.packed, scale_x=scales[0, :, 0]), scales[0].double() * plain[0], BF16)


@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("bias_dtype", [BF16, FP16, FP32])
def test_the_bias_comes_after_the_scale(activation, bias_dtype):
    weights, bias = exact_weights(192, 256), whole(192, dtype=bias_dtype, low=-4, high=4, seed=5)
    x, scales = bytes_of_whole(9, 256), powers(9, 1)
    expected = scales.double() * (x.double() @ weights.matrix().T) + bias.double()
    exactly(st.packed_mm(x, weights.packed, bias, scale_x=scales, activation=activation, out_dtype=FP32),
            expected.relu() if activation else expected, FP32)


def test_views_and_a_given_output():
    weights, wide = exact_weights(192, 256), bytes_of_whole(6, 512)
    x, out = wide[:, 128:384], torch.full((6, 600), 7.0, device="cuda", dtype=FP32)
    st.packed_mm(x, weights.packed, out=out[:, 100:292])
    exactly(out[:, 100:292].contiguous(), x.double() @ weights.matrix().T)
    assert (out[:, :100] == 7).all() and (out[:, 292:] == 7).all()
    assert st.packed_mm(bytes_of_whole(0, 256), weights.packed).shape == (0, 192)


def test_act_order_and_shards():
    n, k = 192, 512
    plain, x, scales = exact_weights(n, k), bytes_of_whole(7, k), powers(7, 1)
    permutation = torch.randperm(k, device="cuda")
    packed = dataclasses.replace(plain.packed, permutation=permutation)
    expected = scales.double() * (x.double()[:, permutation] @ plain.matrix().T)
    exactly(st.packed_mm(x, packed, scale_x=scales), expected, BF16)
    parts = [packed.slice_rows(0, 128), packed.slice_rows(128, n)]
    exactly(torch.cat([st.packed_mm(x, part, scale_x=scales) for part in parts], 1), expected, BF16)
    total = sum(st.packed_mm(x, packed.slice_k(*part), scale_x=scales, out_dtype=FP32) for part in ((0, 128), (128, k)))
    exactly(total, expected, FP32)


@pytest.mark.parametrize("act_order", [False, True])
@pytest.mark.parametrize("dtype", [BF16, FP16, FP32])
def test_a_module_quantises_its_input(dtype, act_order):
    quantized = sw.quantize_groups(real(192, 256, dtype=FP16), 64, symmetric=False)
    permutation = torch.randperm(256, device="cuda") if act_order else None
    layer = st.nn.Linear4bit.from_quantized(dataclasses.replace(quantized, permutation=permutation), real(192, dtype=FP32),
                                            activations="e4m3")
    reference = Weights(quantized.codes, quantized.scales, quantized.zeros, 64, "uint4", "byte")
    x = real(3, 4, 256, dtype=dtype)
    q, scales = st.quantize((x if permutation is None else x[..., permutation]).reshape(12, 256), "row")
    with torch.no_grad():
        assert layer(x).dtype == dtype and layer(x).shape == (3, 4, 192)
        within_bound(layer(x).view(12, 192), q, reference, scales, layer.bias)


def test_a_model_is_converted_and_compiled_with_dynamic_rows():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 768), torch.nn.GELU(), torch.nn.Linear(768, 256)).cuda().to(BF16)
    x = real(20, 512)
    with torch.no_grad():
        before = model(x).float()
        st.nn.convert_(model, recipe="int4", group=64, activations="e4m3")
        after = model(x).float()
        assert model[0].activations == model[2].activations == "e4m3"
        assert (after - before).norm() < 0.25 * before.norm() and not torch.equal(after, before)
        compiled = torch.compile(model, fullgraph=True, dynamic=True)
        compiled(real(48, 512))
        with torch._dynamo.config.patch(error_on_recompile=True):
            for rows in (3, 17, 64, 300):
                x = real(rows, 512, seed=rows)
                assert torch.allclose(compiled(x).float(), model(x).float(), rtol=2**-3, atol=2**-4)


@pytest.mark.parametrize("index", range(2))
def test_opcheck(index):
    packed, x = exact_weights(192, 256).packed, bytes_of_whole(2, 8, 256)
    arguments, out = (packed.blob, packed.numbers), torch.empty(2, 8, 192, device="cuda", dtype=FP16)
    op, values = [(torch.ops.sluice.packed_mm, (x, *arguments, powers(2, 8, 1), None, 0.0, whole(192), None, "gelu", False, None, 0, FP32)),
                  (torch.ops.sluice.packed_mm_out, (x, *arguments, powers(16), None, 0.0, None, None, None, False, None, 0, out))][index]
    # Without test_schema: torch 2.11 multiplies the inputs there, which it cannot do in float8.
    torch.library.opcheck(op.default, values, test_utils=["test_autograd_registration", "test_faketensor",
                                                          "test_aot_dispatch_dynamic"])


def test_a_layer_is_captured_with_its_quantiser():
    weights = exact_weights(200, 336, seed=9)
    layer, x = st.nn.Linear4bit.from_packed(weights.packed), real(13, 336)
    sluice.prepare(weights.packed.problem(13))
    sluice.prepare_quantizers("bf16")
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        out = layer(x)
    for seed in range(3):
        x.copy_(real(13, 336, seed=seed + 10))
        graph.replay()
        with torch.no_grad():
            assert torch.equal(out, layer(x))


def bad_calls():
    packed, x, scales = exact_weights(192, 256).packed, bytes_of_whole(4, 256), powers(4, 1)
    half = whole_weights(192, 256).packed
    return [
        ("scales on the host", lambda: st.packed_mm(x, packed, scale_x=scales.cpu()), sluice.WrongDevice, "scale_x is in host"),
        ("shape of scales", lambda: st.packed_mm(x, packed, scale_x=powers(3)), sluice.InvalidSize, "scale_x has shape (3,)"),
        ("type of scales", lambda: st.packed_mm(x, packed, scale_x=scales.half()), sluice.InvalidType, "scale_x is fp16"),
        ("scales of 16 bits", lambda: st.packed_mm(whole(4, 256), half, scale_x=scales), sluice.InvalidArgument, "leave it out"),
        ("order half", lambda: st.packed_mm(x, half, scale_x=scales), sluice.InvalidConfig, "need the order byte"),
        ("order byte", lambda: st.packed_mm(whole(4, 256), packed), sluice.InvalidConfig, "need the order half"),
        ("rows of 264", lambda: st.packed_mm(bytes_of_whole(4, 264)[:, :256], packed), sluice.Misaligned, "multiple of 16"),
        ("e4m3 output of 16 bits", lambda: st.packed_mm(whole(4, 256), half, out_dtype=E4M3), sluice.InvalidType, "D is out"),
        ("a gradient", lambda: st.packed_mm(x, packed, scale_x=scales.requires_grad_()), sluice.InvalidArgument, "no backward"),
    ]


@pytest.mark.parametrize("index", range(9))
def test_bad_calls_raise_what_fits_and_name_the_argument(index):
    _, call, kind, mention = bad_calls()[index]
    with pytest.raises(kind) as caught:
        call()
    assert mention in str(caught.value)
    torch.cuda.synchronize()
