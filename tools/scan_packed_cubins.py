#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles kernels that write WGMMA's A into registers, and scans their machine code with check_wgmma_registers.py.

    tools/scan_packed_cubins.py [--tool build/release/sluice] [--cache-dir DIR] [--every N] [--jobs N]

Needs NVRTC (SLUICE_NVRTC or a toolkit's) and nvdisasm: on PATH, SLUICE_NVDISASM, or pip's nvidia-cuda-nvdisasm. No GPU. Every
format that is packed, times the types of tokens, times shapes that the planner takes the strip and the wide kernel for, and
tiles asked for by name; ``--every N`` takes one of N. Prints how many kernels and products were scanned; exit status 1 if one
is wrong or there were none.
"""
import argparse
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import check_wgmma_registers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
ELF = b"\x7fELF"
STRIPS = ("--tokens-tile 8 --strips 4", "--tokens-tile 16 --strips 2 --k-groups 2", "--tokens-tile 64 --strips 2",
          "--tokens-tile 128 --strips 2", "--tokens-tile 32 --strips 1 --k-groups 4 --parts 2")
WIDES = ("--tokens-tile 32", "--tokens-tile 64", "--tokens-tile 128 --cluster-k 2", "--tokens-tile 128 --cluster-n 2",
         "--tokens-tile 256")


def lines():
    """Of a file for ``sluice compile --shapes``."""
    of_half = list(itertools.product(("bf16", "fp16"), ("int4", "uint4", "int8", "e4m3"), (0, 32, 64, 128), ("fp16", "bf16", "fp32")))
    for tokens, weights, group, scale in of_half:
        zeros = "--zero per_group" if weights == "uint4" else ""
        of = f"--n 4096 --k 4096 --dtype {tokens} --d fp32 --weights {weights} --group {group} --weight-scale {scale} {zeros}"
        for choice in ("", *STRIPS):
            yield f"--m 33 {of} {choice}"
        for choice in ("", *WIDES):
            yield f"--m 300 {of} {choice}"
    for weights, group, scale, m in itertools.product(("int4", "uint4"), (0, 32, 64, 128), ("fp16", "bf16", "fp32"), (1, 33, 300)):
        zeros = "--zero per_group" if weights == "uint4" else ""
        yield (f"--m {m} --n 4096 --k 4096 --dtype e4m3 --scale-a vector --d bf16 --weights {weights} --group {group} "
               f"--weight-scale {scale} {zeros}")


def disassembler():
    given = os.environ.get("SLUICE_NVDISASM") or shutil.which("nvdisasm")
    if given:
        return given
    for folder in sys.path:  # pip's packages
        for place in ("nvidia/cu13/bin", "nvidia/cuda_nvdisasm/bin", "triton/backends/nvidia/bin"):
            found = pathlib.Path(folder) / place / "nvdisasm"
            if found.exists():
                return str(found)
    sys.exit("no nvdisasm: put it on PATH, set SLUICE_NVDISASM, or pip install nvidia-cuda-nvdisasm")


def text_of(entry, tool):
    """SASS of a cached kernel, whose cubin lies behind the cache's own header."""
    data = entry.read_bytes()
    begin = data.find(ELF)
    if begin < 0:
        return None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(data[begin:])
        cubin.flush()
        return subprocess.run([tool, "-c", cubin.name], check=True, capture_output=True, text=True).stdout


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tool", default=str(ROOT / "build/release/sluice"))
    options.add_argument("--cache-dir", default="")
    options.add_argument("--every", type=int, default=1)
    options.add_argument("--jobs", type=int, default=0)
    given = options.parse_args()
    nvdisasm = disassembler()
    with tempfile.TemporaryDirectory() as own:
        cache = pathlib.Path(given.cache_dir or own)
        shapes = pathlib.Path(own) / "shapes.txt"
        every = [" ".join(line.split()) + " --no-records" for line in lines()][::given.every]
        # A tile that a format has no room for would refuse the whole file.
        wanted = [line for line in every if subprocess.run([given.tool, "plan", "--device", "host", *line.split()], check=False,
                                                           capture_output=True).returncode == 0]
        shapes.write_text("\n".join(wanted) + "\n")
        command = [given.tool, "compile", "--device", "host", "--shapes", str(shapes), "--cache-dir", str(cache),
                   "--jobs", str(given.jobs)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        kernels = []
        for entry in sorted(cache.rglob("*.cubin")):
            text = text_of(entry, nvdisasm)
            # The narrow kernel, and one that packs, have no such product: they are not what is looked at.
            if text and any(word in text for word in check_wgmma_registers.PRODUCTS):
                kernels.append((entry.name, text))
        products, wrong = check_wgmma_registers.failures(kernels)
    print("\n".join([*wrong, f"{len(wanted)} problems ({len(every) - len(wanted)} have no such tile): {len(kernels)} kernels with {products} products with A in registers"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
