# SPDX-License-Identifier: Apache-2.0
"""The two plots of docs/performance.md: a roofline of all shapes, and the speed-up of each over cuBLASLt's best.

Called by report.py with the records and the functions that pick numbers from them; needs matplotlib. Output is the
same bytes for the same records (no dates, fixed ids), so that a rerun without news changes no file.
"""
import pathlib

import matplotlib
import numpy

matplotlib.use("Agg")
matplotlib.rcParams.update({"svg.hashsalt": "sluice", "svg.fonttype": "none", "font.size": 9,
                            "axes.spines.top": False, "axes.spines.right": False, "figure.facecolor": "white"})
from matplotlib import pyplot  # noqa: E402  (after the back end is chosen)

COLOURS = {"16-bit": "#1f6f8b", "fp8": "#d1742b"}
PEER_COLOUR = "#9a9a9a"


def family(shape: dict) -> str:
    return "fp8" if shape["problem"]["a"].startswith("e") else "16-bit"


def save(figure, folder: pathlib.Path, name: str, kinds: tuple[str, ...]) -> None:
    for kind in kinds:
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(folder / f"{name}.{kind}", bbox_inches="tight", dpi=150, metadata=metadata)
    pyplot.close(figure)


def draw_roofline(runs: list[dict], folder: pathlib.Path, rates) -> None:
    figure, axes = pyplot.subplots(figsize=(7.5, 4.5))
    machine = runs[0]["machine"]
    shapes = [s for run in runs for s in run["shapes"]]
    intensities = [s["flops"] / s["bytes"] for s in shapes]
    reach = numpy.geomspace(min(intensities + [64]), max(intensities) * 2, 200)
    for name, peak in (("16-bit", machine["fp16_peak_tflops"]), ("fp8", machine["fp8_peak_tflops"])):
        roof = numpy.minimum(peak, reach * machine["hbm_gbps"] / 1000)
        axes.plot(reach, roof, color=COLOURS[name], linewidth=1, alpha=0.7)
        axes.annotate(f"{name}: {peak:.0f} TFLOP/s sustained", (reach[-1], peak), xytext=(0, 3), ha="right",
                      textcoords="offset points", color=COLOURS[name], fontsize=8)
    labelled = set()
    for contender, marker in (("cuBLASLt best", "x"), ("sluice", "o")):
        for shape in shapes:
            found = rates(shape, contender)
            if not found:
                continue
            ours = contender == "sluice"
            label = f"sluice {family(shape)}" if ours else contender
            axes.plot(shape["flops"] / shape["bytes"], found["tflops"], marker, markersize=5, label=None if label in labelled else label,
                      color=COLOURS[family(shape)] if ours else PEER_COLOUR, markerfacecolor="none" if not ours else None)
            labelled.add(label)
    axes.set(xscale="log", yscale="log", xlabel="flops for each byte that must move", ylabel="TFLOP/s",
             title=f"Roofline, {machine['gpu']}")
    axes.set_xticks([2**i for i in range(6, 14)], [str(2**i) for i in range(6, 14)])
    axes.set_yticks([125, 250, 500, 1000, 2000], ["125", "250", "500", "1000", "2000"])
    axes.minorticks_off()
    axes.set(xlim=(reach[0], reach[-1]), ylim=(100, 2200))
    axes.legend(frameon=False, loc="lower right")
    save(figure, folder, "roofline", ("svg", "png"))


def draw_speedup(runs: list[dict], folder: pathlib.Path, ratio) -> None:
    rows = [(ratio(s), s) for run in runs if run["method"]["mode"] == "cold" for s in run["shapes"]]
    rows = sorted(((r, s) for r, s in rows if r), key=lambda row: row[0])
    if not rows:
        return
    figure, axes = pyplot.subplots(figsize=(7.5, 0.8 + 0.17 * len(rows)))
    for y, (value, shape) in enumerate(rows):
        axes.barh(y, value - 1, left=1, color=COLOURS[family(shape)], height=0.7)
        p = shape["problem"]
        axes.text(1 + (-0.004 if value >= 1 else 0.004), y, f"{p['m']} x {p['n']} x {p['k']}", fontsize=6.5,
                  ha="right" if value >= 1 else "left", va="center")
        axes.text(value + (0.004 if value >= 1 else -0.004), y, f"{value:.2f}", fontsize=6.5,
                  ha="left" if value >= 1 else "right", va="center", color=COLOURS[family(shape)])
    axes.axvline(1, color="black", linewidth=0.8)
    values = [value for value, _ in rows]
    axes.set(xlim=(min(values + [0.85]) - 0.1, max(values + [1.1]) + 0.1), ylim=(-0.7, len(rows) - 0.3), yticks=[],
             xlabel="cuBLASLt's best time / sluice's time (cold L2); right of 1, sluice is faster",
             title=f"Speed-up, {runs[0]['machine']['gpu']}")
    axes.spines["left"].set_visible(False)
    handles = [matplotlib.patches.Patch(color=colour, label=name) for name, colour in COLOURS.items()]
    axes.legend(handles=handles, frameon=False, loc="lower right")
    save(figure, folder, "speedup", ("svg",))


def draw(runs: list[dict], folder: pathlib.Path, ratio, rates) -> None:
    runs = [run for run in runs if run["shapes"]]
    if runs:
        draw_roofline(runs, folder, rates)
        draw_speedup(runs, folder, ratio)
