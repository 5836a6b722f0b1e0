#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tunes the chains of whole models with the gap of attention in them, and collects the records that ship.

    python bench/decode/tune.py OUT.json [--models llama3-8b,qwen3-8b] [--rows 1,16,64,4] [--recipes tensor,row,int4]
                                [--fast] [--each 6] [--seconds 280]

Each chain is a bucket of an engine: 8 layers of random weights without the head, whose time would hide the layers', tuned for ``--each``
seconds (``Chain.tune``). OUT.json is a file
of records as sluice/plan/records/shipped has them: one line per chain, named "MODEL RECIPE, ROWS rows". ``--seconds`` starts no further
chain after that time, and names what it left out.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

import torch


def new_records(folder, known):
    """Returns the records in a folder, by line, that are not in ``known``."""
    lines = set()
    for path in pathlib.Path(folder).rglob("*.json"):
        text = path.read_text()
        found = json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines() if line.strip()]
        lines |= {json.dumps(record, separators=(",", ":")) for record in found}
    return lines - known


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json")
    parser.add_argument("--models", type=lambda text: text.split(","), default=["llama3-8b", "qwen3-8b"])
    parser.add_argument("--rows", type=lambda text: [int(x) for x in text.split(",")], default=[1, 16, 64, 4])
    parser.add_argument("--recipes", type=lambda text: [None if x == "none" else x for x in text.split(",")], default=["tensor", "row", "int4"])
    parser.add_argument("--fast", action="store_true", help="the fast sums of FP8 (use_fast_accum)")
    parser.add_argument("--each", type=float, default=6.0)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=280)
    options = parser.parse_args()
    folder = os.environ.setdefault("SLUICE_RECORDS_DIR", tempfile.mkdtemp())  # read when the device is opened
    from sluice.torch.decode import CONFIGS, RandomSource, decode
    from sluice.torch.decode.bucket import Bucket
    from sluice.torch.decode.recipes import Recipe

    class LayersAlone(Recipe):
        """A recipe whose chain ends with the last layer."""

        def end(self, *_):
            return None

    begin, made, known, left_out = time.monotonic(), [], set(), []
    for model in options.models:
        source = RandomSource({**CONFIGS[model], "num_hidden_layers": options.layers})
        for recipe in options.recipes:
            scales = torch.full((options.layers, 4), 0.02) if recipe == "tensor" else None
            engine = decode(source, recipe, max_length=256, progress=False, scales=scales, use_fast_accum=options.fast)
            kind = LayersAlone(recipe, engine.model.shape.epsilon, engine.model.shape.activation, engine.model.dtype)
            for rows in options.rows:
                what = f"{model} {recipe}{', fast sums' if options.fast else ''}, {rows} rows"
                if time.monotonic() - begin > options.seconds:
                    left_out.append(what)
                    continue
                Bucket(rows, engine.model, kind, engine._machine, engine._caches, None, "tuned", options.each)
                for line in sorted(new_records(folder, known)):
                    known.add(line)
                    record = {**json.loads(line), "name": what}
                    made.append(json.dumps(record, separators=(",", ":")))
                    print(f"{time.monotonic() - begin:6.1f} s  {what}: {record['us']:.2f} us, {record['off_us']:.2f} without overlap",
                          file=sys.stderr, flush=True)
                pathlib.Path(options.json).write_text("[\n" + ",\n".join(made) + "\n]\n")
            del engine
            torch.cuda.empty_cache()
    if left_out:
        print("left out:", "; ".join(left_out), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
