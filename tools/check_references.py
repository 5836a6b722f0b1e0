#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the files named in comments and pages exist: by path, by its end, or by name.

    tools/check_references.py [--self-test]

Histories (docs/findings, docs/decisions, the changelog, results) may name files that are gone. Read are pages,
comments and docstrings; in shell and CMake, text after a # that begins a word.
"""
import re
import sys

import tree
from check_comments import comments_of

KINDS = ("cuh", "cc", "h", "py", "sh", "md", "txt", "pml")
WORD = re.compile(r"(?<![\w/<.$*-])((?:[\w.-]+/)*[\w-]+\.(?:" + "|".join(KINDS) + r"))\b(?![\w(*])")
# Pages that describe the past, and checks with planted mistakes.
LEFT_OUT = ("tools/check_", "docs/findings/", "docs/decisions/", "docs/performance.md", "CHANGELOG.md", "bench/results/")
# Files of other projects or of a user, and invented names.
FOREIGN = re.compile(r"^(cuda|cuda_runtime|nvrtc|cublasLt|stdint|fmt/format)\.h$|NAME|^my_|^summary\.txt$"
                     r"|^(awq|auto_gptq|gptqmodel|quantization|vllm)/|^qlinear_cuda\.py$")
HASH = re.compile(r"(?:^|\s)#\s.*")


def lines_of(name, text):
    """Yields (line number, text) of a whole page, or of a source's comments."""
    kind = name.rpartition(".")[2]
    if kind in ("cuh", "cc", "h", "py"):
        yield from ((comment.line + offset, line) for comment in comments_of(name, text) for offset, line in enumerate(comment.lines))
        return
    for number, line in enumerate(text.split("\n"), 1):
        if kind not in ("sh", "txt"):
            yield number, line
        elif found := HASH.search(line):
            yield number, found.group(0)


def words_of(name, text):
    """Yields (line number, word) of each file named in a page or in a source's comments."""
    for number, line in lines_of(name, text):
        for word in WORD.findall(line):
            yield number, word


def missing(names, read):
    """Returns lines that name a file which is not in `names`."""
    known = {"/" + name for name in names}
    ends = {name[i:] for name in known for i, letter in enumerate(name) if letter == "/"}
    found = []
    for name in names:
        if not name.endswith(KINDS) or name.startswith(LEFT_OUT):
            continue
        for number, word in words_of(name, read(name)):
            plain = re.sub(r"^(\.\.?/)+", "", word)
            if "/" + plain not in ends and not FOREIGN.search(plain):
                found.append(f"{name}:{number}: {word} is no file of this project: name the one that is meant")
    return found


def self_test():
    files = {"a/b.cc": "#include <gone.h>\n// see a/c.h, c.h and gone.h\nint x;  // b.cc, other/c.h\n",
             "a/c.h": "/* See\n * lost.h. */\n", "a/d.py": '"""Of d.py and away.py."""\nx = "#"; y = "gone.py"  # b.cc, e.cc\n',
             "docs/x.md": "[y](../a/c.h), a/gone.cc, cuda.h and sluice/NAME.cc\n",
             "docs/findings/z.md": "gone.cc\n"}
    got = [line.partition(" is no")[0] for line in missing(list(files), files.get)]
    assert got == ["a/b.cc:2: gone.h", "a/b.cc:3: other/c.h", "a/c.h:2: lost.h",
                   "a/d.py:2: e.cc", "a/d.py:1: away.py", "docs/x.md:1: a/gone.cc"], got


def check():
    return missing(tree.names(), tree.text_of)


if __name__ == "__main__":
    sys.exit(tree.run("references", check, self_test))
