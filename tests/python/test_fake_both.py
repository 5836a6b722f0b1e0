# SPDX-License-Identifier: Apache-2.0
"""The quantiser of both orders on the fake GPU of tests/unit, below sluice.torch: launches and refusals."""
import pytest

from fake_gpu import CODES, launches_of, on_gpu
from sluice import _binding as f
from sluice import errors

CODES.update({"e5m2": (12, 8)})
TENSOR, ROW, ROW_BLOCK, SQUARE = range(4)
ROWS, COLUMNS, UP = 300, 512, 384
SCALES = {TENSOR: (1, None), ROW: (300, 512), ROW_BLOCK: (300 * 4, 512 * 3), SQUARE: (3 * 4, 4 * 3)}


def call(granularity=ROW, kind="e4m3", **more):
    rows, columns = SCALES[granularity]
    arrays = {"input": on_gpu("bf16", (ROWS, COLUMNS)), "output": on_gpu(kind, (ROWS, COLUMNS)), "scales": on_gpu("fp32", (rows,)),
              "output_t": on_gpu(kind, (COLUMNS, UP)), "scales_t": None if columns is None else on_gpu("fp32", (columns,)), **more}
    f.quantize_both(*[part for name, value in arrays.items() for part in (f.FIELDS[name], value)], f.GRANULARITY, granularity)


def test_scales_by_blocks_take_one_launch_and_others_two():
    for kind in ("e4m3", "e5m2"):
        for granularity, launches in ((TENSOR, 2), (ROW, 2), (ROW_BLOCK, 1), (SQUARE, 1)):
            assert launches_of(lambda: call(granularity, kind)) == launches, granularity
            assert launches_of(lambda: call(granularity, kind, sum=on_gpu("fp32", (3, COLUMNS)))) == launches


def test_one_order_alone():
    for granularity in (ROW, ROW_BLOCK, SQUARE):
        assert launches_of(lambda: call(granularity, output=None, scales=None)) >= 1
        assert launches_of(lambda: call(granularity, output_t=None, scales_t=None)) >= 1
    assert launches_of(lambda: call(TENSOR, output=None)) == 2
    with pytest.raises(errors.InvalidArgument, match="scales is missing|row_scales is missing"):
        call(TENSOR, output=None, scales=None)
    with pytest.raises(errors.InvalidArgument, match="is missing"):
        call(output=None, output_t=None)


def test_nothing_is_launched_for_no_rows():
    assert launches_of(lambda: call(ROW, input=on_gpu("bf16", (0, COLUMNS)), output=on_gpu("e4m3", (0, COLUMNS)), scales=on_gpu("fp32", (0,)),
                                    output_t=on_gpu("e4m3", (COLUMNS, 0)))) == 0


def gated(columns, **more):
    """Calls the quantiser with an input of gate and up; ``columns`` are the output's."""
    sizes = {"scales": on_gpu("fp32", (ROWS,)), "scales_t": on_gpu("fp32", (columns,))}
    call(ROW, output=on_gpu("e4m3", (ROWS, columns)), output_t=on_gpu("e4m3", (columns, UP)), **{**sizes, "gate": 1, **more})


def test_swiglu_and_its_gradient():
    dy = on_gpu("bf16", (ROWS, COLUMNS // 2))
    assert launches_of(lambda: gated(COLUMNS // 2)) == 2 and launches_of(lambda: gated(COLUMNS, grad_output=dy)) == 2
    for error, words, columns, more in (
            (errors.InvalidArgument, "gradient is given without a gate", COLUMNS, {"gate": 0, "grad_output": dy}),
            (errors.InvalidType, "bf16 or fp16 with a gate", COLUMNS // 2, {"input": on_gpu("fp32", (ROWS, COLUMNS))}),
            (errors.InvalidSize, "a multiple of 32 columns.*gate and up with zeros, each", 24, {"input": on_gpu("bf16", (ROWS, 48))}),
            (errors.InvalidSize, r"gradient has shape \(300, 512\)", COLUMNS, {"grad_output": on_gpu("bf16", (ROWS, COLUMNS))}),
            (errors.InvalidType, "gradient is fp16", COLUMNS, {"grad_output": on_gpu("fp16", (ROWS, COLUMNS // 2))}),
            (errors.InvalidSize, "rows has shape", COLUMNS, {}),
            (errors.InvalidStride, "gradient_ld = 260", COLUMNS, {"grad_output": on_gpu("bf16", (ROWS, COLUMNS // 2), (260, 1))})):
        with pytest.raises(error, match=words):
            gated(columns, **more)


@pytest.mark.parametrize("error, words, more", [
    (errors.InvalidType, "input is e4m3", {"input": on_gpu("e4m3", (ROWS, COLUMNS))}),
    (errors.InvalidType, "rows is bf16 and must be e4m3", {"output": on_gpu("bf16", (ROWS, COLUMNS))}),
    (errors.InvalidType, "columns_t is e5m2 and must be e4m3", {"output_t": on_gpu("e5m2", (COLUMNS, UP))}),
    (errors.InvalidSize, r"rows has shape \(300, 256\)", {"output": on_gpu("e4m3", (ROWS, 256))}),
    (errors.InvalidSize, r"columns_t has shape \(512, 300\) and must have \(512, 384\)", {"output_t": on_gpu("e4m3", (COLUMNS, ROWS))}),
    (errors.InvalidSize, "300 values", {"scales": on_gpu("fp32", (301,))}),
    (errors.InvalidSize, "512 values", {"scales_t": on_gpu("fp32", (300,))}),
    (errors.InvalidSize, "1536 values", {"sum": on_gpu("fp32", (2, COLUMNS))}),
    (errors.InvalidSize, r"column_scales has shape \(512, 3\) and must have \(3, 512\)",
     {"granularity": ROW_BLOCK, "scales": on_gpu("fp32", (ROWS, 4)), "scales_t": on_gpu("fp32", (COLUMNS, 3))}),
    (errors.InvalidSize, "multiple of 16 columns", {"input": on_gpu("bf16", (ROWS, 24))}),
    (errors.InvalidStride, "input_ld = 516", {"input": on_gpu("bf16", (ROWS, COLUMNS), (516, 1))}),
    (errors.InvalidStride, "columns_t_ld = 392", {"output_t": on_gpu("e4m3", (COLUMNS, UP), (392, 1))}),
])
def test_what_it_cannot_read_or_write(error, words, more):
    with pytest.raises(error, match=words):
        call(**more)
