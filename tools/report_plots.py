# SPDX-License-Identifier: Apache-2.0
"""The plots of docs/performance.md: a roofline of all shapes and, for each record, the speed-up of each shape over
cuBLASLt's best and the share of the tensor cores' sustained peak that each reaches.

Called by report.py with the records; needs matplotlib. Output is the same bytes for the same records (no dates, fixed
ids), so that a rerun without news changes no file. Colours are Okabe and Ito's, which the colour-blind can tell apart;
marks differ too.
"""
import math
import pathlib

import matplotlib
import numpy

from report_data import (BEST, DRAWN, EVEN, OURS, extras, groups_of, is_fp8, median, peak, peak_share, peer_words, ratio, set_of, sizes,
                         sums_of)

matplotlib.use("Agg")
matplotlib.rcParams.update({"svg.hashsalt": "sluice", "svg.fonttype": "none", "font.size": 9,
                            "axes.spines.top": False, "axes.spines.right": False, "figure.facecolor": "white"})
from matplotlib import pyplot  # noqa: E402  (after the back end is chosen)

BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8a8a8a"
LOOKS = {"16-bit": (BLUE, "o"), "fp8": (ORANGE, "s"), "fp8 promoted": (GREEN, "^"), "fp8 block-scaled": (PURPLE, "D")}
WIDTH = 8.4  # inches: text of 9 points is then as large as GitHub's own
ROW = 0.19   # inches a shape


def family(shape: dict) -> str:
    if not is_fp8(shape):
        return "16-bit"
    return "fp8" if sums_of(shape) == "fast" else f"fp8 {sums_of(shape)}"


def save(figure, folder: pathlib.Path, name: str, kinds: tuple[str, ...]) -> None:
    for kind in kinds:
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(folder / f"{name}.{kind}", bbox_inches="tight", dpi=150, metadata=metadata)
    pyplot.close(figure)


def method_of(*runs: dict) -> str:
    rounds = " or ".join(map(str, sorted({run["method"]["rounds"] for run in runs})))
    return f"{runs[0]['machine']['gpu']}, {runs[0]['method']['mode']} L2, median of {rounds} rounds in turn"


def draw_roofline(runs: list[dict], folder: pathlib.Path, kinds: tuple[str, ...]) -> None:
    """Two panels, 16-bit and fp8: one would hide the peers behind the other's points."""
    machine = runs[0]["machine"]
    shapes = [s for run in runs for s in run["shapes"] if median(s, OURS)]
    panels = [(name, part) for name, part in (("16-bit", [s for s in shapes if not is_fp8(s)]),
                                              ("fp8", [s for s in shapes if is_fp8(s)])) if part]
    panels = [(name, part) for name, part in panels if peak(runs[0], part[0]) > 0]
    if not panels:
        return
    figure, all_axes = pyplot.subplots(1, len(panels), figsize=(WIDTH, 4.4), sharey=True, squeeze=False)
    every = [s["flops"] / s["bytes"] for s in shapes]
    reach = numpy.geomspace(min(every) / 1.3, max(every) * 1.3, 300)
    lowest = min(s["flops"] / us * 1e-6 for s in shapes for name in (OURS, BEST) if (us := median(s, name)))
    for axes, (name, part) in zip(all_axes[0], panels):
        top = peak(runs[0], part[0])
        axes.plot(reach, numpy.minimum(top, reach * machine["hbm_gbps"] / 1000), color="black", linewidth=1)
        axes.annotate(f"{top:.0f} TFLOP/s sustained", (reach[-1], top), xytext=(0, 4), ha="right",
                      textcoords="offset points", fontsize=8)
        for us_of, look, label in [(BEST, (GREY, "x"), BEST)] + [(OURS, LOOKS[f], f"sluice {f}") for f in LOOKS]:
            chosen = [s for s in part if median(s, us_of) and (us_of == BEST or f"sluice {family(s)}" == label)]
            if chosen:
                axes.plot([s["flops"] / s["bytes"] for s in chosen],
                          [s["flops"] / median(s, us_of) * 1e-6 for s in chosen], look[1], color=look[0], label=label,
                          markersize=4.5, markerfacecolor=None if us_of == OURS else "none", alpha=0.85,
                          linestyle="none", zorder=3 if us_of == BEST else 2)
        ticks = [2**i for i in range(math.ceil(math.log2(reach[0])), math.floor(math.log2(reach[-1])) + 1)]
        ticks = ticks if len(ticks) <= 7 else ticks[::2]
        axes.set(xscale="log", yscale="log", xlabel="flops for each byte that must move", title=name)
        axes.set_xticks(ticks, list(map(str, ticks)))
        rates = [r for r in (8, 16, 31, 62, 125, 250, 500, 1000, 2000) if r > lowest / 1.6]
        axes.set_yticks(rates, list(map(str, rates)))
        axes.minorticks_off()
        axes.set(xlim=(reach[0], reach[-1]), ylim=(lowest / 1.5, 2400))
        axes.grid(color="#e6e6e6", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.legend(frameon=False, loc="lower right", fontsize=8)
    all_axes[0][0].set_ylabel("TFLOP/s")
    figure.suptitle(f"Roofline: {method_of(*runs)}; memory {machine['hbm_gbps'] / 1000:.1f} TB/s", y=0.99)
    figure.tight_layout()
    save(figure, folder, "roofline", tuple({*kinds, "png"}))


def label_of(shape: dict) -> str:
    return "{} x {} x {}".format(*sizes(shape)) + extras(shape["problem"])


def panels_of(run: dict, keep) -> list[tuple[str, list[dict]]]:
    return [(name, part) for name, shapes in groups_of(run).items() if (part := [s for s in shapes if keep(s)])]


def grid(run: dict, panels: list[tuple[str, list[dict]]], title: str, legend: list):
    """Panels side by side, a row a shape, from the top down. Those that list the same shapes share their names."""
    names = [[label_of(s) for s in part] for _, part in panels]
    shared = len(panels) > 1 and all(n == names[0] for n in names)
    columns = min(len(panels), 2)
    lines = math.ceil(len(panels) / columns)
    tallest = [max(len(n) for n in names[i * columns:(i + 1) * columns]) for i in range(lines)]
    height = ROW * sum(tallest) + 0.75 * lines + 0.75
    figure, all_axes = pyplot.subplots(lines, columns, figsize=(WIDTH, height), squeeze=False, layout="constrained",
                                       gridspec_kw={"height_ratios": tallest})
    for unused in all_axes.flat[len(panels):]:
        unused.set_visible(False)
    for i, (axes, (name, part)) in enumerate(zip(all_axes.flat, panels)):
        axes.set(ylim=(tallest[i // columns] - 0.4, -0.6), title=name)
        axes.title.set_fontsize(9.5)
        hidden = shared and i % columns
        axes.set_yticks(range(len(part)), [""] * len(part) if hidden else names[i], fontsize=7.5)
        axes.tick_params(axis="y", length=0)
        for y in range(1, len(part)):  # a thin line where m changes
            if sizes(part[y])[0] != sizes(part[y - 1])[0] and set_of(run) not in DRAWN:
                axes.axhline(y - 0.5, color="#cccccc", linewidth=0.6)
    figure.suptitle(f"{title}: {set_of(run)}\n{method_of(run)}", fontsize=10.5)
    figure.legend(handles=legend, frameon=False, loc="outside lower center", ncols=len(legend), fontsize=8.5)
    return figure, list(zip(all_axes.flat, (part for _, part in panels)))


def draw_speedup(run: dict, folder: pathlib.Path, kinds: tuple[str, ...]) -> None:
    panels = panels_of(run, lambda s: ratio(s, OURS, BEST))
    if not panels:
        return
    faster, even, slower = BLUE, GREY, ORANGE
    legend = [matplotlib.patches.Patch(color=colour, label=label) for colour, label in (
        (faster, "sluice faster"), (even, f"even, within {EVEN:.0%}"), (slower, "sluice slower"))]
    values = [ratio(s, OURS, BEST) for _, part in panels for s in part]
    low, high = min(values + [0.95]), max(values + [1.05])
    room = 0.13 * (high - low)  # for the numbers at the ends of the bars
    steps = [step for step in (0.02, 0.05, 0.1, 0.2, 0.5, 1) if (high - low + 2 * room) / step < (7 if len(panels) > 1 else 14)]
    step = (steps + [10])[0]
    figure, drawn = grid(run, panels, f"Speed-up over {peer_words(run['shapes'])} (its time over sluice's)", legend)
    for axes, part in drawn:
        for y, shape in enumerate(part):
            value = ratio(shape, OURS, BEST)
            colour = even if abs(value - 1) <= EVEN else faster if value > 1 else slower
            axes.barh(y, value - 1, left=1, color=colour, height=0.68)
            axes.annotate(f"{value:.2f}", (value, y), xytext=(3 if value >= 1 else -3, 0), textcoords="offset points",
                          ha="left" if value >= 1 else "right", va="center", fontsize=7)
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set(xlim=(low - room, high + room), xlabel="right of 1, sluice is faster")
        axes.xaxis.set_major_locator(matplotlib.ticker.MultipleLocator(step))  # of one, so that 1 has a tick
        axes.xaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%.2f"))
        axes.spines["left"].set_visible(False)
    save(figure, folder, f"speedup-{set_of(run)}", kinds)


def allowed_share(run: dict, shape: dict) -> float:
    """The share of the peak that is left when every byte moves once, at the memory's rate."""
    return shape["flops"] / shape["bytes"] * run["machine"]["hbm_gbps"] / 1000 / peak(run, shape)


def draw_peak(run: dict, folder: pathlib.Path, kinds: tuple[str, ...]) -> None:
    panels = panels_of(run, lambda s: peak_share(run, s, OURS))
    if not panels:
        return
    marks = {OURS: {"color": BLUE, "marker": "o", "markersize": 5},
             BEST: {"color": ORANGE, "marker": "D", "markersize": 4.5, "markerfacecolor": "none"}}
    bound = {"color": "black", "marker": "|", "markersize": 8}
    most = max([1.01] + [share for _, part in panels for s in part for name in marks if (share := peak_share(run, s, name))])
    looks = dict(marks)
    if any(0 < allowed_share(run, s) < 1 for _, part in panels for s in part):
        looks["what memory allows, where that is less than the peak"] = bound
    legend = [matplotlib.lines.Line2D([], [], linestyle="none", label=label, **look) for label, look in looks.items()]
    figure, drawn = grid(run, panels, "Share of the tensor cores' sustained peak", legend)
    for axes, part in drawn:
        for y, shape in enumerate(part):
            shares = {name: peak_share(run, shape, name) for name in marks}
            ends = [share for share in shares.values() if share]
            axes.hlines(y, min(ends), max(ends), color="#bbbbbb", linewidth=1.5, zorder=1)
            if 0 < (allowed := allowed_share(run, shape)) < 1:
                axes.plot(allowed, y, zorder=2, **bound)
            for name, share in shares.items():
                if share:
                    axes.plot(share, y, zorder=3 if name == BEST else 2, **marks[name])
        axes.set(xlim=(0, most + 0.03), xlabel=f"of {peak(run, part[0]):.0f} TFLOP/s")
        axes.xaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1))
        axes.grid(axis="x", color="#e6e6e6", linewidth=0.6)
        axes.set_axisbelow(True)
    save(figure, folder, f"peak-{set_of(run)}", kinds)


def draw(runs: list[dict], folder: pathlib.Path, kinds: tuple[str, ...]) -> None:
    cold = [run for run in runs if run["shapes"] and run["method"]["mode"] == "cold"]
    if any(median(s, OURS) for run in cold for s in run["shapes"]):
        draw_roofline(cold, folder, kinds)
    for run in runs:
        draw_speedup(run, folder, kinds)
        draw_peak(run, folder, kinds)
