# SPDX-License-Identifier: Apache-2.0
"""Makes plans of problems, compiles their kernels, and makes kernels ready on a GPU."""
from __future__ import annotations

import ctypes
import dataclasses
import os
from typing import Any, Iterable, NamedTuple, NoReturn, Optional, Sequence, Type, TypeVar, Union

from . import errors
from ._arguments import check_keywords, choice_of, choices_of, entry, integer, list_of, name_of, path_of, shown, size_of, switch_of
from ._library import (CompiledStruct, Handle, HoldingsStruct, OptionsStruct, ProblemStruct, RowPlansStruct, RowRangeStruct,
                       default_device, lib)
from .convolutions import Convolution
from .formats import PackedProblem, WeightFormat
from .problems import DTYPES, Problem, number_of

AnyProblem = Union[Problem, PackedProblem, Convolution]


@entry
class Plan:
    """Everything that is decided about one problem. ``plan()``, ``packed_plan()`` and ``race()`` make it.

    A plan is immutable, and a copy is the same object. It cannot be pickled, because tuning records and GPU may differ
    where it is read: pickle its ``problem`` instead.
    """

    __slots__ = ("_handle", "_problem", "__weakref__")

    def __init__(self, handle: Handle, problem: AnyProblem) -> None:
        if not isinstance(handle, Handle):
            raise errors.InvalidType("a Plan is made by sluice.plan() or sluice.packed_plan()")
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

    @property
    def text(self) -> str:
        """Aligned lines for people, as ``sluice plan`` prints them: the problem, the kernel and where its time should go."""
        return lib.sluice_plan_text(self._handle).decode()

    @property
    def config(self) -> str:
        """The kernel's configuration as a C++ initialiser."""
        return lib.sluice_plan_config(self._handle).decode()

    @property
    def units(self) -> tuple[str, ...]:
        """Source texts for NVRTC, one for each kernel of a launch: two where ``combine`` is "separate", else one.

        Where clusters are numbered by GPC, one more text follows. Its kernel asks a device once for its GPCs.
        """
        return tuple(lib.sluice_plan_unit(self._handle, i).decode()
                     for i in range(lib.sluice_plan_unit_count(self._handle)))

    @property
    def source(self) -> str:
        """The origin of the choice: "record" (this problem was measured) or "model"."""
        return lib.sluice_plan_source(self._handle).decode()

    @property
    def workspace_bytes(self) -> int:
        """Bytes of workspace that a launch needs; 0 where no sum is split."""
        return lib.sluice_plan_workspace_bytes(self._handle)

    @property
    def estimate_us(self) -> float:
        """Time of a launch in microseconds: measured if a record chose, else the model's estimate."""
        return lib.sluice_plan_estimate_us(self._handle)

    def __repr__(self) -> str:
        p = self.problem
        text = p.text if isinstance(p, Convolution) else f"{p.m}x{p.n}x{p.k}"
        return f"<sluice.Plan {text}: {self.config}>"

    def __str__(self) -> str:
        return self.text


_Kind = TypeVar("_Kind", bound=AnyProblem)


def _problem_of(call: str, kind: Type[_Kind], problem: object, fields: dict[str, Any]) -> _Kind:
    if problem is None:
        check_keywords(f"{call}: {kind.__name__}", fields, [field.name for field in dataclasses.fields(kind)])
        try:
            return kind(**fields)
        except TypeError as error:  # an unknown field, or a missing one
            raise errors.InvalidArgument(f"{call}: {error}") from None
    if not isinstance(problem, kind):
        raise errors.InvalidType(f"{call}: problem = {shown(problem)} must be a sluice.{kind.__name__}, and is of type "
                                 f"{type(problem).__name__}: pass one, or its fields by their names")
    if fields:
        raise errors.InvalidArgument(f"{call}: give a {kind.__name__} or its fields ({shown(list(fields))}), not both")
    return problem


def _choices_of(numbers: dict[str, object], names: dict[str, object], switches: dict[str, Optional[bool]]) -> bytes:
    """Returns the choices that are given, as the text that the C interface takes."""
    given = {name: str(choice_of(name, value, bits=64 if name == "workspace_limit" else 32)).encode()
             for name, value in numbers.items() if value is not None}
    for name, text in names.items():
        if text is not None:
            given[name] = (name_of(name, text) or b"").replace(b" ", b"_")
    given.update({name: b"true" if switch_of(name, value) else b"false" for name, value in switches.items() if value is not None})
    return b", ".join(name.encode() + b"=" + value for name, value in given.items())


def _planned(problem: AnyProblem, device: Optional[int], choices: bytes) -> Plan:
    handle = Handle(lib.sluice_plan_free)
    lib.sluice_plan_create(None if device is None else default_device(device), ctypes.byref(problem.struct()), choices,
                           ctypes.byref(handle._as_parameter_))
    return Plan(handle, problem)


@entry
def plan(problem: Union[Problem, Convolution, None] = None, *, device: Optional[int] = None, schedule: Optional[str] = None,
         tile: Optional[Sequence[int]] = None, cluster: Optional[Sequence[int]] = None, stages: Optional[int] = None, warps: Optional[int] = None,
         store: Optional[str] = None, raster: Optional[str] = None, raster_group: Optional[int] = None,
         clusters: Optional[int] = None, streamed: Optional[int] = None, splits: Optional[int] = None,
         combine: Optional[str] = None, numbering: Optional[str] = None, workspace_limit: Optional[int] = None,
         swapped: Optional[bool] = None, ignore_records: bool = False, **fields: object) -> Plan:
    """Returns the plan of a problem: the kernel that would run, and why it should be fast. Needs no GPU: without ``device``
    it plans for an H200.

    >>> print(sluice.plan(m=4096, n=4096, k=4096, a="e4m3"))

    ``problem`` may be a ``Convolution`` too; ``fields`` are those of ``Problem``. The other arguments overrule the planner, as
    the flags of ``sluice plan`` do. With ``swapped=True`` B is multiplied by A; tile, cluster and raster then apply to that
    product. Raises
    ``InvalidConfig`` for choices that break a rule of the kernels, and the errors of ``Problem.check``.
    """
    problem = _problem_of("plan", Convolution if isinstance(problem, Convolution) else Problem, problem, fields)
    numbers: dict[str, object] = dict(zip(("tile_m", "tile_n"), choices_of("tile", tile, 2)))
    numbers.update(zip(("cluster_m", "cluster_n", "cluster_k"), choices_of("cluster", cluster, 2, 3)))
    numbers.update(stages=stages, warps=warps, raster_group=raster_group, clusters=clusters, streamed=streamed, splits=splits,
                   workspace_limit=workspace_limit)
    names = {"schedule": schedule, "store": store, "raster": raster, "combine": combine, "numbering": numbering}
    return _planned(problem, device, _choices_of(numbers, names, {"swapped": swapped, "ignore_records": ignore_records or None}))


@entry
def packed_plan(problem: Optional[PackedProblem] = None, *, device: Optional[int] = None, token_blocks: Optional[int] = None,
               row_blocks: Optional[int] = None, warps: Optional[int] = None, stages: Optional[int] = None,
               parts: Optional[int] = None, ctas: Optional[int] = None, tokens: Optional[int] = None,
               cluster_n: Optional[int] = None, cluster_k: Optional[int] = None, x_stages: Optional[int] = None,
               w_stages: Optional[int] = None, tail_parts: Optional[int] = None, strips: Optional[int] = None,
               k_groups: Optional[int] = None, ignore_records: bool = False, **fields: object) -> Plan:
    """Returns the plan of a product of tokens (16 bits or e4m3) and packed weights. Needs no GPU: without ``device`` it
    plans for an H200.

    >>> print(sluice.packed_plan(m=16, n=4096, k=4096, weights=sluice.WeightFormat("uint4", group=64)))

    ``fields`` are those of ``PackedProblem``. The other arguments overrule the planner, which chooses among the kernels
    that have all the given ones:

    - the narrow kernel: ``token_blocks``, ``row_blocks``, ``warps``, ``stages``, ``parts``, ``ctas``;
    - the wide kernel: ``tokens``, ``cluster_n``, ``cluster_k``, ``x_stages``, ``w_stages``, ``tail_parts``;
    - the strip kernel, the only one for e4m3 tokens: ``tokens``, ``strips``, ``k_groups``, ``parts``, ``stages``.

    Where none is given, a tuning record of the problem decides, unless ``ignore_records`` is True. Raises
    ``InvalidConfig`` for choices that break a rule of the kernels, and the errors of ``PackedProblem.check``.
    """
    problem = _problem_of("packed_plan", PackedProblem, problem, fields)
    given = {"token_blocks": token_blocks, "row_blocks": row_blocks, "warps": warps, "stages": stages, "parts": parts,
             "ctas": ctas, "tokens": tokens, "cluster_n": cluster_n, "cluster_k": cluster_k, "x_stages": x_stages,
             "w_stages": w_stages, "tail_parts": tail_parts, "strips": strips, "k_groups": k_groups}
    return _planned(problem, device, _choices_of(given, {}, {"ignore_records": ignore_records or None}))


MOST_CANDIDATES = 16  # the library refuses more


@entry
def race(problem: Optional[AnyProblem] = None, *, candidates: int = 3, device: int = 0, **fields: object) -> Plan:
    """Times likely plans of a problem on a GPU and returns the winner. ``prepare`` makes calls use it from now on:

    >>> sluice.prepare(sluice.race(m=4096, n=4096, k=4096, a="e4m3"))

    - ``problem``: a ``Problem``, ``PackedProblem`` or ``Convolution`` (``problem_of(a, b, out)`` gives that of tensors);
      or ``fields``, those of ``Problem``.
    - ``candidates``: plans to time, 1 to 16: the model's choice, the best of each other schedule, and then the next best.
    - ``device``: the number of the GPU.

    The model's choice stays unless another plan is faster by 1 % and in nine rounds of ten. Plans whose results differ
    from the others' are dropped. The plan's ``source`` is "record", and its ``estimate_us`` the measured microseconds of a
    launch. No array of the caller's is used: the race allocates up to 4 GB and waits for the GPU. It takes about 20 ms
    beside the compiles; with no kernel in the cache, 350 ms on two cores. It ends no capture of another thread.

    The result is kept below the records of the user's folder (SLUICE_RECORDS_DIR), if that can be written. It decides on
    this very card, driver and version of sluice, for ``plan`` from now on and for later processes. A problem that this
    process has run already needs ``prepare``. Elsewhere the result is one more candidate. A packed product that is
    gated, has a residual, or norms its tokens is not kept. A problem that has a record or a result of this card gets its
    plan, and one without a product to launch the model's; nothing is timed then.

    Raises ``InvalidArgument`` for ``candidates`` out of range, and the errors of ``Problem.check``. ``InvalidSize``: the
    arrays are more than 4 GiB together. ``ToolchainError``: the first plan cannot be compiled. ``DriverError``: there is no
    GPU, or no memory left.
    """
    kind = type(problem) if isinstance(problem, (PackedProblem, Convolution)) else Problem
    raced: AnyProblem = _problem_of("race", kind, problem, fields)
    count = integer("candidates", candidates)
    if not 1 <= count <= MOST_CANDIDATES:
        raise errors.InvalidArgument(f"candidates = {shown(count)} must be in 1..{MOST_CANDIDATES}: pass 3, which finds most of the "
                                     "gain")
    struct, handle = raced.struct(), Handle(lib.sluice_plan_free)  # a problem of wrong values is refused without a GPU
    lib.sluice_race(default_device(device), ctypes.byref(struct), count, ctypes.byref(handle._as_parameter_))
    return Plan(handle, raced)


@entry
def explain(problem: Union[AnyProblem, Plan, None] = None, **arguments: object) -> str:
    """Returns the plan's text. ``problem`` is a plan, or a problem as ``plan()`` takes it, with the arguments of
    ``plan()``; a ``PackedProblem`` goes to ``packed_plan()``."""
    if isinstance(problem, Plan):
        return problem.text
    make = packed_plan if isinstance(problem, PackedProblem) else plan
    return make(problem, **arguments).text  # type: ignore[arg-type]


# compile and prepare take one of these, or many.
Preparable = Union[Problem, PackedProblem, Convolution, Plan]
_PREPARABLE = (Problem, PackedProblem, Convolution, Plan)
# A range of numbers of rows: (first, last), both included, or range(first, last + 1).
Rows = Union[Sequence[int], range]


def _rows_of(m: Rows) -> RowRangeStruct:
    """Returns a range of numbers of rows as a struct. Raises ``InvalidArgument`` if it is neither two numbers nor a range
    that counts up."""
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
    """The kernels that serve a range of numbers of rows, as ``plan_rows`` found them."""

    plans: tuple[Plan, ...]
    """One plan for each kernel, with one m that it serves."""
    kernels: int
    """Number of kernels to compile, at most 12; a plan whose ``combine`` is "separate" has two."""
    numbers: int
    """How many numbers of rows were examined: all of a range of up to 1024, some of a longer one."""
    unbounded: int
    """Number of kernels that would serve if each of those numbers had its own."""
    mean_loss: float
    """Mean loss of time against that, by the model; 0.01 is one per cent slower."""
    worst_loss: float
    worst_m: int


@entry
def plan_rows(problem: Union[Problem, PackedProblem], m: Rows, *, device: Optional[int] = None) -> RowPlans:
    """Returns the few kernels that serve every number of rows of a range. Takes about a second. Needs no GPU: without
    ``device`` it plans for an H200.

    ``m`` is the first and the last number, like ``(1, 512)``, or a ``range``, whose step is ignored. The problem's own m
    is ignored too, and its strides of 0 follow each m. Raises ``InvalidArgument`` if ``m`` is no such range.
    """
    if isinstance(_item_of(problem), Plan):
        _refuse_rows(problem, m)  # type: ignore[arg-type]
    rows, found = _rows_of(m), RowPlansStruct()
    lib.sluice_plan_rows(default_device(device) if device is not None else None, ctypes.byref(problem.struct()), ctypes.byref(rows),
                         ctypes.byref(found))
    plans = []
    for i in range(found.count):
        handle = Handle(lib.sluice_plan_free)
        handle._as_parameter_ = ctypes.c_void_p(found.plans[i])
        plans.append(Plan(handle, problem))
    s = found.summary
    return RowPlans(tuple(plans), s.kernels, s.numbers, s.unbounded, s.mean_loss, s.worst_loss, s.worst_m)


class Compiled(NamedTuple):
    """The numbers of kernels that ``compile`` compiled, found in the cache, and failed to compile."""

    compiled: int
    already_there: int
    failed: int


def _item_of(item: object) -> Preparable:
    if not isinstance(item, _PREPARABLE):
        raise errors.InvalidType(f"what holds {shown(item)}, of type {type(item).__name__}, and must hold problems and plans: pass "
                                 "sluice.Problem, sluice.PackedProblem, sluice.Convolution or what sluice.plan() gives")
    return item


def _items(what: object) -> list[Preparable]:
    return [what] if isinstance(what, _PREPARABLE) else list_of("what", what, _item_of)


def _format_of(what: str, weights: object) -> WeightFormat:
    if not isinstance(weights, WeightFormat):
        raise errors.InvalidType(f"{what} = {shown(weights)} must be a sluice.WeightFormat, as packed.format is")
    return weights


def _plans_of(item: Preparable, m: Optional[Rows]) -> tuple[Plan, ...]:
    if isinstance(item, Plan):
        _refuse_rows(item, m)
        return (item,)
    if m is not None:
        return plan_rows(item, m).plans
    return (packed_plan(item) if isinstance(item, PackedProblem) else plan(item),)


def _refuse_rows(item: Plan, m: Optional[Rows]) -> None:
    if m is not None:
        raise errors.InvalidArgument(f"m = {shown(m)} has no effect on {shown(item)}, which is of one number of rows: give its "
                                     "Problem")


@entry
def compile(what: Union[Preparable, Iterable[Preparable]] = (), *, m: Optional[Rows] = None,  # noqa: A001 (the tool's verb)
            quantizers: Iterable[object] = (), norms: Iterable[object] = (), packers: Iterable[WeightFormat] = (), cache_dir: Union[str, os.PathLike, None] = None,
            nvrtc: Union[str, os.PathLike, None] = None, jobs: Optional[int] = None) -> Compiled:
    """Fills a kernel cache ahead of time, for machines that shall not compile; needs no GPU.

    - ``what``: a problem or a plan, or a list of them.
    - ``m``: a range of numbers of rows, as for ``prepare``; the few kernels that serve it are compiled for each problem.
    - ``quantizers``, ``norms``: input types ("bf16", ...) for which quantisers and norms are compiled too.
    - ``packers``: formats for which the kernels that pack weights on a GPU are compiled too.
    - ``cache_dir``, ``nvrtc``: paths of the cache and of NVRTC, if not the defaults. ``jobs``: kernels at a time.

    Raises ``ToolchainError`` if any kernel could not be compiled, and ``StorageError`` if the cache cannot be written.
    """
    plans = [made for item in _items(what) for made in _plans_of(item, m)]
    formats = list_of("packers", packers, lambda weights: _format_of("packers", weights))
    types = list_of("quantizers", quantizers, lambda dtype: number_of("quantizers", dtype, DTYPES))
    norm_types = list_of("norms", norms, lambda dtype: number_of("norms", dtype, DTYPES))
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
    for weights in formats:
        add(lib.sluice_compile_packer, ctypes.byref(weights.struct()))
    return Compiled(*counts)


@entry
def prepare(what: Union[Preparable, Iterable[Preparable]], *, m: Optional[Rows] = None, device: int = 0) -> None:
    """Compiles and loads, in parallel, every kernel that calls with such problems need on a GPU. Calls with a ``Plan``'s
    problem use that plan, with its choices, from now on.

    ``m``: a range of numbers of rows, ``(1, 512)`` or ``range(1, 513)``, which replaces each problem's own. At most 12
    kernels serve all of it (``plan_rows`` says at which loss). No later call with a number inside compiles or loads one.

    Call it before a CUDA graph is captured, and before the first request is served. Raises ``ToolchainError`` if a kernel
    cannot be compiled, and ``InvalidArgument`` if ``m`` is given for a ``Plan``.
    """
    items = _items(what)
    handle = default_device(device)
    if m is not None:
        rows = _rows_of(m)
        for item in items:
            if isinstance(item, Plan):
                _refuse_rows(item, m)
            lib.sluice_make_rows_ready(handle, ctypes.byref(item.struct()), ctypes.byref(rows), None)
        return
    problems = [item.struct() for item in items if not isinstance(item, Plan)]
    if problems:
        lib.sluice_make_ready(handle, (ProblemStruct * len(problems))(*problems), len(problems))
    for item in items:
        if isinstance(item, Plan):
            lib.sluice_use_plan(handle, item._handle)


@entry
def prepare_quantizers(dtype: object = "bf16", *, device: int = 0) -> None:
    """Compiles and loads the quantisers for an input type: bf16, fp16 or fp32. Call it before a CUDA graph is captured."""
    lib.sluice_make_quantizers_ready(default_device(device), number_of("dtype", dtype, DTYPES))


@entry
def prepare_norms(dtype: object = "bf16", *, device: int = 0) -> None:
    """Compiles and loads the norms for an input type: bf16 or fp16. Call it before a CUDA graph is captured."""
    lib.sluice_make_norms_ready(default_device(device), number_of("dtype", dtype, DTYPES))


@entry
def prepare_packer(weights: WeightFormat, *, device: int = 0) -> None:
    """Compiles and loads the kernels that pack and unpack weights of a format. Call it before a CUDA graph is captured."""
    lib.sluice_make_packer_ready(default_device(device), ctypes.byref(_format_of("weights", weights).struct()))


def _stream_of(stream: object) -> int:
    address = integer("stream", stream)
    if not 0 <= address < 2**64:
        raise errors.InvalidArgument(f"stream = {shown(address)} must be the address of a stream, or 0: pass torch's "
                                     "stream.cuda_stream")
    return address


@entry
class Workspace:
    """Zeroed device memory in which split sums meet, for callers that want to own it. Without it, each stream and each
    graph is lent one.

    Pass it as ``workspace=`` to launches that follow each other, in one stream or one branch of a graph. Keep it as long
    as the work and the graphs that use it. ``nbytes`` None takes the default size.
    """

    def __init__(self, device: int = 0, nbytes: Optional[int] = None) -> None:
        handle = Handle(lib.sluice_workspace_free)
        lib.sluice_workspace_create(default_device(device), choice_of("nbytes", nbytes, bits=64),
                                    ctypes.byref(handle._as_parameter_))
        self._handle = handle
        self._address = handle._as_parameter_.value or 0  # an int of its own, which torch.compile can read

    def __reduce__(self) -> NoReturn:
        raise errors.InvalidType("a Workspace is memory of a GPU and cannot be copied or pickled: make another, "
                                 "sluice.Workspace(device, nbytes)")

    @property
    def nbytes(self) -> int:
        return lib.sluice_workspace_bytes(self._handle)

    @property
    def address(self) -> int:
        """The handle's address, which the compiled functions take."""
        return self._address

    def verify(self) -> None:
        """Waits for the device; raises ``WorkspaceError`` if a counter is not zero."""
        lib.sluice_workspace_verify(self._handle)

    def reset(self, stream: int = 0) -> None:
        """Zeroes it in the order of ``stream`` (an address, 0 for the default stream). Call it after an aborted kernel."""
        lib.sluice_workspace_reset(self._handle, ctypes.c_void_p(_stream_of(stream)))


@entry
def verify_workspaces(device: int = 0) -> None:
    """Waits for the device. Raises ``WorkspaceError`` if a workspace that was lent to a stream or a graph is not clean."""
    lib.sluice_verify_workspaces(default_device(device))


@entry
def reset_workspaces(device: int = 0) -> None:
    """Zeroes the workspaces that were lent, and waits. Call it after an aborted kernel."""
    lib.sluice_reset_workspaces(default_device(device))


class Holdings(NamedTuple):
    """The kernels and workspaces that are kept on a GPU."""

    kernels: int
    workspaces: int
    workspace_bytes: int


@entry
def holdings(device: int = 0) -> Holdings:
    """Returns how many kernels are ready (counted by problem), how many workspaces are lent to streams and living graphs, and
    the bytes of workspaces. The bytes include workspaces that streams outgrew and that graphs gave back."""
    found = HoldingsStruct()
    lib.sluice_device_holdings(default_device(device), ctypes.byref(found))
    return Holdings(found.kernels, found.workspaces, found.workspace_bytes)
