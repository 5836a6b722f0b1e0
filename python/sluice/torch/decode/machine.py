# SPDX-License-Identifier: Apache-2.0
"""Where decode runs. CudaMachine records st.Steps, plans st.Chain, captures graphs and measures by events. The tests replace it by a twin
that computes the steps on the host (tests/python/chain_on_host.py)."""
from __future__ import annotations

import ctypes
import re
from typing import Any, Callable, Dict, Optional

import torch
from torch import Tensor

from ...errors import InternalError, InvalidArgument, UnsupportedArch, WrongDevice
from .now import Now

OVERLAPS = ("tuned", "off", "wait_first", "weights_first", "guarded")
# The datasheets' rates of HBM in GB/s, by patterns of device names.
_DATASHEETS = (("GH200 144G", 4900), ("GH200", 4000), ("H200", 4800), ("H100 NVL", 3900), ("H100 PCIe", 2000),
               ("H100", 3350), ("H20", 4000))


def datasheet_gb_s(name: str) -> Optional[int]:
    """Returns the datasheet's rate of a device's HBM in GB/s; None for a name that is not listed."""
    return next((rate for part, rate in _DATASHEETS if re.search(rf"\b{part}\b", name)), None)


class CudaMachine:
    """One GPU of compute capability 9.0."""

    def __init__(self, device: Any) -> None:
        self.device = torch.device("cuda" if device is None else device)
        if self.device.type != "cuda":
            raise WrongDevice(f"device = {str(self.device)!r} must be a CUDA device: decode's chains and graphs run on GPUs only")
        if not torch.cuda.is_available():
            raise WrongDevice("decode needs a CUDA device, and torch sees none (torch.cuda.is_available() is False): its chains and graphs "
                              "run on GPUs only")
        name, capability = torch.cuda.get_device_name(self.device), torch.cuda.get_device_capability(self.device)
        if capability != (9, 0):
            raise UnsupportedArch(f"{self.device} is {name}, of compute capability {capability[0]}.{capability[1]}, and decode needs 9.0: an "
                                  "H100, H200 or GH200")
        if self.device.index is None:
            self.device = torch.device("cuda", torch.cuda.current_device())
        from ... import torch as st

        self.now = Now(st)
        self._st, self._pool, self._stream = st, None, None

    @property
    def dtypes(self) -> tuple:
        return torch.bfloat16, torch.float16

    def quantize(self, input: Tensor, granularity: str) -> Any:
        return self._st.quantize(input, granularity)

    def steps(self) -> Any:
        return self._st.Steps()

    def chain(self, steps: Any, overlap: str, tune: Optional[float]) -> Any:
        if tune is not None:
            return self._st.Chain.tune(steps, tune)
        return self._st.Chain.guarded(steps) if overlap == "guarded" else self._st.Chain(steps, overlap=overlap)

    def attention(self, **what: Any) -> Any:
        from ..attention import Attention

        return Attention(**what)

    def router(self, rows: int, experts: int, chosen: int, renormalised: bool) -> Any:
        """Returns what chooses the experts of a bucket's rows."""
        from .router import Router

        return Router(rows, experts, chosen, renormalised)

    def greedy(self, books: Any, rows: int) -> Callable[[Tensor], None]:
        """Returns the function that enters the likeliest token of each row."""
        from .greedy import Greedy

        return Greedy(books, rows, self.device).enter

    def capture(self, chain: Any, body: Callable[[], None]) -> "Token":
        """Runs the body once, which must change nothing but scratch, and captures it."""
        if self._stream is None:
            self._stream = torch.cuda.Stream(self.device)
        current = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            body()
        current.wait_stream(self._stream)
        torch.cuda.synchronize(self.device)
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            body()
        self._pool = self._pool or graph.pool()
        chain.check(graph)
        graph.instantiate()
        return Token(graph.replay, nodes_of(graph.raw_cuda_graph()))

    def current(self) -> Any:
        """Returns a context in which the machine's device is torch's current one."""
        return torch.cuda.device(self.device)

    def clock(self) -> "Clock":
        return Clock()

    def wait(self) -> None:
        torch.cuda.synchronize(self.device)

    def describe(self) -> Dict[str, Any]:
        name = torch.cuda.get_device_name(self.device)
        return {"device": name, "hbm_gb_s": datasheet_gb_s(name)}


class Token:
    """A captured token: ``run()`` enqueues it. ``launches``: the graph's nodes."""

    def __init__(self, run: Callable[[], Any], launches: Optional[int]) -> None:
        self.run, self.launches = run, launches


class Clock:
    """Milliseconds on the GPU between two places of a stream."""

    def __init__(self) -> None:
        self._begin, self._end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def begin(self) -> None:
        self._begin.record()

    def end(self) -> None:
        self._end.record()

    def ms(self) -> float:
        self._end.synchronize()
        return self._begin.elapsed_time(self._end)


def nodes_of(graph: int) -> int:
    """Returns the number of nodes of a CUgraph, which the driver says."""
    count = ctypes.c_size_t(0)
    status = ctypes.CDLL("libcuda.so.1").cuGraphGetNodes(ctypes.c_void_p(graph), None, ctypes.byref(count))
    if status != 0:
        raise InternalError(f"cuGraphGetNodes failed with {status} for the graph of a token")
    return int(count.value)


def check_overlap(overlap: str, tune: Optional[float]) -> None:
    if overlap not in OVERLAPS:
        raise InvalidArgument(f"overlap = {overlap!r} must be one of {', '.join(map(repr, OVERLAPS))}")
    if tune is not None and not tune > 0:
        raise InvalidArgument(f"tune = {tune!r} must be a positive number of seconds, or None")
    if tune is not None and overlap != "tuned":
        raise InvalidArgument(f"tune = {tune!r} is given and overlap = {overlap!r}: tuning is of overlap = 'tuned'")
