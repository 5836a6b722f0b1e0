# SPDX-License-Identifier: Apache-2.0
"""Threads for tests; torch is not needed here."""
import threading
from collections.abc import Callable, Iterable


def in_threads(work: Callable[[int], None], arguments: Iterable[int]) -> None:
    """Calls ``work`` once per argument, all at the same time. If a call raises, the test fails after all have
    ended."""
    raised = []

    def call(argument):
        try:
            work(argument)
        except BaseException as error:  # noqa: BLE001 - a thread's own would be printed and forgotten
            raised.append(error)

    threads = [threading.Thread(target=call, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
