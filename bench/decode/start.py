#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the second start of a saved engine: from the start of a new process to its first token.

    python bench/decode/start.py OUT.json [--model llama3-8b] [--recipe row] [--folder /tmp/saved_engine]

The model has random weights and all layers. The first process makes the engine, saves it and ends; kernels lie in the cache then, as on
a machine that decoded before. The saved files are likely still in the machine's memory, so a disk is not timed.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import time

MAKE = """
import sys, torch
from sluice.torch.decode import CONFIGS, RandomSource, decode
config, recipe, folder = CONFIGS[sys.argv[1]], sys.argv[2], sys.argv[3]
scales = torch.full((config["num_hidden_layers"], 4), 0.025) if recipe == "tensor" else None
engine = decode(RandomSource(config), recipe, progress=False, scales=scales)
engine.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=2, eos_token_id=[])
engine.save(folder)
"""
START = """
import sys, torch, sluice
engine = sluice.decode(sys.argv[1], progress=False)
print(engine.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=1, eos_token_id=[]).tolist())
"""


def seconds_of(*command: str) -> float:
    since = time.monotonic()
    subprocess.run([sys.executable, "-c", *command], check=True, stdout=subprocess.DEVNULL)
    return round(time.monotonic() - since, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=pathlib.Path)
    parser.add_argument("--model", default="llama3-8b")
    parser.add_argument("--recipe", default="row")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/tmp/saved_engine"))
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    made = seconds_of(MAKE, options.model, options.recipe, str(options.folder))
    size = sum(path.stat().st_size for path in options.folder.rglob("*"))
    found = {"model": options.model, "recipe": options.recipe, "made_and_saved_s": made, "saved_gb": round(size / 1e9, 2),
             "start_s": [seconds_of(START, str(options.folder)) for _ in range(2)]}
    shutil.rmtree(options.folder)
    print(json.dumps(found))
    options.json.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
