#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sluice.decode on a GPU: a Llama-3-8B-shaped model of a few layers with random weights, made tensor by tensor. For each recipe

- logits of 256 teacher-forced positions against a plain bf16 forward of torch, within BOUNDS;
- overlap "weights_first" against "off": the same bits over 1,000 tokens; "tuned" and "off": the same within a rounding;
- a sequence alone and in a full bucket: the same bits;
- ms per token at 1, 16 and 64 rows, and us per layer, from two numbers of layers.

    python tests/python/gpu_decode.py OUT.json [--layers 4] [--model llama3-8b] [--recipes row,tensor,int4,none] [--seconds 110]

Exit status 1 if a check failed. What --seconds left out is named under "skipped"; a run that skipped a check has not passed it.
"""
import argparse
import gc
import json
import sys
import time
import traceback

import torch
import torch.nn.functional as F

BEGIN = time.monotonic()
# Relative to the bf16 forward's logits. Weights are random and of unit gain, without the structure that makes rounding cheap.
BOUNDS = {None: 0.03, "row": 0.2, "tensor": 0.2, "int4": 0.55}
TUNED_BOUND = 0.05  # "tuned" may take other kernels, whose sums have another order
ROWS = (1, 16, 64)
POSITIONS, TOKENS = 256, 1000  # teacher-forced; generated


def forward_of_torch(source, tokens):
    """Returns the logits of each position, rows x tokens x vocab in fp32, by torch's operations on the source's bf16 weights."""
    s, x = source.shape, F.embedding(tokens, source.tensor("model.embed_tokens.weight"))
    cos, sin = (table[:tokens.shape[1]] for table in s.rope.tables(tokens.shape[1], tokens.device))

    def norm(y, name):
        return F.rms_norm(y.float(), (y.shape[-1],), eps=s.epsilon).mul(source.tensor(name).float()).to(y.dtype)

    def heads(y, name, count, gamma):
        y = F.linear(y, source.tensor(name)).unflatten(-1, (count, s.head_dim)).transpose(1, 2)
        if gamma is None:
            return y
        if s.head_norms:
            y = norm(y, gamma)
        low, high = y.float().chunk(2, -1)
        return torch.cat((low * cos - high * sin, high * cos + low * sin), -1).to(y.dtype)

    for i in range(s.layers):
        at = f"model.layers.{i}."
        y = norm(x, at + "input_layernorm.weight")
        q, k = (heads(y, f"{at}self_attn.{n}_proj.weight", count, f"{at}self_attn.{n}_norm.weight")
                for n, count in (("q", s.heads), ("k", s.kv_heads)))
        v = heads(y, at + "self_attn.v_proj.weight", s.kv_heads, None)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(2)
        x = x + F.linear(y, source.tensor(at + "self_attn.o_proj.weight"))
        y = norm(x, at + "post_attention_layernorm.weight")
        y = F.silu(F.linear(y, source.tensor(at + "mlp.gate_proj.weight"))) * F.linear(y, source.tensor(at + "mlp.up_proj.weight"))
        x = x + F.linear(y, source.tensor(at + "mlp.down_proj.weight"))
    return F.linear(norm(x, "model.norm.weight"), source.tensor("lm_head.weight")).float()


class Run:
    def __init__(self, options):
        from sluice.torch.decode import CONFIGS, RandomSource, decode

        self.o, self.decode = options, decode
        self.source = {n: RandomSource({**CONFIGS[options.model], "num_hidden_layers": n}) for n in (options.layers, 2 * options.layers)}
        self.result = {"what": __doc__.splitlines()[0], "device": torch.cuda.get_device_name(), "torch": torch.__version__,
                       "model": options.model, "layers": options.layers, "checks": [], "times": [], "skipped": [], "errors": []}
        generator = torch.Generator().manual_seed(1)
        vocab = self.source[options.layers].shape.vocab
        self.prompts = [torch.randint(0, vocab, (n,), generator=generator) for n in (64, 33, 17, 1)]
        self.tokens = torch.randint(0, vocab, (4, POSITIONS), generator=generator)
        self.vocab = vocab

    def engine(self, recipe, layers=None, **more):
        gc.collect()
        torch.cuda.empty_cache()
        return self.decode(self.source[layers or self.o.layers], recipe, max_length=TOKENS + 128, progress=False, **more)

    def check(self, name, passed, **facts):
        self.result["checks"].append({"check": name, "passed": bool(passed), **facts})
        print(f"{time.monotonic() - BEGIN:6.1f} s  {'pass' if passed else 'FAIL'}  {name}  {facts}", flush=True)

    def step(self, name, function, *arguments):
        if time.monotonic() - BEGIN > self.o.seconds:
            self.result["skipped"].append(name)
            return
        try:
            with torch.no_grad():
                function(*arguments)
        except Exception as error:
            traceback.print_exc()
            self.result["errors"].append({"what": name, "error": f"{type(error).__name__}: {error}"})

    # ---- checks
    def logits(self, recipe):
        forced = self.tokens
        engine = self.engine(recipe)
        got = engine.forced_logits(self.prompts, forced)
        errors, agree = [], []
        for row, prompt in enumerate(self.prompts):
            whole = torch.cat((prompt, forced[row]))[None].cuda()
            wanted = forward_of_torch(self.source[self.o.layers], whole)[0, prompt.numel() - 1:-1].cpu()
            errors.append(float((got[row].float() - wanted).norm() / wanted.norm()))
            agree.append(float((got[row].argmax(-1) == wanted.argmax(-1)).float().mean()))
        self.check(f"logits {recipe}", max(errors) < BOUNDS[recipe], errors=[round(e, 5) for e in errors], bound=BOUNDS[recipe],
                   same_best=round(sum(agree) / 4, 3), scales=None if engine.scales() is None else [float(x) for x in engine.scales()[0]])

    def bits(self, recipe):
        made, scales = {}, None
        for overlap in ("off", "weights_first", "tuned"):
            engine = self.engine(recipe, overlap=overlap, **({} if scales is None else {"scales": scales}))
            logits = engine.forced_logits(self.prompts, self.tokens)
            made[overlap] = (logits, engine.generate(self.prompts, max_new_tokens=TOKENS, eos_token_id=[]))
            scales = engine.scales()
            if overlap == "tuned":
                self.alone(engine, recipe)
            del engine
        same = torch.equal(made["off"][0], made["weights_first"][0]) and torch.equal(made["off"][1], made["weights_first"][1])
        self.check(f"overlap and its bits {recipe}", same, finite=bool(made["off"][0].isfinite().all()))
        off, tuned = made["off"][0].float(), made["tuned"][0].float()
        error = float((off - tuned).norm() / off.norm())
        bound = TUNED_BOUND if recipe in (None, "int4") else BOUNDS[recipe]
        self.check(f"tuned near off {recipe}", error < bound, error=round(error, 5), bound=bound, same_bits=torch.equal(off, tuned))

    def alone(self, engine, recipe):
        generator = torch.Generator().manual_seed(2)
        more = [torch.randint(0, self.vocab, (n,), generator=generator) for n in range(3, 15)]
        forced = torch.cat((self.tokens[:, :48], torch.randint(0, self.vocab, (12, 48), generator=generator)))
        one = engine.forced_logits(self.prompts[:1], forced[:1], bucket=16)
        full = engine.forced_logits(self.prompts + more, forced, bucket=16)
        again = engine.forced_logits(self.prompts[:1], forced[:1], bucket=16)
        self.check(f"alone and in a full bucket {recipe}", torch.equal(one[0], full[0]) and torch.equal(one, again))

    # ---- times
    def times(self, recipe):
        found = {}
        for layers in (self.o.layers, 2 * self.o.layers):
            engine = self.engine(recipe, layers)
            for rows in ROWS:
                ids = torch.randint(0, self.vocab, (rows, 16), generator=torch.Generator().manual_seed(3))
                engine.generate(ids, max_new_tokens=8, eos_token_id=[])
                samples = []
                for _ in range(3):
                    engine.generate(ids, max_new_tokens=129, eos_token_id=[])
                    samples.append(engine.stats()["ms_token"])
                found[layers, rows] = (min(samples), engine.stats())
            del engine
        whole = self.source[self.o.layers].config["num_hidden_layers"]
        for rows in ROWS:
            short, long = found[self.o.layers, rows][0], found[2 * self.o.layers, rows][0]
            layer = (long - short) / self.o.layers * 1e3
            row = {"recipe": recipe, "rows": rows, f"ms_token_{whole}": round(short, 4), f"ms_token_{2 * whole}": round(long, 4),
                   "us_layer": round(layer, 2), "us_rest": round(short * 1e3 - layer * self.o.layers, 1),
                   "launches": found[self.o.layers, rows][1]["launches_token"], "hbm_share": found[2 * self.o.layers, rows][1]["hbm_share"]}
            self.result["times"].append(row)
            print(f"{time.monotonic() - BEGIN:6.1f} s  {json.dumps(row)}", flush=True)

    def all(self):
        for recipe in self.o.recipes:
            self.step(f"logits {recipe}", self.logits, recipe)
        for recipe in self.o.recipes:
            self.step(f"times {recipe}", self.times, recipe)
        for recipe in self.o.recipes:
            self.step(f"bits {recipe}", self.bits, recipe)
        self.result["seconds"] = round(time.monotonic() - BEGIN, 1)
        return not self.result["errors"] and all(check["passed"] for check in self.result["checks"])


def finish(run):
    """Runs all, writes the result also if that fails, and returns the exit status."""
    try:
        passed = run.all()
    finally:
        with open(run.o.json, "w", encoding="utf-8") as file:
            json.dump(run.result, file, indent=1)
    print("passed" if passed else "failed", "with", len(run.result["skipped"]), "skipped:", ", ".join(run.result["skipped"]))
    return 0 if passed else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--model", default="llama3-8b")
    parser.add_argument("--recipes", type=lambda text: [None if name == "none" else name for name in text.split(",")],
                        default=["row", "tensor", "int4", None])
    parser.add_argument("--seconds", type=float, default=110)
    return finish(Run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
