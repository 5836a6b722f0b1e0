#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws products of int4 weights for a blind list, as lines of `sluice bench --shapes FILE` and of tools/int4_peers.py.

    bench/shapes/draw_int4.py $(git rev-parse HEAD) 40 > FILE

The seed is one that nobody can choose: the commit that is measured, after the last change of the planner. Layers are 2,000 to 30,000 wide
both ways, in multiples of 128, which Marlin and Machete need; tokens are 1 to 2000. All are spread evenly over logarithms.
"""
from drawing import dice_of, log_uniform, print_list

WIDTHS, STEP, TOKENS = (2000, 30000), 128, (1, 2000)
GROUPS, TYPES = (32, 64, 128), ("fp16", "bf16")


def products(seed: str, count: int):
    dice = dice_of(seed)
    for _ in range(count):
        n, k = (STEP * round(log_uniform(dice, WIDTHS) / STEP) for _ in range(2))
        m = min(TOKENS[1], int(log_uniform(dice, (TOKENS[0], TOKENS[1] + 1))))
        group, kind = dice.choice(GROUPS), dice.choice(TYPES)
        yield f"{m}x{n}x{k} --weights int4 --group {group} --weight-scale {kind} --dtype {kind}"


if __name__ == "__main__":
    print_list(__doc__, products)
