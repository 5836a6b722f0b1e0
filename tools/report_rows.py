# SPDX-License-Identifier: Apache-2.0
"""The section of docs/performance.md on ranges of numbers of rows: what few kernels for all of a range cost beside one kernel for
each number (bench/results/GPU/rows.json, written by `sluice rows`). "" without that record. A point that was not verified has no
time and is told.
"""
import json
import pathlib

from report_data import ROWS_RECORD, measured, percent, table


def layer_row(layer: dict) -> list[str]:
    if "error" in layer:
        return [layer["name"], layer["error"], *["-"] * 6]
    wrong = [point for point in layer["points"] if "error" in point or not (point["same"] or point["verified"])]
    first, cost = layer["first_calls"], layer["measured"]
    return [layer["name"], str(layer["kernels"]), str(layer["kernels_alone"]), percent(layer["model"]["mean_loss"]), percent(cost["mean_loss"]),
            percent(cost["worst_loss"]), f"{first['worst_us']:.0f} at {first['worst_m']}", str(len(wrong)) if wrong else "none"]


def rows_section(results: pathlib.Path) -> str:
    path = results / ROWS_RECORD
    if not path.exists():
        return ""
    record = json.loads(path.read_text())
    rows, sums = record["rows"], record["summary"]
    header = ["layer", "kernels", "alone", "loss by the model, mean", "measured, mean", "worst", "longest first call, us", "wrong or failed"]
    return (f"## Few kernels for a range of rows\n\n`sluice rows` ({measured(record)}, {record['machine']['gpu']}): one `prepare` of {rows['low']} to {rows['high']} rows, then each "
            f"number of rows in turn. \"Alone\" is how many kernels a kernel for each would be. {rows['numbers']} numbers a layer, drawn at random (and the one that the model thinks fares "
            f"worst), are timed against the kernel that they would get alone: **{percent(sums['mean_loss'])}** slower in the mean, {percent(sums['worst_loss'])} at worst, with at most "
            f"{sums['most_kernels']} kernels; the longest first call took {sums['worst_call_us']:.0f} us.\n\n" + table(header, [layer_row(layer) for layer in record["layers"]]) + "\n")
