# SPDX-License-Identifier: Apache-2.0
"""Part of report.py --self-test: pages claim no more than certificates do. Each case is a made-up certificate
of this tree and the text it must give: another test, another kernel, a finding, unfinished, no certificate.
"""
import copy
import json
import pathlib
import tempfile

from certify_kernels import CHANGED, SAME, UNCOMPARED, Kernels
from report.certificates import NO_KEYS, NONE, SCHEMA, Kept, by_section, keys_of_tree, load, sections, summary
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
    return f"| **{count} of {len(sections())}** |"


def check_certificates() -> None:
    total = len(sections())
    assert said(kept()).endswith(f"| NVIDIA H200 | {total} of {total} | **{total} of {total}** | - | - | - | 0123abc |"), said(kept())
    two = by_section(kept() | {"h100": kept()["h200"]})
    assert two.count("100,000 cases") == 2 and two.count("- **NVIDIA H200**, at 0123abc: driver 580.1,") == 2, two

    # A weakened or removed test, a smaller setting, and another kernel void their section, and no other. So does a change of
    # host code that it exercises.
    lost, fewer, old = kept(), kept(), kept()
    del lost["h200"].kernels.parts["real/real_data"]
    del fewer["h200"].certificate["sections"]["fuzz"]["parts"]["from 0"]
    old["h200"].certificate["sections"]["fuzz"]["parts"]["from 0"]["keys"] = {}
    changed, uncompared = kept((SAME, CHANGED)), kept((UNCOMPARED, SAME))
    for made, why, words, count in (
            (with_key("fuzz", "from 0", "tests"), "tests", "| fuzz |", 1), (with_key("fuzz", "from 20000", "names"), "tests", "| fuzz |", 1),
            (with_key("packed", "others", "table"), "tests", "| packed |", 1), (with_key("graphs", "chains", "host"), "host code", "| graphs |", 1),
            (lost, "kernels not kept", "| real |", 1), (fewer, "tests", "| fuzz |", 1), (old, NO_KEYS, "| fuzz |", 1),
            (changed, "kernels", "Since then 1 of 2 kernels changed.", 1),
            (kept((CHANGED, SAME)), "kernels", "Since then 1 of 2 kernels changed.", 2),
            (uncompared, "kernels not compared", "The text of 1 has changed, and nobody has compared", 2)):
        text = by_section(made)
        assert text.count(f"old ({why}): ") == count and words in text and holding(total - count) in said(made), (why, text)

    wrong = kept(fuzz={"verdict": "wrong", "found": ["from 0: fuzz.x: one bit\nmore"], "skipped": ["a"]})
    cut = kept(packed={"verdict": "unfinished", "cases": 5_000, "of": 12})
    del cut["h200"].certificate["sections"]["sanitizers"]
    assert holding(total - 1) + " fuzz | - | - |" in said(wrong) and "100,000 cases" not in by_section(wrong), said(wrong)
    assert holding(total - 2) + " - | packed | sanitizers |" in said(cut), said(cut)
    for made, words in (
            (kept(), "| fuzz | random dense problems, whole numbers, no wrong bit | 100,000 cases |"),
            (kept(), "- **NVIDIA H200**, at 0123abc: driver 580.1, NVRTC 13.0, 2026-01-01; 2 kernels. Since then none"),
            (kept(rows={"facts": {"worst_loss past its bar:": "0.09"}}), "  - rows: a target was missed: worst_loss is 0.09."),
            (wrong, "| **failed**: 1 findings |"), (wrong, "- fuzz: the first of 1 findings is `fuzz.x`."),
            (cut, "unfinished: 9 of 12 parts, 5,000 cases |"), (cut, "| not run |"), (kept(packed={"cases": 5_000, "not_judged": 3}), "5,000 cases, 3 not judged |"),
            (kept(sanitizers={"cases": 9, "facts": {"racecheck ran": "2 of 8 kernels as a variant (both_arrive)", "other": "5"}}),
             "  - sanitizers: racecheck ran 2 of 8 kernels as a variant (both_arrive)."), ({}, NONE)):
        assert words in by_section(made), (words, by_section(made))
    assert said({}) == NONE
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "h200").mkdir()
        (folder / "h200/certificate.json").write_text(json.dumps({"schema": "other"}))
        assert "other" in refusal(SystemExit, load, folder), "a foreign schema"
