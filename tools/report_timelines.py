# SPDX-License-Identifier: Apache-2.0
"""Timelines of chains in docs/performance.md: bench/results/h200/timelines/*.json, written by `sluice chain --timeline`.
A picture for each file (a panel for each arm) and two tables: what each step took, and how long after the step before
it got going. Left out if there is none. Pictures need matplotlib; tables do not.
"""
import json
import pathlib

from report_data import measured, number, table

SCHEMA = "sluice-timeline-1"
SHOWN_SMS = 3  # every third: of 132 rows none could be told from the next
COLOURS = {"qkv": "#0072B2", "o": "#009E73", "gate_up": "#D55E00", "down": "#CC79A7"}  # Okabe and Ito
COMPANION = "#555555"


def load_timelines(results: pathlib.Path) -> dict[str, dict]:
    """By name of the file, and the number of the chain where it has several."""
    runs = {}
    for path in sorted((results / "timelines").glob("*.json")):
        run = json.loads(path.read_text())
        if run.get("schema") != SCHEMA:
            raise SystemExit(f"{path}: schema is {run.get('schema')!r}, not {SCHEMA!r}")
        chains: dict[str, list[dict]] = {}
        for timeline in run["timelines"]:
            chains.setdefault(timeline["chain"], []).append(timeline)
        for i, timelines in enumerate(chains.values(), 1):
            runs[path.stem if len(chains) == 1 else f"{path.stem}-{i}"] = {**run, "timelines": timelines}
    return runs


def picture_of(name: str) -> str:
    return f"timeline-{name}"


def middle(step: dict, moment: str) -> str:
    times = step["since"].get(moment)
    return number(times[1], 1) if times else "-"


def by_name(timeline: dict, names: list[str], text) -> list[str]:
    """Fused arms have fewer steps."""
    steps = {step["name"]: step for step in timeline["steps"]}
    return [text(steps[name]) if name in steps else "" for name in names]


def tables_of(run: dict) -> str:
    timelines = run["timelines"]
    steps = timelines[0]["steps"]
    names = [step["name"] for step in steps]
    took = [[t["arm"], number(t["us_a_layer"], 1), *by_name(t, names, lambda s: number(s["took_us"], 1))] for t in timelines]
    ideal = [s["weight_bytes"] / run["peak_tbps"] * 1e-6 for s in steps]
    took.append([f"weights at {run['peak_tbps']} TB/s", number(sum(ideal), 1), *(number(us, 1) for us in ideal)])
    begun = [[t["arm"], *by_name(t, names, lambda s: f"{middle(s, 'wait_returned')} / {middle(s, 'first_math')}")] for t in timelines]
    return ("From the last exit of the step before to its own, us (median of the inner layers):\n\n"
            + table(["arm", "us a layer", *names], took)
            + "\n\nFrom the last exit of the step before until the wait returned / the first stage had come, the middle CTA, us:\n\n"
            + table(["arm", *names], begun) + "\n\n")


def timelines_section(results: pathlib.Path, images: list[str]) -> str:
    runs = load_timelines(results)
    if not runs:
        return ""
    text = ("## Timelines of a layer\n\nWhat each CTA did when, one layer of a chain (findings/chain-timelines.md): a row is an SM, every third is shown, in lanes where it holds several "
            "CTAs. Pale: begun, and waiting for the launch before. Half: the wait has returned (black mark), its tokens are on their way. Full: multiplying. White: nothing of this chain. "
            "Kernels that note their times take 0.3 to 0.8 us longer each, so the sums of steps are above `us a layer`, which is without notes.\n\n")
    for name, run in runs.items():
        text += f"### {run['timelines'][0]['chain']}\n\n"
        if f"{picture_of(name)}.svg" in images:
            text += f"![Timeline of {run['timelines'][0]['chain']}](img/{picture_of(name)}.svg)\n\n"
        text += f"{name}: {measured(run)}.\n\n{tables_of(run)}"
    return text


def lanes_of(steps: list[dict], start: int, exit_: int) -> dict[int, list[tuple[dict, list, int]]]:
    """SM -> (step, CTA, lane): CTAs that are on an SM at the same time have lanes of their own."""
    placed: dict[int, list[tuple[dict, list, int]]] = {}
    free: dict[int, list[float]] = {}
    ctas = sorted(((cta, step) for step in steps for cta in step["ctas"]), key=lambda pair: pair[0][start])
    for cta, step in ctas:
        ends = free.setdefault(cta[0], [])
        lane = next((i for i, end in enumerate(ends) if end <= cta[start]), len(ends))
        ends[lane:lane + 1] = [cta[exit_]]
        placed.setdefault(cta[0], []).append((step, cta, lane))
    return placed


def draw_panel(axes, timeline: dict) -> None:
    at = {moment: i + 1 for i, moment in enumerate(timeline["moments"])}
    placed = lanes_of(timeline["steps"], at["start"], at["exit"])
    bars: dict[tuple[str, float], list[tuple[float, float, float, float]]] = {}
    marks = []
    for row, sm in enumerate(range(0, 132, SHOWN_SMS)):
        lanes = 1 + max((lane for _, _, lane in placed.get(sm, [])), default=0)
        for step, cta, lane in placed.get(sm, []):
            colour = COLOURS.get(step["name"], COMPANION)
            y, height = row + lane / lanes, 0.92 / lanes
            start, waited, exit_ = (cta[at[m]] / 1000 for m in ("start", "wait_returned", "exit"))
            math = cta[at["first_math"]] / 1000 if cta[at["first_math"]] is not None else waited
            for begin, end, alpha in ((start, waited, 0.2), (waited, math, 0.55), (math, exit_, 1.0)):
                bars.setdefault((colour, alpha), []).append((begin, end - begin, y, height))
            marks.append((waited, y, y + height))
    for (colour, alpha), rectangles in bars.items():
        for begin, width, y, height in rectangles:
            axes.broken_barh([(begin, width)], (y, height), facecolors=colour, alpha=alpha, linewidth=0, rasterized=True)
    axes.vlines([m[0] for m in marks], [m[1] for m in marks], [m[2] for m in marks], color="black", linewidth=0.5, rasterized=True)
    axes.set(ylim=(132 / SHOWN_SMS, 0), ylabel="SMs", yticks=[])
    axes.set_title(f"{timeline['arm']}: {timeline['us_a_layer']:.1f} us a layer", fontsize=8.5, loc="left", pad=2)


def draw(results: pathlib.Path, folder: pathlib.Path, kinds: tuple[str, ...]) -> None:
    runs = load_timelines(results)
    if not runs:
        return
    from report_plots import WIDTH, matplotlib, pyplot, save
    for name, run in runs.items():
        timelines = run["timelines"]
        figure, all_axes = pyplot.subplots(len(timelines), 1, figsize=(WIDTH, 1.35 * len(timelines) + 0.7), sharex=True, squeeze=False,
                                           layout="constrained")
        for axes, timeline in zip(all_axes[:, 0], timelines):
            draw_panel(axes, timeline)
        all_axes[-1, 0].set(xlabel="us since the layer before ended",
                            xlim=(-4, max(max(cta[-1] for cta in t["steps"][-1]["ctas"]) for t in timelines) / 1000 + 1))
        steps = {step["name"]: COLOURS.get(step["name"], COMPANION) for step in timelines[0]["steps"]}
        legend = {name: colour for name, colour in steps.items() if name in COLOURS}
        if len(legend) < len(steps):
            legend["norms, quantisers"] = COMPANION
        figure.legend(handles=[matplotlib.patches.Patch(color=c, label=n) for n, c in legend.items()], frameon=False,
                      loc="outside lower center", ncols=len(legend), fontsize=8.5)
        figure.suptitle(timelines[0]["chain"], fontsize=10)
        save(figure, folder, picture_of(name), kinds)
