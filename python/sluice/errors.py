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
    """A pointer is null where data are needed, or it does not point to the GPU's memory."""

    code = "invalid_pointer"


class Misaligned(Error, ValueError):
    """A pointer or a stride is not a multiple of 16 bytes, which TMA needs."""

    code = "misaligned"


class InvalidStride(Error, ValueError):
    """No kernel supports the layout. Nothing is copied silently."""

    code = "invalid_stride"


class Aliasing(Error, ValueError):
    """The output overlaps an input."""

    code = "aliasing"


class InvalidType(Error, TypeError):
    """No kernel supports this combination of element types or layouts."""

    code = "invalid_type"


class InvalidConfig(Error, ValueError):
    """The given kernel choices (tile, stages, ...) break a rule of the kernels."""

    code = "invalid_config"


class InvalidArgument(Error, ValueError):
    """An argument is wrong in another way."""

    code = "invalid_argument"


class InvalidCall(InvalidArgument, TypeError):
    """A call does not fit the parameters: an unknown keyword, or an argument that is missing or given twice. It is also a
    ``TypeError``."""


class WrongDevice(Error, ValueError):
    """Arrays are on different devices, or in host memory although a GPU computes."""

    code = "wrong_device"


class UnsupportedArch(Error, RuntimeError):
    """The GPU is not of compute capability 9.0."""

    code = "unsupported_arch"


class NotPrepared(Error, RuntimeError):
    """The stream is being captured and a kernel is not loaded yet: call ``prepare`` before the capture."""

    code = "not_prepared"


class WorkspaceError(Error, RuntimeError):
    """A workspace is too small or not zeroed, or the library's limit of workspace memory is reached."""

    code = "workspace"


class ToolchainError(Error, RuntimeError):
    """NVRTC is missing, or failed to compile the kernel."""

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
