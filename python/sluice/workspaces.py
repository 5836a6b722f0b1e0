# SPDX-License-Identifier: Apache-2.0
"""Workspaces, in which split-K kernels exchange partial sums, and ``holdings``, what the library keeps on a GPU."""
from __future__ import annotations

import ctypes
from typing import NamedTuple, NoReturn, Optional

from . import errors
from ._arguments import choice_of, entry, integer, shown
from ._library import Handle, HoldingsStruct, default_device, lib


def _stream_of(stream: object) -> int:
    address = integer("stream", stream)
    if not 0 <= address < 2**64:
        raise errors.InvalidArgument(f"stream = {shown(address)} must be the address of a stream, or 0: pass torch's "
                                     "stream.cuda_stream")
    return address


@entry
class Workspace:
    """Zeroed device memory in which the CTAs of a split-K product exchange partial sums, owned by the caller. Without it, the
    library lends one to each stream and each graph.

    Pass it as ``workspace=`` to launches that run one after the other, in one stream or one branch of a graph. Keep it alive as
    long as launches or graphs use it. ``nbytes`` None takes the default size.
    """

    def __init__(self, device: int = 0, nbytes: Optional[int] = None) -> None:
        handle = Handle(lib.sluice_workspace_free)
        lib.sluice_workspace_create(default_device(device), choice_of("nbytes", nbytes, bits=64),
                                    ctypes.byref(handle._as_parameter_))
        self._handle = handle
        self._address = handle._as_parameter_.value or 0  # a plain int, which torch.compile can read

    def __reduce__(self) -> NoReturn:
        raise errors.InvalidType("a Workspace is memory of a GPU and cannot be copied or pickled: make another, "
                                 "sluice.Workspace(device, nbytes)")

    @property
    def nbytes(self) -> int:
        return lib.sluice_workspace_bytes(self._handle)

    @property
    def address(self) -> int:
        """The handle's address, as the functions of libsluice_c.so take it."""
        return self._address

    def verify(self) -> None:
        """Synchronises with the device; raises ``WorkspaceError`` if a counter is not zero."""
        lib.sluice_workspace_verify(self._handle)

    def reset(self, stream: int = 0) -> None:
        """Zeroes the workspace on ``stream`` (a CUstream's address; 0: the default stream). Call it after an aborted kernel."""
        lib.sluice_workspace_reset(self._handle, ctypes.c_void_p(_stream_of(stream)))


@entry
def verify_workspaces(device: int = 0) -> None:
    """Synchronises with the device. Raises ``WorkspaceError`` if a counter of a lent workspace is not zero."""
    lib.sluice_verify_workspaces(default_device(device))


@entry
def reset_workspaces(device: int = 0) -> None:
    """Zeroes the lent workspaces, and synchronises with the device. Call it after an aborted kernel."""
    lib.sluice_reset_workspaces(default_device(device))


class Holdings(NamedTuple):
    """Counts of the kernels and workspaces that the library keeps on a GPU."""

    kernels: int
    workspaces: int
    workspace_bytes: int


@entry
def holdings(device: int = 0) -> Holdings:
    """Returns how many kernels are ready (one per problem), how many workspaces are lent to streams and existing graphs, and
    the bytes of all workspaces. The bytes include workspaces that became too small for their stream, and those of destroyed
    graphs."""
    found = HoldingsStruct()
    lib.sluice_device_holdings(default_device(device), ctypes.byref(found))
    return Holdings(found.kernels, found.workspaces, found.workspace_bytes)
