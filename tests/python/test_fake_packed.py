# SPDX-License-Identifier: Apache-2.0
"""Packed weights and their products on the fake driver; test_fake_gpu.py has the dense products."""
import pytest
import tvm_ffi

import sluice
import binding_calls as binding
from fake_gpu import BYTES, FORMAT, OnGpu, a_blob, launches_of, lib, on_gpu, packed_mm


def test_a_packed_product_is_prepared_once_and_launched_each_time():
    x, blob, out = on_gpu("bf16", (2, 8, 256)), a_blob(192, 256), on_gpu("fp32", (2, 8, 192))
    before = sluice.holdings().kernels
    assert launches_of(lambda: packed_mm(x, blob, out, 192, 256, bias=on_gpu("fp16", (192,)), activation=2)) == 1
    assert sluice.holdings().kernels == before + 1
    assert launches_of(lambda: [packed_mm(x, blob, out, 192, 256, bias=on_gpu("fp16", (192,)), activation=2)
                                for _ in range(5)]) == 5
    sluice.prepare(sluice.Problem(16, 192, 256, packed=FORMAT, d="fp32", bias="fp16", activation="gelu"))
    assert sluice.holdings().kernels == before + 1, "the same problem, however it is spelled"
    sluice.prepare([sluice.Problem(m, 192, 256, packed=FORMAT) for m in (1, 4)] + [sluice.Problem(24, 40, 56)])
    assert sluice.holdings().kernels == before + 4


def test_another_plan_takes_the_place_of_the_planners():
    x, blob, out = on_gpu("bf16", (7, 512)), a_blob(128, 512), on_gpu("bf16", (7, 512))
    plan = sluice.plan(m=7, n=128, k=512, packed=FORMAT, schedule="narrow", warps=4, stages=3, cluster=(1, 1, 4), tile=(None, 32))
    sluice.prepare(plan)
    before = sluice.holdings().kernels
    assert launches_of(lambda: packed_mm(x, blob, on_gpu("bf16", (7, 128)), 128, 512)) == 1
    sluice.prepare(plan)
    assert sluice.holdings().kernels == before
    with pytest.raises(sluice.InvalidSize, match="out has shape"):
        packed_mm(x, blob, out, 128, 512)


def test_one_token_may_lie_anywhere_and_wide_rows_keep_their_pitch():
    blob = a_blob(128, 256)
    assert launches_of(lambda: packed_mm(on_gpu("bf16", (1, 256), (99, 1)), blob, on_gpu("bf16", (1, 128)), 128, 256)) == 1
    assert launches_of(lambda: packed_mm(on_gpu("bf16", (4, 256), (264, 1)), blob, on_gpu("bf16", (4, 128), (131, 1)),
                                        128, 256)) == 1


def test_weights_are_packed_and_unpacked_by_one_kernel():
    for kind, scale, zeros in (("uint4", "fp16", True), ("int8", "fp32", False), ("e4m3", "bf16", False)):
        weights = sluice.WeightFormat(kind, 64, scale, zeros)
        codes, scales = on_gpu("e4m3" if kind == "e4m3" else "uint8", (100, 256)), on_gpu(scale, (100, 4))
        zero_values, blob = on_gpu(scale, (100, 4)) if zeros else None, a_blob(100, 256, weights)
        sluice.prepare_packer(weights)
        assert launches_of(lambda: binding.pack_codes(codes, scales, zero_values, blob, weights.values)) == 1
        assert launches_of(lambda: binding.unpack_codes(codes, scales, zero_values, blob, weights.values)) == 1
    empty, no_scales, nothing = on_gpu("uint8", (0, 256)), on_gpu("fp16", (0, 4)), on_gpu("uint8", (0,))
    assert launches_of(lambda: binding.pack_codes(empty, no_scales, no_scales, nothing, FORMAT.values)) == 0


def test_e4m3_tokens_take_one_scale_or_one_each():
    blob, x, out = a_blob(192, 256, BYTES), on_gpu("e4m3", (2, 8, 256)), on_gpu("bf16", (2, 8, 192))

    def run(scale_x, x=x, out=out):
        return launches_of(lambda: packed_mm(x, blob, out, 192, 256, weights=BYTES, scale_x=scale_x))

    before = sluice.holdings().kernels
    assert run(None) == 1 and run(on_gpu("fp32", ())) == 1 and run(on_gpu("fp32", (1, 1))) == 1
    assert sluice.holdings().kernels == before + 2, "none, and one for all"
    for shape in ((16,), (16, 1), (2, 8, 1)):
        assert run(on_gpu("fp32", shape)) == 1
    sluice.prepare(sluice.Problem(16, 192, 256, packed=BYTES, a="e4m3", scale_a="vector"))
    assert sluice.holdings().kernels == before + 3
    for scale_a in ("tensor", "vector"):  # with one token, both describe the same problem
        sluice.prepare(sluice.Problem(1, 192, 256, packed=BYTES, a="e4m3", scale_a=scale_a))
    assert run(on_gpu("fp32", (1, 1)), on_gpu("e4m3", (1, 256)), on_gpu("bf16", (1, 192))) == 1
    assert sluice.holdings().kernels == before + 4


def test_what_a_product_of_e4m3_tokens_refuses():
    blob, x, out = a_blob(128, 256, BYTES), on_gpu("e4m3", (4, 256)), on_gpu("bf16", (4, 128))
    whole = lib.sluice_fake_memory(1 << 20, 0)

    def run(scale_x=None, x=x, out=out, weights=BYTES, blob=blob):
        return lambda: packed_mm(x, blob, out, 128, 256, weights=weights, scale_x=scale_x)

    def at(dtype, shape, offset):
        return tvm_ffi.from_dlpack(OnGpu(dtype, shape, data=whole + offset))

    eights = sluice.WeightFormat("int8", 64, "bf16")
    cases = [
        (run(on_gpu("fp32", (3,))), sluice.InvalidSize, "scale_x has shape (3,) and must have (4,) or (4, 1)"),
        (run(on_gpu("fp32", (1, 4))), sluice.InvalidSize, "scale_x has shape (1, 4)"),
        (run(on_gpu("bf16", (4, 1))), sluice.InvalidType, "scale_x is bf16 and must be fp32"),
        (run(on_gpu("fp32", (4,), (2,))), sluice.InvalidStride, "scale_x.contiguous()"),
        (run(on_gpu("fp32", (4,), device=1)), sluice.WrongDevice, "scale_x is in cuda:1"),
        (run(at("fp32", (4,), 2)), sluice.Misaligned, "scale_x = 0x"),
        (run(at("fp32", (4,), 64), out=at("bf16", (4, 128), 0)), sluice.Aliasing, "overlaps scale_x"),
        (run(on_gpu("fp32", (4,)), x=on_gpu("bf16", (4, 256)), weights=FORMAT, blob=a_blob(128, 256)), sluice.InvalidArgument,
         "scale_x is given and x is bf16: only e4m3 tokens have scales"),
        (run(weights=FORMAT, blob=a_blob(128, 256)), sluice.InvalidConfig, "need the order byte"),
        (run(weights=eights, blob=a_blob(128, 256, eights)), sluice.InvalidConfig, "its weights must be uint4"),
        (run(x=on_gpu("fp32", (4, 256))), sluice.InvalidType, "x is fp32 and must be fp16, bf16 or e4m3"),
        (run(x=on_gpu("e4m3", (4, 256), (264, 1))), sluice.Misaligned, "a.ld = 264 must be a multiple of 16"),
        (run(x=on_gpu("bf16", (4, 256)), weights=FORMAT, blob=a_blob(128, 256), out=on_gpu("e4m3", (4, 128))), sluice.InvalidType,
         "e4m3"),
    ]
    for call, kind, mention in cases:
        with pytest.raises(kind) as caught:
            assert launches_of(call) == 0
        assert mention in str(caught.value)


def test_empty_packed_products():
    assert launches_of(lambda: packed_mm(on_gpu("bf16", (0, 256)), a_blob(128, 256), on_gpu("bf16", (0, 128)), 128, 256)) == 0
    assert launches_of(lambda: packed_mm(on_gpu("bf16", (4, 0), (1, 1)), on_gpu("uint8", (0,)), on_gpu("bf16", (4, 128)), 128,
                                        0)) == 1, "the sum over nothing is written"


def test_packed_products_with_what_stands_around_them():
    x, blob, out, c = on_gpu("bf16", (4, 256)), a_blob(256, 256), on_gpu("bf16", (4, 256)), on_gpu("bf16", (4, 256), (264, 1))
    half, gamma = on_gpu("bf16", (4, 128)), on_gpu("bf16", (256,))
    assert launches_of(lambda: packed_mm(x, blob, out, 256, 256, c=c)) == 1
    assert launches_of(lambda: packed_mm(x, blob, out, 256, 256, c=out)) == 1, "c may be out itself"
    assert launches_of(lambda: packed_mm(x, blob, half, 256, 256, activation=3, gated=True)) == 1
    assert launches_of(lambda: packed_mm(x, blob, out, 256, 256, gamma=gamma, epsilon=1e-6)) == 1
    shard, wide = on_gpu("uint8", (2 * FORMAT.numbers(72, 256).blob_bytes,)), on_gpu("bf16", (4, 72))
    assert launches_of(lambda: packed_mm(x, shard, wide, 144, 256, activation=3, gated=True)) == 1
    bytes_blob, q = a_blob(256, 256, BYTES), on_gpu("e4m3", (4, 256))
    assert launches_of(lambda: packed_mm(on_gpu("e4m3", (4, 256)), bytes_blob, q, 256, 256, weights=BYTES,
                                         scale_d=on_gpu("fp32", (1,)))) == 1
    sluice.prepare(sluice.Problem(4, 256, 256, packed=FORMAT, c="bf16", c_ld=264))
    sluice.prepare(sluice.Problem(4, 256, 256, packed=FORMAT, gated=True, activation="silu"))
    sluice.prepare(sluice.Problem(4, 256, 256, packed=FORMAT, norm_a=True))
    cases = [
        (lambda: packed_mm(x, blob, out, 256, 256, c=on_gpu("fp32", (4, 256))), sluice.InvalidType, "c is fp32 and must be bf16"),
        (lambda: packed_mm(x, blob, out, 256, 256, c=on_gpu("bf16", (4, 128))), sluice.InvalidSize, "c has shape (4, 128)"),
        (lambda: packed_mm(x, blob, out, 256, 256, gated=True), sluice.InvalidSize, "out has shape (4, 256) and must have (4, 128)"),
        (lambda: packed_mm(x, a_blob(144, 256), wide, 144, 256, gated=True), sluice.InvalidSize, "packed as those of a gated product"),
        (lambda: packed_mm(x, a_blob(272, 256), on_gpu("bf16", (4, 132)), 264, 256, gated=True), sluice.InvalidSize,
         "blob has shape"),
        (lambda: packed_mm(x, blob, out, 256, 256, gamma=on_gpu("bf16", (128,))), sluice.InvalidSize, "gamma has shape (128,)"),
        (lambda: packed_mm(x, blob, out, 256, 256, gamma=on_gpu("fp16", (256,))), sluice.InvalidType, "gamma is fp16"),
        (lambda: packed_mm(x, blob, out, 256, 256, scale_b=on_gpu("fp32", (1,))), sluice.InvalidArgument, "scale_b is given"),
        (lambda: packed_mm(x, blob, out, 256, 256, alpha=2.0), sluice.InvalidArgument, "alpha and beta must be 1"),
        (lambda: packed_mm(x, blob, out, 256, 256, add=True), sluice.InvalidArgument, "update SLUICE_SET"),
    ]
    for call, kind, mention in cases:
        with pytest.raises(kind) as caught:
            assert launches_of(call) == 0
        assert mention in str(caught.value)


def test_what_a_packed_product_refuses():
    x, blob, out = on_gpu("bf16", (4, 256)), a_blob(128, 256), on_gpu("bf16", (4, 128))
    whole = lib.sluice_fake_memory(1 << 20, 0)

    def at(dtype, shape, offset):
        return tvm_ffi.from_dlpack(OnGpu(dtype, shape, data=whole + offset))

    size = FORMAT.numbers(128, 256).blob_bytes
    cases = [
        (lambda: packed_mm(on_gpu("bf16", (4, 250)), blob, out, 128, 256), sluice.InvalidSize, "x has shape (4, 250)"),
        (lambda: packed_mm(on_gpu("bf16", (8, 256), (0, 1)), blob, on_gpu("bf16", (8, 128)), 128, 256), sluice.InvalidStride,
         "x has shape (8, 256)"),
        (lambda: packed_mm(on_gpu("fp32", (4, 256)), blob, out, 128, 256), sluice.InvalidType, "x is fp32"),
        (lambda: packed_mm(on_gpu("bf16", (4, 256), (257, 1)), blob, out, 128, 256), sluice.Misaligned, "a.ld = 257"),
        (lambda: packed_mm(x, on_gpu("uint8", (size - 1,)), out, 128, 256), sluice.InvalidSize, "packed.blob has shape"),
        (lambda: packed_mm(x, on_gpu("fp32", (size,)), out, 128, 256), sluice.InvalidType, "packed.blob is fp32"),
        (lambda: packed_mm(x, at("uint8", (size,), 64), out, 128, 256), sluice.Misaligned, "packed.blob = 0x"),
        (lambda: packed_mm(at("bf16", (4, 256), 8), blob, out, 128, 256), sluice.Misaligned, "x = 0x"),
        (lambda: packed_mm(at("bf16", (4, 256), 0), blob, at("bf16", (4, 128), 1024), 128, 256), sluice.Aliasing, "out (0x"),
        (lambda: packed_mm(x, blob, out, 128, 256, bias=on_gpu("bf16", (64,))), sluice.InvalidSize, "bias has shape (64,)"),
        (lambda: packed_mm(x, blob, out, 128, 256, activation=9), sluice.InvalidArgument, "activation = 9"),
        (lambda: packed_mm(x, blob, out, 128, 256, weights=sluice.WeightFormat("uint4", 64, zeros=True, order="byte")),
         sluice.InvalidConfig, "order half"),
        (lambda: packed_mm(None, blob, out, 128, 256), sluice.InvalidArgument, "x is missing"),
        (lambda: binding.packed_mm(x, blob, None, None, out, FORMAT, 128.0, 256, 0), sluice.InvalidArgument, "n = 128"),
    ]
    for call, kind, mention in cases:
        with pytest.raises(kind) as caught:
            assert launches_of(call) == 0
        assert mention in str(caught.value)


def test_what_packing_on_a_gpu_refuses():
    codes, scales, zeros, blob = on_gpu("uint8", (100, 256)), on_gpu("fp16", (100, 4)), on_gpu("fp16", (100, 4)), a_blob(100, 256)
    cases = [
        (lambda: binding.pack_codes(codes, scales, None, blob, FORMAT.values), sluice.InvalidArgument, "zeros is missing"),
        (lambda: binding.pack_codes(codes, on_gpu("fp16", (100, 5)), zeros, blob, FORMAT.values), sluice.InvalidSize,
         "(100, 5) and must have (100, 4)"),
        (lambda: binding.pack_codes(on_gpu("uint8", (100, 256), (1, 100)), scales, zeros, blob, FORMAT.values),
         sluice.InvalidStride, "codes.contiguous()"),
        (lambda: binding.pack_codes(codes, scales, zeros, blob, (9, *FORMAT.values[1:])), sluice.InvalidArgument, "type = 10"),
    ]
    for call, kind, mention in cases:
        with pytest.raises(kind) as caught:
            assert launches_of(call) == 0
        assert mention in str(caught.value)
    np = pytest.importorskip("numpy")
    with pytest.raises(sluice.WrongDevice, match="scales is in host memory and codes in cuda:0"):
        binding.pack_codes(codes, np.zeros((100, 4), np.float16), zeros, blob, FORMAT.values)
