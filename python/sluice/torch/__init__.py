# SPDX-License-Identifier: Apache-2.0
"""sluice in PyTorch: products (``mm``, ``linear``, ``scaled_mm``, ``packed_mm``), quantisers, norms, packed weights,
``nn.Linear`` and ``nn.Linear4bit``. ``sluice.torch.deep_gemm`` has DeepGEMM's signatures.

Every function runs on the current stream and may be captured. After its first call it does not synchronise.
"""
try:
    import torch as _torch
except ImportError as error:
    raise ImportError("sluice.torch needs PyTorch 2.10 or newer: pip install 'sluice-gemm[torch]'") from error
if not hasattr(_torch.Tensor, "__dlpack_c_exchange_api__"):
    raise ImportError("sluice.torch needs PyTorch 2.10 or newer, whose tensors can be handed over in C; this is "
                      + _torch.__version__)

from ..packed import PackedWeights, pack, pack_e4m3, pack_int4, pack_int8, pack_quantized
from . import deep_gemm, nn
from .functional import linear, mm, scaled_mm
from .norm import rms_norm, rms_norm_quantize
from .packed import packed_mm
from .quantize import quantize, quantize_reference, quantize_static, silu_mul, silu_mul_quantize

__all__ = ["PackedWeights", "deep_gemm", "linear", "mm", "nn", "pack", "pack_e4m3", "pack_int4", "pack_int8", "pack_quantized",
           "packed_mm", "quantize", "quantize_reference", "quantize_static", "rms_norm", "rms_norm_quantize", "scaled_mm", "silu_mul",
           "silu_mul_quantize"]
