#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of int4_peers.py: lists, the draw and the small wheel, on made-up problems and a made-up
library. Needs no GPU, torch or vLLM; runs in ctest. tests/python/test_int4_peers.py has the judge, which needs
torch.
"""
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

import vllm_library
from elf import elf_of
from int4_peers import Machete, Marlin, Problem, problems_of
from peers import OURS, contender_json, copies_for, faults, launches_for, quantile, turns
from tree import refusal

SHAPES = pathlib.Path(__file__).resolve().parent.parent / "bench/shapes"


def check_statistics() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0 and quantile([4.0, 1.0], 0.5) == 2.5
    assert abs(quantile([float(i) for i in range(11)], 0.1) - 1.0) < 1e-12 and quantile([7.0], 0.9) == 7.0
    assert launches_for(10.0, 11) == 300, "as many as fill a replay"
    assert launches_for(1e6, 11) == 11, "every copy once"
    assert launches_for(0.0, 2) == 2000
    assert copies_for(4096 * 4096, 60 << 20) == 12 and copies_for(1 << 40, 60 << 20) == 2
    for index in range(5):
        assert sorted(turns(3, index)) == [0, 1, 2] and turns(3, index)[0] == index % 3


def check_lists() -> None:
    line = "16x3584x8192 --weights int4 --group 64 --weight-scale fp16 --dtype fp16"
    assert problems_of(f"# told\n{line}  # one\n\n", "a") == [Problem("a", 16, 3584, 8192, 64, "fp16")]
    assert problems_of(line, "a")[0].name == "16x3584x8192 int4 g64 fp16"
    for wrong in (line.replace("--group 64", "--group 16"), line + " --bias", line.replace("int4", "int8"), line[:-1],
                  line.replace("--dtype fp16", "--dtype bf16")):
        assert "a:2:" in refusal(ValueError, problems_of, f"{line}\n{wrong}", "a"), wrong
    for wrong in (line.replace("3584", "3520"), line.replace("8192", "8256"), line.replace("16x", "0x")):
        assert "multiples of 128" in refusal(ValueError, problems_of, wrong, "a"), wrong


def check_draw() -> None:
    """The committed list must equal the draw from the commit in its first line, and differ from one with
    another seed."""
    for file in SHAPES.glob("int4_blind_*.txt"):
        seed = file.read_text().splitlines()[0].split()[-1]
        drawn = [subprocess.run([sys.executable, str(SHAPES / "draw_int4.py"), word, "40"], capture_output=True, text=True, check=True).stdout
                 for word in (seed, seed[::-1])]
        assert drawn[0] == file.read_text() and drawn[1] != drawn[0] and file.stem.endswith(seed[:7]), file
        found = problems_of(drawn[0], file.stem)
        assert len(found) == 40 and all(1 <= p.m <= 2000 and 1920 <= min(p.n, p.k) and max(p.n, p.k) <= 30080 for p in found)
        assert {p.group for p in found} == {32, 64, 128} and {p.dtype for p in found} == {"fp16", "bf16"}
    assert len(problems_of((SHAPES / "int4_known.txt").read_text(), "known")) == 48


def check_refusals() -> None:
    ours, wrong = contender_json(OURS, "", [5.0], 300, "right"), {"name": "Machete", "verified": False, "error": "3 of 4 elements are wrong"}
    assert faults([{"name": "a", "contenders": [ours, wrong]}]) == ["a: Machete: 3 of 4 elements are wrong"]
    assert [make.refuses(Problem("", 1, 128, 128, group, "fp16")) != "" for make in (Machete, Marlin) for group in (32, 64)] == [True, False, False, False]


def library_of(*binaries: list[tuple[int, int, bytes]]) -> bytes:
    """Returns an ELF file with a section of fat binaries. Each is a list of (kind, architecture, code)."""
    section = b""
    for entries in binaries:
        body = b"".join(struct.pack("<HHIQIIHHI", kind, 0, 64, len(code), 0, 0, 0, 0, arch) + bytes(32) + code for kind, arch, code in entries)
        section += struct.pack("<IHHQ", vllm_library.MAGIC, 1, 16, len(body)) + body + bytes(8)
    return elf_of([(vllm_library.SECTION, 0, section)])


def check_wheel() -> None:
    """The small wheel must keep everything that a Hopper GPU loads: its cubins, and PTX for kernels without one."""
    ptx, cubin = vllm_library.PTX, vllm_library.CUBIN
    elf = library_of([(cubin, 80, b"A" * 8), (ptx, 80, b"B" * 16), (cubin, 90, b"C" * 8)], [(cubin, 80, b"D" * 8), (ptx, 80, b"E" * 8)],
                     [(cubin, 100, b"F" * 8)])
    small = vllm_library.blanked(elf)
    assert len(small) == len(elf) and [letter for letter in b"ABCDEF" if bytes([letter]) * 8 in small] == list(b"CE")
    assert vllm_library.entries_of(small) == vllm_library.entries_of(elf), "headers stay"
    assert "no section" in refusal(ValueError, vllm_library.blanked, elf.replace(b".nv_fatbin", b".other_one"))
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder) / "vllm-1.2.whl", pathlib.Path(folder) / "small.whl"
        with zipfile.ZipFile(source, "w") as wheel:
            wheel.writestr(vllm_library.LIBRARY, elf)
            wheel.writestr("vllm-1.2.dist-info/METADATA", "told")
        vllm_library.shrink(source, target)
        with zipfile.ZipFile(target) as wheel:
            assert vllm_library.version_in(wheel) == "1.2" and wheel.read(vllm_library.LIBRARY) == small
        with zipfile.ZipFile(source, "w") as wheel:
            wheel.writestr("other-1.0.dist-info/METADATA", "told")
        assert "is no wheel of vLLM" in refusal(ValueError, vllm_library.shrink, source, target)


if __name__ == "__main__":
    for check in (check_statistics, check_lists, check_draw, check_refusals, check_wheel):
        check()
    print("int4_peers: self-test passed")
