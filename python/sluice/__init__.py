# SPDX-License-Identifier: Apache-2.0
"""Matrix products on NVIDIA Hopper, compiled for the problem at hand.

    import sluice
    print(sluice.explain(m=64, n=4096, k=4096, a="e4m3"))     # no GPU, no torch needed
    import sluice.torch as st                                 # the ops: st.mm, st.linear, st.scaled_mm, st.nn.Linear

``python -m sluice`` is the command line.
"""
from . import weights
from ._library import lib as _lib
from .errors import (Aliasing, DriverError, Error, InternalError, InvalidArgument, InvalidConfig, InvalidPointer,
                     InvalidSize, InvalidStride, InvalidType, Misaligned, NotPrepared, StorageError, ToolchainError,
                     UnsupportedArch, WorkspaceError, WrongDevice)
from .plans import (Compiled, Holdings, Plan, Workspace, compile, explain, holdings, plan, prepare,  # noqa: A004
                    prepare_quantizers, reset_workspaces, verify_workspaces)
from .problems import Problem, problem_of

__version__: str = _lib.sluice_version().decode()

__all__ = [
    "Aliasing", "Compiled", "DriverError", "Error", "Holdings", "InternalError", "InvalidArgument", "InvalidConfig",
    "InvalidPointer", "InvalidSize", "InvalidStride", "InvalidType", "Misaligned", "NotPrepared", "Plan", "Problem",
    "StorageError", "ToolchainError", "UnsupportedArch", "Workspace", "WorkspaceError", "WrongDevice", "compile",
    "explain", "holdings", "plan", "prepare", "prepare_quantizers", "problem_of", "reset_workspaces", "verify_workspaces",
    "weights",
]
