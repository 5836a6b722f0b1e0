# SPDX-License-Identifier: Apache-2.0
"""Convolutions on the pages. docs/conv.md gets a table that compares sets with cuDNN. docs/tuning-wgrad.md
gets the results of an exhaustive sweep of weight gradients. Rows come from bench/results/GPU/conv, as `sluice
bench` and `sluice tune --all` wrote them, for every GPU that has such results.
"""
import collections
import pathlib
import re
import statistics

import report_pictures
from report_figures import compared, geometric_mean, ratio, table
from report_records import OURS, TUNED, age_words, failures, load, ours_of, screened, times_of

FIRST, BEST, SAME_BITS = "cuDNN first", "cuDNN best", "cuDNN same bits"
SWEEP = "wgrad_sweep"
BLOCKS = {"conv.md": "convolutions", "tuning-wgrad.md": "weight gradients"}
SHOWN_LAYERS = 3  # number of layers in the picture
# Ways to combine the split-K slices of a tile, in the order of the table.
WAYS = (("one slice", lambda c: c["splits"] == 1 and c["cluster"][2] == 1), ("a cluster along k", lambda c: c["splits"] == 1 and c["cluster"][2] > 1),
        ("the last arriver", lambda c: c["combine"] == "last_arriver" and c["splits"] > 1),
        ("a second kernel", lambda c: c["combine"] == "separate" and c["splits"] > 1))


def layer_of(conv: dict) -> str:
    """Returns for example "64>128, 28 px, 3x3/2" for 64 channels and 128 filters."""
    sizes, stride = conv["size"], conv["stride"]
    pixels = str(sizes[0]) if len(set(sizes)) == 1 else "x".join(map(str, sizes))
    step = "" if set(stride) == {1} else f"/{stride[0]}" if len(set(stride)) == 1 else "/" + "x".join(map(str, stride))
    return f"{conv['channels']}>{conv['filters']}, {pixels} px, {'x'.join(map(str, conv['filter']))}{step}"


def convolutions(folder: pathlib.Path) -> list[dict]:
    """Returns one row per layer and operation."""
    rows = []
    for path in sorted((folder / "conv").glob("*.json")):
        for shape in load(path, "sluice-bench-1")["shapes"]:
            conv, us, ours = shape["convolution"], times_of(shape), ours_of(shape)
            peers = [us[name] for name in (FIRST, BEST, SAME_BITS) if name in us]
            flops = shape.get("flops", 0)
            rows.append({"set": path.stem, "op": conv["op"], "images": conv["images"], "layer": layer_of(conv), "d": shape["problem"]["d"],
                         "update": shape["problem"].get("update", "set"), "planned_by": shape.get("chosen_by", ""), "kernel": ours.get("detail", ""),
                         "us": us.get(OURS), "tuned_us": us.get(TUNED), "cudnn_us": min(peers, default=None), "cudnn_first_us": us.get(FIRST),
                         "cudnn_same_bits_us": us.get(SAME_BITS), "cudnn_plans": shape.get("peer_algorithms"),
                         "tflops": round(flops / us[OURS] * 1e-6, 1) if OURS in us else None, "failed": failures(shape)})
    return rows


def sweeps(folder: pathlib.Path) -> list[dict]:
    """Returns one row per plan of the sweep."""
    rows, path = [], folder / "conv" / f"{SWEEP}.json.xz"
    for shape in load(path, "sluice-bench-1")["shapes"] if path.exists() else ():
        right = screened(shape)
        for rank, candidate in enumerate(right):
            c = candidate["choice"]
            rows.append({"layer": f"{shape['convolution']['images']}x{layer_of(shape['convolution'])}", "rank": rank, "ranked": shape.get("ranked_candidates"),
                         "possible": shape.get("possible_plans"), "us": candidate["us"], "estimate_us": candidate["estimate"]["total_us"],
                         "tile": "x".join(map(str, c["tile"][:2])), "schedule": c["schedule"], "cluster": "x".join(map(str, c["cluster"])),
                         "combine": c["combine"], "splits": c["splits"]})
    return rows


TABLES = {"convolutions": convolutions, "wgrad_sweep": sweeps}
UNWRITTEN = {"wgrad_sweep"}  # no CSV is written, because it would be as large as the records


def beside(rows: list[dict], peer: str) -> str:
    ratios = [ratio(row, peer) for row in compared(rows, peer)]
    return f"{geometric_mean(ratios):.2f} ({min(ratios):.2f}..{max(ratios):.2f})" if ratios else "-"


def sets_block(of_gpus: list) -> str:
    """Returns the table of cuDNN's time divided by ours (mean, least and most per set) and the measured commits."""
    lines, commits = [], {}
    for data in of_gpus:
        groups = collections.OrderedDict()
        for row in data.rows("convolutions"):
            groups.setdefault(row["set"], []).append(row)
        for name, group in groups.items():
            commit = data.commit(f"conv/{name}")
            commits[commit] = age_words(commit)
            lines.append([data.gpu().removeprefix("NVIDIA ").split(" ")[0], name, str(len(group)), beside(group, "cudnn_us"),
                          beside(group, "cudnn_same_bits_us"), beside(group, "cudnn_first_us"), f"{sum(row['us'] or 0 for row in group):.0f}", commit])
    header = ["GPU", "set", "layers", "cuDNN's best plan / ours", "its best with equal bits", "its first", "ours, us in all", "commit"]
    ages = "; ".join(commit + age for commit, age in commits.items())
    return f"{table(header, lines, tight=True)}\n\n{ages}." if lines else "Not measured yet."


class Layer:
    """The plans of one layer of the sweep."""

    def __init__(self, name: str, rows: list[dict]):
        self.name, self.rows = name, rows
        self.plans = [{"us": float(row["us"]), "tile": row["tile"], "schedule": row["schedule"], "combine": row["combine"], "splits": float(row["splits"]),
                       "cluster": list(map(int, row["cluster"].split("x"))), "rank": int(row["rank"])} for row in rows]
        self.best = min(self.plans, key=lambda p: p["us"])
        self.pick = next((p for p in self.plans if p["rank"] == 0), self.best)
        self.ranked, self.possible = int(rows[0]["ranked"] or 0), int(rows[0]["possible"] or 0)

    def parts(self, plan: dict) -> float:
        return plan["splits"] * plan["cluster"][2]

    def best_of(self, taken) -> dict | None:
        return min((p for p in self.plans if taken(p)), key=lambda p: p["us"], default=None)

    def tile_first(self) -> dict | None:
        """The fastest unsplit kernel, then the best number of slices for its tile, schedule and cluster. None: no
        unsplit kernel was timed."""
        whole = self.best_of(lambda p: self.parts(p) == 1)
        if whole is None:
            return None
        same = [p for p in self.plans if (p["tile"], p["schedule"], p["cluster"]) == (whole["tile"], whole["schedule"], whole["cluster"])]
        return min(same, key=lambda p: p["us"])

    def top(self, count: int) -> dict:
        return min(self.plans[:count], key=lambda p: p["us"])


def layers_of(rows: list[dict]) -> list[Layer]:
    groups = collections.OrderedDict()
    for row in rows:
        groups.setdefault(row["layer"], []).append(row)
    return [Layer(name, group) for name, group in groups.items()]


def over(plan: dict | None, best: dict) -> str:
    return f"{plan['us'] / best['us'] - 1:.1%}" if plan else "-"


def swept(of_gpus: list):
    """Returns the first GPU that has a sweep."""
    return next((data for data in of_gpus if data.rows("wgrad_sweep")), None)


def sweep_block(of_gpus: list) -> str:
    data = swept(of_gpus)
    if data is None:
        return "Not measured yet."
    layers, commit = layers_of(data.rows("wgrad_sweep")), data.commit(f"conv/{SWEEP}")
    ways = {"the first pick": lambda l: l.pick, "the best of the model's first 30": lambda l: l.top(30), "tile first, slices after": Layer.tile_first}
    fastest = [[l.name, str(l.possible or len(l.plans)), str(l.ranked), str(len(l.plans)), f"{l.best['us']:.1f}", l.best["tile"], f"{l.parts(l.best):g}"] for l in layers]
    lost = [[l.name, *[over(way(l), l.best) for way in ways.values()]] for l in layers]
    combined = [[l.name, *[(f"{found['us']:.1f}" + (f" with {l.parts(found):g}" if l.parts(found) > 1 else "")) if (found := l.best_of(way)) else "-" for _, way in WAYS]] for l in layers]
    losses = {words: [found["us"] / l.best["us"] - 1 for l in layers if (found := way(l))] for words, way in ways.items()}
    lost += [["**mean**", *(f"{statistics.mean(each):.1%}" for each in losses.values())], ["**worst**", *(f"{max(each):.1%}" for each in losses.values())]]
    wins = collections.Counter(min(((l.best_of(way) or {"us": 1e9})["us"], words) for words, way in WAYS)[1] for l in layers)
    won = ", ".join(f"{words} in {count}" for words, count in wins.most_common())
    return (f"Measured on an {data.gpu()} at commit {commit}{age_words(commit)}.\n\n"
            "**The fastest plan.** *Plans*: all combinations of tile, cluster, number of slices and way to combine them. *Listed*: how many\n"
            "of them the model considers. *Timed*: how many kernels ran in the 40 s of each layer, a plan in another order of tiles\n"
            "(raster) counted anew; the fastest is the fastest of these. A layer is images x channels > filters, pixels, filter / stride.\n\n"
            + table(["layer", "plans", "listed", "timed", "fastest, us", "its tile", "its slices"], fastest, tight=True) +
            "\n\n**What a way to choose loses.** A cell is its time over the time of the fastest plan, less 1. *The first pick*: of the model,\n"
            "without measuring. *The best of the model's first 30*: about what `sluice tune` finds. *Tile first*: the fastest unsplit tile, then\n"
            "the best number of slices for it; \"-\": no unsplit kernel was timed.\n\n" + table(["layer", *ways], lost, tight=True) +
            "\n\n**The fastest of each way to combine slices.** \"22.8 with 16\": 22.8 us, with 16 slices; \"-\": none was timed.\n\n"
            + table(["layer", *[words for words, _ in WAYS]], combined, tight=True) + f"\n\nThe fastest is {won} of {len(layers)} layers.")


def picture(rows: list[dict]) -> str:
    """Draws the fastest plan per number of split-K slices, for three layers, with a ring around the model's pick."""
    layers = layers_of(rows)
    layers = sorted(layers, key=lambda l: l.parts(l.best))
    shown = [layers[i * (len(layers) - 1) // (SHOWN_LAYERS - 1)] for i in range(SHOWN_LAYERS)] if len(layers) >= SHOWN_LAYERS else layers
    image = report_pictures.Picture(760, 300, "Time of a weight gradient by its number of slices")
    looks = ("blue", "orange", "grey")
    slowest = max(min(p["us"] / l.best["us"] for p in l.plans if l.parts(p) == parts) for l in shown for parts in {l.parts(p) for p in l.plans})
    top = min(max(slowest, 1.5), 8)
    axes = report_pictures.Axes(image, (60, 40, 660, 200), (0.9, 140), (0.95, top))
    axes.draw("Time over the layer's fastest plan, by slices of the pixels", [1, 2, 4, 8, 16, 32, 64, 128], [each for each in (1, 1.5, 2, 3, 5, 8) if each <= top])
    for layer, look in zip(shown, looks):
        curve = [(parts, min(p["us"] for p in layer.plans if layer.parts(p) == parts) / layer.best["us"]) for parts in sorted({layer.parts(p) for p in layer.plans})]
        points = [axes.at(parts, min(value, 7.9)) for parts, value in curve if parts <= 140]
        for start, end in zip(points, points[1:]):
            image.line(start, end, f"band {look}")
        image.ring(axes.at(max(layer.parts(layer.pick), 1), min(layer.pick["us"] / layer.best["us"], 7.9)))
    image.legend((60, 284), [(look, layer.name) for layer, look in zip(shown, looks)])
    return image.done()


def pictures(docs: pathlib.Path, of_gpus: list) -> dict[pathlib.Path, str]:
    data = swept(of_gpus)
    return {docs / "img" / "wgrad.svg": picture(data.rows("wgrad_sweep"))} if data else {}


def put_into(pages: dict[pathlib.Path, str], docs: pathlib.Path, of_gpus: list) -> None:
    """Fills the blocks of docs/conv.md and docs/tuning-wgrad.md. `of_gpus`: the tables of each GPU
    (report.Data)."""
    texts = {"conv.md": sets_block(of_gpus), "tuning-wgrad.md": sweep_block(of_gpus)}
    for name, words in BLOCKS.items():
        path = docs / name
        if not path.exists():
            continue
        begin, end = f"<!-- {words}: made by `make report` -->", f"<!-- end of {words} -->"
        pages[path] = re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _, text=texts[name]: f"{begin}\n{text}\n{end}", path.read_text(), flags=re.S)
