# SPDX-License-Identifier: Apache-2.0
"""The packed functions of libsluice_c.so through tvm-ffi: arrays come as DLPack, the stream from their framework,
errors as the classes of ``sluice.errors``. Imported when the first array comes, because tvm_ffi imports torch.

    scaled_mm(mat_a, mat_b, scale_a, scale_b, bias, out, use_fast_accum, workspace, c)
    mm(a, b, out, bias, c, alpha, beta, activation, use_fast_accum, workspace)
    linear(input, weight, bias, out, activation, workspace, c)
    quantize(input, output, scales, granularity, scale_given, gate)
    add_mm(a, b, total, any_order, workspace)
    problem_of_arrays(a, b, c, out, bias, scale_a, scale_b, activation, use_fast_accum, update, any_order, address)
    mixed_mm(x, blob, bias, scale_x, out, format, n, k, activation)
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

# A launch is shorter than giving the interpreter lock away and taking it back. (A first call that compiles keeps it too;
# prepare() gives it away.)
def _function(name: str) -> tvm_ffi.Function:
    function = _module[name]
    function.release_gil = False
    return function


scaled_mm = _function("scaled_mm")
mm = _function("mm")
linear = _function("linear")
add_mm = _function("add_mm")
problem_of_arrays = _function("problem_of_arrays")
quantize = _function("quantize")
mixed_mm = _function("mixed_mm")
pack_codes = _module["pack_codes"]  # these give the lock away: on the host they take a while
unpack_codes = _module["unpack_codes"]
