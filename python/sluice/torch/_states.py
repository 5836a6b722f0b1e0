# SPDX-License-Identifier: Apache-2.0
"""The state_dict of quantised layers, made so that no loader mistakes codes for a plain weight.

A quantised layer stores its codes as ``weight_e4m3`` or ``weight_packed``. Its state also has a one-dimensional ``weight``, the
mark. Because of the mark's shape, loading the state into a torch layer fails even with ``strict=False``.
"""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

import torch
from torch import Tensor

from ..errors import InvalidArgument

_MARK = b"quantised by sluice: see weight_e4m3 or weight_packed, and sluice.torch.nn.load_"
_WEIGHT = "weight"


def _is_mark(tensor: Tensor) -> bool:
    return tensor.dim() == 1 and tensor.dtype is torch.uint8


class QuantizedState(torch.nn.Module):
    """A layer whose weight may be codes. ``codes_name`` is the name of the tensor that holds them; None for a plain weight."""

    codes_name: Optional[str] = None

    @property
    def stored_weight(self) -> Tensor:
        """The tensor that holds the weight, or its codes."""
        return getattr(self, self.codes_name or _WEIGHT)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weight with its scales."""
        scales = getattr(self, "weight_scale", None)
        return sum(tensor.numel() * tensor.element_size() for tensor in (self.stored_weight, scales) if tensor is not None)

    def __getattr__(self, name: str) -> Any:
        """Returns the tensor of codes as ``weight`` of a quantised layer, for code that reads ``weight``. The state stores it under
        ``codes_name``."""
        if name == _WEIGHT and self.codes_name is not None:
            name = self.codes_name
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == _WEIGHT and self.codes_name is not None:
            raise InvalidArgument(f"{type(self).__name__} holds its weight as {self.codes_name}, and cannot take another as weight: tie or "
                                  "assign weights before convert_, which leaves tied ones as they are")
        super().__setattr__(name, value)

    def _save_to_state_dict(self, destination: Dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.codes_name is not None:
            destination[prefix + _WEIGHT] = torch.tensor(list(_MARK), dtype=torch.uint8, device="cpu")

    def _load_from_state_dict(self, state_dict: dict, prefix: str, local_metadata: dict, strict: bool, missing_keys: List[str],
                              unexpected_keys: List[str], error_msgs: List[str]) -> None:
        """Removes the mark before loading. A state of sluice 0.2 has no mark; its ``weight`` holds the e4m3 codes."""
        given = state_dict.get(prefix + _WEIGHT)
        if self.codes_name is not None and given is not None:
            state_dict = {name: tensor for name, tensor in state_dict.items() if name != prefix + _WEIGHT}
            if given.dtype is torch.float8_e4m3fn:
                state_dict.setdefault(prefix + "weight_e4m3", given)
            elif not _is_mark(given):
                error_msgs.append(f"{prefix}weight: the state is of a layer that is not quantised ({given.dtype} of shape "
                                  f"{tuple(given.shape)}), and this one is: load the state first, and call convert_ after that")
                return
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)


def quantized_layers(state: Mapping[str, Tensor]) -> Dict[str, Dict[str, Tensor]]:
    """Returns the tensors of each quantised layer in a model's state, by the layer's name. Also recognises states of sluice 0.2."""
    found: Dict[str, Dict[str, Tensor]] = {}
    for key, tensor in state.items():
        name, _, last = key.rpartition(".")
        if last in ("weight_e4m3", "weight_packed") or (last == _WEIGHT and tensor.dtype is torch.float8_e4m3fn):
            found.setdefault(name, {})
    for key, tensor in state.items():
        name, _, last = key.rpartition(".")
        if name in found:
            found[name][last] = tensor
    return found


def load_strictly(model: torch.nn.Module, state: Mapping[str, Tensor], assign: bool) -> None:
    """Loads a state strictly. Only a parameter that is tied to a loaded one may be missing, because ``save_pretrained`` leaves such
    parameters out. Raises ``InvalidArgument`` for a missing or unexpected key, and for a tensor of another shape."""
    tensors: Dict[str, Tensor] = model.state_dict(keep_vars=True)
    try:
        result = model.load_state_dict(state, strict=False, assign=assign)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise InvalidArgument(f"state does not fit the model: {lines[min(1, len(lines) - 1)]}") from error
    loaded = {id(tensors[name]) for name in state if name in tensors}
    missing = [name for name in result.missing_keys if id(tensors[name]) not in loaded]
    for what, names in (("lacks", missing), ("has too many keys, first", result.unexpected_keys)):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise InvalidArgument(f"state {what} {names[0]}{more}: give the state of a model of the same structure")
