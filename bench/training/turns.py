# SPDX-License-Identifier: Apache-2.0
"""Times contenders in turn, so that a clock that changes is the same for all."""
import torch


def ms_of(work):
    """Returns the milliseconds of GPU time from the first to the last launch of ``work()``."""
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def in_turns(works, rounds):
    """Returns the milliseconds of each work in each round. The first round is thrown away."""
    times = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            ms = ms_of(work)
            if turn:
                times[name].append(ms)
    return times
