# SPDX-License-Identifier: Apache-2.0
"""sluice in PyTorch: products (``mm``, ``linear``, ``scaled_mm``), quantisers, ``nn.Linear``, and DeepGEMM's signatures
in ``sluice.torch.deep_gemm``. Everything runs on the current stream, after its first call without synchronising, and may be
captured."""
try:
    import torch as _torch
except ImportError as error:
    raise ImportError("sluice.torch needs PyTorch 2.10 or newer: pip install 'sluice-gemm[torch]'") from error
if not hasattr(_torch.Tensor, "__dlpack_c_exchange_api__"):
    raise ImportError("sluice.torch needs PyTorch 2.10 or newer, whose tensors can be handed over in C; this is "
                      + _torch.__version__)

from . import deep_gemm, nn
from .functional import linear, mm, scaled_mm
from .quantize import quantize, quantize_reference, quantize_static

__all__ = ["deep_gemm", "linear", "mm", "nn", "quantize", "quantize_reference", "quantize_static", "scaled_mm"]
