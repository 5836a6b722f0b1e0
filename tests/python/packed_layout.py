# SPDX-License-Identifier: Apache-2.0
"""Writes the blob of docs/packing.md one code after the other, for test_packed.py. It has no code in common
with the packers: it uses Python integers, and the page's tables as formulas."""
import struct


def rotated(word, bits):
    return (word << bits | word >> (32 - bits)) & 0xFFFFFFFF if bits else word


def e2m1_bits(code, odd, register, half):
    """Returns the bits of a code in its pair of words (v, w), v in the lower 32."""
    operand = ((code >> 3) << 15 | (code & 7) << 6) << (16 * half)  # the code's bits in the register
    if register < 3:
        return rotated(operand, (0, 4, 10)[register]) << (32 * odd)
    third = rotated(operand, 12 if odd else 6)
    return third & 0x60306030 | (third & 0x9FCF9FCF) << (32 + 2)


def place(kind, order, code, row, k):
    """Returns (byte of the word in the tile, its bits) for a code at a row and a k of a tile; of e2m1 the bits of two words."""
    chunk_k = 32 if kind in ("int8", "e4m3") else 64
    chunk, k = divmod(k, chunk_k)
    block, row = divmod(row, 16)
    if order == "half":
        fragment, k = divmod(k, 16)
        register, c, half = (row >= 8) + 2 * (k >= 8), k % 8 // 2, k % 2
        if kind == "e2m1":
            word, bits = fragment // 2 * 2, e2m1_bits(code, fragment % 2, register, half)
        elif kind == "uint4":
            word, bits = fragment, rotated(code << (3 + 16 * half), 4 * register)
        else:
            word, bits = 2 * fragment + register // 2, rotated(code << (3 + 16 * half), 8 * (register % 2))
    else:
        fragment, k = divmod(k, 32)
        register, c, byte = (row >= 8) + 2 * (k >= 16), k % 16 // 4, k % 4
        sign, magnitude = (1, 7 - code) if code < 8 else (0, code - 8)
        bits = (magnitude << 4 | sign if register % 2 else sign << 7 | magnitude << 1) << (8 * byte)
        word = 2 * fragment + register // 2
    lane = 4 * (row % 8) + c
    return ((chunk * 4 + block) * 32 + lane) * 16 + 4 * word, bits


def blob(kind, group, scale_bytes, order, codes, scales, zeros):
    """Returns the blob. ``codes``: n x k integers. ``scales``, ``zeros`` (or None): n x groups, each the bytes of a value."""
    n, k = len(codes), len(codes[0])
    strips, tiles = -(-n // 64), -(-k // 128)
    code_bytes = 8192 if kind in ("int8", "e4m3") else 4096
    size, pattern = (8, "<Q") if kind == "e2m1" else (4, "<I")
    tile_groups = 128 // group if group else 0
    part = 64 * tile_groups * scale_bytes
    row_part = 0 if group else -(-64 * scale_bytes // 128) * 128
    copies = 1 if zeros is None else 2
    tile_bytes = code_bytes + copies * part
    strip_bytes = tiles * tile_bytes + copies * row_part
    out = bytearray(strips * strip_bytes)

    def add(offset, bits):
        assert bits < 1 << (8 * size)
        struct.pack_into(pattern, out, offset, struct.unpack_from(pattern, out, offset)[0] | bits)

    for row in range(strips * 64):
        for column in range(tiles * 128):
            code = int(codes[row][column]) if row < n and column < k else 0
            offset, bits = place(kind, order, code, row % 64, column % 128)
            add(row // 64 * strip_bytes + column // 128 * tile_bytes + offset, bits)
    for values, copy in ((scales, 0), (zeros, 1)):
        for row in range(n if values is not None else 0):
            in_strip, of_row = row // 64 * strip_bytes, row % 64 // 16 * 16 + row % 8 * 2 + row % 16 // 8
            for index, value in enumerate(values[row]):
                if group:
                    start = in_strip + index // tile_groups * tile_bytes + code_bytes + copy * part
                    slot = index % tile_groups * 64 + of_row
                else:
                    start, slot = in_strip + tiles * tile_bytes + copy * row_part, of_row
                out[start + slot * scale_bytes:start + (slot + 1) * scale_bytes] = value
    return bytes(out)
