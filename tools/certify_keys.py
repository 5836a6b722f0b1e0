# SPDX-License-Identifier: Apache-2.0
"""The keys of a certificate's parts: hashes of what a part ran, apart from its kernels (certify_kernels.py).
A part holds while its keys are those of the tree. Comments and layout of C++ and Python change no key.

`table` is the part's row of the table: its filter and settings. `names` are the tests that the filter selects,
from tests/gpu/names.json, which ctest compares with the test program. `tests` are the sources of those tests
with the headers, judges and references that they include. `host` are the host files that the section exercises
(certify_sections.py says which). decisions/0028 has the reasons.
"""
import ast
import fnmatch
import functools
import hashlib
import json
import pathlib
import re
import subprocess

from certify_sections import Part, Section
from unchanged import without_comments

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIGITS = 12
KINDS = ("table", "names", "tests", "host")
NAMES = pathlib.Path("tests/gpu/names.json")
# Folders whose files can change the verdict of a test. Included files in other folders are the host code
# under test.
JUDGING = ("tests", "sluice/check", "sluice/reference", "bench/chain")
WHOLE = "sluice/check"  # functions of its headers are defined in several source files
# Bugs that only the sanitizers' section plants.
PLANTED = ("tests/gpu/kernel_changes.", "tests/gpu/changed_units.")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
BRACKETS = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'| ?[][(){},;] ?')
IMPORT = re.compile(r"^\s*(?:from|import) (\w+)", re.M)


def digest(*parts: str) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part.encode()).digest())
    return total.hexdigest()[:DIGITS]


def without_layout(text: str) -> str:
    """C++ source without comments, with line breaks only around preprocessor lines, and without blanks beside brackets,
    commas and semicolons: a formatter that breaks lines elsewhere changes nothing."""
    lines = [""]
    for line in without_comments(text).split("\n"):
        if line.startswith("#"):
            lines += [line, ""]
        else:
            lines[-1] += " " + line
    return "\n".join(BRACKETS.sub(lambda found: found[0] if found[0][0] in "\"'" else found[0].strip(), line).strip() for line in lines if line)


@functools.lru_cache(None)
def meaning(path: pathlib.Path) -> str:
    """Returns the text of a file without comments, layout and Python docstrings, which cannot change a result."""
    text = path.read_text(errors="replace")
    if path.suffix in (".cc", ".h", ".cuh", ".cpp"):
        return without_layout(text)
    if path.suffix == ".py":
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)) and ast.get_docstring(node) is not None:
                node.body[0].value = ast.Constant("")
        return ast.dump(tree)
    return text


def hash_of(root: pathlib.Path, files: set[str]) -> str:
    """Returns a hash of the files; "" if there are none. A deleted file changes the hash as a changed one does."""
    return digest(*(f"{name}\n{meaning(root / name) if (root / name).is_file() else 'gone'}" for name in sorted(files))) if files else ""


def matching(root: pathlib.Path, patterns: tuple[str, ...]) -> set[str]:
    """Returns the files that match pathlib patterns; a pattern that begins with "!" excludes files."""
    found = {path.relative_to(root).as_posix() for pattern in patterns if pattern[0] != "!" for path in root.glob(pattern) if path.is_file()}
    return {name for name in found if not any(fnmatch.fnmatch(name, pattern[1:]) for pattern in patterns if pattern[0] == "!")}


def judging(name: str) -> bool:
    return any(name.startswith(f"{folder}/") for folder in JUDGING) and not name.startswith(PLANTED)


def included(root: pathlib.Path, name: str) -> set[str]:
    """Returns the judging files (JUDGING) that a C++ file includes, each with the source file of the same name."""
    found = set()
    for word in INCLUDE.findall((root / name).read_text(errors="replace")):
        for path in (pathlib.PurePosixPath(name).parent / word, pathlib.PurePosixPath(word)):
            if judging(str(path)) and (root / path).is_file():
                source = str(path.with_suffix(".cc"))
                found |= {str(path), source} if (root / source).is_file() else {str(path)}
                found |= matching(root, (f"{WHOLE}/*",)) if str(path.parent) == WHOLE else set()
                break
    return found


def imported(root: pathlib.Path, name: str) -> set[str]:
    """Returns the modules in a Python test's folder that it imports, and conftest.py."""
    folder = pathlib.PurePosixPath(name).parent
    names = {*IMPORT.findall((root / name).read_text()), "conftest"}
    return {str(folder / f"{word}.py") for word in names if (root / folder / f"{word}.py").is_file()}


def closure(root: pathlib.Path, files: set[str]) -> set[str]:
    """Returns `files` and the checking code (JUDGING) that they include or import, directly or indirectly."""
    todo, seen = list(files), set()
    while todo:
        name = todo.pop()
        if name in seen or not (root / name).is_file():
            seen.add(name)
            continue
        seen.add(name)
        todo += included(root, name) if name.endswith((".cc", ".h")) else imported(root, name) if name.startswith("tests/python/") and name.endswith(".py") else ()
    return seen


def selected(section: Section, part: Part) -> str:
    """Returns the test filter that the part runs; "" if it runs no test of sluice_gpu_tests."""
    return part.filter or section.names


def listing(tests: pathlib.Path, words: str, told: pathlib.Path) -> dict:
    """Returns the number of tests that a filter selects in the test program, a hash of their names, and their
    source files."""
    told.unlink(missing_ok=True)
    subprocess.run([tests, "--gtest_list_tests", f"--gtest_filter={words}", f"--gtest_output=json:{told}"], capture_output=True, text=True, check=True)
    names, files = [], set()
    for suite in json.loads(told.read_text())["testsuites"]:
        for case in suite["testsuite"]:
            names.append(f"{suite['name']}.{case['name']}")
            files.add("tests/" + case["file"].replace("\\", "").rsplit("tests/", 1)[1])
    return {"tests": len(names), "names": digest(*sorted(names)), "files": sorted(files)}


def names_of(tests: pathlib.Path, sections: tuple[Section, ...], told: pathlib.Path) -> dict[str, dict]:
    """Returns listing() for each filter of the table, as the text of tests/gpu/names.json."""
    filters = {words for section in sections for part in section.parts if (words := selected(section, part))}
    return {words: listing(tests, words, told) for words in sorted(filters)}


def read_names(root: pathlib.Path) -> dict[str, dict]:
    return json.loads((root / NAMES).read_text()) if (root / NAMES).is_file() else {}


def settings(part: Part) -> str:
    """Returns the part's settings that decide what runs; settings that are paths on this machine are left out."""
    return json.dumps({key: value for key, value in part.env if key.startswith("SLUICE_") or key == "FILES"}, sort_keys=True)


def test_files(root: pathlib.Path, section: Section, part: Part, names: dict[str, dict]) -> set[str]:
    """Returns the sources of the part's tests, and the checking code that they use."""
    own = set(names.get(selected(section, part), {}).get("files", ())) | matching(root, (*section.tests, *part.tests))
    return closure(root, own)


def keys_of(root: pathlib.Path, section: Section, part: Part, names: dict[str, dict]) -> dict[str, str]:
    """Returns the part's keys in the tree at `root`."""
    words = selected(section, part)
    return {"table": digest(part.filter, settings(part)), "names": names.get(words, {}).get("names", "") if words else "",
            "tests": hash_of(root, test_files(root, section, part, names)), "host": hash_of(root, matching(root, section.host))}


def changed(kept: dict[str, str], tree: dict[str, str]) -> list[str]:
    """Returns the kinds of keys in which a part differs from the tree."""
    return [kind for kind in KINDS if kept.get(kind) != tree.get(kind)]
