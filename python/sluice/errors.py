# SPDX-License-Identifier: Apache-2.0
"""The exceptions of sluice. Each is an ``Error``, and also the built-in exception that fits it.

Each class is one status of the C interface. Its message names the argument, the given value, the rule and the remedy.
"""
from __future__ import annotations


class Error(Exception):
    """The base of all exceptions of sluice. ``code`` is the name of the status, e.g. ``"invalid_stride"``."""

    code: str = "internal"


class InvalidSize(Error, ValueError):
    """A size is negative, too large, or does not fit the other arguments."""

    code = "invalid_size"


class InvalidPointer(Error, ValueError):
    """A pointer is null where data are needed, or its memory is not the GPU's."""

    code = "invalid_pointer"


class Misaligned(Error, ValueError):
    """A pointer or a stride that the copy engine cannot address (16-byte units)."""

    code = "misaligned"


class InvalidStride(Error, ValueError):
    """A layout that no kernel takes; nothing is copied silently."""

    code = "invalid_stride"


class Aliasing(Error, ValueError):
    """The output overlaps an input."""

    code = "aliasing"


class InvalidType(Error, TypeError):
    """A combination of element types or layouts that no kernel takes."""

    code = "invalid_type"


class InvalidConfig(Error, ValueError):
    """Choices that break a rule of the kernels."""

    code = "invalid_config"


class InvalidArgument(Error, ValueError):
    """An argument is wrong in another way."""

    code = "invalid_argument"


class InvalidCall(InvalidArgument, TypeError):
    """A call that does not fit the parameters: an unknown keyword, or an argument that is missing or given twice. It is Python's
    ``TypeError`` too."""


class WrongDevice(Error, ValueError):
    """Arrays on several devices, or in host memory where a GPU computes."""

    code = "wrong_device"


class UnsupportedArch(Error, RuntimeError):
    """The GPU is not of compute capability 9.0."""

    code = "unsupported_arch"


class NotPrepared(Error, RuntimeError):
    """The stream is capturing and something is not ready: call ``prepare`` before the capture."""

    code = "not_prepared"


class WorkspaceError(Error, RuntimeError):
    """A workspace is too small or not zeroed, or no more can be lent to streams."""

    code = "workspace"


class ToolchainError(Error, RuntimeError):
    """NVRTC is missing, or refused the kernel."""

    code = "toolchain"


class DriverError(Error, RuntimeError):
    """The CUDA driver is missing or failed."""

    code = "driver"


class StorageError(Error, OSError):
    """A cache or a file cannot be used."""

    code = "io"


class InternalError(Error, RuntimeError):
    """A bug of sluice."""

    code = "internal"


# The order is that of sluice_status (include/sluice/c_api.h), from 1.
BY_STATUS: tuple[type[Error], ...] = (
    InvalidSize, InvalidPointer, Misaligned, InvalidStride, Aliasing, InvalidType, InvalidConfig, InvalidArgument,
    WrongDevice, UnsupportedArch, NotPrepared, WorkspaceError, ToolchainError, DriverError, StorageError, InternalError,
)
