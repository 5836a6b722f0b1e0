#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vLLM's library of CUDA kernels, taken out of its wheel, for tools/int4_peers.py. vLLM itself is not needed.

    pip download --no-deps vllm==0.20.2 -d DIR       244 MB
    tools/vllm_library.py DIR/vllm-*.whl SMALL.whl    16 MB: a machine without network can get it

SMALL.whl contains the library with all GPU code zeroed that a Hopper GPU never loads: cubins of other
architectures, and PTX of kernels that have a cubin for sm_90. Everything that it loads is unchanged.
"""
import hashlib
import json
import pathlib
import re
import struct
import sys
import tempfile
import zipfile

import elf

LIBRARY = "vllm/_C.abi3.so"
ORIGIN = "origin.json"  # in the small wheel: what it was made from
SECTION, MAGIC = ".nv_fatbin", 0xBA55ED50
PTX, CUBIN, HOPPER = 1, 2, 90


def entries_of(library: bytes) -> list[list[tuple[int, int, int, int]]]:
    """Lists for each fat binary its entries: kind, architecture, offset and size of the code."""
    section = next((one for one in elf.sections_of(library) if one.name == SECTION), None)
    if section is None:
        raise ValueError(f"the library has no section {SECTION}, so no GPU code: is it vLLM's for CUDA?")
    at, end, found = section.offset, section.offset + section.size, []
    while at + 16 <= end:
        magic, _, header, size = struct.unpack_from("<IHHQ", library, at)
        if magic != MAGIC:
            at += 8  # padding between fat binaries
            continue
        entry, at, entries = at + header, at + header + size, []
        while entry < at:
            kind, _, header, size = struct.unpack_from("<HHIQ", library, entry)
            entries.append((kind, struct.unpack_from("<I", library, entry + 28)[0], entry + header, size))
            entry += header + size
        found.append(entries)
    return found


def is_loaded(kind: int, arch: int, others: list[tuple[int, int, int, int]]) -> bool:
    """Returns true if a Hopper GPU may load an entry: a cubin for it, or the PTX that the driver compiles if
    there is none."""
    if any(other[:2] == (CUBIN, HOPPER) for other in others):
        return (kind, arch) == (CUBIN, HOPPER)
    return kind == PTX and arch <= HOPPER


def blanked(library: bytes) -> bytes:
    """The library without what a Hopper GPU never loads. Headers stay, so that CUDA's tables stay right."""
    small = bytearray(library)
    for entries in entries_of(library):
        for kind, arch, start, size in entries:
            if not is_loaded(kind, arch, entries):
                small[start:start + size] = bytes(size)
    return bytes(small)


def version_in(wheel: zipfile.ZipFile) -> str:
    """Returns vLLM's version, from the name of the folder that every wheel has."""
    found = [name for path in wheel.namelist() if (name := re.match(r"vllm-([^/]+)\.dist-info/", path))]
    if not found or LIBRARY not in wheel.namelist():
        raise ValueError(f"{wheel.filename} is no wheel of vLLM: {LIBRARY} or vllm-*.dist-info is missing")
    return found[0][1]


def shrink(source: pathlib.Path, target: pathlib.Path) -> None:
    with zipfile.ZipFile(source) as whole, zipfile.ZipFile(target, "w", zipfile.ZIP_LZMA) as small:
        version, library = version_in(whole), whole.read(LIBRARY)
        small.writestr(LIBRARY, blanked(library))
        small.writestr(f"vllm-{version}.dist-info/METADATA", whole.read(f"vllm-{version}.dist-info/METADATA"))
        small.writestr(ORIGIN, json.dumps({"wheel": source.name, "library_sha256": hashlib.sha256(library).hexdigest()}))


def load(torch, wheel: pathlib.Path) -> dict:
    """Loads the library of a wheel, whole or small, so that torch.ops._C has its operators. Returns its
    version and origin for the record."""
    with zipfile.ZipFile(wheel) as opened, tempfile.TemporaryDirectory() as folder:
        version, library = version_in(opened), opened.read(LIBRARY)
        file = pathlib.Path(folder) / "library.so"
        file.write_bytes(library)
        torch.ops.load_library(str(file))
        origin = json.loads(opened.read(ORIGIN)) if ORIGIN in opened.namelist() else \
            {"wheel": wheel.name, "library_sha256": hashlib.sha256(library).hexdigest()}
    return {"vllm": version, "vllm_origin": origin}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    shrink(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
