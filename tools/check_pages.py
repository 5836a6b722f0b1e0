#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks pages. A page of docs has at most 150 lines of 110 characters, README 140. Findings and decisions begin
with their result in one short paragraph. Each relative link and anchor leads somewhere.

    tools/check_pages.py [--self-test]

Not counted: docs/python-reference.md, and, but for README, lines of blocks that a script writes (`<!-- NAME: made by ... -->`).
The table of folders in docs/tour.md may be wide. Called by `make check` and ctest.
"""
import pathlib
import re
import sys

import tree

MOST_LINES, MOST_COLUMNS, MOST_README_LINES = 150, 110, 140
RESULT_SENTENCES, RESULT_WORDS = 3, 80
GENERATED = re.compile(r"^<!-- [\w ]+: made by .*?^<!-- end of [\w ]+ -->$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
LONG = "docs/python-reference.md"


def anchors_of(text):
    """Returns the anchors of headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def length_faults(name, text):
    lines = GENERATED.sub("", text).splitlines()
    count, most = (len(text.splitlines()), MOST_README_LINES) if name == "README.md" else (len(lines), MOST_LINES)
    faults = [f"{name} has {count} lines: at most {most}; split it, or cut what is not its purpose"] if count > most else []
    rooms = text.partition("## Folders, and what each may include\n")[2].partition("\n\n")[0].splitlines() if name == "docs/tour.md" else []
    long = [line for line in lines if len(line) > MOST_COLUMNS and line not in rooms]
    return faults + ([f"{name}: {len(long)} lines are longer than {MOST_COLUMNS} characters; wrap them, or let a cell hold a phrase: "
                      f"{long[0][:60]}..."] if long else [])


def result_faults(name, text):
    """Returns the faults of a finding or decision that does not begin with its result."""
    blocks = [block for block in text.split("\n\n") if block.strip()]
    first = " ".join(blocks[0].splitlines()[1:] if len(blocks[0].splitlines()) > 1 else blocks[1].splitlines()) if len(blocks) > 1 else ""
    sentences = len(re.findall(r"[.:?!](?=\s|$)", first))
    if not first or first.startswith(("#", "|", "```", "**Context", "H200", "H100")) or re.match(r"\d{4}-", first):
        return [f"{name} does not begin with its result: say it in two sentences behind the title"]
    return [f"{name} begins with {len(first.split())} words: say the result in two sentences, then a blank line"] \
        if sentences > RESULT_SENTENCES or len(first.split()) > RESULT_WORDS else []


def link_faults(name, pages, exists):
    """Returns the broken links of a page. `pages`: name -> text. `exists`: tells whether a file or folder exists."""
    faults = []
    for link in LINK.findall(re.sub(r"```.*?```|`[^`\n]*`", "", pages[name], flags=re.S)):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        parts = [] if not path else list(pathlib.PurePosixPath(name).parent.parts)
        for part in pathlib.PurePosixPath(path).parts:
            if part == "..":
                parts = parts[:-1]
            else:
                parts.append(part)
        target = "/".join(parts) if path else name
        if not exists(target):
            faults.append(f"{name}: the link to {link} leads to no file")
        elif anchor and target in pages and anchor not in anchors_of(pages[target]):
            faults.append(f"{name}: the link to {link} names no heading of {target}")
    return faults


def faults_of(pages, exists):
    faults = []
    for name, text in sorted(pages.items()):
        faults += link_faults(name, pages, exists)
        if name.startswith(("docs/findings/", "docs/decisions/")):
            faults += [] if name.endswith("what-is-left.md") else result_faults(name, text)
        if name != LONG and (name == "README.md" or name.startswith("docs/")):
            faults += length_faults(name, text)
    return faults


def self_test():
    good = {"README.md": "# x\n[a](docs/a.md#two-words) [site](https://x.y)\n", "docs/a.md": "# A\n\n## Two words\n`[n](none)` [r](../README.md)\n",
            "docs/findings/f.md": "# F\n\nIt is so. It costs this.\n\nH200, 2026.\n",
            "docs/findings/g.md": "# G\n\nIt is so.\n\n<!-- t: made by x -->\n" + ("| " + "x" * 110 + " |\n") * 150 + "<!-- end of t -->\n",
            "docs/decisions/d.md": "# D\n\nIt is so.\n" + "\nx\n" * 73, "docs/b.md": "<!-- t: made by `make report` -->\n" + "x" * 200 + "\n<!-- end of t -->\n"}
    bad = {"a long line": ("docs/a.md", "x" * 111 + "\n"), "many lines": ("docs/a.md", "x\n" * 151), "a long README": ("README.md", "<!-- t: made by x -->\n" + "x\n" * 140 + "<!-- end of t -->\n"),
           "a long finding": ("docs/findings/f.md", "# F\n\nIt is so.\n\n" + "x\n" * 147),
           "a wide finding": ("docs/findings/f.md", "# F\n\nIt is so.\n\n| " + "x" * 110 + " |\n"),
           "a long decision": ("docs/decisions/d.md", "# D\n\nIt is so.\n\n" + "x\n" * 147),
           "no result": ("docs/findings/f.md", "# F\n\nH200, 2026-11-21.\n"), "context first": ("docs/decisions/d.md", "# D\n\n**Context.** Long ago.\n"),
           "a long result": ("docs/findings/f.md", "# F\n\n" + "It is. " * 9 + "\n"), "no file": ("docs/a.md", "[x](b.html)\n"),
           "no heading": ("README.md", "[x](docs/a.md#three-words)\n")}
    faults = [f"self-test: {fault}" for fault in faults_of(good, lambda path: path in good)]
    for what, (name, text) in bad.items():
        pages = {**good, name: text}
        if not [fault for fault in faults_of(pages, lambda path, pages=pages: path in pages) if name in fault]:
            faults.append(f"self-test: {what} was not caught")
    return faults


def check():
    pages = {name: tree.text_of(name) for name in tree.names(".md") if not name.startswith("bench/results")}
    return faults_of(pages, lambda path: path in ("", ".") or (tree.ROOT / path).exists())


if __name__ == "__main__":
    sys.exit(tree.run("pages", check, self_test))
