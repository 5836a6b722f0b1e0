#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists pairs of source files that share tokens: the part of the smaller file that stands verbatim in the
other.

    tools/overlap.py [--least 0.15] [--run 12] [--tokens 150] [folder ...]    lists pairs, largest share first
    tools/overlap.py --check       fails on a pair of 25 % and more that is not in tools/overlap_pairs.txt,
                                   and on a listed pair that shares less: take it off the list
    tools/overlap.py --shrink      takes such pairs off the list
    tools/overlap.py --self-test

A token is a word, number, string or sign; comments, preprocessor lines and imports hold none. A token counts
when it lies in a run of --run tokens or more that the other file has too. Headers (.h) are left out, because
declarations repeat by nature; so are files of fewer than --tokens tokens. Default folders: sluice include cli
bench python.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "tools/overlap_pairs.txt"
FOLDERS = ("sluice", "include", "cli", "bench", "python")
LEAST, RUN, TOKENS = 0.25, 12, 150  # defaults of --check
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[A-Za-z_]\w*|\d[\w.\']*|::|->|<<|>>|[-+*/%&|^=!<>]=|&&|\|\||[^\s\w]')


def tokens_of(name, text):
    if name.endswith(".py"):
        text = re.sub(r'""".*?"""|\'\'\'.*?\'\'\'', "", text, flags=re.S)
        text = re.sub(r"(?m)#.*$|^\s*(?:from|import)\b.*$", "", text)
    else:
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        text = re.sub(r"(?m)//.*$|^\s*#.*$", "", text)
    return TOKEN.findall(text)


def shares(texts, run=RUN, least_tokens=TOKENS):
    """Returns (share, smaller file, larger file) of each pair with a common run, largest share first."""
    files = {name: tokens_of(name, text) for name, text in texts.items()}
    files = {name: tokens for name, tokens in files.items() if len(tokens) >= least_tokens}
    where = collections.defaultdict(set)
    for name, tokens in files.items():
        for i in range(len(tokens) - run + 1):
            where[tuple(tokens[i:i + run])].add(name)
    covered = collections.defaultdict(set)
    for name, tokens in files.items():
        for i in range(len(tokens) - run + 1):
            for other in where[tuple(tokens[i:i + run])]:
                if other != name and (len(tokens), name) <= (len(files[other]), other):
                    covered[name, other].update(range(i, i + run))
    return sorted(((len(c) / len(files[a]), a, b) for (a, b), c in covered.items()), reverse=True), len(files)


def sources(folders):
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files", *folders], capture_output=True, text=True, check=True).stdout.split()
    return {name: (ROOT / name).read_text(errors="replace") for name in names
            if name.endswith((".cc", ".cuh", ".py")) and "generated" not in name and (ROOT / name).is_file()}


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
        yield f"{a} and {b} share less than {100 * LEAST:g} %: take them off {LIST.name} (tools/overlap.py --shrink)"


def shrink(found):
    pairs = {tuple(sorted(pair[1:])) for pair in found if pair[0] >= LEAST}
    kept = [line for line in LIST.read_text().splitlines()
            if not line or line.startswith("#") or tuple(sorted(line.split())) in pairs]
    LIST.write_text("\n".join(kept) + "\n")


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
    print("planted pairs are found")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--least", type=float, default=0.15)
    parser.add_argument("--run", type=int, default=RUN)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("folders", nargs="*", default=list(FOLDERS))
    args = parser.parse_args()
    if args.self_test:
        return self_test()
    found, count = shares(sources(args.folders), args.run, args.tokens)
    if args.shrink:
        return shrink(found)
    if args.check:
        wrong = list(faults(found, listed(LIST.read_text())))
        print("\n".join(wrong) if wrong else "overlap: ok")
        return 1 if wrong else 0
    pairs = [pair for pair in found if pair[0] >= args.least]
    for share, a, b in pairs:
        print(f"{100 * share:5.1f} %  {a}  in  {b}")
    print(f"{len(pairs)} pairs of {count} files share {100 * args.least:g} % and more; "
          f"the largest share is {100 * (found[0][0] if found else 0):.1f} %")
    return 1 if pairs else 0


if __name__ == "__main__":
    sys.exit(main())
