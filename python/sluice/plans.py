# SPDX-License-Identifier: Apache-2.0
"""From problems to plans, compiled kernels, and kernels ready on a GPU."""
from __future__ import annotations

import ctypes
import os
from typing import Iterable, NamedTuple, Optional, Sequence, Union

from . import errors
from ._library import (ChoicesStruct, CompiledStruct, HoldingsStruct, MixedChoicesStruct, MixedProblemStruct, OptionsStruct,
                       ProblemStruct, default_device, lib)
from .formats import MixedProblem, WeightFormat
from .problems import DTYPES, Problem, number_of


class Plan:
    """Everything decided about one problem: made by ``plan()`` or ``mixed_plan()``, immutable."""

    def __init__(self, handle: ctypes.c_void_p, problem: Union[Problem, MixedProblem]) -> None:
        self._handle = handle
        self.problem = problem

    def __del__(self) -> None:
        if lib is not None and getattr(self, "_handle", None):  # None while the interpreter ends
            lib.sluice_plan_free(self._handle)

    @property
    def text(self) -> str:
        """Aligned lines for people: the problem, what runs, where its time should go; as ``sluice plan`` prints."""
        return lib.sluice_plan_text(self._handle).decode()

    @property
    def config(self) -> str:
        """The kernel, as a C++ initialiser."""
        return lib.sluice_plan_config(self._handle).decode()

    @property
    def units(self) -> tuple[str, ...]:
        """What NVRTC compiles, a text for each kernel of a launch: one, or two where ``combine`` is "separate"; then,
        where clusters are numbered by GPC, that of the kernel by which a device is asked for its GPCs once."""
        return tuple(lib.sluice_plan_unit(self._handle, i).decode()
                     for i in range(lib.sluice_plan_unit_count(self._handle)))

    @property
    def source(self) -> str:
        """Who chose: "record" (this problem was measured) or "model"."""
        return lib.sluice_plan_source(self._handle).decode()

    @property
    def workspace_bytes(self) -> int:
        """What a launch needs; 0 where no sum is split."""
        return lib.sluice_plan_workspace_bytes(self._handle)

    @property
    def estimate_us(self) -> float:
        """Microseconds: measured if a record chose, else the model's."""
        return lib.sluice_plan_estimate_us(self._handle)

    def __repr__(self) -> str:
        return f"<sluice.Plan {self.problem.m}x{self.problem.n}x{self.problem.k}: {self.config}>"

    def __str__(self) -> str:
        return self.text


def _choices(schedule: Optional[str], tile: Optional[Sequence[int]], cluster: Optional[Sequence[int]],
             store: Optional[str], raster: Optional[str], combine: Optional[str],
             numbering: Optional[str], numbers: dict[str, Optional[int]],
             ignore_records: bool) -> ChoicesStruct:
    def name(text: Optional[str]) -> Optional[bytes]:
        return None if text is None else str(text).encode()

    def part(what: str, values: Optional[Sequence[int]], counts: tuple[int, ...]) -> list[int]:
        if values is None:
            return [-1] * counts[-1]
        if len(values) not in counts:
            raise errors.InvalidArgument(f"{what} = {values!r} must have {' or '.join(map(str, counts))} numbers")
        return [int(value) for value in values] + [-1] * (counts[-1] - len(values))

    tile_m, tile_n = part("tile", tile, (2,))
    cluster_m, cluster_n, cluster_k = part("cluster", cluster, (2, 3))
    return ChoicesStruct(
        schedule=name(schedule), store=name(store), raster=name(raster), combine=name(combine),
        numbering=name(numbering), tile_m=tile_m, tile_n=tile_n,
        cluster_m=cluster_m, cluster_n=cluster_n, cluster_k=cluster_k, ignore_records=int(ignore_records),
        **{key: -1 if value is None else int(value) for key, value in numbers.items()})


def plan(problem: Optional[Problem] = None, *, device: Optional[int] = None, schedule: Optional[str] = None,
         tile: Optional[Sequence[int]] = None, cluster: Optional[Sequence[int]] = None, stages: Optional[int] = None,
         store: Optional[str] = None, raster: Optional[str] = None, raster_group: Optional[int] = None,
         clusters: Optional[int] = None, streamed: Optional[int] = None, splits: Optional[int] = None,
         combine: Optional[str] = None, numbering: Optional[str] = None, workspace_limit: Optional[int] = None,
         swapped: Optional[bool] = None, ignore_records: bool = False, **fields: object) -> Plan:
    """What would run for a problem, and why it should be fast. Needs no GPU: without ``device`` it is an H200's plan.

    >>> print(sluice.plan(m=4096, n=4096, k=4096, a="e4m3"))

    ``fields`` are those of ``Problem``; the other arguments overrule the planner as the flags of ``sluice plan`` do.
    With ``swapped=True`` B is multiplied by A, and tile, cluster and raster are meant for that product.
    """
    if problem is None:
        try:
            problem = Problem(**fields)  # type: ignore[arg-type]
        except TypeError as error:
            raise errors.InvalidArgument(f"plan: {error}; see sluice.Problem for the fields") from None
    elif fields:
        raise errors.InvalidArgument(f"plan: give a Problem or its fields ({', '.join(fields)}), not both")
    choices = _choices(schedule, tile, cluster, store, raster, combine, numbering,
                       {"stages": stages, "raster_group": raster_group, "clusters": clusters, "streamed": streamed,
                        "splits": splits, "workspace_limit": workspace_limit, "swapped": swapped}, ignore_records)
    handle = ctypes.c_void_p()
    lib.sluice_plan_create(default_device(device) if device is not None else None, ctypes.byref(problem.struct()),
                           ctypes.byref(choices), ctypes.byref(handle))
    return Plan(handle, problem)


def mixed_plan(problem: Optional[MixedProblem] = None, *, device: Optional[int] = None, token_blocks: Optional[int] = None,
               row_blocks: Optional[int] = None, warps: Optional[int] = None, stages: Optional[int] = None,
               parts: Optional[int] = None, ctas: Optional[int] = None, tokens: Optional[int] = None,
               cluster_n: Optional[int] = None, cluster_k: Optional[int] = None, x_stages: Optional[int] = None,
               w_stages: Optional[int] = None, tail_parts: Optional[int] = None, strips: Optional[int] = None,
               k_groups: Optional[int] = None, ignore_records: bool = False, **fields: object) -> Plan:
    """The same for tokens of 16 bits, or of e4m3, times packed weights. Needs no GPU: without ``device`` it is an H200's
    plan.

    >>> print(sluice.mixed_plan(m=16, n=4096, k=4096, weights=sluice.WeightFormat("uint4", group=64)))

    ``fields`` are those of ``MixedProblem``; the other arguments overrule the planner. The first six are the
    narrow kernel's, the next six the wide one's; the strip kernel, the only one for e4m3 tokens, has ``tokens``, ``strips``,
    ``k_groups``, ``parts`` and ``stages``. The planner chooses among the kernels that have all that are given. A tuning record of the problem decides where none is given, but with
    ``ignore_records``.
    """
    if problem is None:
        try:
            problem = MixedProblem(**fields)  # type: ignore[arg-type]
        except TypeError as error:
            raise errors.InvalidArgument(f"mixed_plan: {error}; see sluice.MixedProblem for the fields") from None
    elif fields:
        raise errors.InvalidArgument(f"mixed_plan: give a MixedProblem or its fields ({', '.join(fields)}), not both")
    given = {"token_blocks": token_blocks, "row_blocks": row_blocks, "warps": warps, "stages": stages, "parts": parts,
             "ctas": ctas, "tokens": tokens, "cluster_n": cluster_n, "cluster_k": cluster_k, "x_stages": x_stages,
             "w_stages": w_stages, "tail_parts": tail_parts, "strips": strips, "k_groups": k_groups,
             "ignore_records": ignore_records}
    choices = MixedChoicesStruct(**{key: -1 if value is None else int(value) for key, value in given.items()})
    handle = ctypes.c_void_p()
    lib.sluice_mixed_plan_create(default_device(device) if device is not None else None, ctypes.byref(problem.struct()),
                                 ctypes.byref(choices), ctypes.byref(handle))
    return Plan(handle, problem)


def explain(problem: Union[Problem, MixedProblem, Plan, None] = None, **arguments: object) -> str:
    """The plan's text; arguments as ``plan()``, or as ``mixed_plan()`` for a ``MixedProblem``."""
    if isinstance(problem, Plan):
        return problem.text
    make = mixed_plan if isinstance(problem, MixedProblem) else plan
    return make(problem, **arguments).text  # type: ignore[arg-type]


# What compile and prepare take, alone or many of them.
Preparable = Union[Problem, MixedProblem, Plan]


class Compiled(NamedTuple):
    """What ``compile`` did."""

    compiled: int
    already_there: int
    failed: int


def _items(what: Union[Preparable, Iterable[Preparable]]) -> list[Preparable]:
    return [what] if isinstance(what, (Problem, MixedProblem, Plan)) else list(what)


def _plan_of(item: Preparable) -> Plan:
    if isinstance(item, Plan):
        return item
    return mixed_plan(item) if isinstance(item, MixedProblem) else plan(item)


def compile(what: Union[Preparable, Iterable[Preparable]] = (), *,  # noqa: A001 (the tool's verb)
            quantizers: Iterable[object] = (), packers: Iterable[WeightFormat] = (), cache_dir: Union[str, os.PathLike, None] = None,
            nvrtc: Union[str, os.PathLike, None] = None, jobs: Optional[int] = None) -> Compiled:
    """Fills a kernel cache ahead of time, for machines that shall not compile; needs no GPU.

    ``quantizers``: input types ("bf16", ...) whose quantisers are compiled too; ``packers``: formats
    of weights that are packed on a GPU. Raises ``ToolchainError`` if any kernel
    could not be compiled, ``StorageError`` if the cache cannot be written.
    """
    plans = [_plan_of(item) for item in _items(what)]
    handles = (ctypes.c_void_p * len(plans))(*[item._handle for item in plans])
    options = OptionsStruct(
        cache_dir=None if cache_dir is None else os.fsencode(cache_dir),
        nvrtc_path=None if nvrtc is None else os.fsencode(nvrtc), records_dir=None, cache_read_only=-1,
        jobs=-1 if jobs is None else jobs)
    done = CompiledStruct()
    lib.sluice_compile(handles, len(plans), ctypes.byref(options), ctypes.byref(done))
    counts = [done.compiled, done.already_there, done.failed]
    for dtype in quantizers:
        lib.sluice_compile_quantizers(number_of("quantizers", dtype, DTYPES), ctypes.byref(options), ctypes.byref(done))
        counts = [count + more for count, more in zip(counts, (done.compiled, done.already_there, done.failed))]
    for weights in packers:
        lib.sluice_compile_packer(ctypes.byref(weights.struct()), ctypes.byref(options), ctypes.byref(done))
        counts = [count + more for count, more in zip(counts, (done.compiled, done.already_there, done.failed))]
    return Compiled(*counts)


def prepare(what: Union[Preparable, Iterable[Preparable]], *, device: int = 0) -> None:
    """Makes everything ready on a GPU that calls with such problems need: kernels, compiled in parallel, and where
    sums are split a workspace for a stream that will capture. A ``Plan`` is used as it is from now on, with its choices.

    Call it before a CUDA graph is captured, and before the first request is served.
    """
    items = _items(what)
    handle = default_device(device)
    problems = [item.struct() for item in items if isinstance(item, Problem)]
    if problems:
        lib.sluice_make_ready(handle, (ProblemStruct * len(problems))(*problems), len(problems))
    mixed = [item.struct() for item in items if isinstance(item, MixedProblem)]
    if mixed:
        lib.sluice_mixed_make_ready(handle, (MixedProblemStruct * len(mixed))(*mixed), len(mixed))
    for item in items:
        if isinstance(item, Plan):
            lib.sluice_use_plan(handle, item._handle)


def prepare_quantizers(dtype: object = "bf16", *, device: int = 0) -> None:
    """Compiles and loads the quantisers of an input type, and keeps a workspace in store for a stream that will capture
    one by tensor. Call it before a CUDA graph is captured."""
    lib.sluice_make_quantizers_ready(default_device(device), number_of("dtype", dtype, DTYPES))


def prepare_packer(weights: WeightFormat, *, device: int = 0) -> None:
    """Compiles and loads the kernels that pack and unpack weights of a format, for a stream that will capture them."""
    lib.sluice_make_packer_ready(default_device(device), ctypes.byref(weights.struct()))


class Workspace:
    """Zeroed device memory in which split sums meet, for callers that do not want the one lent to each stream: one for
    each graph, say. Pass it as ``workspace=`` and keep it as long as a graph that used it."""

    def __init__(self, device: int = 0, nbytes: Optional[int] = None) -> None:
        self._handle = ctypes.c_void_p()
        lib.sluice_workspace_create(default_device(device), -1 if nbytes is None else nbytes, ctypes.byref(self._handle))

    def __del__(self) -> None:
        if lib is not None and getattr(self, "_handle", None):
            lib.sluice_workspace_free(self._handle)

    @property
    def nbytes(self) -> int:
        return lib.sluice_workspace_bytes(self._handle)

    @property
    def address(self) -> int:
        """Of the handle; what the compiled functions take."""
        return self._handle.value or 0

    def verify(self) -> None:
        """Waits for the device; raises ``WorkspaceError`` if a counter is not zero."""
        lib.sluice_workspace_verify(self._handle)

    def reset(self, stream: int = 0) -> None:
        """Zeroes it in stream order; after an aborted kernel."""
        lib.sluice_workspace_reset(self._handle, ctypes.c_void_p(stream))


def verify_workspaces(device: int = 0) -> None:
    """Waits for the device; raises ``WorkspaceError`` if one that was lent to a stream is not clean."""
    lib.sluice_verify_workspaces(default_device(device))


def reset_workspaces(device: int = 0) -> None:
    """Zeroes those that were lent, and waits; after an aborted kernel."""
    lib.sluice_reset_workspaces(default_device(device))


class Holdings(NamedTuple):
    """What is kept on a GPU."""

    kernels: int
    workspaces: int
    workspace_bytes: int


def holdings(device: int = 0) -> Holdings:
    """Kernels ready by problem, workspaces lent by stream, and the bytes of these and of those in store."""
    found = HoldingsStruct()
    lib.sluice_device_holdings(default_device(device), ctypes.byref(found))
    return Holdings(found.kernels, found.workspaces, found.workspace_bytes)
