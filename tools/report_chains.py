# SPDX-License-Identifier: Apache-2.0
"""The section of docs/performance.md about chains of dependent launches: bench/results/h200/chains/*.json, written by
`sluice chain --json`. Only arms count whose bits were those of their own kernels with the overlap off, and the peer's. Left out if there is none.
"""
import json
import pathlib
import re

from report_data import commit_of, measured, number, table

SCHEMA = "sluice-chain-1"
PEER, OFF = "cuBLASLt", "off"


def right(arm: dict) -> bool:
    return "us_a_layer" in arm and (arm["name"] == PEER or arm.get("differing") == 0)


def chain_rows(chain: dict, run: dict) -> list[list[str]]:
    times = {arm["name"]: arm["us_a_layer"]["median"] for arm in chain["arms"] if right(arm)}
    rows = []
    for arm in chain["arms"]:
        if not right(arm):
            continue
        us = times[arm["name"]]
        rows.append([chain["name"] if not rows else "", arm["name"], number(us, 2), f"{100 * arm['share']:.1f} %",
                     *(number(times[other] / us, 3) if other in times else "" for other in (OFF, PEER)), "" if rows else measured(run)])
    return rows


def window_rows(chain: dict, run: dict) -> list[list[str]]:
    """An idle window and what was hidden in it, of each way with the bytes that hide most; empty without one."""
    window = chain.get("window")
    if not window:
        return []
    best: dict[str, dict] = {}
    for arm in chain["arms"]:
        way = re.sub(r" [\d.]+ MB", "", arm["name"])
        if right(arm) and way != OFF and arm.get("hidden_us", 0) >= best.get(way, {}).get("hidden_us", -1e9):
            best[way] = arm
    rows = []
    for arm in best.values():
        hidden = [number(arm["hidden_us"], 2), f"{100 * arm['hidden_share']:.0f} %"] if "hidden_us" in arm else ["", ""]
        place = "every product" if window["before"] == "all" else window["before"]
        rows.append([chain["name"] if not rows else "",
                     f"{window['us']:g} us before {place}" if not rows else "",
                     number(window["allowed_us"], 2) if not rows else "",
                     arm["name"], number(arm["us_a_layer"]["median"], 2), *hidden, "" if rows else measured(run)])
    return rows


def chains_section(results: pathlib.Path) -> str:
    rows, windows, replays, peak = [], [], [], 0.0
    for path in sorted((results / "chains").glob("*.json")):
        run = json.loads(path.read_text())
        if run.get("schema") != SCHEMA:
            raise SystemExit(f"{path}: schema is {run.get('schema')!r}, not {SCHEMA!r}")
        peak = run["peak_tbps"]
        for chain in run["chains"]:
            replays += [f"{chain['name']}, {arm['name']}: {arm['replays']:,} ({commit_of(run)})" for arm in chain["arms"] if right(arm) and arm.get("replays")]
            if chain.get("passes") == 1 and any(arm.get("replays") for arm in chain["arms"]):
                continue  # a short chain, for the replays alone
            if "window" in chain:
                windows += window_rows(chain, run)
            else:
                rows += chain_rows(chain, run)
    text = ""
    if rows:
        header = ["layer", "how", "us a layer", f"of {peak} TB/s", "x off", f"x {PEER}", "measured"]
        text += ("## Chains of dependent launches\n\nLayers with weights of their own in one CUDA graph (chains.md): products, norms and quantisers, without attention; \"projections\" are "
                 f"the four products alone. {PEER} has for each product the algorithm that a short screening of all its heuristic returns found fastest, the same companions, and a graph too. Every arm has the bits of its own kernels with the overlap "
                 f"off. \"tuned\" is what the shipped records say (chains.md), weights_first where there is none; \"fused: gated\" has SwiGLU and the quantisers in the products, {PEER} never.\n\n" + table(header, rows) + "\n\n")
    if replays:
        text += "Replays with changing inputs, each with the bits of the same kernels with the overlap off (`--replays`): " + "; ".join(replays) + ".\n\n"
    if windows:
        header = ["layer", "window", "allowed us", "how", "us a layer", "hidden us", "of allowed", "measured"]
        text += ("### Idle windows\n\nA kernel that idles on one SM stands in for attention or an all-reduce (`sluice chain --window`, findings/chains.md). Allowed is the window, "
                 "or the time in which 4.5 TB/s bring what fits into 0.4 of L2; hidden is the time of \"window\" less that of the arm, of each way with the bytes that hide most.\n\n" + table(header, windows) + "\n\n")
    return text
