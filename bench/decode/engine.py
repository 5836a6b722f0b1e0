#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times whole models through sluice.decode: one sequence, all layers, random weights. By default the cache has 96 to 160 tokens, 128 in the mean.

    python bench/decode/engine.py OUT.json [--model llama3-8b] [--prompt 128] [--new 129] [--recipes tensor,int4,row,none] [--fast]
                                  [--overlap weights_first]
"""
import argparse
import gc
import json
import pathlib
import time

import torch


def ids_of(rows: int, prompt: int, config: dict) -> torch.Tensor:
    return torch.randint(0, config["vocab_size"], (rows, prompt), generator=torch.Generator().manual_seed(3))


def fastest(engine, ids: torch.Tensor, new: int) -> dict:
    """Returns the stats of the fastest of four calls of ``generate``."""
    runs = []
    for _ in range(4):
        engine.generate(ids, max_new_tokens=new, eos_token_id=[])
        runs.append(engine.stats())
    return min(runs, key=lambda stats: stats["ms_token"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=pathlib.Path)
    parser.add_argument("--model", default="llama3-8b")
    parser.add_argument("--prompt", type=int, default=96)
    parser.add_argument("--new", type=int, default=65)
    parser.add_argument("--recipes", default="tensor,int4,row,none")
    parser.add_argument("--fast", action="store_true", help="the fast sums of FP8 (use_fast_accum)")
    parser.add_argument("--overlap", default="tuned")
    options = parser.parse_args()
    from sluice.torch.decode import CONFIGS, RandomSource, decode
    config = CONFIGS[options.model]
    found: dict = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "model": options.model, "prompt": options.prompt, "rows": []}
    for name in options.recipes.split(","):
        since, recipe = time.monotonic(), None if name == "none" else name
        scales = torch.full((config["num_hidden_layers"], 4), 0.025) if recipe == "tensor" else None
        engine = decode(RandomSource(config), recipe, max_length=options.prompt + options.new, progress=False, scales=scales,
                        use_fast_accum=options.fast, overlap=options.overlap)
        engine.generate(ids_of(1, options.prompt, config), max_new_tokens=4, eos_token_id=[])
        first, best = time.monotonic() - since, fastest(engine, ids_of(1, options.prompt, config), options.new)
        found["rows"].append({**best, "recipe": name, "fast": options.fast, "seconds_to_first": round(first, 1)})
        print(json.dumps(found["rows"][-1]), flush=True)
        options.json.write_text(json.dumps(found, indent=1))
        del engine
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
