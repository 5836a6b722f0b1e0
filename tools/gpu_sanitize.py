#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the four tools of compute-sanitizer over every class of every kernel, and over planted bugs first.

    tools/gpu_sanitize.py BUILD OUT [--seconds N] [--jobs N] [--tools racecheck,memcheck]
                          [--only TEXT] [--again]
    tools/gpu_sanitize.py --check BUILD       (do the tests and changes that it names exist? needs no GPU)
    tools/gpu_sanitize.py --self-test         (with a tool and tests that are scripts)

Each tool must first find a bug in a dense, a gathering, a packed and a companion kernel (tests/gpu/kernel_changes.cc);
one is planted in each family of kernels. Then each class runs (tests/gpu/sanitize_pool.cc, and random norms,
quantisers and packers), a few in one process. If they are not all clean, they run one by one.

Each result is a line of OUT/sanitize.jsonl at once (Runner.note), so a later run resumes where one was cut; --again
runs all. "clean" is true if there is nothing to explain, or if a planted bug was found. Nothing is waived: kernels
with barriers that a tool does not follow run in a changed form (docs/findings/races.md). OUT/sanitize_logs has the
logs of runs that were not clean. SLUICE_GPUS (0,1,2,3) names the GPUs that processes are spread over.

Exit status: 0 everything ran and is clean, 1 something is not, 3 time was over and all so far is clean, 77 no
sanitizer or no GPU.
"""
import argparse
import concurrent.futures
import hashlib
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import typing

sys.dont_write_bytecode = True
import machine  # noqa: E402
import result_files  # noqa: E402

TOOLS = ("racecheck", "memcheck", "initcheck", "synccheck")
# Number of classes that one process tests.
TOGETHER = {"racecheck": 4, "memcheck": 20, "initcheck": 20, "synccheck": 20}
LIMIT = 150  # seconds for one process
# The families with the most frequent findings come first.
FAMILIES = ("block", "strided", "conv", "narrow", "strip", "wide", "norm", "quantise", "pack", "plain", "dense")
# (tool, family, change, test, settings)
NORM = ("norms.of_random_shapes", {"SLUICE_NORM_CASES": "4"})
PACK = ("pack.random_sizes_are_the_references", {"SLUICE_PACK_CASES": "1", "SLUICE_PACK_SEED": "1"})
QUANTISE = ("all/quantize.of_random_shapes/tensor", {"SLUICE_QUANTIZE_CASES": "4"})
PLANTED = (
    ("racecheck", "scales_written_too_early", "dense/*scale_a_block*", {}),
    ("racecheck", "scales_read_before_they_came", "dense/*scale_a_block*", {}),
    ("racecheck", "vectors_used_before_all_came", "dense/*/ping_pong_64x64x64_s3_c1x1_bf16_direct_scale_a_vector_*", {}),
    ("racecheck", "vectors_of_filters_used_before_all_came", "conv/*/fprop_128x128_clusters_2x1_bias", {}),
    ("racecheck", "sums_added_before_all_are_there", "narrow/*", {}),
    ("racecheck", "plain_sums_added_before_all_are_there", "plain/*/plain_32x32x64_w8_s3_c1x1_*", {}),
    ("racecheck", "team_sums_added_before_all_are_there", "plain/*/plain_wgmma_16x32x64_w4_s3_c1x1_*", {}),
    ("racecheck", "strips_added_before_all_are_there", "strip/*", {}),
    ("racecheck", "row_read_before_all_put", *NORM),
    ("racecheck", "codes_read_before_all_came", *PACK),
    ("memcheck", "d_stored_far_away", "dense/*/ping_pong_64x64x64_s3_c1x1_bf16_direct_scale_a_vector_*", {}),
    ("memcheck", "strided_read_far_away", "strided/*/ping_pong_64x64x64_s3_c1x1_bf16_a_strided_*", {}),
    ("memcheck", "pixels_stored_far_away", "conv/*/dgrad_128x128_in_3_parts", {}),
    ("memcheck", "outputs_stored_far_away", "narrow/*", {}),
    ("memcheck", "wide_outputs_stored_far_away", "wide/*_int8_fp32_g*", {}),
    ("memcheck", "normed_stored_far_away", *NORM),
    ("memcheck", "codes_stored_far_away", *QUANTISE),
    ("initcheck", "parts_not_written", "dense/*/ping_pong_64x64x64_s3_c1x1_bf16_last_arriver_*", {}),
    ("initcheck", "parts_not_written_for_the_sum", "dense/*/ping_pong_64x64x64_s3_c1x1_bf16_direct_separate_*", {}),
    ("initcheck", "parts_of_filters_not_written", "conv/*/wgrad_128x128_clusters_1x2_5_parts", {}),
    ("initcheck", "scales_not_packed", "narrow/*_gk_*", {}),
    ("synccheck", "start_syncs_half_a_warp", "dense/*/ping_pong_64x64x64_s3_c1x1_bf16_scale_a_vector_*", {}),
    ("synccheck", "gather_starts_with_half_a_warp", "conv/*/dgrad_64x64", {}),
    ("synccheck", "ring_syncs_half_a_warp", "narrow/*", {}),
    ("synccheck", "row_syncs_half_a_warp", *NORM),
)
# Kernel changes under which racecheck runs these families, because it reports false races for the unchanged kernels
# (docs/findings/races.md): one lane arrives at a barrier on behalf of all.
SHOWN = {family: "every_lane_arrives" for family in ("block", "strided", "strip", "wide")}
# The one class of plain kernels whose two teams pass a different number of barriers before they meet as a
# CTA.
MEETS_TWICE = re.compile(r"plain/.*/plain_wgmma_32x32x64_w8_s\d+_c1x1_")
GRANULARITIES = ("tensor", "row", "row_block", "square_block")

SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")
FINDING = re.compile(r"^=+ (?:Error: |Warning: )?((?:Race reported|Potential|Invalid|Uninit|Barrier|Divergent|Program hit|Address).*)", re.M)
PASSED, NOT_PASSED = re.compile(r"^\[  PASSED  \] [1-9]", re.M), re.compile(r"^\[(?:  FAILED  |  SKIPPED |NOT JUDGED)\]", re.M)


class Row(typing.NamedTuple):
    """A run of some tests under a tool."""
    kind: str
    tool: str
    family: str
    name: str
    test: str
    settings: dict

    def key(self):
        return self.kind, self.tool, self.name


def listed(tests):
    """Returns the full names of all tests in the binary."""
    out = subprocess.run([tests, "--gtest_list_tests"], check=True, capture_output=True, text=True).stdout
    suite, names = "", []
    for line in out.splitlines():
        if line.startswith("  "):
            names.append(suite + line.split("#")[0].strip())
        elif line.rstrip().split(" ")[0].endswith("."):
            suite = line.split("#")[0].strip()
    return names


COMPANIONS = {"norms": "norm", "all": "quantise"}  # the first word of a companion's test name -> its family


def family_of(name):
    first = re.split("[/.]", name)[0]
    family = COMPANIONS.get(first, first)
    return "block" if family == "dense" and "scale_a_block" in name else family


def matching(names, pattern):
    expression = re.compile(re.escape(pattern).replace(r"\*", ".*"))
    return next((name for name in names if expression.fullmatch(name)), None)


def planted_rows(names, tools):
    return [Row("planted", tool, family_of(pattern), change, matching(names, pattern), settings)
            for tool, change, pattern, settings in PLANTED if tool in tools]


def class_rows(names, tools):
    """Returns the rows of each tool, ordered by how likely a family is to have faults. racecheck of block scales and packed
    kernels is first."""
    classes = [(family_of(name), name, name, {}) for name in names if "/sanitize_" in name]
    classes += [("norm", f"norm/{i:02}", NORM[0], {"SLUICE_NORM_CASES": "8", "SLUICE_NORM_FIRST": str(8 * i)}) for i in range(8)]
    classes += [("quantise", f"quantise/{granularity}_{i:02}", f"all/quantize.of_random_shapes/{granularity}",
                 {"SLUICE_QUANTIZE_CASES": "8", "SLUICE_QUANTIZE_FIRST": str(8 * i)})
                for granularity in GRANULARITIES for i in range(4)]
    classes += [("pack", f"pack/{i:02}", PACK[0], {"SLUICE_PACK_CASES": "12", "SLUICE_PACK_SEED": str(1 + 12 * i)}) for i in range(8)]
    classes.sort(key=lambda c: FAMILIES.index(c[0]))
    return [Row("class", tool, family, name, test, settings) for tool in tools for family, name, test, settings in classes]


def shown(row):
    """Returns the change that is applied to the row's kernels; "nothing" means the unchanged code (changes_test.cc), with
    line numbers."""
    if row.kind == "planted":
        return row.name
    if row.tool != "racecheck":
        return "nothing"
    return "sums_meet_twice" if MEETS_TWICE.match(row.name) else SHOWN.get(row.family, "nothing")


def batches(rows):
    """Returns lists of rows for one process each: a few classes with the same change and without settings of their own."""
    groups = []
    for (together, tool, _), some in itertools.groupby(rows, lambda row: (row.kind == "class" and not row.settings, row.tool, shown(row))):
        some, size = list(some), TOGETHER[tool] if together else 1
        groups += [some[i:i + size] for i in range(0, len(some), size)]
    return groups


def read_log(text):
    """Reads a process' output: {findings, passed, why}; `findings` is None if the tool gave no count."""
    counts = SUMMARY.findall(text)
    findings, why = int(counts[-1]) if counts else None, ""
    passed = bool(PASSED.search(text)) and not NOT_PASSED.search(text)
    if findings is None:
        why = "the tool gave no count"
    elif findings:
        why = found[1] if (found := FINDING.search(text)) else "it does not say what"
    elif not passed:
        why = next((line for line in text.splitlines() if ": Failure" in line or NOT_PASSED.match(line)), "no test passed")
    return {"findings": findings, "passed": passed, "why": why[:200]}


class Runner:
    def __init__(self, given, sanitizer):
        self.out, self.tests, self.sanitizer = pathlib.Path(given.out), given.build / "tests/sluice_gpu_tests", sanitizer
        self.end = time.monotonic() + given.seconds
        self.logs = self.out / "sanitize_logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.file = self.out / "sanitize.jsonl"
        result_files.unpack(self.file)
        version = re.search(r"Version (\S+)", subprocess.run([sanitizer, "--version"], capture_output=True, text=True).stdout)
        self.same = {"build": hashlib.sha256(self.tests.read_bytes()).hexdigest()[:12], "commit": machine.commit(), "gpu": machine.nvidia_smi(("name",)).get("name"),
                     "version": version[1] if version else "unknown"}
        self.lock = threading.Lock()
        self.gpus = itertools.cycle([{"CUDA_VISIBLE_DEVICES": gpu} for gpu in os.environ.get("SLUICE_GPUS", "").split(",") if gpu] or [{}])
        self.done, self.total, self.bad, self.skipped = 0, 0, 0, 0

    def known(self):
        """Returns the keys of results in the file that are from this GPU and this build."""
        rows = [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []
        return {(row["kind"], row["tool"], row["class"]): row["clean"] for row in rows
                if row["gpu"] == self.same["gpu"] and row["build"] == self.same["build"]}

    def note(self, row, found, seconds, text):
        clean = found["passed"] and found["findings"] == 0 if row.kind == "class" else bool(found["findings"])
        line = {"kind": row.kind, **self.same, "tool": row.tool, "family": row.family, "class": row.name,
                "shown": shown(row), **found, "clean": clean, "seconds": round(seconds, 1)}
        with self.lock:
            self.done += 1
            self.bad += not clean
            with self.file.open("a") as file:
                file.write(json.dumps(line) + "\n")
            if not clean or row.kind == "planted":
                (self.logs / f"{row.tool}_{re.sub(r'[^0-9A-Za-z_]+', '_', row.name)}.log").write_text(text[:200000])
            word = ("found" if clean else "NOT FOUND") if row.kind == "planted" else (
                "clean" if clean else f"{found['findings']} FINDINGS, {found['why']}")
            print(f"[{self.done:4}/{self.total}] {row.tool:9} {row.name[:80]}: {word} ({seconds:.1f} s)", flush=True)

    def process(self, rows):
        """Runs one process. Returns (log, seconds); None if time ran out before it ended."""
        first, left = rows[0], self.end - time.monotonic()
        if left < 3:
            return None
        limit = min(LIMIT, left)
        command = [self.sanitizer, "--tool", first.tool, "--print-limit", "200", str(self.tests),
                   "--gtest_filter=" + ":".join(row.test for row in rows)]
        with self.lock:
            where = next(self.gpus)
        start = time.monotonic()
        with tempfile.TemporaryFile("w+", errors="replace") as log:
            child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                                     env={**os.environ, **where, **first.settings, "SLUICE_CHANGE": shown(first)})
            try:
                child.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, 9)  # also ends the tool's children
                child.wait()
                if limit < LIMIT:
                    return None
            log.seek(0)
            return log.read(), time.monotonic() - start

    def run(self, rows):
        result = self.process(rows)
        if result is None:
            with self.lock:
                self.skipped += len(rows)
            return
        text, seconds = result
        found = read_log(text)
        if len(rows) == 1:
            return self.note(rows[0], found, seconds, text)
        if found["findings"] == 0 and found["passed"] and f"[  PASSED  ] {len(rows)} tests" in text:
            for row in rows:
                self.note(row, found, seconds / len(rows), "")
        else:
            for row in rows:
                self.run([row])

    def run_all(self, rows, jobs):
        groups = batches(rows)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for future in [pool.submit(self.run, group) for group in groups]:
                future.result()


def wrong_names(tests):
    """Returns names in the tables above that the binary does not have."""
    names, tools = listed(tests), list(TOOLS)
    changes = {name.rsplit("/", 1)[1] for name in names if name.startswith("kernel/changes.")}
    rows = planted_rows(names, tools) + class_rows(names, tools)
    wrong = [f"{row.tool}: {row.name}: no such test" for row in rows if row.test not in names]
    wrong += [f"{change}: no such change" for _, change, _, _ in PLANTED if change not in changes]
    for tool in TOOLS:
        kinds = {"companion" if row.family in ("norm", "quantise", "pack") else row.family for row in planted_rows(names, [tool])}
        companion = "companion" in kinds or any(change.endswith("for_the_sum") for t, change, _, _ in PLANTED if t == tool)
        if not ({"dense", "conv", "narrow"} <= kinds and companion):
            wrong.append(f"{tool}: no planted bug in a dense, a gathering, a packed and a companion kernel")
    planted = {row.family for row in rows if row.kind == "planted"}
    wrong += [f"no planted bug in {family}" for family in FAMILIES if family not in planted]
    twice = sum(1 for row in rows if shown(row) == "sums_meet_twice")
    if twice != 1:
        wrong.append(f"{twice} classes are shown as sums_meet_twice: the argument is for one (docs/findings/races.md)")
    classes = {row.family for row in rows if row.kind == "class"}
    return wrong + [f"no class of {family}" for family in FAMILIES if family not in classes]


def sanitize(given):
    sanitizer = given.sanitizer or shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not pathlib.Path(sanitizer).exists():
        print("compute-sanitizer is not installed here")
        return 77
    runner = Runner(given, sanitizer)
    if runner.same["gpu"] is None:
        print("no GPU here")
        return 77
    names, tools = listed(runner.tests), given.tools.split(",")
    rows = [row for row in planted_rows(names, tools) + class_rows(names, tools) if given.only in row.name]
    known = {} if given.again else runner.known()
    left = [row for row in rows if row.key() not in known]
    runner.total, runner.bad = len(left), sum(1 for row in rows if known.get(row.key()) is False)
    print(f"{len(rows)} to run, {len(rows) - len(left)} of them known ({runner.bad} not clean)", flush=True)
    os.environ.setdefault("SLUICE_CACHE_DIR", str(runner.out / "sanitize_cache"))
    pathlib.Path(os.environ["SLUICE_CACHE_DIR"]).mkdir(mode=0o700, parents=True, exist_ok=True)
    # Compile on all cores first, because each process uses only one.
    if any(row.kind == "class" for row in left):
        try:
            subprocess.run([runner.tests, "--gtest_filter=sanitize_kernels.compile"], check=True, stdout=subprocess.DEVNULL,
                           timeout=max(1, runner.end - time.monotonic()), env={**os.environ, "SLUICE_CHANGE": "nothing"})
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as trouble:
            print(f"kernels were not compiled ahead: {trouble}")
    runner.run_all(left, given.jobs)
    result_files.pack(runner.file)
    print(f"{runner.done} ran, {runner.skipped} left for the next time, {runner.bad} not clean; {runner.file}")
    return 1 if runner.bad else 3 if runner.skipped else 0


# ---- self-test ----
FAKE_TOOL = """#!/bin/sh
[ "$1" = --version ] && { echo "Version 9.9"; exit; }
tool=$2; shift 4; filter=$2
echo "$tool $SLUICE_CHANGE $filter" >> "$FAKE_CALLS"
case "$filter" in *slow*) sleep 60 ;; esac
found=0
case "$SLUICE_CHANGE" in ''|nothing|every_lane_arrives|sums_meet_twice) ;; *) found=3 ;; esac
[ "$SLUICE_CHANGE" = "$FAKE_MISSED" ] && found=0
case "$filter" in *"$FAKE_BAD"*) found=1 ;; esac
count=$(echo "$filter" | tr ':' '\\n' | wc -l)
echo "========= ERROR SUMMARY: $found errors"
[ "$count" = 1 ] && echo "[  PASSED  ] 1 test." || echo "[  PASSED  ] $count tests."
"""
FAKE_TESTS = """#!/bin/sh
[ "$1" = --gtest_list_tests ] || exit 0
list() { echo "$1."; shift; for i; do echo "  is_right/$i  # GetParam() = 1"; done; }
p=ping_pong_64x64x64_s3_c1x1_bf16
list dense/sanitize_dense ${p}_scale_a_vector_a b_scale_a_block ${p}_direct_scale_a_vector_c ${p}_direct_separate_d ${p}_last_arriver_e
list strided/sanitize_dense ${p}_a_strided_a b c d e
list plain/sanitize_dense plain_32x32x64_w8_s3_c1x1_a plain_wgmma_16x32x64_w4_s3_c1x1_b plain_wgmma_32x32x64_w8_s3_c1x1_c d e
list narrow/sanitize_packed a b c d_gk_d e
list strip/sanitize_packed a b c d e
list wide/sanitize_packed a_int8_fp32_g32_a b c d e
list conv/sanitize_conv fprop_128x128_clusters_2x1_bias dgrad_64x64 dgrad_128x128_in_3_parts wgrad_128x128_clusters_1x2_5_parts
echo "norms."; echo "  of_random_shapes"
echo "pack."; echo "  random_sizes_are_the_references"
echo "all/quantize."
for g in tensor row row_block square_block; do echo "  of_random_shapes/$g  # GetParam() = 1"; done
echo "kernel/changes."
for c in CHANGES; do echo "  are_made_once_and_compile/$c"; done
"""


RACE = "========= Error: Race reported between Write access at store_shared+0x55d0\n=========     and Read access [576 hazards]\n"
TWO, NONE, GOOD = "========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)\n", "========= ERROR SUMMARY: 0 errors\n", "[  PASSED  ] 1 test.\n"
# Logs, and what they say: findings, passed, and the beginning of why.
LOGS = ((NONE + GOOD, 0, True, ""), (RACE + TWO + GOOD, 2, True, "Race reported between Write access"), (TWO + GOOD, 2, True, "it does not say what"),
        ("========= Invalid __global__ write of size 4 bytes\n========= ERROR SUMMARY: 160 errors\n" + GOOD, 160, True, "Invalid __global__ write"),
        ("========= Uninitialized __global__ memory read\n========= ERROR SUMMARY: 3 errors\n" + GOOD, 3, True, "Uninitialized"),
        ("========= Barrier error detected. Divergent thread(s)\n========= ERROR SUMMARY: 1 error\n" + GOOD, 1, True, "Barrier error"),
        (NONE + RACE + TWO + GOOD, 2, True, "Race"), (RACE, None, False, "the tool gave no count"), (NONE, 0, False, "no test passed"),
        (NONE + "x_test.cc:1: Failure\n[  FAILED  ] 1 test\n", 0, False, "x_test.cc:1: Failure"),
        (NONE + "[  SKIPPED ] 1 test\n[  PASSED  ] 0 tests.\n", 0, False, "[  SKIPPED ] 1 test"),
        (NONE + "[NOT JUDGED] 485 elements\n" + GOOD, 0, False, "[NOT JUDGED] 485 elements"))


def self_test():
    for text, findings, passed, why in LOGS:
        got = read_log(text)
        assert (got["findings"], got["passed"]) == (findings, passed) and got["why"].startswith(why) and bool(got["why"]) == bool(why), (text, got)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "tests").mkdir()
        for path, text in ((work / "tool", FAKE_TOOL),
                           (work / "tests/sluice_gpu_tests", FAKE_TESTS.replace("CHANGES", " ".join(p[1] for p in PLANTED)))):
            path.write_text(text)
            path.chmod(0o755)
        (work / "nvidia-smi").write_text("#!/bin/sh\necho Fake GPU\n")
        (work / "nvidia-smi").chmod(0o755)
        os.environ.update(PATH=f"{work}:{os.environ['PATH']}", FAKE_CALLS=str(work / "calls"), FAKE_MISSED="?", FAKE_BAD="?")
        assert not wrong_names(work / "tests/sluice_gpu_tests"), wrong_names(work / "tests/sluice_gpu_tests")

        def run(out, *more):
            (work / "calls").write_text("")
            code = main([str(work), str(work / out), "--sanitizer", str(work / "tool"), "--seconds", "100", *more])
            return code, (work / "calls").read_text().splitlines()

        def rows(out):
            return [json.loads(line) for line in result_files.text_of(work / out / "sanitize.jsonl").splitlines()]

        code, calls = run("clean")
        classes = 30 + 4 + 8 + 16 + 8
        assert code == 0 and len(rows("clean")) == len(PLANTED) + len(TOOLS) * classes, (code, len(rows("clean")))
        assert all(row["clean"] for row in rows("clean"))
        twice = {row["class"] for row in rows("clean") if row["shown"] == "sums_meet_twice"}
        assert twice == {"plain/sanitize_dense.is_right/plain_wgmma_32x32x64_w8_s3_c1x1_c"}, twice
        assert sum(1 for call in calls if call.startswith("memcheck")) < classes, "they share processes"
        assert run("clean") == (0, []), "what is known is not run again"
        races = sum(1 for tool, *_ in PLANTED if tool == "racecheck")
        # Expected number of processes: block and strided; conv and narrow; strip and wide, which share a
        # change; plain (two classes unchanged, one whose warps meet twice, two with dense); companions.
        groups = 2 + 3 + 3 + 1 + 1 + 2 + 8 + 16 + 8
        calls = run("clean", "--again", "--tools", "racecheck")[1]
        assert result_files.packed(work / "clean/sanitize.jsonl").exists() and run("clean") == (0, []), "a large file is compressed, and known"
        assert len(calls) == races + groups, (len(calls), races + groups)
        # One class of twenty is not clean and must be found.
        os.environ["FAKE_BAD"] = "strip/sanitize_packed.is_right/c"
        code, _ = run("bad", "--tools", "memcheck")
        wrong = [row["class"] for row in rows("bad") if not row["clean"]]
        assert code == 1 and wrong == ["strip/sanitize_packed.is_right/c"], (code, wrong)
        assert run("bad", "--tools", "memcheck") == (1, []), "what was not clean stays so"
        os.environ["FAKE_BAD"] = "?"
        os.environ["FAKE_MISSED"] = "d_stored_far_away"
        code, _ = run("missed", "--tools", "memcheck", "--only", "far_away")
        assert code == 1 and [row["class"] for row in rows("missed") if not row["clean"]] == ["d_stored_far_away"]
        # If time runs out, results so far are kept, and the next run does the rest.
        tests = work / "tests/sluice_gpu_tests"
        tests.write_text(tests.read_text().replace("a b c d_gk_d", "a a_slow b c d_gk_d"))
        code, _ = run("cut", "--tools", "racecheck", "--only", "narrow/", "--seconds", "8")
        assert code == 3 and len(rows("cut")) == 2, (code, rows("cut"))
        tests.write_text(tests.read_text().replace(" pack.", " packing."))
        tests.write_text(tests.read_text().replace('"pack."', '"gone."'))
        assert any("no such test" in one for one in wrong_names(tests)), "a test that is gone is named"
    print("gpu_sanitize: ok")


def main(arguments):
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build", type=pathlib.Path)
    options.add_argument("out")
    options.add_argument("--seconds", type=float, default=86400)
    options.add_argument("--jobs", type=int, default=8)
    options.add_argument("--tools", default=",".join(TOOLS))
    options.add_argument("--only", default="", help="of planted bugs and classes, those whose name holds it")
    options.add_argument("--again", action="store_true")
    options.add_argument("--sanitizer", default="")
    given = options.parse_args(arguments)
    given.build = given.build.resolve()
    return sanitize(given)


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test())
    if sys.argv[1:2] == ["--check"]:
        problems = wrong_names(pathlib.Path(sys.argv[2]).resolve() / "tests/sluice_gpu_tests")
        print("\n".join(problems) or "gpu_sanitize: names ok")
        sys.exit(bool(problems))
    sys.exit(main(sys.argv[1:]))
