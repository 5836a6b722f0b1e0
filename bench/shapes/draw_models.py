#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws layers of models that do not exist, as sizes for `sluice chain --model SIZES`: width x qkv x attention x inner.

    bench/shapes/draw_models.py $(git rev-parse HEAD) 4 > FILE

The seed is the measured commit, made after the last change of the planner, so that nobody can choose it. Widths are 2048 to 16384 in steps of
256. Heads are 128 wide, and 1, 4 or 8 heads of queries share one of keys and values. Inner widths are 2.5 to 4 times the width. Every second
model is a shard of 2, 4 or 8.
"""
from drawing import dice_of, log_uniform, print_list

HEAD, WIDTHS, STEP = 128, (2048, 16384), 256


def models(seed: str, count: int):
    dice = dice_of(seed)
    for i in range(count):
        shards = dice.choice((2, 4, 8)) if i % 2 else 1
        width = round(log_uniform(dice, WIDTHS) / STEP) * STEP
        unit = HEAD * shards
        attention = max(1, round(width * dice.choice((0.5, 1.0)) / unit)) * HEAD
        keys = max(1, attention // HEAD // dice.choice((1, 4, 8))) * HEAD
        inner = max(1, round(width * dice.uniform(2.5, 4) / unit)) * HEAD
        yield f"{width}x{attention + 2 * keys}x{attention}x{inner}"


if __name__ == "__main__":
    print_list(__doc__, models)
