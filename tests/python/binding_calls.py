# SPDX-License-Identifier: Apache-2.0
"""Calls the binding's functions with every argument, for tests of the layer below sluice.torch."""
from sluice import _binding as f


def scaled_mm(mat_a, mat_b, scale_a, scale_b, bias, out, use_fast_accum, workspace, c, **more):
    f.product(f.MAT_A, mat_a, f.MAT_B, mat_b, f.SCALE_A, scale_a, f.SCALE_B, scale_b, f.BIAS, bias, f.OUT, out,
              f.USE_FAST_ACCUM, use_fast_accum, f.WORKSPACE, workspace, f.C, c, *fields(more))


def mm(a, b, out, bias=None, c=None, alpha=1.0, beta=0.0, activation=0, use_fast_accum=False, workspace=None, **more):
    f.product(f.A, a, f.B, b, f.OUT, out, f.BIAS, bias, f.C, c, f.ALPHA, alpha, f.BETA, beta, f.ACTIVATION, activation,
              f.USE_FAST_ACCUM, use_fast_accum, f.WORKSPACE, workspace, *fields(more))


def linear(x, weight, bias, out, activation, workspace, c, **more):
    f.product(f.INPUT, x, f.WEIGHT, weight, f.BIAS, bias, f.OUT, out, f.ACTIVATION, activation, f.WORKSPACE, workspace, f.C, c,
              *fields(more))


def add_mm(a, b, total, any_order, workspace):
    f.product(f.A, a, f.B, b, f.TOTAL, total, f.ADD, True, f.ANY_ORDER, any_order, f.WORKSPACE, workspace)


def quantize(x, output, scales, granularity, scale_given, gate, workspace):
    f.quantize(f.INPUT, x, f.OUTPUT, output, f.SCALES, scales, f.GRANULARITY, granularity, f.SCALE_GIVEN, scale_given, f.GATE, gate,
               f.WORKSPACE, workspace)


def packed_mm(x, blob, bias, scale_x, out, weights, n, k, activation, **more):
    f.product(f.X, x, f.PACKED_BLOB, blob, f.BIAS, bias, f.SCALE_X, scale_x, f.OUT, out, f.ACTIVATION, activation,
              *f.weights_fields((*weights.values, n, k)), *fields(more))


def pack_codes(codes, scales, zeros, blob, numbers):
    f.pack(f.CODES, codes, f.SCALES, scales, f.ZEROS, zeros, f.BLOB, blob, *f.format_fields(numbers))


def unpack_codes(codes, scales, zeros, blob, numbers):
    f.unpack(f.CODES, codes, f.SCALES, scales, f.ZEROS, zeros, f.BLOB, blob, *f.format_fields(numbers))


def fields(named):
    """Returns the pairs for named arguments such as {"gated": True}."""
    return [part for name, value in named.items() for part in (f.FIELDS[name], value)]
