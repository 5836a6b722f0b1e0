# SPDX-License-Identifier: Apache-2.0
"""Makes the blocks of README.md and docs/testing.md on correctness on a GPU, only from the certificates in
bench/results/GPU (tools/certify.py). A section holds while the kernels that it ran, its tests and the host files
that it exercises are those of the tree (decisions/0028); the blocks name what is not. Needs no GPU and no compiler.
"""
import dataclasses
import functools
import json
import pathlib
import textwrap

import certify_keys
from certify_kernels import CHANGED, FILE, LOST, UNCOMPARED, Kernels, Texts, title
from certify_results import PAST, VARIANTS, WAIVED
from certify_sections import Section, Setting, all_sections
from report_figures import table
from report_records import commit_of, commits_between, counted_at

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = "sluice-certificate-2"
MARKS = {name: (f"<!-- {name}: made by `make report` -->", f"<!-- end of {name} -->") for name in ("certified", "certificates")}
NONE = ("**No certificate is kept.** Nothing here says that the kernels of this commit are right on a GPU: `make certify` on a machine "
        "with one writes it.")
MOST_NAMED = 4  # number of kernels named in README
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
            return ["it names no tests and kernels"]
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


def counted(value: int, noun: str) -> str:
    return f"{value:,} {noun}"


def commits(entries: list[dict]) -> list[str]:
    return list(dict.fromkeys(commit_of(part) for entry in entries for part in entry["parts"].values()))


def found_words(entry: dict) -> str:
    """Returns the text of a cell for a section's findings. A plain number of cases or tests means that none
    was wrong."""
    if entry["verdict"] == "wrong":
        return f"**{len(entry['found'])} found**: {entry['found'][0].splitlines()[0][:120]}"
    how_many = counted(entry["cases"], "cases") if entry["cases"] else counted(entry["tests"], "tests")
    if entry["verdict"] == "unfinished" and not entry["parts"]:
        return "unfinished: no part was done"
    if entry["verdict"] == "unfinished":
        return f"unfinished: {len(entry['parts'])} of {entry['of']} parts, {how_many}"
    skipped = f", {len(entry['skipped'])} skipped" if entry["skipped"] else ""
    skipped += f", {entry['not_judged']:,} not judged" if entry.get("not_judged") else ""
    told = [f"{key} {value}" for key, value in entry.get("facts", {}).items() if key.endswith((WAIVED, VARIANTS, PAST))]
    return how_many + skipped + "".join(f"; {words}" for words in told)


def cell(kept: Kept, name: str) -> str:
    """Returns a cell of the table: findings, seconds, commits, and what has changed since."""
    entry = kept.entries()[name]
    if entry is None:
        return "not run"
    text = f"{found_words(entry)}; {entry['seconds']:.0f} s, {', '.join(commits([entry]))}"
    why = kept.reasons(name) if entry["parts"] else []
    return f"*old ({', '.join(why)}):* {text}" if why else text


def machine_line(kept: Kept) -> str:
    """Returns a line on a GPU: drivers, days, and each kernel that has changed since."""
    parts = [part for entry in kept.entries().values() if entry for part in entry["parts"].values()]
    days, drivers, nvrtc = (", ".join(sorted({part[key][:length] for part in parts if part[key]})) for key, length in (("ended", 10), ("driver", 99), ("nvrtc", 99)))
    return f"- {kept.gpu()}: driver {drivers}, {nvrtc}, {days or 'not ended'}; {len(kept.kernels.kernels)} kernels. {kernels_words(kept, 1000)}"


def kernels_words(kept: Kept, most: int) -> str:
    """Returns a sentence on the kernels that have changed since they ran."""
    every = [kept.differing(name) for name in sections()]
    changed, unknown = ({i for some in every for i in some.get(state, ())} for state in (CHANGED, UNCOMPARED))
    if not kept.kernels.kernels:
        return "Which kernels it ran was not kept."
    if not changed and not unknown:
        return "Since then none of the kernels that it ran has changed."
    names = list(dict.fromkeys(title(kept.kernels.kernels[i]["unit"]) for i in sorted(changed)))
    told = ", ".join(names[:most]) + (f" and {len(names) - most} more kinds" if len(names) > most else "")
    text = f"Since then these kernels changed: {told} ({len(changed)} of {len(kept.kernels.kernels)})." if changed else ""
    return " ".join(part for part in (text, f"The text of {len(unknown)} has changed, and nobody has compared their machine code (`make kernels`)." if unknown else "") if part)


def right_random(kept: Kept) -> str:
    """Returns for example ", with 100,000 random dense problems without a wrong bit", for sections that hold.
    """
    holds, entries = kept.standing()["holds"], kept.entries()
    cases = {name: entries[name]["cases"] for name in holds if entries[name]}
    parts = [f"{cases[name]:,} random {words}" for name, words in (("fuzz", "dense problems"), ("packed", "packed ones")) if cases.get(name)]
    return f", with {' and '.join(parts)} without a wrong bit" if parts else ""


def ago(commit: str) -> str:
    """Returns for example "80d09d8, 12 commits back"; without a count if git does not know the commit."""
    age = commits_between(commit.removesuffix("-dirty"), counted_at())
    return commit if age is None else f"{commit}, {age} commit{'s' * (age != 1)} back"


def line_of(kept: Kept) -> str:
    """Returns sentences on the certificate: what passed and when, what has changed since, what holds."""
    names, entries = kept.standing(), kept.entries()
    total, passed = sum(map(len, names.values())), len(names["holds"]) + len(names["older"])
    when = " and ".join(ago(commit) for commit in commits([entry for entry in entries.values() if entry])) or "no commit"
    text = f"{kept.gpu()}: {passed} of {total} sections passed at {when}{right_random(kept)}."
    for name in names["wrong"]:
        text += f" **Found** by {name}: {entries[name]['found'][0].splitlines()[0][:80]}."
    text += "".join(f" {words}: {', '.join(names[key])}." for key, words in (("unfinished", "Unfinished"), ("missing", "Not run")) if names[key])
    late = [name for name, entry in entries.items() if entry and any(key.endswith(PAST) for key in entry.get("facts", {}))]
    text += f" All results were right; a speed target was missed (`sluice {', '.join(late)}`)." if late and not names["wrong"] else ""
    reasons: dict[str, list[str]] = {}
    for name in names["older"]:
        for why in kept.reasons(name):
            reasons.setdefault(why, []).append(name)
    since = "; ".join(f"{why} of {'all' if len(some) == total else ', '.join(some)}" for why, some in reasons.items() if not why.startswith("it "))
    text += f" {kernels_words(kept, MOST_NAMED)}" + (f" Changed since: {since}." if since else "")
    return f"{text} **{len(names['holds'])} of {total} hold.**"


def summary(certificates: dict[str, Kept]) -> str:
    """Returns README's list, one item per GPU."""
    lines = [f"- {line_of(kept)}" for kept in certificates.values()] or [NONE]
    return "\n".join(textwrap.fill(line, 110, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) for line in lines)


def by_section(certificates: dict[str, Kept]) -> str:
    """Returns the table for docs/testing.md: a row per section, a column per GPU."""
    rows = [[name, section.what, *(cell(kept, name) for kept in certificates.values())] for name, section in sections().items()]
    text = table(["section", "what runs", *(kept.gpu() for kept in certificates.values())], rows)
    if not certificates:
        return f"{NONE}\n\n{text}"
    legend = ("Each case and test that a cell counts was right, unless the cell says otherwise; not judged: the test's own data are at fault. Old: what stands in brackets has changed since, so the "
              "section no longer holds.")
    return f"{text}\n\n{legend}\n\n" + "\n".join(machine_line(kept) for kept in certificates.values())


def replaced(text: str, name: str, block: str) -> str:
    """Returns `text` with `block` between the markers; unchanged if it has no markers."""
    begin, end = MARKS[name]
    if begin not in text or end not in text:
        return text
    head, rest = text.split(begin, 1)
    return f"{head}{begin}\n{block}\n{end}{rest.split(end, 1)[1]}"


def put_into(texts: dict[pathlib.Path, str], docs: pathlib.Path, results: pathlib.Path) -> None:
    """Updates README and docs/testing.md in `texts` (path -> text). `results`: bench/results."""
    certificates = load(results)
    for path, name, block in ((docs.parent / "README.md", "certified", summary), (docs / "testing.md", "certificates", by_section)):
        if path in texts:
            texts[path] = replaced(texts[path], name, block(certificates))
