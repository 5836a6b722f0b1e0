#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns bench records into docs/performance.md: tables, roofline, speed-up and share-of-peak plots, how to repeat them; and
into the tables of speed in README.md (report_readme.py).

Reads every bench/results/h200/*.json that `sluice bench --json` wrote (schema sluice-bench-1, bench/record.cc).
No measured number on the page is typed by hand, so it cannot say more than was
measured. What README and docs/testing.md say of correctness comes from certificates (report_certificates.py). A record that is missing leaves its section out. Plots are drawn by report_plots.py if matplotlib is there
(tools/report.sh installs it); without it the page links to those that lie in docs/img.
`--check` makes all of that again and says where a page has another text: it claims what is not recorded, or kernels have changed.
`--self-test` makes pages from records that it makes up, and shows that wrong results cannot get into a table.
"""
import argparse
import pathlib
import sys

from report_data import (BEST, EVEN, FIRST, NO_COMMIT, OURS, READ, TUNED, algorithms, commit_of, contender, geometric_mean, groups_of, kernel,
                         load_runs, measured, median, number, peer_words, percent, ratio, set_of, shape_name, shown, table)
import report_certificates
import report_readme
import report_timelines
from report_chains import chains_section
from report_files import COUNTED, CountedAt, ages, files_section, git, same_list
from report_floor import floor_section
from report_packed import packed_section
from report_rows import rows_section
from report_sections import block_section, folded, plain_read, promoted_section, untuned_sections
from report_torch import python_section, triton_section

ROOT = pathlib.Path(__file__).resolve().parent.parent


def shape_rows(shapes: list[dict], tuned: bool, read: bool) -> list[list[str]]:
    rows = []
    for shape in shapes:
        ours = contender(shape, OURS)
        row = [shape_name(shape), kernel(ours["detail"]) if ours else "-", number(median(shape, OURS), 1)]
        rates = ours["rates"] if ours else None
        row += [number(rates["tflops"] if rates else None, 0),
                f"{100 * rates['peak_share']:.0f} %" if rates and rates["peak_share"] else "-",
                number(rates["gbps"] if rates else None, 0)]
        if tuned:
            row.append(number(median(shape, TUNED), 1))
        if read:
            us, plain = median(shape, OURS), median(shape, READ)
            row += [number(plain, 1), percent(plain / us) if us and plain else "-"]
        row += [number(median(shape, FIRST), 1), number(median(shape, BEST), 1),
                number(ratio(shape, OURS, FIRST), 2), number(ratio(shape, OURS, BEST), 2)]
        if tuned:
            row.append(number(ratio(shape, TUNED, BEST), 2))
        rows.append(row)
    return rows


def group_section(run: dict, name: str, shapes: list[dict]) -> str:
    tuned = any(contender(s, TUNED) for s in shapes)
    read = any(contender(s, READ) for s in shapes)
    header = ["m x n x k", "kernel", "us", "TFLOP/s", "of peak", "GB/s"] + (["tuned us"] if tuned else [])
    header += (["plain read us", "of plain read"] if read else [])
    header += ["cuBLASLt first us", "best us", "x first", "x best"] + (["tuned x best"] if tuned else [])
    return f"### {name}\n\n{folded(f'{len(shapes)} shapes', table(header, shape_rows(shapes, tuned, read), left=2))}\n"


SUMMARY = ["set", "types", "contender", "L2", "shapes", "x best, mean", "least", "faster / even / slower", "x first, mean",
           "least", "algorithms", "planned by", "measured"]


def summary_rows(runs: list[dict]) -> list[list[str]]:
    rows = []
    for run in runs:
        for name, shapes in groups_of(run).items():
            for ours in (OURS, TUNED):
                best, first = ([r for s in shapes if (r := ratio(s, ours, peer))] for peer in (BEST, FIRST))
                if not best and not first:
                    continue
                faster, slower = (sum(test(r) for r in best) for test in (lambda r: r > 1 + EVEN, lambda r: r < 1 - EVEN))
                cells = [f"{faster} / {len(best) - faster - slower} / {slower}" if best else "-"]
                cells = [mean(best), least(best), *cells, mean(first), least(first)]
                cells += [algorithms(shapes), report_readme.planned_by(shapes) if ours == OURS else "measured here", measured(run)]
                rows.append([set_of(run), name, ours, run["method"]["mode"], f"{len(best or first)} of {len(shapes)}", *cells])
    return rows


def mean(values: list[float]) -> str:
    return f"{geometric_mean(values):.3f}" if values else "-"


def least(values: list[float]) -> str:
    return f"{min(values):.3f}" if values else "-"


def extremes(runs: list[dict]) -> str:
    """Where the pick wins and loses most, a line for each set and type."""
    lines = []
    for run in runs:
        for name, shapes in groups_of(run).items():
            found = sorted(((r, shape_name(s)) for s in shapes if (r := ratio(s, OURS, BEST))), reverse=True)
            if len(found) > 1:
                best, worst = (", ".join(f"{where} ({r:.2f})" for r, where in part) for part in (found[:2], found[:-3:-1]))
                lines.append(f"- {set_of(run)}, {name}: best at {best}; worst at {worst}" + only(shapes))
    return "\n".join(lines)


def only(shapes: list[dict]) -> str:
    return "" if peer_words(shapes).endswith("best") else " (cuBLASLt has one algorithm)"


def screening(runs: list[dict]) -> str:
    """cuBLASLt's best is picked by short screening, so in the race its first can beat it: the faster one is the peer."""
    pairs = []
    for shape in (s for run in runs for s in run["shapes"]):
        first, best = (next((c["us"]["median"] for c in shape["contenders"] if c["name"] == name and "error" not in c and c["verified"]), None)
                       for name in (FIRST, BEST))
        pairs += [best / first] if first and best else []
    slower = [r for r in pairs if r > 1]
    return (f"On {len(slower)} of {len(pairs)} shapes cuBLASLt's first was faster in the race than what its screening took for the best (over 1 % on "
            f"{sum(r > 1 + EVEN for r in slower)}, {percent(max(slower) - 1)} at most): there `best` is the time of the first.\n\n") if slower else ""


def clocks(run: dict) -> str:
    seen = [s["telemetry"] for s in run["shapes"] if s["telemetry"]]
    if not seen:
        return "Clocks and power could not be read."
    counted = [c["sm_mhz"] for s in run["shapes"] for c in s["contenders"] if c["name"] == OURS and c.get("sm_mhz")]
    mhz = counted or [t["sm_mhz"]["median"] for t in seen]
    # What NVML says of the clock is near 1980 MHz whatever runs (findings/power.md); the bench counts it, since it can.
    whose = "SMs ran at (counted beside sluice's launches)" if counted else "NVML said that SMs ran at (it does not see the power limit)"
    watts = max(t["power_w"]["max"] for t in seen)
    return (f"{whose} {min(mhz):.0f} to {max(mhz):.0f} MHz; power, which NVML averages over rests too, reached {watts:.0f} of "
            f"{run['machine']['power_limit_w']:.0f} W.")


def troubles(run: dict) -> str:
    """Everything that failed or was wrong, so that no gap goes without its reason; a peer's by their number."""
    lines, of_peer = [], {}
    for shape in run["shapes"]:
        if "error" in shape:
            lines.append(f"- {shape['name']}: {shape['error']}")
        for c in shape["contenders"]:
            ours = c["name"].startswith(OURS)
            if "error" in c:
                what = c["error"]
            elif not c["verified"]:
                caveat = f" ({shape['peer_caveat']})" if "peer_caveat" in shape and not ours else ""
                what = f"gave a wrong result{caveat}"
            else:
                continue
            if ours:
                verdict = (c.get("verdict") or "not checked").splitlines()[0]
                lines.append(f"- {shape['name']}, {c['name']}: {what}" + ("" if "error" in c else f": {verdict}"))
            else:
                of_peer.setdefault((shown(c["name"]), what), []).append(shape["name"])
    for (name, what), shapes in of_peer.items():
        which = ", ".join(shapes) if len(shapes) <= 3 else f"{len(shapes)} shapes, {shapes[0]} the first"
        lines.append(f"- {which}, {name}: {what}")
    return "\n".join(lines)


def run_section(run: dict) -> str:
    machine, versions, method = run["machine"], run["versions"], run["method"]
    listed = same_list(run)
    text = f"""## Record {set_of(run)}: {method['mode']} L2

{machine['gpu']} ({machine['sm_count']} SMs, {machine['power_limit_w']:.0f} W), driver {machine['driver'] or 'unknown'}, \
{versions['nvrtc']}, cuBLASLt {versions['cublaslt'] or 'absent'}, {'commit ' * (commit_of(run) != NO_COMMIT)}{commit_of(run)}, {run['started']}.
{clocks(run)} {method['rounds']} rounds, replays of {method['replay_us'] / 1000:.1f} ms after {method['rest_ms']:.0f} ms \
of rest, data {method['fill']}. cuBLASLt algorithms of a shape, returned and timed (least / median / most): {algorithms(run['shapes'])}.

```
{run['command']}
```
{listed and f"({listed[0].upper()}{listed[1:]}.)" + chr(10)}
"""
    text += "\n".join(group_section(run, name, shapes) for name, shapes in groups_of(run).items())
    failed = troubles(run)
    return text + (f"\nNot in the tables:\n\n{failed}\n" if failed else "")


METHOD = """## How it is measured

`sluice bench` times all contenders in one process, in turn (A B C, B C A, ...), each as a CUDA graph of many launches, \
with a rest and an untimed replay before each, so that all meet the same clocks and a full queue. Data are random reals. \
Cold: launches rotate over copies of A, B and D whose weights are three times the L2 cache (at most 64 copies, so the smallest \
shapes are partly warm, for both). Every kernel's result is checked in the same run; a wrong one has no row. In files of before 2026-11-25 that check \
is a bound of each element alone, which for fp8 with fast sums and k from 2048 on finds what was not written, and NaN, and little else; \
that those kernels are right is what exact tests show ([testing.md](testing.md)). Times are medians over the rounds. Rounds, rests and replays \
differ from file to file: "What was run" has them.

cuBLASLt has a 64 MB workspace. It is asked for 16 algorithms, and all that its heuristic returns are screened (mostly 8; \
the column `algorithms` has least / median / most of a set, or the one number). Its first and the fastest two of the screening race with \
ours, and `best` is the fastest of those in the race. Where it returned one, `best` is that one and nothing was chosen. \
Nothing else of cuBLASLt is tuned. Ours is one plan: of a *record* where `sluice tune` measured candidates of this very \
shape offline, on an H200, and the result was shipped with the library; of the *model* where the planner chose without measuring. So \
`record` rows compare a plan tuned for the shape with an untuned list of which the fastest is taken. `sluice tuned` is \
measured in the same run.

`x` is cuBLASLt's time over ours: above 1, sluice is faster. `of peak` is of the sustained rate of the tensor cores on random \
data, not of the data sheet's.
"""


def pictures(titles: dict[str, str], images: list[str]) -> str:
    return "".join(f"![{title}](img/{name}.svg)\n\n" for name, title in titles.items() if f"{name}.svg" in images)


def page(runs: list[dict], images: list[str], more: tuple[str, ...] = (), files: str = "") -> str:
    text = "# Performance\n\nMade by `make report` from `bench/results/`; edit tools/report.py, not this page.\n\n"
    if not runs:
        return text + "No bench record has been kept yet: see below.\n\n" + METHOD
    text += table(SUMMARY, summary_rows(runs), left=4)
    text += ("\n\n`x` is cuBLASLt's time over ours: above 1, sluice is faster. Means are geometric; `even` is within 1 %; only "
             "verified results count, and `shapes` is how many had one on both sides. `algorithms` is how many cuBLASLt's heuristic "
             "returned (least / median / most), all of which were timed; `measured` is the commit and day of the file.\n\n"
             + "\n\n".join(filter(None, (ages(runs), report_readme.one_algorithm(runs), report_readme.without_peer(runs)))) + "\n\n")
    if where := extremes(runs):
        text += f"Where it wins and loses most against cuBLASLt's best (x):\n\n{where}\n\n"
    text += screening(runs)
    text += pictures({"roofline": "Roofline of all shapes"}
                     | {f"speedup-{set_of(run)}": f"Speed-up over {peer_words(run['shapes'])}, {set_of(run)}" for run in runs}
                     | {f"peak-{set_of(run)}": f"Share of the sustained peak, {set_of(run)}" for run in runs}, images)
    sections = [make(runs) for make in (floor_section, promoted_section, block_section, untuned_sections)]
    return "\n".join([text + METHOD + plain_read(runs), *filter(None, (*sections, *more)), *map(run_section, runs), files])


def made(results: pathlib.Path, docs: pathlib.Path) -> dict[pathlib.Path, str]:
    """The text of each page that is made, or that has a block which is, by its path."""
    runs = load_runs(results)
    images = sorted(path.name for path in (docs / "img").glob("*.svg"))
    more = (rows_section(results), packed_section(results), chains_section(results), report_timelines.timelines_section(results, images), python_section(results), triton_section(results, runs))
    texts = {path: path.read_text() for path in (docs.parent / "README.md", docs / "testing.md") if path.exists()}
    report_readme.put_into(texts, docs.parent / "README.md", runs, results)
    report_certificates.put_into(texts, docs, results.parent)
    return texts | {docs / "performance.md": page(runs, images, more, files_section(results))}


def check(results: pathlib.Path, docs: pathlib.Path) -> int:
    """Do the pages say what is recorded? Ages are counted where the page counted them, from a commit that HEAD has."""
    told = COUNTED.search((docs / "performance.md").read_text())
    if git("rev-parse", "HEAD") is None:
        print("report: not possible here: no git, so ages cannot be counted")
        return 77
    if told and git("merge-base", "--is-ancestor", told[1], "HEAD") is None:
        print(f"report: docs/performance.md counts from {told[1]}, which is no commit in front of this one: `make report`")
        return 1
    CountedAt.commit = told[1] if told else ""
    other = [path for path, text in made(results, docs).items() if not path.exists() or path.read_text() != text]
    for path in other:
        print(f"report: {path.relative_to(docs.parent)} does not say what the records and certificates say of this tree: `make report`, and commit")
    return 1 if other else 0


def write_report(results: pathlib.Path, docs: pathlib.Path, kinds: tuple[str, ...] = ("svg",)) -> int:
    runs = load_runs(results)
    image_folder = docs / "img"
    image_folder.mkdir(parents=True, exist_ok=True)
    if runs:
        try:
            import report_plots
        except ImportError as missing:
            print(f"report: no plots, {missing.name} is not installed (tools/report.sh brings it)", file=sys.stderr)
        else:
            report_plots.draw(runs, image_folder, kinds)
    try:
        report_timelines.draw(results, image_folder, kinds)
    except ImportError as missing:
        print(f"report: no timelines, {missing.name} is not installed", file=sys.stderr)
    for path, text in made(results, docs).items():
        path.write_text(text)
    print(f"report: {len(runs)} records, {sum(len(r['shapes']) for r in runs)} shapes")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results/h200")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs")
    parser.add_argument("--png", action="store_true", help="every plot as PNG too, to look at")
    parser.add_argument("--check", action="store_true", help="write nothing: is each page what would be written?")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        import report_self_test
        return report_self_test.run(write_report)
    if arguments.check:
        return check(arguments.results, arguments.docs)
    return write_report(arguments.results, arguments.docs, ("svg", "png") if arguments.png else ("svg",))


if __name__ == "__main__":
    sys.exit(main())
