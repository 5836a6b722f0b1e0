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


# Without a tuned tile of vLLM's. Records from before 2026-11-30 say no `peer tile`, and theirs is not vLLM's default.
UNTUNED = ("Mixtral", "Qwen3-235B TP8")


def of_layer(row: dict) -> float | None:
    """The peer's time over ours; None if the peer had another tile than vLLM gives it, or if no expert was chosen."""
    if row["model"] in UNTUNED and "peer tile" not in row or row["used"] == 0:
        return None
    return over(row, "vLLM Triton", "sluice")


def layers_of(folder: pathlib.Path) -> list[dict]:
    """Layers of all routings, by tokens; of a layer in two records that of the first."""
    found = {}
    for row in results_of(folder, "layers", "slots"):
        found.setdefault((row["tokens"], row["model"], row["routing"]), row)
    return sorted(found.values(), key=lambda row: row["tokens"])


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
    cells = [[f"{row['groups']} x {row['rows']}", f"{row['n']} x {row['k']}", cell(row["us"].get("sluice fp8"), ".1f"),
              cell(of_floor(row)), *(cell(over(row, peer, ours)) for peer, ours in PEERS.items())] for row in rows]
    means = "; ".join(f"{peer} / {ours} {summary([over(row, peer, ours) for row in rows])}" for peer, ours in PEERS.items())
    return table(["groups x rows", "n x k", "us, fp8", "floor / us", "DeepGEMM / sluice, fp8", "torch / sluice, bf16"], cells) + \
        "\n\n" + wrapped(f"{means}.")


def gradients(rows: list[dict]) -> str:
    ratios = [over(row, "torch bf16", "sluice bf16") for row in rows]
    return wrapped(f"Gradients of weights (groups along k, bf16), {len(rows)} products: torch / sluice {summary(ratios)}.")


def by_rows(rows: list[dict]) -> str:
    """FP8 with scales of rows and columns, beside torch and CUTLASS; the like one is that with fast sums, which both have."""
    peers = ("torch", "CUTLASS (vLLM)")
    found = "; ".join(f"{peer} / {ours} {summary([over(row, peer, ours) for row in rows])}" for peer in peers for ours in ("sluice, fast sums", "sluice"))
    return wrapped(f"With scales of rows and columns, {len(rows)} products of these sizes: {found}. Both peers have fast sums.")


def layers(rows: list[dict]) -> str:
    uniform = [row for row in rows if row["routing"] == "uniform"]
    cells = [[row["model"], str(row["tokens"]), str(row["used"]), f"{row['us']['sluice']:.0f}", f"{row['us']['sluice ops']:.0f}",
              f"{row['us']['sluice ops, batch_invariant']:.0f}", f"{row['floor_us']:.0f}", cell(of_layer(row))] for row in uniform]
    text = table(["layer", "tokens", "experts used", "us, a chain", "us, ops", "us, batch_invariant", "floor", "vLLM's Triton / chain"], cells)
    for routing, said in {"uniform": "uniform routing", "zipf": "experts by Zipf 0.8", "one": "all tokens to the same experts"}.items():
        ratios = [ratio for row in rows if row["routing"] == routing and (ratio := of_layer(row))]
        if ratios:
            text += "\n\n" + wrapped(f"vLLM's Triton layer / sluice, {said}, {len(ratios)} layers: {summary(ratios)}.")
    return text


def int4(rows: list[dict]) -> str:
    """Layers of packed experts beside Marlin."""
    found = [row for row in rows if row.get("product") == "layer"]
    cells = [[row["model"], str(row["tokens"]), f"{row['us']['sluice chain']:.0f}", f"{row['us']['sluice']:.0f}", f"{row['read_us']:.0f}",
              cell(over(row, "Marlin", "sluice chain"))] for row in found]
    return table(["layer in int4", "tokens", "us, a chain", "us, ops", "floor + 2 us", "Marlin / chain"], cells) + "\n\n" + \
        wrapped(f"Marlin's layer / sluice {summary([over(row, 'Marlin', 'sluice chain') for row in found])}.")


def gpt_oss(rows: list[dict]) -> str:
    sides = {"sluice": "FP8", "sluice, padded": "FP8, padded", "sluice, packed": "MXFP4"}
    def best(row: dict) -> float | None:
        return max((ratio for side in sides if (ratio := over(row, "triton_kernels", side))), default=None)
    cells = [[row["model"], str(row["tokens"]), *(cell(row["us"].get(side), ".0f") for side in sides), cell(row["us"].get("triton_kernels"), ".0f"),
              cell(best(row))] for row in rows]
    as_read = summary([over(row, "triton_kernels", "sluice") for row in rows])
    return table(["layer of gpt-oss", "tokens", *(f"us, {text}" for text in sides.values()), "triton_kernels", "that / our best"], cells) + "\n\n" + \
        wrapped(f"triton_kernels / our best {summary([best(row) for row in rows])}; / FP8 as a checkpoint is read {as_read}.")


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
    rows = results_of(folder, "few", "many")
    if not rows:
        return None
    parts = [wrapped(f"{shown.upper()}, CUDA graphs. The floor is bytes at 4.5 TB/s, or flops at 1685 TFLOP/s. Products have equal groups and cold "
                     "weights. Ratios are the peer's time divided by ours; above 1 sluice is faster."),
             products(rows)]
    others = {gradients: results_of(folder, "wgrad"), by_rows: results_of(folder, "rows"), layers: layers_of(folder),
              int4: results_of(folder, "int4"), gpt_oss: results_of(folder, "gpt_oss")}
    parts += [text_of(found) for text_of, found in others.items() if found]
    decode = result_files.text_of(folder / "decode.json")
    return "\n\n".join(part for part in [*parts, decoding(json.loads(decode)) if decode else ""] if part)
