# SPDX-License-Identifier: Apache-2.0
"""Arrays on the fake GPU of tests/unit, for tests/python/test_fake_*.py."""
import ctypes
import math

import pytest

pytest.importorskip("numpy")
tvm_ffi = pytest.importorskip("tvm_ffi")

import sluice  # noqa: E402
import binding_calls as binding  # noqa: E402
from sluice._library import lib  # noqa: E402

if not hasattr(lib, "sluice_fake_memory"):
    pytest.skip("SLUICE_LIBRARY is not tests/libsluice_c_fake.so of a build", allow_module_level=True)

lib.sluice_fake_memory.restype, lib.sluice_fake_memory.argtypes = ctypes.c_void_p, [ctypes.c_longlong, ctypes.c_int]
CODES = {"uint8": (1, 8), "int32": (0, 32), "bf16": (4, 16), "fp16": (2, 16), "fp32": (2, 32), "e4m3": (10, 8)}


class Managed(ctypes.Structure):
    """DLPack's struct DLManagedTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


kept = []  # keeps all arrays alive, so that an address which the driver has seen stays known
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class OnGpu:
    """An array of the fake GPU, which supports DLPack."""

    def __init__(self, dtype, shape, strides=None, device=0, data=None):
        strides = strides or [math.prod(shape[i + 1:]) for i in range(len(shape))]
        self.data = data or lib.sluice_fake_memory(math.prod(shape) * 4 + 4096, device)
        extents, steps = (ctypes.c_int64 * len(shape))(*shape), (ctypes.c_int64 * len(shape))(*strides)
        code, bits = CODES[dtype]
        self.managed = Managed(self.data, 2, device, len(shape), code, bits, 1, extents, steps)
        kept.append((self.managed, extents, steps))

    def __dlpack__(self, **_):
        return new_capsule(ctypes.addressof(self.managed), b"dltensor", None)

    def __dlpack_device__(self):
        return 2, self.managed.device


def on_gpu(dtype, shape, strides=None, **more):
    return tvm_ffi.from_dlpack(OnGpu(dtype, shape, strides, **more))


def weight(dtype, k, n):
    return on_gpu(dtype, (k, n), (1, k))


def launches_of(call):
    before = lib.sluice_fake_launches()
    call()
    return lib.sluice_fake_launches() - before


def mm(a, b, out, *, bias=None, c=None, beta=0.0, activation=0, workspace=None, **more):
    binding.mm(a, b, out, bias, c, 1.0, beta, activation, False, workspace, **more)


FORMAT = sluice.WeightFormat("uint4", 64, "fp16", zeros=True)


def a_blob(n, k, weights=FORMAT):
    return on_gpu("uint8", (weights.numbers(n, k).blob_bytes,))


def packed_mm(x, blob, out, n, k, *, bias=None, activation=0, weights=FORMAT, scale_x=None, **more):
    binding.packed_mm(x, blob, bias, scale_x, out, weights, n, k, activation, **more)
BYTES = sluice.WeightFormat("uint4", 64, "bf16", order="byte")
