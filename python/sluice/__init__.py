# SPDX-License-Identifier: Apache-2.0
"""Matrix products on NVIDIA Hopper, compiled for the problem at hand.

    import sluice
    print(sluice.explain(m=64, n=4096, k=4096, a="e4m3"))     # no GPU, no torch needed
    import sluice.torch as st                                 # the ops: st.mm, st.linear, st.scaled_mm, st.nn.Linear

``python -m sluice`` is the command line. ``sluice.packed_mm`` is defined in sluice.torch, which its first use imports.
"""
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import weights
from ._library import lib as _lib
from .convolutions import Convolution, convolution_of
from .errors import (Aliasing, DriverError, Error, InternalError, InvalidArgument, InvalidCall, InvalidConfig,
                     InvalidPointer, InvalidSize, InvalidStride, InvalidType, Misaligned, NotPrepared, StorageError, ToolchainError,
                     UnsupportedArch, WorkspaceError, WrongDevice)
from .formats import MXFP4, PackedNumbers, WeightFormat
from .packed import PackedWeights, Unpacked, pack, pack_e4m3, pack_int4, pack_int8, pack_quantized
from .plans import (Compiled, Plan, RowPlans, compile, explain, plan, plan_rows, prepare, prepare_norms, prepare_packer,  # noqa: A004
                    prepare_quantizers, race)
from .problems import Problem, problem_of
from .workspaces import Holdings, Workspace, holdings, reset_workspaces, verify_workspaces

__version__: str = _lib.sluice_version().decode()

# Importing sluice does not import torch; only using packed_mm does. ``import *`` would use every name in __all__, so packed_mm is
# not in it.
if _TYPE_CHECKING:
    from .torch import packed_mm as packed_mm
else:
    def __getattr__(name):
        if name != "packed_mm":
            raise AttributeError(f"module 'sluice' has no attribute {name!r}")
        from .torch import packed_mm

        globals()[name] = packed_mm
        return packed_mm

    def __dir__():
        return sorted({*globals(), "packed_mm"})

__all__ = [
    "Aliasing", "Compiled", "Convolution", "DriverError", "Error", "Holdings", "InternalError", "InvalidArgument", "InvalidCall",
    "InvalidConfig", "InvalidPointer", "InvalidSize", "InvalidStride", "InvalidType", "MXFP4", "Misaligned", "NotPrepared",
    "PackedNumbers", "PackedWeights", "Plan", "Problem", "RowPlans", "StorageError", "ToolchainError", "UnsupportedArch", "Unpacked", "WeightFormat",
    "Workspace", "WorkspaceError", "WrongDevice", "compile", "convolution_of", "explain", "holdings", "pack", "pack_e4m3", "pack_int4",
    "pack_int8", "pack_quantized", "plan", "plan_rows", "prepare", "prepare_norms", "prepare_packer", "prepare_quantizers",
    "problem_of", "race", "reset_workspaces", "verify_workspaces", "weights",
]
