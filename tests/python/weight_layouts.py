# SPDX-License-Identifier: Apache-2.0
"""Writes checkpoint layouts one digit after the other, for test_importers.py. It has no code in common with
the importers: it uses lists of Python integers, and loops that state where each digit is stored.
"""
import random


def signed(word):
    return word - (1 << 32) if word >= 1 << 31 else word


class Layer:
    """Random codes[o][i], zeros[o][g], scales[o][g] (powers of two times small odd numbers: exact in fp16 and bf16)."""

    def __init__(self, n, k, group, bits=4, zero=None, seed=0):
        rng = random.Random(f"{n} {k} {group} {bits} {zero} {seed}")
        self.n, self.k, self.group, self.bits = n, k, group or k, bits
        self.groups = -(-k // self.group)
        self.codes = [[rng.randrange(1 << bits) for _ in range(k)] for _ in range(n)]
        self.zeros = [[rng.randrange(1, 1 << bits) if zero is None else zero for _ in range(self.groups)] for _ in range(n)]
        self.scales = [[rng.choice((1, 3, 5, 7)) * 2.0 ** rng.randint(-6, 3) for _ in range(self.groups)] for _ in range(n)]
        self.g_idx = [i // self.group for i in range(k)]

    def in_act_order(self, seed=0):
        """Shuffles the columns among the groups, whose sizes do not change. Returns the layer itself."""
        random.Random(seed).shuffle(self.g_idx)
        return self

    def weight(self, o, i):
        g = self.g_idx[i]
        return self.scales[o][g] * (self.codes[o][i] - self.zeros[o][g])

    def matrix(self):
        return [[self.weight(o, i) for i in range(self.k)] for o in range(self.n)]


def gptq(layer, stored_zeros=None):
    """Returns qweight, qzeros, scales of a GPTQ file as lists. Zeros are stored less one, unless ``stored_zeros`` (words) are
    given."""
    per = 32 // layer.bits
    qweight = [[0] * layer.n for _ in range(-(-layer.k // per))]
    for i in range(layer.k):
        for o in range(layer.n):
            qweight[i // per][o] += layer.codes[o][i] << (layer.bits * (i % per))
    qzeros = stored_zeros or gptq_zeros(layer, 1)
    scales = [[layer.scales[o][g] for o in range(layer.n)] for g in range(layer.groups)]
    return [[signed(word) for word in row] for row in qweight], qzeros, scales


def gptq_zeros(layer, less, borrow=False, overwrite=False):
    """Returns the words of qzeros. By default each digit is less one for itself.

    With ``borrow`` one is subtracted in every digit from the whole word. With ``overwrite`` 32-bit numbers less one are laid
    over each other, as AutoGPTQ's writer does.
    """
    per = 32 // layer.bits
    rows = []
    for g in range(layer.groups):
        row = []
        for first in range(0, layer.n, per):
            word = 0
            for digit in range(per):
                zero = layer.zeros[first + digit][g] if first + digit < layer.n else less
                stored = zero if borrow else (zero - less) % (1 << layer.bits)
                if overwrite:
                    word |= ((zero - less) << (layer.bits * digit)) % (1 << 32)
                else:
                    word += stored << (layer.bits * digit)
            if borrow:
                word = (word - less * sum(1 << (layer.bits * digit) for digit in range(per))) % (1 << 32)
            row.append(signed(word))
        rows.append(row)
    return rows


def awq(layer):
    """Returns qweight, qzeros, scales of an AWQ file of version "gemm"."""
    place_of_column = {0: 0, 2: 1, 4: 2, 6: 3, 1: 4, 3: 5, 5: 6, 7: 7}

    def pack(value_of_output):
        row = [0] * (layer.n // 8)
        for o in range(layer.n):
            row[o // 8] += value_of_output(o) << (4 * place_of_column[o % 8])
        return [signed(word) for word in row]

    qweight = [pack(lambda o: layer.codes[o][i]) for i in range(layer.k)]  # noqa: B023
    qzeros = [pack(lambda o: layer.zeros[o][g]) for g in range(layer.groups)]  # noqa: B023
    return qweight, qzeros, [[layer.scales[o][g] for o in range(layer.n)] for g in range(layer.groups)]


def compressed_tensors(layer):
    """Returns weight_packed, weight_scale, weight_shape, weight_zero_point. Values are signed, and stored plus half the
    range."""
    per, half = 32 // layer.bits, 1 << (layer.bits - 1)
    packed = [[0] * -(-layer.k // per) for _ in range(layer.n)]
    zero_point = [[0] * layer.groups for _ in range(-(-layer.n // per))]
    for o in range(layer.n):
        for i in range(layer.k):
            value = layer.codes[o][i] - half
            packed[o][i // per] += (value + half) << (layer.bits * (i % per))
        for g in range(layer.groups):
            value = layer.zeros[o][g] - half
            zero_point[o // per][g] += (value + half) << (layer.bits * (o % per))
    return ([[signed(word) for word in row] for row in packed], layer.scales, [layer.n, layer.k],
            [[signed(word) for word in row] for row in zero_point])
