# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of README.md, docs/performance.md and docs/chains.md as SVG text from rows of the CSV
tables (records.py), so that equal rows give equal bytes. Each picture has its own background, light or
dark depending on the reader's system.
"""
import html
import math

from report.figures import PEER_ARM, is_fp8, layers, name_of, newest_chains, ratio

STYLE = """<style>
text{font:12px system-ui,sans-serif;fill:#1f2328}.small{font-size:11px}.bold{font-weight:600}.pale{fill:#59636e}
.plate{fill:#ffffff}.grid{stroke:#d1d9e0}.axis{stroke:#59636e;stroke-width:1.5}.blue{stroke:#0969da;fill:#0969da}.orange{stroke:#bc4c00;fill:#bc4c00}
.grey{stroke:#818b98;fill:#818b98}.light{stroke:#54aeff;fill:#54aeff}.dots{stroke-width:5;stroke-linecap:round;stroke-opacity:.55;fill:none}
.ring{fill:none;stroke:#59636e;stroke-width:1.5}
.bar{stroke:none}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.pale{fill:#9198a1}.plate{fill:#0d1117}.grid{stroke:#3d444d}.axis,.ring{stroke:#9198a1}
.blue{stroke:#4493f8;fill:#4493f8}.orange{stroke:#f0883e;fill:#f0883e}.light{stroke:#79c0ff;fill:#79c0ff}.dots{fill:none}.bar{stroke:none}}
</style>"""


class Picture:
    """The lines of an SVG file; its classes are those of STYLE."""

    def __init__(self, width: int, height: int, title: str):
        self.lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
                      f"<title>{html.escape(title)}</title>", STYLE, f'<rect class="plate" width="{width}" height="{height}" rx="6"/>']

    def text(self, at: tuple[float, float], words: str, look: str = "", anchor: str = "start") -> None:
        self.lines.append(f'<text x="{at[0]:.0f}" y="{at[1]:.0f}" class="{look}" text-anchor="{anchor}">{html.escape(words)}</text>')

    def line(self, start: tuple[float, float], end: tuple[float, float], look: str) -> None:
        self.lines.append(f'<path class="{look}" d="M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"/>')

    def bar(self, at: tuple[float, float], size: tuple[float, float], look: str) -> None:
        self.lines.append(f'<rect class="bar {look}" x="{at[0]:.1f}" y="{at[1]:.1f}" width="{size[0]:.1f}" height="{size[1]:.1f}"/>')

    def dots(self, points: list[tuple[float, float]], look: str) -> None:
        """Draws all dots as one path, with eight dots per line of the file."""
        if points:
            marks = [f"M{x:.1f} {y:.1f}h0" for x, y in sorted(points)]
            rows = ["".join(marks[i:i + 8]) for i in range(0, len(marks), 8)]
            self.lines.append(f'<path class="dots {look}" d="' + "\n".join(rows) + '"/>')

    def ring(self, at: tuple[float, float]) -> None:
        self.lines.append(f'<circle class="ring" cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="5"/>')

    def legend(self, at: tuple[float, float], entries: list[tuple[str, str]]) -> None:
        x, y = at
        for look, words in entries:
            self.bar((x, y - 9), (10, 10), look)
            self.text((x + 15, y), words, "small")
            x += 30 + 6.3 * len(words)

    def done(self) -> str:
        return "\n".join([*self.lines, "</svg>"]) + "\n"


class Axes:
    """The area of a picture with logarithmic axes."""

    def __init__(self, picture: Picture, place: tuple[float, float, float, float], x_range: tuple[float, float], y_range: tuple[float, float]):
        self.picture, self.place, self.x_range, self.y_range = picture, place, x_range, y_range

    def at(self, x: float, y: float) -> tuple[float, float]:
        left, top, width, height = self.place
        share = [math.log(value / low) / math.log(high / low) for value, (low, high) in ((x, self.x_range), (y, self.y_range))]
        return left + share[0] * width, top + (1 - share[1]) * height

    def draw(self, title: str, x_ticks: list[int], y_ticks: list[float]) -> None:
        left, top, width, height = self.place
        self.picture.text((left, top - 10), title, "bold")
        for tick in y_ticks:
            y = self.at(self.x_range[0], tick)[1]
            self.picture.line((left, y), (left + width, y), "axis" if tick == 1 else "grid")
            self.picture.text((left - 6, y + 4), f"{tick:g}", "small pale", "end")
        for tick in x_ticks:
            self.picture.text((self.at(tick, self.y_range[0])[0], top + height + 16), str(tick), "small pale", "middle")


def dense(rows: list[dict]) -> str:
    """Draws speed-up against M, one dot per shape, and labels the slowest three of each kind of input."""
    picture = Picture(860, 400, "How many times as fast as cuBLASLt's best each dense product is, over the number of rows")
    ratios = [ratio(row) for row in rows]
    y_range = min([0.9, *ratios]) * 0.96, max([1.1, *ratios]) * 1.04
    ticks = [tick for tick in (0.25, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.4, 1.7, 2, 2.5, 3, 4, 6) if y_range[0] <= tick <= y_range[1]]
    for i, words in enumerate(("bf16 and fp16", "fp8 (e4m3)")):
        part = [row for row in rows if is_fp8(row) == bool(i)]
        axes = Axes(picture, (50 + i * 415, 62, 380, 280), (0.8, 16384), y_range)
        axes.draw(f"{words}: times cuBLASLt's best", [1, 4, 16, 64, 256, 1024, 4096], ticks)
        for by, look in (("record", "blue"), ("model", "orange")):
            axes.picture.dots([axes.at(row["m"], ratio(row)) for row in part if row["planned_by"] == by], look)
        for j, row in enumerate(sorted(part, key=ratio)[:3]):
            picture.ring(axes.at(row["m"], ratio(row)))
            picture.text((430 + i * 415, 78 + 14 * j), f"{ratio(row):.2f}: {name_of(row)}", "small", "end")
    picture.text((50, 26), "Above 1 sluice is faster. A dot is a shape: cold, timed in turn, checked. Ringed, and named: the slowest three.", "pale")
    picture.text((240, 376), "M, rows of A", "small pale", "middle")
    picture.legend((330, 376), [("blue", "planned by a record of this shape"), ("orange", "without a record")])
    return picture.done()


ARMS = ((PEER_ARM, "grey", "cuBLASLt, same companions, one graph"), ("off", "orange", "sluice, launches one after another"),
        ("tuned", "light", "as a chain"), ("tuned, fused: gated", "blue", "and SwiGLU and quantisers fused"))


def chains(rows: list[dict]) -> str:
    """Draws times of a layer in us: four bars per number of tokens, one column per model. The tick is the time of reading the
    weights."""
    found = newest_chains(rows)
    models = list(dict.fromkeys(row["model"] for row in found))[:3]
    most = max([row["us_a_layer"] for row in found] or [1])
    height = max([len(layers(found, model)) for model in models] or [0]) * 66
    picture = Picture(860, height + 92, "Time of a layer as a chain of launches, us")
    for i, model in enumerate(models):
        left = 20 + i * 285
        picture.text((left, 52), model, "bold")
        for j, (tokens, arms) in enumerate(layers(found, model).items()):
            top = 62 + j * 66
            picture.text((left + 16, top + 28), f"{tokens:g}", "small pale", "end")
            for k, (arm, look, _) in enumerate(ARMS):
                if arm in arms:
                    width = arms[arm]["us_a_layer"] / most * 200
                    picture.bar((left + 22, top + k * 14), (width, 11), look)
                    picture.text((left + 26 + width, top + k * 14 + 10), f"{arms[arm]['us_a_layer']:.1f}", "small")
            if weights := next(iter(arms.values()))["weights_us"]:
                x = left + 22 + weights / most * 200
                picture.line((x, top - 3), (x, top + 56), "axis")
    picture.text((20, 26), "us a layer in fp8 by number of tokens (left of the bars), no attention. Black line: its weights at HBM's rate.", "pale")
    picture.legend((20, height + 80), [(look, words) for _, look, words in ARMS])
    return picture.done()
