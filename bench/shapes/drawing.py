# SPDX-License-Identifier: Apache-2.0
"""Common parts of the scripts that draw blind lists: a seed that nobody can choose, sizes spread evenly over
logarithms, and a list whose first line names the seed."""
import math
import random
import sys


def dice_of(seed: str) -> random.Random:
    return random.Random(int(seed) if seed.isdigit() else seed)


def log_uniform(dice: random.Random, bounds: tuple[int, int]) -> float:
    """Returns a random number whose logarithm is spread evenly over the bounds."""
    return math.exp(dice.uniform(math.log(bounds[0]), math.log(bounds[1])))


def print_list(usage: str, draw, **others) -> None:
    """Prints the lines of draw(seed, count) with the command line's arguments. A third argument selects one
    of `others` in place of `draw`. Prints `usage` if the arguments are wrong."""
    seed, count, *word = sys.argv[1:] if len(sys.argv) > 2 else sys.exit(usage)
    if len(word) > 1 or word and word[0] not in others:
        sys.exit(usage)
    print("# Drawn from", seed)
    print("\n".join((others[word[0]] if word else draw)(seed, int(count))))
