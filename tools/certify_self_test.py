# SPDX-License-Identifier: Apache-2.0
"""Tests certify.py on a fake test program. A wrong result, a crash, a hang, an empty run and an interrupted
one must show in the certificate and in the exit status. A weaker test or another kernel must void the parts
that it affects, and no others. Run by `certify.py --self-test` and ctest.
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
import certify_keys
import certify_kernels
import certify_results
import certify_run
import source_hash
from certify_sections import Part, Section

# A fake sluice_gpu_tests. A file next to it has lines "part filter: mode"; the default mode is "right".
FAKE = r'''#!/usr/bin/env python3
import json, os, pathlib, signal, sys, time
here = pathlib.Path(__file__).parent
words = dict(w[2:].split("=", 1) for w in sys.argv[1:] if "=" in w)
visible = os.environ.get("CUDA_VISIBLE_DEVICES", "-")
told, wanted = pathlib.Path(words.get("gtest_output", "/dev/null").removeprefix("json:")), words["gtest_filter"]
plan = json.loads((here / "plan.json").read_text())
told_by_test = ("driver", "nvrtc")
run = {k: v for k, v in plan["identity"].items() if k not in told_by_test} | {"testsuites": []}
run["gpu"] = plan["gpus"].get(visible, run["gpu"])
mode = plan.get(wanted, "right")
with open(here / "calls.txt", "a") as calls:
    calls.write(wanted + " seed " + os.environ.get("FAKE_SEED", "-") + " gpu " + visible + "\n")
if log := os.environ.get("SLUICE_KERNEL_LOG"):
    with open(log, "a") as kernels:
        for unit in () if mode == "mute" else plan["units"].get(wanted, ["#include <sluice/kernels/c.cuh>\n"]):
            kernels.write("0.NVRTC_13.0.cubin\t" + unit.replace("\n", "\\n") + "\n")
time.sleep(plan["takes"])
if plan["takes"]:
    with open(here / "calls.txt", "a") as calls:
        calls.write("ended:" + wanted + "\n")
print("[ RUN      ] " + wanted.replace("*", "first"), flush=True)
if mode == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
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
IDENTITY = {"gpu": "NVIDIA H200", "no_gpu": "", "driver": "580.1", "nvrtc": "13.0", "built_commit": "a" * 40}
TABLE = (Section("one", "one part", (Part("all", 0, 20, "one.*"),), host=("sluice/run/ops/*",)),
         Section("two", "two parts", (Part("a", 0, 20, "two.a*", env=(("FAKE_SEED", "{seed}+5"),)), Part("b", 0, 20, "two.b*")), seeded=True),
         Section("side", "three parts at once", tuple(Part(x, 0, 20, f"side.{x}*") for x in "abc"), shares=True))
UNITS = {"one.*": ["#include <sluice/kernels/a.cuh>\nkernel<1>();\n"], "two.a*": ["#include <sluice/kernels/b.cuh>\nkernel<2>();\n"],
         "side.a*": ["#include <sluice/kernels/a.cuh>\nkernel<3>();\n"]}
FILES = {"sluice/kernels/a.cuh": "int a;", "sluice/kernels/c.cuh": "int c;", "sluice/kernels/b.cuh": "#include <sluice/kernels/deep.cuh>", "sluice/kernels/deep.cuh": "int deep;",
         "sluice/run/ops/a.cc": "int launch();", "sluice/plan/text/b.cc": "int text();", "sluice/check/judge.cc": "bool right(int x) { return x == 0; }",
         "sluice/check/judge.h": "bool right(int x);", "tests/gpu/one_test.cc": '#include <sluice/check/judge.h>\nTEST(one, first) {}',
         "tests/gpu/two_test.cc": '#include "shared.h"\nTEST(two, first) { EXPECT_EQ(bits, 0); }', "tests/gpu/side_test.cc": "TEST(side, first) {}",
         "tests/gpu/shared.h": "int bits;"}


class Bench:
    """A folder that contains the fake program."""

    def __init__(self, folder: pathlib.Path, table: tuple[Section, ...] = TABLE):
        self.folder = folder
        (folder / "tests").mkdir()
        fake = folder / "tests/sluice_gpu_tests"
        fake.write_text(FAKE)
        fake.chmod(0o755)
        self.table = table
        for name, text in FILES.items():
            self.write(name, text)
        self.plan()

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)
        certify_keys.meaning.cache_clear()

    def plan(self, identity: dict | None = None, tests: tuple[str, ...] = ("first",), seen: dict | None = None, takes: float = 0, **modes: str) -> None:
        sources = " ".join(f"{part}:{digits}" for part, digits in source_hash.all_hashes(self.folder).items())
        told = {"identity": IDENTITY | {"built_sources": sources} | (identity or {}), "tests": tests, "gpus": seen or {}, "units": UNITS,
                "takes": takes} | {key.replace("_", ".") + "*": mode for key, mode in modes.items()}
        (self.folder / "tests/plan.json").write_text(json.dumps(told))

    def run(self, sections: str = "", **more: object) -> tuple[int, dict, str]:
        """Runs certify.py. Returns exit status, certificate and printed text."""
        certify.all_sections, certify.ROOT, certify_run.ROOT = lambda setting: self.table, self.folder, self.folder
        names = self.folder / certify_keys.NAMES
        names.write_text(certify.text_of_names(self.folder, self.folder / "names.told"))
        asked = {"sections": sections, "seconds": 100.0, "out": None, "build": self.folder, "wheels": None, "seed": None,
                 "quick": False, "again": False, "gpus": 1} | more
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
        return [line for line in lines if not line.startswith(("identity", "ended:identity"))]


def listed(tests: pathlib.Path, words: str, told: pathlib.Path) -> dict:
    """Replaces certify_keys.listing by the plan of the fake program."""
    suite = words.split(".")[0]
    names = [f"{suite}.{name}" for name in json.loads((tests.parent / "plan.json").read_text())["tests"]]
    return {"tests": len(names), "names": certify_keys.digest(*names), "files": [f"tests/gpu/{suite}_test.cc"]}


def expect(good: bool, what: str) -> None:
    if not good:
        raise AssertionError(what)


def all_right(bench: Bench) -> None:
    code, told, said = bench.run()
    expect(code == certify.OK, said)
    expect({s["verdict"] for s in told["sections"].values()} == {"passed"}, said)
    two = told["sections"]["two"]
    expect((two["cases"], two["tests"], two["kernels"], two["facts"]["note"]) == (200, 2, 7, "x"), str(two))
    part = two["parts"]["a"]
    expect(part["commit"] == "a" * 40 and set(part["keys"]) == set(certify_keys.KINDS) and told["gpu"] == "NVIDIA H200", str(told))
    expect(any(line.startswith(f"two.a* seed {two['seed'] + 5}") for line in bench.calls()), "the recorded seed is the one that ran")
    kernels = certify_kernels.Kernels(bench.folder / "bench/results/h200" / certify_kernels.FILE)
    expect({name: len(found) for name, found in kernels.parts.items()} == dict.fromkeys(("one/all", "two/a", "two/b", "side/a", "side/b", "side/c"), 1), str(kernels.parts))


def reruns(what: str, change, *wanted: str, **more: object):
    """Expects that a second run, after a change, runs these parts again and no others."""
    def test(bench: Bench) -> None:
        first = bench.run()[1]
        bench.calls()
        change(bench)
        code, told, said = bench.run(**more)
        ran = sorted(line.split()[0] for line in bench.calls())
        expect(code == certify.OK and ran == sorted(wanted) and (wanted or told == first), f"{what}: {ran}, {said}")
    test.__name__ = f"reruns after {what}"
    return test


def voids(name: str, text: str, *wanted: str):
    """Expects that a change of this file voids these parts, and no others."""
    def change(bench: Bench) -> None:
        bench.write(name, text)
        bench.plan()
    return reruns(f"{name}: {text}", change, *wanted)


def fewer_cases(bench: Bench) -> None:
    bench.table = (bench.table[0], Section("two", "two parts", (Part("a", 0, 20, "two.a*", env=(("SLUICE_CASES", "1"),)), bench.table[1].parts[1]), seeded=True), bench.table[2])


def refuses(words: str, sections: str = "", gpus: int = 1, visible: str = "", changed: str = "", **plan: object):
    """A run that cannot begin says why. `changed`: a file that has another text than when the build was made."""
    def test(bench: Bench) -> None:
        bench.plan(**plan)
        if changed:
            bench.write(changed, "int another;")
        os.environ |= {"CUDA_VISIBLE_DEVICES": visible} if visible else {}
        try:
            code, told, said = bench.run(sections, gpus=gpus)
        finally:
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        expect(code == certify.NOTHING and not told and words in said, said)
    test.__name__ = f"refuses: {words}"
    return test


def names_of_another_build(bench: Bench) -> None:
    made = certify.text_of_names
    bench.run()
    try:
        certify.text_of_names = lambda build, told: made(build, told) if "names.told" in str(told) else "{}"
        code, _, said = bench.run()
    finally:
        certify.text_of_names = made
    expect(code == certify.NOTHING and "names.json differs" in said and "--names" in said, said)


def on_several_gpus(bench: Bench) -> None:
    """Each part runs on one GPU. Parts that do not share have a GPU of their own."""
    bench.table = (*TABLE[1:], Section("tool", "", (Part("a", 0, 20, "tool.*"),), shares=True, spreads=True))
    bench.plan(takes=0.3)
    code, told, said = bench.run(gpus=2)
    expect(code == certify.OK and {s["verdict"] for s in told["sections"].values()} == {"passed"}, said)
    calls = [line.split() for line in bench.calls() if not line.startswith(("pool.", "ended:"))]
    expect({words[-1] for words in calls} == {"0", "1"} and len(calls) == 6, str(calls))
    expect(sorted(words[-1] for words in calls if words[0].startswith("two.")) == ["0", "1"], f"parts of one section have a GPU each: {calls}")


def timings_run_alone(bench: Bench) -> None:
    """A part that times the host must run while no other part runs."""
    bench.table = (Section("cost", "", (Part("all", 0, 20, "one.*"),), times=True), TABLE[2])
    bench.plan(takes=0.2)
    bench.run(gpus=2)
    calls = [line.split()[0] for line in bench.calls() if not line.startswith(("pool.", "ended:pool."))]
    expect(calls[:2] == ["one.*", "ended:one.*"] and len(calls) == 8, str(calls))


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


def ends(code: int, words: str, section: Section, mode: str = "right", **more: object):
    """Expects this status of a run of one section, and these words in what it prints or writes."""
    def test(bench: Bench) -> None:
        bench.table = (section,)
        bench.plan(one_=mode)
        done, told, said = bench.run(**more)
        expect(done == code and words in said + json.dumps(told), f"{done}: {said} {told}")
    test.__name__ = f"ends with {code}: {words}"
    return test


def command(words: str, reads: str = "sanitizer") -> Section:
    return Section("tool", "", (Part("a", 0, 20, command=("sh", "-c", words)),), reads=reads)


def cut_and_resumed(bench: Bench) -> None:
    bench.plan(two_b="hang")
    code, told, _ = bench.run("two", seconds=2.0)
    two = told["sections"]["two"]
    expect(code == certify.MORE and two["verdict"] == "unfinished" and list(two["parts"]) == ["a"] and two["cases"] == 100, str(two))
    bench.calls()
    bench.plan({"driver": "590.2"})
    code, told, _ = bench.run("two")
    expect(code == certify.OK and [c.split()[0] for c in bench.calls()] == ["two.b*"], "it goes on with b")
    expect(told["sections"]["two"]["seed"] == two["seed"] and told["sections"]["two"]["cases"] == 200, str(told))
    expect([part["driver"] for part in told["sections"]["two"]["parts"].values()] == ["580.1", "590.2"], "another driver is named")


def another_gpu(bench: Bench) -> None:
    bench.run()
    kept = bench.folder / "bench/results/h200/certificate.json"
    other = bench.folder / "bench/results/h100/certificate.json"
    other.parent.mkdir()
    other.write_text(kept.read_text())
    bench.plan({"gpu": "NVIDIA H100 80GB HBM3"})
    code, _, said = bench.run()
    expect(code == certify.NOTHING and "is of 'NVIDIA H200'" in said, said)


def into_a_folder(bench: Bench) -> None:
    """A run whose results go to another folder starts from those in bench/results."""
    bench.run("one")
    bench.calls()
    out = bench.folder / "out"
    expect(bench.run("one,two", out=out)[0] == certify.OK and len(bench.calls()) == 2, "one was done already")
    told = json.loads((out / "certificate.json").read_text())
    expect(list(told["sections"]) == ["one", "two"], str(told))


def of_its_wheel(bench: Bench) -> None:
    """The Python suite's result belongs to the wheel that it installs, not to the build in the same tree."""
    (bench.folder / "wheels").mkdir()
    sources = " ".join(f"{part}:{digits}" for part, digits in source_hash.all_hashes(bench.folder).items())
    with zipfile.ZipFile(bench.folder / "wheels/sluice_gemm-1-py3.whl", "w") as wheel:
        wheel.writestr("sluice/bin/sluice", f"#!/bin/sh\necho 'sluice 1 ({'c' * 40})'\necho {sources}\n")
    junit = "<testsuite><testcase classname='a' name='x'/></testsuite>"
    make = f"mkdir -p logs && cd {bench.folder}/gpu_results/logs && mkdir -p python_a && echo \"{junit}\" > python_a/junit_a.xml"
    bench.table = (command(make, "junit"),)
    code, told, said = bench.run()
    expect(code == certify.OK and told["sections"]["tool"]["tests"] == 1 and told["sections"]["tool"]["parts"]["a"]["commit"] == "c" * 40, said)
    bench.write("python/sluice/a.py", "x = 1")
    bench.plan()
    expect("the wheel is not of this tree" in bench.run()[2], "a wheel of another tree")


def data_at_fault(bench: Bench) -> None:
    """A result that is not judged is neither right nor wrong. If nothing was judged, nothing has been shown."""
    def judged(*cases: dict) -> certify_results.Result:
        told = bench.folder / "told.json"
        told.write_text(json.dumps({"testsuites": [{"name": "a", "testsuite": [{"name": "x", "result": "COMPLETED", **case} for case in cases]}]}))
        return certify_results.judged(certify_results.from_gtest(told, ""), 0)
    some = judged({"cases": "100", "not_judged": "3"}, {"not_judged": "1"}, {})
    expect((some.tests, some.cases, some.not_judged, some.found, some.facts) == (2, 100, 4, [], {}), str(some))
    expect("nothing was judged" in judged({"cases": "5", "not_judged": "5"}).found[0], "all cases")
    expect(judged({"not_judged": "1"}).found == ["nothing ran"], "the one test")


def readers(bench: Bench) -> None:
    folder = bench.folder
    (folder / "junit_a.xml").write_text('<testsuites><testsuite><testcase classname="a" name="x"/><testcase classname="a" name="y"><skipped/></testcase>'
                                        '<testcase classname="a" name="z"><failure message="off by one"/></testcase></testsuite></testsuites>')
    (folder / "junit_b.xml").write_text("<testsuite><testcase")
    junit = certify_results.from_junit(folder)
    expect((junit.tests, junit.skipped, len(junit.found)) == (1, ["a.y"], 2) and "off by one" in junit.found[0], str(junit))
    def line(kind: str, name: str, clean: bool, **more: object) -> dict:
        return {"kind": kind, "tool": "memcheck", "build": "b", "class": name, "clean": clean, "why": "a race"} | more

    def sanitized(*lines: dict) -> certify_results.Result:
        (folder / "s.jsonl").write_text("\n".join(map(json.dumps, lines)) + '\n{"tool": "mem')
        return certify_results.from_sanitizer(folder / "s.jsonl", "memcheck", "b")
    planted = line("planted", "bug", True)
    good = sanitized(planted, line("class", "k", False), line("class", "k", True), line("class", "x", False, build="older"), line("class", "x", False, tool="racecheck"))
    expect((good.tests, good.cases, good.kernels, good.found, good.facts) == (2, 2, 1, [], {}), f"the newest line of this tool and build: {good}")
    expect(sanitized(planted, line("class", "k", False)).found == ["k: a race"], "a class that is not clean")
    variant = sanitized(planted, line("class", "k", True, shown="nothing"), line("class", "b", True, shown="both_arrive"))
    expect(variant.facts["memcheck ran"] == "1 of 2 kernels as a variant (both_arrive)", str(variant))
    expect("a planted bug was not found" in sanitized(line("planted", "bug", False)).found[0], "a tool that finds nothing")
    expect("not shown to find anything" in sanitized(line("class", "k", True)).found[0], "no bug was planted")
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


ALL = ("one.*", "two.a*", "two.b*", "side.a*", "side.b*", "side.c*")
TESTS = (all_right, reruns("nothing", lambda bench: None), reruns("nothing, with --again", lambda bench: None, *ALL, again=True),
         reruns("a commit that changes nothing that ran", lambda bench: bench.plan({"built_commit": "b" * 40})),
         reruns("another test's name, as when an enumerator adds a class", lambda bench: bench.plan(tests=("first", "of_a_new_class")), *ALL),
         reruns("a smaller setting", fewer_cases, "two.a*"),
         # A weaker test, a weaker check, a header of tests, and launching code void parts. The other changes
         # void none.
         voids("tests/gpu/two_test.cc", '#include "shared.h"\nTEST(two, first) { EXPECT_LE(bits, 1); }', "two.a*", "two.b*"),
         voids("sluice/check/judge.cc", "bool right(int x) { return x < 2; }", "one.*"),
         voids("tests/gpu/shared.h", "int bits = 0;", "two.a*", "two.b*"),
         voids("sluice/run/ops/a.cc", "int launch(int);", "one.*"),
         voids("sluice/plan/text/b.cc", "int other_text();"),
         voids("sluice/run/ops/a.cc", "// says why\nint   launch();  // so"),
         voids("sluice/run/ops/a.cc", "int  // between two tokens\n    launch(\n    )  ;"),
         voids("tests/gpu/one_test.cc", '#include <sluice/check/judge.h>  // the judge\nTEST(one, first)   {}'),
         voids("sluice/kernels/a.cuh", "int   a;  // a comment of a device header"),
         voids("sluice/kernels/a.cuh", "int another;", "one.*", "side.a*"),
         voids("sluice/kernels/deep.cuh", "int deeper;", "two.a*"),
         refuses("is not of this tree, whose kernels differ", changed="sluice/kernels/a.cuh"),
         refuses("NVIDIA H200, NVIDIA H100", gpus=2, visible="0,1", seen={"1": "NVIDIA H100 80GB HBM3"}), refuses("name 2 of them", gpus=2, visible="3"),
         refuses("no GPU here: no driver", identity={"gpu": "", "no_gpu": "no driver"}), refuses("no section is called three", sections="one,three"),
         names_of_another_build, on_several_gpus, timings_run_alone,
         found("wrong", "one bit is wrong"), found("mute", "no kernel was logged"), found("crash", "no result: it ended in two.afirst"),
         found("skipped", "nothing ran (1 tests were skipped)"), found("nothing", "nothing ran"),
         ends(certify.FOUND, "no end within 1 s: one.first hangs", Section("one", "", (Part("all", 0, 1, "one.*"),)), "hang"),
         ends(certify.MORE, "unfinished, 0 of 1 parts", Section("one", "", (Part("all", 50, 60, "one.*"),)), seconds=10.0),
         ends(certify.MORE, "no wheel of sluice", command("true", "junit")), ends(certify.FOUND, "exit status 1", command("exit 1 # {seconds}")),
         ends(certify.MORE, "unfinished", command(f"exit {certify.MORE} # {{seconds}}")),
         ends(certify.MORE, "not possible here", command(f"exit {certify_run.IMPOSSIBLE} # {{seconds}}")),
         cut_and_resumed, another_gpu, into_a_folder, of_its_wheel, data_at_fault, readers)


def run() -> int:
    kept, failed = (certify.all_sections, certify.ROOT, certify_keys.listing), 0
    certify_keys.listing = listed
    for test in TESTS:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["SLUICE_CACHE_DIR"] = folder + "/cache"
            try:
                test(Bench(pathlib.Path(folder)))
            except AssertionError as why:
                failed += 1
                print(f"certify self-test: {test.__name__}: {why}")
    certify.all_sections, certify.ROOT, certify_keys.listing = kept
    certify_run.ROOT = kept[1]
    print(f"certify self-test: {len(TESTS) - failed} of {len(TESTS)} passed")
    return 1 if failed else 0
