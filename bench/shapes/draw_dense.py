#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws dense products for a blind list, as lines of `sluice bench --shapes FILE`.

    bench/shapes/draw_dense.py $(git rev-parse HEAD) 60 > FILE
    bench/shapes/draw_dense.py $(git rev-parse HEAD) 20 training >> FILE
    bench/shapes/draw_dense.py $(git rev-parse HEAD) 40 row > FILE

The seed is the measured commit, made after the last change of the planner, so that nobody can choose it. Of 60 products, 40 are K-major: bf16,
e4m3 with a scale each for A and B and fast sums, the same promoted, block-scaled. 20 are others: MN-major operands, fp16, GELU, fp32 D. With `training` they
are gradients of layers, of 256 to 16384 rows. Every second one is dX = dY W, with W across its rows. The others are dW = dY^T X, with both
across their rows, every third with an fp32 D. With `row` they are layers of 4 MB to 150 MB that decode 1 to 64 rows by the recipe "row".
"""
from drawing import dice_of, log_uniform, print_list

FP8 = "--dtype e4m3 --d bf16"
TENSOR = f"{FP8} --scale-a tensor --scale-b tensor --accumulate"
MN_MAJOR = "--dtype bf16 --a-layout mn --b-layout mn"
K_MAJOR = 10 * ["--dtype bf16"] + 15 * [f"{TENSOR} fast"] + 5 * [f"{TENSOR} promoted"] + 10 * [f"{FP8} --scale-a block --scale-b block"]
OTHERS = (6 * [MN_MAJOR] + 6 * ["--dtype bf16 --b-layout mn"] + 3 * ["--dtype fp16"] + 2 * ["--dtype bf16 --bias --activation gelu"]
          + 3 * [f"{MN_MAJOR} --d fp32"])
WIDTHS, LENGTHS = (512, 18432), (512, 16384)


def between(dice, bounds: tuple[int, int], step: int) -> int:
    return max(step, round(log_uniform(dice, bounds) / step) * step)


def line(m: int, n: int, k: int, kind: str) -> str:
    return f"{m}x{n}x{k} {kind} --no-records"


def products(seed: str, count: int):
    dice = dice_of(seed)
    kinds = K_MAJOR + OTHERS
    for i in range(count):
        kind = kinds[i * len(kinds) // count]
        if kind in OTHERS:
            yield line(between(dice, (64, 8192), 8), between(dice, WIDTHS, 8), between(dice, LENGTHS, 64), kind)
        else:
            yield line(between(dice, (32, 8192), dice.choice((1, 64))), between(dice, WIDTHS, 16), between(dice, LENGTHS, 128), kind)


def gradients(seed: str, count: int):
    """Yields gradients of linear layers with various inputs, outputs and rows."""
    dice = dice_of(seed + " training")
    for i in range(count):
        rows, inputs, outputs = between(dice, (256, 16384), 64), between(dice, WIDTHS, 64), between(dice, WIDTHS, 64)
        if i % 2 == 0:
            yield line(rows, inputs, outputs, "--dtype bf16 --b-layout mn")
        else:
            yield line(outputs, inputs, rows, MN_MAJOR + (" --d fp32" if i % 3 == 0 else ""))


def decoding(seed: str, count: int):
    """Yields products of 1 to 64 rows with the recipe "row"."""
    dice = dice_of(seed + " row")
    for _ in range(count):
        width = length = 0
        while not 4 << 20 <= width * length <= 150 << 20:
            width, length = between(dice, WIDTHS, 16), between(dice, LENGTHS, 128)
        yield line(round(log_uniform(dice, (1, 64))), width, length, f"{FP8} --scale-a vector --scale-b vector")


if __name__ == "__main__":
    print_list(__doc__, products, training=gradients, row=decoding)
