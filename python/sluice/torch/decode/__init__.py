# SPDX-License-Identifier: Apache-2.0
"""Decodes whole models: ``sluice.decode(model, recipe="row").generate(input_ids)``. The page is docs/decode.md.

Reading: source.py (tensors by name), settings.py (keys), architecture.py, rope.py, reader.py. Computing: weights.py, recipes.py (the
steps), prompt.py, sampling.py, bucket.py (chain and graph), engine.py. machine.py is the GPU.
"""
from __future__ import annotations

import logging
from typing import Any, Callable, Dict, Optional

import torch
from torch import Tensor

from ...errors import InvalidArgument
from .._entry import checked
from . import storage
from .engine import Engine
from .machine import CudaMachine, check_overlap
from .model import check_length, read_model
from .random_source import CONFIGS, RandomSource
from .reader import Reader, known_types
from .recipes import HEADS, RECIPES
from .source import ends, folder_of, source_of

__all__ = ["CONFIGS", "Engine", "RandomSource", "decode", "known_types"]


class _Unset:
    """The default of an argument that a saved engine's folder decides. For a model it is ``value``."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"{self.value!r}, or the folder's"




@checked
def decode(model: Any, recipe: Any = _Unset("row"), *, head: Any = _Unset(None), max_length: Optional[int] = None,
           dtype: Any = _Unset(torch.bfloat16), device: Any = None, attention: Optional[Callable[..., Any]] = None,
           scales: Optional[Tensor] = None, group: Any = _Unset(128),
           use_fast_accum: bool = False, overlap: str = "tuned", tune: Optional[float] = None, progress: Optional[bool] = None,
           _machine: Any = None) -> Engine:
    """Returns an engine that generates tokens with a model on one GPU. Its weights are quantised tensor by tensor, so no 16-bit copy of the
    model lies on the GPU.

    - ``model``: a causal language model of transformers, or a folder with config.json and safetensors, which is read without building
      it. A folder that ``Engine.save`` wrote, or a ``RandomSource`` (random weights of a config), is taken too. ``known_types()`` lists the
      types. Another model raises ``InvalidArgument``, which names the key of the config or the tensor that decode does not compute.
    - ``recipe``: "row" (e4m3, one scale per row of a weight and per token) or "tensor" (e4m3, one scale per weight, static scales of tokens).
      "int4" has groups of ``group`` columns and 16-bit tokens; None is 16 bits.
    - ``head``: None (16 bits), "row" or "int4".
    - ``max_length``: the longest sequence with its new tokens; by default max_position_embeddings, at most 4096. Caches are made for it.
    - ``dtype``: bf16 or fp16, of activations, caches and 16-bit weights. A model of another type is rounded to it.
    - A saved engine has its ``recipe``, ``head``, ``dtype`` and ``group``. If one is given, it must be the folder's.
    - ``attention``: takes the place of ``sluice.torch.attention.Attention`` and keeps its promises (docs/attention.md).
    - ``scales``: of "tensor", fp32, layers x 4. Without them the first prompts calibrate: they run once in 16 bits, and a scale is twice
      the largest magnitude / 448.
    - ``use_fast_accum``: as for ``scaled_mm``.
    - ``overlap``: "tuned", "off", "wait_first", "weights_first" or "guarded" (docs/chains.md). All but "tuned" and "guarded" give the same
      bits. ``tune``: seconds to tune each bucket's chain for.
    - ``progress``: whether a bar is shown; by default on a terminal.

    Raises ``WrongDevice`` without a GPU, ``StorageError`` for a folder that cannot be read.
    """
    check_overlap(overlap, tune)
    machine = CudaMachine(device) if _machine is None else _machine
    for name, value, known in (("recipe", recipe, RECIPES), ("head", head, HEADS), ("dtype", dtype, machine.dtypes)):
        if not isinstance(value, _Unset) and value not in known:
            raise InvalidArgument(f"{name} = {value!r} must be one of {', '.join(map(repr, known))}")
    folder = folder_of(model)
    if folder is not None and storage.is_saved(folder):
        given = {"recipe": recipe, "head": head, "dtype": dtype, "group": group}
        given = {name: value for name, value in given.items() if not isinstance(value, _Unset)}
        made = _saved(folder, given, scales, machine, max_length, use_fast_accum, progress)
    else:
        recipe, head, dtype, group = (each.value if isinstance(each, _Unset) else each for each in (recipe, head, dtype, group))
        made = _read(model, recipe, head, scales, machine, max_length, dtype, group, use_fast_accum, progress)
    engine = Engine(**made, machine=machine, attention=attention, overlap=overlap, tune=tune, show=progress)
    for note in engine.notes:
        logging.getLogger("sluice").warning("decode: %s", note)
    return engine


def _read(model: Any, recipe: Optional[str], head: Optional[str], scales: Optional[Tensor], machine: Any, max_length: Optional[int],
          dtype: torch.dtype, group: int, fast: bool, show: Optional[bool]) -> dict:
    if scales is not None and recipe != "tensor":
        raise InvalidArgument(f"scales are given and recipe = {recipe!r}: static scales belong to recipe = 'tensor'")
    source = source_of(model)
    reader = Reader(source)
    packed = read_model(reader, recipe, head, machine, max_length=check_length(max_length, reader.shape), dtype=dtype, group=group,
                        fast=fast, show=show)
    stops, pad = ends(source.config, source.generation)
    source.close()
    return dict(model=packed, recipe=recipe, head=head, config=source.config, generation=source.generation, stops=stops, pad=pad,
                scales=scales)


def _saved(folder: Any, given: Dict[str, Any], scales: Optional[Tensor], machine: Any, max_length: Optional[int], fast: bool,
           show: Optional[bool]) -> dict:
    facts = storage.facts_of(folder)
    storage.check_given(facts, given)
    packed = storage.load(folder, facts, machine.device, max_length=max_length, fast=fast, show=show)
    if scales is None and facts["scales"] is not None:
        scales = torch.tensor(facts["scales"])
    config, generation, stops, pad = storage.ends_of(folder)
    return dict(model=packed, recipe=facts["recipe"], head=facts["head"], config=config, generation=generation, stops=stops, pad=pad,
                scales=scales)
