#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs everything that needs a GPU, in sections (tools/certify_sections.py), and keeps the results in a
certificate.

    tools/certify.py                                      all sections; bench/results/GPU/certificate.json
    tools/certify.py --sections fuzz,packed --seconds 540 --out DIR
    tools/certify.py --gpus 4                             parts spread over four GPUs of one name
    tools/certify.py --quick --sections smoke,fuzz        fewer cases, for a first look (make test-gpu)
    tools/certify.py --check                              is every GPU test in a section? Needs no GPU
    tools/certify.py --names                              writes tests/gpu/names.json, which --check compares

A later run resumes: it reads DIR/certificate.json, or else the one in bench/results/GPU, and leaves out parts
that hold (decisions/0028). Findings stay, unless --again is given. A section is passed, wrong (a test failed,
crashed, hung, or nothing ran) or unfinished (time ran out: no verdict).

No compiler is needed: --build (or SLUICE_BUILD) is a folder with `sluice` and tests/sluice_gpu_tests, made
elsewhere from this very tree. Kernels come from SLUICE_CACHE_DIR (build/gpu_cache; CONTRIBUTING.md fills it); missing
ones are compiled.

Exit status: 0 all selected sections passed, 1 a finding, 2 nothing could run, 3 not all is done yet.
"""
import argparse
import dataclasses
import datetime
import json
import lzma
import os
import pathlib
import re
import secrets
import subprocess
import sys
import tempfile
import threading
import zipfile

import certify_keys
import certify_kernels
import certify_results
import result_files
import source_hash
from certify_keys import NAMES
from certify_run import FOUND, MORE, NOTHING, OK, PASSED, UNFINISHED, WRONG, Runner, row, tests_of
from certify_sections import ELSEWHERE, Part, Section, Setting, all_sections

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = "sluice-certificate-2"
COUNTS = ("tests", "cases", "elements", "not_judged")


class Refused(Exception):
    """Raised if nothing can run; the message states the reason and the remedy."""


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
        """Returns the GPU's folder in bench/results: "h200" for "NVIDIA H200", "h100" for "NVIDIA H100 80GB HBM3"."""
        found = re.search(r"\b(GH200|[A-Z]+\d+)", self.gpu)
        return (found[1] if found else re.sub(r"\W+", "_", self.gpu)).lower()


def look_around(build: pathlib.Path, logs: pathlib.Path, gpu: str | None = None) -> Machine:
    """Runs the test program to learn its machine and the sources that it was built from."""
    tests, told = tests_of(build), logs / f"identity_{gpu}.json"
    if not os.access(tests, os.X_OK):
        raise Refused(f"{tests} is not there: build it (`make build`), or name the folder that it was carried in (SLUICE_BUILD)")
    told.unlink(missing_ok=True)
    env = dict(os.environ) if gpu is None else os.environ | {"CUDA_VISIBLE_DEVICES": gpu}
    done = subprocess.run([tests, "--gtest_filter=identity.*", f"--gtest_output=json:{told}"], env=env, capture_output=True, text=True, timeout=120)
    if not told.exists():
        raise Refused(f"{tests} says nothing of itself (exit status {done.returncode}): {(done.stdout + done.stderr)[-500:]}")
    facts = certify_results.identity(told)
    if not facts["gpu"]:
        raise Refused(f"no GPU here: {facts['no_gpu'] or 'the test program names none'}" + (f" (CUDA_VISIBLE_DEVICES={gpu})" if gpu else ""))
    return Machine(facts["gpu"], facts["driver"], facts["nvrtc"], facts["built_commit"], source_hash.parsed(facts["built_sources"]))


def gpus_of(count: int) -> list[str | None]:
    """Returns the value of CUDA_VISIBLE_DEVICES per GPU of the run."""
    if count == 1:
        return [None]
    given = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
    if given and len(given) < count:
        raise Refused(f"--gpus {count} with CUDA_VISIBLE_DEVICES={','.join(given)}: name {count} of them there, or ask for {len(given)}")
    return (given or [str(i) for i in range(count)])[:count]


def one_name(build: pathlib.Path, logs: pathlib.Path, gpus: list[str | None]) -> Machine:
    """Returns the machine. Raises unless all GPUs have the same name, since a certificate is for one kind of GPU."""
    machines = {machine.gpu: machine for machine in (look_around(build, logs, gpu) for gpu in gpus)}
    if len(machines) > 1:
        raise Refused(f"the GPUs are {', '.join(machines)}: a certificate is of one kind; name equal ones in CUDA_VISIBLE_DEVICES")
    return machines.popitem()[1]


def same_tree(whose: str, sources: dict[str, str], parts: tuple[str, ...]) -> None:
    """Raises if a build was made from another tree, because the keys are hashes of this tree's files."""
    tree = source_hash.all_hashes(ROOT)
    if other := [part for part in parts if tree[part] != sources.get(part)]:
        raise Refused(f"{whose} is not of this tree, whose {', '.join(other)} differ: build it anew, or carry the tree that it was built from")


def of_wheel(wheels: pathlib.Path) -> tuple[str, dict[str, str]]:
    """Returns commit and sources of the wheel for the Python suite, as the tool in the wheel prints them."""
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
    """The JSON file of results. It is rewritten after each part, so that results survive the loss of the machine. A section's
    counts are sums over its parts."""

    def __init__(self, path: pathlib.Path, machine: Machine, older: pathlib.Path):
        self.path, self.machine, self.lock = path, machine, threading.Lock()
        self.commits: dict[str, str] = {}
        self.keys: dict[tuple[str, str], dict[str, str]] = {}
        start = next((p for p in (path, older) if p.exists()), None)
        self.data = json.loads(start.read_text()) if start else {}
        if self.data and (self.data.get("schema") != SCHEMA or self.data.get("gpu") != machine.gpu):
            raise Refused(f"{start} is of {self.data.get('gpu')!r}, schema {self.data.get('schema')!r}, and this is {machine.gpu!r}: give another --out")
        self.data = {"schema": SCHEMA, "gpu": machine.gpu, "sections": self.data.get("sections", {})}

    def commit(self, section: Section) -> str:
        return self.commits.get(section.name, self.machine.commit)

    def entry(self, section: Section) -> dict:
        return self.data["sections"][section.name]

    def begin(self, section: Section, seed: int | None, holding: set[str]) -> None:
        """Begins a section. Parts that hold are kept; new parts use the same seed for random cases."""
        kept = self.data["sections"].get(section.name, {})
        parts = {name: part for name, part in kept.get("parts", {}).items() if name in holding}
        fresh = (secrets.randbits(31) if seed is None else seed) if section.seeded else None
        self.data["sections"][section.name] = {"what": section.what, "verdict": UNFINISHED, "seed": kept["seed"] if parts else fresh,
                                               "of": len(section.parts), "parts": parts}
        self.sum_up(self.entry(section))

    def take(self, section: Section, part: Part, result: certify_results.Result) -> None:
        entry = self.entry(section)
        entry["parts"][part.name] = {
            **{key: getattr(result, key) for key in (*COUNTS, "kernels", "seconds", "skipped", "found", "facts")}, "commit": self.commit(section),
            "keys": self.keys[section.name, part.name], "driver": self.machine.driver, "nvrtc": self.machine.nvrtc, "ended": now()}
        self.sum_up(entry)
        self.write()

    @staticmethod
    def sum_up(entry: dict) -> None:
        parts = entry["parts"]
        entry |= {key: sum(part.get(key, 0) for part in parts.values()) for key in COUNTS}
        entry["seconds"] = round(sum(part["seconds"] for part in parts.values()), 1)
        entry["kernels"] = max((part["kernels"] for part in parts.values()), default=0)
        entry["skipped"] = sorted({name for part in parts.values() for name in part["skipped"]})
        entry["found"] = [f"{name}: {what}" for name, part in parts.items() for what in part["found"]]
        entry["facts"] = {key: value for part in parts.values() for key, value in part["facts"].items()}
        entry["verdict"] = WRONG if entry["found"] else PASSED if len(parts) == entry["of"] else UNFINISHED

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self.path.with_suffix(".tmp")
        scratch.write_text(json.dumps(self.data, indent=1) + "\n")
        scratch.replace(self.path)


def holding(section: Section, certificate: Certificate, kernels: certify_kernels.Kernels, states: list[str]) -> set[str]:
    """Returns the names of the section's parts whose results hold for this tree."""
    kept = certificate.data["sections"].get(section.name, {}).get("parts", {})
    return {part.name for part in section.parts
            if part.name in kept and not certify_keys.changed(kept[part.name]["keys"], certificate.keys[section.name, part.name])
            and not kernels.differing(f"{section.name}/{part.name}", states)}


def compile_ahead(build: pathlib.Path) -> None:
    """Compiles the kernels of the random problems into the cache, on all cores. With several GPUs this is
    faster than compiling within the tests."""
    try:
        subprocess.run([tests_of(build), "--gtest_filter=pool.compiles_into_the_cache"], stdout=subprocess.DEVNULL, timeout=300)
    except subprocess.TimeoutExpired:
        print("kernels were not all compiled ahead: tests compile the rest", flush=True)


def certify(arguments: argparse.Namespace) -> int:
    build = arguments.build.resolve()
    scratch = (arguments.out or build / "gpu_results").resolve()
    logs = scratch / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    chosen(arguments.sections, Setting(build, logs))
    # An absolute path, because parts run in ROOT.
    cache = pathlib.Path(os.environ.get("SLUICE_CACHE_DIR") or ROOT / "build/gpu_cache").resolve()
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ["SLUICE_CACHE_DIR"] = str(cache)
    gpus = gpus_of(arguments.gpus)
    machine = one_name(build, logs, gpus)
    same_tree(str(build), machine.sources, ("kernels", "host", "records", "tests"))
    names = certify_keys.read_names(ROOT)
    if troubles := wrong_names(build, logs / "names"):
        raise Refused(troubles)
    kept = ROOT / "bench/results" / machine.folder() / "certificate.json"
    target = arguments.out.resolve() / "certificate.json" if arguments.out else scratch / "certificate.json" if arguments.quick else kept
    certificate = Certificate(target, machine, target if arguments.quick else kept)
    setting = Setting(build, logs, target.parent, arguments.wheels.resolve() if arguments.wheels else None, arguments.quick)
    target.parent.mkdir(parents=True, exist_ok=True)
    bring(kept.parent / "sanitize.jsonl", target.parent / "sanitize.jsonl")
    kernels = certify_kernels.Kernels(target.parent / certify_kernels.FILE, *(() if arguments.quick else (kept.parent / certify_kernels.FILE,)))
    runner = Runner(arguments, setting, certificate, kernels, gpus)
    states, wanted, tasks, unable = kernels.states(runner.texts), chosen(arguments.sections, setting), [], 0
    print(f"{len(gpus)} x {machine.gpu}, driver {machine.driver}, NVRTC {machine.nvrtc}, commit {machine.commit[:7] or 'unknown'}", flush=True)
    for section in wanted:
        try:
            if section.reads == "junit":
                certificate.commits[section.name], sources = of_wheel(setting.wheels or setting.build / "wheels")
                same_tree("the wheel", sources, ("kernels", "host", "records", "python"))
        except Refused as why:
            print(f"{section.name:<14} not run: {why}", flush=True)
            unable += 1
            continue
        for part in section.parts:
            certificate.keys[section.name, part.name] = certify_keys.keys_of(ROOT, section, part, names)
        certificate.begin(section, arguments.seed, set() if arguments.again else holding(section, certificate, kernels, states))
        missing = [(section, part) for part in section.parts if part.name not in certificate.entry(section)["parts"]]
        if not missing:
            print(row(section.name, certificate.entry(section)), flush=True)
        tasks += missing
    certificate.write()
    if tasks and len(gpus) > 1:
        compile_ahead(build)
    runner.run(tasks)
    kernels.write(9 | lzma.PRESET_EXTREME)
    verdicts = {entry["verdict"] for section in wanted if (entry := certificate.data["sections"].get(section.name))}
    print(f"written: {target}", flush=True)
    return FOUND if WRONG in verdicts else MORE if UNFINISHED in verdicts or unable else OK


def bring(kept: pathlib.Path, target: pathlib.Path) -> None:
    """Copies the file from which the sanitizers' tool resumes; it is kept in the certificate's folder."""
    text = result_files.text_of(kept)
    if text is not None and result_files.text_of(target) is None:
        result_files.write(target, text)


def chosen(names: str, setting: Setting) -> list[Section]:
    known = {section.name: section for section in all_sections(setting)}
    words = [word for word in re.split(r"[ ,]+", names) if word] or list(known)
    if unknown := [word for word in words if word not in known]:
        raise Refused(f"no section is called {', '.join(unknown)}: they are {', '.join(known)}")
    return [known[word] for word in words]


def text_of_names(build: pathlib.Path, told: pathlib.Path) -> str:
    return json.dumps(certify_keys.names_of(tests_of(build), all_sections(Setting(build, build)), told), indent=1) + "\n"


def wrong_names(build: pathlib.Path, told: pathlib.Path) -> str:
    """Returns "" if tests/gpu/names.json lists the tests of this program, else what is wrong."""
    kept, made = certify_keys.read_names(ROOT), json.loads(text_of_names(build, told))
    other = [words for words in sorted(kept.keys() | made.keys()) if kept.get(words) != made.get(words)]
    return f"{NAMES} differs from {tests_of(build)} in {', '.join(other)}: tools/certify.py --names --build {build}" if other else ""


def check(build: pathlib.Path) -> int:
    """Checks that each test of sluice_gpu_tests is in a section, that each filter matches a test, and that
    the list of names is up to date."""
    def listed(words: str) -> list[str]:
        done = subprocess.run([tests_of(build), "--gtest_list_tests", f"--gtest_filter={words}"], capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if line.startswith("  ")]

    filters = [part.filter for section in all_sections(Setting(build, build)) for part in section.parts if part.filter]
    filters = list(dict.fromkeys(filters))
    troubles = [f"{one} matches no test" for words in filters for one in words.split("-")[0].split(":") if not listed(one)]
    # A part may exclude tests that another part runs. A test that no positive pattern matches is in no
    # section.
    every = ":".join([ELSEWHERE, *(words.split("-")[0] for words in filters)])
    troubles += [f"in no section of tools/certify_sections.py: {name.strip()}" for name in listed(f"*-{every}")]
    with tempfile.TemporaryDirectory() as folder:
        troubles += [why] if (why := wrong_names(build, pathlib.Path(folder) / "names.json")) else []
    print("\n".join(troubles), end="\n" if troubles else "")
    return FOUND if troubles else OK


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", default="", help="names with commas between them (all)")
    parser.add_argument("--seconds", type=float, default=86_400, help="stop then, and go on in the next run")
    parser.add_argument("--out", type=pathlib.Path, help="folder of certificate.json and logs")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(os.environ.get("SLUICE_BUILD", "build/release")))
    parser.add_argument("--wheels", type=pathlib.Path, help="of the Python suite (BUILD/wheels)")
    parser.add_argument("--gpus", type=int, default=1, choices=range(1, 17), metavar="N", help="GPUs of this host to spread parts over (1)")
    parser.add_argument("--seed", type=int, help="of random problems; a fresh one unless given")
    parser.add_argument("--quick", action="store_true", help="fewer cases; never into bench/results")
    parser.add_argument("--again", action="store_true", help="run parts that are done once more")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--names", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        import certify_self_test
        return certify_self_test.run()
    if arguments.names:
        with tempfile.TemporaryDirectory() as folder:
            (ROOT / NAMES).write_text(text_of_names(arguments.build.resolve(), pathlib.Path(folder) / "names.json"))
        return OK
    try:
        return check(arguments.build) if arguments.check else certify(arguments)
    except Refused as why:
        print(f"certify: {why}", file=sys.stderr)
        return NOTHING


if __name__ == "__main__":
    sys.exit(main())
