#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws layers for a blind list of convolutions, as lines of `sluice bench --conv OP --shapes FILE`.

    bench/shapes/draw_convolutions.py $(git rev-parse HEAD) 12 > FILE

The seed is the measured commit, made after the last change of the planner, so that nobody can choose it. Layers have 2 to 60 Gflop and
tensors of at most 150 MB. Channels are multiples of 8; filters are 1, 3, 5 or 7 wide, some with stride 2; images are 1 to 128.
"""
from drawing import dice_of, print_list

CHANNELS = (32, 40, 48, 64, 72, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256, 288, 320, 384, 448, 480, 512, 576, 640, 768, 960, 1024, 1280,
            1536, 2048)
WIDTHS = (1, 1, 3, 3, 3, 3, 3, 5, 7)
PIXELS = (7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)
IMAGES = (1, 2, 4, 8, 16, 32, 64, 128)
GFLOP, MOST_MB = (2, 60), 150


def layers(seed: str, count: int):
    """Yields `count` layers. A 1x1 filter with stride 1 is a plain product, so half of these are drawn again.
    """
    dice = dice_of(seed)
    while count > 0:
        channels, filters, width = dice.choice(CHANNELS), dice.choice(CHANNELS), dice.choice(WIDTHS)
        stride, pixels, images = dice.choice((1, 1, 1, 2)), dice.choice(PIXELS), dice.choice(IMAGES)
        outputs = images * (pixels // stride) ** 2
        gflop = 2e-9 * outputs * channels * filters * width * width
        megabytes = 2e-6 * (images * pixels ** 2 * channels + outputs * filters)
        if width == 7 and channels > 128 or not GFLOP[0] <= gflop <= GFLOP[1] or megabytes > MOST_MB:
            continue
        if width == stride == 1 and dice.random() < 0.5:
            continue
        count -= 1
        yield f"--input {images}x{channels}x{pixels}x{pixels} --filter {filters}x{width}x{width} --stride {stride} --padding {width // 2}"


if __name__ == "__main__":
    print_list(__doc__, layers)
