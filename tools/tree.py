# SPDX-License-Identifier: Apache-2.0
"""The project's files, and the one way in which checks of them tell faults. For check_*.py and overlap.py; self-tests
take refusal()."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEVICE_OR_HOST = (".h", ".cc", ".cuh", ".cu")


def names(*ends: str, folders: tuple[str, ...] = ()) -> list[str]:
    """Tracked files and new ones that git does not ignore. `ends`: of their names; `folders`: all without any."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [name for name in listed if name.endswith(ends or "") and (ROOT / name).is_file()]


def written(*ends: str, folders: tuple[str, ...] = ()) -> list[str]:
    """The files that people write: no generated ones."""
    return [name for name in names(*ends, folders=folders) if "generated" not in name.split("/")]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")


def run(what: str, check, self_test) -> int:
    """The exit status of a check, or of its self-test with --self-test. Both give lines of faults; a self-test may
    raise instead."""
    faults = list((self_test if "--self-test" in sys.argv[1:] else check)() or ())
    print("\n".join(faults) or f"{what}: ok")
    return 1 if faults else 0


def refusal(kind: type[BaseException], call, *arguments) -> str:
    """The words of the exception that a call must raise, for self-tests."""
    try:
        call(*arguments)
    except kind as why:
        return str(why)
    raise AssertionError(f"{getattr(call, '__name__', 'a call')}{arguments} was taken")
