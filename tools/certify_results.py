# SPDX-License-Identifier: Apache-2.0
"""Counts the results of the parts of a certificate's sections. It reads gtest's JSON, pytest's junit files, the JSON of
`sluice_lab verify --records` and `sluice_lab rows`, and the lines of the sanitizers' tool. A part without a readable result
counts as a finding: a crash, or a missing tool. Used by certify.py.
"""
import dataclasses
import hashlib
import json
import pathlib
import re
import xml.etree.ElementTree

import result_files

SHOWN = 20  # findings listed in a certificate
LONGEST = 2_000  # characters of one finding


@dataclasses.dataclass
class Result:
    """`tests`: how many passed. `cases`: cases as the tests count them. `not_judged`: cases that are neither right nor wrong,
    because the test's data do not allow a check. `found`: findings; empty if everything is right."""
    tests: int = 0
    cases: int = 0
    kernels: int = 0
    elements: int = 0
    not_judged: int = 0
    seconds: float = 0.0
    skipped: list[str] = dataclasses.field(default_factory=list)
    found: list[str] = dataclasses.field(default_factory=list)
    facts: dict[str, str] = dataclasses.field(default_factory=dict)  # further values that tests recorded

    def add(self, what: str) -> None:
        if len(self.found) < SHOWN:
            self.found.append(what[:LONGEST])


def number(value: object) -> int:
    return int(str(value)) if str(value).lstrip("-").isdigit() else 0


COUNTED = ("cases", "kernels", "elements", "not_judged")
# Keys that gtest itself writes for a case. Other keys are properties that the test recorded.
GTEST_KEYS = {"name", "file", "line", "status", "result", "timestamp", "time", "classname", "failures", "value_param", "type_param", "seed"}


def read_json(path: pathlib.Path, result: Result, why: str) -> dict:
    """Reads a JSON file. If there is nothing to read, returns {} and adds a finding."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        result.add(why)
        return {}


def from_gtest(path: pathlib.Path, log: str) -> Result:
    result = Result()
    for suite in read_json(path, result, f"no result: it ended in {last_test(log) or 'no test'}").get("testsuites", []):
        for case in suite["testsuite"]:
            name, counts = f"{suite['name']}.{case['name']}", {key: number(case.get(key, 0)) for key in COUNTED}
            if case.get("result") == "SKIPPED":
                result.skipped.append(name)
            elif case.get("failures"):
                result.add(f"{name}: " + "\n".join(failure["failure"] for failure in case["failures"]))
            elif case.get("result") == "COMPLETED" and ("cases" in case or not counts["not_judged"]):
                result.tests += 1  # a test whose only case could not be judged does not count as passed
            result.not_judged += counts["not_judged"]
            result.cases += counts["cases"]
            result.elements += counts["elements"]
            result.kernels = max(result.kernels, counts["kernels"])
            result.facts |= {key: str(case[key]) for key in case.keys() - GTEST_KEYS - set(COUNTED)}
    return result


def last_test(log: str) -> str:
    begun = re.findall(r"^\[ RUN      \] (\S+)", log, re.MULTILINE)
    return begun[-1] if begun else ""


def identity(path: pathlib.Path) -> dict[str, str]:
    """Reads the identity of sluice_gpu_tests and of the machine from its output."""
    run = json.loads(path.read_text())
    for suite in run.get("testsuites", []):
        for case in suite["testsuite"]:
            run |= case
    keys = ("gpu", "no_gpu", "sm_count", "driver", "nvrtc", "built_commit", "built_sources")
    return {key: str(run.get(key, "")) for key in keys}


def from_junit(folder: pathlib.Path) -> Result:
    result = Result()
    for path in sorted(folder.glob("junit_*.xml")):
        try:
            root = xml.etree.ElementTree.parse(path).getroot()
        except (OSError, xml.etree.ElementTree.ParseError) as error:
            result.add(f"{path.name}: {error}")
            continue
        for case in root.iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            if bad := [part for part in case if part.tag in ("failure", "error")]:
                result.add(f"{name}: {bad[0].get('message')}")
            elif case.find("skipped") is not None:
                result.skipped.append(name)
            else:
                result.tests += 1
    return result


def from_records(path: pathlib.Path) -> Result:
    """Reads {"checked", "right", "wrong": [{...}], "passed_over": [text]} of `sluice_lab verify --records --json`."""
    result = Result()
    told = read_json(path, result, "`sluice_lab verify --records --json` left no result: does this build have it?")
    result.cases = result.kernels = number(told.get("checked", 0))
    result.tests, result.skipped = number(told.get("right", 0)), [str(text) for text in told.get("passed_over", [])]
    for wrong in told.get("wrong", []):
        result.add(wrong if isinstance(wrong, str) else json.dumps(wrong))
    return result


def from_rows(path: pathlib.Path) -> Result:
    """Reads `sluice_lab rows --json`: the verified points. A figure beyond its limit is reported, but is not a fault."""
    result = Result()
    told = read_json(path, result, "`sluice_lab rows --json` left no result: does this build have it?")
    for layer in told.get("layers", []):
        if "error" in layer or "error" in layer.get("first_calls", {}):
            result.add(f"{layer['name']}: {layer.get('error') or layer['first_calls']['error']}")
        for point in layer.get("points", []):
            result.cases += 1
            if point.get("same") or point.get("verified"):
                result.tests += 1
            else:
                result.add(f"{layer['name']}, {point['m']} rows: {point.get('error', 'wrong')}")
    summary = told.get("summary", {})
    result.kernels = number(summary.get("most_kernels", 0))
    result.facts = {key if summary[key] <= most else key + PAST: f"{summary[key]} (bar {most})" for key, most in ROW_BARS.items() if key in summary}
    return result


# Limits for `sluice_lab rows`: slowdown against the best kernel for each number of rows, kernels per layer, and
# the longest first call in us.
ROW_BARS = {"mean_loss": 0.015, "worst_loss": 0.08, "most_kernels": 12, "worst_call_us": 2000.0}


def from_sanitizer(path: pathlib.Path, tool: str, build: str) -> Result:
    """Reads lines of sanitize.jsonl for one tool and one build: {"kind": "class" or "planted", "tool", "class",
    "clean", "shown", "why", ...}. A planted bug is clean if it was found. The newest line counts."""
    result, newest = Result(), {}
    for line in (result_files.text_of(path) or "").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the last line of an interrupted run may be incomplete
        if row.get("tool") == tool and row.get("build") == build:
            newest[row.get("kind"), row.get("class")] = row
    for (kind, name), row in newest.items():
        result.cases += 1
        if row.get("clean") is True:
            result.tests += 1
        else:
            result.add(f"{name}: {'a planted bug was not found' if kind == 'planted' else row.get('why')}")
    kinds = [kind for kind, _ in newest]
    result.kernels = kinds.count("class")
    if kinds and "planted" not in kinds:
        result.add("no planted bug was looked for: what found nothing else is not shown to find anything")
    changes = [row["shown"] for (kind, _), row in newest.items() if kind == "class" and row.get("shown", AS_IT_IS) != AS_IT_IS]
    if changes:  # the kernel was changed for the tool, which a page must say
        result.facts[tool + VARIANTS] = f"{len(changes)} of {result.kernels} kernels as a variant ({', '.join(sorted(set(changes)))})"
    return result


AS_IT_IS = "nothing"  # the unchanged kernel
VARIANTS, PAST = " ran", " past its bar:"


def build_of(tests: pathlib.Path) -> str:
    """Returns the name of a build as the sanitizers' tool writes it."""
    return hashlib.sha256(tests.read_bytes()).hexdigest()[:12]


def judged(result: Result, code: int) -> Result:
    """Adds a finding unless the part ran at least one test and ended normally. `code`: its exit status."""
    if not result.found and code != 0:
        result.add(f"exit status {code}")
    if not result.found and 0 < result.cases <= result.not_judged:
        result.add(f"nothing was judged: the data of all {result.cases} cases are at fault")
    if not result.found and result.tests == 0:
        result.add("nothing ran" + (f" ({len(result.skipped)} tests were skipped)" if result.skipped else ""))
    return result
