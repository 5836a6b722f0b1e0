# SPDX-License-Identifier: Apache-2.0
"""Workspaces, where the parts of split sums meet: the caller's own, and those that are lent."""
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
