# SPDX-License-Identifier: Apache-2.0
"""The JSON file of this bench. Runs add to it: a row is kept until one of the same model, arm, batch, context and count of layers
comes. Each row names its run (GPU, versions, commit), and rows of one ``race`` were timed in turn.
"""
from __future__ import annotations

import importlib.metadata
import json
import pathlib
import sys
import time
from typing import Any, Iterable, Optional

import torch

from machine import commit, nvidia_smi

SCHEMA = "sluice-decode-arms-1"
NOTES = ("skipped", "errors")
KEY = ("model", "arm", "batch", "context", "whole")
EXTRAPOLATED = ("ms_token of the whole model = us_fixed + model_layers x us_layer, from the two counts of layers in us; "
                "rows with whole = true ran all layers")


def version(package: str) -> Optional[str]:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def head(gpu: str, seconds: float) -> dict:
    """Returns what a row's ``run`` stands for."""
    import sluice
    return {"started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "command": " ".join([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]),
            "gpu": gpu, "nvidia_smi": nvidia_smi(("name", "driver_version", "power.limit", "clocks.max.sm", "clocks.max.mem")),
            "torch": torch.__version__, "cuda": torch.version.cuda, "triton": version("triton"), "transformers": version("transformers"),
            "torchao": version("torchao"), "sluice": sluice.__version__, "commit": commit(), "budget_s": seconds}


class Record:
    """Raises ``ValueError`` for a file of another schema or GPU."""

    def __init__(self, path: pathlib.Path, gpu: str, seconds: float):
        self.path, self.since = path, time.monotonic()
        self.data: dict[str, Any] = {"schema": SCHEMA, "gpu": gpu, "extrapolated": EXTRAPOLATED, "runs": [], "rows": [], "alone": [],
                                     "skipped": [], "errors": []}
        if path.exists():
            self.data = json.loads(path.read_text())
            for field, wanted in (("schema", SCHEMA), ("gpu", gpu)):
                if self.data.get(field) != wanted:
                    raise ValueError(f"{path}: {field} = {self.data.get(field)!r} must be {wanted!r} to go on in it: give another --out")
        self.data["runs"].append(head(gpu, seconds))
        self.run = len(self.data["runs"]) - 1

    def has(self, model: str, arm: str, batch: int, context: int, whole: bool) -> bool:
        return any(tuple(row[field] for field in KEY) == (model, arm, batch, context, whole) for row in self.data["rows"])

    def put(self, row: dict) -> None:
        """Keeps a row, and drops the one, and the note that it failed or was left out, that it replaces."""
        self._replace("rows", row, KEY)
        for name in NOTES:
            self._drop(name, what_of(row["model"], row["arm"], row["batch"]), row["context"])

    def put_alone(self, row: dict) -> None:
        self._replace("alone", row, ("model", "batch"))
        for context in row["attention_us"]:
            self._drop("errors", what_of(row["model"], "alone", row["batch"]), int(context))

    def _replace(self, name: str, row: dict, key: Iterable[str]) -> None:
        same = [i for i, one in enumerate(self.data[name]) if all(one.get(field) == row.get(field) for field in key)]
        for i in reversed(same):
            del self.data[name][i]
        self.data[name].append({**row, "run": self.run})

    def note(self, name: str, what: str, contexts: Iterable[int], why: str) -> None:
        """Notes, for each context, what was ``skipped`` or failed (``errors``), in place of an earlier note."""
        for context in contexts:
            for other in NOTES:
                self._drop(other, what, context)
            self.data[name].append({"what": what, "context": context, "why": why, "run": self.run})

    def _drop(self, name: str, what: str, context: int) -> None:
        self.data[name] = [one for one in self.data[name] if (one["what"], one["context"]) != (what, context)]

    def save(self) -> None:
        self.data["runs"][self.run]["seconds"] = round(time.monotonic() - self.since, 1)
        scratch = self.path.with_name(self.path.name + ".tmp")
        scratch.write_text(json.dumps(self.data, indent=1) + "\n")
        scratch.replace(self.path)


def what_of(model: str, arm: str, batch: int) -> str:
    return f"{model} {arm} b{batch}"
