# SPDX-License-Identifier: Apache-2.0
"""The section of docs/performance.md about chains of dependent launches: bench/results/h200/chains/*.json, written by
`sluice chain --json`. Only arms count whose bits were those of their own kernels with the overlap off, and the peer's. Left out if there is none.
"""
import json
import pathlib

from report_data import number, table

SCHEMA = "sluice-chain-1"
PEER, OFF = "cuBLASLt", "off"


def right(arm: dict) -> bool:
    return "us_a_layer" in arm and (arm["name"] == PEER or arm.get("differing") == 0)


def chain_rows(chain: dict) -> list[list[str]]:
    times = {arm["name"]: arm["us_a_layer"]["median"] for arm in chain["arms"] if right(arm)}
    rows = []
    for arm in chain["arms"]:
        if not right(arm):
            continue
        us = times[arm["name"]]
        rows.append([chain["name"] if not rows else "", arm["name"], number(us, 2), f"{100 * arm['share']:.1f} %",
                     *(number(times[other] / us, 3) if other in times else "" for other in (OFF, PEER))])
    return rows


def chains_section(results: pathlib.Path) -> str:
    rows, peak = [], 0.0
    for path in sorted((results / "chains").glob("*.json")):
        run = json.loads(path.read_text())
        if run.get("schema") != SCHEMA:
            raise SystemExit(f"{path}: schema is {run.get('schema')!r}, not {SCHEMA!r}")
        peak = run["peak_tbps"]
        for chain in run["chains"]:
            rows += chain_rows(chain)
    if not rows:
        return ""
    header = ["layer", "how", "us a layer", f"of {peak} TB/s", "x off", f"x {PEER}"]
    return ("## Chains of dependent launches\n\nLayers with weights of their own in one CUDA graph (chains.md): products, norms and quantisers, without attention; \"projections\" are "
            f"the four products alone. {PEER} has its best algorithms, the same companions, and a graph too. Every arm has the bits of its own kernels with the overlap "
            "off. \"tuned\" is what `--tune` found in the same run.\n\n" + table(header, rows) + "\n\n")
