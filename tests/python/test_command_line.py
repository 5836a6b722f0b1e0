# SPDX-License-Identifier: Apache-2.0
"""``python -m sluice`` is the tool: the same verbs, the same text, the same exit codes."""
import subprocess
import sys

import sluice
from sluice._library import tool_path


def run(*arguments, tool=(sys.executable, "-m", "sluice")):
    return subprocess.run([*tool, *arguments], capture_output=True, text=True, check=False)


def test_the_verbs_are_the_tools():
    ours, tools = run("--help"), run("--help", tool=(str(tool_path()),))
    assert ours.returncode == 0 and ours.stdout == tools.stdout
    for verb in ("plan", "compile", "bench", "tune", "chain", "doctor"):
        assert verb in ours.stdout


def test_plan_prints_what_explain_returns_and_both_name_the_gpu():
    printed = run("plan", "--shape", "64x4096x4096", "--dtype", "e4m3")
    assert printed.returncode == 0
    explained = sluice.explain(m=64, n=4096, k=4096, a="e4m3")
    assert printed.stdout.strip() == explained.strip() and "\ngpu        NVIDIA H" in explained


def test_errors_have_the_same_words():
    failed = run("plan", "--m", "-1", "--n", "8", "--k", "8", "--device", "host")
    try:
        sluice.plan(m=-1, n=8, k=8)
    except sluice.Error as error:
        assert failed.returncode == 2 and f"{error.code}: {error}" in failed.stderr


def test_a_missing_tool_is_no_traceback(monkeypatch):
    monkeypatch.setenv("SLUICE_TOOL", "/nowhere/sluice")
    failed = run("plan")
    assert failed.returncode == 1 and "/nowhere/sluice" in failed.stderr and "Traceback" not in failed.stderr
