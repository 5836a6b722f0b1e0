# SPDX-License-Identifier: Apache-2.0
"""The report of ``convert_``, and the layers that it converts only if asked: output heads and tied weights."""
from __future__ import annotations

import logging
import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

_LINES = 8  # the most lines that the report has for unconverted parameters
_SHARE = 0.01  # a group of parameters below this share of the model's bytes has no line


class Kept(NamedTuple):
    """A parameter that ``convert_`` did not convert: the class of the module that holds it, and its bytes."""

    of: str
    nbytes: int


class Conversion(NamedTuple):
    """The result of ``convert_`` for a model; ``str()`` of it is the report that is logged."""

    recipe: Optional[str]
    converted: Tuple[str, ...]
    """Names of the layers that were replaced."""
    left_out: Dict[str, str]
    """Name of each ``torch.nn.Linear`` or convolution (or class derived from one) that no kernel takes, and the reason."""
    filtered: Tuple[str, ...]
    """Names of the layers that ``filter_fn`` kept as they were."""
    skipped: Dict[str, str]
    """Name of each output head and each layer of a tied weight that was left as it was, and the argument that takes it."""
    old_bytes: int
    """Bytes of the weights that were converted, before."""
    new_bytes: int
    """Bytes that these weights take now, with their scales."""
    kept: Dict[str, Kept]
    """The model's other parameters by name, which stay as they were: embeddings, experts, norms, what was left out."""

    @property
    def kept_bytes(self) -> int:
        """Bytes of the parameters that were not converted."""
        return sum(kept.nbytes for kept in self.kept.values())

    def __str__(self) -> str:
        more = [f"{len(names)} {what}" for names, what in ((self.left_out, "left out"), (self.skipped, "skipped"),
                                                           (self.filtered, "kept by filter_fn")) if names]
        total = self.old_bytes + self.kept_bytes
        lines = [f"convert_(recipe={self.recipe!r}): {', '.join([_layers(len(self.converted)) + ' converted', *more])}",
                 f"  weights of {_size(self.old_bytes)}, {100 * self.old_bytes / max(total, 1):.0f} % of the model's {_size(total)}, now "
                 f"take {_size(self.new_bytes)}"]
        lines += [f"  {name}: {reason}" for name, reason in (*self.left_out.items(), *self.skipped.items())]
        return "\n".join(lines + [f"  as it was: {line}" for line in self.kept_lines()])

    def kept_lines(self) -> List[str]:
        """Returns one line per large group of unconverted parameters, the largest first. Parameters whose names differ only in
        numbers are one group."""
        groups: Dict[Tuple[str, str], List[int]] = {}
        for name, kept in self.kept.items():
            groups.setdefault((re.sub(r"\b\d+\b", "*", name), kept.of), []).append(kept.nbytes)
        least = _SHARE * (self.old_bytes + self.kept_bytes)
        ranked = sorted(((sum(sizes), len(sizes), *key) for key, sizes in groups.items() if sum(sizes) > least), reverse=True)
        return [f"{name} ({f'{count} of ' if count > 1 else ''}{of}), {_size(nbytes)}" for nbytes, count, name, of in ranked[:_LINES]]


def _layers(count: int) -> str:
    return f"{count} layer" + ("" if count == 1 else "s")


def _size(nbytes: int) -> str:
    for unit, step in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if nbytes >= step:
            return f"{nbytes / step:.3g} {unit}"
    return f"{nbytes} bytes"


def bytes_of(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def log_conversion(done: Conversion) -> None:
    """Logs the report to the logger "sluice". The level is warning if a layer was skipped, or if most bytes were not converted
    although no filter excluded them; else it is info."""
    chosen = (*done.filtered, *done.skipped)
    others = sum(kept.nbytes for name, kept in done.kept.items() if name.rpartition(".")[0] not in chosen)
    warns = done.left_out or others > done.old_bytes
    logging.getLogger("sluice").log(logging.WARNING if warns else logging.INFO, "%s", done)


def named_parameters(model: torch.nn.Module, converted: Tuple[type, ...]) -> Iterator[Tuple[str, Kept]]:
    """Yields the name and ``Kept`` entry of each parameter of a model once, except those of modules of the classes ``converted``."""
    seen = {id(tensor) for module in model.modules() if isinstance(module, converted) for tensor in module.parameters(recurse=False)}
    for name, module in model.named_modules():
        for own, tensor in module._parameters.items():
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                yield f"{name}.{own}" if name else own, Kept(type(module).__name__, bytes_of(tensor))


def why_nothing(done: Conversion, model: torch.nn.Module, converted: Tuple[type, ...]) -> str:
    """Returns the error message for a ``convert_`` that found no layer to replace."""
    begin = f"convert_(recipe={done.recipe!r}) "
    stays = "".join(f"; as it was: {line}" for line in done.kept_lines()[:3])
    if done.left_out:
        name, reason = next(iter(done.left_out.items()))
        convolutions = any(isinstance(model.get_submodule(left), torch.nn.modules.conv._ConvNd) for left in done.left_out)
        return f"{begin}can take none of the model's {len(done.left_out)} {'layers' if convolutions else 'linears'}. {name}: {reason}"
    if done.skipped:
        name, reason = next(iter(done.skipped.items()))
        return f"{begin}converts nothing. {name}: {reason}{stays}"
    if done.filtered:
        return (f"{begin}converts nothing: filter_fn is false for all of the model's {len(done.filtered)} layers, {done.filtered[0]} for "
                "one; it gets a module and its name, and returns whether to convert it")
    for name, module in model.named_modules():
        if isinstance(module, converted):
            return (f"{begin}converts nothing: the model's layers are converted already, {name} to {type(module).__name__} for one; "
                    "convert the model as it was loaded")
    return f"{begin}converts nothing: the model has no torch.nn.Linear{stays}"


class Exceptions:
    """Finds the output head and the tied weights of a model; made before any layer is replaced."""

    def __init__(self, model: torch.nn.Module, lm_head: bool, tied: bool) -> None:
        self._takes_head, self._takes_tied = lm_head, tied
        output = getattr(model, "get_output_embeddings", None)  # models of transformers have it
        self._head = output() if callable(output) else None
        self._holders: Dict[object, List[str]] = {}
        for name, module in model.named_modules():
            for own, tensor in module._parameters.items():
                if tensor is not None:
                    self._holders.setdefault(_place(tensor), []).append(f"{name}.{own}" if name else own)

    def why_skipped(self, module: torch.nn.Module, name: str) -> Optional[str]:
        """Returns the reason why a layer is not converted unless asked (output head or tied weight); None for any other layer."""
        holders = self._holders[_place(module.weight)]
        if len(holders) > 1 and not self._takes_tied:
            others = [holder for holder in holders if holder != f"{name}.weight"]
            needs = "lm_head=True and tied=True give" if self._is_head(module, name) and not self._takes_head else "tied=True gives"
            return f"its weight is tied to {others[0]}: {needs} it codes of its own beside that"
        if self._is_head(module, name) and not self._takes_head:
            return "it is the output head, which stays in 16 bits: lm_head=True takes it too"
        return None

    def _is_head(self, module: torch.nn.Module, name: str) -> bool:
        return module is self._head or name.rpartition(".")[2] == "lm_head"


def _place(tensor: Tensor) -> object:
    """Returns a key that is equal for tensors of the same memory. A tensor without memory is its own key."""
    try:
        address = tensor.data_ptr()
    except RuntimeError:  # a fake tensor
        address = 0
    return (address, tensor.shape, tensor.device) if address else id(tensor)
