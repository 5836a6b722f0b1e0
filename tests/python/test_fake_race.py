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


PREPARES = """
print(launches_of(lambda: sluice.prepare([problem]{})))
"""
LAYER = """
from sluice._library import lib
lib.sluice_race_layer(1024, 2048, None, 0)
b = weight("bf16", 2048, 1024)
for m in (8, 16, 24, 32, 40, 48, 56):
    a, out = on_gpu("bf16", (m, 2048)), on_gpu("bf16", (m, 1024))
    raced = launches_of(lambda: mm(a, b, out)) > 1
    assert raced == (m < 56 and RACES), m
    assert launches_of(lambda: mm(a, b, out)) == 1
c = weight("bf16", 2048, 1032)
assert launches_of(lambda: mm(a, c, on_gpu("bf16", (56, 1032)))) == 1, "a bare call"
"""


def run(code, kind, records, **environment):
    outside = {name: value for name, value in os.environ.items() if name != "SLUICE_RACE"}
    done = subprocess.run([sys.executable, "-c", SETUP.format(PROBLEMS[kind]) + code], cwd=os.path.dirname(__file__),
                          env={**outside, "SLUICE_RECORDS_DIR": str(records), **environment}, capture_output=True, text=True,
                          check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_race_is_kept_for_later_processes(kind, tmp_path):
    config = run(RACE, kind, tmp_path)
    assert list(tmp_path.iterdir()), "no record was written"
    assert run(LATER, kind, tmp_path) == config


def test_the_winner_is_what_calls_use_from_now_on(tmp_path):
    run(USED, "dense", tmp_path)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_prepare_races_by_default(kind, tmp_path):
    assert int(run(PREPARES.format(""), kind, tmp_path)) > 3
    assert list(tmp_path.iterdir()), "the result is kept"
    assert int(run(PREPARES.format(""), kind, tmp_path)) == 0, "and decides in the next process"


def test_an_argument_or_the_environment_says_how_many_race(tmp_path):
    def launches(name, argument="", **environment):
        return int(run(PREPARES.format(argument), "dense", tmp_path / name, **environment))

    three = launches("three")
    assert 0 < launches("two", ", race=2") < three
    assert launches("asked", ", race=3", SLUICE_RACE="0") == three
    assert 0 < launches("by environment", SLUICE_RACE="2") < three
    for name, argument, environment in (("a", ", race=0", {}), ("b", ", race=1", {}), ("c", "", {"SLUICE_RACE": "0"}),
                                        ("d", "", {"SLUICE_RACE": "1"}), ("e", ", race=0", {"SLUICE_RACE": "3"})):
        assert launches(name, argument, **environment) == 0, name
        assert not (tmp_path / name).exists() or not list((tmp_path / name).iterdir()), "the pick is no record"


def test_prepare_refuses_a_race_that_means_nothing():
    problem = sluice.Problem(64, 64, 64)
    for race in (-1, 17):
        with pytest.raises(sluice.InvalidArgument, match=rf"race = {race} must be in 0\.\.16: pass 0 for no race"):
            sluice.prepare(problem, race=race)
    with pytest.raises(sluice.InvalidType, match="race = 'three' must be an integer"):
        sluice.prepare(problem, race="three")
    with pytest.raises(sluice.InvalidArgument, match="race = 3 has no effect on a range of m"):
        sluice.prepare(problem, m=(1, 64), race=3)


@pytest.mark.parametrize("race", [None, "0"])
def test_first_calls_of_a_layer_race_and_bare_calls_do_not(race, tmp_path):
    run(LAYER.replace("RACES", str(race is None)), "dense", tmp_path, **({} if race is None else {"SLUICE_RACE": race}))


def test_no_default_race_while_torch_captures(monkeypatch):
    class Capturing:
        def is_initialized(self):
            return True

        def is_current_stream_capturing(self):
            return True

    monkeypatch.setitem(sys.modules, "torch", type("torch", (), {"cuda": Capturing()}))
    monkeypatch.delenv("SLUICE_RACE", raising=False)
    problem = sluice.Problem(72, 1024, 2048)
    assert fake_gpu.launches_of(lambda: sluice.prepare(problem)) == 0


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
