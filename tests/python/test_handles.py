# SPDX-License-Identifier: Apache-2.0
"""Each handle of the library is freed once, however its owners are copied, from any thread, and while Python
exits."""
import copy
import ctypes
import gc
import pickle
import subprocess
import sys

import pytest

import sluice
from sluice import _library
from thread_helpers import in_threads


@pytest.fixture
def freed(monkeypatch):
    """Records the addresses that are freed. Nothing is really freed, so no address is used twice."""
    addresses = []
    monkeypatch.setattr(_library.lib, "sluice_plan_free", lambda pointer: addresses.append(pointer.value))
    return addresses


def plan(**fields):
    return sluice.plan(m=64, n=64, k=64, **fields)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda p: copy.deepcopy([p])[0], lambda p: copy.copy({"p": p})["p"]])
def test_a_copy_of_a_plan_outlives_it(copied, freed):
    first = plan()
    address, text = first._handle._as_parameter_.value, first.text
    second = copied(first)
    del first
    gc.collect()
    assert not freed and second.text == text and second.problem == sluice.Problem(64, 64, 64)
    del second
    gc.collect()
    assert freed == [address]


def test_a_handle_that_is_asked_to_end_twice_is_freed_once(freed):
    handle = plan()._handle
    handle.__del__()
    handle.__del__()
    del handle
    assert len(freed) == 1


def test_a_plan_that_was_freed_answers_nothing_and_does_not_crash():
    kept = plan()
    kept._handle.__del__()
    assert _library.lib.sluice_plan_text(kept._handle) is None


def test_threads_that_drop_the_last_reference(freed):
    shared = [[plan() for _ in range(8)] for _ in range(40)]

    def drop(thread):
        for plans in shared:
            mine = [copy.copy(one) for one in list(plans)]
            plans.clear()
            assert all(one.text for one in mine)

    made = sum(map(len, shared))
    in_threads(drop, range(8))
    gc.collect()
    assert len(freed) == len(set(freed)) == made


@pytest.mark.parametrize("call", [pickle.dumps, lambda p: pickle.dumps([p], 2), lambda p: pickle.dumps(p._handle),
                                  lambda p: copy.copy(p._handle), lambda p: copy.deepcopy(p._handle)])
def test_what_cannot_be_copied_says_so(call):
    with pytest.raises(sluice.InvalidType, match="pickle plan.problem|copy what it was made of"):
        call(plan())


def test_a_workspace_is_not_copied():
    """Copying a workspace raises: with two owners of one handle, two streams could write to the same memory.
    """
    bare = sluice.Workspace.__new__(sluice.Workspace)
    for call in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(sluice.InvalidType, match=r"sluice\.Workspace\(device, nbytes\)"):
            call(bare)


def test_a_plan_is_immutable():
    with pytest.raises(AttributeError):
        plan().problem = None
    with pytest.raises(AttributeError):
        plan().colour = 1


@pytest.mark.parametrize("value", [sluice.Problem(64, 64, 64, a="e4m3"), sluice.WeightFormat(), sluice.Problem(16, 64, 128, packed=sluice.WeightFormat()),
                                   sluice.WeightFormat().numbers(64, 128), sluice.Compiled(1, 2, 3), sluice.Holdings(1, 2, 3),
                                   sluice.InvalidSize("m = -1")])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_values_are_copied_by_value(value, copied):
    assert repr(copied(value)) == repr(value)


def test_packed_weights_are_copied_by_value():
    np = pytest.importorskip("numpy")
    pytest.importorskip("tvm_ffi")
    quantized = sluice.weights.quantize_groups(np.arange(64 * 128, dtype=np.float32).reshape(64, 128), 64)
    packed = sluice.pack_int4(quantized)
    for made in (copy.copy(packed), copy.deepcopy(packed), pickle.loads(pickle.dumps(packed))):
        assert (made.unpack().codes == quantized.codes).all() and made.numbers == packed.numbers
    assert (pickle.loads(pickle.dumps(quantized)).codes == quantized.codes).all()


ENDS = """
import copy, sys, threading, sluice
plans = [sluice.plan(m=64, n=64, k=64) for _ in range(50)]
sluice.kept = copy.copy(plans[0])                  # as old as the module
cycle = [plans[1]]; cycle.append(cycle)            # found by the collector alone
sys.kept = plans[2]                                # among the last to go
class Late:
    def __del__(self): assert self.plan.text
late = Late(); late.plan = plans[3]; sys.late = late
threading.Thread(target=lambda: [copy.copy(plan).text for plan in plans * 20], daemon=True).start()
"""


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "del sluice, sys.modules['sluice'], sys.modules['sluice._library']"])
def test_the_interpreter_ends_with_plans_alive(end):
    done = subprocess.run([sys.executable, "-c", ENDS + end], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_first_script_that_freed_twice():
    """A copy and its original are deleted. This once ended in a segmentation fault or in "double free"."""
    code = "import sluice, copy; p = sluice.plan(m=64, n=64, k=64, a='bf16'); q = copy.copy(p); del p; q.text[:20]; del q"
    for _ in range(3):
        assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_a_handle_is_what_ctypes_takes():
    handle = plan()._handle
    assert isinstance(handle._as_parameter_, ctypes.c_void_p) and _library.lib.sluice_plan_workspace_bytes(handle) == 0
