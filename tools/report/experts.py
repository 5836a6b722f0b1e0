# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/experts.md, from the records of bench/experts (bench/results/GPU/experts)."""
import json
import pathlib

import result_files
from report.figures import geometric_mean, table, wrapped

PEERS = {"DeepGEMM fp8": "sluice fp8", "torch bf16": "sluice bf16"}


def results_of(folder: pathlib.Path, *names: str) -> list[dict]:
    """Results of the records, in their order; none of a record that is not there, nor of a case that failed."""
    texts = [result_files.text_of(folder / f"{name}.json") for name in names]
    return [row for text in texts if text for row in json.loads(text)["results"] if row.get("us")]


def products_of(folder: pathlib.Path) -> list[dict]:
    """Products in the newest walk, then those that ran only in the walk before, which are marked."""
    size = ("groups", "rows", "n", "k")
    newest = results_of(folder, "few", "many")
    known = {tuple(row[key] for key in size) for row in newest}
    return newest + [row | {"mark": " *"} for row in results_of(folder, "few_along_n", "many_along_n") if tuple(row[key] for key in size) not in known]


def over(row: dict, peer: str, ours: str) -> float | None:
    us = row["us"]
    return us[peer] / us[ours] if us.get(peer) and us.get(ours) else None


def cell(value: float | None, form: str = ".2f") -> str:
    return "-" if value is None else f"{value:{form}}"


def summary(ratios: list[float | None]) -> str:
    found = [ratio for ratio in ratios if ratio]
    return f"{geometric_mean(found):.2f} in the mean, {min(found):.2f} at worst" if found else "-"


def of_floor(row: dict) -> float | None:
    us = row["us"].get("sluice fp8")
    return row["floor_us"]["fp8"] / us if us else None


def products(rows: list[dict]) -> str:
    cells = [[f"{row['groups']} x {row['rows']}{row.get('mark', '')}", f"{row['n']} x {row['k']}", cell(row["us"].get("sluice fp8"), ".1f"),
              cell(of_floor(row)), *(cell(over(row, peer, ours)) for peer, ours in PEERS.items())] for row in rows]
    means = "; ".join(f"{peer} / {ours} {summary([over(row, peer, ours) for row in rows])}" for peer, ours in PEERS.items())
    marked = " Rows with * are of the run before, whose tiles were walked column by column." if any("mark" in row for row in rows) else ""
    return table(["groups x rows", "n x k", "us, fp8", "floor / us", "DeepGEMM / sluice, fp8", "torch / sluice, bf16"], cells) + \
        "\n\n" + wrapped(f"{means}.{marked}")


def gradients(rows: list[dict]) -> str:
    ratios = [over(row, "torch bf16", "sluice bf16") for row in rows]
    return wrapped(f"Gradients of weights (groups along k, bf16), {len(rows)} products: torch / sluice {summary(ratios)}.")


def layers(rows: list[dict]) -> str:
    cells = [[row["model"], str(row["tokens"]), f"{row['us']['sluice']:.0f}", f"{row['us']['sluice ops']:.0f}",
              f"{row['us']['sluice ops, batch_invariant']:.0f}", f"{row['floor_us']:.0f}", cell(over(row, "vLLM Triton", "sluice"))] for row in rows]
    return table(["layer", "tokens", "us, a chain", "us, ops", "us, batch_invariant", "floor", "vLLM's Triton / chain"], cells) + "\n\n" + \
        wrapped(f"vLLM's Triton layer / sluice {summary([over(row, 'vLLM Triton', 'sluice') for row in rows])}.")


def decoding(record: dict) -> str:
    peers = [row for row in record["rows"] if row["arm"].endswith("_mm")]
    cells = []
    for row in record["rows"]:
        best = min((peer["ms_whole"] for peer in peers if peer["batch"] == row["batch"]), default=None)
        cells.append([row["arm"], str(row["batch"]), f"{row['ms_layer'] * 1e3:.0f}", f"{row['ms_whole']:.2f}",
                      cell(best / row["ms_whole"] if best and row not in peers else None)])
    return table(["arm", "sequences", "us per layer", "ms per step", "best compiled arm / arm"], cells) + "\n\n" + \
        wrapped(f"A step is a token of each sequence, of {record['whole']} from {record['layers'][0]} and {record['layers'][-1]} layers.")


def block(results: pathlib.Path, shown: str) -> str | None:
    """The tables of the GPU that pages show, or None without records."""
    folder = results / shown / "experts"
    rows, wgrad, of_layers = products_of(folder), results_of(folder, "wgrad"), results_of(folder, "layers")
    if not rows:
        return None
    parts = [wrapped(f"{shown.upper()}, CUDA graphs. The floor is bytes at 4.5 TB/s, or flops at 1685 TFLOP/s. Products have equal groups and cold "
                     "weights. Ratios are the peer's time divided by ours; above 1 sluice is faster."),
             products(rows), gradients(wgrad) if wgrad else "", layers(of_layers) if of_layers else ""]
    decode = result_files.text_of(folder / "decode.json")
    return "\n\n".join(part for part in [*parts, decoding(json.loads(decode)) if decode else ""] if part)
