# SPDX-License-Identifier: Apache-2.0
"""Races of plans on the fake GPU, each in a process with a folder of records of its own.

A race shows in the process that raced, and in the next one on this card.
"""
import ctypes
import os
import subprocess
import sys

import pytest

import sluice
import fake_gpu  # noqa: F401 (skips without the fake driver)
from sluice._library import default_device, lib, new_call

SETUP = """
import sys, sluice
from fake_gpu import launches_of, lib, mm, on_gpu, weight
problem = {}
"""
PROBLEMS = {"dense": "sluice.Problem(64, 1024, 2048)", "packed": "sluice.Problem(16, 1024, 2048, packed=sluice.WeightFormat())",
            "convolution": "sluice.Convolution('fprop', (8, 64, 28, 28), (128, 3, 3), padding=1)"}
RACE = """
plans = []
assert launches_of(lambda: plans.append(sluice.race(problem, candidates=2))) > 3
assert plans[0].source == "record" and plans[0].estimate_us > 0 and plans[0].problem is problem
assert sluice.plan(problem, device=0).config == plans[0].config, "this process plans the winner too"
print(plans[0].config)
"""
LATER = """
assert sluice.plan(problem, device=0).source == "record"
assert launches_of(lambda: print(sluice.race(problem).config)) == 0, "a record stands: nothing is timed"
"""
USED = """
a, b, out = on_gpu("bf16", (64, 2048)), weight("bf16", 2048, 1024), on_gpu("bf16", (64, 1024))
sluice.prepare(sluice.race(sluice.problem_of(a, b, out)))
before = sluice.holdings().kernels
assert before == 1
assert launches_of(lambda: mm(a, b, out)) >= 1 and sluice.holdings().kernels == before
"""


def run(code, kind, records):
    done = subprocess.run([sys.executable, "-c", SETUP.format(PROBLEMS[kind]) + code], cwd=os.path.dirname(__file__),
                          env={**os.environ, "SLUICE_RECORDS_DIR": str(records)}, capture_output=True, text=True, check=False,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_race_is_kept_for_later_processes(kind, tmp_path):
    config = run(RACE, kind, tmp_path)
    assert list(tmp_path.iterdir()), "no record was written"
    assert run(LATER, kind, tmp_path) == config


def test_the_winner_is_what_calls_use_from_now_on(tmp_path):
    run(USED, "dense", tmp_path)


def test_the_library_has_the_same_bounds():
    call, handle = new_call(sluice.Problem(64, 64, 64).struct()), ctypes.c_void_p()
    for count in (-1, 0, sluice.plans.MOST_CANDIDATES + 1):
        with pytest.raises(sluice.InvalidArgument, match=rf"candidates = {count} must be in 1\.\.{sluice.plans.MOST_CANDIDATES}: pass 3"):
            lib.sluice_race(default_device(0), ctypes.byref(call), count, ctypes.byref(handle))


def test_what_has_no_product_is_not_timed():
    assert fake_gpu.launches_of(lambda: sluice.race(m=0, n=64, k=64)) == 0
    assert sluice.race(m=64, n=64, k=0).source == "model"
    with pytest.raises(sluice.InvalidSize, match="4 GiB"):
        sluice.race(m=65536, n=65536, k=8192)
