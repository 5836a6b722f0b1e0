# SPDX-License-Identifier: Apache-2.0
"""Quantised weights of floats, in one canonical form.

    import sluice.weights as sw
    w = sw.quantize_groups(weight, 128)   # codes n x k, a byte each
    y = tokens @ sw.dequantize(w).T

numpy arrays, or torch tensors on any device; what comes out is of the kind and on the device of what came in. Nothing here
needs a GPU, and neither module is imported.
"""
from .canonical import QuantizedWeights, dequantize
from .quantizer import quantize_groups

__all__ = ["QuantizedWeights", "dequantize", "quantize_groups"]
