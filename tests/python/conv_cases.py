# SPDX-License-Identifier: Apache-2.0
"""Geometries that the tests of convolutions go through on the host and on a GPU: torch's OpInfo samples among them, and sizes that
have surprised other libraries."""

# Images, channels, size; filters and filter size; torch's arguments.
CASES = [
    ("2-D 3x3", (2, 16, 9, 8), (24, 3, 3), dict(padding=1)),
    ("3x3 stride 2", (2, 16, 9, 8), (16, 3, 3), dict(padding=1, stride=2)),
    ("1x1", (2, 16, 5, 7), (32, 1, 1), {}),
    ("1x1 stride 2", (2, 16, 5, 7), (32, 1, 1), dict(stride=2)),
    ("1x1 padded", (2, 16, 5, 7), (8, 1, 1), dict(padding=1)),
    ("stem 7x7 stride 2", (1, 3, 20, 18), (16, 7, 7), dict(padding=3, stride=2)),
    ("dilation", (1, 8, 11, 12), (8, 3, 3), dict(padding=2, dilation=2)),
    ("stride and dilation", (1, 8, 12, 13), (8, 3, 3), dict(padding=2, dilation=2, stride=2)),
    ("uneven", (1, 8, 7, 12), (8, 2, 5), dict(padding=(2, 1), dilation=(1, 2), stride=(2, 1))),
    ("same, asymmetric", (2, 8, 6, 7), (16, 4, 2), dict(padding="same")),
    ("same, dilated", (1, 8, 9, 9), (8, 3, 2), dict(padding="same", dilation=(2, 3))),
    ("valid", (1, 8, 6, 6), (8, 3, 3), dict(padding="valid")),
    ("2 channels", (2, 2, 6, 5), (8, 3, 3), dict(padding=1)),
    ("3 channels, 3 filters", (2, 3, 6, 5), (3, 3, 3), dict(padding=1)),
    ("4 channels", (1, 4, 6, 6), (6, 2, 2), dict()),
    ("5 channels", (1, 5, 6, 6), (7, 1, 1), dict()),
    ("6 channels, stride 2", (1, 6, 7, 6), (4, 3, 3), dict(stride=2)),
    ("12 channels", (1, 12, 6, 6), (20, 3, 3), dict(padding=1)),
    ("a 1x1 image", (3, 16, 1, 1), (8, 1, 1), dict()),
    ("a 1x1 image and 3x3", (1, 16, 1, 1), (8, 3, 3), dict(padding=1)),
    ("one row", (2, 8, 1, 9), (8, 1, 3), dict(padding=(0, 1))),
    ("the filter is the image", (2, 8, 5, 5), (8, 5, 5), dict()),
    ("empty phases", (1, 8, 7, 7), (8, 1, 1), dict(stride=2, padding=1)),
    ("patches of 4, 3 channels", (2, 3, 8, 8), (16, 4, 4), dict(stride=4)),
    ("patches of 14, cropped", (1, 3, 30, 28), (8, 14, 14), dict(stride=14)),
    ("patches of 3, 10 filters", (1, 16, 6, 9), (10, 3, 3), dict(stride=3)),
    ("patches of 2, gathered", (1, 16, 6, 9), (16, 2, 2), dict(stride=2)),
    ("1-D", (2, 16, 21), (8, 5), dict(padding=2)),
    ("1-D stride 3, dilated", (2, 8, 30), (8, 4), dict(padding=1, stride=3, dilation=2)),
    ("1-D same of an even filter", (1, 8, 10), (8, 4), dict(padding="same")),
    ("1-D, 6 channels", (2, 6, 12), (12, 3), dict(padding=1)),
    ("1-D patches", (2, 4, 12), (8, 3), dict(stride=3)),
    ("3-D", (1, 8, 4, 5, 6), (16, 3, 3, 3), dict(padding=1)),
    ("3-D stride 2", (1, 8, 5, 6, 4), (8, 2, 3, 3), dict(stride=2, padding=(0, 1, 1))),
    ("3-D, 3 channels", (1, 3, 4, 5, 4), (8, 2, 2, 2), dict()),
    ("3-D patches", (1, 3, 4, 8, 8), (16, 2, 4, 4), dict(stride=(2, 4, 4))),
    ("3-D dilated", (1, 8, 6, 5, 5), (8, 2, 2, 2), dict(dilation=(3, 1, 2))),
]
IDS = [case[0] for case in CASES]
# Different padding before and after the image, which torch does not have.
CAUSAL = [
    ("causal 3-D", (1, 8, 5, 4, 6), (8, 3, 3, 3), ((2, 0), (1, 1), (1, 1))),
    ("a VAE's downsampling", (1, 8, 6, 8), (16, 3, 3), ((0, 1), (0, 1))),
    ("causal 1-D", (2, 8, 9), (8, 4), ((3, 0),)),
]
