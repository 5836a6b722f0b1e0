# SPDX-License-Identifier: Apache-2.0
"""Tests certify.py on a fake test program: a wrong result, a crash, a hang, an empty run, one that is cut and
resumes, other kernels, another commit. Each must show in the certificate and in the exit status. Run by
`certify.py --self-test` and ctest.
"""
import argparse
import contextlib
import io
import json
import os
import pathlib
import tempfile
import zipfile

import certify
import certify_results
from certify_sections import Part, Section

# Plays sluice_gpu_tests. A file beside it has lines "part filter: mode"; the default is "right".
FAKE = r'''#!/usr/bin/env python3
import json, os, pathlib, signal, sys, time
here = pathlib.Path(__file__).parent
words = dict(w[2:].split("=", 1) for w in sys.argv[1:] if "=" in w)
told, wanted = pathlib.Path(words["gtest_output"].removeprefix("json:")), words["gtest_filter"]
plan = json.loads((here / "plan.json").read_text())
told_by_test = ("driver", "nvrtc")
run = {k: v for k, v in plan["identity"].items() if k not in told_by_test} | {"testsuites": []}
mode = plan.get(wanted, "right")
with open(here / "calls.txt", "a") as calls:
    calls.write(wanted + " seed " + os.environ.get("FAKE_SEED", "-") + "\n")
print("[ RUN      ] " + wanted.replace("*", "first"), flush=True)
if mode == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
if mode == "driver":
    one = os.environ.get("SLUICE_TEST_BATCH") == "1"
    print("fuzz: driver: illegal address" + (", case 77" if one else ""), flush=True)
    sys.exit(1)
if mode == "hang":
    time.sleep(60)
case = {"name": "first", "status": "RUN", "result": "COMPLETED", "cases": "100", "kernels": "7", "note": "x"}
if wanted == "identity.*":
    case |= {k: plan["identity"][k] for k in told_by_test}
if mode == "wrong":
    case["failures"] = [{"failure": "one bit is wrong", "type": ""}]
if mode == "skipped":
    case = {"name": "first", "status": "RUN", "result": "SKIPPED"}
if mode != "nothing":
    run["testsuites"] = [{"name": wanted.split(".")[0], "testsuite": [case]}]
told.write_text(json.dumps(run))
sys.exit(1 if mode == "wrong" else 0)
'''
IDENTITY = {"gpu": "NVIDIA H200", "no_gpu": "", "driver": "580.1", "nvrtc": "13.0", "built_commit": "a" * 40,
            "built_sources": "kernels:111 host:222 records:333"}
TABLE = (Section("one", "one part", (Part("all", 0, 20, "one.*"),)),
         Section("two", "two parts", (Part("a", 0, 20, "two.a*", env=(("FAKE_SEED", "{seed}+5"),)), Part("b", 0, 20, "two.b*")), seeded=True),
         Section("side", "three parts at once", tuple(Part(x, 0, 20, f"side.{x}*") for x in "abc"), jobs=3))


class Bench:
    """A folder with the fake program in it."""

    def __init__(self, folder: pathlib.Path, table: tuple[Section, ...] = TABLE):
        self.folder = folder
        (folder / "tests").mkdir()
        fake = folder / "tests/sluice_gpu_tests"
        fake.write_text(FAKE)
        fake.chmod(0o755)
        self.plan()
        self.table = table

    def plan(self, identity: dict | None = None, **modes: str) -> None:
        told = {"identity": IDENTITY | (identity or {})} | {key.replace("_", ".") + "*": mode for key, mode in modes.items()}
        (self.folder / "tests/plan.json").write_text(json.dumps(told))

    def run(self, sections: str = "", **more: object) -> tuple[int, dict, str]:
        """Returns exit status, certificate and printed text."""
        certify.all_sections, certify.ROOT = lambda setting: self.table, self.folder
        asked = {"sections": sections, "seconds": 100.0, "out": None, "build": self.folder, "wheels": None, "seed": None,
                 "quick": False, "again": False} | more
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            try:
                code = certify.certify(argparse.Namespace(**asked))
            except certify.Refused as why:
                return certify.NOTHING, {}, str(why)
        path = self.folder / "bench/results/h200/certificate.json"
        return code, json.loads(path.read_text()) if path.exists() else {}, said.getvalue()

    def calls(self) -> list[str]:
        path = self.folder / "tests/calls.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [line for line in lines if not line.startswith("identity")]


def expect(good: bool, what: str) -> None:
    if not good:
        raise AssertionError(what)


def all_right(bench: Bench) -> None:
    code, told, said = bench.run()
    expect(code == certify.OK, said)
    expect({s["verdict"] for s in told["sections"].values()} == {"passed"}, said)
    two = told["sections"]["two"]
    expect((two["cases"], two["tests"], two["kernels"], two["facts"]["note"]) == (200, 2, 7, "x"), str(two))
    expect(two["sources"] == {"kernels": "111", "host": "222"} and two["commit"] == "a" * 40 and told["gpu"] == "NVIDIA H200", str(told))
    expect(any(line == f"two.a* seed {two['seed'] + 5}" for line in bench.calls()), "the recorded seed is the one that ran")


def nothing_is_run_twice(bench: Bench) -> None:
    first = bench.run()[1]
    bench.calls()
    code, told, _ = bench.run()
    expect(code == certify.OK and bench.calls() == [] and told == first, "all was done")
    bench.plan({"built_commit": "b" * 40})
    expect(bench.run()[0] == certify.OK and bench.calls() == [], "a commit that changes no sources voids nothing")
    expect(bench.run(again=True)[0] == certify.OK and len(bench.calls()) == 6, "--again")


def other_sources_begin_anew(bench: Bench) -> None:
    bench.run()
    bench.calls()
    for part in ("kernels", "host"):
        bench.plan({"built_sources": IDENTITY["built_sources"].replace(f"{part}:", f"{part}:9")})
        code, told, _ = bench.run()
        expect(code == certify.OK and len(bench.calls()) == 6, f"other {part}")
        expect(told["sections"]["one"]["sources"][part].startswith("9"), str(told))
    bench.plan({"built_sources": IDENTITY["built_sources"].replace("host:", "host:9").replace("records:", "records:9")})
    bench.run()
    expect(len(bench.calls()) == 0, "records are no part of what these sections are of")


def another_driver_is_named(bench: Bench) -> None:
    bench.plan(two_b="hang")
    bench.run("two", seconds=2.0)
    bench.calls()
    bench.plan({"driver": "590.2"})
    code, told, _ = bench.run("two")
    expect(code == certify.OK and len(bench.calls()) == 1 and told["sections"]["two"]["driver"] == "580.1, 590.2", str(told))


def found(mode: str, words: str):
    def test(bench: Bench) -> None:
        bench.plan(two_a=mode)
        code, told, said = bench.run()
        two = told["sections"]["two"]
        expect(code == certify.FOUND and two["verdict"] == "wrong" and words in two["found"][0], f"{mode}: {said} {two}")
        expect(two["found"][0].startswith("a: ") and told["sections"]["one"]["verdict"] == "passed", str(told))
        bench.plan()
        code, told, _ = bench.run()
        expect(code == certify.FOUND and told["sections"]["two"]["verdict"] == "wrong", "what was found stays found")
        expect(bench.run(again=True)[0] == certify.OK, "and goes when it is run again and is right")
    test.__name__ = f"found_{mode}"
    return test


def one_by_one(bench: Bench) -> None:
    bench.table = (Section("fuzz", "", (Part("all", 0, 20, "one.*"),)),)
    bench.plan(one_="driver")
    code, told, _ = bench.run()
    expect(code == certify.FOUND and "case 77" in told["sections"]["fuzz"]["found"][1], str(told))


def no_end(bench: Bench) -> None:
    bench.table = (Section("one", "", (Part("all", 0, 1, "one.*"),)),)
    bench.plan(one_="hang")
    code, told, _ = bench.run()
    expect(code == certify.FOUND and "no end within 1 s: one.first hangs" in told["sections"]["one"]["found"][0], str(told))


def cut_and_resumed(bench: Bench) -> None:
    bench.plan(two_b="hang")
    code, told, _ = bench.run("two", seconds=2.0)
    two = told["sections"]["two"]
    expect(code == certify.MORE and two["verdict"] == "unfinished" and list(two["parts"]) == ["a"] and two["cases"] == 100, str(two))
    bench.calls()
    bench.plan()
    code, again, _ = bench.run("two")
    expect(code == certify.OK and [c.split()[0] for c in bench.calls()] == ["two.b*"], "it goes on with b")
    expect(again["sections"]["two"]["seed"] == two["seed"] and again["sections"]["two"]["cases"] == 200, str(again))


def no_time(bench: Bench) -> None:
    bench.table = (Section("one", "", (Part("all", 50, 60, "one.*"),)),)
    code, told, _ = bench.run(seconds=10.0)
    expect(code == certify.MORE and bench.calls() == [] and told["sections"]["one"]["verdict"] == "unfinished", "too little time to begin")


def no_gpu(bench: Bench) -> None:
    bench.plan({"gpu": "", "no_gpu": "no driver"})
    code, told, said = bench.run()
    expect(code == certify.NOTHING and not told and "no GPU here: no driver" in said, said)
    (bench.folder / "tests/sluice_gpu_tests").unlink()
    expect(bench.run()[0] == certify.NOTHING, "no program")


def another_gpu(bench: Bench) -> None:
    bench.run()
    kept = bench.folder / "bench/results/h200/certificate.json"
    other = bench.folder / "bench/results/h100/certificate.json"
    other.parent.mkdir()
    other.write_text(kept.read_text())
    bench.plan({"gpu": "NVIDIA H100 80GB HBM3"})
    code, _, said = bench.run()
    expect(code == certify.NOTHING and "is of 'NVIDIA H200'" in said, said)


def unknown_section(bench: Bench) -> None:
    code, _, said = bench.run("one,three")
    expect(code == certify.NOTHING and "no section is called three" in said, said)


def into_a_folder(bench: Bench) -> None:
    """A run whose results are carried home begins from those in bench/results."""
    bench.run("one")
    bench.calls()
    out = bench.folder / "out"
    expect(bench.run("one,two", out=out)[0] == certify.OK and len(bench.calls()) == 2, "one was done already")
    told = json.loads((out / "certificate.json").read_text())
    expect(list(told["sections"]) == ["one", "two"], str(told))


def a_missing_wheel(bench: Bench) -> None:
    bench.table = (*TABLE[:1], Section("python", "", (Part("suite", 0, 20, command=("true",)),), reads="junit"))
    code, told, said = bench.run()
    expect(code == certify.MORE and "no wheel of sluice" in said and "python" not in told["sections"], said)


def of_its_wheel(bench: Bench) -> None:
    """The Python suite belongs to the wheel that it installs, not to the build beside it."""
    (bench.folder / "wheels").mkdir()
    with zipfile.ZipFile(bench.folder / "wheels/sluice_gemm-1-py3.whl", "w") as wheel:
        wheel.writestr("sluice/bin/sluice", f"#!/bin/sh\necho 'sluice 1 ({'c' * 40})'\necho kernels:7 host:8 records:9 python:5\n")
    junit = "<testsuite><testcase classname='a' name='x'/></testsuite>"
    make = f"mkdir -p logs && cd {bench.folder}/gpu_results/logs && mkdir -p python_suite && echo \"{junit}\" > python_suite/junit_a.xml"
    bench.table = (Section("python", "", (Part("suite", 0, 20, command=("sh", "-c", make)),), of=("kernels", "python"), reads="junit"),)
    code, told, said = bench.run()
    entry = told["sections"]["python"]
    expect(code == certify.OK and entry["tests"] == 1, said)
    expect(entry["commit"] == "c" * 40 and entry["sources"] == {"kernels": "7", "python": "5"}, str(entry))


def a_part_that_goes_on(bench: Bench) -> None:
    """A part that stops before time is over (status 3), or lacks something here (77), gives no verdict."""
    for status in (certify.MORE, certify.IMPOSSIBLE):
        bench.table = (Section("tool", "", (Part("a", 0, 20, command=("sh", "-c", f"exit {status} # {{seconds}}")),), reads="sanitizer"),)
        code, told, said = bench.run()
        expect(code == certify.MORE and told["sections"]["tool"]["verdict"] == "unfinished", said)
    bench.table = (Section("tool", "", (Part("a", 0, 20, command=("sh", "-c", "exit 1 # {seconds}")),), reads="sanitizer"),)
    expect(bench.run()[0] == certify.FOUND, "any other status is a finding")


def readers(bench: Bench) -> None:
    folder = bench.folder
    (folder / "junit_a.xml").write_text('<testsuites><testsuite><testcase classname="a" name="x"/><testcase classname="a" name="y"><skipped/></testcase>'
                                        '<testcase classname="a" name="z"><failure message="off by one"/></testcase></testsuite></testsuites>')
    (folder / "junit_b.xml").write_text("<testsuite><testcase")
    junit = certify_results.from_junit(folder)
    expect((junit.tests, junit.skipped, len(junit.found)) == (1, ["a.y"], 2) and "off by one" in junit.found[0], str(junit))
    def line(kind: str, name: str, clean: bool, **more: object) -> dict:
        return {"kind": kind, "tool": "memcheck", "build": "b", "class": name, "clean": clean, "waived": 2, "why": "a race"} | more

    def sanitized(*lines: dict) -> certify_results.Result:
        (folder / "s.jsonl").write_text("\n".join(map(json.dumps, lines)) + '\n{"tool": "mem')
        return certify_results.from_sanitizer(folder / "s.jsonl", "memcheck", "b")
    planted = line("planted", "bug", True)
    good = sanitized(planted, line("class", "k", False), line("class", "k", True), line("class", "x", False, build="older"), line("class", "x", False, tool="racecheck"))
    expect((good.tests, good.cases, good.kernels, good.found, good.facts) == (2, 2, 1, [], {"memcheck waived": "4"}), f"the newest line of this tool and build: {good}")
    expect(sanitized(planted, line("class", "k", False)).found == ["k: a race"], "a class that is not clean")
    variant = sanitized(planted, line("class", "k", True, shown="nothing"), line("class", "b", True, shown="both_arrive", waived=0))
    expect(variant.facts["memcheck ran"] == "1 of 2 kernels as a variant (both_arrive)", str(variant))
    expect("a planted bug was not found" in sanitized(line("planted", "bug", False)).found[0], "a tool that finds nothing")
    expect("not shown to find anything" in sanitized(line("class", "k", True)).found[0], "no bug was planted")
    (folder / "s.jsonl").write_text(json.dumps(line("class", "k", True, build="older", commit="c0") | {"kind": "class"}) + "\n")
    same = certify_results.commits_of({"sections": {"python": {"commit": "c0", "sources": {"kernels": "1", "host": "2", "records": "3"}},
                                                    "fuzz": {"commit": "c1", "sources": {"kernels": "9", "host": "2"}}}}, {"kernels": "1", "host": "2"})
    expect(same == {"c0"}, "a commit whose kernels differ is not the same")
    expect(certify_results.from_sanitizer(folder / "s.jsonl", "memcheck", "b", same).cases == 1, "an older build of the same sources")
    expect(certify_results.from_sanitizer(folder / "s.jsonl", "memcheck", "b").cases == 0, "an older build of sources that nobody named")
    expect(certify_results.judged(certify_results.from_sanitizer(folder / "none", "memcheck", "b"), 0).found == ["nothing ran"], "no lines")
    (folder / "records.json").write_text('{"checked": 573, "right": 572, "passed_over": ["p"], "wrong": [{"problem": "r1", "why": "D"}]}')
    records = certify_results.from_records(folder / "records.json")
    expect((records.cases, records.tests, records.skipped, len(records.found)) == (573, 572, ["p"], 1) and "r1" in records.found[0], str(records))
    expect("does this build have it" in certify_results.from_records(folder / "none.json").found[0], "no records")
    rows = {"layers": [{"name": "l", "points": [{"m": 1, "same": True}, {"m": 2, "same": False, "verified": False}], "first_calls": {}}],
            "summary": {"mean_loss": 0.01, "worst_loss": 0.2, "most_kernels": 3, "worst_call_us": 10.0}}
    (folder / "rows.json").write_text(json.dumps(rows))
    read = certify_results.from_rows(folder / "rows.json")
    expect((read.tests, read.cases, read.kernels) == (1, 2, 3) and read.found == ["l, 2 rows: wrong"], str(read))
    expect(read.facts["worst_loss past its bar:"] == "0.2 (bar 0.08)" and read.facts["mean_loss"] == "0.01 (bar 0.015)", str(read))
    expect(certify_results.judged(certify_results.Result(tests=3), 1).found == ["exit status 1"], "a status is believed")


TESTS = (all_right, nothing_is_run_twice, other_sources_begin_anew, another_driver_is_named, found("wrong", "one bit is wrong"), found("crash", "no result: it ended in two.afirst"),
         found("skipped", "nothing ran (1 tests were skipped)"), found("nothing", "nothing ran"), no_end, one_by_one, cut_and_resumed, no_time, no_gpu,
         another_gpu, unknown_section, into_a_folder, a_missing_wheel, of_its_wheel, a_part_that_goes_on, readers)


def run() -> int:
    kept, failed = (certify.all_sections, certify.ROOT, os.environ.get("SLUICE_CACHE_DIR")), 0
    for test in TESTS:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["SLUICE_CACHE_DIR"] = folder + "/cache"
            try:
                test(Bench(pathlib.Path(folder)))
            except AssertionError as why:
                failed += 1
                print(f"certify self-test: {test.__name__}: {why}")
    certify.all_sections, certify.ROOT = kept[:2]
    print(f"certify self-test: {len(TESTS) - failed} of {len(TESTS)} passed")
    return 1 if failed else 0
