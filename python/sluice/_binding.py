# SPDX-License-Identifier: Apache-2.0
"""The packed functions of libsluice_c.so through tvm-ffi: arrays come as DLPack, the stream from their framework,
errors as the classes of ``sluice.errors``. Imported when the first array comes, because tvm_ffi imports torch.

    scaled_mm(mat_a, mat_b, scale_a, scale_b, bias, out, use_fast_accum, workspace, c)
    mm(a, b, out, bias, c, alpha, beta, activation, use_fast_accum, workspace)
    linear(input, weight, bias, out, activation, workspace, c)
    quantize(input, output, scales, granularity, scale_given, gate, workspace)
    add_mm(a, b, total, any_order, workspace)
    problem_of_arrays(a, b, c, out, bias, scale_a, scale_b, activation, use_fast_accum, update, any_order, address)
    packed_mm(x, blob, bias, scale_x, out, format, n, k, activation)
    pack_codes(codes, scales, zeros, blob, format)
    unpack_codes(codes, scales, zeros, blob, format)

All arguments by position; tensors may be None where they may be left out; ``workspace`` is a handle's address or None, and
``format`` the number of a WeightFormat.
"""
from __future__ import annotations

try:
    import tvm_ffi
except ImportError as error:
    raise ImportError("arrays need tvm-ffi: pip install 'apache-tvm-ffi>=0.1.15,<0.2'") from error

from . import errors
from ._library import library_path

for _error in errors.BY_STATUS:
    tvm_ffi.register_error("sluice." + _error.code, _error)

_module = tvm_ffi.load_module(library_path())
if _module["host_is_complete"]() != 1:
    raise errors.InternalError("libtvm_ffi's TVMFFIEnvGetStream or TVMFFIErrorSetRaisedFromCStr is not visible in this "
                               "process, and no call can find its stream or raise without: import tvm_ffi as its wheel "
                               "installs it, or install apache-tvm-ffi again")

# They give the interpreter's lock away, as torch's own operations do: a call may compile, wait for another process that
# compiles, or for room in a full queue, which may come only with another thread's launch. That costs 50 ns a call.
scaled_mm = _module["scaled_mm"]
mm = _module["mm"]
linear = _module["linear"]
add_mm = _module["add_mm"]
quantize = _module["quantize"]
packed_mm = _module["packed_mm"]
pack_codes = _module["pack_codes"]
unpack_codes = _module["unpack_codes"]
problem_of_arrays = _module["problem_of_arrays"]
problem_of_arrays.release_gil = False  # waits for nothing
