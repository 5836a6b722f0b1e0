# SPDX-License-Identifier: Apache-2.0
"""Runs the parts of a certificate's sections, on one or several GPUs of one host, and collects their results.
Used by certify.py. A part is a process of its own. Parts that time the host run first, one at a time. Then
parts that need a whole GPU run, one per GPU at a time. Parts that share a GPU follow, at the same time as a
part that uses all GPUs itself.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import certify_results
from certify_keys import ROOT
from certify_kernels import Kernels, Texts
from certify_sections import Part, Section, Setting, python_folder

PASSED, WRONG, UNFINISHED = "passed", "wrong", "unfinished"
OK, FOUND, NOTHING, MORE = 0, 1, 2, 3
IMPOSSIBLE = 77  # exit status: the part needs something that this machine lacks
Task = tuple[Section, Part]


def tests_of(build: pathlib.Path) -> pathlib.Path:
    return build / "tests/sluice_gpu_tests"


def shared_slots(gpus: int) -> int:
    """Returns the number of parts that run on a GPU at the same time. Most of their time is host work."""
    return min(12, max(4, (os.cpu_count() or 1) // (2 * gpus)))


def environment(part: Part, seed: int | None) -> dict[str, str]:
    env = dict(os.environ)
    for key, value in part.env:
        if "{seed}" in value:
            value = str(sum(int(word) for word in value.format(seed=seed).split("+")))
        env[key] = value
    return env


def end_group(process: subprocess.Popen) -> None:
    """Kills a part and the processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def row(name: str, entry: dict) -> str:
    counts = f"{entry['cases']:>8} cases {entry['tests']:>4} tests {entry['kernels']:>5} kernels {entry['seconds']:>7.1f} s"
    end = {PASSED: "passed", WRONG: f"WRONG: {len(entry['found'])} found", UNFINISHED: f"unfinished, {len(entry['parts'])} of {entry['of']} parts"}[entry["verdict"]]
    skipped = f", {len(entry['skipped'])} skipped" if entry["skipped"] else ""
    return f"{name:<14} {counts}  {end}{skipped}"


class Runner:
    """Runs the parts of sections, one per GPU at a time, and puts their results into the certificate. `gpus` are
    values of CUDA_VISIBLE_DEVICES; None leaves the variable unchanged."""

    def __init__(self, arguments: argparse.Namespace, setting: Setting, certificate, kernels: Kernels, gpus: list[str | None]):
        self.setting, self.certificate, self.kernels, self.gpus = setting, certificate, kernels, gpus
        self.texts, self.cache = Texts(ROOT), pathlib.Path(os.environ["SLUICE_CACHE_DIR"])
        self.ends = time.monotonic() + arguments.seconds
        self.loud = sys.stdout.isatty()
        self.name = certify_results.build_of(tests_of(setting.build))

    def left(self) -> float:
        return self.ends - time.monotonic()

    def log_of(self, section: Section, part: Part, end: str) -> pathlib.Path:
        name = re.sub(r"\W+", "_", f"{section.name}_{part.name}")
        return self.setting.logs / f"{name}.{end}"

    def command(self, part: Part, told: pathlib.Path) -> list[str]:
        if part.filter:
            return [str(tests_of(self.setting.build)), f"--gtest_filter={part.filter}", f"--gtest_output=json:{told}"]
        seconds = max(5, int(min(part.limit, self.left())) - 15)
        return [word.format(seconds=seconds) for word in part.command]

    def where(self, section: Section, gpu: str | None) -> dict[str, str]:
        if gpu is None:
            return {}
        return {"SLUICE_GPUS": ",".join(map(str, self.gpus)), "CUDA_VISIBLE_DEVICES": gpu} if section.spreads else {"CUDA_VISIBLE_DEVICES": gpu}

    def run_part(self, section: Section, part: Part, seed: int | None, gpu: str | None) -> certify_results.Result | None:
        """Runs a part. Returns None if time ran out, in which case there is no result."""
        log, told, kernels = (self.log_of(section, part, end) for end in ("log", "json", "kernels"))
        told.unlink(missing_ok=True)
        kernels.unlink(missing_ok=True)
        env = environment(part, seed) | self.where(section, gpu) | {"SLUICE_COMMIT": self.certificate.commit(section), "SLUICE_KERNEL_LOG": str(kernels)}
        start, limit = time.monotonic(), min(part.limit, self.left())
        with open(log, "w") as out:
            process = subprocess.Popen(self.command(part, told), cwd=ROOT, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
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
        if result.found:
            print(f"--- {section.name}, {part.name}: the end of {log}\n" + "\n".join(text.splitlines()[-15:]), flush=True)
        return result

    def read(self, section: Section, part: Part, told: pathlib.Path, text: str) -> certify_results.Result:
        logs, lines = self.setting.logs, self.setting.kept / "sanitize.jsonl"
        return {"gtest": lambda: certify_results.from_gtest(told, text),
                "junit": lambda: certify_results.from_junit(python_folder(self.setting, part.name)),
                "records": lambda: certify_results.from_records(logs / "records.json"),
                "rows": lambda: certify_results.from_rows(logs / "rows.json"),
                "sanitizer": lambda: certify_results.from_sanitizer(lines, part.name, self.name)}[section.reads]()

    def one(self, task: Task, gpu: str | None) -> None:
        section, part = task
        if self.left() >= part.typical:
            seed = self.certificate.entry(section)["seed"]
            if self.loud:
                print(f"\r{section.name}: {part.name}, {self.left():.0f} s left \x1b[K", end="", flush=True)
            result = self.run_part(section, part, seed, gpu)
            with self.certificate.lock:
                self.kernels.take(f"{section.name}/{part.name}", self.log_of(section, part, "kernels"), self.cache, self.texts, self.name, result is not None)
                self.kernels.write()
                if result:
                    if result.kernels and not self.kernels.parts[f"{section.name}/{part.name}"]:
                        result.add("no kernel was logged: this library does not know SLUICE_KERNEL_LOG, or cannot write it")
                    self.certificate.take(section, part, result)
        with self.certificate.lock:
            self.open[section.name] -= 1
            if self.open[section.name] == 0:
                print(("\r\x1b[K" if self.loud else "") + row(section.name, self.certificate.entry(section)), flush=True)

    def drain(self, *queues: tuple[list[Task], list[str | None]]) -> None:
        """Runs the tasks of all queues. A queue's places are GPUs; each place runs one task at a time."""
        def work(tasks: collections.deque, gpu: str | None) -> None:
            while True:
                try:
                    task = tasks.popleft()
                except IndexError:
                    return
                self.one(task, gpu)

        with concurrent.futures.ThreadPoolExecutor(sum(len(places) for _, places in queues)) as threads:
            shared = [(collections.deque(tasks), places) for tasks, places in queues]
            for future in [threads.submit(work, tasks, gpu) for tasks, places in shared for gpu in places]:
                future.result()

    def run(self, tasks: list[Task]) -> None:
        self.open = collections.Counter(section.name for section, _ in tasks)
        order = sorted(tasks, key=lambda task: -task[1].typical)
        first, slots = self.gpus[:1], self.gpus * shared_slots(len(self.gpus))
        self.drain(([task for task in order if task[0].times], first))
        self.drain(([task for task in order if not task[0].shares and not task[0].times], self.gpus))
        self.drain(([task for task in order if task[0].shares and not task[0].spreads], slots), ([task for task in order if task[0].spreads], first))
