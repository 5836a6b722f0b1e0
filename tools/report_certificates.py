# SPDX-License-Identifier: Apache-2.0
"""Makes the blocks of README.md and docs/testing.md on correctness on a GPU, only from the certificates in
bench/results/GPU/certificate.json (tools/certify.py). A section holds for the sources whose hashes it has
(tools/source_hash.py); the block names the parts in which the tree differs.
"""
import json
import pathlib
import textwrap

import source_hash
from certify_results import PAST, VARIANTS, WAIVED
from certify_sections import Setting, all_sections
from report_figures import table
from report_records import commit_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = "sluice-certificate-1"
MARKS = {name: (f"<!-- {name}: made by `make report` -->", f"<!-- end of {name} -->") for name in ("certified", "certificates")}
NONE = ("**No certificate is kept.** Nothing here says that the kernels of this commit are right on a GPU: `make certify` on a machine "
        "with one writes it.")


def load(results: pathlib.Path) -> dict[str, dict]:
    """Certificates by GPU folder. `results`: bench/results."""
    found = {}
    for path in sorted(results.glob("*/certificate.json")):
        certificate = json.loads(path.read_text())
        if certificate.get("schema") != SCHEMA:
            raise SystemExit(f"{path}: schema is {certificate.get('schema')!r}, not {SCHEMA!r}")
        found[path.parent.name] = certificate
    return found


def sections_of(certificate: dict) -> dict[str, dict | None]:
    """Sections in the order of the table; a section that never ran is None."""
    kept = certificate["sections"]
    return {section.name: kept.get(section.name) for section in all_sections(Setting(pathlib.Path(), pathlib.Path()))}


def changed(entry: dict, sources: dict[str, str]) -> list[str]:
    """The section's sources that have changed since."""
    return [part for part, digits in entry["sources"].items() if sources.get(part) != digits]


def counted(value: int, noun: str) -> str:
    return f"{value:,} {noun}"


def found_words(entry: dict) -> str:
    """A cell's words for a section's findings. A mere number of cases or tests means that none was wrong."""
    if entry["verdict"] == "wrong":
        return f"**{len(entry['found'])} found**: {entry['found'][0].splitlines()[0][:120]}"
    how_many = counted(entry["cases"], "cases") if entry["cases"] else counted(entry["tests"], "tests")
    if entry["verdict"] == "unfinished" and not entry["parts"]:
        return "unfinished: no part was done"
    if entry["verdict"] == "unfinished":
        return f"unfinished: {len(entry['parts'])} of {entry['of']} parts, {how_many}"
    skipped = f", {len(entry['skipped'])} skipped" if entry["skipped"] else ""
    told = [f"{key} {value}" for key, value in entry.get("facts", {}).items() if key.endswith((WAIVED, VARIANTS, PAST))]
    return how_many + skipped + "".join(f"; {words}" for words in told)


def cell(entry: dict | None, sources: dict[str, str]) -> str:
    """A cell of the table: findings, seconds, commit; "old" if the tree's sources differ."""
    if entry is None:
        return "not run"
    text = f"{found_words(entry)}; {entry['seconds']:.0f} s, {commit_of(entry)}"
    return f"*old:* {text}" if changed(entry, sources) else text


def machine_line(certificate: dict, sources: dict[str, str]) -> str:
    """A line on a GPU: driver, day, and the number of sections whose sources have changed, by source."""
    kept = [entry for entry in sections_of(certificate).values() if entry]
    days = ", ".join(sorted({entry["ended"][:10] for entry in kept if entry["ended"]})) or "not ended"
    since = {part: sum(part in changed(entry, sources) for entry in kept) for part in sources}
    told = ", ".join(f"{part} ({count} sections)" for part, count in since.items() if count)
    changes = f" **Changed since: {told}.**" if told else ""
    return f"- {certificate['gpu']}: driver {certificate['driver']}, {certificate['nvrtc']}, {days}.{changes}"


def standing(certificate: dict, sources: dict[str, str]) -> dict[str, list[str]]:
    """Names of sections by verdict on the tree: passed, older (passed by other sources), wrong, unfinished,
    missing."""
    names: dict[str, list[str]] = {key: [] for key in ("passed", "older", "wrong", "unfinished", "missing")}
    for name, entry in sections_of(certificate).items():
        verdict = "missing" if entry is None else entry["verdict"]
        names["older" if verdict == "passed" and changed(entry, sources) else verdict].append(name)
    return names


def right_random(certificate: dict, sources: dict[str, str]) -> str:
    """Random problems without a wrong bit, in sections that pass with these sources."""
    cases = {name: entry["cases"] for name, entry in sections_of(certificate).items()
             if entry and entry["verdict"] == "passed" and not changed(entry, sources)}
    parts = [f"{cases[name]:,} random {words}" for name, words in (("fuzz", "dense problems"), ("packed", "packed ones")) if cases.get(name)]
    return f", {' and '.join(parts)} without a wrong bit" if parts else ""


def line_of(certificate: dict, sources: dict[str, str]) -> str:
    """Sentences on the certificate: what this tree has passed, then what was last run with other sources."""
    names = standing(certificate, sources)
    commits = ", ".join(dict.fromkeys(commit_of(entry) for entry in sections_of(certificate).values() if entry))
    total, passed = sum(map(len, names.values())), len(names["passed"])
    text = f"{certificate['gpu']}: last run at {commits}, {passed + len(names['older'])} of {total} sections passed"
    text += right_random(certificate, sources)
    text += "".join(f"; {words}: {', '.join(names[key])}" for key, words in
                    (("wrong", "**something was found**"), ("unfinished", "unfinished"), ("missing", "not run")) if names[key])
    late = [name for name, entry in sections_of(certificate).items() if entry and any(key.endswith(PAST) for key in entry.get("facts", {}))]
    text += f"; right, but past a bar of speed: {', '.join(late)}" if late else ""
    stale = any(changed(entry, sources) for entry in sections_of(certificate).values() if entry)
    return text + (f". **Sources have changed since: {passed} of {total} hold for this tree.**" if stale else ". Sources are those of this tree.")


def summary(certificates: dict[str, dict], sources: dict[str, str]) -> str:
    """For README: an item for each GPU."""
    lines = [f"- {line_of(certificate, sources)}" for certificate in certificates.values()] or [NONE]
    return "\n".join(textwrap.fill(line, 110, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) for line in lines)


def by_section(certificates: dict[str, dict], sources: dict[str, str]) -> str:
    """For docs/testing.md: a row a section, a column a GPU."""
    what = {section.name: section.what for section in all_sections(Setting(pathlib.Path(), pathlib.Path()))}
    columns = [sections_of(certificate) for certificate in certificates.values()]
    rows = [[name, words, *(cell(column[name], sources) for column in columns)] for name, words in what.items()]
    text = table(["section", "what runs", *(certificate["gpu"] for certificate in certificates.values())], rows)
    if not certificates:
        return f"{NONE}\n\n{text}"
    lines = [machine_line(certificate, sources) for certificate in certificates.values()]
    legend = "Of the cases and tests that a cell counts none was wrong, unless it says so. Old: with other sources than this tree has."
    return f"{text}\n\n{legend}\n\n" + "\n".join(lines)


def replaced(text: str, name: str, block: str) -> str:
    """`text` with `block` between the markers; unchanged without markers."""
    begin, end = MARKS[name]
    if begin not in text or end not in text:
        return text
    head, rest = text.split(begin, 1)
    return f"{head}{begin}\n{block}\n{end}{rest.split(end, 1)[1]}"


def put_into(texts: dict[pathlib.Path, str], docs: pathlib.Path, results: pathlib.Path) -> None:
    """Updates README and docs/testing.md among `texts` (path: text). `results`: bench/results."""
    certificates, sources = load(results), source_hash.all_hashes(ROOT)
    for path, name, block in ((docs.parent / "README.md", "certified", summary), (docs / "testing.md", "certificates", by_section)):
        if path in texts:
            texts[path] = replaced(texts[path], name, block(certificates, sources))
