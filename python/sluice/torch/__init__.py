# SPDX-License-Identifier: Apache-2.0
"""sluice in PyTorch: ``mm``, ``linear`` and ``scaled_mm``."""
from .functional import linear, mm, scaled_mm

__all__ = ["linear", "mm", "scaled_mm"]
