# SPDX-License-Identifier: Apache-2.0
"""Parts of the scripts that draw blind lists: a seed that nobody can choose, even logarithms, and the list with its seed on top."""
import math
import random
import sys


def dice_of(seed: str) -> random.Random:
    return random.Random(int(seed) if seed.isdigit() else seed)


def log_uniform(dice: random.Random, bounds: tuple[int, int]) -> float:
    """A number whose logarithm is spread evenly."""
    return math.exp(dice.uniform(math.log(bounds[0]), math.log(bounds[1])))


def print_list(usage: str, draw, **others) -> None:
    """Prints the lines of draw(seed, count), whose arguments are the command line's. A third word names one of the others. Else prints `usage`."""
    seed, count, *word = sys.argv[1:] if len(sys.argv) > 2 else sys.exit(usage)
    if len(word) > 1 or word and word[0] not in others:
        sys.exit(usage)
    print("# Drawn from", seed)
    print("\n".join((others[word[0]] if word else draw)(seed, int(count))))
