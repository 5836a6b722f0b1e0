#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates with sluice.decode, and prints the text and what it measured. Needs a Hopper GPU.

    python examples/generate.py --model FOLDER --prompt "The capital of France is"

FOLDER holds config.json, safetensors and a tokenizer. ``--save QUANTISED`` writes a folder that later runs take as ``--model``.

    python examples/generate.py --random llama3-8b --recipe int4 --batch 16

Random weights give times, and tokens instead of text.
"""
import argparse
import sys
import time

import torch

import sluice
from sluice.torch.decode import CONFIGS, RandomSource, decode


def tokenizer_of(folder):
    """Returns the folder's tokenizer; None without one, or without transformers."""
    try:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(folder)
    except (ImportError, OSError, ValueError) as error:
        print(f"no tokenizer ({type(error).__name__}): tokens are printed", file=sys.stderr)
        return None


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--model", help="a folder: of transformers, or one that --save wrote")
    what.add_argument("--random", choices=sorted(CONFIGS), help="random weights of this model")
    parser.add_argument("--layers", type=int, help="with --random: so many layers")
    parser.add_argument("--recipe", choices=["row", "tensor", "int4", "none"], help="row by default; a saved folder has its own")
    parser.add_argument("--head", choices=["row", "int4", "none"])
    parser.add_argument("--prompt", action="append", help="may be repeated: one sequence each")
    parser.add_argument("--batch", type=int, default=1, help="without a prompt: so many random sequences")
    parser.add_argument("--context", type=int, default=128, help="without a prompt: so many tokens each")
    parser.add_argument("--tokens", type=int, default=256, help="new tokens")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-length", type=int)
    parser.add_argument("--overlap", default="tuned")
    parser.add_argument("--tune", type=float, help="seconds to tune each chain for")
    parser.add_argument("--save", metavar="FOLDER", help="writes the quantised model")
    return parser.parse_args()


def main():
    o, since = options(), time.perf_counter()
    model, tokenizer = o.model, None
    if o.random:
        config = dict(CONFIGS[o.random], **({"num_hidden_layers": o.layers} if o.layers else {}))
        model = RandomSource(config)
    else:
        tokenizer = tokenizer_of(o.model)
    given = {name: None if value == "none" else value for name, value in (("recipe", o.recipe), ("head", o.head)) if value is not None}
    try:
        engine = decode(model, max_length=o.max_length, overlap=o.overlap, tune=o.tune, **given)
        print(engine, file=sys.stderr)
        if tokenizer is not None and o.prompt:
            prompts = [tokenizer(text)["input_ids"] for text in o.prompt]
        else:
            vocab = engine.model.shape.vocab
            prompts = torch.randint(0, vocab, (o.batch, o.context), generator=torch.Generator().manual_seed(o.seed)).tolist()
        more = {} if tokenizer is not None else {"eos_token_id": []}
        engine.generate(prompts, max_new_tokens=1, **more)
        print(f"first token after {time.perf_counter() - since:.1f} s", file=sys.stderr)
        out = engine.generate(prompts, max_new_tokens=o.tokens, temperature=o.temperature, top_p=o.top_p, seed=o.seed, **more)
        if o.save:
            engine.save(o.save)
    except sluice.Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for row in out[:, max(map(len, prompts)):].tolist():
        print(tokenizer.decode(row, skip_special_tokens=True) if tokenizer is not None else row[:32])
    if o.tokens > 1:
        for name, value in engine.stats().items():
            print(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
