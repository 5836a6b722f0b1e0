# SPDX-License-Identifier: Apache-2.0
"""certify_kernels.py --self-test: with an invented tree and compiler, exactly the kernels whose machine code
changed must be named, whatever else changes. Run by ctest.
"""
import json
import lzma
import pathlib
import tempfile

from certify_kernels import CHANGED, HEADER, SAME, UNCOMPARED, Kernels, Texts, compare, entry_code, logged
from elf import elf_of
from tree import refusal
from unchanged import code_of

A, B, C = ("#include <sluice/kernels/a.cuh>\nk<1>();\n", "#include <sluice/kernels/a.cuh>\nk<2>();\n", "#include <sluice/kernels/c.cuh>\nk<3>();\n")


def entry_of(instructions: bytes, registers: int) -> bytes:
    """Returns a cache entry as sluice/run/jit/cache_entry.cc writes it, without the checksum."""
    image = elf_of([(".text.sluice_entry", registers << 24, instructions), (".note", 0, b"release 13.0, V13.0.88")])
    return HEADER.pack(1, 3, 2, 1, len(image), 0.5, registers, 0, 0, 0) + b"key" + b"by" + b"l" + image


def run() -> int:
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)

        def write(file: str, text: str) -> Texts:
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(text)
            return Texts(root)

        write("sluice/run/jit/compiler.cc", 'options = "-O3";')
        write("sluice/kernels/deep.cuh", "int deep;")
        write("sluice/kernels/a.cuh", "#include <sluice/kernels/deep.cuh>\nint a;")
        texts = write("sluice/kernels/c.cuh", "int c;")
        cache = root / "cache"
        cache.mkdir()
        (cache / "aa.NVRTC_13.cubin").write_bytes(entry_of(b"one", 168))
        (cache / "cc.NVRTC_13.cubin").write_bytes(entry_of(b"three", 90))
        one, three = (f"{registers} {code_of(elf_of([('.text', registers << 24, text)]))}" for registers, text in ((168, b"one"), (90, b"three")))
        assert entry_code(cache / "aa.NVRTC_13.cubin") == (one, "13.0.88"), entry_code(cache / "aa.NVRTC_13.cubin")

        log = root / "log"
        lines = [("aa.NVRTC_13", A), ("cc.NVRTC_13", C), ("bb.NVRTC_13-every_lane_arrives", B), ("aa.NVRTC_13-nothing", A)]
        log.write_text("".join(f"{entry}.cubin\t{unit}".replace("\\", "\\\\").replace("\n", "\\n") + "\n" for entry, unit in lines))
        assert logged(log) == {A: ("aa", "NVRTC_13"), C: ("cc", "NVRTC_13"), B: ("bb", "NVRTC_13-every_lane_arrives")}, logged(log)
        kernels = Kernels(root / "k.xz")
        kernels.take("s/cut", log, cache, texts, "build", ended=False)
        log.write_text("")
        kernels.take("s/cut", log, cache, texts, "build")
        assert {name: len(part) for name, part in kernels.parts.items()} == {"s/cut": 3}, "a part that goes on keeps what its first run had"
        kernels.take("s/cut", log, cache, texts, "another build", ended=False)
        kernels.write()
        kernels = Kernels(root / "k.xz")
        assert [kernel["code"] for kernel in kernels.kernels] == [one, three, ""] and kernels.parts["s/cut@another build"] == []
        assert kernels.states(texts) == [SAME] * 3

        codes = {A: one, B: "168 two", C: three}
        asked = []

        def compiler(units: list[str]) -> dict:
            asked[:] = units
            return {unit: (codes[unit], "13.0.88") for unit in units}

        assert compare([kernels], texts, compiler) == (0, 0) and asked == [B] and kernels.kernels[2]["code"] == "168 two", "a variant's own kernel is compiled later"
        assert kernels.states(write("sluice/kernels/a.cuh", "#include <sluice/kernels/deep.cuh>\nint   a;  // why")) == [SAME] * 3, "a comment is no change"
        texts = write("sluice/kernels/deep.cuh", "int deep; template <int> struct Unused;")
        assert kernels.states(texts) == [UNCOMPARED, SAME, UNCOMPARED], "a header that a header includes; others need no compiler"
        assert kernels.differing("s/cut", kernels.states(texts)) == {UNCOMPARED: {0, 2}}
        assert compare([kernels], texts, compiler) == (2, 0) and asked == [A, B]
        assert kernels.states(texts) == [SAME] * 3 and compare([kernels], texts, compiler) == (0, 0) and asked == [], "asked once"

        texts = write("sluice/kernels/deep.cuh", "int deeper;")
        codes[B] = "168 other"
        assert compare([kernels], texts, compiler) == (2, 1)
        assert kernels.states(texts) == [SAME, SAME, CHANGED], "exactly the kernel whose machine code is another"
        kernels.write()
        assert Kernels(root / "k.xz").states(texts) == [SAME, SAME, CHANGED]
        assert kernels.states(write("sluice/run/jit/compiler.cc", 'options = "-O2";')) == [UNCOMPARED] * 3, "options of the compiler"
        codes[A] = "none"
        compare([kernels], Texts(root), compiler)
        assert kernels.states(Texts(root)) == [CHANGED, SAME, CHANGED], "a unit that no longer compiles"
        write("sluice/run/jit/compiler.cc", 'options = "-O1";')
        codes[A] = one
        other = refusal(SystemExit, compare, [kernels], Texts(root), lambda units: {unit: (codes[unit], "13.2.1") for unit in units})
        assert "of NVRTC 13.0.88, and this machine has 13.2.1" in other, "codes of two compilers are not compared"
        (root / "k.xz").write_bytes(lzma.compress(json.dumps({"schema": "other"}).encode()))
        assert "other" in refusal(SystemExit, Kernels, root / "k.xz"), "a foreign schema"
    print("certify_kernels: self-test passed")
    return 0
