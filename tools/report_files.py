# SPDX-License-Identifier: Apache-2.0
"""Which files docs/performance.md is made from: the commit, the day and the method of each, and the command that was run, all
as the files have them. What a file lacks is said to be lacking. Used by report.py, and by report_readme.py for the age of rows.
"""
import functools
import json
import pathlib
import re
import subprocess

import source_hash
from report_data import CERTIFICATE, NO_COMMIT, commit_of, number, set_of, sizes, table

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = (".", "packed", "chains", "timelines", "peers", "python")
# Lists of problems that had another name where the bench ran.
LISTS = {"unseen": "bench/shapes/unseen.txt", "odd": "bench/shapes/odd_rows.txt", "blind": "bench/shapes/blind.txt"}


KERNELS = ("sluice/device", "sluice/kernels", "sluice/spec")
COUNTED = re.compile(r"[Cc]ounted at ([0-9a-f]{7})\b")


def git(*words: str) -> str | None:
    """What git says; None where it does not know."""
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


@functools.cache
def head() -> str:
    return (git("rev-parse", "--short=7", "HEAD") or NO_COMMIT)[:7]


class CountedAt:
    """The commit from which ages are counted: HEAD, when a page is made. A page that is checked later says its own."""
    commit = ""


def counted_at() -> str:
    return CountedAt.commit or head()


def commits_between(old: str, new: str, *paths: str) -> int | None:
    """How many commits lie between two, of those that touch `paths`; None where git does not know them."""
    if NO_COMMIT in (old, new):
        return None
    count = git("rev-list", "--count", f"{old}..{new}", *(["--", *paths] if paths else []))
    return int(count) if count else None


def same_sources(old: str, new: str) -> bool:
    """Do two commits have the same library? False where git does not know."""
    return git("diff", "--quiet", old, new, "--", "include", "sluice") is not None


def listed_sizes(path: pathlib.Path) -> list[tuple[int, ...]]:
    lines = [line.split()[0] for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(map(int, word.split("x"))) for word in lines]


def same_list(record: dict) -> str:
    """Whether the list that a command names is one of the repository's."""
    found = re.search(r"--shapes \S*?(\w+)\.txt", record.get("command") or "")
    kept = LISTS.get(found.group(1)) if found else None
    if kept is None:
        return ""
    same = sorted(listed_sizes(ROOT / kept)) == sorted(map(sizes, record["shapes"]))
    return f"its list has the sizes of {kept}" if same else f"its list is no longer that of {kept}"


def load_all(results: pathlib.Path) -> dict[str, dict]:
    """By their path below `results`."""
    return {str(path.relative_to(results)): json.loads(path.read_text())
            for folder in FOLDERS for path in sorted((results / folder).glob("*.json")) if path.name != CERTIFICATE}


def row_of(name: str, record: dict) -> list[str]:
    method = record.get("method") or {}
    age = commits_between(commit_of(record).removesuffix("-dirty"), counted_at())
    replay = method.get("replay_us")
    return [name, commit_of(record), "-" if age is None else str(age), record.get("started") or "not recorded",
            *(number(value, 0) for value in (method.get("rounds"), method.get("rest_ms"))), number(replay / 1000 if replay else None, 1),
            str(method["tune"]) if method.get("tune") else "-"]


def files_section(results: pathlib.Path) -> str:
    records = load_all(results)
    if not records:
        return ""
    header = ["file", "commit", f"commits before {counted_at()}", "started", "rounds", "rest, ms", "replay, ms", "candidates"]
    text = (f"## What was run\n\nEvery file of bench/results/h200 that this page is made from. The bench's defaults are 9 rounds, 20 ms of rest and "
            f"replays of 3 ms; visits were short, so most files have less. \"Candidates\" is `--tune`.\n\n"
            f"{table(header, [row_of(name, record) for name, record in records.items()], left=2)}\n\n")
    return text + f"## To repeat it\n\n{commands(records)}\n"


def commands(records: dict[str, dict]) -> str:
    """One that wrote two files stands once."""
    lines, lacking = {}, []
    for name, record in records.items():
        if not record.get("command"):
            lacking.append(name)
            continue
        note = ", ".join(filter(None, (commit_of(record), same_list(record))))
        lines.setdefault(record["command"], []).append(f"# {name}: {note}")
    text = ("The commands as the files have them, on a machine with an H200 and nothing else running (`make build`, then `build/release/sluice`; "
            "`sluice doctor` says what is missing; `tools/` for Triton); paths behind `--json` and `--shapes` are those of that machine.\n\n```\n")
    text += "\n".join("\n".join([*notes, command]) for command, notes in lines.items()) + "\n```\n"
    if lacking:
        text += f"\nNo command is in {', '.join(lacking)}."
        text += (" Files of python/ are written by tools/python_gpu_test.sh (`make python && OUT=... SECTIONS=\"cost block\" tools/python_gpu_test.sh "
                 "build/release/wheels`); which of its runs wrote these they do not say.") if any(name.startswith("python/") for name in lacking) else ""
        text += "\n"
    return text + "\n`make report` then makes this page.\n"


def age_words(commit: str) -> str:
    age, of_kernels = (commits_between(commit.removesuffix("-dirty"), counted_at(), *paths) for paths in ((), KERNELS))
    return "" if age is None else f" is {age} commit{'s' * (age != 1)} before, {of_kernels} of which touch{'es' * (of_kernels == 1)} kernels"


def ages(runs: list[dict], words=str) -> str:
    """A sentence: how many commits lie between each record and the one at which the page was made. It names the kernels of
    that tree too, so that a page is made again when they change (report.py --check)."""
    by_commit: dict[str, list[str]] = {}
    for run in runs:
        by_commit.setdefault(commit_of(run), []).append(f'"{words(set_of(run))}"')
    parts = [f"{commit} ({', '.join(sets)}){age_words(commit)}" for commit, sets in by_commit.items()]
    return f"How old rows are, counted at {counted_at()} (kernels {source_hash.hash_of('kernels')}): {'; '.join(parts)}." if parts else ""
