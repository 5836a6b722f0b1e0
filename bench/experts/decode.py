#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times decoding of a model of experts, random weights: sluice.decode beside transformers under torch.compile.

    PYTHONPATH=python python bench/experts/decode.py OUT.json [--layers 6,12] [--batches 1,16] [--arms row,none,grouped_mm,batched_mm]

Each arm runs models of two depths; the whole model's time is EXTRAPOLATED from both, and the record says so. The peers are
transformers' own implementations of experts, with a StaticCache, as one CUDA graph per token (mode="reduce-overhead"); bf16, as they
have no FP8. The fastest of four windows counts, of each.
"""
from __future__ import annotations

import argparse
import gc
import json
import pathlib
import sys
import time
from typing import Any

import torch

from sluice.torch.decode import CONFIGS, RandomSource, decode
ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bench/decode")]
from engine import fastest, ids_of
from record import head

CONTEXT, TOKENS, WINDOWS = 128, 32, 4
PEERS = ("grouped_mm", "batched_mm")


def engine_ms(source: RandomSource, recipe: str | None, batches: list[int]) -> dict[int, dict[str, Any]]:
    """Returns by batch what the engine says of its fastest call; ``ms_token`` is milliseconds per token of all sequences."""
    engine = decode(source, recipe, max_length=CONTEXT + TOKENS + 1, progress=False)
    return {batch: fastest(engine, ids_of(batch, CONTEXT, source.config), TOKENS + 1) for batch in batches}


def transformers_of(source: RandomSource, device: str, implementation: str) -> Any:
    """Returns transformers' model with the source's tensors."""
    import transformers
    config = transformers.AutoConfig.for_model(**source.config)
    config._attn_implementation, config._experts_implementation = "sdpa", implementation
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.load_state_dict({name: source.tensor(name) for name in source.names}, strict=True, assign=True)
    with torch.device(device):  # its buffers are in no state
        model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return model.eval().requires_grad_(False)


def compiled_ms(model: Any, device: str, batches: list[int], implementation: str) -> dict[int, dict[str, Any]]:
    """Returns milliseconds per token of all sequences by batch."""
    import transformers
    cuda, found = device == "cuda", {}
    for batch in batches:
        torch._dynamo.reset()
        step = torch.compile(model.forward, fullgraph=True, dynamic=False,
                             **({"mode": "reduce-overhead"} if cuda else {"backend": "aot_eager"}))
        cache = transformers.StaticCache(config=model.config, max_cache_len=CONTEXT + TOKENS * (WINDOWS + 1))
        with torch.no_grad():
            logits = model(input_ids=ids_of(batch, CONTEXT, model.config.to_dict()).to(device), past_key_values=cache, use_cache=True).logits
            token = logits[:, -1].argmax(-1, keepdim=True)
            place, took = torch.full((batch, 1), CONTEXT, device=device), []
            for _ in range(WINDOWS + 1):
                if cuda:
                    torch.cuda.synchronize()
                begin = time.perf_counter()
                for _ in range(TOKENS):
                    if cuda:
                        torch.compiler.cudagraph_mark_step_begin()
                    logits = step(input_ids=token, position_ids=place, use_cache=True, past_key_values=cache).logits[:, -1]
                    token, place = logits.argmax(-1, keepdim=True).clone(), place + 1
                if cuda:
                    torch.cuda.synchronize()
                took.append((time.perf_counter() - begin) / TOKENS * 1e3)
        found[batch] = {"ms_token": min(took[1:]), "implementation": implementation}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=pathlib.Path)
    parser.add_argument("--model", default="qwen3-30b-a3b")
    parser.add_argument("--layers", default="6,12")
    parser.add_argument("--batches", default="1,16")
    parser.add_argument("--arms", default="row,none,grouped_mm,batched_mm")
    o = parser.parse_args()
    depths, batches = [[int(x) for x in text.split(",")] for text in (o.layers, o.batches)]
    whole = CONFIGS[o.model]["num_hidden_layers"]
    record: dict[str, Any] = {"run": head(torch.cuda.get_device_name(), 0), "gpu": torch.cuda.get_device_name(), "model": o.model, "context": CONTEXT,
                              "layers": depths, "whole": f"{whole} layers, extrapolated", "rows": [], "errors": {}}
    for arm in o.arms.split(","):
        by_depth = {}
        try:
            for depth in depths:
                source = RandomSource({**CONFIGS[o.model], "num_hidden_layers": depth})
                if arm in PEERS:
                    by_depth[depth] = compiled_ms(transformers_of(source, "cuda", arm), "cuda", batches, arm)
                else:
                    by_depth[depth] = engine_ms(source, None if arm == "none" else arm, batches)
                gc.collect()
                torch.cuda.empty_cache()
        except Exception as error:  # one arm's failure does not end the others'
            record["errors"][arm] = f"{type(error).__name__}: {error}"[:500]
        for batch in batches if len(by_depth) == len(depths) else ():
            times = [by_depth[depth][batch]["ms_token"] for depth in depths]
            layer = (times[-1] - times[0]) / (depths[-1] - depths[0])
            record["rows"].append({"arm": arm, "batch": batch, "ms": times, "ms_layer": layer, "ms_whole": times[-1] + layer * (whole - depths[-1]),
                                   "of": by_depth[depths[-1]][batch]})
            print(json.dumps({key: value for key, value in record["rows"][-1].items() if key != "of"}), flush=True)
        o.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
