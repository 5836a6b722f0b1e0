# SPDX-License-Identifier: Apache-2.0
"""Part of report.py --self-test: pages claim no more than certificates do. Each case is a made-up certificate
and the text it must give: other sources, a finding, unfinished, no certificate.
"""
import copy
import json
import pathlib
import tempfile

import report_certificates
from certify_sections import Setting, all_sections
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


def said(certificates: dict, sources: dict[str, str] = SOURCES) -> str:
    return " ".join(summary(certificates, sources).split())


def check_certificates() -> None:
    total = len(all_sections(Setting(pathlib.Path(), pathlib.Path())))
    good = {"h200": certificate_of()}
    text = said(good)
    assert text == (f"- NVIDIA H200: last run at 0123abc, {total} of {total} sections passed, 100,000 random dense problems without a wrong "
                    "bit. Sources are those of this tree."), text
    late = changed(rows={"facts": {"worst_loss past its bar:": "0.09"}})
    assert "without a wrong bit; right, but past a bar of speed: rows. Sources" in said(late), said(late)
    assert "| fuzz | random dense problems, whole numbers, no wrong bit | 100,000 cases; 21 s, 0123abc |" in by_section(good, SOURCES)
    assert by_section(good, SOURCES).endswith("- NVIDIA H200: driver 580.1, NVRTC 13.0, 2026-01-01."), by_section(good, SOURCES)
    two = by_section(good | {"h100": certificate_of() | {"gpu": "NVIDIA H100"}}, SOURCES)
    assert "| section | what runs | NVIDIA H200 | NVIDIA H100 |" in two and two.count("100,000 cases; 21 s") == 2, two

    other = SOURCES | {"kernels": "another"}
    text = said(good, other)
    assert text.endswith(f"{total} of {total} sections passed. **Sources have changed since: 0 of {total} hold for this tree.**"), "and its 100,000 cases are not told"
    assert f"**Changed since: kernels ({total} sections).**" in by_section(good, other) and "| *old:* 100,000 cases;" in by_section(good, other)
    planned = [section.name for section in all_sections(Setting(pathlib.Path(), pathlib.Path())) if "records" in section.of]
    assert 0 < len(planned) < total and standing(good["h200"], SOURCES | {"records": "another"})["older"] == planned, "what plans without records stands"
    assert standing(good["h200"], SOURCES | {"python": "another"})["older"] == ["python"]

    wrong = changed(fuzz={"verdict": "wrong", "found": ["from 0: fuzz.x: one bit\nmore"], "skipped": ["a"]})
    text = by_section(wrong, SOURCES)
    assert "**1 found**: from 0: fuzz.x: one bit" in text and "100,000 cases" not in text, text
    assert "**something was found**: fuzz" in said(wrong) and "100,000" not in said(wrong), said(wrong)
    variant = changed(sanitizers={"cases": 9, "facts": {"racecheck ran": "2 of 8 kernels as a variant (both_arrive)", "other": "5"}})
    assert "9 cases; racecheck ran 2 of 8 kernels as a variant (both_arrive); " in by_section(variant, SOURCES), "what ran is not what ships"
    cut = changed(packed={"verdict": "unfinished", "cases": 5_000, "of": 9})
    assert "unfinished: 1 of 9 parts, 5,000 cases;" in by_section(cut, SOURCES)
    assert "unfinished: packed" in said(cut) and "5,000" not in said(cut), said(cut)
    del cut["h200"]["sections"]["sanitizers"]
    assert "not run: sanitizers" in said(cut) and "| not run |" in by_section(cut, SOURCES)
    dirty = changed(fuzz={"commit": "0123abcd" * 5 + "-dirty"})
    assert "0123abc-dirty" in by_section(dirty, SOURCES)

    assert said({}) == NONE and NONE in by_section({}, SOURCES)
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
