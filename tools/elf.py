# SPDX-License-Identifier: Apache-2.0
"""Sections of 64-bit ELF files: cubins (unchanged.py) and vLLM's library (vllm_library.py). elf_of() makes such files for
self-tests.
"""
import struct
import typing

NOBITS = 8


class Part(typing.NamedTuple):
    """A section."""
    name: str
    kind: int
    offset: int
    size: int
    info: int


def sections_of(elf: bytes) -> list[Part]:
    table, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, table + i * size) for i in range(count)]
    names = headers[names_at][4]
    return [Part(elf[names + name:elf.index(b"\0", names + name)].decode(), kind, offset, length, info)
            for name, kind, _, _, offset, length, _, info, _, _ in headers]


def elf_of(sections: list[tuple[str, int, bytes]]) -> bytes:
    """A file that has only these (name, info, bytes)."""
    names, body, headers = b"\0", b"", [bytes(64)]
    for name, info, data in [*sections, (".shstrtab", 0, None)]:
        at = len(names)
        names += name.encode() + b"\0"
        data = names if data is None else data
        headers.append(struct.pack("<IIQQQQIIQQ", at, 1, 0, 0, 64 + len(body), len(data), 0, info, 1, 0))
        body += data
    top = bytearray(b"\x7fELF" + bytes(60))
    struct.pack_into("<Q", top, 0x28, 64 + len(body))
    struct.pack_into("<HHH", top, 0x3A, 64, len(headers), len(headers) - 1)
    return bytes(top) + body + b"".join(headers)
