# SPDX-License-Identifier: Apache-2.0
"""Folders of quantised models: config.json and generation_config.json as they were, sluice.json with the recipe and the formats, and the
tensors in sluice-*.safetensors. Loading quantises nothing. A plain loader of transformers finds no weights in such a folder."""
from __future__ import annotations

import json
import pathlib
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor

from ...errors import InvalidArgument, StorageError
from .architecture import architecture_of
from .model import PRODUCTS, Model, check_length, tensors_of
from .progress import Progress
from .recipes import Layer
from .source import Files, ends, read_json
from .weights import Dense, operand_from

FACTS = "sluice.json"
_FORMAT = 1
_FILE_BYTES = 4 << 30
_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


def is_saved(folder: pathlib.Path) -> bool:
    return (folder / FACTS).is_file()


def save(folder: pathlib.Path, model: Model, recipe: Optional[str], head: Optional[str], config: Dict[str, Any], generation: Dict[str, Any],
         scales: Optional[Tensor], show: Optional[bool]) -> None:
    """Writes a folder. sluice.json comes last, so that an interrupted folder is not one. Raises ``StorageError``."""
    try:
        from safetensors.torch import save_file
    except ImportError as error:
        raise ImportError("saving needs safetensors: pip install safetensors") from error
    tensors, facts = tensors_of(model)
    shards: List[Dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        if size + tensor.nbytes > _FILE_BYTES and shards[-1]:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in (FACTS, "generation_config.json", *(path.name for path in folder.glob("sluice-*-of-*.safetensors"))):
            (folder / old).unlink(missing_ok=True)
        names = [f"sluice-{i + 1:05}-of-{len(shards):05}.safetensors" for i in range(len(shards))]
        with Progress("saving", len(shards), show) as bar:
            for name, shard in zip(names, shards):
                save_file({key: tensor.detach().cpu().contiguous() for key, tensor in shard.items()}, str(folder / name))
                bar.step()
        for file, values in (("config.json", config), ("generation_config.json", generation)):
            if values:
                (folder / file).write_text(json.dumps(values, indent=1, default=str), encoding="utf-8")
        (folder / FACTS).write_text(json.dumps(
            {"format": _FORMAT, "recipe": recipe, "head": head, "dtype": str(model.dtype).rpartition(".")[2], "files": names,
             "scales": None if scales is None else scales.tolist(), "operands": facts}, indent=1), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error}") from error


def facts_of(folder: pathlib.Path) -> Dict[str, Any]:
    """Returns what sluice.json holds. Raises ``StorageError`` for one of another version."""
    facts = read_json(folder / FACTS)
    if facts.get("format") != _FORMAT:
        raise StorageError(f"{folder / FACTS} has format {facts.get('format')!r}, and this version of sluice reads {_FORMAT}: quantise "
                           "the model again")
    return facts


def ends_of(folder: pathlib.Path) -> Tuple[Dict[str, Any], Dict[str, Any], List[int], Optional[int]]:
    """Returns config, generation config, stop tokens and padding token of a folder."""
    other = folder / "generation_config.json"
    config, generation = read_json(folder / "config.json"), read_json(other) if other.is_file() else {}
    return config, generation, *ends(config, generation)


def load(folder: pathlib.Path, facts: Dict[str, Any], device: Any, *, max_length: Optional[int], fast: bool, show: Optional[bool]) -> Model:
    """Returns the model that ``save`` wrote. Raises ``StorageError`` for a folder that is not whole."""
    shape = architecture_of(read_json(folder / "config.json"))
    made = Model(shape, check_length(max_length, shape), _DTYPES[facts["dtype"]])
    files = Files([folder / name for name in facts["files"]], str(device))
    by_operand: Dict[str, Dict[str, str]] = {}
    for name in files.names:
        owner, _, key = name.rpartition(".")
        by_operand.setdefault(owner, {})[key] = name

    def operand(name: str) -> Any:
        if name not in facts["operands"] or name not in by_operand:
            raise StorageError(f"{folder} lacks {name}: save the engine again")
        return operand_from({key: files.tensor(full) for key, full in by_operand[name].items()}, facts["operands"][name], fast)

    def tensor(name: str, needed: bool = True) -> Optional[Tensor]:
        if name not in files.names and needed:
            raise StorageError(f"{folder} lacks {name}: save the engine again")
        return files.tensor(name) if name in files.names else None

    with Progress("loading weights", shape.layers, show) as bar:
        for i in range(shape.layers):
            at = f"layers.{i}."
            sparse = shape.experts is not None and shape.experts.layers[i]
            products = {name: operand(at + name) for name in (*PRODUCTS, *(["router"] if sparse else []))}
            made.layers.append(Layer(tensor(at + "norm1"), tensor(at + "norm2"), q_norm=tensor(at + "q_norm", shape.head_norms),
                                     k_norm=tensor(at + "k_norm", shape.head_norms), **products))
            bar.step()
        made.embedding, made.final_norm = tensor("embedding"), tensor("final_norm")
        made.head = operand("head") if "head" in facts["operands"] else Dense(None, False, made.embedding)
    files.close()
    if facts["recipe"] == "tensor":
        made.make_scales()
    return made


def check_given(facts: Dict[str, Any], given: Dict[str, Any]) -> None:
    """Raises ``InvalidArgument`` if the caller asked for weights of another kind than a folder holds."""
    groups = {operand["group"] for operand in facts["operands"].values() if "group" in operand}
    held = {"recipe": facts["recipe"], "head": facts["head"], "dtype": _DTYPES[facts["dtype"]], "group": next(iter(groups), None)}
    for name, value in given.items():
        if value != held[name]:
            raise InvalidArgument(f"{name} = {value!r} is given, and the folder holds weights of {name} = {held[name]!r}: leave {name} out, "
                                  "or quantise the model again")
