#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says which source files may be compiled as one unit, for CMake's unity build (cmake/SluiceJoin.cmake).

    tools/join_sources.py --units 4 FILE...

prints lines: `headers FILE...` are to be precompiled, so that each unit begins with all of them; `apart FILE...`
must not see them and are compiled alone; each further `unit FILE...` is one unit.

Headers then are read once a unit, and templates made once. Files that share a header which is slow to read go
together. Two files may not share a unit where a name that one keeps to itself is a word of the other. (Such names:
of an unnamed namespace, static, an alias, a macro.) It would be defined twice, which is an error, or hide what
the other means, which nobody would see. Files that fit no unit make further ones; a file that fits nowhere
is not printed, and is compiled alone. `--self-test` shows that planted clashes are kept apart.
"""
import argparse
import collections
import functools
import re
import sys
from pathlib import Path

COMMENTS = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
WORD = re.compile(r"(?<![.>:\w])(?<!->)[A-Za-z_]\w*")  # not a member, and not a name of another namespace
INCLUDE = re.compile(r'^#include [<"]([^>"]+)[>"]', re.M)
TYPE = re.compile(r"^(?:struct|class|union|enum(?: class)?) (\w+)")
CALL = re.compile(WORD.pattern + r"(?=\s*[({<])")  # a call or a declaration of a function
ALIAS = re.compile(r"^(?:using|namespace) (\w+) =")
TAKEN = re.compile(r"^using (?!namespace)[\w:]*::(\w+);")  # imports one name of another namespace
PLACE = re.compile(r"^namespace ([\w:]+) \{", re.M)
OPENED = re.compile(r"^using namespace ([\w:]+);", re.M)  # imports all names of another namespace
MACRO = re.compile(r"^#define (\w+)", re.M)
FUNCTION = re.compile(r"^[\w:<>,&*\s~\[\]]*?\b(\w+)\(")
VALUE = re.compile(r"^[\w:<>,&*\s]*?\b(\w+)(?:\[[^\]]*\])*\s*(?:=|\{|;)")
# Costs of other projects' headers: the number of characters of source that take the compiler as long.
SLOW = {"CLI/CLI.hpp": 16_000, "nlohmann/json.hpp": 12_000, "fmt/format.h": 3_000}
NO_NAMES = {"if", "for", "while", "return", "static_assert", "operator", "switch", "default", "struct", "class", "namespace", "template", "decltype"}


def own_names(text):
    """Returns the names that only a file itself can see, by kind. House style puts each at the start of a line."""
    names = {name: "type" for name in MACRO.findall(text)}
    hidden = False
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith("namespace {"):
            hidden = True
        elif hidden and line.rstrip() == "}":
            # A brace alone ends a function or the namespace, and only the latter follows an empty line.
            hidden = number > 0 and bool(lines[number - 1].strip())
        if not line or not (line[0].isalpha() or line[0] == "_"):
            continue
        if match := ALIAS.match(line) or TAKEN.match(line):
            names[match[1]] = "type"
            continue
        if not hidden and not line.startswith("static "):
            continue
        if match := TYPE.match(line):
            names[match[1]] = "type"
            if line.startswith("enum ") and not line.startswith("enum class"):
                body = text[text.index(line):]
                names.update({name: "value" for name in re.findall(r"\b\w+\b(?=\s*[,=}])", body[:body.index("}") + 1])})
        elif match := FUNCTION.match(line):
            names[match[1]] = "function"
        elif match := VALUE.match(line):
            names[match[1]] = "value"
    return {name: kind for name, kind in names.items() if name not in NO_NAMES}


def code_of(text):
    return COMMENTS.sub(lambda found: " " if found[0].startswith(("//", "/*")) else '""', text)


def shown_names(text):
    """Returns the names that a header declares for all: those at the start of a line."""
    found = (pattern.match(line) for line in text.split("\n") if line[:1].isalpha() for pattern in (ALIAS, TYPE, FUNCTION, VALUE))
    return {match[1] for match in found if match} - NO_NAMES


Header = collections.namedtuple("Header", "words calls includes shown places")


@functools.cache
def header(name):
    """Returns the text of a header of this repository; None for other headers."""
    for folder in ("", "include"):
        if (path := Path(folder, name)).is_file():
            text = path.read_text()
            code = code_of(text)
            return Header(frozenset(WORD.findall(code)), frozenset(CALL.findall(code)), frozenset(INCLUDE.findall(text)),
                          frozenset(shown_names(code)), frozenset(PLACE.findall(code)))
    return None


def headers_of(names):
    """Returns the headers of this repository that are included directly or indirectly, and the slow ones of
    other projects."""
    found, slow, waiting = set(), set(), set(names)
    while waiting:
        name = waiting.pop()
        if name in SLOW:
            slow.add(name)
        if name not in found and header(name):
            found.add(name)
            waiting |= header(name).includes
    return found, slow


class Source:
    def __init__(self, path, text):
        code = code_of(text)
        self.path, self.weight, self.own = path, len(text), own_names(code)
        self.words, self.calls = set(WORD.findall(code)), set(CALL.findall(code))
        self.places = PLACE.findall(code)
        self.opens = bool(OPENED.search(code))
        self.headers, self.slow = headers_of(INCLUDE.findall(text))
        self.told = set().union(*(header(name).words for name in self.headers))

    def may_mean(self, name, kind, earlier):
        """Returns true if this file, or a header that is read after `earlier`, may use `name` for something
        outside of functions and classes. Files compile on their own. So a word that none of its headers
        declares, and that is not called, is a local variable or a member."""
        new = [header(one) for one in self.headers - earlier.headers if not one.endswith(".h")]  # .h files are precompiled
        if name in self.own or name in self.calls or (name in self.words and (kind == "type" or name in self.told)):
            return True
        return any(name in one.calls or (kind != "function" and name in one.words) for one in new)

    def hides_from(self, other):
        return self.opens or any(other.may_mean(name, kind, self) for name, kind in self.own.items())

    def clashes(self, other):
        return self.hides_from(other) or other.hides_from(self)


def beside(path, text):
    """Yields the texts of the headers in a source's own folder that it includes, directly or indirectly."""
    seen, waiting = set(), INCLUDE.findall(text)
    while waiting:
        name = waiting.pop()
        if name not in seen and (file := Path(path).parent / name).is_file():
            seen.add(name)
            yield (found := file.read_text())
            waiting += INCLUDE.findall(found)


def is_apart(source, headers):
    """Whether a header that this file does not include shows a name that this file keeps to itself, in the same namespace or
    one around it. A function is found in any namespace, by its arguments."""
    for one in map(header, headers - source.headers):
        around = any((place + "::").startswith(other + "::") for place in source.places for other in one.places)
        if any(name in one.shown and (around or kind == "function") for name, kind in source.own.items()):
            return True
    return False


def cost(unit):
    return sum(source.weight for source in unit) + sum(SLOW[name] for name in set().union(*(source.slow for source in unit)))


def units_of(sources, count):
    """Divides the sources among units. The heaviest come first, and each goes to the unit that it makes the
    least longer, until that has its share."""
    units = [[] for _ in range(count)]
    share = 1.1 * sum(source.weight for source in sources) / count + sum(SLOW.values())
    for source in sorted(sources, key=lambda s: (-s.weight, s.path)):
        fit = [unit for unit in units if not any(source.clashes(other) for other in unit)]
        after = {id(unit): cost([*unit, source]) for unit in fit}
        if not fit:
            units.append([source])
        else:
            min(fit, key=lambda unit: (after[id(unit)] > share, after[id(unit)] - cost(unit), cost(unit))).append(source)
    return [sorted(unit, key=lambda s: s.path) for unit in units if len(unit) > 1]


def self_test():
    def one(body, outside=""):
        return Source("x", f"namespace a {{\nnamespace {{\n\n{body}\n\n}}  // namespace\n{outside}\n}}  // namespace a\n")

    clashing = [("int number(int x) {\n  return x;\n}", "int number() { return 1; }"), ("constexpr int kMost = 3;", "constexpr long kMost{3};"),
                ("struct Operand {\n  int a;\n};", "int f(Operand x) {}"), ("using Json = int;", "void g(Json j);"), ("enum Name { kNameX, kNameD };", "int kNameD = 1;"),
                ("int most(int x) {\n}", "int f() { return most<int>; }"), ("int x;", "auto y = x(3);"),
                ("std::vector<int> all(\n    int a) {\n}", "int y = all(3);"), ("#define TWICE(x) x", "int TWICE(a);")]
    for first, second in clashing:
        assert one(first).clashes(one(second)), (first, second)
    assert one("", "static int alone() {\n}").clashes(one("int alone;"))
    for first, second in [("int number() {}", "int f() { return x.number; }"), ("int number() {}", "// number\nint g() { return b::number(); }"),
                          ("int f() {}", 'const char* kText = "f";'), ("int f() {}", "int g(int h, int f) { return f + h; }")]:
        assert not one(first).clashes(one(second)), (first, second)
    assert not one("", "int shown() {\n}").clashes(one("int g() { return shown(); }"))
    with_header = Source("y", '#include <sluice/result.h>\nError x;')
    assert one("int Error;").clashes(with_header) and not one("int nobody_says_this;").clashes(with_header)
    assert one("", "using namespace b;").clashes(one("int anything;")) and one("", "using b::number;").clashes(one("int f(int number);"))
    assert one("", "namespace c = b::c;").clashes(one("", "namespace c = a::c;"))
    assert not units_of([one("int f() {\n}")] * 3, 2) and len(units_of([one("int f() {\n}")] * 3 + [one("int g;")] * 1, 1)[0]) == 2
    error = "namespace {}::own {{\nnamespace {{\n\nstruct Error {{\n}};\n\n}}  // namespace\n}}  // namespace\n"
    assert is_apart(Source("z", error.format("sluice")), {"sluice/result.h"})
    assert not is_apart(Source("z", error.format("mill")), {"sluice/result.h"})
    slow = [Source(name, f"#include <{path}>\nint {name};") for name, path in zip("abcd", ["CLI/CLI.hpp", "nlohmann/json.hpp"] * 2)]
    assert sorted([source.path for source in unit] for unit in units_of(slow, 2)) == [["a", "c"], ["b", "d"]]
    print(f"{len(clashing) + 5} planted clashes are kept apart")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--units", type=int, default=2)
    parser.add_argument("--self-test", action="store_true")
    given = parser.parse_args()
    if given.self_test:
        return self_test()
    sources = [Source(path, Path(path).read_text()) for path in given.files]
    headers = {name for source in sources for name in source.headers if name.endswith(".h")}
    # A header of the folder that defines a word of the compiler's (__device__) must come before all others.
    apart = [source for source in sources if is_apart(source, headers) or
             any(name.startswith("__") for text in beside(source.path, Path(source.path).read_text()) for name in MACRO.findall(text))]
    print("headers", *sorted({name for source in sources for name in source.slow}), *sorted(headers))
    print("apart", *(source.path for source in apart))
    for unit in units_of([source for source in sources if source not in apart], given.units):
        print("unit", *(source.path for source in unit))


if __name__ == "__main__":
    sys.exit(main())
