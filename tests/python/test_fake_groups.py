# SPDX-License-Identifier: Apache-2.0
"""Products of groups from Python down to the launch, on the fake driver (test_fake_gpu.py)."""
import pytest

import sluice
from fake_gpu import FORMAT, launches_of, on_gpu
from sluice import _binding as f

ENDS, COUNTS = 1, 2


def rows(dtype="bf16", *, groups=ENDS, pitch=1, table="int32", count=4, **more):
    """Runs a product of 64 rows of 512 with four matrices of 512 x 256, and returns nothing."""
    a, b = on_gpu(dtype, (64, 512)), on_gpu(dtype, (4, 512, 256), (512 * 256, 1, 512))
    pairs = {f.A: a, f.B: b, f.OUT: on_gpu("bf16", (64, 256)), f.OFFS: on_gpu(table, (count,)), f.GROUPS: groups, f.GROUP_PITCH: pitch}
    f.product(*(x for pair in {**pairs, **more.pop("pairs", {})}.items() for x in pair))


@pytest.mark.parametrize("groups,pitch", [(ENDS, 1), (ENDS, 128), (COUNTS, 16)])
def test_a_table_is_read_as_the_call_says(groups, pitch):
    before = sluice.holdings().kernels
    assert launches_of(lambda: rows(groups=groups, pitch=pitch)) == 1
    assert launches_of(lambda: [rows(groups=groups, pitch=pitch) for _ in range(3)]) == 3
    assert sluice.holdings().kernels == before + 1


def test_sums_over_groups():
    a, b = on_gpu("bf16", (128, 64), (1, 128)), on_gpu("bf16", (64, 256))
    pairs = (f.A, a, f.B, b, f.OUT, on_gpu("fp32", (4, 128, 256)), f.OFFS, on_gpu("int32", (4,)), f.GROUPS, 3)
    assert launches_of(lambda: f.product(*pairs)) == 1
    assert launches_of(lambda: f.product(*pairs, f.ADD, True)) == 1, "added to main gradients"
    with pytest.raises(sluice.InvalidSize, match="three dimensions"):
        f.product(*pairs[:5], on_gpu("fp32", (128, 256)), *pairs[6:])


@pytest.mark.parametrize("scales", [((1,), (1,)), ((64,), (4, 256)), ((64, 1), (4, 256)), ((64, 4), (4, 2, 4))])
def test_scales_of_groups(scales):
    pairs = {f.SCALE_A: on_gpu("fp32", scales[0]), f.SCALE_B: on_gpu("fp32", scales[1]), f.BIAS: on_gpu("bf16", (4, 256))}
    assert launches_of(lambda: rows("e4m3", pairs=pairs)) == 1


@pytest.mark.parametrize("groups,pitch,scales", [(ENDS, 1, ((64, 4), (1, 64))), (ENDS, 128, ((64, 4), (1, 68))),
                                                (COUNTS, 16, ((4, 16, 4), (64, 1, 16))), (COUNTS, 16, ((4, 16, 4), (80, 1, 20)))])
def test_scales_by_columns(groups, pitch, scales):
    pairs = {f.SCALE_A: on_gpu("fp32", *scales), f.SCALE_B: on_gpu("fp32", (4, 2, 4))}
    before = sluice.holdings().kernels
    assert launches_of(lambda: rows("e4m3", groups=groups, pitch=pitch, pairs=pairs)) == 1
    sluice.prepare(sluice.Problem(64, 256, 512, batch=4, a="e4m3", scale_a="block", scale_b="block", accumulate="fast",
                                  groups="ends" if groups == ENDS else "counts", group_pitch=pitch, scale_a_ld=scales[1][-1]))
    assert sluice.holdings().kernels == before + 1, "the same problem, however it is spelled"


def test_columns_that_do_not_lie_so_are_refused():
    for groups, shape, strides in [(ENDS, (64, 4), (1, 60)), (ENDS, (64, 4), (2, 128)), (COUNTS, (64, 4), (1, 64)),
                                   (COUNTS, (4, 16, 4), (64, 1, 12)), (COUNTS, (4, 16, 4), (100, 1, 16))]:
        pairs = {f.SCALE_A: on_gpu("fp32", shape, strides), f.SCALE_B: on_gpu("fp32", (4, 2, 4))}
        with pytest.raises(sluice.InvalidSize) as raised:
            rows("e4m3", groups=groups, pitch=16, pairs=pairs)
        assert "row-major or by columns" in str(raised.value) and ".contiguous()" in str(raised.value), raised.value
        assert ("(4, 16, 4)" in str(raised.value)) == (groups == COUNTS), raised.value


def test_both_products_of_an_expert():
    blocks = {f.SCALE_A: on_gpu("fp32", (64, 4)), f.SCALE_B: on_gpu("fp32", (4, 2, 4))}
    quantised = {**blocks, f.GATED: True, f.ACTIVATION: 3, f.OUT: on_gpu("e4m3", (64, 128)), f.SCALE_OUT: on_gpu("fp32", (64, 1))}
    assert launches_of(lambda: rows("e4m3", pairs=quantised)) == 1
    assert launches_of(lambda: rows("e4m3", pairs={**blocks, f.ROW_FACTORS: on_gpu("fp32", (64,))})) == 1
    for words, more in [("scale_out has shape (64, 2)", {**quantised, f.SCALE_OUT: on_gpu("fp32", (64, 2))}),
                        ("scale_out and scale_d are given", {**quantised, f.SCALE_D: on_gpu("fp32", (1,))}),
                        ("row_factors has shape (4,)", {**blocks, f.ROW_FACTORS: on_gpu("fp32", (4,))})]:
        with pytest.raises((sluice.InvalidArgument, sluice.InvalidSize)) as raised:
            rows("e4m3", pairs=more)
        assert words in str(raised.value), raised.value


def slots(dtype="bf16", *, table=(16,), pitch=8, out=(16, 256), **more):
    """Runs the product of two rows of 512 with the matrices of 16 slots, of four groups."""
    a, b = on_gpu(dtype, (2, 512)), on_gpu(dtype, (4, 512, 256), (512 * 256, 1, 512))
    pairs = {f.A: a, f.B: b, f.OUT: on_gpu("bf16", out), f.OFFS: on_gpu("int32", table), f.GROUPS: 4, f.GROUP_PITCH: pitch}
    f.product(*(x for pair in {**pairs, **more.pop("pairs", {})}.items() for x in pair))


def test_slots_have_a_row_each():
    before = sluice.holdings().kernels
    assert launches_of(slots) == 1
    sluice.prepare(sluice.Problem(16, 256, 512, batch=4, groups="slots", group_pitch=8))
    assert sluice.holdings().kernels == before + 1, "the same problem, however it is spelled"
    blocks = {f.SCALE_A: on_gpu("fp32", (2, 4)), f.SCALE_B: on_gpu("fp32", (4, 2, 4))}
    assert launches_of(lambda: slots("e4m3", pairs=blocks)) == 1
    assert launches_of(lambda: slots("e4m3", out=(16, 128), pairs={**blocks, f.GATED: True, f.ACTIVATION: 3})) == 1
    assert launches_of(lambda: slots("e4m3", pairs={f.SCALE_A: on_gpu("fp32", (2, 1)), f.SCALE_B: on_gpu("fp32", (4, 256)),
                                                    f.BIAS: on_gpu("bf16", (4, 256))})) == 1
    by_columns = {**blocks, f.SCALE_A: on_gpu("fp32", (2, 4), (1, 4))}
    assert launches_of(lambda: slots("e4m3", pairs=by_columns)) == 1
    assert launches_of(lambda: slots(table=(0,), out=(0, 256), pairs={f.A: on_gpu("bf16", (0, 512))})) == 0, "nothing to do"
    for words, more in [("scale_a has shape (16, 4)", dict(dtype="e4m3", pairs={**blocks, f.SCALE_A: on_gpu("fp32", (16, 4), (1, 16))})),
                        ("row_factors", dict(dtype="e4m3", pairs={**blocks, f.ROW_FACTORS: on_gpu("fp32", (16,))})),
                        ("offs has shape (4,)", dict(table=(4,))), ("a number for each row", dict(table=(15,))),
                        ("must have (16, 256)", dict(out=(2, 256))), ("group_pitch = -1", dict(pitch=-1)),
                        ("scale_a has shape (16, 4)", dict(dtype="e4m3", pairs={**blocks, f.SCALE_A: on_gpu("fp32", (16, 4))})),
                        ("quantise D in a kernel of its own", dict(dtype="e4m3", out=(16, 256), pairs={
                            **blocks, f.OUT: on_gpu("e4m3", (16, 256)), f.SCALE_OUT: on_gpu("fp32", (16, 2))}))]:
        with pytest.raises((sluice.InvalidArgument, sluice.InvalidSize, sluice.InvalidType)) as raised:
            slots(**more)
        assert words in str(raised.value), raised.value


def test_prepared_problems_serve_calls():
    sluice.prepare(sluice.Problem(64, 256, 512, batch=4, groups="ends", group_pitch=32))
    before = sluice.holdings().kernels
    assert launches_of(lambda: rows(pitch=32)) == 1
    assert sluice.holdings().kernels == before


def test_what_is_no_table_is_refused():
    for words, more in [("offs is uint8 and must be int32", dict(table="uint8")), ("offs has shape (3,)", dict(count=3)),
                        ("groups = 7 must be in 0..4", dict(groups=7)), ("groups = 0: say how", dict(groups=0)),
                        ("groups.pitch = -4", dict(pitch=-4)), ("offs is missing", dict(pairs={f.OFFS: None}))]:
        with pytest.raises((sluice.InvalidArgument, sluice.InvalidSize, sluice.InvalidType)) as raised:
            rows(**more)
        assert words in str(raised.value), raised.value


def test_packed_weights_of_groups():
    size = FORMAT.numbers(192, 256).blob_bytes
    x, out, ends = on_gpu("bf16", (40, 256)), on_gpu("bf16", (40, 192)), on_gpu("int32", (4,))
    weights = f.weights_fields((*FORMAT.values, 192, 256))

    def run(x=x, blob=on_gpu("uint8", (4, size)), out=out, offs=ends, groups=ENDS, **more):
        pairs = {f.X: x, f.PACKED_BLOB: blob, f.OUT: out, f.OFFS: offs, f.GROUPS: groups, **more.get("pairs", {})}
        f.product(*(part for pair in pairs.items() for part in pair), *weights)

    before = sluice.holdings().kernels
    assert launches_of(run) == 1
    assert launches_of(lambda: run(groups=COUNTS, pairs={f.GROUP_PITCH: 10})) == 1
    assert launches_of(lambda: run(pairs={f.BIAS: on_gpu("bf16", (4, 192)), f.ACTIVATION: 1})) == 1
    assert sluice.holdings().kernels == before + 3
    sluice.prepare(sluice.Problem(40, 192, 256, batch=4, packed=FORMAT, groups="ends"))
    assert sluice.holdings().kernels == before + 3, "the same problem, however it is spelled"
    pairs = {f.GROUP_PITCH: 2, f.OUT: on_gpu("bf16", (80, 192)), f.OFFS: on_gpu("int32", (80,))}
    assert launches_of(lambda: run(groups=4, pairs=pairs)) == 1, "slots"
    for error, words, more in [(sluice.InvalidSize, "groups x", dict(blob=on_gpu("uint8", (4 * size,)))),
                               (sluice.InvalidSize, "a number for each matrix", dict(offs=on_gpu("int32", (5,)))),
                               (sluice.InvalidType, "int32", dict(offs=on_gpu("uint8", (4,)))),
                               (sluice.InvalidArgument, "say how it is read", dict(groups=0)),
                               (sluice.InvalidType, "ends, counts or slots", dict(groups=3)),
                               (sluice.InvalidSize, "bias has shape", dict(pairs={f.BIAS: on_gpu("bf16", (192,))})),
                               (sluice.InvalidType, "a norm or residual", dict(pairs={f.C: out})),
                               (sluice.InvalidArgument, "offs is missing", dict(offs=None))]:
        with pytest.raises(error, match=words):
            run(**more)
