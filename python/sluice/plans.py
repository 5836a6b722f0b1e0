# SPDX-License-Identifier: Apache-2.0
"""Makes plans of problems, compiles their kernels, and makes kernels ready on a GPU."""
from __future__ import annotations

import ctypes
import dataclasses
import inspect
import os
import sys
from typing import Any, Iterable, NamedTuple, NoReturn, Optional, Sequence, Union

from . import errors
from ._arguments import check_keywords, choice_of, choices_of, entry, integer, list_of, name_of, path_of, shown, size_of, switch_of
from ._library import (CallStruct, CompiledStruct, Handle, OptionsStruct, RowPlansStruct, RowRangeStruct, default_device, lib,
                       new_call)
from ._names import DTYPES, number_of
from .convolutions import Convolution
from .formats import WeightFormat
from .problems import Problem
from .workspaces import Workspace as Workspace  # noqa: PLC0414 (sluice.torch imports it from here)

AnyProblem = Union[Problem, Convolution]


@entry
class Plan:
    """The kernel chosen for one problem, with its configuration and launch. ``plan()`` and ``race()`` make it.

    A plan is immutable, and a copy is the same object. It cannot be pickled, because tuning records and the GPU may differ
    where it is unpickled: pickle its ``problem`` instead.
    """

    __slots__ = ("_handle", "_problem", "__weakref__")

    def __init__(self, handle: Handle, problem: AnyProblem) -> None:
        if not isinstance(handle, Handle):
            raise errors.InvalidType("a Plan is made by sluice.plan()")
        self._handle, self._problem = handle, problem

    def __copy__(self) -> "Plan":
        return self

    def __deepcopy__(self, memo: Any) -> "Plan":
        return self

    def __reduce__(self) -> NoReturn:
        raise errors.InvalidType("a Plan cannot be pickled: pickle plan.problem, and call sluice.plan() of it where it is read")

    @property
    def problem(self) -> AnyProblem:
        """The problem that the plan is for."""
        return self._problem

    def flags(self) -> str:
        """Returns the problem as flags of the ``sluice`` program, as ``Problem.flags`` does."""
        return self.problem.flags()

    @property
    def text(self) -> str:
        """The plan as readable text, as ``sluice plan`` prints it: the problem, the kernel and the model's breakdown of its
        time."""
        return lib.sluice_plan_text(self._handle).decode()

    @property
    def config(self) -> str:
        """The kernel's configuration as a C++ initialiser."""
        return lib.sluice_plan_config(self._handle).decode()

    @property
    def units(self) -> tuple[str, ...]:
        """Source texts for NVRTC, one per kernel of a launch: two if ``combine`` is "separate" (the second adds up the split-K
        slices), else one.

        If the plan numbers clusters by GPC, one more text follows. Its kernel runs once per device and finds the GPC of each SM.
        """
        return tuple(lib.sluice_plan_unit(self._handle, i).decode()
                     for i in range(lib.sluice_plan_unit_count(self._handle)))

    @property
    def source(self) -> str:
        """The origin of the choice: "record" (a tuning record, measured) or "model" (the planner's estimate)."""
        return lib.sluice_plan_source(self._handle).decode()

    @property
    def workspace_bytes(self) -> int:
        """Bytes of workspace that a launch needs; 0 without split-K."""
        return lib.sluice_plan_workspace_bytes(self._handle)

    @property
    def estimate_us(self) -> float:
        """Time of a launch in microseconds: measured if a record of this problem chose, else the model's estimate."""
        return lib.sluice_plan_estimate_us(self._handle)

    def __repr__(self) -> str:
        p = self.problem
        text = p.text if isinstance(p, Convolution) else f"{p.m}x{p.n}x{p.k}"
        return f"<sluice.Plan {text}: {self.config}>"

    def __str__(self) -> str:
        return self.text


def _problem_of(call: str, problem: Optional[AnyProblem], fields: dict[str, Any]) -> AnyProblem:
    """Returns the problem that ``call`` is given, or the ``Problem`` with these fields. Raises ``InvalidCall`` for a name that is
    neither a field nor an argument of ``call``."""
    if problem is None:
        own = [name for name in inspect.signature(globals()[call]).parameters if name not in ("problem", "fields")]
        check_keywords(call, fields, [field.name for field in dataclasses.fields(Problem)], own)
        return Problem(**fields)
    if not isinstance(problem, (Problem, Convolution)):
        raise errors.InvalidType(f"{call}: problem = {shown(problem)} must be a sluice.Problem or a sluice.Convolution, and is of type "
                                 f"{type(problem).__name__}: pass one, or the fields of Problem by their names")
    if fields:
        raise errors.InvalidArgument(f"{call}: give a {type(problem).__name__} or its fields ({shown(list(fields))}), not both")
    return problem


def _text_of(numbers: dict[str, object], names: dict[str, object], switches: dict[str, Optional[bool]]) -> bytes:
    """Returns the choices that are not None, as the text that the C interface takes. A separator in a name cannot begin another
    choice."""
    given = {name: str(choice_of(name, value, bits=64 if name == "workspace_limit" else 32)).encode()
             for name, value in numbers.items() if value is not None}
    for name, text in names.items():
        if text is not None:
            given[name] = (name_of(name, text) or b"").translate(bytes.maketrans(b" ,", b"__"))
    given.update({name: b"true" if switch_of(name, value) else b"false" for name, value in switches.items() if value is not None})
    return b", ".join(name.encode() + b"=" + value for name, value in given.items())


def _for_target(function: Any, device: Optional[int], gpu: object, *arguments: object) -> None:
    """Calls ``function`` of the C interface for a device, or its variant that takes the name of a GPU if ``gpu`` is given."""
    if gpu is None:
        function(None if device is None else default_device(device), *arguments)
        return
    if device is not None:
        raise errors.InvalidArgument(f"device = {shown(device)} and gpu = {shown(gpu)}: give one of them")
    getattr(lib, f"{function.__name__}_for")(name_of("gpu", gpu), *arguments)


@entry
def plan(problem: Optional[AnyProblem] = None, *, device: Optional[int] = None, gpu: Optional[str] = None,
         schedule: Optional[str] = None, tile: Optional[Sequence[Optional[int]]] = None, cluster: Optional[Sequence[int]] = None,
         stages: Optional[int] = None, warps: Optional[int] = None, w_stages: Optional[int] = None, k_groups: Optional[int] = None,
         ctas: Optional[int] = None, store: Optional[str] = None, raster: Optional[str] = None, raster_group: Optional[int] = None,
         clusters: Optional[int] = None, splits: Optional[int] = None, combine: Optional[str] = None, swapped: Optional[bool] = None,
         workspace_limit: Optional[int] = None, ignore_records: bool = False, **fields: object) -> Plan:
    """Returns the plan of a problem: the kernel that would run, with its estimated time. Needs no GPU.

    >>> print(sluice.plan(m=4096, n=4096, k=4096, a="e4m3", gpu="h100"))
    >>> print(sluice.plan(m=16, n=4096, k=4096, packed=sluice.WeightFormat(group=64), schedule="narrow", tile=(16, None)))

    - ``problem``: a ``Problem`` or a ``Convolution``. Instead, ``fields`` may give those of ``Problem``.
    - ``device``: the number of a GPU of this machine. ``gpu``: the name of a GPU that this machine need not have ("h200", "h100",
      "h100-nvl", "h100-pcie", "gh200", "h20"). Without both, the plan is for the machine's first GPU. On a machine without a GPU
      it is for an H200, and its text says so.

    The other arguments replace choices of the planner, as the flags of ``sluice plan`` do; None leaves a choice to it:

    - ``schedule``: "ping_pong", "cooperative"; for few rows of A "plain" and "plain_wgmma"; for packed weights "narrow", "strip"
      (the only one for e4m3 tokens) and "wide". Without it the planner takes any that has the other choices.
    - ``tile``: rows of A and columns of A B (twice those of D if gated) per CTA; either may be None. narrow takes 8, 16 or 32 rows
      and 32, 64 or 128 columns, strip multiples of 64 columns, wide 128.
    - ``cluster``: CTAs of a cluster along m and n, or along m, n and k. narrow and strip have clusters along k, wide along n.
    - ``stages``: slots of the ring in shared memory. ``w_stages``: of the ring of weights (wide, whose ``stages`` are for A).
    - ``warps``: warps of a CTA (plain, plain_wgmma, narrow). ``ctas``: CTAs that share an SM (narrow). ``k_groups``: warpgroups
      that share k (strip).
    - ``ignore_records`` = True: a tuning record of the problem does not decide. Nor does it beside any choice but
      ``workspace_limit``.

    These are for weights that are not packed:

    - ``store``: "tma" or "direct". ``clusters``: how many are launched. ``raster``: "along_m" or "along_n", in bands of
      ``raster_group`` clusters.
    - ``splits``: slices of each tile along k; 1: whole tiles. ``combine``: who adds them up: "last_arriver", "separate" (a kernel of
      its own) or "add" (into D). ``workspace_limit``: most bytes of workspace.
    - ``swapped`` = True: the kernel computes the transpose of D, with B as its first operand; tile, cluster and raster then apply
      to that product. False: it never does.

    Raises ``InvalidConfig`` for choices that break a rule of the kernels, and the errors of ``Problem.check``.
    """
    problem = _problem_of("plan", problem, fields)
    numbers: dict[str, object] = dict(zip(("tile_m", "tile_n"), choices_of("tile", tile, 2, gaps=True)))
    numbers.update(zip(("cluster_m", "cluster_n", "cluster_k"), choices_of("cluster", cluster, 2, 3)))
    numbers.update(stages=stages, warps=warps, w_stages=w_stages, k_groups=k_groups, ctas=ctas, raster_group=raster_group,
                   clusters=clusters, splits=splits, workspace_limit=workspace_limit)
    choices = _text_of(numbers, {"schedule": schedule, "store": store, "raster": raster, "combine": combine},
                       {"swapped": swapped, "ignore_records": ignore_records or None})
    handle = Handle(lib.sluice_plan_free)
    _for_target(lib.sluice_plan_create, device, gpu, ctypes.byref(new_call(problem.struct())), choices, ctypes.byref(handle._as_parameter_))
    return Plan(handle, problem)


MOST_CANDIDATES = 16  # the library refuses more


@entry
def race(problem: Optional[AnyProblem] = None, *, candidates: int = 3, device: int = 0, **fields: object) -> Plan:
    """Times likely plans of a problem on a GPU and returns the winner. ``prepare`` makes calls use it from now on:

    >>> sluice.prepare(sluice.race(m=4096, n=4096, k=4096, a="e4m3"))

    - ``problem``: a ``Problem`` or ``Convolution`` (``problem_of(a, b, out)`` makes one from tensors). Instead, ``fields`` may give
      those of ``Problem``.
    - ``candidates``: how many plans to time, 1 to 16: the model's choice, the best of each other schedule, then the next best.
    - ``device``: the number of the GPU.

    The model's choice stays unless another plan is faster by 1 % and in nine rounds of ten. Plans whose results differ
    from the others' are dropped. The plan's ``source`` is "record", and its ``estimate_us`` the measured microseconds of a
    launch. If rounds of one plan differ by more than 5 %, other work was on the GPU: then it is the model's choice, ``source``
    is "model", and nothing is kept. No array of the caller's is used: the race allocates up to 4 GB and waits for the GPU. It takes about 20 ms
    beside the compiles; with no kernel in the cache, 350 ms on two cores. It ends no capture of another thread.

    The result is kept below the records of the user's folder (SLUICE_RECORDS_DIR), if that can be written. It decides on
    this very card, driver and version of sluice, for ``plan`` from now on and for later processes. A problem that this
    process has run already needs ``prepare``. Elsewhere the result is one more candidate. A packed product that is
    gated, has a residual, or norms its tokens is not kept. A problem that has a record or a result of this card gets its
    plan, and one without a product to launch the model's; nothing is timed then.

    Raises ``InvalidArgument`` for ``candidates`` out of range, and the errors of ``Problem.check``. Raises ``InvalidSize`` if the
    arrays exceed 4 GiB together, ``ToolchainError`` if the first plan cannot be compiled, and ``DriverError`` without a GPU or
    enough free memory.
    """
    raced = _problem_of("race", problem, fields)
    count = integer("candidates", candidates)
    if not 1 <= count <= MOST_CANDIDATES:
        raise errors.InvalidArgument(f"candidates = {shown(count)} must be in 1..{MOST_CANDIDATES}: pass 3, which finds most of the "
                                     "gain")
    call, handle = new_call(raced.struct()), Handle(lib.sluice_plan_free)  # made before the device: a wrong problem raises even without a GPU
    lib.sluice_race(default_device(device), ctypes.byref(call), count, ctypes.byref(handle._as_parameter_))
    return Plan(handle, raced)


@entry
def explain(problem: Union[AnyProblem, Plan, None] = None, **arguments: object) -> str:
    """Returns the plan's text. ``problem`` is a plan, or a problem as ``plan()`` takes it, with the arguments of
    ``plan()``."""
    return (problem if isinstance(problem, Plan) else plan(problem, **arguments)).text  # type: ignore[arg-type]


# compile and prepare take one of these, or an iterable of them.
Preparable = Union[Problem, Convolution, Plan]
_PREPARABLE = (Problem, Convolution, Plan)
# A range of row counts (m): (first, last), both included, or range(first, last + 1).
Rows = Union[Sequence[int], range]


def _rows_of(m: Rows) -> RowRangeStruct:
    """Returns a range of row counts as a struct. Raises ``InvalidArgument`` unless it is two numbers or an ascending
    ``range``."""
    if isinstance(m, range):
        if not m or m.step < 1:
            raise errors.InvalidArgument(f"m = {shown(m)} must count up and not be empty: range(1, 513) is 1 to 512 rows")
        ends = [m[0], m[-1]]
    elif isinstance(m, Sequence) and not isinstance(m, (str, bytes)) and len(m) == 2:
        ends = list(m)
    else:
        raise errors.InvalidArgument(f"m = {shown(m)} must be two numbers of rows, from the first to the last, like (1, 512), or "
                                     "a range")
    return RowRangeStruct(size_of("m[0]", ends[0]), size_of("m[1]", ends[1]))


class RowPlans(NamedTuple):
    """The kernels that cover a range of row counts, as ``plan_rows`` chose them: those of fixed counts, at most 12."""

    plans: tuple[Plan, ...]
    """One plan for each kernel, with one m that it serves."""
    kernels: int
    """Number of kernels to compile, at most 12; a plan whose ``combine`` is "separate" has two."""
    text: str
    """Aligned lines for people, as ``sluice plan --rows`` prints them: the kernels, and the m that each serves."""

    def __str__(self) -> str:
        return self.text


@entry
def plan_rows(problem: Problem, m: Rows, *, device: Optional[int] = None, gpu: Optional[str] = None) -> RowPlans:
    """Returns a small set of kernels that covers every row count (m) of a range. Takes a fraction of a second. Needs no GPU; ``device``
    and ``gpu`` are as for ``plan``.

    ``m`` is the first and the last count, like ``(1, 512)``, or a ``range``, whose step is ignored. The problem's own m
    is ignored too. A stride of 0 still means "no gaps", for each m. Raises ``InvalidArgument`` if ``m`` is not such a range.
    """
    if isinstance(_item_of(problem), Plan):
        _refuse_rows(problem, m)  # type: ignore[arg-type]
    rows, found = _rows_of(m), RowPlansStruct()
    _for_target(lib.sluice_plan_rows, device, gpu, ctypes.byref(new_call(problem.struct())), ctypes.byref(rows), ctypes.byref(found))
    plans = []
    for i in range(found.count):
        handle = Handle(lib.sluice_plan_free)
        handle._as_parameter_ = ctypes.c_void_p(found.plans[i])
        plans.append(Plan(handle, problem))
    text = lib.sluice_plan_rows_text(plans[0]._handle).decode() if plans else ""
    return RowPlans(tuple(plans), found.summary.kernels, text)


class Compiled(NamedTuple):
    """How many kernels ``compile`` compiled, found in the cache, and failed to compile."""

    compiled: int
    already_there: int
    failed: int


def _item_of(item: object) -> Preparable:
    if not isinstance(item, _PREPARABLE):
        raise errors.InvalidType(f"what holds {shown(item)}, of type {type(item).__name__}, and must hold problems and plans: pass "
                                 "sluice.Problem, sluice.Convolution or what sluice.plan() gives")
    return item


def _items(what: object) -> list[Preparable]:
    return [what] if isinstance(what, _PREPARABLE) else list_of("what", what, _item_of)


def _format_of(what: str, weights: object) -> WeightFormat:
    if not isinstance(weights, WeightFormat):
        raise errors.InvalidType(f"{what} = {shown(weights)} must be a sluice.WeightFormat, as packed.format is")
    return weights


def _plans_of(item: Preparable, m: Optional[Rows], gpu: Optional[str]) -> tuple[Plan, ...]:
    if isinstance(item, Plan):
        _refuse_rows(item, m)
        if gpu is not None:
            raise errors.InvalidArgument(f"gpu = {shown(gpu)} has no effect on {shown(item)}, which is planned: give gpu to "
                                         "sluice.plan()")
        return (item,)
    if m is not None:
        return plan_rows(item, m, gpu=gpu).plans
    return (plan(item, gpu=gpu),)


def _refuse_rows(item: Plan, m: Optional[Rows]) -> None:
    if m is not None:
        raise errors.InvalidArgument(f"m = {shown(m)} has no effect on {shown(item)}, which is of one number of rows: give its "
                                     "Problem")


@entry
def compile(what: Union[Preparable, Iterable[Preparable]] = (), *, m: Optional[Rows] = None,  # noqa: A001 (the tool's verb)
            gpu: Optional[str] = None, quantizers: Iterable[object] = (), norms: Iterable[object] = (), experts: Iterable[object] = (),
            packers: Iterable[WeightFormat] = (), cache_dir: Union[str, os.PathLike, None] = None,
            nvrtc: Union[str, os.PathLike, None] = None, jobs: Optional[int] = None) -> Compiled:
    """Compiles kernels ahead of time into a cache, for machines that must not compile. Needs no GPU.

    - ``what``: a problem or a plan, or a list of them.
    - ``m``: a range of row counts, as for ``prepare``; for each problem, the kernels that cover the range are compiled.
    - ``gpu``: the name of the GPU that the kernels are for ("h100"), as for ``plan``. By default it is the machine's first
      GPU, or an H200 if there is none. The kernels may differ on another kind of GPU.
    - ``quantizers``, ``norms``: input types ("bf16", ...) for which quantisers and norms are compiled too.
    - ``experts``: types of rows for which the steps of ``sluice.torch.moe`` are compiled too.
    - ``packers``: formats for which the kernels that pack weights on a GPU are compiled too.
    - ``cache_dir``, ``nvrtc``: paths of the cache and of NVRTC, if not the defaults. ``jobs``: how many kernels to compile in
      parallel.

    Raises ``ToolchainError`` if any kernel could not be compiled, and ``StorageError`` if the cache cannot be written.
    """
    if m is not None:
        _rows_of(m)  # raises for a wrong range even if `what` is empty
    plans = [made for item in _items(what) for made in _plans_of(item, m, gpu)]
    if gpu is not None and not plans:
        plan(Problem(16, 16, 16), gpu=gpu)  # nothing was planned for it: raises for a wrong name
    formats = list_of("packers", packers, lambda weights: _format_of("packers", weights))
    types = list_of("quantizers", quantizers, lambda dtype: number_of("quantizers", dtype, DTYPES))
    norm_types = list_of("norms", norms, lambda dtype: number_of("norms", dtype, DTYPES))
    row_types = list_of("experts", experts, lambda dtype: number_of("experts", dtype, DTYPES))
    handles = (ctypes.c_void_p * len(plans))(*[item._handle._as_parameter_.value for item in plans])
    options = OptionsStruct(cache_dir=path_of("cache_dir", cache_dir), nvrtc_path=path_of("nvrtc", nvrtc), records_dir=None,
                            cache_read_only=-1, jobs=choice_of("jobs", jobs), race=-1)
    done, counts = CompiledStruct(), [0, 0, 0]

    def add(function: Any, *what: object) -> None:
        function(*what, ctypes.byref(options), ctypes.byref(done))
        for i, count in enumerate((done.compiled, done.already_there, done.failed)):
            counts[i] += count

    add(lib.sluice_compile, handles, len(plans))
    for dtype in types:
        add(lib.sluice_compile_quantizers, dtype)
    for dtype in norm_types:
        add(lib.sluice_compile_norms, dtype)
    for dtype in row_types:
        add(lib.sluice_compile_experts, dtype)
    for weights in formats:
        add(lib.sluice_compile_packer, ctypes.byref(weights.struct()))
    return Compiled(*counts)


def _racers_of(race: Optional[int]) -> int:
    """Returns ``prepare``'s argument as the library takes it: -1 for its default, and 0 instead of that while torch captures."""
    if race is None:
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        captures = cuda is not None and cuda.is_initialized() and cuda.is_current_stream_capturing()
        return 0 if captures else -1
    count = integer("race", race)
    if not 0 <= count <= MOST_CANDIDATES:
        raise errors.InvalidArgument(f"race = {shown(count)} must be in 0..{MOST_CANDIDATES}: pass 0 for no race, or leave it out for the "
                                     "default")
    return count


@entry
def prepare(what: Union[Preparable, Iterable[Preparable]], *, m: Optional[Rows] = None, race: Optional[int] = None,
            device: int = 0) -> None:
    """Compiles and loads, in parallel, every kernel that calls with these problems need on a GPU. If ``what`` holds a ``Plan``,
    later calls with its problem use that plan.

    ``m``: a range of row counts, ``(1, 512)`` or ``range(1, 513)``, which replaces each problem's own m. At most 12
    kernels cover it (``plan_rows`` tells which), none of which races. No later call with an m in the range
    compiles or loads a kernel.

    ``race``: how many plans of each problem without a record are timed, 0 to 16, as by ``race()``; the fastest is used and kept. 0
    or 1 times nothing and pins the model's choice. By default it is SLUICE_RACE, or 3 if that is not set. A default race takes at
    most 1/8 of the GPU's free memory and 4 GB. It never runs in a capture or with SLUICE_CACHE_READ_ONLY, and is tried once per
    problem and process. A number above 1 also races problems whose kernel the model chose earlier. A ``Plan`` does
    not race.

    Call it before a CUDA graph is captured, and before the first request is served. Raises ``ToolchainError`` if a kernel
    cannot be compiled, and ``InvalidArgument`` if ``m`` is given for a ``Plan`` or with ``race``, or ``race`` is out of range.
    """
    items = _items(what)
    racers = _racers_of(race)
    handle = default_device(device)
    if m is not None:
        if race is not None:
            raise errors.InvalidArgument(f"race = {shown(race)} has no effect on a range of m, whose kernels serve many m: leave it out, or "
                                         "prepare problems of one m each")
        rows = _rows_of(m)
        for item in items:
            if isinstance(item, Plan):
                _refuse_rows(item, m)
            lib.sluice_make_rows_ready(handle, ctypes.byref(new_call(item.struct())), ctypes.byref(rows), None)
        return
    calls = [new_call(item.struct()) for item in items if not isinstance(item, Plan)]
    if calls:
        lib.sluice_make_ready(handle, (CallStruct * len(calls))(*calls), len(calls), racers)
    for item in items:
        if isinstance(item, Plan):
            lib.sluice_use_plan(handle, item._handle)


@entry
def prepare_quantizers(dtype: object = "bf16", *, device: int = 0) -> None:
    """Compiles and loads the quantisers for an input type: bf16, fp16 or fp32. Call it before a CUDA graph is captured."""
    lib.sluice_make_quantizers_ready(default_device(device), number_of("dtype", dtype, DTYPES))


@entry
def prepare_experts(dtype: object = "bf16", *, device: int = 0) -> None:
    """Compiles and loads the steps of ``sluice.torch.moe`` for rows of a type: bf16 or fp16. Call it before a CUDA graph is captured."""
    lib.sluice_make_experts_ready(default_device(device), number_of("dtype", dtype, DTYPES))


@entry
def prepare_norms(dtype: object = "bf16", *, device: int = 0) -> None:
    """Compiles and loads the norms for an input type: bf16 or fp16. Call it before a CUDA graph is captured."""
    lib.sluice_make_norms_ready(default_device(device), number_of("dtype", dtype, DTYPES))


@entry
def prepare_packer(weights: WeightFormat, *, device: int = 0) -> None:
    """Compiles and loads the kernels that pack and unpack weights of a format. Call it before a CUDA graph is captured."""
    lib.sluice_make_packer_ready(default_device(device), ctypes.byref(_format_of("weights", weights).struct()))
