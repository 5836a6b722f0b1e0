# SPDX-License-Identifier: Apache-2.0
"""Quantised weights in one canonical form, from checkpoints (GPTQ, AWQ, compressed-tensors) or from floats.

    import sluice.weights as sw
    w = sw.from_gptq(qweight, qzeros, scales, g_idx, group=128, symmetric=True)   # codes n x k, a byte each
    y = tokens[:, w.permutation] @ sw.dequantize(w).T                             # permutation None: tokens as they are

Functions take numpy arrays, or torch tensors on any device. Their results are of that kind and on that device. Nothing here
needs a GPU, and neither module is imported.
"""
from .canonical import QuantizedWeights, dequantize
from .checkpoints import from_awq, from_compressed_tensors, from_gptq
from .quantizer import quantize_groups

__all__ = ["QuantizedWeights", "dequantize", "from_awq", "from_compressed_tensors", "from_gptq", "quantize_groups"]
