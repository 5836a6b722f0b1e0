#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks README.md: the C++ compiles, the names of sluice.torch exist, the tool has the verbs and flags. Checks
that the C of docs/cpp.md compiles, too.

    tools/check_readme.py --compiler g++ --tool build/release/sluice
    tools/check_readme.py --cpp FILE
    tools/check_readme.py --self-test

Called by ctest, and by tests/package, which runs the C++. Other pages have programs in examples/, which are built and tested whole.
"""
import argparse
import ast
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEFORE = ("void fail(const sluice::Error& error) { std::printf(\"%s\\n\", error.message.c_str()); }\n"
          "void readme(const void* a, const void* b, void* d, sluice::Stream stream) {")
# Without operands, so the program ends with an error.
AFTER = "}\nint main() { readme(nullptr, nullptr, nullptr, {}); }"


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def program_of(block: str) -> str:
    """Returns the snippet as a function of the pointers and the stream that it uses, and a call of it."""
    lines = block.splitlines()
    included = [line for line in lines if line.startswith("#")]
    return "\n".join(["#include <cstdio>", *included, BEFORE, *(line for line in lines if not line.startswith("#")), AFTER, ""])


def rejected(command: list[str], text: str) -> list[str]:
    """The compiler's first line on a text that it rejects."""
    done = subprocess.run([*command, "-fsyntax-only", f"-I{ROOT / 'include'}", f"-I{ROOT}", "-"], input=text, capture_output=True, text=True)
    return [f"{command[0]}: {done.stderr.strip().splitlines()[0]}"] if done.returncode else []


def compile_faults(text: str, compiler: str) -> list[str]:
    found = [] if blocks(text, "cpp") else ["there is no C++ to compile"]
    return found + [fault for block in blocks(text, "cpp") for fault in rejected([compiler, "-std=c++20", "-x", "c++"], program_of(block))]


def c_faults(text: str) -> list[str]:
    """Returns the faults of the C code in `text`: docs/cpp.md, where each block is a whole function."""
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", "-x", "c"]
    return ([] if blocks(text, "c") else ["docs/cpp.md has no C to compile"]) + [fault for block in blocks(text, "c") for fault in rejected(command, block)]


def python_faults(text: str, names: set[str]) -> list[str]:
    """Returns names in README that the package lacks. `names`: __all__ of sluice.torch."""
    used = [node for block in blocks(text, "python") for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Attribute)]
    return [f"sluice.torch has no {node.attr}" for node in used
            if isinstance(node.value, ast.Name) and node.value.id == "st" and node.attr not in names]


def tool_faults(text: str, help_of) -> list[str]:
    """Returns verbs and flags in README that the tool lacks. `help_of`: returns the text of `sluice VERB
    --help`, "" if there is no such verb."""
    lines = re.findall(r"^(?:build/release/)?sluice +(\w+) *(.*)$", "\n".join(blocks(text, r"\w*")), re.M)
    found = [] if lines else ["there is no line with sluice to look at"]
    for verb, flags in lines:
        known = help_of(verb)
        if not known:
            found.append(f"sluice has no verb {verb}")
        words = [flag for flag in re.findall(r"(?:^|\s)(--?[a-z][\w-]*)", flags.split("#")[0])]
        found += [f"sluice {verb} has no {flag}" for flag in words if known and not re.search(rf"(?<![\w-]){flag}(?![\w-])", known)]
    return found


def exported() -> set[str]:
    tree = ast.parse((ROOT / "python/sluice/torch/__init__.py").read_text())
    named = next(node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
    return set(ast.literal_eval(named))


def self_test() -> int:
    text = ("```python\nimport sluice.torch as st\nst.mm(st.gone(1), x.other)\n```\n"
            "```\nsluice run --m 1 --old 2  # --not\nbuild/release/sluice walk\n```\n")
    assert python_faults(text, {"mm"}) == ["sluice.torch has no gone"], python_faults(text, {"mm"})
    said = tool_faults(text, lambda verb: "  --m INT\n  --older TEXT" if verb == "run" else "")
    assert said == ["sluice run has no --old", "sluice has no verb walk"], said
    assert len(tool_faults("", str)) == len(compile_faults("", "g++")) == 1, "a check that looks at nothing"
    assert len(c_faults("")) == 1 and len(c_faults("```c\nint f(void) { return gone(); }\n```\n")) == 1
    planted = (ROOT / "README.md").read_text().replace("sluice::gemm::run(", "sluice::gemm::ran(")
    assert len(compile_faults(planted, "g++")) == 1, "a function that is gone"
    print("readme: self-test passed")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--tool", help="a built sluice; without it verbs and flags are not looked at")
    parser.add_argument("--cpp", type=pathlib.Path, help="write the C++ snippet here as a program, and do nothing else")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()

    if arguments.cpp:
        arguments.cpp.write_text(program_of(blocks((ROOT / "README.md").read_text(), "cpp")[0]))
        return 0

    def help_of(verb: str) -> str:
        done = subprocess.run([arguments.tool, verb, "--help"], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else ""
    text = (ROOT / "README.md").read_text()
    found = compile_faults(text, arguments.compiler) + c_faults((ROOT / "docs/cpp.md").read_text()) + python_faults(text, exported())
    found += tool_faults(text + (ROOT / "docs/performance.md").read_text(), help_of) if arguments.tool else []
    print("\n".join(f"README.md: {line}" for line in found) or "readme: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
