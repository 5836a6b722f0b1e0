#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs everything that needs a GPU, in sections (tools/certify_sections.py), and keeps the results in a
certificate.

    tools/certify.py                                      all sections; bench/results/GPU/certificate.json
    tools/certify.py --sections fuzz,packed --seconds 540 --out DIR
    tools/certify.py --quick --sections smoke,fuzz        fewer cases, for a first look (make test-gpu)
    tools/certify.py --check                              is every GPU test in a section? Needs no GPU

A later run resumes: it reads DIR/certificate.json, or else the one in bench/results/GPU, and leaves out parts
that are done. A section holds while its sources are the same (by the hashes of the build that ran); else it
starts again. Findings stay, unless --again is given.

Sections that may share the GPU run together, after the others. A section is passed, wrong (a test failed,
crashed, hung, or nothing ran) or unfinished (time ran out: no verdict).

No compiler is needed: --build (or SLUICE_BUILD) is a folder with `sluice` and tests/sluice_gpu_tests, made
elsewhere. Kernels come from SLUICE_CACHE_DIR (build/gpu_cache, tools/gpu_pool.sh); missing ones are compiled.

Exit status: 0 all selected sections passed, 1 a finding, 2 nothing could run, 3 not all is done yet.
"""
import argparse
import concurrent.futures
import dataclasses
import datetime
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

import certify_results
import source_hash
from certify_sections import ELSEWHERE, Part, Section, Setting, all_sections, python_folder

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = "sluice-certificate-1"
PASSED, WRONG, UNFINISHED = "passed", "wrong", "unfinished"
OK, FOUND, NOTHING, MORE = 0, 1, 2, 3
IMPOSSIBLE = 77  # the part needs something that this machine lacks


class Refused(Exception):
    """Nothing can run; the message says why, and the remedy."""


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclasses.dataclass
class Machine:
    gpu: str
    driver: str
    nvrtc: str
    commit: str
    sources: dict[str, str]

    def folder(self) -> str:
        """The folder in bench/results: "h200" of "NVIDIA H200", "h100" of "NVIDIA H100 80GB HBM3"."""
        found = re.search(r"\b(GH200|[A-Z]+\d+)", self.gpu)
        return (found[1] if found else re.sub(r"\W+", "_", self.gpu)).lower()


def tests_of(build: pathlib.Path) -> pathlib.Path:
    return build / "tests/sluice_gpu_tests"


def look_around(build: pathlib.Path, logs: pathlib.Path) -> Machine:
    """Asks the test program for its machine and its sources."""
    tests, told = tests_of(build), logs / "identity.json"
    if not os.access(tests, os.X_OK):
        raise Refused(f"{tests} is not there: build it (`make build`), or name the folder that it was carried in (SLUICE_BUILD)")
    told.unlink(missing_ok=True)
    done = subprocess.run([tests, "--gtest_filter=identity.*", f"--gtest_output=json:{told}"], capture_output=True, text=True, timeout=120)
    if not told.exists():
        raise Refused(f"{tests} says nothing of itself (exit status {done.returncode}): {(done.stdout + done.stderr)[-500:]}")
    facts = certify_results.identity(told)
    if not facts["gpu"]:
        raise Refused(f"no GPU here: {facts['no_gpu'] or 'the test program names none'}")
    return Machine(facts["gpu"], facts["driver"], facts["nvrtc"], facts["built_commit"], source_hash.parsed(facts["built_sources"]))


def of_wheel(wheels: pathlib.Path) -> tuple[str, dict[str, str]]:
    """Commit and sources of the wheel for the Python suite, from the tool inside."""
    for wheel in sorted(wheels.glob("sluice_gemm-*.whl")):
        with zipfile.ZipFile(wheel) as files:
            name = next((n for n in files.namelist() if n.endswith("bin/sluice")), None)
            if name is None:
                continue
            with tempfile.TemporaryDirectory() as folder:
                tool = pathlib.Path(folder) / "sluice"
                tool.write_bytes(files.read(name))
                tool.chmod(0o700)
                said = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=60).stdout
            commit = re.search(r"\(([0-9a-f]+(?:-dirty)?)\)", said)
            return commit[1] if commit else "", source_hash.parsed(said)
    raise Refused(f"no wheel of sluice in {wheels}: `make python` makes one, --wheels names the folder")


class Certificate:
    """The JSON file, rewritten after each part, so that a lost machine has left its results."""

    def __init__(self, path: pathlib.Path, machine: Machine, older: pathlib.Path):
        self.path, self.lock = path, threading.Lock()
        start = next((p for p in (path, older) if p.exists()), None)
        self.data = json.loads(start.read_text()) if start else {}
        if self.data and (self.data.get("schema") != SCHEMA or self.data.get("gpu") != machine.gpu):
            raise Refused(f"{start} is of {self.data.get('gpu')!r}, schema {self.data.get('schema')!r}, and this is {machine.gpu!r}: give another --out")
        self.data = {"schema": SCHEMA, "gpu": machine.gpu, "driver": machine.driver, "nvrtc": machine.nvrtc,
                     "commit": machine.commit, "sections": self.data.get("sections", {})}

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self.path.with_suffix(".tmp")
        scratch.write_text(json.dumps(self.data, indent=1) + "\n")
        scratch.replace(self.path)


def begin(section: Section, machine: Machine, seed: int | None) -> dict:
    return {"what": section.what, "verdict": UNFINISHED, "cases": 0, "tests": 0, "kernels": 0, "elements": 0, "seconds": 0.0,
            "seed": (secrets.randbits(31) if seed is None else seed) if section.seeded else None, "skipped": [], "found": [],
            "facts": {}, "parts": {}, "of": len(section.parts), "started": now(), "ended": "", "commit": machine.commit,
            "sources": {part: machine.sources.get(part, "") for part in section.of}, "driver": machine.driver, "nvrtc": machine.nvrtc}


def holds(entry: dict, section: Section, machine: Machine) -> bool:
    """Whether the entry is of this run's sources and parts; it names those of each part. Another driver voids
    nothing, because kernels are machine code."""
    return (entry.get("sources") == {part: machine.sources.get(part, "") for part in section.of}
            and entry["parts"].keys() <= {part.name for part in section.parts}
            and entry.get("of") == len(section.parts))


def environment(part: Part, seed: int | None) -> dict[str, str]:
    env = dict(os.environ)
    for key, value in part.env:
        if "{seed}" in value:
            value = str(sum(int(word) for word in value.format(seed=seed).split("+")))
        env[key] = value
    return env


class Runner:
    def __init__(self, arguments: argparse.Namespace, setting: Setting, machine: Machine, certificate: Certificate):
        self.setting, self.machine, self.certificate = setting, machine, certificate
        self.again, self.seed = arguments.again, arguments.seed
        self.ends = time.monotonic() + arguments.seconds
        self.loud = sys.stdout.isatty()

    def left(self) -> float:
        return self.ends - time.monotonic()

    def command(self, part: Part, told: pathlib.Path) -> list[str]:
        if part.filter:
            return [str(tests_of(self.setting.build)), f"--gtest_filter={part.filter}", f"--gtest_output=json:{told}"]
        seconds = max(5, int(min(part.limit, self.left())) - 15)
        return [word.format(seconds=seconds) for word in part.command]

    def same_commits(self, section: Section) -> frozenset[str]:
        """Commits in the certificate whose sources, as far as the section depends on them, are this run's."""
        return certify_results.commits_of(self.certificate.data, {part: self.machine.sources.get(part, "") for part in section.of})

    def run_part(self, section: Section, part: Part, seed: int | None) -> certify_results.Result | None:
        """Returns None if time ran out, which is no result."""
        name = re.sub(r"\W+", "_", f"{section.name}_{part.name}")
        log, told = self.setting.logs / f"{name}.log", self.setting.logs / f"{name}.json"
        told.unlink(missing_ok=True)
        start, limit = time.monotonic(), min(part.limit, self.left())
        with open(log, "w") as out:
            process = subprocess.Popen(self.command(part, told), cwd=ROOT, env=environment(part, seed) | {"SLUICE_COMMIT": self.machine.commit, "SLUICE_SAME_COMMITS": " ".join(sorted(self.same_commits(section)))}, stdout=out,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            try:
                code = process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                end_group(process)
                code = None
        text = log.read_text(errors="replace")
        seconds = round(time.monotonic() - start, 1)
        if code == IMPOSSIBLE:
            print(f"{section.name}, {part.name}: not possible here: {text.strip()[-300:]}", flush=True)
        if code in (IMPOSSIBLE, MORE) and "{seconds}" in " ".join(part.command) or code is None and limit < part.limit:
            return None
        if code is None:
            result = certify_results.Result()
            result.add(f"no end within {part.limit} s: {certify_results.last_test(text) or part.name} hangs, or is slow")
        else:
            result = certify_results.judged(self.read(section, part, told, text), code)
        result.seconds = seconds
        if section.name == "fuzz" and result.found and re.search(r"HANG|driver:", text):
            result.add(self.culprit(part, seed, log))
        if result.found:
            print(f"--- {section.name}, {part.name}: the end of {log}\n" + "\n".join(text.splitlines()[-15:]), flush=True)
        return result

    def culprit(self, part: Part, seed: int | None, log: pathlib.Path) -> str:
        """Finds the problem on which a batch hung or failed in the driver, by running the batch one by
        one."""
        told, env = log.with_suffix(".culprit.json"), environment(part, seed) | {"SLUICE_TEST_BATCH": "1"}
        if self.left() < 30:
            return "SLUICE_TEST_BATCH=1 says which problem it is: there was no time left"
        try:
            done = subprocess.run(self.command(part, told), cwd=ROOT, env=env, capture_output=True, text=True, errors="replace",
                                  timeout=min(part.limit, self.left()))
        except subprocess.TimeoutExpired as cut:
            return f"one by one it had no end either: {str(cut.stdout or '')[-500:]}"
        return f"one by one: exit status {done.returncode}, {done.stdout[-800:]}"

    def read(self, section: Section, part: Part, told: pathlib.Path, text: str) -> certify_results.Result:
        logs, lines = self.setting.logs, self.setting.kept / "sanitize.jsonl"
        return {"gtest": lambda: certify_results.from_gtest(told, text),
                "junit": lambda: certify_results.from_junit(python_folder(self.setting, part.name)),
                "records": lambda: certify_results.from_records(logs / "records.json"),
                "rows": lambda: certify_results.from_rows(logs / "rows.json"),
                "sanitizer": lambda: certify_results.from_sanitizer(lines, part.name, certify_results.build_of(tests_of(self.setting.build)), self.same_commits(section))}[section.reads]()

    def take(self, entry: dict, part: Part, result: certify_results.Result) -> None:
        with self.certificate.lock:
            entry["parts"][part.name] = {"tests": result.tests, "cases": result.cases, "seconds": result.seconds, "found": len(result.found)}
            for key in ("tests", "cases", "elements"):
                entry[key] += getattr(result, key)
            entry["kernels"] = max(entry["kernels"], result.kernels)
            entry["seconds"] = round(entry["seconds"] + result.seconds, 1)
            entry["skipped"] = sorted({*entry["skipped"], *result.skipped})
            entry["found"] += [f"{part.name}: {what}" for what in result.found]
            entry["facts"] |= result.facts
            entry["ended"] = now()
            for key, told in (("driver", self.machine.driver), ("nvrtc", self.machine.nvrtc)):
                if told not in entry[key].split(", "):
                    entry[key] += f", {told}"
            entry["verdict"] = WRONG if entry["found"] else PASSED if len(entry["parts"]) == entry["of"] else UNFINISHED
            self.certificate.write()

    def run(self, section: Section) -> dict:
        machine, sections = self.machine, self.certificate.data["sections"]
        if section.reads == "junit":
            commit, sources = of_wheel(self.setting.wheels or self.setting.build / "wheels")
            machine = dataclasses.replace(machine, commit=commit, sources=sources)
        entry = sections.get(section.name)
        if self.again or entry is None or not holds(entry, section, machine):
            with self.certificate.lock:
                entry = sections[section.name] = begin(section, machine, self.seed)
        missing = [part for part in section.parts if part.name not in entry["parts"]]
        with concurrent.futures.ThreadPoolExecutor(section.jobs) as pool:
            list(pool.map(lambda part: self.one(section, part, entry), missing))
        with self.certificate.lock:
            self.certificate.write()
        return entry

    def told(self, section: Section) -> dict:
        """Runs a section and prints its line."""
        try:
            entry, line = self.run(section), ""
        except Refused as why:
            entry, line = {"verdict": UNFINISHED}, f"{section.name:<14} not run: {why}"
        print(("\r\x1b[K" if self.loud else "") + (line or row(section.name, entry)), flush=True)
        return entry

    def one(self, section: Section, part: Part, entry: dict) -> None:
        if self.left() < part.typical:
            return
        if self.loud:
            print(f"\r{section.name}: {part.name}, {len(entry['parts'])} of {entry['of']} done, {self.left():.0f} s left \x1b[K", end="", flush=True)
        if result := self.run_part(section, part, entry["seed"]):
            self.take(entry, part, result)


def end_group(process: subprocess.Popen) -> None:
    """Ends a part and the processes that it started."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            continue


def row(name: str, entry: dict) -> str:
    counts = f"{entry['cases']:>8} cases {entry['tests']:>4} tests {entry['kernels']:>5} kernels {entry['seconds']:>7.1f} s"
    end = {PASSED: "passed", WRONG: f"WRONG: {len(entry['found'])} found", UNFINISHED: f"unfinished, {len(entry['parts'])} of {entry['of']} parts"}[entry["verdict"]]
    skipped = f", {len(entry['skipped'])} skipped" if entry["skipped"] else ""
    return f"{name:<14} {counts}  {end}{skipped}"


def certify(arguments: argparse.Namespace) -> int:
    build = arguments.build.resolve()
    scratch = (arguments.out or build / "gpu_results").resolve()
    logs = scratch / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    chosen(arguments.sections, Setting(build, logs))
    cache = pathlib.Path(os.environ.get("SLUICE_CACHE_DIR") or ROOT / "build/gpu_cache").resolve()  # parts run in ROOT
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ["SLUICE_CACHE_DIR"] = str(cache)
    machine = look_around(build, logs)
    kept = ROOT / "bench/results" / machine.folder() / "certificate.json"
    target = arguments.out.resolve() / "certificate.json" if arguments.out else scratch / "certificate.json" if arguments.quick else kept
    certificate = Certificate(target, machine, target if arguments.quick else kept)
    setting = Setting(build, logs, target.parent, arguments.wheels.resolve() if arguments.wheels else None, arguments.quick)
    bring(kept.parent / "sanitize.jsonl", target.parent)
    wanted = chosen(arguments.sections, setting)
    runner = Runner(arguments, setting, machine, certificate)
    print(f"{machine.gpu}, driver {machine.driver}, NVRTC {machine.nvrtc}, commit {machine.commit[:7] or 'unknown'}, kernels {machine.sources.get('kernels')}", flush=True)
    shared = [section for section in wanted if section.shares]
    entries = [runner.told(section) for section in wanted if not section.shares]
    with concurrent.futures.ThreadPoolExecutor(max(1, len(shared))) as pool:
        entries += pool.map(runner.told, shared)
    verdicts = {entry["verdict"] for entry in entries}
    print(f"written: {target}", flush=True)
    return FOUND if WRONG in verdicts else MORE if UNFINISHED in verdicts else OK


def bring(kept: pathlib.Path, folder: pathlib.Path) -> None:
    """Copies the file from which the sanitizers' tool resumes, kept beside the certificate."""
    if kept.exists() and not (folder / kept.name).exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(kept, folder)


def chosen(names: str, setting: Setting) -> list[Section]:
    known = {section.name: section for section in all_sections(setting)}
    words = [word for word in re.split(r"[ ,]+", names) if word] or list(known)
    if unknown := [word for word in words if word not in known]:
        raise Refused(f"no section is called {', '.join(unknown)}: they are {', '.join(known)}")
    return [known[word] for word in words]


def check(build: pathlib.Path) -> int:
    """Checks that each test of sluice_gpu_tests is in a section, and that each filter matches one."""
    def listed(words: str) -> list[str]:
        done = subprocess.run([tests_of(build), "--gtest_list_tests", f"--gtest_filter={words}"], capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if line.startswith("  ")]

    filters = [part.filter for section in all_sections(Setting(build, build)) for part in section.parts if part.filter]
    filters = list(dict.fromkeys(filters))
    troubles = [f"{one} matches no test" for words in filters for one in words.split("-")[0].split(":") if not listed(one)]
    # A part may exclude tests that another part runs; a test that no positive pattern matches is in none.
    every = ":".join([ELSEWHERE, *(words.split("-")[0] for words in filters)])
    troubles += [f"in no section of tools/certify_sections.py: {name.strip()}" for name in listed(f"*-{every}")]
    print("\n".join(troubles), end="\n" if troubles else "")
    return FOUND if troubles else OK


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", default="", help="names with commas between them (all)")
    parser.add_argument("--seconds", type=float, default=86_400, help="stop then, and go on in the next run")
    parser.add_argument("--out", type=pathlib.Path, help="folder of certificate.json and logs")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(os.environ.get("SLUICE_BUILD", "build/release")))
    parser.add_argument("--wheels", type=pathlib.Path, help="of the Python suite (BUILD/wheels)")
    parser.add_argument("--seed", type=int, help="of random problems; a fresh one unless given")
    parser.add_argument("--quick", action="store_true", help="fewer cases; never into bench/results")
    parser.add_argument("--again", action="store_true", help="run parts that are done once more")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        import certify_self_test
        return certify_self_test.run()
    try:
        return check(arguments.build) if arguments.check else certify(arguments)
    except Refused as why:
        print(f"certify: {why}", file=sys.stderr)
        return NOTHING


if __name__ == "__main__":
    sys.exit(main())
