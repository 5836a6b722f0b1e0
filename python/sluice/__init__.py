# SPDX-License-Identifier: Apache-2.0
"""Matrix products on NVIDIA Hopper, compiled for the problem at hand.

    import sluice
    print(sluice.explain(m=64, n=4096, k=4096, a="e4m3"))     # no GPU, no torch needed
    import sluice.torch as st                                 # the ops: st.mm, st.linear, st.scaled_mm, st.nn.Linear

``python -m sluice`` is the command line. ``sluice.packed_mm`` and ``sluice.decode`` are defined in sluice.torch, which their first use
imports.
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
from .packed_experts import PackedExperts, stack_packed
from .plans import (Compiled, Plan, RowPlans, compile, explain, plan, plan_rows, prepare, prepare_experts, prepare_norms, prepare_packer,  # noqa: A004
                    prepare_quantizers, race)
from .problems import Problem, problem_of
from .workspaces import Holdings, Workspace, holdings, reset_workspaces, verify_workspaces

__version__: str = _lib.sluice_version().decode()

# Importing sluice does not import torch; only using these does. ``import *`` would use every name in __all__, so they are not in it.
if _TYPE_CHECKING:
    from .torch import packed_mm as packed_mm
    from .torch.decode import decode as decode
else:
    _OF_TORCH = {"packed_mm": ".torch", "decode": ".torch.decode"}

    def __getattr__(name):
        if name not in _OF_TORCH:
            raise AttributeError(f"module 'sluice' has no attribute {name!r}")
        import importlib

        globals()[name] = getattr(importlib.import_module(_OF_TORCH[name], __name__), name)
        return globals()[name]

    def __dir__():
        return sorted({*globals(), *_OF_TORCH})

__all__ = [
    "Aliasing", "Compiled", "Convolution", "DriverError", "Error", "Holdings", "InternalError", "InvalidArgument", "InvalidCall",
    "InvalidConfig", "InvalidPointer", "InvalidSize", "InvalidStride", "InvalidType", "MXFP4", "Misaligned", "NotPrepared",
    "PackedExperts", "PackedNumbers", "PackedWeights", "Plan", "Problem", "RowPlans", "StorageError", "ToolchainError", "UnsupportedArch", "Unpacked", "WeightFormat",
    "Workspace", "WorkspaceError", "WrongDevice", "compile", "convolution_of", "explain", "holdings", "pack", "pack_e4m3", "pack_int4",
    "pack_int8", "pack_quantized", "plan", "plan_rows", "prepare", "prepare_experts", "prepare_norms", "prepare_packer", "prepare_quantizers",
    "problem_of", "race", "reset_workspaces", "stack_packed", "verify_workspaces", "weights",
]
