#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The kernels that a certificate's parts ran, with machine code; tells which of them a tree changes.

    tools/certify_kernels.py [--build build/ci]    compares kernels whose device text has changed (`make kernels`)
    tools/certify_kernels.py --self-test

bench/results/GPU/kernels.xz is in the certificate's folder. A kernel there is a unit (the text that NVRTC
compiles) with its code: registers, and a hash of instructions and constants (unchanged.py). `same` are hashes
of device text under which the unit compiles to this code, `other` those under which it does not. The text is
the unit's headers without comments, and the compiler's options. So in most trees no compiler is needed to
tell which kernels are unchanged. If a text is in neither list, this tool compiles the unit once and adds the
text to one of the lists.
"""
import argparse
import functools
import json
import lzma
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import source_hash
from unchanged import Sources, code_of, compile_units, digest, version_of, without_comments

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = "sluice-kernels-1"
FILE = "kernels.xz"
HEADER = struct.Struct("<5Qd4i")  # sluice/run/jit/cache_entry.cc
SAME, CHANGED, UNCOMPARED, LOST = "same", "changed", "not compared", "not kept"


def logged(path: pathlib.Path) -> dict[str, tuple[str, str]]:
    """Returns (digest of the source, compiler) of each unit in a log (SLUICE_KERNEL_LOG). A kernel that was
    changed for the sanitizers counts as the original unit."""
    found = {}
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        entry, _, text = line.partition("\t")
        source, _, compiler = entry.removesuffix(".cubin").partition(".")
        unit = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], text)
        if text and (unit not in found or "-" in found[unit][1]):
            found[unit] = source, compiler
    return found


@functools.lru_cache(None)
def entry_code(path: pathlib.Path) -> tuple[str, str]:
    """Returns (code, version of NVRTC) of a cache entry; two empty strings if there is none."""
    if not path.is_file():
        return "", ""
    data = path.read_bytes()
    _, key, compiler, log, image, _, registers, *_ = HEADER.unpack_from(data)
    begin = HEADER.size + key + compiler + log
    cubin = data[begin:begin + image]
    return f"{registers} {code_of(cubin)}", version_of(cubin)


class Texts:
    """Computes hashes of the device text of units in a tree."""

    def __init__(self, root: pathlib.Path):
        self.sources, self.known = Sources(root), {}
        options = root / "sluice/run/jit/compiler.cc"
        self.options = without_comments(options.read_text()) if options.is_file() else ""

    def of(self, unit: str) -> str:
        includes = "\n".join(re.findall(r"^#include <[^>]+>", unit, re.M)) + "\n"
        if includes not in self.known:
            self.known[includes] = digest(self.sources.key(includes), self.options)[:12]
        return self.known[includes]


class Kernels:
    """The contents of kernels.xz. `kernels` are {"unit", "code", "by", "same", "other"}. `parts` has the
    indices of the kernels that each part ran."""

    def __init__(self, path: pathlib.Path, *older: pathlib.Path):
        self.path = path
        start = next((p for p in (path, *older) if p.exists()), None)
        data = json.loads(lzma.decompress(start.read_bytes())) if start else {"schema": SCHEMA, "kernels": [], "parts": {}}
        if data.get("schema") != SCHEMA:
            raise SystemExit(f"{start}: schema is {data.get('schema')!r}, not {SCHEMA!r}")
        self.kernels: list[dict] = data["kernels"]
        self.parts: dict[str, list[int]] = data["parts"]

    def write(self, preset: int = 1) -> None:
        """Writes the file, without kernels that no part refers to."""
        used = sorted({i for part in self.parts.values() for i in part})
        place = {old: new for new, old in enumerate(used)}
        self.kernels = [self.kernels[i] for i in used]
        self.parts = {name: [place[i] for i in part] for name, part in self.parts.items()}
        text = json.dumps({"schema": SCHEMA, "kernels": self.kernels, "parts": self.parts}, separators=(",", ":"))
        scratch = self.path.with_suffix(".tmp")
        scratch.write_bytes(lzma.compress(text.encode(), preset=preset))
        scratch.replace(self.path)

    def take(self, part: str, log: pathlib.Path, cache: pathlib.Path, texts: Texts, build: str, ended: bool = True) -> None:
        """Records the kernels that a part of a build ran. If the part is unfinished, its next run adds more."""
        open_parts = {name: self.parts.pop(name) for name in list(self.parts) if name.startswith(f"{part}@")}
        indices = set(open_parts.get(f"{part}@{build}", ()))
        for unit, (source, compiler) in logged(log).items():
            text = texts.of(unit)
            code, by = entry_code(cache / f"{source}.{compiler}.cubin") if "-" not in compiler else ("", "")
            indices.add(self.index(unit, code, by, text))
        self.parts[part if ended else f"{part}@{build}"] = sorted(indices)

    def index(self, unit: str, code: str, by: str, text: str) -> int:
        """Returns the kernel's index. Without code (a changed kernel, or an entry that is not stored) it is
        the kernel known for this text, or a new one whose code is compiled later."""
        for i, kernel in enumerate(self.of_unit(unit)):
            number, known = kernel
            if code in ("", known["code"]) and text in known["same"] or code and known["code"] == code:
                if text not in known["same"]:
                    known["same"].append(text)
                return number
            if code and not known["code"] and text in known["same"]:
                known["code"], known["by"] = code, by
                return number
        self.kernels.append({"unit": unit, "code": code, "by": by, "same": [text], "other": []})
        self.units.setdefault(unit, []).append(len(self.kernels) - 1)
        return len(self.kernels) - 1

    def of_unit(self, unit: str) -> list[tuple[int, dict]]:
        if getattr(self, "indexed", None) is not self.kernels:
            self.indexed, self.units = self.kernels, {}
            for i, kernel in enumerate(self.kernels):
                self.units.setdefault(kernel["unit"], []).append(i)
        return [(i, self.kernels[i]) for i in self.units.get(unit, ())]

    def state(self, kernel: dict, texts: Texts) -> str:
        text = texts.of(kernel["unit"])
        return SAME if text in kernel["same"] else CHANGED if text in kernel["other"] else UNCOMPARED

    def states(self, texts: Texts) -> list[str]:
        return [self.state(kernel, texts) for kernel in self.kernels]

    def differing(self, part: str, states: list[str]) -> dict[str, set[int]]:
        """Returns, by state, the kernels of a part that may have changed. `states`: the state of each kernel."""
        if part not in self.parts:
            return {LOST: set()}
        found = self.parts[part]
        return {state: some for state in (CHANGED, UNCOMPARED) if (some := {i for i in found if states[i] == state})}


def compiled(tool: pathlib.Path, units: list[str], jobs: int) -> dict[str, tuple[str, str]]:
    """(code, version) of each unit; a unit that does not compile has the code "none"."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "units").mkdir()
        for i, unit in enumerate(units):
            (folder / f"units/{i}.cu").write_text(unit)
        return {units[int(number)]: (code, version) for number, code, version in compile_units(tool, folder, [str(i) for i in range(len(units))], jobs)}


def compare(books: list[Kernels], texts: Texts, compile_all) -> tuple[int, int]:
    """Compiles units whose text is in no list. Returns how many kernels were compared and how many differ.
    `compile_all`: units -> {unit: (code, version)}."""
    todo = [(book, kernel) for book in books for kernel in book.kernels
            if book.state(kernel, texts) == UNCOMPARED or not kernel["code"] and book.state(kernel, texts) == SAME]
    made = compile_all(sorted({kernel["unit"] for _, kernel in todo}))
    compared = differing = 0
    for _, kernel in todo:
        text, (code, by) = texts.of(kernel["unit"]), made[kernel["unit"]]
        if not kernel["code"]:  # only a changed form of the unit ran, and the unit itself is not compiled yet
            if text in kernel["same"]:
                kernel["code"], kernel["by"] = code, by
            else:
                kernel["other"].append(text)
            continue
        if code != "none" and by != kernel["by"]:
            raise SystemExit(f"the certificate's kernels are of NVRTC {kernel['by'] or 'unknown'}, and this machine has {by}: name the other with SLUICE_NVRTC")
        compared += 1
        differing += code != kernel["code"]
        kernel["same" if code == kernel["code"] else "other"].append(text)
    return compared, differing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/ci", help="has sluice_unchanged, built from this tree")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        import certify_kernels_self_test
        return certify_kernels_self_test.run()
    tool, teller = arguments.build / "tests/sluice_unchanged", arguments.build / "sluice"
    books, texts = [Kernels(path) for path in sorted((ROOT / "bench/results").glob(f"*/{FILE}"))], Texts(ROOT)
    if not all(set(book.states(texts)) <= {SAME, CHANGED} and all(kernel["code"] for kernel in book.kernels) for book in books):
        if not tool.is_file() or not teller.is_file():
            raise SystemExit(f"no {tool} or {teller}: ninja -C {arguments.build} sluice_unchanged sluice_cli")
        told = source_hash.parsed(subprocess.run([teller, "--version"], capture_output=True, text=True, check=True).stdout)
        if told.get("kernels") != source_hash.hash_of("kernels"):
            raise SystemExit(f"{arguments.build} is of other device code than this tree: ninja -C {arguments.build} sluice_unchanged sluice_cli")
    compared, differing = compare(books, texts, lambda units: compiled(tool, units, arguments.jobs) if units else {})
    for book in books:
        book.write(9 | lzma.PRESET_EXTREME)
        states = book.states(texts)
        print(f"{book.path.parent.name}: {len(states)} kernels, {states.count(CHANGED)} have other machine code than in the certificate")
    print(f"{compared} compared now, {differing} of them changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
