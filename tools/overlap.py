#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that source files share no tokens: the part of the smaller file that stands verbatim in another.

    tools/overlap.py --check       fails on a pair of 25 % and more that is not in tools/overlap_pairs.txt,
                                   and on a listed pair that shares less: take it off the list
    tools/overlap.py --self-test

A token is a word, number, string or sign; comments, preprocessor lines and imports hold none. A token counts
when it lies in a run of RUN tokens or more that the other file has too. Headers (.h) are left out, because
declarations repeat by nature; so are files of fewer than TOKENS tokens.
"""
import collections
import re
import sys

import tree

LIST = "tools/overlap_pairs.txt"
FOLDERS = ("sluice", "include", "cli", "bench", "lab", "python")
LEAST, RUN, TOKENS = 0.25, 12, 150
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[A-Za-z_]\w*|\d[\w.\']*|::|->|<<|>>|[-+*/%&|^=!<>]=|&&|\|\||[^\s\w]')


def tokens_of(name, text):
    if name.endswith(".py"):
        text = re.sub(r'""".*?"""|\'\'\'.*?\'\'\'', "", text, flags=re.S)
        text = re.sub(r"(?m)#.*$|^\s*(?:from|import)\b.*$", "", text)
    else:
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        text = re.sub(r"(?m)//.*$|^\s*#.*$", "", text)
    return TOKEN.findall(text)


def shares(texts):
    """(share, smaller file, larger file) of each pair with a common run, largest share first."""
    files = {name: tokens_of(name, text) for name, text in texts.items()}
    files = {name: tokens for name, tokens in files.items() if len(tokens) >= TOKENS}
    where = collections.defaultdict(set)
    for name, tokens in files.items():
        for i in range(len(tokens) - RUN + 1):
            where[tuple(tokens[i:i + RUN])].add(name)
    covered = collections.defaultdict(set)
    for name, tokens in files.items():
        for i in range(len(tokens) - RUN + 1):
            for other in where[tuple(tokens[i:i + RUN])]:
                if other != name and (len(tokens), name) <= (len(files[other]), other):
                    covered[name, other].update(range(i, i + RUN))
    return sorted(((len(c) / len(files[a]), a, b) for (a, b), c in covered.items()), reverse=True), len(files)


def listed(text):
    return {tuple(line.split()) for line in text.splitlines() if line and not line.startswith("#")}


def faults(found, allowed):
    """Returns the faults of pairs (share, a, b), given the set of allowed (a, b)."""
    pairs = {tuple(sorted(pair[1:])): pair for pair in found if pair[0] >= LEAST}
    known = {tuple(sorted(pair)) for pair in allowed}
    for pair in sorted(pairs.keys() - known):
        share, a, b = pairs[pair]
        yield f"{100 * share:.1f} % of {a} stands in {b}, too: put what both need in one place"
    for a, b in sorted(known - pairs.keys()):
        yield f"{a} and {b} share less than {100 * LEAST:g} %: take them off {LIST}"


def self_test():
    body = " ".join(f"word{i} = {i};" for i in range(60))
    other = " ".join(f"name{i} += {i};" for i in range(60))
    texts = {"a.cc": body, "b.cc": body + other, "c.cc": other.replace("name", "thing"), "d.cc": "// " + body + "\n" + other * 2,
             "e.cc": "int x;"}
    found, count = shares(texts)
    pairs = [(a, b) for share, a, b in found if share >= LEAST]
    assert count == 4 and ("a.cc", "b.cc") in pairs and ("a.cc", "d.cc") not in pairs, found
    assert not any("c.cc" in pair for pair in pairs) and found[0][0] == 1.0
    allowed = listed("# why\na.cc b.cc\nb.cc d.cc\n")
    assert list(faults(found, allowed)) == []
    assert [line[:7] for line in faults(found, allowed - {("a.cc", "b.cc")})] == ["100.0 %"]
    gone = list(faults(found, allowed | {("x.cc", "y.cc")}))
    assert len(gone) == 1 and gone[0].startswith("x.cc and y.cc share less"), gone


def check():
    texts = {name: tree.text_of(name) for name in tree.written(".cc", ".cuh", ".py", folders=FOLDERS)}
    return faults(shares(texts)[0], listed(tree.text_of(LIST)))


if __name__ == "__main__":
    sys.exit(tree.run("overlap", check, self_test))
