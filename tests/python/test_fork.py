# SPDX-License-Identifier: Apache-2.0
"""A child that is forked while other threads plan and compile gets an answer or an error, and never hangs.

fork() waits for such threads (sluice/run/jit/fork_gate.h). Before it did, a fifth of the children hung in NVRTC's mutex.
"""
import multiprocessing
import subprocess
import sys

import pytest

import sluice

SCRIPT = """
import os, signal, sys, threading, time
import sluice
what, folder, forks = sys.argv[1], sys.argv[2], int(sys.argv[3])
stop = threading.Event()

def compiling(thread):
    for i in range(10**6):
        if stop.is_set():
            return
        sluice.compile(sluice.plan(m=64, n=64, k=64 * (1 + i % 40)), cache_dir=f"{folder}/{thread}_{i}")

threads = [threading.Thread(target=compiling, args=(thread,)) for thread in range(2)]
for thread in threads:
    thread.start()
hung = []
for i in range(forks):
    time.sleep(0.05)                                         # the first fork falls into the first plan of all
    child = os.fork()
    if child == 0:
        signal.alarm(40)                                     # a signal that nothing catches ends a hung one
        try:
            plan = sluice.plan(m=72, n=64, k=64)
            if what == "compile":
                sluice.compile(plan, cache_dir=f"{folder}/child_{i}")
        except sluice.Error:
            pass
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if status != 0:
        hung.append((i, status))
stop.set()
for thread in threads:
    thread.join()
sys.exit(f"{hung}" if hung else 0)
"""


@pytest.mark.parametrize("what", ["plan", "compile"])
def test_children_of_a_process_that_compiles(what, cache, has_nvrtc):
    if not has_nvrtc:
        pytest.skip("no NVRTC")
    done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, what, str(cache), "12"], check=False,
                          capture_output=True, text=True, timeout=500)
    assert (done.returncode, done.stderr) == (0, "")


def told(text, answers):
    try:
        answers.put((sluice.plan(m=64, n=64, k=64).text == text, sluice.prepare(sluice.Problem(64, 64, 64))))
    except sluice.Error as error:
        answers.put((type(error).__name__, error.code))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_of_multiprocessing(start):
    context = multiprocessing.get_context(start)
    answers = context.Queue()
    worker = context.Process(target=told, args=(sluice.plan(m=64, n=64, k=64).text, answers))
    worker.start()
    answer = answers.get(timeout=120)
    worker.join(timeout=60)
    assert worker.exitcode == 0 and answer[0] in (True, "DriverError", "UnsupportedArch", "NotPrepared"), answer


def test_a_plan_that_was_made_before_is_freed_once_in_each_process():
    plan = sluice.plan(m=64, n=64, k=64)
    context = multiprocessing.get_context("fork")
    worker = context.Process(target=lambda: plan.text[:1] or sys.exit(3))
    worker.start()
    worker.join(timeout=60)
    assert worker.exitcode == 0 and plan.text


class Planned:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return len(sluice.plan(m=64 + index, n=64, k=64).text)


def test_workers_of_a_data_loader():
    torch = pytest.importorskip("torch")
    import sluice.torch  # noqa: F401 (a training script has imported it)

    loader = torch.utils.data.DataLoader(Planned(), num_workers=2, multiprocessing_context="fork")
    assert [int(batch) for batch in loader] == [len(sluice.plan(m=64 + i, n=64, k=64).text) for i in range(8)]
