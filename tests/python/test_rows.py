# SPDX-License-Identifier: Apache-2.0
"""Ranges of numbers of rows without a GPU: few plans for a whole range, compiles ahead of time, and misuse."""
import pytest

import sluice

LAYER = sluice.Problem(1, 6144, 4096, a="e4m3", scale_a="vector", scale_b="vector")
PACKED = sluice.Problem(1, 6144, 4096, packed=sluice.WeightFormat())


@pytest.mark.parametrize("problem", [LAYER, PACKED])
def test_few_kernels_serve_a_range(problem):
    found = sluice.plan_rows(problem, (1, 128))
    assert 1 <= len(found.plans) <= found.kernels <= 12
    assert len({plan.config for plan in found.plans}) == len(found.plans)
    assert all("sluice::locate" not in unit for plan in found.plans for unit in plan.units)
    assert str(found) == found.text and found.text.startswith("rows      1..128 of 6144 x 4096\nkernels   ")
    assert found.text.count("\n          m = ") == len(found.plans) and "KernelConfig" not in found.text


def test_a_range_object_says_the_same():
    pair, counted = sluice.plan_rows(PACKED, (1, 40)), sluice.plan_rows(PACKED, range(1, 41))
    assert [plan.config for plan in pair.plans] == [plan.config for plan in counted.plans]
    stepped = sluice.plan_rows(PACKED, range(8, 41, 8))  # from 8 to 40: the step does not count
    assert [plan.config for plan in stepped.plans] == [plan.config for plan in sluice.plan_rows(PACKED, (8, 40)).plans]


@pytest.mark.parametrize("m, error, mention", [
    ((0, 4), sluice.InvalidSize, "rows = 0 to 4"),
    ((5, 4), sluice.InvalidSize, "rows = 5 to 4"),
    ((-2, 4), sluice.InvalidSize, "rows = -2 to 4"),
    ((1, 2**40), sluice.InvalidSize, "1099511627776"),
    ((1, 2**70), sluice.InvalidSize, "2^63"),
    ((1, 2.5), sluice.InvalidType, "2.5"),
    ((1,), sluice.InvalidArgument, "two numbers"),
    ((1, 2, 3), sluice.InvalidArgument, "two numbers"),
    ("12", sluice.InvalidArgument, "two numbers"),
    (7, sluice.InvalidArgument, "two numbers"),
    (range(4, 4), sluice.InvalidArgument, "not be empty"),
    (range(9, 1, -1), sluice.InvalidArgument, "count up"),
])
def test_what_is_no_range_is_refused(m, error, mention):
    with pytest.raises(error, match=mention.replace("^", r"\^")):
        sluice.plan_rows(LAYER, m)


def test_a_plan_is_of_one_number_of_rows():
    plan = sluice.plan(m=64, n=64, k=64)
    with pytest.raises(sluice.InvalidArgument, match="give its Problem"):
        sluice.compile(plan, m=(1, 4))
