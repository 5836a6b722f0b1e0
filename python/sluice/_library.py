# SPDX-License-Identifier: Apache-2.0
"""The ctypes binding of libsluice_c.so, for functions that are not called per product (_binding.py has those that are). The structs
mirror include/sluice/c_api.h; tests/python/test_library.py compares them with the header's text."""
from __future__ import annotations

import ctypes
import importlib.util
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_int64, c_uint64, c_void_p
from typing import Callable, NoReturn, Optional

from . import errors
from ._arguments import choice_of

C_ABI = 17
HERE = pathlib.Path(__file__).resolve().parent


class WeightFormatStruct(ctypes.Structure):
    _fields_ = [(name, c_int32) for name in ("type", "group", "scale", "zeros", "order")]


class ArrayStruct(ctypes.Structure):
    _fields_ = [("data", c_void_p), *((name, c_int32) for name in ("dtype", "ndim", "device_type", "device")),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64))]


class ConvStruct(ctypes.Structure):
    _fields_ = [
        *((name, c_int32) for name in ("op", "spatial")),
        *((name, c_int64) for name in ("images", "channels", "filters")),
        *((name, c_int64 * 3) for name in ("size", "filter", "stride", "dilation", "padding", "padding_after")),
        ("uneven_padding", c_int32),
        *((name, c_int64) for name in ("x_pitch", "y_pitch")),
    ]


class MatrixStruct(ctypes.Structure):
    _fields_ = [*((name, c_int32) for name in ("type", "major", "unaligned")), *((name, c_int64) for name in ("ld", "batch_stride"))]


class ProblemStruct(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("m", "n", "k", "batch")),
        *((name, MatrixStruct) for name in "abcd"),
        ("packed", WeightFormatStruct),
        *((name, c_int32) for name in ("scale_a", "scale_b", "scale_d", "bias", "bias_type", "residual", "row_factors", "norm_a", "activation", "gated",
                                       "update", "accumulate", "any_order", "groups", "group_pitch")),
        ("scale_a_ld", c_int64),
        ("conv", ConvStruct),
    ]


# The arrays of a call, in the order of sluice_operand.
OPERANDS = ("a", "b", "c", "d", "bias", "scale_a", "scale_b", "scale_d", "gamma", "groups", "scale_out", "row_factors")


class CallStruct(ctypes.Structure):
    _fields_ = [
        ("bytes", c_uint64),
        ("problem", ProblemStruct),
        ("operands", POINTER(ArrayStruct) * len(OPERANDS)),
        ("names", c_char_p * len(OPERANDS)),
        *((name, c_float) for name in ("alpha", "beta", "epsilon")),
        ("workspace", c_void_p),
    ]


def new_call(problem: Optional[ProblemStruct] = None) -> CallStruct:
    """Returns a call without arrays: of a problem, or with the values of sluice_new_call()."""
    if problem is None:
        problem = ProblemStruct(batch=1)
        problem.conv.stride[:] = problem.conv.dilation[:] = (1, 1, 1)
    return CallStruct(bytes=ctypes.sizeof(CallStruct), problem=problem, alpha=1.0, beta=1.0, epsilon=1e-5)


class OptionsStruct(ctypes.Structure):
    _fields_ = [("cache_dir", c_char_p), ("nvrtc_path", c_char_p), ("records_dir", c_char_p),
                ("cache_read_only", c_int32), ("jobs", c_int32), ("race", c_int32)]


class CompiledStruct(ctypes.Structure):
    _fields_ = [("compiled", c_int32), ("already_there", c_int32), ("failed", c_int32)]


class HoldingsStruct(ctypes.Structure):
    _fields_ = [("kernels", c_int64), ("workspaces", c_int64), ("workspace_bytes", c_int64)]


class RangeStruct(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_int64)]


class GapStruct(ctypes.Structure):
    _fields_ = [*((name, c_int32) for name in ("nodes", "programmatic_edges", "waits", "triggers", "write_count")),
                ("writes", POINTER(RangeStruct)), ("stand_in_us", c_double)]


class ChainOptionsStruct(ctypes.Structure):
    _fields_ = [("overlap", c_int32), ("search", c_int32), ("seconds", c_double), ("keep", c_int32)]


class RowRangeStruct(ctypes.Structure):
    _fields_ = [("low", c_int64), ("high", c_int64)]


class RowSummaryStruct(ctypes.Structure):
    _fields_ = [("kernels", c_int32)]


MOST_ROW_KERNELS = 12


class RowPlansStruct(ctypes.Structure):
    _fields_ = [("plans", c_void_p * MOST_ROW_KERNELS), ("count", c_int32), ("summary", RowSummaryStruct)]


class PackedNumbersStruct(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("groups", "strips", "tiles", "strip_bytes", "tile_bytes", "row_part_bytes",
                                       "blob_bytes", "tile_scales_offset", "tile_zeros_offset")),
        ("stored_bits", c_double),
    ]


# name: (result, arguments). A function with the result "status" raises if it returns an error.
_FUNCTIONS = {
    "sluice_c_abi": (c_int32, []),
    "sluice_version": (c_char_p, []),
    "sluice_error_message": (c_char_p, []),
    "sluice_suggest_nvrtc": ("status", [c_char_p]),
    "sluice_ffi_field": (c_char_p, [c_int32]),
    "sluice_describe": ("status", [POINTER(CallStruct)]),
    "sluice_check": ("status", [POINTER(CallStruct)]),
    "sluice_plan_create": ("status", [c_void_p, POINTER(CallStruct), c_char_p, POINTER(c_void_p)]),
    "sluice_plan_create_for": ("status", [c_char_p, POINTER(CallStruct), c_char_p, POINTER(c_void_p)]),
    "sluice_plan_free": (None, [c_void_p]),
    "sluice_plan_text": (c_char_p, [c_void_p]),
    "sluice_plan_config": (c_char_p, [c_void_p]),
    "sluice_plan_unit_count": (c_int32, [c_void_p]),
    "sluice_plan_unit": (c_char_p, [c_void_p, c_int32]),
    "sluice_plan_source": (c_char_p, [c_void_p]),
    "sluice_plan_workspace_bytes": (c_int64, [c_void_p]),
    "sluice_plan_estimate_us": (c_double, [c_void_p]),
    "sluice_compile": ("status", [POINTER(c_void_p), c_int32, POINTER(OptionsStruct), POINTER(CompiledStruct)]),
    "sluice_compile_norms": ("status", [c_int32, POINTER(OptionsStruct), POINTER(CompiledStruct)]),
    "sluice_compile_experts": ("status", [c_int32, POINTER(OptionsStruct), POINTER(CompiledStruct)]),
    "sluice_compile_quantizers": ("status", [c_int32, POINTER(OptionsStruct), POINTER(CompiledStruct)]),
    "sluice_device_default": ("status", [c_int32, POINTER(c_void_p)]),
    "sluice_device_name": (c_char_p, [c_void_p]),
    "sluice_race": ("status", [c_void_p, POINTER(CallStruct), c_int32, POINTER(c_void_p)]),
    "sluice_make_ready": ("status", [c_void_p, POINTER(CallStruct), c_int32, c_int32]),
    "sluice_race_layer": ("status", [c_int64, c_int64, POINTER(c_int32), c_int32]),
    "sluice_use_plan": ("status", [c_void_p, c_void_p]),
    "sluice_make_norms_ready": ("status", [c_void_p, c_int32]),
    "sluice_make_experts_ready": ("status", [c_void_p, c_int32]),
    "sluice_make_quantizers_ready": ("status", [c_void_p, c_int32]),
    "sluice_workspace_create": ("status", [c_void_p, c_int64, POINTER(c_void_p)]),
    "sluice_workspace_free": (None, [c_void_p]),
    "sluice_workspace_bytes": (c_int64, [c_void_p]),
    "sluice_workspace_verify": ("status", [c_void_p]),
    "sluice_workspace_reset": ("status", [c_void_p, c_void_p]),
    "sluice_verify_workspaces": ("status", [c_void_p]),
    "sluice_reset_workspaces": ("status", [c_void_p]),
    "sluice_steps_create": ("status", [POINTER(c_void_p)]),
    "sluice_steps_free": (None, [c_void_p]),
    "sluice_steps_count": (c_int32, [c_void_p]),
    "sluice_steps_add_gap": ("status", [c_void_p, POINTER(GapStruct)]),
    "sluice_steps_name": ("status", [c_void_p, c_char_p]),
    "sluice_chain_create": ("status", [c_void_p, c_void_p, POINTER(ChainOptionsStruct), POINTER(c_void_p)]),
    "sluice_chain_free": (None, [c_void_p]),
    "sluice_chain_parts": (c_int32, [c_void_p]),
    "sluice_chain_kernels": (c_int32, [c_void_p]),
    "sluice_chain_programmatic_edges": (c_int32, [c_void_p]),
    "sluice_chain_text": (c_char_p, [c_void_p]),
    "sluice_chain_check": ("status", [c_void_p, c_void_p]),
    "sluice_packed_numbers_of": ("status", [POINTER(WeightFormatStruct), c_int64, c_int64, POINTER(PackedNumbersStruct)]),
    "sluice_compile_packer": ("status", [POINTER(WeightFormatStruct), POINTER(OptionsStruct), POINTER(CompiledStruct)]),
    "sluice_make_packer_ready": ("status", [c_void_p, POINTER(WeightFormatStruct)]),
    "sluice_plan_rows": ("status", [c_void_p, POINTER(CallStruct), POINTER(RowRangeStruct), POINTER(RowPlansStruct)]),
    "sluice_plan_rows_text": (c_char_p, [c_void_p]),
    "sluice_plan_rows_for": ("status", [c_char_p, POINTER(CallStruct), POINTER(RowRangeStruct), POINTER(RowPlansStruct)]),
    "sluice_make_rows_ready": ("status", [c_void_p, POINTER(CallStruct), POINTER(RowRangeStruct),
                                          POINTER(RowSummaryStruct)]),
    "sluice_device_holdings": ("status", [c_void_p, POINTER(HoldingsStruct)]),
}


def library_path() -> pathlib.Path:
    """Returns the path of the shared object: next to this file, or the path in SLUICE_LIBRARY (such as a development
    build)."""
    given = os.environ.get("SLUICE_LIBRARY")
    return pathlib.Path(given) if given else HERE / "lib" / "libsluice_c.so"


def tool_path() -> pathlib.Path:
    """Returns the path of the ``sluice`` program: the package's own, or the one that SLUICE_TOOL names."""
    given = os.environ.get("SLUICE_TOOL")
    return pathlib.Path(given) if given else HERE / "bin" / "sluice"


NVRTC = "libnvrtc.so.13"
TOOLKIT = "/usr/local/cuda"


def nvrtc_wheel() -> Optional[str]:
    """Returns the site-packages folder of the NVRTC wheel, if it holds CUDA 13's library; else None."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):  # another package may have that name
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if any(pathlib.Path(folder, place, NVRTC).is_file() for place in ("cu13/lib", "cuda_nvrtc/lib")):
            return str(pathlib.Path(folder).parent)
    return None


def tool_environment() -> dict[str, str]:
    """Returns the environment in which the ``sluice`` program runs. The program does not search site-packages, so
    SLUICE_NVRTC is set to the NVRTC wheel. That is done only if the environment names no NVRTC and no CUDA 13 toolkit is
    installed."""
    environment = dict(os.environ)
    toolkits = (environment.get("CUDA_PATH"), TOOLKIT)
    if environment.get("SLUICE_NVRTC") or any(t and pathlib.Path(t, "lib64", NVRTC).is_file() for t in toolkits):
        return environment
    wheel = nvrtc_wheel()
    return environment if wheel is None else {**environment, "SLUICE_NVRTC": wheel}


def _check(status: int, function, arguments) -> int:
    if status != 0:
        raise errors.BY_STATUS[status - 1](lib.sluice_error_message().decode(errors="replace"))
    return status


def _load() -> ctypes.CDLL:
    path = library_path()
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise errors.StorageError(f"{path}: {error}; install the package again, or name a build's libsluice_c.so in "
                                  "SLUICE_LIBRARY") from error
    if loaded.sluice_c_abi() != C_ABI:  # checked before functions are bound: a library with another interface may lack one
        raise errors.StorageError(f"{path} has C interface {loaded.sluice_c_abi()} and these Python files are for "
                                  f"{C_ABI}: install the package again")
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(loaded, name)
        function.argtypes = arguments
        if result == "status":
            function.restype, function.errcheck = c_int32, _check
        else:
            function.restype = result
    wheel = nvrtc_wheel()
    loaded.sluice_suggest_nvrtc(None if wheel is None else os.fsencode(wheel))
    return loaded


lib = _load()


def default_device(ordinal: object) -> c_void_p:
    """Returns the process's handle of GPU ``ordinal``; it is never closed. Raises ``InvalidType`` for None."""
    if ordinal is None:
        raise errors.InvalidType("device = None must be the number of a GPU: pass 0 for the first")
    handle = c_void_p()
    lib.sluice_device_default(choice_of("device", ordinal), ctypes.byref(handle))
    return handle


class Handle:
    """Owns a handle of the C interface and frees it once, when this object is garbage-collected.

    A handle cannot be copied, so a class that holds one must define its own copying. ctypes passes
    ``_as_parameter_``, which is null until a create function fills it.
    """

    __slots__ = ("_as_parameter_", "_free")

    def __init__(self, free: Callable[[c_void_p], None]) -> None:
        self._as_parameter_ = c_void_p()
        self._free = free  # kept here, because the module's globals may be gone at interpreter exit

    def __del__(self) -> None:
        pointer, self._as_parameter_ = self._as_parameter_, c_void_p()
        if pointer:
            self._free(pointer)

    def __reduce__(self) -> NoReturn:
        raise errors.InvalidType("a handle of libsluice_c cannot be copied or pickled: copy what it was made of")
