# SPDX-License-Identifier: Apache-2.0
"""The functions of libsluice_c.so that take arrays, called through tvm-ffi. Arrays are passed as DLPack, the stream is the
current one of their framework, and errors are raised as the classes of ``sluice.errors``. The package imports this module at the
first call with an array, because tvm_ffi imports torch.

The arguments of a call are pairs in any order: the number of a field, then its value. An optional field is left out; an optional
tensor may also be None. ``kFields`` in sluice/c_api/tvm_ffi_fields.h lists the fields; error messages use its names:

    product(A, a, B, b, OUT, out, BIAS, bias, ACTIVATION, 1)       runs act(a b + bias)
    product(X, x, PACKED_BLOB, blob, OUT, out, *packed.fields)     runs a product of packed weights
    product(A, a, B, b, OUT, out, OFFS, table, GROUPS, 1)          runs a product of groups whose ends are in the table
    problem_of(A, a, B, b, OUT, out, PROBLEM, address)             fills in a ProblemStruct and runs nothing
    add_product(STEPS, address, A, a, B, b, OUT, out)              adds the product to a chain's steps; so do
                                                                   add_quantizer and add_norm
    chain_run(CHAIN, address, PART, 0, A, any_tensor)              enqueues a part of a chain on the stream of the tensor's framework
    quantize(INPUT, x, OUTPUT, q, SCALES, s, GRANULARITY, 2)
    quantize_both(INPUT, x, OUTPUT, q, SCALES, s, OUTPUT_T, qt, SCALES_T, st, SUM, sums, GRANULARITY, 2, POWERS_OF_TWO, True)
    norm(INPUT, x, GAMMA, g, OUTPUT, y)
    route(TOPK_IDS, ids, ENDS, ends, ROW_OF_SLOT, rows, TOKEN_OF_ROW, tokens, PITCH, 1)
    gather(INPUT, x, TOKEN_OF_ROW, tokens, OUTPUT, y)              with SCALES and GRANULARITY quantised
    combine(Y, y, ROW_OF_SLOT, rows, TOPK_WEIGHTS, w, SHARED, s, OUT, out)
    pack(CODES, c, SCALES, s, BLOB, blob, *format.fields)          unpack(...) takes the same fields and is the inverse
    convolution(OP, FPROP, INPUT, x, WEIGHT, w, OUT, y, *geometry_fields(stride, padding, padding_after, dilation))
    convolution(OP, DGRAD, GRAD_OUTPUT, dy, WEIGHT, w, OUT, dx, ...)
    convolution(OP, WGRAD, GRAD_OUTPUT, dy, INPUT, x, OUT, dw, ...)

``WORKSPACE`` is the address of a workspace's handle, or None.
"""
from __future__ import annotations

import itertools
from typing import Optional, Sequence

try:
    import tvm_ffi
except ImportError as error:
    raise ImportError("arrays need tvm-ffi: pip install 'apache-tvm-ffi>=0.1.15,<0.2'") from error

from . import errors
from ._library import lib, library_path

for _error in errors.BY_STATUS:
    tvm_ffi.register_error("sluice." + _error.code, _error)

_module = tvm_ffi.load_module(library_path())
if _module["host_is_complete"]() != 1:
    raise errors.InternalError("libtvm_ffi's TVMFFIEnvGetStream or TVMFFIErrorSetRaisedFromCStr is not visible in this "
                               "process, and no call can find its stream or raise without: import tvm_ffi as its wheel "
                               "installs it, or install apache-tvm-ffi again")

FIELDS = {lib.sluice_ffi_field(number).decode(): number for number in itertools.takewhile(lib.sluice_ffi_field, itertools.count())}
A, MAT_A, INPUT, X = (FIELDS[name] for name in ("a", "mat_a", "input", "x"))
B, MAT_B, WEIGHT, PACKED_BLOB, BLOB = (FIELDS[name] for name in ("b", "mat_b", "weight", "packed.blob", "blob"))
C, RESIDUAL, OUT, OUTPUT, TOTAL = (FIELDS[name] for name in ("c", "residual", "out", "output", "total"))
BIAS, SCALE_A, SCALE_X, SCALE_B, SCALE_D = (FIELDS[name] for name in ("bias", "scale_a", "scale_x", "scale_b", "scale_d"))
GAMMA, SUM, SCALES, CODES, ZEROS = (FIELDS[name] for name in ("gamma", "sum", "scales", "codes", "zeros"))
OFFS, GROUPS, GROUP_PITCH = (FIELDS[name] for name in ("offs", "groups", "group_pitch"))
SCALE_OUT, ROW_FACTORS = FIELDS["scale_out"], FIELDS["row_factors"]
ALPHA, BETA, EPSILON, ACTIVATION = (FIELDS[name] for name in ("alpha", "beta", "epsilon", "activation"))
USE_FAST_ACCUM, GATED, ADD, ANY_ORDER = (FIELDS[name] for name in ("use_fast_accum", "gated", "add", "any_order"))
WORKSPACE, PROBLEM = FIELDS["workspace"], FIELDS["problem"]
STEPS, CHAIN, PART = (FIELDS[name] for name in ("steps", "chain", "part"))
TOPK_IDS, ENDS, ROW_OF_SLOT, TOKEN_OF_ROW = (FIELDS[name] for name in ("topk_ids", "ends", "row_of_slot", "token_of_row"))
TOPK_WEIGHTS, SHARED, Y, PITCH, EXPERTS = (FIELDS[name] for name in ("topk_weights", "shared", "y", "pitch", "experts"))
GRANULARITY, SCALE_GIVEN, GATE = (FIELDS[name] for name in ("granularity", "scale_given", "gate"))
OUTPUT_T, SCALES_T, POWERS_OF_TWO = (FIELDS[name] for name in ("output_t", "scales_t", "powers_of_two"))
FORMAT = tuple(FIELDS[f"format.{name}"] for name in ("type", "group", "scale", "zeros", "order"))
N, K = FIELDS["n"], FIELDS["k"]
OP, GRAD_OUTPUT, SCALE_W = FIELDS["op"], FIELDS["grad_output"], FIELDS["scale_w"]
FPROP, DGRAD, WGRAD = 1, 2, 3
_UNEVEN = FIELDS["uneven_padding"]
_STRIDE, _PADDING, _PADDING_AFTER, _DILATION = (tuple(FIELDS[f"{name}[{i}]"] for i in range(3))
                                               for name in ("stride", "padding", "padding_after", "dilation"))

# These calls release the GIL, as torch's own operations do; that costs 50 ns per call. A call may compile, or wait for another
# process that compiles. It may also block on a full launch queue that only another Python thread's work can drain.
product = _module["product"]
quantize = _module["quantize"]
quantize_both = _module["quantize_both"]
norm = _module["norm"]
route = _module["route"]
gather = _module["gather"]
combine = _module["combine"]
pack = _module["pack"]
unpack = _module["unpack"]
convolution = _module["convolution"]
chain_run = _module["chain_run"]
problem_of, conv_problem_of = _module["product"], _module["convolution"]
add_product, add_quantizer, add_norm = _module["product"], _module["quantize"], _module["norm"]
add_route, add_gather, add_combine = _module["route"], _module["gather"], _module["combine"]
problem_of.release_gil = conv_problem_of.release_gil = False  # they wait for nothing
add_product.release_gil = add_quantizer.release_gil = add_norm.release_gil = False
add_route.release_gil = add_gather.release_gil = add_combine.release_gil = False


def format_fields(numbers: tuple) -> tuple:
    """Returns the (field, value) pairs of a weight format. ``numbers`` are those of ``WeightFormat.values``."""
    return tuple(itertools.chain(*zip(FORMAT, (numbers[0] + 1, *numbers[1:]))))


def weights_fields(numbers: tuple) -> tuple:
    """Returns the (field, value) pairs of packed weights. ``numbers``: the five of ``format_fields``, then n and k."""
    return (*format_fields(numbers[:5]), N, numbers[5], K, numbers[6])


def geometry_fields(stride: Sequence[int], padding: Sequence[int], padding_after: Optional[Sequence[int]],
                    dilation: Sequence[int]) -> tuple:
    """Returns the (field, value) pairs of a convolution's geometry: one number per spatial axis, outermost first. ``padding_after``
    None means equal to ``padding``. Values equal to the default are left out."""
    pairs: list[int] = []
    after = padding if padding_after is None else padding_after
    uneven = tuple(after) != tuple(padding)
    for fields, numbers, defaults in ((_STRIDE, stride, itertools.repeat(1)), (_DILATION, dilation, itertools.repeat(1)),
                                      (_PADDING, padding, itertools.repeat(0)),
                                      (_PADDING_AFTER, after if uneven else (), itertools.repeat(0))):
        for field, number, default in zip(fields, numbers, defaults):
            if number != default:
                pairs += (field, number)
    return (*pairs, _UNEVEN, 1) if uneven else tuple(pairs)
