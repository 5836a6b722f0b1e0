#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows what a change does to machine code and to plans: one hash for each registered kernel and each plan.

    tools/unchanged.py write FILE             hashes of this tree; compressed to FILE.xz if large
    tools/unchanged.py compare FILE           the same beside FILE: names each difference, exit status 1 if there is one
    tools/unchanged.py --self-test

    --build DIR    a build of the target sluice_unchanged (build/ci)
    --cache DIR    keeps hashes and plan texts by content (/tmp/sluice_unchanged): only changed kernels compile
    --jobs N       compilers at once (all cores)
    --only WORD    compares only lines that contain WORD; plan, kernel, dense, packed ...

A kernel's hash covers its instructions, constants and register count. The cubin itself also holds names and
the hash of the source. A kernel is compiled again when its unit or an included header changes by more than
comments and layout. A plan has two hashes: the choice, and the text for people. Needs NVRTC, no GPU. With
another NVRTC only plans are compared.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import elf
import result_files

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Words of plan texts that were renamed on purpose: (new word, word in older hashes).
RENAMED = (("packed::", "mixed::"), ("Packed", "Mixed"), ("packed", "mixed"))
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[ \t]*\\\n|\s+', re.S)
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)


def digest(*parts):
    sha = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        sha.update(struct.pack("<Q", len(data)) + data)
    return sha.hexdigest()[:16]


def without_comments(text):
    """Returns C++ source with each comment and run of blanks replaced by one blank, or by one line break if
    it contained one."""
    def shorter(match):
        token = match.group(0)
        if token[0] in "\"'":
            return token
        return "\n" if "\n" in token and not token.startswith("/*") else " "
    text = TOKEN.sub(shorter, text)
    return "\n".join(line for line in (re.sub(" +", " ", part).strip() for part in text.split("\n")) if line)


class Sources:
    """Headers as the library embeds them. A unit's key changes with each header that it includes, directly or
    indirectly."""

    def __init__(self, folder):
        self.folder, self.texts, self.raw = folder, {}, {}

    def header(self, name):
        if name not in self.texts:
            path = self.folder / name
            raw = path.read_text() if path.is_file() else None
            self.raw[name] = [] if raw is None else INCLUDE.findall(raw)
            self.texts[name] = None if raw is None else without_comments(raw)
        return self.texts[name]

    def key(self, unit):
        todo, seen, parts = INCLUDE.findall(unit)[::-1], set(), []
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            text = self.header(name)
            if text is not None:
                parts.append(f"{text}")
                todo += self.raw[name][::-1]
        return digest(without_comments(unit), *parts)


def code_of(cubin):
    """The parts of a cubin that a GPU runs or reads: instructions and constants, under any names."""
    parts = []
    for section in elf.sections_of(cubin):
        kind = re.match(r"\.text|\.nv\.constant\d*|\.nv\.global\.init", section.name)
        if kind and section.kind != elf.NOBITS:
            registers = section.info >> 24 if section.name.startswith(".text") else 0
            parts.append(digest(kind.group(0), str(registers), cubin[section.offset:section.offset + section.size]))
    if not parts:
        raise SystemExit("a cubin has no machine code")
    return digest(*sorted(parts))


def version_of(cubin):
    """The version of the NVRTC that made a cubin."""
    found = re.search(rb"V(\d+\.\d+\.\d+)", cubin)
    return found[1].decode() if found else ""


def compile_units(tool, folder, numbers, jobs):
    """Yields (number, registers and code hash, version of NVRTC) of folder/units/NUMBER.cu, in any order. A unit that does
    not compile has the code "none"."""
    def run(group):
        done, found = subprocess.run([str(tool), "compile", str(folder), *group], capture_output=True, text=True), []
        for line in done.stdout.splitlines():
            number, registers = line.split()
            path = folder / "units" / f"{number}.cubin"
            cubin = path.read_bytes()
            found.append((number, f"{registers} {code_of(cubin)}", version_of(cubin)))
            path.unlink()
        rest = [number for number in group if number not in {one[0] for one in found}]
        if rest == group and len(rest) == 1:
            print(done.stderr, file=sys.stderr)
            return [(rest[0], "none", "")]
        return found + [one for number in rest for one in run([number])]

    groups, count = [numbers[i:i + 20] for i in range(0, len(numbers), 20)], 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for found in pool.map(run, groups):
            yield from found
            count += len(found)
            print(f"compiled {count} of {len(numbers)}", file=sys.stderr, flush=True)


def kernel_lines(tool, folder, args, compiler):
    sources = Sources(folder / "headers")
    kept = pathlib.Path(args.cache) / "code"
    kept.mkdir(parents=True, exist_ok=True)
    names, keys, values = {}, {}, {}
    for line in (folder / "units.txt").read_text().splitlines():
        number, names[number] = line.split("\t")
        keys[number] = digest(compiler, sources.key((folder / "units" / f"{number}.cu").read_text()))
        if (kept / keys[number]).is_file():
            values[number] = (kept / keys[number]).read_text()
    missing = [number for number in names if number not in values]
    for number, value, _ in compile_units(tool, folder, missing, args.jobs):
        if value == "none":
            raise SystemExit(f"{names[number]} does not compile")
        values[number] = value
        (kept / keys[number]).write_text(value)
    count = collections.Counter()
    for number, name in names.items():
        count[name] += 1
        more = f" #{count[name]}" if count[name] > 1 else ""
        yield f"kernel {canonical(name)}{more}\t{values[number]}"


def canonical(text):
    for new, old in RENAMED:
        text = text.replace(new, old)
    return text


def plan_lines(text, kept):
    kept.mkdir(parents=True, exist_ok=True)
    count = collections.Counter()
    for block in re.split(r"\n(?=\S)", text.rstrip("\n")):
        name, _, body = block.partition("\n")
        name = canonical(name)
        lines = canonical(body).splitlines()
        parts = ["\n".join(line[3:] for line in lines if line.startswith(mark)) for mark in (" = ", "   ")]
        for part in parts:
            (kept / digest(part)).write_text(part)
        count[name] += 1
        more = f" #{count[name]}" if count[name] > 1 else ""
        yield f"plan {name}{more}\t{digest(parts[0])} {digest(parts[1])}"


def lines_of_tree(args):
    tool = pathlib.Path(args.build) / "tests/sluice_unchanged"
    if not tool.is_file():
        raise SystemExit(f"no {tool}: ninja -C {args.build} sluice_unchanged")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([str(tool), "list", name], check=True)
        (_, _, compiler), = compile_units(tool, folder, ["0"], 1)
        lines = [f"compiler\t{compiler}"]
        if not args.only.startswith("plan"):
            lines += kernel_lines(tool, folder, args, compiler)
        lines += plan_lines((folder / "plans.txt").read_text(), pathlib.Path(args.cache) / "plans")
    return lines


def shown(kept, old, new):
    """Returns both texts of a plan, if the cache has them, with the lines that differ."""
    for before, after in zip(old.split(), new.split()):
        texts = [kept / h for h in (before, after)]
        if before == after or not all(t.is_file() for t in texts):
            continue
        was, now = [t.read_text().splitlines() for t in texts]
        yield from [f"    - {line}" for line in was if line not in now] + [f"    + {line}" for line in now if line not in was]


def differences(before, after, only="", kept=pathlib.Path("/nonexistent")):
    """Returns at least a line for each kernel or plan that is gone, new or changed."""
    old, new = [dict(line.rsplit("\t", 1) for line in lines if only in line) for lines in (before, after)]
    same_compiler = old.pop("compiler", None) == new.pop("compiler", None)
    for name in sorted(old.keys() | new.keys()):
        if name.startswith("kernel ") and (not same_compiler or only.startswith("plan")):
            continue
        if name not in new:
            yield f"gone: {name}"
        elif name not in old:
            yield f"new: {name}"
        elif old[name] != new[name]:
            was, now = old[name].split(), new[name].split()
            if name.startswith("kernel "):
                note = "" if was[0] == now[0] else f" ({was[0]} registers, now {now[0]})"
                yield f"other machine code{note}: {name}"
            else:
                yield f"{'other choice' if was[0] != now[0] else 'other text'}: {name}"
                yield from shown(kept, old[name], new[name])


def self_test():
    header = "#pragma once\n// says why\nint f(int x);  /* and\nmore */\nconst char* s = \"// no comment\";\n"
    assert without_comments(header) == without_comments("#pragma once\nint f(int x);\nconst char* s = \"// no comment\";")
    assert without_comments("a / b") != without_comments("a")
    assert without_comments("#define A 1 // x\nint a;") == "#define A 1\nint a;"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        unit = "#include <a.h>\nkernel();\n"

        def key(text, deep="int deep = 1;"):
            (folder / "a.h").write_text('#include "b.h"\n' + text)
            (folder / "b.h").write_text(deep)
            return Sources(folder).key(unit)

        plain = key("int x = 3;")
        assert plain == key("int x = 3;  // three") and plain == key("// why\nint   x = 3;")
        assert plain != key("int x = 4;"), "a constant of a header changes a unit's key"
        assert plain != key("int x = 3;", "int deep = 2;"), "and so does one of a header that a header includes"
    code = code_of(elf.elf_of([(".text.sluice_entry", 168 << 24, b"instructions"), (".debug", 0, b"a")]))
    assert code == code_of(elf.elf_of([(".debug", 0, b"b"), (".text.other_name", 168 << 24, b"instructions")]))
    assert code != code_of(elf.elf_of([(".text.sluice_entry", 168 << 24, b"instructiont")]))
    assert code != code_of(elf.elf_of([(".text.sluice_entry", 160 << 24, b"instructions")]))
    assert code != code_of(elf.elf_of([(".text.sluice_entry", 168 << 24, b"instructions"), (".nv.constant4", 0, b"a")]))
    with tempfile.TemporaryDirectory() as name:
        kept = pathlib.Path(name)
        planned = "h200 packed 1\n = sluice::PackedConfig{.a = 1}\n   people read it\nh200 2\n = x\n   y\n"
        before = ["compiler\t13.0", "kernel dense 1\t168 aa", *plan_lines(planned, kept)]
        assert not list(differences(before, before))
        renamed = [before[0], before[1], *plan_lines(planned.replace("acked", "ixed").replace("Pixed", "Mixed")
                                                     .replace("pixed", "mixed"), kept)]
        assert not list(differences(before, renamed)), "renamed on purpose"
        for change, found in ((("168 aa", "168 ab"), "other machine code: kernel dense 1"),
                              (("168 aa", "160 aa"), "other machine code (168 registers, now 160): kernel dense 1"),
                              (("dense 1", "dense 2"), "gone: kernel dense 1")):
            after = [line.replace(*change) for line in before]
            assert list(differences(before, after))[0] == found, list(differences(before, after))
        after = [*before[:2], *plan_lines(planned.replace(".a = 1", ".a = 2"), kept)]
        assert list(differences(before, after, kept=kept)) == [
            "other choice: plan h200 mixed 1", "    - sluice::MixedConfig{.a = 1}", "    + sluice::MixedConfig{.a = 2}"]
        after = [*before[:2], *plan_lines(planned.replace("people", "nobody"), kept)]
        assert list(differences(before, after))[0] == "other text: plan h200 mixed 1"
        assert list(differences(before, ["compiler\t13.1", "kernel dense 1\t1 b", *before[2:]])) == []
    print("planted changes are named")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("verb", nargs="?", choices=("write", "compare"))
    parser.add_argument("file", nargs="?")
    parser.add_argument("--build", default=str(ROOT / "build/ci"))
    parser.add_argument("--cache", default=os.environ.get("SLUICE_UNCHANGED_CACHE", "/tmp/sluice_unchanged"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        return self_test()
    if not args.file:
        parser.error("say write or compare, and a file")
    lines = lines_of_tree(args)
    if args.verb == "write":
        result_files.write(result_files.plain(pathlib.Path(args.file)), "\n".join(lines) + "\n")
        print(f"{len(lines) - 1} hashes in {args.file}")
        return 0
    before = result_files.text_of(pathlib.Path(args.file)).splitlines()
    found = list(differences(before, lines, args.only, pathlib.Path(args.cache) / "plans"))
    if before[0] != lines[0]:
        print(f"{args.file} is of NVRTC {before[0].split()[-1]}, this tree of {lines[0].split()[-1]}: plans alone are compared")
    for line in found:
        print(line)
    print(f"{sum(not line.startswith(' ') for line in found)} differences, {len(lines) - 1} hashes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
