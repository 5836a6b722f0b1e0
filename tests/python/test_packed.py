# SPDX-License-Identifier: Apache-2.0
"""Packed weights without a GPU. Blobs are compared byte by byte with a writer of docs/packing.md, and unpacked again.

Further tests cover parts, plans and errors. They run on numpy arrays, and on torch tensors where torch is installed. With a
GPU, the kernel must give those very bytes.
"""
import dataclasses
import random

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("tvm_ffi")

import packed_layout  # noqa: E402
import sluice  # noqa: E402
import sluice.weights as sw  # noqa: E402

WIDTH = {"fp16": 2, "bf16": 2, "fp32": 4, "e8m0": 1}
# Shapes end in the middle of a strip in n, of a tile in k, or of a group; or they are whole.
FORMATS = [("uint4", 32, "fp16", True, "half", 70, 200), ("uint4", 64, "fp16", False, "half", 64, 128),
           ("uint4", 128, "fp32", True, "half", 130, 136), ("uint4", 0, "fp16", True, "half", 65, 300),
           ("uint4", 0, "fp32", False, "half", 5, 8), ("uint4", 64, "fp32", True, "byte", 70, 200),
           ("uint4", 0, "fp16", False, "byte", 64, 129), ("int8", 32, "fp16", False, "half", 70, 200),
           ("int8", 128, "fp32", True, "half", 64, 250), ("int8", 0, "fp16", True, "half", 66, 40),
           ("e4m3", 64, "fp16", False, "half", 70, 200), ("e4m3", 0, "fp32", False, "half", 64, 128),
           ("e2m1", 32, "e8m0", False, "half", 70, 200), ("e2m1", 32, "e8m0", False, "half", 64, 128)]


def random_arrays(kind, group, scale, zeros, n, k):
    rng = random.Random(f"{kind} {group} {scale} {n} {k}")
    codes = np.array([[rng.randrange(16 if kind in ("uint4", "e2m1") else 256) for _ in range(k)] for _ in range(n)], np.uint8)
    shape = (n, -(-k // group) if group else 1)
    if scale == "e8m0":
        return codes, np.array([[rng.randrange(255) for _ in range(shape[1])] for _ in range(n)], np.uint8), None
    type_ = {"fp16": np.float16, "fp32": np.float32}[scale]
    values = [np.array([[rng.uniform(-3, 3) for _ in range(shape[1])] for _ in range(n)], type_) for _ in range(2)]
    return codes, values[0], values[1] if zeros else None


def bytes_of(values):
    return None if values is None else [[value.tobytes() for value in row] for row in values]


def host(array):
    return array if isinstance(array, np.ndarray) else array.cpu().numpy()


@pytest.mark.parametrize("kind, group, scale, zeros, order, n, k", FORMATS)
def test_blobs_are_the_pages_byte_for_byte_and_come_back(library, kind, group, scale, zeros, order, n, k):
    codes, scales, zero_values = random_arrays(kind, group, scale, zeros, n, k)
    packed = sluice.pack(library(codes), library(scales), None if zero_values is None else library(zero_values), type=kind,
                         group=group, order=order)
    expected = packed_layout.blob(kind, group, WIDTH[scale], order, codes, bytes_of(scales), bytes_of(zero_values))
    assert host(packed.blob).tobytes() == expected
    assert packed.format == sluice.WeightFormat(kind, group, scale, zeros, order) and packed.shape == (n, k)
    assert packed.nbytes == len(expected) and packed.stored_bits == pytest.approx(8 * len(expected) / (n * k))
    back = packed.unpack()
    assert (host(back.codes) == codes).all() and host(back.scales).tobytes() == scales.tobytes()
    assert back.zeros is None if zero_values is None else host(back.zeros).tobytes() == zero_values.tobytes()
    if kind != "e4m3":
        again = sluice.pack_quantized(packed.quantized(), order=order)
        assert host(again.blob).tobytes() == expected and again.format == packed.format


@pytest.mark.parametrize("n", [16, 144, 256])
@pytest.mark.parametrize("kind, group, zeros, order", [("uint4", 64, True, "half"), ("uint4", 0, True, "byte"), ("e4m3", 0, False, "half"),
                                                       ("e2m1", 32, False, "half")])
def test_gated_weights_are_the_blobs_of_their_halves(library, n, kind, group, zeros, order):
    scale = "e8m0" if kind == "e2m1" else "fp16"
    arrays = [None if a is None else library(a) for a in random_arrays(kind, group, scale, zeros, n, 200)]
    packed = sluice.pack(*arrays, type=kind, group=group, order=order, gated=True)
    halves = [sluice.pack(*(None if a is None else a[rows] for a in arrays), type=kind, group=group, order=order)
              for rows in (slice(0, n // 2), slice(n // 2, n))]
    assert host(packed.blob).tobytes() == b"".join(host(half.blob).tobytes() for half in halves)
    assert packed.gated and packed.shape == (n, 200) and packed.stored_bits == pytest.approx(8 * packed.nbytes / (n * 200))
    for half, wanted in zip(packed.halves(), halves):
        assert host(half.blob).tobytes() == host(wanted.blob).tobytes() and half.shape == wanted.shape and not half.gated
    for got, given in zip(packed.unpack(), arrays):
        assert got is given if given is None else host(got).tobytes() == host(given).tobytes()
    plain = sluice.pack(*arrays, type=kind, group=group, order=order)
    assert (host(plain.blob).tobytes() == host(packed.blob).tobytes()) == (n % 128 == 0)
    part = packed.slice_k(128, 200)
    assert part.gated and part.nbytes < packed.nbytes
    assert [host(half.slice_k(128, 200).blob).tobytes() for half in halves] == [host(half.blob).tobytes() for half in part.halves()]


def test_gated_and_plain_weights_are_not_mistaken():
    codes, scales, _ = random_arrays("uint4", 64, "fp16", False, 144, 128)
    plain, gated = sluice.pack(codes, scales, group=64), sluice.pack(codes, scales, group=64, gated=True)
    assert gated.problem(4, gated=True).gated and not plain.problem(4).gated
    for call, error, mention in (
            (lambda: plain.problem(4, gated=True), sluice.InvalidConfig, "pack the weights with gated=True"),
            (lambda: gated.problem(4), sluice.InvalidConfig, "packed.halves()"),
            (lambda: plain.halves(), sluice.InvalidConfig, "n = 144 is no multiple of 128"),
            (lambda: gated.slice_rows(0, 64), sluice.InvalidSize, "the halves lie apart"),
            (lambda: sluice.pack(codes[:136], scales[:136], group=64, gated=True), sluice.InvalidSize,
             "n = 136 of a gated product must be a multiple of 16"),
            (lambda: sluice.pack(codes, scales, group=64, gated="no"), sluice.InvalidArgument, "gated = 'no'")):
        with pytest.raises(error) as caught:
            call()
        assert mention in str(caught.value)
    even = sluice.pack(codes[:128], scales[:128], group=64)
    assert even.problem(4, gated=True).gated and len(even.halves()) == 2, "both layouts are one"
    assert sluice.pack_int4(np.ones((32, 128), np.float32), gated=True).gated


def test_mxfp4_says_what_it_takes(library):
    codes, scales, _ = random_arrays("e2m1", 32, "e8m0", False, 64, 128)
    packed = sluice.pack(library(codes), library(scales), type="e2m1")  # without a group
    assert packed.format == sluice.MXFP4 and packed.stored_bits == 4.25 and packed.problem(4).a == "bf16"
    assert "e2m1 by 32, e8m0 scales" in repr(packed)
    assert sluice.WeightFormat.from_number(sluice.MXFP4.number) == sluice.MXFP4
    spoilt = scales.copy()
    spoilt[3, 1] = 255
    for call, error, mention in (
            (lambda: sluice.pack(library(codes), library(spoilt), type="e2m1"), sluice.InvalidArgument, "scales hold 255"),
            (lambda: sluice.pack(library(codes), library(scales), type="e2m1", group=64), sluice.InvalidConfig, "groups of 32"),
            (lambda: sluice.pack(library(codes), library(scales), type="e2m1", order="byte"), sluice.InvalidConfig, "order half"),
            (lambda: sluice.pack(library(codes), library(scales.astype(np.float16)), type="e2m1"), sluice.InvalidType,
             "scales is fp16 and must be uint8"),
            (lambda: sluice.pack(library(codes), library(scales), group=32), sluice.InvalidType, "scales is uint8 and must be fp16"),
            (lambda: sluice.pack_int4(packed.quantized()), sluice.InvalidArgument, "call pack_quantized"),
            (lambda: packed.problem(4, a="e4m3"), None, None),
            (lambda: sluice.plan(packed.problem(4, a="e4m3", scale_a="none")), sluice.InvalidConfig, "the weights are e2m1 and A is e4m3")):
        if error is None:
            call()
            continue
        with pytest.raises(error) as caught:
            call()
        assert mention in str(caught.value)


def test_the_writer_has_the_pages_worked_examples():
    """Tests the writer itself against the examples in docs/packing.md."""
    def word(kind, order, codes):
        found = 0
        for code, row, k in codes:
            offset, bits = packed_layout.place(kind, order, code, row, k)
            assert offset == 0
            found |= bits
        return found

    half = [(1, 0, 0), (2, 0, 1), (3, 0, 8), (4, 0, 9), (5, 8, 0), (6, 8, 1), (7, 8, 8), (8, 8, 9)]
    byte = [(0, 0, 0), (7, 0, 1), (8, 0, 2), (15, 0, 3), (1, 8, 0), (6, 8, 1), (9, 8, 2), (14, 8, 3)]
    assert word("uint4", "half", half) == 0x23139A8C
    assert word("uint4", "byte", byte) == 0x6E1091EF
    assert word("int8", "half", [(0x81, 0, 0), (0x7F, 0, 1), (0x80, 8, 0), (0xFF, 8, 1)]) == 0xFBFC040F


def test_bf16_scales_and_e4m3_codes_of_torch(source_root):
    torch = pytest.importorskip("torch")
    weight = torch.randn(100, 200).bfloat16()
    packed = sluice.pack_e4m3(weight, 64)
    codes, scales, zeros = packed.unpack()
    assert packed.format == sluice.WeightFormat("e4m3", 64, "bf16") and zeros is None and scales.dtype == torch.bfloat16
    values = codes.view(torch.float8_e4m3fn).double() * scales.double().repeat_interleave(64, 1)[:, :200]
    top = scales.double().repeat_interleave(64, 1)[:, :200] * 448
    assert ((values - weight.double()).abs() <= weight.double().abs() / 16 + top * 2.0**-18 + top * 2.0**-8).all()
    assert values.abs().max() > 1, "not all zeros"
    again = sluice.pack(codes.view(torch.float8_e4m3fn), scales, type="e4m3", group=64)
    assert torch.equal(again.blob, packed.blob)


@pytest.mark.parametrize("pack, bits", [(sluice.pack_int4, 4), (sluice.pack_int8, 8)])
@pytest.mark.parametrize("group, symmetric", [(64, True), (0, False)])
def test_float_weights_are_quantised_first(library, pack, bits, group, symmetric):
    weight = library(np.random.default_rng(0).standard_normal((80, 136), np.float32))
    packed = pack(weight, group, symmetric=symmetric, scale_type="fp16")
    quantized = sw.quantize_groups(weight, group, symmetric=symmetric, scale_type="fp16", bits=bits)
    back = packed.quantized()
    assert (host(back.codes) == host(quantized.codes)).all() and (host(back.scales) == host(quantized.scales)).all()
    assert (back.zeros is None) == symmetric and back.bits == bits and back.group == group
    assert host(pack(quantized).blob).tobytes() == host(packed.blob).tobytes()


def test_views_are_made_contiguous_and_one_large_group_is_all_of_k(library):
    whole = sw.quantize_groups(library(np.random.default_rng(1).standard_normal((96, 512), np.float32)), 128, scale_type="fp16")
    part = whole.columns(128, 384)
    assert host(sluice.pack_int4(part).blob).tobytes() == host(sluice.pack_int4(whole).slice_k(128, 384).blob).tobytes()
    large = sw.quantize_groups(library(np.ones((64, 96), np.float32)), 256, scale_type="fp16")
    assert sluice.pack_int4(large).group == 0


@pytest.mark.parametrize("group", [0, 64])
def test_parts_of_a_blob_are_the_blobs_of_parts(library, group):
    quantized = sw.quantize_groups(library(np.random.default_rng(2).standard_normal((200, 500), np.float32)), group,
                                   symmetric=False, scale_type="fp16")
    quantized = dataclasses.replace(quantized, permutation=library(np.random.default_rng(3).permutation(500)))
    packed = sluice.pack_int4(quantized)
    for start, stop in ((0, 64), (64, 200), (128, 192), (0, 200)):
        part = packed.slice_rows(start, stop)
        assert host(part.blob).tobytes() == host(sluice.pack_int4(quantized.rows(start, stop)).blob).tobytes()
        assert part.shape == (stop - start, 500) and (host(part.permutation) == host(quantized.permutation)).all()
    for start, stop in ((0, 128), (128, 500), (256, 384), (0, 500)):
        part = packed.slice_k(start, stop)
        if group:
            expected = sluice.pack_int4(quantized.columns(start, stop))
        else:
            expected = sluice.pack(host(quantized.codes)[:, start:stop].copy(), host(quantized.scales), host(quantized.zeros),
                                   group=0)
        assert host(part.blob).tobytes() == host(expected.blob).tobytes() and part.shape == (200, stop - start)
        assert (host(part.permutation) == host(quantized.permutation)[start:stop]).all()


def test_a_part_of_rows_is_a_view():
    packed = sluice.pack_int4(np.ones((192, 128), np.float32))
    part = packed.slice_rows(64, 128)
    assert np.shares_memory(part.blob, packed.blob)


def test_a_file_that_is_mapped_is_read(tmp_path):
    codes, scales, _ = random_arrays("uint4", 64, "fp16", False, 64, 128)
    np.save(tmp_path / "codes.npy", codes)
    mapped = np.load(tmp_path / "codes.npy", mmap_mode="r")
    assert not mapped.flags.writeable
    assert (sluice.pack(mapped, scales, group=64).blob == sluice.pack(codes, scales, group=64).blob).all()


def test_a_type_by_another_name_is_that_type():
    packed = sluice.pack(*random_arrays("uint4", 64, "fp16", False, 64, 128)[:2], group=64, order="byte")
    for name in ("e4m3", "float8_e4m3fn"):
        problem = packed.problem(16, name)
        assert problem.scale_a == "vector"
        assert problem.struct().d.type == sluice.Problem(16, 64, 128, packed=packed.format, a="e4m3", d="bf16").struct().d.type


def test_read_only_arrays_are_read():
    """Arrays over a file's bytes are read-only; numpy itself refuses to pass those on."""
    codes, scales, zeros = random_arrays("uint4", 64, "fp16", True, 70, 200)
    expected = sluice.pack(codes, scales, zeros, group=64)
    fixed = [np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape) for array in (codes, scales, zeros)]
    packed = sluice.pack(*fixed, group=64)
    assert (packed.blob == expected.blob).all()
    packed.blob.flags.writeable = False
    assert (packed.unpack().codes == codes).all() and (packed.unpack().zeros == zeros).all()
    with pytest.raises(sluice.InvalidStride, match="ascontiguousarray"):
        sluice.pack(fixed[0].T, scales, group=64)


def test_formats_as_numbers():
    for kind, group, scale, zeros, order, _, _ in FORMATS:
        made = sluice.WeightFormat(kind, group, scale, zeros, order)
        assert sluice.WeightFormat.from_number(made.number) == made
    for wrong in (4, 1 << 10, 15 << 4, -1, 1 << 40):
        with pytest.raises(sluice.Error):
            sluice.WeightFormat.from_number(wrong)
    found = sluice.WeightFormat("uint4", 64, "fp16").numbers(200, 500)
    assert (found.groups, found.strips, found.tiles) == (8, 4, 4)
    assert (found.tile_bytes, found.tile_scales_offset, found.tile_zeros_offset) == (4352, 4096, 4352)
    assert found.blob_bytes == 4 * found.strip_bytes == 4 * 4 * 4352 and found.row_part_bytes == 0


def test_plans_of_packed_weights(cache):
    packed = sluice.pack_int4(np.ones((4096, 512), np.float32), 64, scale_type="fp16")
    plan = sluice.plan(packed.problem(16, "fp16", bias="fp32", activation="silu"))
    assert "uint4" in plan.text and "k 512" in plan.text and plan.text == sluice.explain(plan.problem) == sluice.explain(plan)
    assert plan.source == "model" and plan.workspace_bytes == 0 and plan.estimate_us > 0 and len(plan.units) == 1
    assert "silu" in plan.config and "4096x512" in repr(plan)
    chosen = sluice.plan(m=16, n=4096, k=512, packed=packed.format, warps=4, cluster=(1, 1, 2), stages=2)
    assert ".warps = 4" in chosen.config and ".n = 1, .k = 2}" in chosen.config
    narrow = sluice.plan(m=16, n=4096, k=512, packed=packed.format, schedule="narrow", tile=(16, 32), ctas=1)
    assert ".tile = {.m = 16, .n = 32," in narrow.config
    for tile, part in (((8, None), ".tile = {.m = 8,"), ((None, 64), ".n = 64, .k = 128}")):
        assert part in sluice.plan(narrow.problem, schedule="narrow", tile=tile).config
    assert sluice.plan(m=0, n=64, k=64, packed=sluice.WeightFormat()).units == ()
    wide = sluice.plan(m=300, n=4096, k=512, packed=packed.format, schedule="wide", tile=(64, 128), cluster=(1, 2), stages=4, w_stages=2)
    assert ".tile = {.m = 64," in wide.config and ".stages = 4, .cluster = {.m = 1, .n = 2," in wide.config and ".w_stages = 2" in wide.config
    assert wide.config == sluice.plan(wide.problem, tile=(64, None), cluster=(1, 2, 1), stages=4, w_stages=2).config


def test_plans_of_e4m3_tokens(cache):
    packed = sluice.pack_int4(np.ones((4096, 512), np.float32), 64, scale_type="fp16", order="byte")
    assert packed.format == sluice.WeightFormat(group=64, order="byte")
    problem = packed.problem(16)
    assert problem == sluice.Problem(16, 4096, 512, packed=packed.format, a="e4m3", scale_a="vector")
    text = sluice.plan(problem).text
    assert "A e4m3 ld 512 with a scale per token, D bf16" in text
    assert "with a scale, D fp16" in sluice.plan(packed.problem(16, scale_a="tensor", d="fp16")).text
    chosen = sluice.plan(problem, schedule="strip", tile=(32, 64), k_groups=2, cluster=(1, 1, 2), stages=4)
    assert ".tile = {.m = 32, .n = 64, .k = 128}, .stages = 4, .cluster = {.m = 1, .n = 1, .k = 2}" in chosen.config
    assert ".k_groups = 2" in chosen.config
    assert packed.unpack().codes.shape == (4096, 512)


def test_the_sizes_of_the_gpu_tests_meet_every_kernel(cache):
    """Checks which kernel is planned for each size, on the GPU that is assumed without one.
    test_gpu_packed.py checks it on a GPU."""
    for kind, group, scale, zeros, order, _, _ in FORMATS:
        packed = sluice.WeightFormat(kind, group, scale, zeros, order)
        for m, kernel in ((1, "narrow"), (33, "strip"), (1000, "wide")):
            for a in ("e4m3",) if order == "byte" else ("bf16", "fp16"):
                plan = sluice.plan(m=m, n=4096, k=4096, packed=packed, a=a, d="fp32", scale_a="vector" if a == "e4m3" else "none")
                assert f"Schedule::{'strip' if a == 'e4m3' else kernel}," in plan.config


def test_kernels_and_packers_are_compiled_ahead(cache, has_nvrtc):
    if not has_nvrtc:
        pytest.skip("no NVRTC")
    format = sluice.WeightFormat(group=64)  # noqa: A001
    items = [sluice.Problem(4, 256, 256, packed=format), sluice.plan(m=4, n=256, k=256, packed=format)]
    assert sluice.compile(items, packers=[format]) == (3, 0, 0), "equal kernels once, and two of the packer"
    assert sluice.compile(items, packers=[format]) == (0, 3, 0)


def test_shards_say_how_wide_the_tokens_are():
    """A shard's permutation counts columns of the whole token, however the shard was cut, and the shard can
    be packed again."""
    rng = np.random.default_rng(0)
    codes, scales, _ = random_arrays("uint4", 128, "fp16", False, 64, 384)
    permutation = rng.permutation(384)
    whole = sluice.pack(codes, scales, permutation=permutation)
    assert whole.width is None and whole.token_width == 384
    shard = whole.slice_k(128, 384)
    assert (shard.width, shard.token_width, shard.k) == (384, 384, 256)
    assert shard.slice_k(0, 128).width == 384 and shard.slice_rows(0, 64).width == 384
    assert shard.quantized().width == 384 and sluice.pack_quantized(shard.quantized()).width == 384
    assert (sluice.pack_quantized(whole.quantized().columns(128, 384)).blob == shard.blob).all()
    assert whole.quantized().columns(128, 384).columns(0, 128).rows(0, 8).width == 384
    plain = sluice.pack(codes, scales)
    assert plain.slice_k(0, 128).width is None and plain.slice_k(0, 128).token_width == 128
    assert sluice.pack(codes, scales, permutation=permutation.astype(np.int32) + 100, width=500).token_width == 500


def codes_and_scales(n=64, k=128):
    return np.zeros((n, k), np.uint8), np.ones((n, k // 128), np.float16)


def bad_calls():
    codes, scales = codes_and_scales()
    packed = sluice.pack(codes, scales)
    quantized = packed.quantized()
    yield "a code past 15", lambda: sluice.pack(codes + 16, scales), sluice.InvalidArgument, "codes[0][0] = 16"
    yield "signed codes", lambda: sluice.pack(codes.astype(np.int8), scales), sluice.InvalidType, "add 8"
    yield "codes of one dimension", lambda: sluice.pack(codes[0], scales), sluice.InvalidSize, "n x k"
    yield "gaps in codes", lambda: sluice.pack(np.zeros((64, 256), np.uint8)[:, ::2], scales), sluice.InvalidStride, \
        "codes.contiguous()"
    yield "shape of scales", lambda: sluice.pack(codes, scales[:10]), sluice.InvalidSize, "(10, 1) and must have (64, 1)"
    yield "type of scales", lambda: sluice.pack(codes, scales.astype(np.float64)), sluice.InvalidType, "scales is fp64"
    yield "shape of zeros", lambda: sluice.pack(codes, scales, scales[:10]), sluice.InvalidSize, "zeros has shape (10, 1)"
    yield "type of zeros", lambda: sluice.pack(codes, scales, scales.astype(np.float32)), sluice.InvalidType, \
        "zeros is fp32 and the format says fp16"
    yield "zeros of e4m3", lambda: sluice.pack(codes, scales, scales, type="e4m3"), sluice.InvalidConfig, "e4m3 weights have no"
    yield "a group without kernels", lambda: sluice.pack(codes, scales, group=48), sluice.InvalidConfig, "32, 64, 128"
    yield "a large group", lambda: sluice.pack_int4(np.ones((8, 512), np.float32), 256), sluice.InvalidConfig, "group = 256"
    yield "bytes for 8 bits", lambda: sluice.pack(codes, scales, type="int8", order="byte"), sluice.InvalidConfig, "16-bit tokens"
    yield "a type that is none", lambda: sluice.pack(codes, scales, type="int3"), sluice.InvalidArgument, "uint4, int8, e4m3"
    yield "lists", lambda: sluice.pack([[1]], scales), sluice.InvalidType, "codes is list"
    yield "a group for quantised weights", lambda: sluice.pack_int4(quantized, 64), sluice.InvalidArgument, "leave group"
    yield "4 bits as 8", lambda: sluice.pack_int8(quantized), sluice.InvalidArgument, "call pack_int4"
    yield "e4m3 of numpy", lambda: sluice.pack_e4m3(scales), sluice.InvalidType, "torch tensor"
    yield "a blob of another length", lambda: dataclasses.replace(packed, n=65), sluice.InvalidSize, "65 x 128 weights"
    yield "a blob of another type", lambda: dataclasses.replace(packed, blob=packed.blob.view(np.int8)), \
        sluice.InvalidType, "uint8"
    yield "signed codes by name", lambda: sluice.pack(codes.astype(np.int8), scales), sluice.InvalidType, "codes is int8 and"
    yield "codes of 32 bits", lambda: sluice.pack(codes.astype(np.int32), scales), sluice.InvalidType, "codes is int32 and"
    yield "codes that are truths", lambda: sluice.pack(codes.astype(bool), scales), sluice.InvalidType, "codes is bool and"
    yield "a column twice", lambda: sluice.pack(codes, scales, permutation=np.r_[np.arange(127), 5]), sluice.InvalidArgument, \
        "permutation holds 5 twice"
    yield "a column below 0", lambda: sluice.pack(codes, scales, permutation=np.arange(128) - 1), sluice.InvalidArgument, \
        "permutation holds -1"
    yield "a column past the tokens", lambda: sluice.pack(codes, scales, permutation=np.arange(128) + 1), \
        sluice.InvalidArgument, "permutation holds 128 and must hold columns of the tokens, 0 to 127"
    yield "a column past the width", lambda: sluice.pack(codes, scales, permutation=np.arange(128) + 173, width=300), \
        sluice.InvalidArgument, "0 to 299"
    yield "a permutation of floats", lambda: sluice.pack(codes, scales, permutation=np.arange(128.0)), sluice.InvalidType, "fp64"
    yield "a permutation too short", lambda: sluice.pack(codes, scales, permutation=np.arange(64)), sluice.InvalidSize, "(128,)"
    yield "a column twice, quantised", lambda: sluice.pack_quantized(dataclasses.replace(quantized, permutation=np.zeros(128, int))), \
        sluice.InvalidArgument, "holds 0 twice"
    yield "a width of nothing", lambda: dataclasses.replace(packed, permutation=None, width=300), sluice.InvalidArgument, \
        "there is none: leave it out"
    yield "a width below k", lambda: dataclasses.replace(packed, permutation=np.arange(128), width=64), \
        sluice.InvalidSize, "width = 64 is less than k = 128"
    yield "a permutation of another length", lambda: dataclasses.replace(packed, permutation=np.arange(64)), \
        sluice.InvalidSize, "(128,)"
    yield "a slice in a strip", lambda: packed.slice_rows(0, 32), sluice.InvalidSize, "multiples of 64"
    yield "a slice in a tile", lambda: packed.slice_k(0, 64), sluice.InvalidSize, "multiples of 128"
    yield "an empty slice", lambda: packed.slice_k(64, 64), sluice.InvalidSize, "at least one"
    yield "e4m3 as integers", lambda: sluice.pack(codes, scales, type="e4m3").quantized(), sluice.InvalidType, "unpack()"
    yield "another device", lambda: packed.to("cuda"), sluice.InvalidType, "ndarray"
    yield "e4m3 tokens and their weights' order", lambda: sluice.plan(packed.problem(4, "e4m3")), sluice.InvalidConfig, \
        "A is e4m3: 8-bit tokens need the order byte"
    yield "scales of 16-bit tokens", lambda: sluice.plan(packed.problem(4, "bf16", scale_a="vector")), \
        sluice.InvalidType, "only e4m3 tokens have scales"
    yield "a scale that is none", lambda: sluice.plan(packed.problem(4, scale_a="row")), sluice.InvalidArgument, "row"
    yield "an order that is none", lambda: sluice.pack_int4(np.ones((8, 512), np.float32), order="e4m3"), \
        sluice.InvalidArgument, "half, byte"
    for choices in (dict(k_groups=2, warps=4), dict(schedule="strip", warps=4), dict(schedule="narrow", w_stages=2),
                    dict(schedule="wide", cluster=(1, 1, 2)), dict(schedule="narrow", tile=(12, None)), dict(schedule="strip", tile=(None, 96))):
        yield f"a choice of another kernel: {choices}", lambda choices=choices: sluice.plan(packed.problem(4), **choices), \
            sluice.InvalidConfig, "ask for one of them"
    for schedule in ("ping_pong", "plain"):
        yield f"the schedule {schedule}", lambda schedule=schedule: sluice.plan(packed.problem(4), schedule=schedule), \
            sluice.InvalidConfig, f"schedule = {schedule}: schedule must be narrow, wide or strip"
    for choice in (dict(splits=2), dict(raster="along_m"), dict(store="tma"), dict(swapped=True), dict(clusters=4), dict(combine="add")):
        yield f"a choice of matrices: {choice}", lambda choice=choice: sluice.plan(packed.problem(4), **choice), sluice.InvalidConfig, \
            "are for weights that are not packed"
    yield "e5m2 tokens", lambda: sluice.plan(packed.problem(4, "e5m2")), sluice.InvalidType, "A is e5m2"
    yield "a plan of ragged tokens", lambda: sluice.plan(m=4, n=64, k=100, packed=packed.format), sluice.Misaligned, "multiple of 8"
    yield "a plan of byte order", lambda: sluice.plan(m=4, n=64, k=128, packed=sluice.WeightFormat(order="byte")), \
        sluice.InvalidConfig, "order half"
    for wrong in ("int4", True, packed):
        yield f"packed that is no format: {wrong}", lambda wrong=wrong: sluice.plan(m=4, n=64, k=128, packed=wrong), \
            sluice.InvalidArgument, "must be a sluice.WeightFormat: pass the format of PackedWeights"
    yield "a field that is none", lambda: packed.problem(4, weights="int4"), sluice.InvalidCall, "Problem takes no 'weights': did you mean packed?"
    yield "choices that do not fit", lambda: sluice.plan(packed.problem(4), stages=1), sluice.InvalidConfig, "stages"
    yield "a C of another type", lambda: packed.problem(4, c="fp32").check(), sluice.InvalidType, "is fp32 and d is bf16"
    yield "a C of another type than d", lambda: packed.problem(4, c="bf16", d="fp32").check(), sluice.InvalidType, "is bf16 and d is fp32"
    yield "a norm without packed weights", lambda: sluice.Problem(4, 64, 128, norm_a=True).check(), sluice.InvalidArgument, \
        "norm_a = True and packed = None"
    yield "a norm that is a number", lambda: packed.problem(4, norm_a=1).check(), sluice.InvalidArgument, "norm_a = 1 must be True or False"
    for name, value in (("b", "bf16"), ("b", "e4m3"), ("b_major", "mn"), ("b_ld", 128), ("b_batch_stride", 8192), ("b_unaligned", True),
                        ("batch", 2), ("a_major", "mn"), ("scale_b", "tensor"), ("update", "add"), ("a_unaligned", True), ("d_batch_stride", 9)):
        yield f"{name} = {value} of packed weights", lambda given={name: value}: packed.problem(4, **given).check(), sluice.InvalidArgument, \
            f"{name} = {value!r} and packed is given"


@pytest.mark.parametrize("call, kind, mention", [row[1:] for row in bad_calls()], ids=[row[0] for row in bad_calls()])
def test_bad_calls_raise_what_fits_and_name_the_argument(call, kind, mention):
    with pytest.raises(kind) as caught:
        call()
    assert mention in str(caught.value)
