# SPDX-License-Identifier: Apache-2.0
"""Trains a decoder of 100 million parameters for 500 steps in bf16, in sluice's FP8 recipes and in torchao's: same seed, same data.

    PYTHONPATH=python python bench/training/losses.py OUT.json [--only TEXT] [--steps 500] [--batch 32] [--tokens 1024]

The text is the source of Python's own library, byte by byte. Parameters are fp32 under torch.autocast, blocks are compiled, and all linears but
the head are converted. A loss is that of one step; `last` is the mean of the last hundred, `of_bf16` its relative distance from that of bf16.
"bf16 again" draws other places of the text: how far two runs of one recipe lie apart. Contenders that OUT has are not run again.
"""
import argparse
import hashlib
import json
import pathlib
import statistics
import sys
import sysconfig
import time

import torch
import torch.nn.functional as F

import sluice
from blocks import BF16, Block, Norm, with_sluice, with_torchao

WIDTH, INNER, HEADS, LAYERS, VOCABULARY = 768, 2048, 12, 14, 256


class Decoder(torch.nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.embedding, self.positions = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Embedding(tokens, WIDTH)
        self.blocks = torch.nn.ModuleList(Block(WIDTH, INNER, HEADS, HEADS, WIDTH // HEADS) for _ in range(LAYERS))
        self.norm, self.head = Norm(WIDTH), torch.nn.Linear(WIDTH, VOCABULARY, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                torch.nn.init.normal_(parameter, std=0.02)

    def forward(self, ids):
        x = self.embedding(ids) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def with_swiglu(recipe):
    def convert(blocks):
        for block in blocks:
            with_sluice(recipe, True)(block)
    return convert


CONTENDERS = {"bf16": lambda blocks: None, "bf16 again": lambda blocks: None, "sluice row": with_sluice("row"), "sluice tensor": with_sluice("tensor"),
              "sluice block": with_sluice("block"), "sluice row fast": with_sluice("row", use_fast_accum=True),
              "sluice row 16bit": with_sluice("row", weight_gradient="16bit"), "sluice row swiglu": with_swiglu("row"),
              "sluice block swiglu": with_swiglu("block"), "torchao rowwise": with_torchao("rowwise"),
              "torchao tensorwise": with_torchao("tensorwise"), "torchao rowwise_with_gw_hp": with_torchao("rowwise_with_gw_hp")}


def text():
    """Returns the text, and what identifies it."""
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    files = sorted(path for path in root.rglob("*.py") if "site-packages" not in path.parts and "test" not in path.parts)
    data = b"".join(path.read_bytes() for path in files)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8), {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()[:16]}


def train(name, data, steps, batch, tokens):
    torch.manual_seed(0)
    model = Decoder(tokens).cuda()
    CONTENDERS[name](model.blocks)
    for i, block in enumerate(model.blocks):
        model.blocks[i] = torch.compile(block, dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 50))
    places = torch.Generator().manual_seed(2 if name.endswith("again") else 1)
    losses, begin = [], time.perf_counter()
    for _ in range(steps):
        first = torch.randint(len(data) - tokens - 1, (batch,), generator=places)
        ids = torch.stack([data[at:at + tokens + 1] for at in first.tolist()]).cuda(non_blocking=True).long()
        with torch.autocast("cuda", BF16):
            logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warm_up.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    losses = torch.stack(losses).tolist()
    return {"parameters": sum(p.numel() for p in model.parameters()), "seconds": time.perf_counter() - begin, "losses": losses,
            "last": statistics.mean(losses[-100:])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default="", help="contenders with one of these texts in their name, joined by commas")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=1024)
    given = parser.parse_args()
    data, identity = text()
    earlier = json.loads(given.out.read_text()) if given.out.exists() else {}
    runs, failed = earlier.get("runs", {}), {}
    if runs and earlier["text"] != identity:
        sys.exit(f"{given.out} is of another text, {earlier['text']}: give another file")
    for name in CONTENDERS:
        if name in runs or not any(part in name for part in given.only.split(",")):
            continue
        try:
            runs[name] = train(name, data, given.steps, given.batch, given.tokens)
        except Exception as error:  # a contender that cannot run is reported, and the others go on
            failed[name] = f"{type(error).__name__}: {error}"[:300]
            print(name, failed[name], flush=True)
        torch._dynamo.reset()
        torch.cuda.empty_cache()
        for run in runs.values():
            if "bf16" in runs:
                run["of_bf16"] = run["last"] / runs["bf16"]["last"] - 1
        if name in runs:
            distance = runs[name].get("of_bf16")
            print(f"{name:28s} {runs[name]['last']:.5f} {'-' if distance is None else f'{100 * distance:+.3f} %'} {runs[name]['seconds']:.0f} s", flush=True)
        given.out.write_text(json.dumps({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "sluice": sluice.__version__,
                                         "command": " ".join(sys.argv), "text": identity, "failed": failed, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
