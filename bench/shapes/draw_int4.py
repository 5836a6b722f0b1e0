#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws products of int4 weights for a blind list, as lines of `sluice bench --shapes FILE` and of tools/int4_peers.py.

    bench/shapes/draw_int4.py $(git rev-parse HEAD) 40 [any] > FILE

The seed is the measured commit, made after the last change of the planner, so that nobody can choose it. Layers are 2,000 to 30,000 wide
both ways, in multiples of 128, which Marlin and Machete need; tokens are 1 to 2000. All are spread evenly over logarithms. With `any` there are
e4m3 tokens too, and widths in multiples of 64. Layers then have at most 250 M weights. Of token counts that are powers of two, nine of ten are
drawn again.
"""
from drawing import dice_of, log_uniform, print_list

WIDTHS, STEP, TOKENS = (2000, 30000), 128, (1, 2000)
GROUPS, TYPES = (32, 64, 128), ("fp16", "bf16")
ANY_STEP, MOST_WEIGHTS = 64, 250e6
BYTES = " --scale-a vector --d bf16"  # e4m3 tokens with one scale per token


def products(seed: str, count: int):
    dice = dice_of(seed)
    for _ in range(count):
        n, k = (STEP * round(log_uniform(dice, WIDTHS) / STEP) for _ in range(2))
        m = min(TOKENS[1], int(log_uniform(dice, (TOKENS[0], TOKENS[1] + 1))))
        group, kind = dice.choice(GROUPS), dice.choice(TYPES)
        yield f"{m}x{n}x{k} --weights int4 --group {group} --weight-scale {kind} --dtype {kind}"


def any_products(seed: str, count: int):
    """Yields products of any width and token type, without the limits of Marlin and Machete."""
    dice = dice_of(seed)
    while count > 0:
        n, k = (round(log_uniform(dice, WIDTHS) / ANY_STEP) * ANY_STEP for _ in range(2))
        m = round(log_uniform(dice, TOKENS))
        group, tokens = dice.choice((*GROUPS, 128)), dice.choice((*TYPES, "e4m3"))
        if n * k > MOST_WEIGHTS or m & (m - 1) == 0 and dice.random() < 0.9:
            continue
        count -= 1
        yield f"--shape {m}x{n}x{k} --weights int4 --group {group} --dtype {tokens}{BYTES if tokens == 'e4m3' else ''}"


if __name__ == "__main__":
    print_list(__doc__, products, any=any_products)
