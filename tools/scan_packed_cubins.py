#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles kernels that write WGMMA's A into registers, and scans their machine code with
check_wgmma_registers.py.

    tools/scan_packed_cubins.py [--tool build/release/sluice] [--cache-dir DIR] [--jobs N]

Needs no GPU, but NVRTC (SLUICE_NVRTC or a toolkit's) and nvdisasm: on PATH, SLUICE_NVDISASM, or
else installed into .venv/scan.

CI takes a kernel for each path through the code that writes such registers (covering()). It combines types of
tokens and weights, with and without stored zeros, with each group and each tile of strip.cuh and wide.cuh.

Prints the numbers of kernels and products scanned. Exit status 1: one is wrong, there were none, or
docs/packed.md does not name the NVRTC; 77: no nvdisasm (1 with SLUICE_NO_SKIPS).
"""
import argparse
import concurrent.futures
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import check_wgmma_registers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
ELF = b"\x7fELF"
STRIPS = tuple(f"--schedule strip --tile {tile}" for tile in (
    "8x256", "16x128 --k-groups 2", "64x128", "128x128", "32x64 --k-groups 4 --cluster 1x1x2", "24x192", "40x256", "72x256",
    "104x256", "112x192", "128x192", "136x128", "160x192"))
WIDES = tuple(f"--schedule wide --tile {tile}" for tile in (
    "32x128", "64x128", "128x128", "128x128 --cluster 1x2", "256x128", "24x128 --cluster 1x1", "96x128 --cluster 1x2",
    "136x128 --cluster 1x1", "176x128", "208x128 --cluster 1x2", "248x128 --cluster 1x1"))


HALF = tuple(itertools.product(("bf16", "fp16"), ("uint4", "uint4 --zero per_group", "int8", "int8 --zero per_group", "e4m3")))
BYTE = ("uint4", "uint4 --zero per_group")
GROUPS, SCALES = (0, 32, 64, 128), ("fp16", "bf16", "fp32")


def half_line(tokens, weights, group, scale, m, tile):
    return f"--m {m} --n 4096 --k 4096 --dtype {tokens} --d fp32 --weights {weights} --group {group} --weight-scale {scale} {tile}"


def byte_line(weights, group, scale, m, tile):
    return (f"--m {m} --n 4096 --k 4096 --dtype e4m3 --scale-a vector --d bf16 --weights {weights} --group {group} "
            f"--weight-scale {scale} {tile}")


def covering():
    """Returns lines of a file for ``sluice compile --shapes``: each type of tokens and weights with each tile, group and
    type of scale."""
    for turn, (tokens, weights) in enumerate(HALF):
        for m, tiles in ((33, ("", *STRIPS)), (300, ("", *WIDES))):
            for i, tile in enumerate(tiles):
                yield half_line(tokens, weights, GROUPS[(i + turn) % 4], SCALES[(i + turn) % 3], m, tile)
    for turn, weights in enumerate(BYTE):
        for i, (m, tile) in enumerate(((1, ""), (33, ""), (300, ""), *((33, strip) for strip in STRIPS))):
            yield byte_line(weights, GROUPS[(i + turn) % 4], SCALES[(i + turn) % 3], m, tile)


def check_covering():
    pairs = {(kind, word) for line in covering() for kind in [line[line.index("--dtype"):line.index(" --group")].split(" --d ")[0]
             + line[line.index("--weights"):line.index(" --group")]] for word in re.findall(r"--group \d+|--weight-scale \w+", line)}
    assert len(pairs) == (len(HALF) + len(BYTE)) * (len(GROUPS) + len(SCALES)), len(pairs)


def disassembler():
    if given := os.environ.get("SLUICE_NVDISASM") or shutil.which("nvdisasm"):
        return given
    own, place = ROOT / ".venv/scan", "lib/python*/site-packages/nvidia/cu13/bin/nvdisasm"
    if not list(own.glob(place)):
        subprocess.run([sys.executable, "-m", "venv", str(own)], check=False)
        subprocess.run([str(own / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r",
                        str(ROOT / "tools/scan-requirements.txt")], check=False)
    if found := list(own.glob(place)):
        return str(found[0])
    print("no nvdisasm: put it on PATH, set SLUICE_NVDISASM, or let pip install tools/scan-requirements.txt")
    sys.exit(1 if os.environ.get("SLUICE_NO_SKIPS") else 77)


def scan(entry, tool):
    """Returns (compiler, products, messages) of a cached kernel, whose cubin follows the cache's header; None
    if the kernel has no WGMMA."""
    data = entry.read_bytes()
    begin = data.find(ELF)
    if begin < 0:
        return None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(data[begin:])
        cubin.flush()
        text = subprocess.run([tool, "-c", cubin.name], check=True, capture_output=True, text=True).stdout
    # Narrow kernels and packers have no WGMMA and are skipped.
    if not any(word in text for word in check_wgmma_registers.PRODUCTS):
        return None
    compiler = re.search(rb"V(\d+\.\d+\.\d+)", data)
    products, wrong = check_wgmma_registers.failures([(entry.name, text)])
    # The cache stores ptxas' messages. If a wait in the source is too short, ptxas serialises the WGMMAs and
    # reports it.
    wrong += [f"{entry.name}: {note.decode(errors='replace')}" for note in re.findall(rb"\(C75\d\d\)[^\n\0]{0,120}", data)]
    return compiler[1].decode() if compiler else "?", products, wrong


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tool", default=str(ROOT / "build/release/sluice"))
    options.add_argument("--cache-dir", default="")
    options.add_argument("--jobs", type=int, default=0)
    given = options.parse_args()
    check_covering()
    nvdisasm = disassembler()
    with tempfile.TemporaryDirectory() as own, concurrent.futures.ProcessPoolExecutor(given.jobs or os.cpu_count()) as pool:
        cache = pathlib.Path(given.cache_dir or own)
        shapes = pathlib.Path(own) / "shapes.txt"
        lines = [" ".join(line.split()) + " --no-records" for line in covering()]
        # Tiles are tried one by one first, because a single one that does not fit a format would make the
        # tool refuse the whole file.
        plans = [[given.tool, "plan", "--device", "host", *line.split()] for line in lines]
        wanted = [line for line, fits in zip(lines, pool.map(succeeds, plans)) if fits]
        shapes.write_text("\n".join(wanted) + "\n")
        command = [given.tool, "compile", "--device", "host", "--shapes", str(shapes), "--cache-dir", str(cache),
                   "--jobs", str(given.jobs)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        entries = sorted(cache.rglob("*.cubin"))
        scanned = [found for found in pool.map(scan, entries, itertools.repeat(nvdisasm)) if found]
    compilers, products = sorted({found[0] for found in scanned}), sum(found[1] for found in scanned)
    wrong = [message for found in scanned for message in found[2]] + ([] if scanned else ["nothing to check"])
    named = (ROOT / "docs/packed.md").read_text()
    wrong += [f"docs/packed.md (The hazard) does not name NVRTC {one}, whose code this is" for one in compilers
              if f"NVRTC {one}" not in named]
    print("\n".join([*wrong, f"{len(wanted)} problems ({len(lines) - len(wanted)} have no such tile), NVRTC {', '.join(compilers)}: "
                     f"{len(scanned)} kernels with {products} products with A in registers, {len(wrong)} faults"]))
    return 1 if wrong else 0


def succeeds(command):
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
