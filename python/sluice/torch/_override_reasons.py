# SPDX-License-Identifier: Apache-2.0
"""The reasons why torch computes a call, as ``override.counts()`` shows them. docs/override.md has their remedies."""

# ---- of any op
DEVICE = "not on one GPU of compute capability 9.0"
ROWS = "outside of the rows given to override"
SLOWER = "torch may be faster: below min_gain on a product of this kind"
UNMEASURED = "no product of this kind was measured"
IN_CAPTURE = "not ready in a capture"
SCALE_RESULT = "scale_result is given"
EMPTY = "an extent of 0"
SIZES = "sizes that do not fit, or n or k no multiple of 16"
SCALES = "scales that torch or sluice does not take"

# ---- of _scaled_mm
TYPES = "operands that are not e4m3, or e4m3 and e5m2"
RESULT = "a result that is not bf16, fp16 or fp32"
LAYOUT = "an operand whose k is not contiguous, or whose pitch is no multiple of 16 bytes"
OUT = "an out of another shape or type, or not row-major"
BIAS = "a bias that is not a vector of n values of the result's type, or beside fp32"

# ---- of products of groups
GROUP_TYPES = "operands that are not both bf16 or both fp16"
GROUP_FP8_TYPES = "operands that are not both e4m3"
GROUP_SIZES = "sizes of groups that do not fit, or more than 1023 groups"
GROUP_RESULT = "a result of another type than torch's products of groups have"
GROUP_BIAS = "a bias, which torch's products of groups do not have"
GROUP_LAYOUT = "operands of groups stored as torch or sluice does not take them"
TABLE = "offs that is missing, not wanted, or not a contiguous int32 number for each group"
COLUMNS = "groups of columns, whose result sluice stores by columns"
FP8_SUMS = "fp8 without groups of rows"
