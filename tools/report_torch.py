# SPDX-License-Identifier: Apache-2.0
"""Sections of docs/performance.md made from what runs under torch: the Python package (bench/results/h200/python/, written by
tests/python/gpu_cost.py and examples/llama_block.py) and Triton on the decode sweep (bench/results/h200/peers/, written by
tools/triton_sweep.py). A file that is missing leaves its section out; one that names no commit is said to name none.
"""
import datetime
import json
import pathlib

from report_data import BEST, NO_COMMIT, OURS, commit_of, geometric_mean, measured, median, number, run_of, table
from report_files import age_words
from triton_record import searched, was_cut


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
    if text:
        used = [path for path in sorted(folder.glob("*")) if path.stem.startswith("llama_block") or path == cost]
        text += "\n" + "; ".join(f"{path.name}: {measured(json.loads(path.read_text())) if path.suffix == '.json' else NO_COMMIT}" for path in used) + ".\n"
    return f"## In PyTorch\n\n{text}" if text else ""


def triton_rows(results: pathlib.Path, runs: list[dict]) -> tuple[dict, dict, list[dict]] | None:
    """The Triton record, the sweep, and of each number of tokens what both have; None where one is missing."""
    path = results / "peers" / "triton_sweep.json"
    sweep = run_of(runs, "sweep")
    if not path.exists() or sweep is None:
        return None
    record = json.loads(path.read_text())
    ours = {s["problem"]["m"]: s for s in sweep["shapes"] if s["problem"]["a"] == "e4m3"}
    rows = []
    for shape in record["shapes"]:
        m = shape["problem"]["m"]
        right = [c for c in shape["contenders"] if c["verified"]]
        triton = min((c for c in right if c["name"].startswith("Triton")), key=lambda c: c["us"]["median"], default=None)
        torch = next((c for c in right if not c["name"].startswith("Triton")), None)
        mine = median(ours[m], OURS) if m in ours else None
        us = triton["us"]["median"] if triton else None
        rows.append({"m": m, "mine": mine, "triton": us, "ratio": us / mine if us and mine else None, "config": triton["detail"] if triton else "-",
                     "torch": torch["us"]["median"] if torch else None, "best": median(ours[m], BEST) if m in ours else None,
                     "searched": searched(shape["tuning"]), "wrong": bool(shape["tuning"]["wrong"]), "cut": was_cut(shape["tuning"])})
    return record, sweep, rows


HELD = ("Triton's results were held to a bound of each element (2^-8 of it and 2^-10 of the sum of magnitudes), sluice's to the looser one of that time: both "
        "are held to exact whole numbers and a bound since.")


def when(record: dict, sweep: dict) -> str:
    """Whether two records are of one call, as far as their commits and times can tell."""
    try:
        starts = [datetime.datetime.fromisoformat(r["started"].replace("Z", "+00:00")) for r in (record, sweep)]
    except (KeyError, ValueError):
        return "when, the records do not say"
    near = abs((starts[0] - starts[1]).total_seconds()) < 7200
    if near and commit_of(record) == commit_of(sweep) != NO_COMMIT:
        return f"within two hours of the sweep below and at its commit ({measured(record)})"
    return (f"not in the same visit as the sweep below: Triton and torch at {measured(record)}, sluice and cuBLASLt's best at "
            f"{measured(sweep)}, so a difference of 1 or 2 % says nothing")


def triton_section(results: pathlib.Path, runs: list[dict]) -> str:
    found = triton_rows(results, runs)
    if found is None:
        return ""
    record, sweep, rows = found
    cells = [[str(r["m"]), number(r["mine"], 2), number(r["triton"], 2), number(r["ratio"], 2), number(r["torch"], 2), number(r["best"], 2),
              r["searched"], r["config"]] for r in rows]
    header = ["M", "sluice us", "Triton us", "x Triton", "cuBLASLt through torch us", "cuBLASLt best us", "candidates timed", "Triton's configuration"]
    cut = [str(r["m"]) for r in rows if r["cut"]]
    text = ("## Triton, M x 4096 x 4096 in e4m3\n\nTriton kernels of our own (split-K among them), tuned for each M by tools/triton_sweep.py, timed as the bench "
            f"times but in a process of their own, and {when(record, sweep)}. The torch column is cuBLASLt's first heuristic, with torch's call around it. ")
    text += (f"**The search ran out of time at M = {', '.join(cut)}** (\"cut\"): there the fastest Triton kernel may not have been timed. " if cut else
             "Every candidate was tried at every M. ")
    wrong = [r["m"] for r in rows if r["wrong"]]
    if wrong:
        text += (f"**At M = {', '.join(map(str, wrong))} about half of the candidates gave wrong results and were not timed**: all splits by atomic addition, "
                 "and no others. All of them finish in blocks of 1024 elements, and none of the right ones does, so the fault is the script's; it is changed "
                 "since and has not run again. The fastest Triton kernel may be among them there. ")
    text += HELD + "\n\n"
    return text + table(header, cells) + "\n"


def triton_sentence(results: pathlib.Path, runs: list[dict]) -> str:
    """For the README."""
    found = triton_rows(results, runs)
    ratios = [r["ratio"] for r in found[2] if r["ratio"]] if found else []
    if not ratios:
        return ""
    record, sweep, rows = found
    cut = sum(r["cut"] for r in rows)
    search = f"whose tuner ran out of time at {cut} of them" if cut else "tuned over every candidate of tools/triton_sweep.py"
    wrong = sum(r["wrong"] for r in rows)
    search += (f"; at {wrong} of the sizes half of those, all splits by atomic addition, gave wrong results by a fault of the script and were not timed, so "
               "the fastest may be missing there") if wrong else ""
    return (f"Beside Triton kernels of our own ({search}), e4m3 at 4096 x 4096: {min(ratios):.2f} to {max(ratios):.2f} times as fast, geometric mean "
            f"{geometric_mean(ratios):.2f}, at {len(ratios)} numbers of tokens from {rows[0]['m']} to {rows[-1]['m']}; of two visits: Triton at {measured(record)}{age_words(commit_of(record)).replace(' is', ',')}; "
            f"sluice at {measured(sweep)}.")
