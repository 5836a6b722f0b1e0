# SPDX-License-Identifier: Apache-2.0
"""Part of report.py --self-test: a page cannot claim more than certificates do. Each case is a certificate that is made up, and
what the blocks must say of it: other sources, something found, unfinished, no certificate.
"""
import copy
import json
import pathlib
import tempfile

import report_certificates
from certify_sections import Setting, all_sections
from report_files import counted_at
from report_certificates import MARKS, NONE, SCHEMA, by_section, replaced, standing, summary

SOURCES = {"kernels": "k", "host": "h", "records": "r", "python": "p"}


def certificate_of() -> dict:
    def entry(section) -> dict:
        return {"verdict": "passed", "cases": 100_000 if section.name == "fuzz" else 0, "tests": 3, "kernels": 7, "elements": 0, "seconds": 21.4,
                "seed": 5 if section.seeded else None, "skipped": [], "found": [], "parts": {"a": {}}, "of": 1, "started": "2026-01-01T00:00:00Z",
                "ended": "2026-01-01T00:01:00Z", "commit": "0123abcd" * 5, "sources": {part: SOURCES[part] for part in section.of}}
    sections = {section.name: entry(section) for section in all_sections(Setting(pathlib.Path(), pathlib.Path()))}
    return {"schema": SCHEMA, "gpu": "NVIDIA H200", "driver": "580.1", "nvrtc": "NVRTC 13.0", "commit": "0123abcd" * 5, "sections": sections}


def changed(**sections: dict) -> dict:
    certificate = copy.deepcopy(certificate_of())
    for name, fields in sections.items():
        certificate["sections"][name] |= fields
    return {"h200": certificate}


def check_certificates() -> None:
    total = len(all_sections(Setting(pathlib.Path(), pathlib.Path())))
    good = {"h200": certificate_of()}
    text = summary(good, SOURCES)
    assert "| NVIDIA H200 | 100,000 cases, none wrong | 3 tests, none wrong |" in text, text
    assert f"- NVIDIA H200: {total} of {total} sections pass with the sources of this tree. Counted at {counted_at()}: 0123abc." in text, text
    known = {"h200": copy.deepcopy(good["h200"])}
    for entry in known["h200"]["sections"].values():
        entry["commit"] = "773e7c6a" * 5
    assert "773e7c6 is " in summary(known, SOURCES) and "touch kernels" in summary(known, SOURCES), summary(known, SOURCES)
    assert "| fuzz | random dense problems, whole numbers, no wrong bit | 100,000 cases, none wrong | 21 | 5 | 0123abc, 2026-01-01 | the same sources |" in by_section(good, SOURCES)

    other = SOURCES | {"kernels": "another"}
    text = summary(good, other)
    assert f"0 of {total}" not in text and "sections pass with the sources of this tree; passed with other sources: smoke, fuzz" in text, text
    assert standing(good["h200"], other)["passed"] == ["cost"], "what is of the host alone"
    assert "**changed since: kernels**" in by_section(good, other)
    assert standing(good["h200"], SOURCES | {"python": "another"})["older"] == ["python"]

    wrong = changed(fuzz={"verdict": "wrong", "found": ["from 0: fuzz.x: one bit\nmore"], "skipped": ["a"]})
    text = summary(wrong, SOURCES)
    assert "**1 found**: from 0: fuzz.x: one bit" in text and "**something was found**: fuzz" in text and "100,000 cases, none wrong" not in text, text
    variant = changed(sanitizers={"cases": 9, "facts": {"racecheck ran": "2 of 8 kernels as a variant (both_arrive)", "other": "5"}})
    assert "9 cases, none wrong; racecheck ran 2 of 8 kernels as a variant (both_arrive) |" in summary(variant, SOURCES), "what ran is not what ships"
    cut = changed(packed={"verdict": "unfinished", "cases": 5_000, "of": 9})
    text = summary(cut, SOURCES)
    assert "unfinished: 1 of 9 parts, 5,000 cases, none wrong" in text and "unfinished: packed" in text, text
    del cut["h200"]["sections"]["sanitizers"]
    assert "not run: sanitizers" in summary(cut, SOURCES) and "| not run |" in summary(cut, SOURCES)
    dirty = changed(fuzz={"commit": "0123abcd" * 5 + "-dirty"})
    assert "0123abc-dirty" in by_section(dirty, SOURCES)

    assert summary({}, SOURCES) == NONE and NONE in by_section({}, SOURCES)
    begin, end = MARKS["certified"]
    assert replaced(f"a\n{begin}\nold\n{end}\nb", "certified", "new") == f"a\n{begin}\nnew\n{end}\nb"
    assert replaced("no marks", "certified", "new") == "no marks"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "h200").mkdir()
        (folder / "h200/certificate.json").write_text(json.dumps({"schema": "other"}))
        try:
            report_certificates.load(folder)
        except SystemExit as refused:
            assert "other" in str(refused)
        else:
            raise AssertionError("a foreign schema was read")
