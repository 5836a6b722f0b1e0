# SPDX-License-Identifier: Apache-2.0
"""Casts in both orders by their definition, on the host. test_gpu_fp8_training.py compares the kernel with this reference."""
import math

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from fp8_on_host import BF16, E4M3, E5M2, FP32, bits, cosine, on_host, real, same  # noqa: E402, F401 (a fixture)
from sluice._names import GRANULARITIES  # noqa: E402


def definition(values, dtype, power_of_two=False):
    """Returns the codes and the scale of one group, element by element as the documentation says."""
    largest = {E4M3: 448.0, E5M2: 57344.0}[dtype]
    amax = torch.maximum(values.float().abs().max(), torch.tensor(1e-12))
    factor, scale = (1.0 / amax) * largest, amax * (1.0 / largest)
    if power_of_two:
        factor = torch.tensor(2.0 ** math.floor(math.log2(float(factor))))
        scale = 1.0 / factor
    return (values.float() * factor).clamp(-largest, largest).to(dtype), scale


GROUPS = {"tensor": (10**9, 10**9), "row": (1, 10**9), "1x128": (1, 128), "128x128": (128, 128)}


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("tokens", [1, 127, 129])
@pytest.mark.parametrize("dtype, power_of_two", [(E4M3, False), (E4M3, True), (E5M2, False)])
def test_both_orders_are_what_each_group_says(granularity, tokens, dtype, power_of_two):
    x = real(tokens, 144, spread=2.0)
    x[0, 3] = 0
    both = st.quantize_both_reference(x, granularity, dtype=dtype, power_of_two=power_of_two, sums=True)
    padded = -(-tokens // 128) * 128
    assert both.columns.shape == (144, padded) and (bits(both.columns)[:, tokens:] == 0).all()
    for matrix, codes, scales in ((x, both.rows, both.row_scales), (x.t(), both.columns[:, :tokens], both.column_scales)):
        height, width = GROUPS[granularity]
        table = scales.reshape(1, 1) if granularity == "tensor" else scales
        assert scales.dtype is FP32 and (scales.t() if granularity == "1x128" and matrix is not x else scales).is_contiguous()
        assert table.shape == (-(-matrix.shape[0] // height), -(-matrix.shape[1] // width))
        for row in range(0, table.shape[0], max(1, table.shape[0] // 7)):
            for column in range(table.shape[1]):
                part = slice(row * height, (row + 1) * height), slice(column * width, (column + 1) * width)
                wanted, scale = definition(matrix[part], dtype, power_of_two)
                assert same(codes[part], wanted) and table[row, column] == scale
    assert torch.allclose(both.sums, x.float().sum(0), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_the_columns_are_the_rows_of_the_transposed(granularity):
    x = real(129, 272, dtype=FP32)
    both, other = st.quantize_both_reference(x, granularity), st.quantize_both_reference(x.t().contiguous(), granularity)
    assert same(both.columns[:, :129], other.rows) and same(both.column_scales, other.row_scales)
    assert same(both.rows, other.columns[:, :272]) and same(both.row_scales, other.column_scales)
    if granularity in ("tensor", "128x128"):
        assert same(both.rows.t(), both.columns[:, :129]) and same(both.row_scales.t(), both.column_scales)


@pytest.mark.parametrize("rms", [1e-12, 1e-10, 1e-8, 1e-4, 1.0, 1e4])
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_numbers_of_any_size_keep_their_bits(rms, granularity):
    x = real(64, 128, dtype=FP32) * rms
    both = st.quantize_both_reference(x, granularity)
    wide = both.rows.double() * (both.row_scales if granularity != "128x128" else both.row_scales[:1, :1]).double()
    assert cosine(wide, x) > 0.999


def test_groups_without_numbers():
    x = real(130, 256)
    x[0], x[1, 5], x[2, 7] = 0, float("nan"), float("inf")
    for power_of_two in (False, True):
        both = st.quantize_both_reference(x, "row", power_of_two=power_of_two)
        zero, nan, infinite = (both.rows[i].float() for i in range(3))
        assert (zero == 0).all() and 0 < both.row_scales[0] < 1e-13 and nan.isnan().all() and both.row_scales[1].isnan()
        assert infinite[7].isnan() and (infinite[[0, 255]] == 0).all() and both.row_scales[2].isinf()
        assert not both.rows[3:].float().isnan().any()
        assert both.columns[5].float()[:130].isnan().all() and (both.columns[5, 130:].float() == 0).all()
        assert not both.columns[6].float().isnan().any()
    scales = st.quantize_both_reference(real(64, 256), "row", power_of_two=True).row_scales
    assert (scales.log2() == scales.log2().round()).all()


@pytest.mark.parametrize("call, kind, mention", [
    (lambda: st.quantize_both(real(8, 16)), sluice.Error, "input"),
    (lambda: st.quantize_both(real(8, 16).requires_grad_()), sluice.InvalidArgument, "quantize_both has no backward"),
    (lambda: st.quantize_both_reference(real(2, 8, 16)), sluice.InvalidSize, "(2, 8, 16) and must be a matrix"),
    (lambda: st.quantize_both_reference(real(8, 16), "2x2"), sluice.InvalidArgument, "128x128"),
    (lambda: st.quantize_both_reference(real(8, 16), dtype=BF16), sluice.InvalidArgument, "float8_e5m2"),
    (lambda: st.quantize_both_reference(real(8, 16).to(torch.int32)), sluice.InvalidType, "input is torch.int32"),
])
def test_misuse_is_named(call, kind, mention):
    with pytest.raises(kind) as caught:
        call()
    assert mention in str(caught.value), str(caught.value)


def test_an_input_may_have_gaps(on_host):  # noqa: F811
    wide = real(130, 304)
    both, wanted = st.quantize_both(wide[:, 16:272], "row", sums=True), st.quantize_both_reference(wide[:, 16:272].contiguous(), "row")
    assert same(both.rows, wanted.rows) and same(both.columns, wanted.columns) and st.quantize_both(wide).sums is None


def test_the_other_quantiser_is_as_it_was():
    x = real(64, 256) * 1e-6
    codes, scales = st.quantize_reference(x, "row")
    assert (scales == torch.tensor(1e-4) * torch.tensor(1 / 448.0)).all() and same(codes, (x.float() * (1 / torch.tensor(1e-4) * 448)).to(E4M3))


@pytest.mark.parametrize("granularity", ["tensor", "row", "1x128", "128x128"])
@pytest.mark.parametrize("shape", [(0, 32), (5, 0), (0, 0)])
def test_matrices_without_elements_have_the_scale_of_zeros(granularity, shape):
    both = st.quantize_both_reference(torch.empty(shape), granularity, sums=True)
    scale = st.quantize_both_reference(torch.zeros(1, 16), granularity).row_scales.flatten()[0]
    assert both.rows.shape == shape and both.columns.shape == (shape[1], -(-shape[0] // 128) * 128) and both.sums.shape == (shape[1],)
    for scales in (both.row_scales, both.column_scales):
        assert torch.equal(scales, scale.expand_as(scales))
