# SPDX-License-Identifier: Apache-2.0
"""Sections of docs/performance.md made from what runs under torch: the Python package (bench/results/h200/python/, written by
tests/python/gpu_cost.py and examples/llama_block.py) and Triton on the decode sweep (bench/results/h200/peers/, written by
tools/triton_sweep.py). A file that is missing leaves its section out.
"""
import json
import pathlib

from report_data import BEST, OURS, median, number, run_of, table


def block_rows(folder: pathlib.Path) -> list[dict]:
    """Of llama_block*.json, and of logs, which have a row a line: a run that was cut off has no JSON."""
    rows = {}
    for path in sorted(folder.glob("llama_block*")):
        if path.suffix == ".json":
            found = json.loads(path.read_text())["rows"]
        else:
            found = [json.loads(line) for line in path.read_text().splitlines() if line.startswith('{"tokens"')]
        rows |= {row["tokens"]: row for row in found}
    return [rows[tokens] for tokens in sorted(rows)]


def cost_table(cost: dict) -> str:
    rows = [[name, number(us["median"], 1), number(us["least"], 1)] for name, us in cost["host_us"].items() if name != "nothing"]
    return table(["eager call", "us, median", "least"], rows)


def python_section(results: pathlib.Path) -> str:
    folder = results / "python"
    cost = folder / "cost.json"
    rows = block_rows(folder)
    text = ""
    if rows:
        ways = [name.removesuffix(" us") for name in rows[-1] if name.startswith("sluice") and name.endswith(" us")]
        cells = [[str(r["tokens"]), number(r["torch us"], 1), *(number(r.get(f"{way} us"), 1) for way in ways),
                  number(r["faster"], 3), number(r["torch error"], 3), number(r["sluice error"], 3)] for r in rows]
        text += ("A Llama 3 8B block in FP8 (examples/llama_block.py), compiled by torch.compile, a CUDA graph of four layers, us a "
                 "layer; the fastest of sluice's ways counts; errors against the block in bf16, of the norm of what the layers "
                 "add:\n\n" +
                 table(["tokens", "torch._scaled_mm us", *(f"{way} us" for way in ways), "faster", "torch error",
                        "sluice error"], cells) + "\n\n")
    if cost.exists():
        read = json.loads(cost.read_text())
        text += f"Host time of an eager call, {read['gpu']}, torch {read['torch']}, Python {read['python']}:\n\n{cost_table(read)}\n"
    return f"## In PyTorch\n\n{text}" if text else ""


def triton_section(results: pathlib.Path, runs: list[dict]) -> str:
    path = results / "peers" / "triton_sweep.json"
    sweep = run_of(runs, "sweep")
    if not path.exists() or sweep is None:
        return ""
    ours = {s["problem"]["m"]: s for s in sweep["shapes"] if s["problem"]["a"] == "e4m3"}
    rows = []
    for shape in json.loads(path.read_text())["shapes"]:
        m = shape["problem"]["m"]
        right = [c for c in shape["contenders"] if c["verified"]]
        triton = min((c for c in right if c["name"].startswith("Triton")), key=lambda c: c["us"]["median"], default=None)
        torch = next((c for c in right if not c["name"].startswith("Triton")), None)
        mine = median(ours[m], OURS) if m in ours else None
        us = triton["us"]["median"] if triton else None
        rows.append([str(m), number(mine, 2), number(us, 2), number(us / mine if us and mine else None, 2),
                     number(torch["us"]["median"] if torch else None, 2), number(median(ours[m], BEST) if m in ours else None, 2),
                     triton["detail"] if triton else "-"])
    header = ["M", "sluice us", "Triton us", "x Triton", "cuBLASLt through torch us", "cuBLASLt best us", "Triton's configuration"]
    return ("## Triton, M x 4096 x 4096 in e4m3\n\nTuned Triton kernels (split-K among them) by tools/triton_sweep.py, timed as the bench "
            "times and in the same call as the sweep below, but in a process of their own:\n\n" + table(header, rows) + "\n")
