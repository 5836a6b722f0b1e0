# SPDX-License-Identifier: Apache-2.0
"""The commit and the GPU of a measurement, for gpu_sanitize.py and peers.py."""
import os
import pathlib
import subprocess


def commit() -> str:
    """The commit of the binary or library that ran: SLUICE_COMMIT, which tools/certify.py passes, or else this tree's, with -dirty if a file
    differs from it."""
    if told := os.environ.get("SLUICE_COMMIT"):
        return told
    try:
        head, changed = (subprocess.run(["git", "-C", str(pathlib.Path(__file__).parent), *arguments], capture_output=True, text=True,
                                        check=True).stdout.strip()
                         for arguments in (("rev-parse", "--short", "HEAD"), ("status", "--porcelain", "--untracked-files=no")))
        return head + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def nvidia_smi(fields: tuple[str, ...]) -> dict:
    """The first GPU's values of these fields, or the error."""
    try:
        done = subprocess.run(["nvidia-smi", "-i", "0", "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, timeout=20, check=True)
        return dict(zip(fields, (value.strip() for value in done.stdout.splitlines()[0].split(","))))
    except (OSError, subprocess.SubprocessError, IndexError) as why:
        return {"error": str(why)}
