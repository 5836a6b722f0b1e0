# SPDX-License-Identifier: Apache-2.0
"""Makes the blocks of README.md and docs/testing.md on correctness on a GPU, only from the certificates in
bench/results/GPU (tools/certify.py). A section holds while the kernels that it ran, its tests and the host files
that it exercises are those of the tree (decisions/0028); the blocks name what is not. Needs no GPU and no compiler.
"""
import dataclasses
import functools
import json
import pathlib

import certify_keys
from certify_kernels import CHANGED, FILE, LOST, UNCOMPARED, Kernels, Texts
from certify_results import PAST, VARIANTS
from certify_sections import Section, Setting, all_sections
from report.figures import table, wrapped
from report.records import ROOT, commit_of

SCHEMA = "sluice-certificate-2"
NONE = ("**No certificate is kept.** Nothing here says that the kernels of this commit are right on a GPU: `make certify` on a machine "
        "with one writes it.")
NO_KEYS = "what it ran was not kept"
REASONS = {"tests": "tests", "names": "tests", "table": "tests", "host": "host code", CHANGED: "kernels", UNCOMPARED: "kernels not compared", LOST: "kernels not kept"}


@functools.cache
def sections() -> dict[str, Section]:
    return {section.name: section for section in all_sections(Setting(pathlib.Path(), pathlib.Path()))}


@functools.cache
def keys_of_tree() -> dict[tuple[str, str], dict[str, str]]:
    names = certify_keys.read_names(ROOT)
    return {(section.name, part.name): certify_keys.keys_of(ROOT, section, part, names) for section in sections().values() for part in section.parts}


@dataclasses.dataclass
class Kept:
    """A GPU's certificate and kernels. `states`: per kernel, whether it is unchanged in this tree, as far as known."""
    certificate: dict
    kernels: Kernels
    states: list[str]

    def gpu(self) -> str:
        return self.certificate["gpu"]

    def entries(self) -> dict[str, dict | None]:
        """Returns the sections in the order of the table; None for a section that never ran."""
        return {name: self.certificate["sections"].get(name) for name in sections()}

    def differing(self, name: str) -> dict[str, set[int]]:
        """Returns the kernels that a section ran and that are not known to be unchanged, by state."""
        found: dict[str, set[int]] = {}
        for part in (self.certificate["sections"].get(name) or {"parts": ()})["parts"]:
            for state, some in self.kernels.differing(f"{name}/{part}", self.states).items():
                found[state] = found.get(state, set()) | some
        return found

    def reasons(self, name: str) -> list[str]:
        """Returns why a section that passed does not hold for this tree; [] if it holds."""
        entry = self.certificate["sections"][name]
        tree = {part.name: keys_of_tree()[name, part.name] for part in sections()[name].parts}
        if any(not part["keys"] for part in entry["parts"].values()):
            return [NO_KEYS]
        kinds = {kind for part, keys in tree.items() for kind in (certify_keys.changed(entry["parts"][part]["keys"], keys) if part in entry["parts"] else ["table"])}
        kinds |= {"table"} if entry["parts"].keys() - tree.keys() else set()
        kinds |= self.differing(name).keys()
        return list(dict.fromkeys(words for kind, words in REASONS.items() if kind in kinds))

    def standing(self) -> dict[str, list[str]]:
        """Returns the names of sections by state: holds, older (passed, but with other kernels, tests or host
        code), wrong, unfinished, missing."""
        names: dict[str, list[str]] = {"holds": [], "older": [], "wrong": [], "unfinished": [], "missing": []}
        for name, entry in self.entries().items():
            verdict = "missing" if entry is None else entry["verdict"]
            names["older" if verdict == "passed" and self.reasons(name) else "holds" if verdict == "passed" else verdict].append(name)
        return names


def load(results: pathlib.Path) -> dict[str, Kept]:
    """Returns the certificates by GPU folder. `results`: bench/results."""
    found, texts = {}, Texts(ROOT)
    for path in sorted(results.glob("*/certificate.json")):
        certificate = json.loads(path.read_text())
        if certificate.get("schema") != SCHEMA:
            raise SystemExit(f"{path}: schema is {certificate.get('schema')!r}, not {SCHEMA!r}")
        kernels = Kernels(path.parent / FILE)
        found[path.parent.name] = Kept(certificate, kernels, kernels.states(texts))
    return found


def commits(entries: list[dict]) -> list[str]:
    return list(dict.fromkeys(commit_of(part) for entry in entries for part in entry["parts"].values()))


def found_words(entry: dict) -> str:
    """Returns the text of a cell for a section's findings. A plain number of cases or tests means that none
    was wrong."""
    if entry["verdict"] == "wrong":
        return f"**failed**: {len(entry['found'])} findings"
    how_many = f"{entry['cases']:,} cases" if entry["cases"] else f"{entry['tests']:,} tests"
    if entry["verdict"] == "unfinished" and not entry["parts"]:
        return "unfinished: no part was done"
    if entry["verdict"] == "unfinished":
        return f"unfinished: {len(entry['parts'])} of {entry['of']} parts, {how_many}"
    skipped = f", {len(entry['skipped'])} skipped" if entry["skipped"] else ""
    return how_many + skipped + (f", {entry['not_judged']:,} not judged" if entry.get("not_judged") else "")


def facts_of(entry: dict) -> list[str]:
    """Sentences on missed targets, and on what sanitizers did not run as it ships."""
    facts = [(key, value) for key, value in entry.get("facts", {}).items() if key.endswith((VARIANTS, PAST))]
    return [f"a target was missed: {key.removesuffix(PAST).strip()} is {value.replace('bar', 'at most')}" if key.endswith(PAST) else f"{key} {value}" for key, value in facts]


def cell(kept: Kept, name: str) -> str:
    """A cell of the table: findings, and what has changed since."""
    entry = kept.entries()[name]
    if entry is None:
        return "not run"
    why = kept.reasons(name) if entry["parts"] else []
    return (f"old ({', '.join(why)}): " if why else "") + found_words(entry)


def machine_lines(kept: Kept) -> list[str]:
    """A list on a GPU: driver and days, commits, findings, and each kernel that has changed since."""
    entries = {name: entry for name, entry in kept.entries().items() if entry}
    parts = [part for entry in entries.values() for part in entry["parts"].values()]
    days, drivers, nvrtc = (", ".join(sorted({part[key][:length] for part in parts if part[key]})) for key, length in (("ended", 10), ("driver", 99), ("nvrtc", 99)))
    kernels = f"; {len(kept.kernels.kernels)} kernels" if kept.kernels.kernels else ""
    lines = [f"- **{kept.gpu()}**, at {', '.join(commits(list(entries.values())))}: driver {drivers}, {nvrtc}, {days or 'not ended'}{kernels}. {kernels_words(kept)}"]
    for name, entry in entries.items():
        if entry["verdict"] == "wrong":
            lines.append(f"  - {name}: the first of {len(entry['found'])} findings is `{first_found(entry)}`.")
        lines += [f"  - {name}: {words}." for words in facts_of(entry)]
    return lines


def first_found(entry: dict) -> str:
    """The name of the first test that failed, without the part of the section in front."""
    return entry["found"][0].splitlines()[0].split(": ")[1].rstrip(":").removeprefix("tests.python.")


def kernels_words(kept: Kept) -> str:
    """Returns a sentence on the kernels that have changed since they ran."""
    every = [kept.differing(name) for name in sections()]
    changed, unknown = ({i for some in every for i in some.get(state, ())} for state in (CHANGED, UNCOMPARED))
    if not kept.kernels.kernels:
        return "Which kernels it ran was not kept."
    if not changed and not unknown:
        return "Since then none of the kernels that it ran has changed."
    text = f"Since then {len(changed)} of {len(kept.kernels.kernels)} kernels changed." if changed else ""
    return " ".join(part for part in (text, f"The text of {len(unknown)} has changed, and nobody has compared their machine code (`make kernels`)." if unknown else "") if part)


def summary(certificates: dict[str, Kept]) -> str:
    """Returns README's table, a row per GPU: which sections passed, and where; which hold."""
    if not certificates:
        return wrapped(NONE)
    rows = []
    for kept in certificates.values():
        names = kept.standing()
        total, passed = sum(map(len, names.values())), len(names["holds"]) + len(names["older"])
        rows.append([kept.gpu(), f"{passed} of {total}", f"**{len(names['holds'])} of {total}**", *(", ".join(names[key]) or "-" for key in ("wrong", "unfinished", "missing")),
                     ", ".join(commits([entry for entry in kept.entries().values() if entry]))])
    return table(["GPU", "sections passed", "hold", "failed", "unfinished", "not run", "run at"], rows)


def by_section(certificates: dict[str, Kept]) -> str:
    """Returns the table for docs/testing.md: a row per section, a column per GPU."""
    rows = [[name, section.what, *(cell(kept, name) for kept in certificates.values())] for name, section in sections().items()]
    text = table(["section", "what runs", *(kept.gpu() for kept in certificates.values())], rows)
    if not certificates:
        return f"{NONE}\n\n{text}"
    return f"{text}\n\n" + "\n".join(line for kept in certificates.values() for line in machine_lines(kept))
