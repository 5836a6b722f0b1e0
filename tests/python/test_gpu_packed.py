# SPDX-License-Identifier: Apache-2.0
"""Packed products on the GPU, compared with dequantised weights in fp64 within the stated bound. Further tests cover exact
integers, the dispatcher, the compiler, graphs, streams, modules and misuse."""
import dataclasses
import itertools

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
import sluice.weights as sw  # noqa: E402
from gpu_helpers import BF16, E4M3, FP16, FP32, exactly, needs_gpu, real, whole  # noqa: E402
from gpu_packed import Weights, kernel_of, seeded, whole_weights  # noqa: E402
from thread_helpers import in_threads  # noqa: E402

pytestmark = needs_gpu

FORMATS = [sluice.WeightFormat(kind, group, scale, zeros)
           for kind, group, scale, zeros in itertools.product(("uint4", "int8", "e4m3"), (0, 32, 64, 128),
                                                              ("fp16", "bf16", "fp32"), (False, True))
           if not (kind == "e4m3" and zeros)]
NAMES = ["-".join([f.type, str(f.group), f.scale, "zeros" if f.zeros else "plain"]) for f in FORMATS]
LAYER = 4096
TOKENS = {1: "narrow", 33: "strip", 1024: "wide"}  # number of tokens -> the kernel that is planned for it
STEEPEST, SLACK = 1.13, 2.0**-20  # for smooth activations, as in sluice/check/packed_data.cc


def kernel_for(x, weights, result):
    names = {BF16: "bf16", FP16: "fp16", FP32: "fp32"}
    return kernel_of(sluice.Problem(x.shape[0], result.shape[1], x.shape[1], packed=weights.packed.format, a=names[x.dtype],
                                    d=names[result.dtype]))


def weight_rounding(dtype, weights):
    """Returns how far a weight may be from scale * (code - zero).

    With groups, the scale and the product are rounded once each. A zero that is not whole is rounded too, and so is its
    difference to the code. Small numbers in fp16 lose bits.
    """
    unit, least = (2.0**-11, 2.0**-25) if dtype == FP16 else (2.0**-8, 0.0)
    bound = (2.02 * unit * weights.matrix().abs() + least) if weights.packed.group else torch.zeros_like(weights.scales)
    if isinstance(weights.zeros, torch.Tensor):
        lost = unit * (weights.zeros.abs() + (16 if dtype == BF16 and weights.kind == "uint4" else 0)) + 2.0**-18
        fraction = weights.zeros != weights.zeros.round()
        bound = bound + fraction * 1.02 * (unit * weights.matrix().abs() + weights.scales.abs() * lost)
    return bound


def within_bound(result, x, weights, bias=None, activation=None):
    """Asserts that every element is one rounding of a number within the bound around its value, as
    sluice/check/packed_data.cc does."""
    value = x.double() @ weights.matrix().T
    magnitude = x.double().abs() @ weights.magnitude(x.dtype).T
    if bias is not None:
        value = value + bias.double()
    k = x.shape[-1]
    usual = 2.0**-8
    rounds = kernel_for(x, weights, result) != "narrow"
    # The wide kernel, and strip with 16-bit tokens, have no offsets in their sums (docs/numerics.md, "Packed
    # weights").
    if rounds:
        magnitude, usual = 1.02 * (x.double().abs() @ weights.matrix().abs().T), usual + 5 * (2.0**-11 if x.dtype == FP16 else 2.0**-8)
    bound = (1.3 * (k + 16) * 2.0**-25 + (k / 32 + 40) * 2.0**-24) * magnitude + 2.0**-23 * value.abs()
    if rounds:
        bound = bound + x.double().abs() @ weight_rounding(x.dtype, weights).T
    if activation == "relu":
        value = value.relu()
    elif activation is not None:
        before = value
        value = {"gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu}[activation](value)
        bound = STEEPEST * bound + SLACK * (before.abs() + value.abs())
    low, high = (value - bound).to(result.dtype), (value + bound).to(result.dtype)
    wrong = ~((result >= low) & (result <= high))  # NaN is wrong too
    assert result.shape == value.shape and not wrong.any(), f"{wrong.sum().item()} of {wrong.numel()} are out of the bound"
    # For many elements together, the sum of the worst cases would be far too large a bound.
    if activation is None:
        error = (result.double() - value).norm()
        assert error <= (usual + torch.finfo(result.dtype).eps) * value.norm(), f"off by {error / value.norm()} of all together"


@pytest.mark.parametrize("m", [1, 16, 40])
@pytest.mark.parametrize("half", [8, 72, 7392])
def test_gated_products_take_halves_of_any_eights(m, half):
    """Halves of any multiple of eight columns, as shards of models have them. D has a pitch, and the gaps
    between its rows must not change."""
    x, k = real(m, 256, dtype=FP16, seed=m), 256
    packed = st.pack_int4(real(2 * half, k, dtype=FP16, seed=half), 64, gated=True)
    gate, up = (st.packed_mm(x, part, out_dtype=FP32) for part in packed.halves())
    memory = torch.full((m, half + 24), float("nan"), device="cuda", dtype=FP32)
    st.packed_mm(x, packed, activation="silu", gated=True, out=memory[:, :half])
    wanted = torch.nn.functional.silu(gate.double()) * up.double()
    assert (memory[:, :half].double() - wanted).abs().max() <= 4e-3 * wanted.abs().max()
    assert memory[:, half:].isnan().all(), "written behind a row"
    alone = st.packed_mm(x, packed, activation="silu", gated=True, out_dtype=FP32)
    assert torch.equal(alone, memory[:, :half])


@pytest.mark.parametrize("m", [1, 16, 32, 100, 300])
@pytest.mark.parametrize("dtype", [FP16, BF16])
def test_every_code_of_e4m3_weights_has_its_value(m, dtype):
    """The code of NaN must give NaN, not 480."""
    codes = torch.arange(256, device="cuda", dtype=torch.uint8)
    matrix = torch.zeros(256, 256, device="cuda", dtype=torch.uint8)
    matrix[:, 0] = codes
    wanted = codes.view(E4M3).double()
    for group in (0, 64):
        packed = st.pack(matrix, torch.ones(256, 256 // group if group else 1, device="cuda", dtype=FP16), type="e4m3", group=group)
        x = torch.zeros(m, 256, device="cuda", dtype=dtype)
        x[:, 0] = 1
        y = st.packed_mm(x, packed, out_dtype=FP32).double()
        assert ((y == wanted) | (y.isnan() & wanted.isnan())).all()


@pytest.fixture(scope="module")
def layer_weight():
    return real(LAYER, LAYER, dtype=BF16, seed=7) * 0.02


@pytest.fixture(scope="module", autouse=True)
def compiled_ahead():
    """Compiles all kernels of the layer's test in parallel."""
    problems = [sluice.Problem(m, LAYER, LAYER, packed=weights, a=a, d="fp32") for weights in FORMATS for a in ("bf16", "fp16")
                for m in TOKENS]
    sluice.compile(problems, packers=FORMATS)


@pytest.mark.parametrize("weights", FORMATS, ids=NAMES)
def test_a_layer_quantised_from_bf16_is_within_the_bound(layer_weight, weights):
    """Products with a whole layer stay within the bound in every format (bar 6 of packed weights)."""
    if weights.type == "e4m3":
        packed = st.pack_e4m3(layer_weight, weights.group, scale_type=weights.scale)
    else:
        pack = st.pack_int4 if weights.type == "uint4" else st.pack_int8
        packed = pack(layer_weight, weights.group, symmetric=not weights.zeros, scale_type=weights.scale)
    assert packed.format == weights
    reference = Weights(*packed.unpack(), weights.group, weights.type)
    assert torch.equal(reference.packed.blob, packed.blob)
    close = {"uint4": 0.5, "int8": 0.1, "e4m3": 0.2}[weights.type]
    assert (reference.matrix() - layer_weight.double()).abs().max() < close * layer_weight.double().abs().max(), \
        "the packed weights are those of the layer"
    for dtype in (BF16, FP16):
        for m, kernel in TOKENS.items():
            x = (real(m, LAYER, dtype=FP32, seed=m) + 0.5).to(dtype)  # the mean is not 0, so that a bias shows
            result = st.packed_mm(x, packed, out_dtype=FP32)
            assert kernel_for(x, reference, result) == kernel
            within_bound(result, x, reference)
            assert torch.equal(result, st.packed_mm(x, packed, out_dtype=FP32)), "the same bits on every run"


def test_the_bound_finds_a_wrong_scale(layer_weight):
    """The check above can fail: here one group of 32, in one row, has four times its scale."""
    packed = st.pack_int4(layer_weight[:256], 128, scale_type="fp16")
    codes, scales, zeros = packed.unpack()
    x = real(4, LAYER, dtype=FP16)
    within_bound(st.packed_mm(x, packed, out_dtype=FP32), x, Weights(codes, scales, zeros, 128, "uint4"))
    scales[17, 3] *= 4
    with pytest.raises(AssertionError, match="out of the bound"):
        within_bound(st.packed_mm(x, packed, out_dtype=FP32), x, Weights(codes, scales, zeros, 128, "uint4"))


@pytest.mark.parametrize("kind", ["uint4", "int8", "e4m3"])
@pytest.mark.parametrize("dtype", [BF16, FP16])
@pytest.mark.parametrize("n, k, group", [(64, 128, 0), (200, 520, 32), (1000, 72, 64), (130, 1024, 128)])
def test_whole_numbers_are_exact(kind, dtype, n, k, group):
    weights = whole_weights(n, k, group, zeros=kind != "e4m3", kind=kind)
    for m in (1, 3, 16, 33, 100):
        x = whole(m, k, dtype=dtype, seed=m)
        for out_dtype in (dtype, FP32):
            exactly(st.packed_mm(x, weights.packed, out_dtype=out_dtype), x.double() @ weights.matrix().T, out_dtype)


def test_float_zeros():
    codes = torch.randint(0, 16, (256, 512), device="cuda", generator=seeded(3), dtype=torch.uint8)
    scales, zeros = real(256, 8, dtype=FP16).abs() * 0.1, real(256, 8, dtype=FP16, seed=1) * 4
    weights = Weights(codes, scales, zeros, 64, "uint4")
    for dtype in (BF16, FP16):
        x = real(19, 512, dtype=dtype)
        within_bound(st.packed_mm(x, weights.packed, out_dtype=FP32), x, weights)


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "silu"])
@pytest.mark.parametrize("bias_dtype", [BF16, FP16, FP32])
def test_bias_and_activation(activation, bias_dtype):
    weights, bias = whole_weights(192, 256), whole(192, dtype=bias_dtype, low=-4, high=4, seed=5)
    x = whole(9, 256, dtype=BF16)
    for out_dtype in (BF16, FP16, FP32):
        result = st.packed_mm(x, weights.packed, bias, activation=activation, out_dtype=out_dtype)
        within_bound(result, x, weights, bias, activation)


def test_leading_dimensions_views_and_a_given_output():
    weights = whole_weights(192, 256)
    wide, out = whole(2, 5, 512), torch.full((2, 5, 192), 7.0, device="cuda", dtype=BF16)
    x = wide[..., 128:384]
    assert st.packed_mm(x, weights.packed, out=out) is out
    exactly(out, x.double() @ weights.matrix().T)
    exactly(st.packed_mm(x[0, 0], weights.packed), x[0, 0].double() @ weights.matrix().T)
    wide_out = torch.full((6, 600), 7.0, device="cuda", dtype=FP32)
    rows = whole(6, 256, seed=3)
    st.packed_mm(rows, weights.packed, out=wide_out[:, 100:292])
    exactly(wide_out[:, 100:292].contiguous(), rows.double() @ weights.matrix().T)
    assert (wide_out[:, :100] == 7).all() and (wide_out[:, 292:] == 7).all()
    assert st.packed_mm(whole(0, 256), weights.packed).shape == (0, 192)


def test_act_order_and_shards():
    n, k = 192, 512
    plain = whole_weights(n, k)
    permutation = torch.randperm(k, device="cuda", generator=seeded(1))
    packed = dataclasses.replace(plain.packed, permutation=permutation)
    x = whole(7, k)
    expected = x.double()[:, permutation] @ plain.matrix().T
    exactly(st.packed_mm(x, packed), expected)
    exactly(torch.cat([st.packed_mm(x, packed.slice_rows(0, 128)), st.packed_mm(x, packed.slice_rows(128, n))], 1), expected)
    total = sum(st.packed_mm(x, packed.slice_k(*part), out_dtype=FP32) for part in ((0, 128), (128, k)))
    exactly(total, expected, FP32)


def test_checkpoints_of_groups_go_into_modules():
    quantized = sw.quantize_groups(real(192, 256, dtype=FP16), 64, symmetric=False)
    layer = st.nn.Linear4bit.from_quantized(quantized, real(192, dtype=FP16))
    x = real(3, 4, 256, dtype=FP16)
    reference = Weights(quantized.codes, quantized.scales, quantized.zeros, 64, "uint4")
    with torch.no_grad():
        within_bound(layer(x).view(12, 192), x.view(12, 256), reference, layer.bias)
        other = st.nn.Linear4bit(256, 192, format=layer.format, dtype=FP16, device="cuda")
        other.load_state_dict(layer.state_dict())
        assert torch.equal(other(x), layer(x))
        assert torch.equal(layer.cpu().cuda()(x), other(x))


@pytest.mark.parametrize("recipe", ["int4", "int8"])
def test_a_model_is_converted(recipe):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 768), torch.nn.GELU(), torch.nn.Linear(768, 256, bias=False)).cuda().to(BF16)
    x = real(20, 512)
    with torch.no_grad():
        before = model(x).float()
        st.nn.convert_(model, recipe=recipe, group=64)
        after = model(x).float()
    assert all(type(model[i]) is (st.nn.Linear4bit if recipe == "int4" else st.nn.Linear8bit) for i in (0, 2))
    worst = {"int4": 0.25, "int8": 0.02}[recipe]
    assert (after - before).norm() < worst * before.norm() and not torch.equal(after, before)


def ops():
    packed, x = whole_weights(192, 256).packed, whole(2, 8, 256)
    arguments = (packed.blob, packed.numbers, None, None, 0.0)
    bias, out = whole(192), torch.empty(2, 8, 192, device="cuda", dtype=FP16)
    return [(torch.ops.sluice.packed_mm, (x, *arguments, None, None, None, False, None, 0, BF16)),
            (torch.ops.sluice.packed_mm, (x, *arguments, bias, None, "gelu", False, None, 0, FP32)),
            (torch.ops.sluice.packed_mm_out, (x, *arguments, bias, None, "relu", False, None, 0, out))]


@pytest.mark.parametrize("index", range(3))
def test_opcheck(index):
    op, arguments = ops()[index]
    torch.library.opcheck(op.default, arguments, test_utils=["test_schema", "test_autograd_registration", "test_faketensor",
                                                             "test_aot_dispatch_dynamic"])


def test_compiled_with_dynamic_rows_and_no_recompile():
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256)).cuda().to(BF16)
    st.nn.convert_(model, recipe="int4", group=64)
    compiled = torch.compile(model, fullgraph=True, dynamic=True)
    with torch.no_grad():
        compiled(real(48, 256))
        with torch._dynamo.config.patch(error_on_recompile=True):
            for rows in (3, 17, 64, 300):
                x = real(rows, 256, seed=rows)
                assert torch.allclose(compiled(x).float(), model(x).float(), rtol=2**-5, atol=2**-5)


def test_a_capture_of_what_was_not_prepared_raises_and_names_prepare():
    weights, x = whole_weights(200, 328, seed=8), whole(11, 328)
    out = torch.zeros(11, 200, device="cuda", dtype=BF16)
    caught = []
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        try:
            st.packed_mm(x, weights.packed, out=out)
        except sluice.NotPrepared as error:
            caught.append(str(error))
        out.fill_(3)
    assert caught and "prepare()" in caught[0]
    graph.replay()
    assert (out == 3).all(), "the capture itself must have survived"


def test_a_prepared_product_is_captured_and_replayed():
    weights, x = whole_weights(200, 336, seed=9), whole(13, 336)
    sluice.prepare(weights.packed.problem(13, "bf16"))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = st.packed_mm(x, weights.packed)
    for seed in range(3):
        x.copy_(whole(13, 336, seed=seed + 10))
        graph.replay()
        exactly(out, x.double() @ weights.matrix().T)


def test_packing_is_captured():
    quantized = sw.quantize_groups(real(192, 256, dtype=FP16), 64)
    expected = st.pack_int4(quantized)
    sluice.prepare_packer(expected.format)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = st.pack_int4(quantized)
    captured.blob.zero_()
    graph.replay()
    assert torch.equal(captured.blob, expected.blob)


def test_the_current_stream_is_used():
    weights, x = whole_weights(512, 1024), whole(16, 1024)
    out = torch.zeros(16, 512, device="cuda", dtype=BF16)
    st.packed_mm(x, weights.packed, out=out)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    for _ in range(20):
        out.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)  # about 10 ms
            st.packed_mm(x, weights.packed, out=out)
        assert (out == 0).all(), "the default stream must not have been used, nor anything waited for"
        side.synchronize()
        exactly(out, x.double() @ weights.matrix().T)


def test_two_streams_at_once():
    weights = [whole_weights(1024, 4096, seed=i) for i in range(2)]
    sluice.prepare(sluice.plan(weights[0].packed.problem(8, "bf16"), cluster=(1, 1, 4), warps=4, stages=3))
    streams, x = [torch.cuda.Stream() for _ in range(2)], [whole(8, 4096, seed=i) for i in range(2)]
    outs = [torch.zeros(8, 1024, device="cuda", dtype=BF16) for _ in range(2)]
    torch.cuda.synchronize()
    for _ in range(200):
        for i, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                st.packed_mm(x[i], weights[i].packed, out=outs[i])
    torch.cuda.synchronize()
    for i in range(2):
        exactly(outs[i], x[i].double() @ weights[i].matrix().T)


def test_threads():
    weights, wrong = whole_weights(256, 256), []
    matrix = weights.matrix()

    def work(seed):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for i in range(30):
                x = whole(1 + i, 256, seed=seed)
                if not torch.equal(st.packed_mm(x, weights.packed, out_dtype=FP32).double(), x.double() @ matrix.T):
                    wrong.append((seed, i))
        stream.synchronize()

    torch.cuda.synchronize()
    in_threads(work, (0, 100, 200, 300))
    assert not wrong


def test_nothing_is_allocated_but_the_output():
    weights, x = whole_weights(512, 256), whole(8, 256)
    out = torch.empty(8, 512, device="cuda", dtype=BF16)
    st.packed_mm(x, weights.packed, out=out)

    def allocations():
        return torch.cuda.memory_stats()["allocation.all.allocated"]

    before = allocations()
    for _ in range(10):
        st.packed_mm(x, weights.packed, out=out)
    assert allocations() == before
    st.packed_mm(x, weights.packed)
    assert allocations() == before + 1


def bad_calls():
    packed, x = whole_weights(192, 256).packed, whole(4, 256)
    size = packed.nbytes
    room = torch.zeros(size + 512, device="cuda", dtype=torch.uint8)
    shifted = dataclasses.replace(packed, blob=room[16:size + 16])
    wide = whole(4, 512)
    return [
        ("device of x", lambda: st.packed_mm(x.cpu(), packed), sluice.WrongDevice, "packed.blob is in cuda:0 and x in host"),
        ("device of weights", lambda: st.packed_mm(x, packed.to("cpu")), sluice.WrongDevice, "packed.blob is in host memory"),
        ("device of a bias", lambda: st.packed_mm(x, packed, whole(192).cpu()), sluice.WrongDevice, "bias"),
        ("type of x", lambda: st.packed_mm(x.float(), packed), sluice.InvalidType, "x.half()"),
        ("fp8 tokens", lambda: st.packed_mm(x.to(E4M3), packed), sluice.InvalidConfig, "need the order byte"),
        ("x by columns", lambda: st.packed_mm(whole(256, 4).t(), packed), sluice.InvalidStride, "pass x.contiguous()"),
        ("expanded x", lambda: st.packed_mm(whole(1, 256).expand(4, 256), packed), sluice.InvalidStride, "rows apart"),
        ("rows of 260", lambda: st.packed_mm(whole(4, 260)[:, :256], packed), sluice.Misaligned, "multiple of 8"),
        ("misaligned x", lambda: st.packed_mm(wide[:, 4:260], packed), sluice.Misaligned, "16"),
        ("misaligned weights", lambda: st.packed_mm(x, shifted), sluice.Misaligned, "128"),
        ("overlap", lambda: st.packed_mm(wide[:, :256], packed, out=wide[:, 128:320]), sluice.Aliasing, "out (0x"),
        ("a gradient", lambda: st.packed_mm(x.clone().requires_grad_(), packed), sluice.InvalidArgument, "no backward"),
        ("a shape of out", lambda: st.packed_mm(x, packed, out=whole(4, 191)), sluice.InvalidSize, "(4, 192)"),
        ("codes on another device", lambda: st.pack(packed.unpack().codes.cpu(), packed.unpack().scales), sluice.WrongDevice,
         "scales on cuda:0"),
        ("gaps in codes", lambda: st.pack(torch.zeros(64, 256, device="cuda", dtype=torch.uint8)[:, ::2], whole(64, 1)),
         sluice.InvalidStride, "codes.contiguous()"),
    ]


@pytest.mark.parametrize("index", range(15))
def test_bad_calls_raise_what_fits_and_name_the_argument(index):
    _, call, kind, mention = bad_calls()[index]
    with pytest.raises(kind) as caught:
        call()
    assert mention in str(caught.value)
    torch.cuda.synchronize()
