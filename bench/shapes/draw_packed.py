#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws products of int4 weights for a blind list, as lines of `sluice bench --shapes FILE`.

    bench/shapes/draw_packed.py $(git rev-parse HEAD) 40 > FILE

The draw is that of draw_int4.py without the peers' limits: e4m3 tokens too, and widths in multiples of 64. Layers have at most 250 M weights.
Of token counts that are powers of two, nine of ten are drawn again.
"""
from drawing import dice_of, log_uniform, print_list

WIDTHS, TOKENS = (2000, 30000), (1, 2000)
GROUPS, TYPES = (32, 64, 128, 128), ("fp16", "bf16", "e4m3")
UNIT, MOST_WEIGHTS = 64, 250e6
BYTES = " --scale-a vector --d bf16"  # e4m3 tokens: a scale each


def products(seed: str, count: int):
    """Yields `count` products."""
    dice = dice_of(seed)
    while count > 0:
        n, k = (round(log_uniform(dice, WIDTHS) / UNIT) * UNIT for _ in range(2))
        m = round(log_uniform(dice, TOKENS))
        group, tokens = dice.choice(GROUPS), dice.choice(TYPES)
        if n * k > MOST_WEIGHTS or m & (m - 1) == 0 and dice.random() < 0.9:
            continue
        count -= 1
        yield f"--shape {m}x{n}x{k} --weights int4 --group {group} --dtype {tokens}{BYTES if tokens == 'e4m3' else ''}"


if __name__ == "__main__":
    print_list(__doc__, products)
