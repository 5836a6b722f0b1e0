#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the built tool with command lines that no user would type, and reports what is wrong with its answers.

    tests/hostile/commands.py build/debug/sluice --count 2000

Verbs and flags are read from the tool's own --help, so that new flags are included. A command line is drawn
from a seed. It has valid words of which some are damaged, random flags, random bytes, broken files, or a
stdout that is closed or full. Every run must end in time, below 1 GB, with a documented exit code, without a
sanitizer's report, and with output that is valid UTF-8 without control characters. `--self-test` plants a
tool that does each of these wrong.
"""
import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CODES = {0, 1, 2}  # cli/exit_code.h
REPORT_CODE = 99  # exit code of a sanitizer that found something
REPORTS = (b"AddressSanitizer", b"LeakSanitizer", b"runtime error:", b"terminate called", b"Assertion", b"bug of sluice")
MOST_STDERR = 40_000
UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Paths of the machine are given only to flags that read, because a flag that writes would replace the file of
# that name.
READS = {"--shapes", "--codes", "--scales", "--zeros", "--cublaslt", "--nvrtc", "files"}
# Values of flags that would request minutes of work under a sanitizer. Small ones are drawn instead.
SMALL = {"--problems": ["1", "2", "-1", "1000001", "0"], "--largest": ["8", "64", "65537", "-1"], "--top": ["1", "2", "0", "1001"],
         "--jobs": ["1", "2", "-1", "1025", "0"], "--passes": ["0", "1", "-1", "101"], "--budget-s": ["0", "0.1", "-1", "nan"]}
NEED_A_GPU = {"bench", "tune", "rows"}  # these fail at the first check of a device, so they are drawn seldom
WHOLE = ["0", "1", "2", "3", "4", "5", "8", "16", "32", "63", "64", "100", "128", "256"]
NUMBERS = ["0", "1", "2", "3", "4", "7", "8", "16", "64", "100", "128", "-1", "-0", "+1", " 1", "1 ", "0x10", "1e3", "1.5", "nan", "inf", "-inf", "1e999",
           "1e-999", "65535", "2147483647", "2147483648", "4294967296", "4294967297", "9223372036854775807", "9223372036854775808",
           "-9223372036854775808", "18446744073709551616", "9" * 400, "", "one", "1,2", "1,,2", ","]
SIZES = ["64x64x64", "1x64x128", "16x512x2048", "0x0x0", "7x9x100", "64x64", "64x64x64x64", "-1x64x64", "2147483647x2147483647x2147483647",
         "2147483648x64x64", "99999999999999999999x1x1", "x", "xx", "64X64X64", "64 x 64 x 64", "64x64x64\n", "1e3x64x64", "9x954437177"]
CONVS = [["--conv", "fprop", "--input", "2x64x9x9", "--filter", "64x3x3", "--padding", "1"], ["--conv", "dgrad", "--input", "1x64x8x8", "--filter", "32x3x3", "--stride", "2"],
         ["--conv", "wgrad", "--input", "2x64x40", "--filter", "64x5", "--dilation", "2"], ["--conv", "fprop", "--input", "1x16x3x5x7", "--filter", "16x3x1x3", "--padding", "0:2x0x1"]]
CONV_SIZES = ["2x64x8x8", "64x3x3", "1x8x8", "8x1", "1x64x3x5x7", "64x3x3x3", "2x64", "2x64x8x8x8x8", "0x0x0x0", "1x1x1x1", "2147483647x2147483640x2147483647x2147483647",
              "1x8x2147483647", "64x2147483647x1", "1", "2", "0", "8", "9", "1x2", "0:2", "0:2x1x1", "1:", ":1", "1:2:3", "2147483647", "2147483648", "any", "fprop"]
RUBBISH = ["", " ", "-", "--", "---", "--=", "--shape=", "=", "\t", "\n", "\r\n", "\x1b[31mred", "\x1b]0;title\x07", "\x7f", "\x85", "\u202egnp", "\ufeff",
           "\udcff\udcfe", "é" * 50, "%s%n%x", "{}", "{0}", "$(id)", "`id`", "; ls", "'", '"', "\\", "\\x1b", "A" * 120_000, "..", "../..", "/",
           "~", "*", "?", "NaN", "true", "false", "null", "[]", "--help", "-h", "--version", "-m", "-mn", "-m=4", "@file", "#"]
GONE = ["/proc/nowhere/x", "/dev/full/x", "gone", "gone/x", "folder", "folder/x", "x\ny", "\x1b[2Jx", "n" * 300, "p/" * 2500 + "x", "text/x", "closed"]
MACHINE = ["/dev/null", "/dev/zero", "/dev/stdin", "/proc/self/maps", "/", "/dev/full", "/etc/hostname"]
FILES = {
    "good": b"64x64x64 --dtype bf16\n{}", "empty": b"", "blank": b"\n" * 3000 + b"# only a comment", "text": b"hello there\n", "nul": b"64x64x64\0\x1b[31m\n",
    "binary": bytes(range(256)) * 40, "deep": b"[" * 200_000, "nested": b'[{"m":' + b"[" * 5000 + b"]" * 5000 + b"}]", "marks": b"\xef\xbb\xbf" * 50_000,
    "cut": b'[{"shape": "64x64x64", "dty', "keys": b'[{"' + b"k" * 100_000 + b'": 1}]', "types": b'[{"shape": 5, "m": null, "bias": "maybe"}]',
    "numbers": b'[{"m": 1e400, "n": -0, "k": 18446744073709551616}]', "object": b'{"shape": "64x64x64"}', "scalars": b'[1, "two", null, [3]]',
    "json": b'[{"shape": "64x64x64", "dtype": "bf16", "bias": true}]', "utf16": "64x64x64".encode("utf-16"), "line": b"64x64x64 " + b"--bias " * 40_000,
    "many": b"64x64x64\n" * 10_050, "escape": b'[{"shape": "\\u001b[2J\\u0000"}]', "surrogate": b'[{"shape": "\\ud800"}]', "records": b'{"records": [{"m": {}}]}',
    "run": b'{"run": {"gpu": "\\u001b[31m"}, "shapes": [{"m": 1e300, "candidates": [{}]}]}', "weights": bytes(64 * 128),
}


def write_files(folder):
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    with open(folder / "huge", "wb") as huge:
        huge.truncate(20 << 20)  # a sparse file, larger than the tool reads
    (folder / "folder").mkdir()
    (folder / "closed").write_text("64x64x64")
    (folder / "closed").chmod(0)
    (folder / "link").symlink_to("link")
    for name in ("no_nvrtc", "book"):
        (folder / name).mkdir()
    for name in ("deep", "binary", "records", "cut", "nul"):
        (folder / "book" / f"{name}.json").write_bytes(FILES[name])


class Grammar:
    """The grammar that the tool's --help shows. For each verb: its flags, which of them take a value, and
    words that it names."""

    def __init__(self, tool, environment):
        self.verbs = {}
        top = self.help(tool, environment, [])
        for verb in re.findall(r"^  ([a-z_]+) {3,}", top[top.index("Subcommands:"):], re.M):
            self.verbs[verb] = self.flags(self.help(tool, environment, [verb]))

    @staticmethod
    def help(tool, environment, words):
        return subprocess.run([tool, *words, "--help"], env=environment, stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode()

    @staticmethod
    def flags(text):
        found = {}
        text = re.sub(r"\n {20,}", "   ", text)
        for line in text.splitlines():
            if match := re.match(r"^  (?:-\w,)?(--[\w-]+|[a-z]+)( [A-Z]+\S*)?(.*)", line):
                name, kind, told = match.groups()
                words = [word for word in re.findall(r"[a-z]\w*\d\w*|(?<=[ ,])[a-z_]+(?=,)|(?<=, )[a-z_]+", told) if len(word) < 16]
                found[name] = ((kind or "").split(":")[0].strip(), words)
        return found


class Dice:
    """Draws command lines. The same seed and number give the same line."""

    def __init__(self, grammar, seed, number):
        self.random = random.Random(f"{seed} {number}")
        self.grammar = grammar
        self.verb = self.random.choices(list(grammar.verbs), [1 if verb in NEED_A_GPU else 3 for verb in grammar.verbs])[0]
        self.flags = grammar.verbs[self.verb]

    def value(self, flag):
        draw, (kind, words) = self.random, self.flags.get(flag, ("TEXT", []))
        if flag in SMALL and draw.random() < 0.8:
            return draw.choice(SMALL[flag])
        if flag in ("--device", "--gpu") and draw.random() < 0.7:
            return draw.choice(["host", "auto", "0", "h100", "7", "1025"])
        if flag == "--shape" and draw.random() < 0.7:
            return draw.choice(SIZES)
        if flag in ("--input", "--filter", "--stride", "--padding", "--dilation", "--conv") and draw.random() < 0.7:
            return draw.choice(CONV_SIZES)
        if draw.random() < 0.6:
            good = {"INT": WHOLE, "UINT": WHOLE, "FLOAT": WHOLE, "BOOLEAN": ["true", "false"]}.get(kind, words)
            return draw.choice(MACHINE + list(FILES) if flag in READS else good or SIZES)
        return draw.choice(draw.choices([NUMBERS, SIZES, RUBBISH, [*FILES, "huge", "link"], GONE], [5, 3, 2, 1, 1])[0])

    def word(self, flag):
        takes = self.flags.get(flag, ("",))[0]
        if flag in self.flags and not flag.startswith("-"):
            return [self.value(flag)]
        if not takes:
            return [flag] if self.random.random() < 0.95 else [f"{flag}={self.value(flag)}"]
        return [flag, self.value(flag)] if self.random.random() < 0.9 else [f"{flag}={self.value(flag)}"]

    def base(self):
        """Returns a valid command line to damage, so that the damaged part gets beyond the first check."""
        small = self.random.choice(["64x64x64", "16x128x256", "1x256x512"])
        if self.verb in ("run", "plan", "compile") and self.random.random() < 0.25:
            return [self.verb, "--device", "host", *self.random.choice(CONVS)]
        return {"run": ["run", "--device", "host", "--shape", small], "plan": ["plan", "--device", "host", "--shape", small],
                "compile": ["compile", "--device", "host", "--shape", small], "verify": ["verify", "--device", "host", "--problems", "1", "--largest", "32"],
                "chain": ["chain", "--device", "host", "--compile-only", "--tokens", "1", "--layers", "1"], "doctor": ["doctor", "--no-gpu"],
                "fit": ["fit", self.random.choice(list(FILES))], "pack": ["pack", "-n", "64", "-k", "128"]}.get(self.verb, [self.verb, "--shape", small])

    def line(self):
        draw, flags = self.random, [flag for flag in self.flags if flag not in ("--help", "--commit")]
        kind = draw.choices(["spoilt", "file", "flags", "rubbish"], [6, 2, 3, 1])[0]
        if kind == "rubbish":
            return [draw.choice(RUBBISH + list(self.grammar.verbs)) for _ in range(draw.choice([0, 1, 1, 2, 3, 5]))]
        if kind == "file" and (readers := [flag for flag in flags if flag in READS]):
            flag = draw.choice(readers)
            return self.base()[:3] + ([flag] if flag.startswith("-") else []) + [draw.choice([*FILES, "huge", "link", "gone", "folder", *MACHINE])]
        words = self.base() if kind != "flags" else [self.verb]
        again = draw.random() < 0.1
        for flag in draw.sample(flags, min(len(flags), draw.randint(1, 3 if kind != "flags" else 8))):
            if again or flag not in words:
                words += self.word(flag)
        if draw.random() < 0.2:
            words[draw.randrange(len(words))] = draw.choice(RUBBISH)
        return words

    def short_line(self):
        """Returns a command line. If it does not set the amount of work, small values are added, because the
        defaults would take minutes."""
        words = self.line()
        if "verify" in words:
            for flag, least in (("--problems", "1"), ("--largest", "32")):
                words += [] if any(word.startswith(flag) for word in words) else [flag, least]
        return words


def argument(word):
    """Converts a word to bytes that exec accepts: without NUL, and lone surrogates as the bytes that they
    stand for."""
    return word.encode("utf-8", "surrogateescape").replace(b"\0", b"")


class Runner:
    def __init__(self, tool, folder, limits):
        self.tool, self.folder, self.limits = os.path.abspath(tool), folder, limits
        # No GPU is visible: with one, a line that happens to be valid would run measurements for minutes.
        self.environment = {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "", "HOME": str(folder / "folder"), "SLUICE_CACHE_DIR": str(folder / "cache"),
                            "SLUICE_RECORDS_DIR": str(folder / "mine"), "SLUICE_NVRTC": str(folder / "no_nvrtc"), "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", ""),
                            "ASAN_OPTIONS": f"exitcode={REPORT_CODE}:detect_leaks=0", "UBSAN_OPTIONS": f"exitcode={REPORT_CODE}:print_stacktrace=1"}

    def surroundings(self, draw):
        """Returns the environment and the stdout of a run. In 1 of 8 runs, part of them is broken too."""
        environment = dict(self.environment)
        if draw.random() < 0.1:
            name = draw.choice(["SLUICE_CACHE_DIR", "SLUICE_RECORDS_DIR", "SLUICE_NVRTC", "SLUICE_CACHE_READ_ONLY"])
            environment[name] = draw.choice(["", "text", "book", "folder", "/proc/nowhere", "\x1b[31m", "link", "0", "1", "n" * 5000])
        elif draw.random() < 0.04:
            del environment["SLUICE_NVRTC"]  # the compiler is found, so the kernel is compiled
        return environment, draw.choices(["file", "closed", "full", "pipe"], [88, 4, 4, 4])[0]

    def start(self, words, environment, stdout, out, err):
        kinds = {"file": out, "closed": out, "full": None, "pipe": None}
        if stdout == "full":
            kinds["full"] = os.open("/dev/full", os.O_WRONLY)
        if stdout == "pipe":
            read, kinds["pipe"] = os.pipe()
            os.close(read)
        try:
            return subprocess.Popen([argument(self.tool), *map(argument, words)], stdin=subprocess.DEVNULL, stdout=kinds[stdout], stderr=err, env=environment,
                                    cwd=self.folder, start_new_session=True, preexec_fn=(lambda: os.close(1)) if stdout == "closed" else None)
        finally:
            if stdout in ("full", "pipe"):
                os.close(kinds[stdout])

    def wait(self, process):
        """Returns exit status, peak memory in MB, and whether the process was stopped because of the time."""
        end, pause = time.monotonic() + self.limits.seconds, 0.002
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                return process.returncode, usage.ru_maxrss / 1024, False
            if time.monotonic() > end:
                os.killpg(process.pid, signal.SIGKILL)
                _, _, usage = os.wait4(process.pid, 0)
                process.returncode = -signal.SIGKILL
                return process.returncode, usage.ru_maxrss / 1024, True
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)

    def run(self, words, draw):
        environment, stdout = self.surroundings(draw)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            begin = time.monotonic()
            code, megabytes, late = self.wait(self.start(words, environment, stdout, out, err))
            seconds = time.monotonic() - begin
            out.seek(0), err.seek(0)
            answer = {"code": code, "mb": megabytes, "late": late, "seconds": seconds, "out": out.read(), "err": err.read(), "stdout": stdout}
        answer["wrong"] = self.wrong(answer)
        answer["line"] = {"words": words, "stdout": stdout,
                          "environment": {k: v for k, v in environment.items() if self.environment.get(k) != v} | ({} if "SLUICE_NVRTC" in environment else {"SLUICE_NVRTC": None})}
        return answer

    def wrong(self, answer):
        found = []
        if answer["late"]:
            return [f"did not end in {self.limits.seconds:g} s"]
        allowed = CODES | ({-signal.SIGPIPE} if answer["stdout"] == "pipe" else set())
        if answer["code"] not in allowed:
            found.append(f"exit code {answer['code']}")
        if answer["mb"] > self.limits.megabytes:
            found.append(f"{answer['mb']:.0f} MB")
        found += [f"says {word.decode()}" for word in REPORTS if word in answer["err"]]
        for name in ("out", "err"):
            try:
                if bad := UNFIT.search(answer[name].decode()):
                    found.append(f"{name} holds {bad.group()!r}")
            except UnicodeDecodeError as error:
                found.append(f"{name} is no UTF-8: {error.reason}")
        if len(answer["err"]) > MOST_STDERR:
            found.append(f"{len(answer['err'])} bytes on stderr")
        if answer["code"] == 2 and not answer["err"]:
            found.append("exit code 2 without a word")
        return found


PLANTED = {  # fault of a fake tool -> words that the report must contain
    "kill -SEGV $$": "exit code -11", "exit 3": "exit code 3", "sleep 30": "did not end", "printf '\\033[31m'": "out holds", "printf '\\377' >&2; exit 2": "is no UTF-8",
    "exit 2": "without a word", "echo 'ERROR: AddressSanitizer: x' >&2; exit 1": "says AddressSanitizer",
    "python3 -c 'x = bytearray(400 << 20); x[::4096] = b\"x\" * len(x[::4096])'": "MB", "yes | head -c 50000 >&2; exit 1": "bytes on stderr",
    "echo this is a bug of sluice >&2; exit 2": "says bug of sluice",
}


def self_test():
    with tempfile.TemporaryDirectory() as name:
        folder, draw = Path(name), random.Random(0)
        tool = folder / "tool"
        runner = Runner(tool, folder, argparse.Namespace(seconds=8, megabytes=200))
        runner.surroundings = lambda draw: (dict(runner.environment), "file")
        for script, told in {**PLANTED, "echo fine": None, "echo no >&2; exit 2": None}.items():
            tool.write_text(f"#!/bin/sh\n{script}\n")
            tool.chmod(0o755)
            wrong = runner.run(["plan"], draw)["wrong"]
            assert any(told in text for text in wrong) if told else not wrong, (script, wrong)
    print(f"{len(PLANTED)} planted faults are seen, and no others")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", nargs="?")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="number of the first, to repeat one")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--seconds", type=float, default=60, help="for one run")
    parser.add_argument("--megabytes", type=float, default=1024)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print every command line and its answer")
    parser.add_argument("--self-test", action="store_true")
    given = parser.parse_args()
    if given.self_test:
        return self_test()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        runner = Runner(given.tool, folder, given)
        grammar = Grammar(runner.tool, runner.environment)

        def one(number):
            dice = Dice(grammar, given.seed, number)
            return number, runner.run(dice.short_line(), dice.random)

        begin, codes, peak, slowest, wrong = time.monotonic(), {}, 0, 0, 0
        with ThreadPoolExecutor(given.jobs) as pool:
            for number, answer in pool.map(one, range(given.first, given.first + given.count)):
                codes[answer["code"]] = codes.get(answer["code"], 0) + 1
                peak, slowest, wrong = max(peak, answer["mb"]), max(slowest, answer["seconds"]), wrong + bool(answer["wrong"])
                if answer["wrong"] or given.show:
                    print(f"{number}: {'; '.join(answer['wrong'])} [{answer['code']}, {answer['seconds']:.1f} s, {answer['mb']:.0f} MB]\n  "
                          f"{json.dumps(answer['line'])[:1500]}\n  {(answer['err'] or answer['out'])[:1500]!r}", flush=True)
    told = ", ".join(f"{count} with code {code}" for code, count in sorted(codes.items()))
    print(f"{given.count} command lines of {len(grammar.verbs)} verbs in {time.monotonic() - begin:.0f} s ({told}): "
          f"peak {peak:.0f} MB, slowest {slowest:.1f} s, {wrong or 'nothing'} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
