#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs each command of README in a fresh Debian 12, in order, as printed, and compares its time to README's.

    tests/package/fresh_debian.py --root /tmp/fresh            # as root; installs debootstrap where it is missing
    tests/package/fresh_debian.py --root /tmp/fresh --skip 'pip install' --skip 'make test'
    tests/package/fresh_debian.py --list | --self-test

The commands come from README.md itself: the block and the table of "Install", `sluice doctor`, and the block of
"Command line". The C++ block is built against the installation; of the Python block only imports run.
The root has Debian's minimal set of packages, this machine's sources of packages, its CUDA toolkit (bound), and
a clone of this repository at HEAD. It has no GPU: a line that "needs a GPU" must end with the message that says
so. Fails if a command fails, or takes more than --bar times what README says; times need two idle cores.
"""
import argparse
import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SUITE = "bookworm"
HOME, CLONE = "/root", "/root/clone"
WORDS = {"half a": 0.5, "a": 1.0, "one": 1.0, "two": 2.0, "three": 3.0}
UNITS = {"second": 1, "minute": 60, "hour": 3600}


@dataclasses.dataclass
class Step:
    """A command of README. ``seconds``: the time that README states, if it does. ``codes``: the expected exit
    codes."""
    command: str
    seconds: float = 0
    codes: tuple = (0,)
    mention: str = ""  # text that the output must contain


def section(text: str, title: str) -> str:
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]


def block(text: str, language: str) -> str:
    return re.search(rf"^```{re.escape(language)}\n(.*?)^```", text, re.M | re.S)[1]


def seconds_of(text: str) -> float:
    """Returns the seconds that a cell of the table states: "3 minutes", "half a minute", "20 s"."""
    found = re.search(r"(\d+(?:\.\d+)?|half a|a|one|two|three) (second|minute|hour)s?\b", text)
    if not found:
        return 0
    number = WORDS[found[1]] if found[1] in WORDS else float(found[1])
    return number * UNITS[found[2]]


def commands_of(lines: str) -> list:
    """Returns (command, its comment) of each line of a block."""
    parts = [line.partition(" #") for line in lines.splitlines() if line.strip() and not line.startswith("#")]
    return [(command.strip(), comment.strip()) for command, _, comment in parts]


def steps_of(text: str) -> list:
    install, tool = section(text, "Install"), section(text, "Command line")
    steps = [Step(command) for command, _ in commands_of(block(install, ""))]
    for command, _, said in re.findall(r"^\| `([^`]+)` \|(.*?)\|([^|]*)\|$", install, re.M):
        steps.append(Step(command, seconds_of(said)))
    steps.append(Step("sluice doctor", codes=(0, 1)))  # status 1, because there is no GPU
    for command, comment in commands_of(block(tool, "")):
        needs_gpu = "needs a GPU" in comment
        steps.append(Step(command, codes=(2,) if needs_gpu else (0,), mention="measures GPUs" if needs_gpu else ""))
    return steps


def snippets_of(text: str) -> list:
    """Returns README's C++, to be built against the installation, and the imports of its Python. The rest of
    the Python needs a GPU."""
    prefix = re.search(r"PREFIX=(\S+?)`", text)[1]
    project = f"""cmake_minimum_required(VERSION 3.25)
project(readme CXX)
find_package(sluice REQUIRED)
add_executable(readme readme.cc)
target_link_libraries(readme sluice::sluice)
"""
    imports = block(text, "python").splitlines()[0]
    return [Step(f"mkdir -p {HOME}/snippet && printf %s {shlex.quote(project)} > {HOME}/snippet/CMakeLists.txt && "
                 f"tools/check_readme.py --cpp {HOME}/snippet/readme.cc && "
                 f"cmake -G Ninja -S {HOME}/snippet -B {HOME}/snippet/build -DCMAKE_PREFIX_PATH={prefix} && "
                 f"cmake --build {HOME}/snippet/build && {HOME}/snippet/build/readme", mention="libcuda"),
            Step(f"python3 -W error::UserWarning -c {shlex.quote(imports)}")]


# ---- the root ----
def sh(*command: str, **options) -> str:
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **options).stdout


def make_root(root: pathlib.Path) -> None:
    """Makes a root folder with Debian's minimal packages, and this machine's sources of further packages."""
    if not shutil.which("debootstrap"):
        sh("apt-get", "install", "-y", "-qq", "--no-install-recommends", "debootstrap")
    targets = [line.split() for line in sh("apt-get", "indextargets", "--format", "$(CODENAME) $(COMPONENT) $(REPO_URI)").splitlines()]
    mirror = next(uri for suite, component, uri in targets if (suite, component) == (SUITE, "main"))
    sh("debootstrap", "--variant=minbase", SUITE, str(root), mirror)
    hosts = {uri for suite, _, uri in targets if suite.startswith(SUITE)}
    shutil.rmtree(root / "etc/apt/sources.list.d", ignore_errors=True)
    (root / "etc/apt/sources.list.d").mkdir()
    (root / "etc/apt/sources.list").write_text("")
    for file in [pathlib.Path("/etc/apt/sources.list"), *pathlib.Path("/etc/apt/sources.list.d").glob("*")]:
        if file.is_file() and any(uri.rstrip("/") in file.read_text() for uri in hosts):
            shutil.copy(file, root / file.relative_to("/"))
    for file in pathlib.Path("/etc/apt/apt.conf.d").glob("*"):
        if re.match(r"\s*Acquire::", re.sub(r"^(//|#).*$", "", file.read_text(), flags=re.M)):
            shutil.copy(file, root / file.relative_to("/"))
    for name in ("etc/resolv.conf", "etc/hosts", "etc/pip.conf"):
        if pathlib.Path("/", name).exists():
            shutil.copy(f"/{name}", root / name)
    for name in ("etc/ssl/certs", "usr/local/share/ca-certificates"):  # the second outlives update-ca-certificates
        if pathlib.Path("/", name).is_dir():
            shutil.copytree(f"/{name}", root / name, dirs_exist_ok=True, ignore_dangling_symlinks=True)
    sh("git", "clone", "--quiet", str(ROOT), str(root) + CLONE)


class Mounts:
    """Folders of this machine that are mounted in the root, and unmounted at the end."""

    def __init__(self, root: pathlib.Path):
        self.root, self.made = root, []

    def __enter__(self) -> "Mounts":
        cuda = pathlib.Path("/usr/local/cuda").resolve()
        folders = [pathlib.Path("/proc"), pathlib.Path("/dev"), cuda]
        folders += [pathlib.Path(word) for word in os.environ.get("PIP_FIND_LINKS", "").split() if pathlib.Path(word).is_dir()]
        for folder in folders:
            target = self.root / folder.relative_to("/")
            target.mkdir(parents=True, exist_ok=True)
            sh("mount", "--rbind" if folder.name in ("proc", "dev") else "--bind", str(folder), str(target))
            sh("mount", "--make-rslave", str(target))
            self.made.append(target)
        link = self.root / "usr/local/cuda"
        if not link.exists():
            link.symlink_to(cuda)
        return self

    def __exit__(self, *_: object) -> None:
        for target in reversed(self.made):
            subprocess.run(["umount", "--recursive", str(target)], check=False)


class Shell:
    """A single bash process in the root, so that an activated venv stays active."""
    MARK = "fresh-debian-step-ended"

    def __init__(self, root: pathlib.Path, more_path: str):
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" + more_path
        environment = {"HOME": HOME, "PATH": path, "LANG": "C.UTF-8",
                       **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_")) or name.endswith(("_proxy", "_CA_BUNDLE"))}}
        self.bash = subprocess.Popen(["chroot", str(root), "/bin/bash", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True, env=environment)
        self.run(f"cd {CLONE}")

    def run(self, command: str) -> tuple:
        """Runs a command. Returns (exit code, output, seconds)."""
        begin, said = time.monotonic(), []
        self.bash.stdin.write(f"{{ {command}\n}} </dev/null; echo \"{self.MARK} $?\"\n")
        self.bash.stdin.flush()
        for line in self.bash.stdout:
            if line.startswith(self.MARK):
                return int(line.split()[1]), "".join(said), time.monotonic() - begin
            said.append(line)
        return 255, "".join(said), time.monotonic() - begin


def verdict(step: Step, code: int, text: str, seconds: float, bar: float) -> str:
    """Returns "ok", or what is wrong."""
    if code not in step.codes:
        return f"exit code {code}"
    if step.mention not in text:
        return f"does not say {step.mention!r}"
    if step.seconds and seconds > bar * step.seconds:
        return f"more than {bar} times {step.seconds:.0f} s"
    return "ok"


def run_all(root: pathlib.Path, steps: list, bar: float) -> int:
    # Otherwise `sluice` is the program that make demo built.
    has_pip = any(step.command.startswith("pip install") for step in steps)
    wrong = 0
    with Mounts(root):
        shell = Shell(root, "" if has_pip else f":{CLONE}/build/release")
        for step in steps:
            code, text, seconds = shell.run(step.command)
            found = verdict(step, code, text, seconds, bar)
            said = f" of {step.seconds:.0f} s" if step.seconds else ""
            print(f"{found:<12} {seconds:7.1f} s{said:<10} {step.command.splitlines()[0][:70]}", flush=True)
            if found != "ok":
                wrong += 1
                print("\n".join("    | " + line for line in text.splitlines()[-30:]), flush=True)
        shell.bash.stdin.close()
        shell.bash.wait()
    print(f"{len(steps) - wrong} of {len(steps)} commands are right")
    return 1 if wrong else 0


def self_test() -> int:
    assert [seconds_of(t) for t in ("8 minutes", "1 minute", "half a minute", "a second", "", "2 hours")] == [480, 60, 30, 1, 0, 7200]
    text = ("## Install\n```\ntools/a.sh --x   # first\n. b\n```\n| then | gives | time |\n| --- | --- | --- |\n"
            "| `make demo` | it | 3 minutes |\n| `make install PREFIX=$HOME/x` | it | |\n## Python\n```python\nimport os\n```\n"
            "## Command line\n```\nsluice plan -m 4  # anywhere\nsluice bench  # needs a GPU\n```\n## Else\n")
    steps = steps_of(text)
    assert [(s.command, s.seconds, s.codes) for s in steps] == [
        ("tools/a.sh --x", 0, (0,)), (". b", 0, (0,)), ("make demo", 180, (0,)), ("make install PREFIX=$HOME/x", 0, (0,)),
        ("sluice doctor", 0, (0, 1)), ("sluice plan -m 4", 0, (0,)), ("sluice bench", 0, (2,))], steps
    assert verdict(steps[2], 0, "", 269, 1.5) == "ok" and "1.5 times" in verdict(steps[2], 0, "", 271, 1.5)
    assert "exit code 1" in verdict(steps[2], 1, "", 1, 1.5) and "does not say" in verdict(steps[-1], 2, "", 1, 1.5)
    assert "-DCMAKE_PREFIX_PATH=$HOME/x" in snippets_of(text)[0].command and "import os" in snippets_of(text)[1].command
    real = steps_of((ROOT / "README.md").read_text())
    for command in ("tools/setup.sh", "python3 -m venv", "pip install", "make demo", "make install", "make test", "sluice plan", "sluice tune"):
        assert [s for s in real if s.command.startswith(command)], f"README has no {command}"
    assert all(s.seconds > 0 for s in real if s.command.startswith(("make", "pip"))), "a time that is not read"
    print("fresh_debian: self-test passed")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=pathlib.Path, help="the folder of the root; one that is there is used again")
    parser.add_argument("--skip", action="append", default=[], help="leave out commands with this text")
    parser.add_argument("--bar", type=float, default=1.5, help="most times of what README says (default 1.5)")
    parser.add_argument("--list", action="store_true", help="print the commands, run none")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    text = (ROOT / "README.md").read_text()
    steps = [step for step in steps_of(text) + snippets_of(text) if not any(skip in step.command for skip in arguments.skip)]
    if arguments.list or not arguments.root:
        for step in steps:
            print(f"{step.seconds:6.0f} s  {step.command}")
        return 0
    if os.geteuid() != 0:
        print("fresh_debian: needs root, for debootstrap and chroot")
        return 2
    if not (arguments.root / "bin/bash").exists():
        make_root(arguments.root)
    return run_all(arguments.root, steps, arguments.bar)


if __name__ == "__main__":
    sys.exit(main())
