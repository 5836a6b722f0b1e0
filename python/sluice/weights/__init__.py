# SPDX-License-Identifier: Apache-2.0
"""Quantised weights in one canonical form, from checkpoints (GPTQ, AWQ, compressed-tensors, gpt-oss) or from floats.

    import sluice.weights as sw
    w = sw.from_gptq(qweight, qzeros, scales, g_idx, group=128, symmetric=True)   # codes n x k, one byte per code
    y = tokens[:, w.permutation] @ sw.dequantize(w).T                             # if permutation is None: plain tokens
    f = sw.from_fp8(weight, scales)                                               # e4m3 with tensor, channel or block scales

Functions take numpy arrays, or torch tensors on any device. Their results are of the same kind and on the same device. Nothing
here needs a GPU, and neither numpy nor torch is imported.
"""
from .canonical import QuantizedWeights, dequantize
from .checkpoints import Fp8Weights, from_awq, from_compressed_tensors, from_fp8, from_gpt_oss, from_gptq
from .mxfp4 import gate_then_up, mxfp4_to_block_fp8
from .quantizer import quantize_groups

__all__ = ["Fp8Weights", "QuantizedWeights", "dequantize", "from_awq", "from_compressed_tensors", "from_fp8", "from_gpt_oss", "from_gptq",
           "gate_then_up", "mxfp4_to_block_fp8", "quantize_groups"]
