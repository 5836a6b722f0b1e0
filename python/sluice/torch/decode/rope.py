# SPDX-License-Identifier: Apache-2.0
"""Rotary frequencies from a config: default, linear, dynamic (up to the trained length), llama3, yarn and longrope (its short factors). A
type or a key that is not one of these refuses the model. Tables are fp32: positions x half of the rotated columns."""
from __future__ import annotations

import dataclasses
import math
from typing import Any, Dict, Optional, Tuple

import torch
from torch import Tensor

from ...errors import InvalidArgument
from .settings import Settings, refuse_key

# The keys that each type of scaling reads, besides rope_type and rope_theta.
_KEYS = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor", "original_max_position_embeddings"),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "original_max_position_embeddings",
             "truncate"),
    "longrope": ("factor", "attention_factor", "long_factor", "short_factor", "original_max_position_embeddings"),
}


@dataclasses.dataclass(frozen=True)
class Rope:
    """``frequencies``: radians a position, one for each pair of columns. ``scale`` multiplies cosines and sines. ``most``: the largest
    number of positions for which they hold, or None."""

    frequencies: Tuple[float, ...]
    scale: float = 1.0
    most: Optional[int] = None
    why_most: str = ""

    @property
    def columns(self) -> int:
        return 2 * len(self.frequencies)

    def tables(self, positions: int, device: Any, rotates: bool = True) -> Tuple[Tensor, Tensor]:
        """Returns cosines and sines, positions x pairs in fp32. Without ``rotates`` they turn by nothing (NoPE): 1 and 0."""
        frequencies = torch.tensor(self.frequencies, dtype=torch.float32)
        angles = torch.arange(positions, dtype=torch.float32)[:, None] * frequencies[None]
        if not rotates:
            return torch.ones_like(angles).to(device), torch.zeros_like(angles).to(device)
        return (angles.cos() * self.scale).to(device), (angles.sin() * self.scale).to(device)


def rope_of(settings: Settings, head_dim: int, positions: int, theta: float = 10000.0) -> Rope:
    """Returns the rotation that a config asks for; ``positions`` is max_position_embeddings, ``theta``
    the base where the config has none. Raises ``InvalidArgument`` by the key."""
    given = _merged(settings, theta)
    kind = given.pop("rope_type")
    base = float(given.pop("rope_theta"))
    partial = float(given.pop("partial_rotary_factor", 1.0) or 1.0)
    if kind not in _KEYS:
        refuse_key("rope_parameters.rope_type", kind, f"decode knows {', '.join(_KEYS)}")
    for key, value in given.items():
        if key not in _KEYS[kind] and value is not None:
            refuse_key(f"rope_parameters.{key}", value, f"rotary frequencies of type {kind!r} do not read it; delete it if it is idle")
    columns = int(head_dim * partial)
    if columns % 2 or not 0 < columns <= head_dim:
        refuse_key("partial_rotary_factor", partial, f"{columns} of {head_dim} columns of a head would be rotated; it must be an even "
                   "number")
    exponents = torch.arange(0, columns, 2, dtype=torch.int64).float() / columns
    turns = base ** exponents
    frequencies, scale, most, why = 1.0 / turns, 1.0, None, ""
    original = int(given.get("original_max_position_embeddings") or positions)
    if kind == "linear":
        frequencies = frequencies / _factor(given)
    elif kind == "dynamic":
        most, why = original, "beyond it, 'dynamic' frequencies change with the length"
    elif kind == "llama3":
        frequencies = _llama3(frequencies, given, original)
    elif kind == "yarn":
        frequencies, scale = _yarn(turns, given, original, positions, base, columns)
    elif kind == "longrope":
        short = torch.tensor(given["short_factor"], dtype=torch.float32)
        if short.shape != exponents.shape:
            refuse_key("rope_parameters.short_factor", list(short.shape), f"it must have {exponents.numel()} values, one a pair of columns")
        frequencies = 1.0 / (short * turns)
        factor = given.get("factor") or positions / original
        scale = given.get("attention_factor")
        scale = float(scale) if scale is not None else 1.0 if factor <= 1.0 else math.sqrt(1 + math.log(factor) / math.log(original))
        most, why = original, "beyond it, 'longrope' rotates all positions anew, those in the cache too"
    return Rope(tuple(frequencies.tolist()), scale, most, why)


def _merged(settings: Settings, default_theta: float) -> Dict[str, Any]:
    """Returns the rotary keys of transformers 5 (rope_parameters), or those of 4 (rope_theta, rope_scaling) under these names."""
    parameters = settings.get("rope_parameters")
    scaling = settings.get("rope_scaling")
    theta, partial = settings.get("rope_theta"), settings.get("partial_rotary_factor")
    original = settings.get("original_max_position_embeddings")
    made = dict(parameters or scaling or {})
    if any(isinstance(value, dict) for value in made.values()):
        refuse_key("rope_parameters", made, "each type of layer has its own rotation; decode has one for all layers")
    made["rope_type"] = made.pop("rope_type", None) or made.pop("type", None) or "default"
    made.pop("type", None)
    if made["rope_type"] == "su":  # the name that files of Phi-3's first months hold
        made["rope_type"] = "longrope"
    if made.get("rope_theta") is None:
        made["rope_theta"] = theta if theta is not None else default_theta
    if partial is not None:
        made.setdefault("partial_rotary_factor", partial)
    if original is not None and made["rope_type"] in ("llama3", "yarn", "longrope", "dynamic"):
        made.setdefault("original_max_position_embeddings", original)
    if made["rope_type"] == "default":
        made.pop("original_max_position_embeddings", None)
    if made["rope_type"] in ("llama3", "longrope") and made.get("original_max_position_embeddings") is None:
        raise InvalidArgument(f"the model's config has rope_type = {made['rope_type']!r} without original_max_position_embeddings, which "
                              "its frequencies need: add it to rope_parameters")
    return made


def _factor(given: Dict[str, Any]) -> float:
    if given.get("factor") is None:
        raise InvalidArgument("the model's config has no rope_parameters.factor, which this type of rotary scaling divides by")
    return float(given["factor"])


def _llama3(frequencies: Tensor, given: Dict[str, Any], original: int) -> Tensor:
    """Leaves short waves, divides long ones by the factor, and blends those between."""
    factor, low, high = _factor(given), float(given["low_freq_factor"]), float(given["high_freq_factor"])
    waves = 2 * math.pi / frequencies
    blend = ((original / waves - low) / (high - low)).clamp(0, 1)
    return (1 - blend) * frequencies / factor + blend * frequencies


def _yarn(turns: Tensor, given: Dict[str, Any], original: int, positions: int, base: float, columns: int) -> Tuple[Tensor, float]:
    factor = float(given.get("factor") or positions / original)

    def pair_of(rotations: float) -> float:
        """Returns the pair of columns that turns this often within the original length."""
        return columns * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

    first, last = pair_of(given.get("beta_fast") or 32), pair_of(given.get("beta_slow") or 1)
    if given.get("truncate", True) in (True, None):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, columns - 1)
    ramp = ((torch.arange(columns // 2, dtype=torch.float32) - first) / (last - first if last != first else 0.001)).clamp(0, 1)
    frequencies = ramp / (factor * turns) + (1 - ramp) / turns

    def grown(by: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * by * math.log(factor) + 1.0

    scale, top, all_ = given.get("attention_factor"), given.get("mscale"), given.get("mscale_all_dim")
    if scale is None:
        scale = grown(top) / grown(all_) if top and all_ else grown(1.0)
    return frequencies, float(scale)
