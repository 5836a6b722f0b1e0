#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says which source files may be compiled as one unit, for CMake's unity build (cmake/SluiceJoin.cmake).

    tools/join_sources.py --units 4 a.cc b.cc ...     prints "UNIT FILE" for every file that joins a unit

Headers then are read once a unit, and templates made once: a build of the tool takes a third of the time. Two
files may not share a unit where a name that one keeps to itself (in a namespace without a name, static, an
alias, a macro) is a word of the other: it would be defined twice, or hide what the other means. A file that
fits no unit is not printed, and is compiled alone. `--self-test` shows that planted clashes are kept apart.
"""
import argparse
import functools
import re
import sys
from pathlib import Path

COMMENTS = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
WORD = re.compile(r"(?<![.>:\w])(?<!->)[A-Za-z_]\w*")  # no member and no name of another namespace
INCLUDE = re.compile(r'^#include [<"]([^>"]+)[>"]', re.M)
TYPE = re.compile(r"^(?:struct|class|union|enum(?: class)?) (\w+)")
ALIAS = re.compile(r"^using (\w+) =")
MACRO = re.compile(r"^#define (\w+)", re.M)
FUNCTION = re.compile(r"^[\w:<>,&*\s~\[\]]*?\b(\w+)\(")
VALUE = re.compile(r"^[\w:<>,&*\s]*?\b(\w+)(?:\[[^\]]*\])*\s*(?:=|\{|;)")
NO_NAMES = {"if", "for", "while", "return", "static_assert", "operator", "switch", "default", "struct", "class", "namespace", "template", "decltype"}


def own_names(text):
    """The names that a file keeps to itself. House style puts each at the start of a line."""
    names = set(MACRO.findall(text))
    hidden = False
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith("namespace {"):
            hidden = True
        elif hidden and line.startswith("}") and line.strip() == "}":  # its comment is stripped
            hidden = not is_end_of_namespace(lines, number)
        if not line or not (line[0].isalpha() or line[0] == "_"):
            continue
        if match := ALIAS.match(line):
            names.add(match[1])
        if not hidden and not line.startswith("static "):
            continue
        if match := TYPE.match(line):
            names.add(match[1])
            if line.startswith("enum ") and not line.startswith("enum class"):
                body = text[text.index(line):]
                names.update(re.findall(r"\b\w+\b(?=\s*[,=}])", body[:body.index("}") + 1]))
        elif match := FUNCTION.match(line) or VALUE.match(line):
            names.add(match[1])
    return names - NO_NAMES


def is_end_of_namespace(lines, number):
    """A lone brace at the start of a line ends a function or the namespace: only the latter follows an empty line."""
    return number == 0 or not lines[number - 1].strip()


def code_of(text):
    return COMMENTS.sub(lambda found: " " if found[0].startswith(("//", "/*")) else '""', text)


@functools.cache
def header(name):
    """Of a header of this repository: its words, and the headers that it includes. None of any other."""
    for folder in ("", "include"):
        if (path := Path(folder, name)).is_file():
            text = path.read_text()
            return frozenset(WORD.findall(code_of(text))), frozenset(INCLUDE.findall(text))
    return None


def headers_of(names):
    found, waiting = set(), set(names)
    while waiting:
        name = waiting.pop()
        if name not in found and header(name):
            found.add(name)
            waiting |= header(name)[1]
    return found


class Source:
    def __init__(self, path, text):
        code = code_of(text)
        self.path, self.weight, self.own, self.words = path, len(text), own_names(code), set(WORD.findall(code))
        self.headers = headers_of(INCLUDE.findall(text))

    def hides_from(self, other):
        """A header that only the other includes may follow this file's names too."""
        return self.own & other.words or any(self.own & header(name)[0] for name in other.headers - self.headers)

    def clashes(self, other):
        return bool(self.hides_from(other) or other.hides_from(self))


def units_of(sources, count):
    """The heaviest first, each into the lightest unit that takes it."""
    units = [[] for _ in range(count)]
    for source in sorted(sources, key=lambda s: (-s.weight, s.path)):
        for unit in sorted(units, key=lambda unit: sum(s.weight for s in unit)):
            if not any(source.clashes(other) for other in unit):
                unit.append(source)
                break
    return [sorted(unit, key=lambda s: s.path) for unit in units]


def self_test():
    def one(body, outside=""):
        return Source("x", f"namespace a {{\nnamespace {{\n\n{body}\n\n}}  // namespace\n{outside}\n}}  // namespace a\n")

    clashing = [("int number(int x) {\n  return x;\n}", "int number() { return 1; }"), ("constexpr int kMost = 3;", "constexpr long kMost{3};"),
                ("struct Operand {\n  int a;\n};", "int f(Operand x) {}"), ("using Json = int;", "void g(Json j);"), ("enum Name { kNameX, kNameD };", "int x = kNameD;"),
                ("std::vector<int> all(\n    int a) {\n}", "int y = all(3);"), ("#define TWICE(x) x", "int TWICE(a);")]
    for first, second in clashing:
        assert one(first).clashes(one(second)), (first, second)
    assert one("", "static int alone() {\n}").clashes(one("int alone;"))
    for first, second in [("int number() {}", "int f() { return x.number; }"), ("int number() {}", "// number\nint g() { return b::number(); }"),
                          ("int f() {}", 'const char* kText = "f";')]:
        assert not one(first).clashes(one(second)), (first, second)
    assert not one("", "int shown() {\n}").clashes(one("int g() { return shown(); }"))
    with_header = Source("y", '#include <sluice/result.h>\nint x;')
    assert one("int Error;").clashes(with_header) and not one("int nobody_says_this;").clashes(with_header)
    units = units_of([one("int f() {\n}"), one("int f() {\n}"), one("int f() {\n}")], 2)
    assert sorted(len(unit) for unit in units) == [1, 1]
    print(f"{len(clashing) + 2} planted clashes are kept apart")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--units", type=int, default=2)
    parser.add_argument("--self-test", action="store_true")
    given = parser.parse_args()
    if given.self_test:
        return self_test()
    for number, unit in enumerate(units_of([Source(path, Path(path).read_text()) for path in given.files], given.units)):
        for source in unit:
            print(number, source.path)


if __name__ == "__main__":
    sys.exit(main())
