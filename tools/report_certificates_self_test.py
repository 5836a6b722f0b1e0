# SPDX-License-Identifier: Apache-2.0
"""Part of report.py --self-test: pages claim no more than certificates do. Each case is a made-up certificate
of this tree and the text it must give: another test, another kernel, a finding, unfinished, no certificate.
"""
import copy
import json
import pathlib
import tempfile

import report_certificates
from certify_kernels import CHANGED, SAME, UNCOMPARED, Kernels
from report_certificates import NO_KEYS, NONE, SCHEMA, Kept, by_section, keys_of_tree, sections, summary
from tree import refusal

UNITS = ("#include <sluice/kernels/gemm_entry.cuh>\n.schedule = sluice::Schedule::ping_pong, .tile = {.m = 64, .n = 8, .k = 64}, .a = sluice::DType::bf16",
         "#include <sluice/kernels/norm_entry.cuh>\n")


def certificate_of() -> dict:
    def part(section, name) -> dict:
        return {"tests": 3, "cases": 0, "elements": 0, "kernels": 7, "seconds": 21.4, "skipped": [], "found": [], "facts": {}, "commit": "0123abcd" * 5,
                "keys": dict(keys_of_tree()[section.name, name]), "driver": "580.1", "nvrtc": "NVRTC 13.0", "ended": "2026-01-01T00:01:00Z"}

    def entry(section) -> dict:
        return {"what": section.what, "verdict": "passed", "cases": 100_000 if section.name == "fuzz" else 0, "tests": 3, "kernels": 7, "elements": 0,
                "seconds": 21.4, "seed": 5 if section.seeded else None, "skipped": [], "found": [], "facts": {},
                "parts": {one.name: part(section, one.name) for one in section.parts}, "of": len(section.parts)}
    return {"schema": SCHEMA, "gpu": "NVIDIA H200", "sections": {section.name: entry(section) for section in sections().values()}}


def kept(states: tuple[str, str] = (SAME, SAME), **different: dict) -> dict[str, Kept]:
    """Returns a certificate whose section `fuzz` ran one kernel, and `companions` two. `different`: fields of
    sections to replace."""
    certificate = copy.deepcopy(certificate_of())
    for name, fields in different.items():
        certificate["sections"][name] |= fields
    kernels = Kernels(pathlib.Path("nowhere"))
    kernels.kernels = [{"unit": unit, "code": "1 a", "by": "", "same": [], "other": []} for unit in UNITS]
    kernels.parts = {f"{section}/{part}": [] for section, part in keys_of_tree()} | {"fuzz/from 0": [0], "companions/norms": [0, 1]}
    return {"h200": Kept(certificate, kernels, list(states))}


def with_key(section: str, part: str, kind: str) -> dict[str, Kept]:
    """Returns certificates in which a part ran with another hash of this kind than the tree has."""
    made = kept()
    made["h200"].certificate["sections"][section]["parts"][part]["keys"][kind] = "another"
    return made


def said(certificates: dict[str, Kept]) -> str:
    return " ".join(summary(certificates).split())


def holding(count: int) -> str:
    return f"| sections that hold | **{count} of {len(sections())}** |"


def check_certificates() -> None:
    total = len(sections())
    text = said(kept())
    assert text == (f"| | NVIDIA H200 | | --- | --- | | sections passed | {total} of {total} | | sections that hold | **{total} of {total}** | | run at | 0123abc | "
                    "| kernels changed since | none | | random products without a wrong bit | 100,000 random dense problems |"), text
    late = kept(rows={"facts": {"worst_loss past its bar:": "0.09"}})
    assert "| speed target missed | `sluice rows` |" in said(late), said(late)
    assert "  - rows: a target was missed: worst_loss is 0.09." in by_section(late), by_section(late)
    assert "| fuzz | random dense problems, whole numbers, no wrong bit | 100,000 cases |" in by_section(kept())
    assert "- **NVIDIA H200**: driver 580.1, NVRTC 13.0, 2026-01-01; 2 kernels. Since then none" in by_section(kept()), by_section(kept())
    two = by_section(kept() | {"h100": kept()["h200"]})
    assert two.count("100,000 cases") == 2 and two.count("Ran at 0123abc: all sections.") == 2, two

    # A weakened or removed test, and a smaller setting, void their section. So does a change of host code
    # that it exercises.
    for section, part, kind, why in (("fuzz", "from 0", "tests", "tests"), ("fuzz", "from 20000", "names", "tests"), ("packed", "others", "table", "tests"),
                                     ("graphs", "chains", "host", "host code")):
        made = with_key(section, part, kind)
        assert f"| passed, but changed since | {section} ({why}) |" in said(made) and holding(total - 1) in said(made), said(made)
        assert by_section(made).count(f"old ({why}): ") == 1, "its section, and no other"
        assert ("100,000 random" in said(made)) == (section != "fuzz"), "cases of a section that no longer holds are not told"
    lost = kept()
    del lost["h200"].kernels.parts["real/real_data"]
    assert "real (kernels not kept) |" in said(lost), "what ran is not known"
    fewer = kept()
    del fewer["h200"].certificate["sections"]["fuzz"]["parts"]["from 0"]
    assert "fuzz (tests) |" in said(fewer), "a part of the table that did not run"

    text = said(kept((SAME, CHANGED)))
    assert "Since then these kernels changed: norm (1 of 2). |" in text and "companions (kernels) |" in text and holding(total - 1) in text, text
    text = said(kept((CHANGED, SAME)))
    assert "these kernels changed: ping_pong 64x8x64 bf16 (1 of 2). |" in text and holding(total - 2) in text, text
    text = said(kept((UNCOMPARED, SAME)))
    assert "The text of 1 has changed, and nobody has compared" in text and holding(total - 2) in text, text

    wrong = kept(fuzz={"verdict": "wrong", "found": ["from 0: fuzz.x: one bit\nmore"], "skipped": ["a"]})
    text = by_section(wrong)
    assert "| **failed**: 1 findings |" in text and "- fuzz: the first of 1 findings is `fuzz.x`." in text and "100,000 cases" not in text, text
    assert "| sections that failed | fuzz |" in said(wrong) and "100,000" not in said(wrong), said(wrong)
    variant = kept(sanitizers={"cases": 9, "facts": {"racecheck ran": "2 of 8 kernels as a variant (both_arrive)", "other": "5"}})
    assert "  - sanitizers: racecheck ran 2 of 8 kernels as a variant (both_arrive)." in by_section(variant), "what ran is not what ships"
    unjudged = kept(packed={"cases": 5_000, "not_judged": 3})
    assert "5,000 cases, 3 not judged |" in by_section(unjudged), "neither right nor wrong"
    cut = kept(packed={"verdict": "unfinished", "cases": 5_000, "of": 12})
    assert "unfinished: 9 of 12 parts, 5,000 cases |" in by_section(cut)
    assert "| unfinished | packed |" in said(cut) and "5,000" not in said(cut), said(cut)
    del cut["h200"].certificate["sections"]["sanitizers"]
    assert "| not run | sanitizers |" in said(cut) and "| not run |" in by_section(cut)
    old = kept()
    old["h200"].certificate["sections"]["fuzz"]["parts"]["from 0"]["keys"] = {}
    assert holding(total - 1) in said(old) and f"old ({NO_KEYS}): " in by_section(old)

    assert said({}) == NONE and NONE in by_section({})
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "h200").mkdir()
        (folder / "h200/certificate.json").write_text(json.dumps({"schema": "other"}))
        assert "other" in refusal(SystemExit, report_certificates.load, folder), "a foreign schema"
