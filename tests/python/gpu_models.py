#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sluice.decode on a GPU with models of transformers in their real sizes, which nobody tuned: random weights, few layers.

    python tests/python/gpu_models.py OUT.json [--models phi-4,olmo2-7b] [--recipes row,int4,none] [--layers 3] [--seconds 110]

For each model: logits of teacher-forced tokens against transformers' own bf16 forward, within a recipe's bound, and us per layer at one
sequence, from two numbers of layers. A model that decode refuses is listed with the words of the refusal, which must name the type or a
key of its config. Exit status 1 if a check failed. What --seconds left out is named under "skipped".
"""
import argparse
import gc
import json
import math
import sys
import time

import torch
import transformers
from gpu_decode import BOUNDS, finish

BEGIN = time.monotonic()
# Sizes as published in each model's config.json.
MODELS = {
    "phi-4": ("Phi3", dict(hidden_size=5120, intermediate_size=17920, num_attention_heads=40, num_key_value_heads=10, vocab_size=100352,
                           rope_parameters={"rope_type": "default", "rope_theta": 250000.0})),
    "phi-3-mini": ("Phi3", dict(hidden_size=3072, intermediate_size=8192, num_attention_heads=32, num_key_value_heads=32, vocab_size=32064,
                                sliding_window=2047)),
    "phi-2": ("Phi", dict(hidden_size=2560, intermediate_size=10240, num_attention_heads=32, vocab_size=51200)),
    "mistral-7b": ("Mistral", dict(hidden_size=4096, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8,
                                   vocab_size=32768, sliding_window=None)),
    "mistral-nemo": ("Mistral", dict(hidden_size=5120, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
                                     vocab_size=131072, sliding_window=None)),
    "smollm2-360m": ("Llama", dict(hidden_size=960, intermediate_size=2560, num_attention_heads=15, num_key_value_heads=5,
                                   vocab_size=49152, tie_word_embeddings=True)),
    "smollm2-1.7b": ("Llama", dict(hidden_size=2048, intermediate_size=8192, num_attention_heads=32, num_key_value_heads=32,
                                   vocab_size=49152, tie_word_embeddings=True)),
    "smollm3-3b": ("SmolLM3", dict(hidden_size=2048, intermediate_size=11008, num_attention_heads=16, num_key_value_heads=4,
                                   vocab_size=128256)),
    "gemma-2b": ("Gemma", dict(hidden_size=2048, intermediate_size=16384, num_attention_heads=8, num_key_value_heads=1, head_dim=256,
                               vocab_size=256000)),
    "gemma-7b": ("Gemma", dict(hidden_size=3072, intermediate_size=24576, num_attention_heads=16, num_key_value_heads=16, head_dim=256,
                               vocab_size=256000)),
    "gemma-2-9b": ("Gemma2", dict(hidden_size=3584, intermediate_size=14336, num_attention_heads=16, num_key_value_heads=8, head_dim=256,
                                  vocab_size=256000)),
    "olmo2-7b": ("Olmo2", dict(hidden_size=4096, intermediate_size=11008, num_attention_heads=32, vocab_size=100352)),
    "olmo-7b": ("Olmo", dict(hidden_size=4096, intermediate_size=11008, num_attention_heads=32, vocab_size=50304)),
    "qwen2.5-7b": ("Qwen2", dict(hidden_size=3584, intermediate_size=18944, num_attention_heads=28, num_key_value_heads=4,
                                 vocab_size=152064)),
    "qwen3-8b": ("Qwen3", dict(hidden_size=4096, intermediate_size=12288, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
                               vocab_size=151936)),
    "granite-8b": ("Granite", dict(hidden_size=4096, intermediate_size=12800, num_attention_heads=32, num_key_value_heads=8,
                                   vocab_size=49155, embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=16.0,
                                   attention_multiplier=0.0078125)),
}


def model_of(name, layers, device="cuda"):
    """Returns a model in bf16, whose matrices have unit gain, norms are around 1, and biases are not 0."""
    kind, sizes = MODELS[name]
    config = getattr(transformers, kind + "Config")(num_hidden_layers=layers, max_position_embeddings=4096, pad_token_id=0, bos_token_id=1,
                                                    eos_token_id=2, **sizes)
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval().requires_grad_(False)
    generator = torch.Generator(device=device).manual_seed(1)
    for key, value in model.named_parameters():
        scale = 0.1 if value.dim() == 1 else 1 / math.sqrt(value.shape[1])
        offset = 1.0 if "norm" in key and not kind.startswith("Gemma") else 0.0
        value.copy_(torch.empty_like(value, dtype=torch.float32).normal_(0, scale, generator=generator).add_(offset))
    return model


class Run:
    def __init__(self, options):
        self.o = options
        self.result = {"what": __doc__.splitlines()[0], "device": torch.cuda.get_device_name(), "torch": torch.__version__,
                       "transformers": transformers.__version__, "layers": options.layers, "models": [], "skipped": []}

    def logits(self, engine, model):
        """Returns the largest relative difference of a sequence's logits."""
        generator = torch.Generator().manual_seed(5)
        prompts = [torch.randint(3, model.config.vocab_size, (n,), generator=generator) for n in (33, 7)]
        tokens = torch.randint(3, model.config.vocab_size, (2, 24), generator=generator)
        got = engine.forced_logits(prompts, tokens)
        errors = []
        for row, prompt in enumerate(prompts):
            wanted = model(torch.cat((prompt, tokens[row]))[None].cuda(), use_cache=False).logits[0, prompt.numel() - 1:-1].float().cpu()
            errors.append(float((got[row].float().cpu() - wanted).norm() / wanted.norm()))
        return max(errors)

    def ms(self, engine):
        ids = torch.randint(3, engine.model.shape.vocab, (1, 100), generator=torch.Generator().manual_seed(3))
        engine.generate(ids, max_new_tokens=4, eos_token_id=[])
        samples = []
        for _ in range(3):
            engine.generate(ids, max_new_tokens=65, eos_token_id=[])
            samples.append(engine.stats()["ms_token"])
        return min(samples)

    def one(self, name):
        from sluice import decode
        from sluice.errors import InvalidArgument
        row = {"model": name, "recipes": {}, "refused": None, "passed": True}
        models = [model_of(name, layers) for layers in (self.o.layers, 2 * self.o.layers)]
        for recipe in self.o.recipes:
            try:
                few, many = (decode(model, recipe, max_length=512, progress=False) for model in models)
            except InvalidArgument as error:
                kind = models[0].config.model_type
                row["refused"] = str(error)
                row["passed"] = repr(kind) in str(error) or any(key in str(error) for key in models[0].config.to_dict())
                break
            error, times = self.logits(few, models[0]), [self.ms(few), self.ms(many)]
            bound = BOUNDS[recipe]
            row["recipes"][str(recipe)] = {"error": round(error, 4), "bound": bound,
                                           "us_layer": round((times[1] - times[0]) / self.o.layers * 1e3, 2)}
            row["passed"] &= error < bound
            del few, many
        return row

    def all(self):
        for name in self.o.models:
            if time.monotonic() - BEGIN > self.o.seconds:
                self.result["skipped"].append(name)
                continue
            try:
                with torch.no_grad():
                    row = self.one(name)
            except Exception as error:  # noqa: BLE001 - other models may pass
                row = {"model": name, "passed": False, "error": f"{type(error).__name__}: {str(error)[:400]}"}
            self.result["models"].append(row)
            print(f"{time.monotonic() - BEGIN:6.1f} s  {'pass' if row['passed'] else 'FAIL'}  {json.dumps(row)}", flush=True)
            gc.collect()
            torch.cuda.empty_cache()
        return all(row["passed"] for row in self.result["models"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json")
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--recipes", type=lambda text: [None if name == "none" else name for name in text.split(",")],
                        default=["row", "int4", None])
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=110)
    return finish(Run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
