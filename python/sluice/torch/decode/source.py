# SPDX-License-Identifier: Apache-2.0
"""Where a model's config and tensors come from: a loaded model of transformers, or a folder with config.json and safetensors, which is
read tensor by tensor without building the model. Both are read by names; transformers is not imported."""
from __future__ import annotations

import json
import pathlib
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

import torch
from torch import Tensor

from ...errors import InvalidArgument, InvalidType, StorageError


class Source:
    """Tensors by name. ``config`` and ``generation`` are what config.json and generation_config.json hold."""

    config: Dict[str, Any]
    generation: Dict[str, Any]
    names: List[str]
    place: str

    def tensor(self, name: str) -> Tensor:
        raise NotImplementedError

    def close(self) -> None:
        pass


class ModelSource(Source):
    """A loaded model: its state, without copies."""

    def __init__(self, model: Any) -> None:
        config = getattr(model, "config", None)
        if not hasattr(config, "to_dict") or not isinstance(model, torch.nn.Module):
            raise InvalidType(f"model is {type(model).__name__} and must be a causal language model of transformers (a module with a "
                              "config), or a folder with config.json and safetensors")
        self.config = config.to_dict()
        generation = getattr(model, "generation_config", None)
        self.generation = generation.to_dict() if hasattr(generation, "to_dict") else {}
        self._state: Mapping[str, Any] = model.state_dict()
        self.names = list(self._state)
        self.place = type(model).__name__

    def tensor(self, name: str) -> Tensor:
        value = self._state[name]
        if not isinstance(value, Tensor) or value.layout is not torch.strided or type(value) not in (Tensor, torch.nn.Parameter):
            raise InvalidType(f"{name} is {type(value).__name__} and must be a plain tensor: pass the model before it is quantised or "
                              "sharded")
        if value.is_meta:
            raise InvalidArgument(f"{name} is on the meta device, which holds no data (device_map offloads it, or it was never loaded): "
                                  "load the model on the CPU, or pass its folder, which is read tensor by tensor")
        return value.detach()


class FolderSource(Source):
    """A folder with config.json, and with model.safetensors, or model.safetensors.index.json and the files that it names."""

    def __init__(self, folder: pathlib.Path, device: str = "cpu") -> None:
        self.place = str(folder)
        self.config = read_json(folder / "config.json")
        other = folder / "generation_config.json"
        self.generation = read_json(other) if other.is_file() else {}
        self._files = Files(_files_of(folder), device)
        self.names = self._files.names

    def tensor(self, name: str) -> Tensor:
        return self._files.tensor(name)

    def close(self) -> None:
        self._files.close()


class Files:
    """Open safetensors files. A name in two files is an error."""

    def __init__(self, files: List[pathlib.Path], device: str) -> None:
        try:
            from safetensors import safe_open
        except ImportError as error:
            raise ImportError("reading a folder needs safetensors: pip install safetensors") from error
        self._where: Dict[str, Any] = {}
        for file in files:
            try:
                opened = safe_open(str(file), framework="pt", device=device)
            except Exception as error:  # safetensors has its own exceptions, and raises OSError for a missing file
                raise StorageError(f"{file} cannot be read as safetensors: {error}") from error
            for name in opened.keys():
                if name in self._where:
                    raise StorageError(f"{name} is in {file.name} and in another file of the folder: remove the older file")
                self._where[name] = opened
        self.names = list(self._where)

    def tensor(self, name: str) -> Tensor:
        return self._where[name].get_tensor(name)

    def close(self) -> None:
        self._where = {}


def read_json(file: pathlib.Path) -> Dict[str, Any]:
    try:
        made = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StorageError(f"{file} is missing: the folder must hold config.json and safetensors, as save_pretrained writes "
                           "them") from error
    except (OSError, ValueError) as error:
        raise StorageError(f"{file} cannot be read as JSON: {error}") from error
    if not isinstance(made, dict):
        raise StorageError(f"{file} holds {type(made).__name__} and must hold an object")
    return made


def _files_of(folder: pathlib.Path) -> List[pathlib.Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = read_json(index).get("weight_map")
        if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
            raise StorageError(f"{index} has no weight_map, which says which file has which tensor")
        return [folder / name for name in sorted(set(names.values()))]
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    raise StorageError(f"{folder} has neither model.safetensors nor model.safetensors.index.json: save the model with "
                       "save_pretrained(folder, safe_serialization=True)")


def source_of(model: Any) -> Source:
    """Returns the source of a model object or of a folder's path; a source itself."""
    if isinstance(model, Source):
        return model
    folder = folder_of(model)
    return ModelSource(model) if folder is None else FolderSource(folder)


def folder_of(model: Any) -> Optional[pathlib.Path]:
    """Returns the folder that a path names; None for anything but a path. Raises ``StorageError`` if there is no such folder."""
    if not isinstance(model, (str, pathlib.PurePath)):
        return None
    folder = pathlib.Path(model).expanduser()
    if not folder.is_dir():
        raise StorageError(f"model = {str(model)!r} is no folder: decode reads local folders, and downloads nothing; download it first "
                           "(huggingface_hub.snapshot_download), or pass a loaded model")
    return folder


def unread(names: List[str], read: set) -> Iterator[str]:
    """Yields the tensors that nobody read; rotary frequencies, which old files hold, are made from the config."""
    for name in names:
        if name not in read and not name.endswith(("rotary_emb.inv_freq", "attn.masked_bias", "attn.bias_mask")):
            yield name


def ends(config: Mapping[str, Any], generation: Mapping[str, Any]) -> Tuple[List[int], Optional[int]]:
    """Returns the stop tokens and the padding token of generation_config.json, or else of config.json."""
    def first(key: str) -> Any:
        return next((values[key] for values in (generation, config) if values.get(key) is not None), None)

    stop = first("eos_token_id")
    return [] if stop is None else [stop] if isinstance(stop, int) else list(stop), first("pad_token_id")
