# SPDX-License-Identifier: Apache-2.0
"""sluice in PyTorch: products (``mm``, ``linear``, ``scaled_mm``, ``packed_mm``), products of groups (``grouped_mm``,
``scaled_grouped_mm``, ``packed_grouped_mm``, ``slots_mm``), convolutions (``conv2d``), quantisers, norms, packed weights, ``nn.Linear``, ``nn.Linear4bit`` and
``nn.Conv2d``. ``sluice.torch.moe`` has the steps around products of experts, ``sluice.torch.grad`` the names of ``torch.nn.grad``,
``sluice.torch.deep_gemm`` DeepGEMM's signatures.

Every function runs on the current stream and can be captured in a CUDA graph. After its first call it does not synchronise.
"""
try:
    import torch as _torch
except ImportError as error:
    raise ImportError("sluice.torch needs PyTorch 2.10 or newer: pip install 'sluice-gemm[torch]'") from error
if not hasattr(_torch.Tensor, "__dlpack_c_exchange_api__"):
    raise ImportError("sluice.torch needs PyTorch 2.10 or newer, whose tensors can be handed over in C; this is "
                      + _torch.__version__)

from ..packed import PackedWeights, pack, pack_e4m3, pack_int4, pack_int8, pack_quantized
from ..packed_experts import PackedExperts, stack_packed
from . import deep_gemm, grad, moe, nn
from .chain import Chain, Steps
from .conv import conv1d, conv2d, conv3d, conv_layout_copies
from .conv_transpose import conv_transpose1d, conv_transpose2d, conv_transpose3d
from .functional import linear, mm, scaled_mm
from .grouped import grouped_mm, packed_grouped_mm, scaled_grouped_mm, scaled_grouped_mm_quantize, slots_mm
from .norm import rms_norm, rms_norm_quantize
from .override import override
from .packed import packed_mm
from .quantize import (BothOrders, quantize, quantize_both, quantize_both_reference, quantize_reference, quantize_static, silu_mul,
                       silu_mul_quantize)

__all__ = ["BothOrders", "Chain", "PackedExperts", "PackedWeights", "Steps", "conv1d", "conv2d", "conv3d", "conv_layout_copies", "conv_transpose1d", "conv_transpose2d",
           "conv_transpose3d", "deep_gemm", "grad", "grouped_mm", "linear", "mm", "moe", "nn", "override", "pack", "pack_e4m3", "pack_int4",
           "pack_int8", "pack_quantized", "packed_grouped_mm", "packed_mm", "quantize", "quantize_both", "quantize_both_reference", "quantize_reference",
           "quantize_static", "rms_norm", "rms_norm_quantize", "scaled_grouped_mm", "scaled_grouped_mm_quantize",
           "scaled_mm", "silu_mul", "silu_mul_quantize", "slots_mm", "stack_packed"]
