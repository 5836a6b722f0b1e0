# SPDX-License-Identifier: Apache-2.0
"""Layers that replace ``torch.nn.Conv1d``, ``Conv2d`` and ``Conv3d``: the same parameters, attributes and ``state_dict``.

A layer that no kernel takes is left to torch, and ``fallbacks`` lists it with the reason.
"""
from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch
from torch import Tensor

from ..errors import Error, InvalidArgument, InvalidType
from ..plans import Workspace
from ..problems import Convolution
from ._arguments_of_layers import main_grad_buffer
from ._conv_layout import CHANNELS, channels_last_strides, geometry_of, lies_channels_last, padded, takes_patches
from .conv import CONVOLUTIONS

__all__ = ["Conv1d", "Conv2d", "Conv3d", "fallbacks"]
