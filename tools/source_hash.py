#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names the sources of a build: a hash of the contents of each part, so that a commit which changes only
documents does not outdate a check on a GPU.

`kernels` are the texts that NVRTC compiles (the list of cmake/SluiceEmbed.cmake), `host` is the library
beside them. `sluice --version` prints those of its build (cmake/SluiceCommit.cmake calls this).
tools/certify.py runs a build only beside the tree that it was made from.

Usage: tools/source_hash.py            (a line for each part)
       tools/source_hash.py --line     (all in one line, as --version prints it)
       tools/source_hash.py --check FILE (are `kernels` the files of that list, which a build leaves?)
"""
import argparse
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Patterns of each part. `tests` is what tests/gpu and the tool's checks are built of.
PARTS = {
    "kernels": ("sluice/spec/**/*.h", "sluice/device/**/*.h", "sluice/device/**/*.cuh", "sluice/kernels/**/*.h", "sluice/kernels/**/*.cuh"),
    "host": ("include/**/*.h", *(f"sluice/{room}/**/*.{end}" for room in ("plan", "run", "chain", "check", "c_api") for end in ("cc", "h"))),
    "records": ("sluice/plan/records/shipped/*.json",),
    "python": ("python/sluice/**/*.py",),
    "tests": tuple(f"{room}/**/*.{end}" for room in ("tests/gpu", "sluice/reference", "sluice/messages", "bench", "cli", "lab") for end in ("cc", "h")),
}
NOT_EMBEDDED = "sluice/kernels/registry.h"  # cmake/SluiceEmbed.cmake has the reason
DIGITS = 12


def files_of(part: str, root: pathlib.Path = ROOT) -> list[pathlib.Path]:
    found = {path for pattern in PARTS[part] for path in root.glob(pattern)}
    return sorted(found - {root / NOT_EMBEDDED})


def hash_of(part: str, root: pathlib.Path = ROOT) -> str:
    """A hash of the paths below `root` and the bytes of their files."""
    total = hashlib.sha256()
    for path in files_of(part, root):
        total.update(path.relative_to(root).as_posix().encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:DIGITS]


def all_hashes(root: pathlib.Path = ROOT) -> dict[str, str]:
    return {part: hash_of(part, root) for part in PARTS}


def parsed(line: str) -> dict[str, str]:
    """Parses a line that --line printed."""
    return dict(word.split(":", 1) for word in line.split() if ":" in word)


def self_test() -> int:
    """Tests, in an invented repository, that each change changes the right word of a build's name."""
    # File -> the words that differ after its text changed. A page makes no build dirty.
    wanted = {"docs/a.md": set(), "docs/new.md": set(), "sluice/kernels/a.cuh": {"kernels", "dirty"}, "sluice/kernels/new.cuh": {"kernels", "dirty"},
              "sluice/run/a.cc": {"host", "dirty"}, "sluice/run/new.cc": {"host", "dirty"}, "sluice/kernels/registry.h": {"dirty"},
              "sluice/plan/records/shipped/a.json": {"records", "dirty"}, "python/sluice/a.py": {"python", "dirty"}, "tests/gpu/a_test.cc": {"tests", "dirty"}}
    with tempfile.TemporaryDirectory() as folder:
        root, out = pathlib.Path(folder) / "source", pathlib.Path(folder) / "built.h"
        for name in wanted:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            if "new" not in name:
                (root / name).write_text("text\n")

        def built() -> tuple[str, dict[str, str]]:
            """Returns the commit and the sources that cmake/SluiceCommit.cmake writes into a build."""
            subprocess.run(["cmake", f"-DSOURCE={root}", f"-DOUT={out}", f"-DPYTHON={sys.executable}", "-P", str(ROOT / "cmake/SluiceCommit.cmake")], check=True)
            told = dict(re.findall(r'#define SLUICE_(\w+) "(.*)"', out.read_text()))
            return told.get("COMMIT", ""), parsed(told["SOURCES"])
        assert built()[0] == "" and len(built()[1]["kernels"]) == DIGITS, "without git there is no commit"
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
            subprocess.run(["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)
        first = built()
        assert len(first[0]) == 40, first
        for name, words in wanted.items():
            (root / name).write_text("another text\n")
            after = built()
            (root / name).unlink() if "new" in name else (root / name).write_text("text\n")
            found = {part for part in PARTS if first[1][part] != after[1][part]} | ({"dirty"} if after[0].endswith("-dirty") else set())
            assert found == words, (name, found)
        assert built() == first, "all is as it was"
    print("source_hash: self-test passed")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--line", action="store_true")
    parser.add_argument("--check", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    if arguments.self_test:
        return self_test()
    if arguments.check:
        differing = set(map(pathlib.Path, arguments.check.read_text().split())) ^ set(files_of("kernels", root))
        for path in sorted(differing):
            print(f"{path} is compiled by NVRTC or hashed as one of its files, and not both: cmake/SluiceEmbed.cmake, tools/source_hash.py")
        return 1 if differing else 0
    words = [f"{part}:{digits}" for part, digits in all_hashes(root).items()]
    print(*words, sep=" " if arguments.line else "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
