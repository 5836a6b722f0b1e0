# SPDX-License-Identifier: Apache-2.0
"""docs/features.md names only things that exist: each name in a cell is in that language's headers, functions
or flags."""
import importlib.util
import inspect
import re

import pytest

import sluice
from test_command_line import run

LANGUAGES = ("C++", "C", "Python", "tool")


@pytest.fixture(scope="module")
def rows(source_root):
    lines = (source_root / "docs/features.md").read_text(encoding="utf-8").splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert tuple(table[0][1:]) == LANGUAGES
    return table[2:]


def names_of(rows, language):
    """Returns (feature, name) for each piece of code in a column."""
    return [(row[0], name) for row in rows for name in re.findall(r"`([^`]+)`", row[1 + LANGUAGES.index(language)])]


def missing(pairs, exists):
    return [pair for pair in pairs if not exists(pair[1])]


def test_cpp_names_are_in_the_headers(rows, source_root):
    headers = [*(source_root / "include/sluice").glob("*.h"), *(source_root / "sluice/spec").glob("*.h")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in headers if path.name not in ("c_api.h", "c_chain.h", "c_experts.h", "c_rows.h", "c_training.h"))
    known = {path.name for path in headers}

    def exists(name):
        words = re.findall(r"\w+", name.removeprefix("device."))
        return name in known or all(re.search(rf"\b{word}\b", text) for word in words)

    assert not missing(names_of(rows, "C++"), exists)


def test_c_names_are_in_the_headers(rows, source_root):
    text = "".join((source_root / f"include/sluice/{name}.h").read_text(encoding="utf-8") for name in ("c_api", "c_rows", "c_experts", "c_chain", "c_training"))
    assert not missing(names_of(rows, "C"), lambda name: re.search(rf"\b{name}\b", text))


def test_python_names_are_in_the_package(rows):
    pytest.importorskip("torch")
    import sluice.torch as st

    places = {"st": st, "sluice": sluice, "nn": st.nn}
    functions = [getattr(place, name) for place in places.values() for name in dir(place) if callable(getattr(place, name))]
    keywords = {"main_grad"}  # an attribute that the backward reads
    for function in functions:
        try:
            keywords.update(inspect.signature(function).parameters)
        except (TypeError, ValueError):
            continue
    keywords.update(inspect.signature(st.nn.Linear.forward).parameters)

    def exists(name):
        if name.endswith("=") or name in keywords:
            return name.rstrip("=") in keywords
        head, _, rest = name.partition("(")[0].partition(".")
        if head not in places:
            return any(hasattr(place, head) for place in places.values())
        if head == "sluice" and importlib.util.find_spec("sluice." + rest.partition(".")[0]):
            return importlib.util.find_spec(name) is not None  # a module, which need not be imported
        found = places[head]
        for part in filter(None, rest.split(".")):
            found = getattr(found, part, None)
        return found is not None

    assert not missing(names_of(rows, "Python"), exists)


def test_the_tools_verbs_and_flags_are_in_its_help(rows):
    verbs = run("--help").stdout
    flags = "".join(run(verb, "--help").stdout for verb in ("plan", "run", "bench", "tune", "compile"))
    assert not missing(names_of(rows, "tool"), lambda name: all(word in (flags if word.startswith("-") else verbs + flags)
                                                                 for word in name.split()))


def test_a_name_that_is_not_there_is_seen(rows):
    """Planted faults show that the checks above can fail."""
    pairs = [("planted", "sluice_no_such_thing")]
    assert missing(pairs, lambda name: hasattr(sluice, name)) == pairs
