#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns bench records into docs/performance.md: tables, a roofline and a speed-up plot, and how to repeat them.

Reads every bench/results/h200/*.json that `sluice bench --json` wrote (schema sluice-bench-1, bench/record.cc).
Nothing on the page is typed by hand, so it cannot say more than was measured. Plots are drawn by report_plots.py
if matplotlib is there (tools/report.sh installs it); without it the page links to those that lie in docs/img.
`--self-test` makes a page from a record that it makes up, and shows that wrong results cannot get into a table.
"""
import argparse
import json
import math
import pathlib
import sys
import tempfile

SCHEMA = "sluice-bench-1"
OURS, TUNED, FIRST, BEST = "sluice", "sluice tuned", "cuBLASLt first", "cuBLASLt best"
ROOT = pathlib.Path(__file__).resolve().parent.parent


def load_runs(folder: pathlib.Path) -> list[dict]:
    """The records of a folder, by name; a file of another schema is an error, not a gap."""
    runs = []
    for path in sorted(folder.glob("*.json")):
        run = json.loads(path.read_text())
        if run.get("schema") != SCHEMA:
            raise SystemExit(f"{path}: schema is {run.get('schema')!r}, not {SCHEMA!r}")
        run["file"] = path.name
        runs.append(run)
    return runs


def contender(shape: dict, name: str) -> dict | None:
    """The contender if it was timed and is right: a wrong kernel has no speed."""
    for c in shape["contenders"]:
        if c["name"] == name and "error" not in c and c["verified"] and c["us"]["median"] > 0:
            return c
    return None


def median(shape: dict, name: str) -> float | None:
    c = contender(shape, name)
    return c["us"]["median"] if c else None


def ratio(shape: dict, ours: str, peer: str) -> float | None:
    """Peer time over our time: above 1, ours is faster."""
    our_us, peer_us = median(shape, ours), median(shape, peer)
    return peer_us / our_us if our_us and peer_us else None


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def types_of(shape: dict) -> str:
    p = shape["problem"]
    inputs = p["a"] if p["a"] == p["b"] else f"{p['a']} x {p['b']}"
    return f"{inputs} to {p['d']}"


def groups_of(run: dict) -> dict[str, list[dict]]:
    groups: dict[str, list[dict]] = {}
    for shape in run["shapes"]:
        groups.setdefault(types_of(shape), []).append(shape)
    return groups


def number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def table(header: list[str], rows: list[list[str]], left: int = 1) -> str:
    rule = ["---" if i < left else "---:" for i in range(len(header))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *rows])


def extras(problem: dict) -> str:
    """What is not plain about a problem."""
    words = []
    if (problem["a_layout"], problem["b_layout"]) != ("k", "k"):
        words.append(f"{problem['a_layout']}/{problem['b_layout']}-major")
    if problem["batch"] != 1:
        words.append(f"batch {problem['batch']}")
    words += [problem["accumulate"]] if problem["accumulate"] != "fast" else []
    words += ["bias"] if problem["bias"] else []
    words += [problem["activation"]] if problem["activation"] != "none" else []
    words += ["residual"] if problem["residual"] else []
    return (" " + ", ".join(words)) if words else ""


def shape_rows(shapes: list[dict], tuned: bool) -> list[list[str]]:
    rows = []
    for shape in shapes:
        p, ours = shape["problem"], contender(shape, OURS)
        row = [f"{p['m']} x {p['n']} x {p['k']}{extras(p)}", " ".join(ours["detail"].split()[:4]) if ours else "-",
               number(median(shape, OURS), 1)]
        rates = ours["rates"] if ours else None
        row += [number(rates["tflops"] if rates else None, 0),
                f"{100 * rates['peak_share']:.0f} %" if rates and rates["peak_share"] else "-",
                number(rates["gbps"] if rates else None, 0)]
        if tuned:
            row.append(number(median(shape, TUNED), 1))
        row += [number(median(shape, FIRST), 1), number(median(shape, BEST), 1),
                number(ratio(shape, OURS, FIRST), 2), number(ratio(shape, OURS, BEST), 2)]
        if tuned:
            row.append(number(ratio(shape, TUNED, BEST), 2))
        rows.append(row)
    return rows


def group_section(run: dict, name: str, shapes: list[dict]) -> str:
    tuned = any(contender(s, TUNED) for s in shapes)
    header = ["m x n x k", "kernel", "us", "TFLOP/s", "of peak", "GB/s"] + (["tuned us"] if tuned else [])
    header += ["cuBLASLt first us", "best us", "x first", "x best"] + (["tuned x best"] if tuned else [])
    return f"### {name}\n\n{table(header, shape_rows(shapes, tuned), left=2)}\n"


def summary_rows(runs: list[dict]) -> list[list[str]]:
    rows = []
    for run in runs:
        for name, shapes in groups_of(run).items():
            for ours in (OURS, TUNED):
                cells = []
                for peer in (BEST, FIRST):
                    values = [r for s in shapes if (r := ratio(s, ours, peer))]
                    cells += [f"{geometric_mean(values):.3f}", f"{min(values):.3f}"] if values else ["-", "-"]
                if cells != ["-"] * 4:
                    counted = sum(1 for s in shapes if contender(s, ours))
                    rows.append([name, ours, run["method"]["mode"], f"{counted} of {len(shapes)}", *cells])
    return rows


def clocks(run: dict) -> str:
    seen = [s["telemetry"] for s in run["shapes"] if s["telemetry"]]
    if not seen:
        return "Clocks and power could not be read."
    mhz = [t["sm_mhz"]["median"] for t in seen]
    watts = max(t["power_w"]["max"] for t in seen)
    return (f"While it ran, the SM clock (median of a shape) was {min(mhz):.0f} to {max(mhz):.0f} MHz and power "
            f"reached {watts:.0f} of {run['machine']['power_limit_w']:.0f} W.")


def troubles(run: dict) -> str:
    """Everything that failed or was wrong, so that no gap goes without its reason."""
    lines = []
    for shape in run["shapes"]:
        if "error" in shape:
            lines.append(f"- {shape['name']}: {shape['error']}")
        for c in shape["contenders"]:
            if "error" in c:
                lines.append(f"- {shape['name']}, {c['name']}: {c['error']}")
            elif not c["verified"]:
                caveat = f" ({shape['peer_caveat']})" if "peer_caveat" in shape and not c["name"].startswith(OURS) else ""
                lines.append(f"- {shape['name']}, {c['name']} gave a wrong result{caveat}: "
                             f"{c.get('verdict', '').splitlines()[0] if c.get('verdict') else 'not checked'}")
    return "\n".join(lines)


def run_section(run: dict) -> str:
    machine, versions, method = run["machine"], run["versions"], run["method"]
    text = f"""## {run['file'].removesuffix('.json')}: {method['mode']} L2

{machine['gpu']} ({machine['sm_count']} SMs, {machine['power_limit_w']:.0f} W), driver {machine['driver'] or 'unknown'}, \
{versions['nvrtc']}, cuBLASLt {versions['cublaslt'] or 'absent'}, commit {run['commit'] or 'unknown'}, {run['started']}.
{clocks(run)} {method['rounds']} rounds, replays of {method['replay_us'] / 1000:.1f} ms after {method['rest_ms']:.0f} ms \
of rest, data {method['fill']}.

```
{run['command']}
```

"""
    text += "\n".join(group_section(run, name, shapes) for name, shapes in groups_of(run).items())
    failed = troubles(run)
    return text + (f"\nNot in the tables:\n\n{failed}\n" if failed else "")


METHOD = """## How it is measured

`sluice bench` times all contenders in one process, in turn (A B C, B C A, ...), each as a CUDA graph of many launches, \
with a rest and an untimed replay before each, so that all meet the same clocks and a full queue. Data are random reals. \
Cold: launches rotate over copies of A, B and D whose weights are three times the L2 cache. cuBLASLt has a 64 MB \
workspace and is timed at its first heuristic and at the best of all (up to 16) it returns. Every kernel's result is \
checked against fp64 in the same run; a wrong one has no row. Times are medians. `x` is cuBLASLt's time over ours: above \
1, sluice is faster. `of peak` is of the sustained rate of the tensor cores on random data, not of the data sheet's.
"""


def page(runs: list[dict], images: list[str]) -> str:
    text = "# Performance\n\nMade by `make report` from `bench/results/`; edit tools/report.py, not this page.\n\n"
    if not runs:
        return text + "No bench record has been kept yet: see below.\n\n" + METHOD + "\n" + RERUN
    text += table(["types", "contender", "L2", "shapes", "x best, mean", "least", "x first, mean", "least"],
                  summary_rows(runs), left=3)
    text += "\n\nMeans are geometric.\n\n"
    for image, title in (("speedup.svg", "Speed-up over cuBLASLt's best"), ("roofline.svg", "Roofline")):
        if image in images:
            text += f"![{title}](img/{image})\n\n"
    return text + METHOD + "\n" + "\n".join(map(run_section, runs)) + "\n" + RERUN


RERUN = """## To repeat it

On a machine with an H200 (`sluice doctor` says what is missing):

```
make build
build/release/sluice bench --set engine --json bench/results/h200/engine.json --commit $(git rev-parse --short HEAD)
make report
```

`--warm` keeps one set of operands, `--tune N` times the planner's first N candidates too, `--only e4m3` runs a part.
"""


def write_report(results: pathlib.Path, docs: pathlib.Path) -> int:
    runs = load_runs(results)
    image_folder = docs / "img"
    image_folder.mkdir(parents=True, exist_ok=True)
    if runs:
        try:
            import report_plots
        except ImportError as missing:
            print(f"report: no plots, {missing.name} is not installed (tools/report.sh brings it)", file=sys.stderr)
        else:
            report_plots.draw(runs, image_folder, ratio=lambda s: ratio(s, OURS, BEST),
                              rates=lambda s, name: (contender(s, name) or {}).get("rates"))
    images = sorted(path.name for path in image_folder.glob("*.svg"))
    (docs / "performance.md").write_text(page(runs, images))
    print(f"report: {len(runs)} records, {sum(len(r['shapes']) for r in runs)} shapes")
    return 0


def made_up_run() -> dict:
    """A record of three shapes: a good one, one with a wrong kernel, one without a peer."""
    def timed(name: str, us: float, verified: bool = True) -> dict:
        return {"name": name, "detail": f"kernel of {name}", "us": {"median": us, "p10": us, "p90": us},
                "rates": {"tflops": 1000.0, "gbps": 900.0, "peak_share": 0.6}, "launches": 9, "rounds": [us],
                "verified": verified, "verdict": "made up"}

    def shape(m: int, kind: str, contenders: list[dict]) -> dict:
        return {"name": f"{m}x64x64 {kind} > bf16", "flops": 2.0 * m * 64 * 64, "bytes": 64.0 * m, "copies": 3,
                "problem": {"m": m, "n": 64, "k": 64, "batch": 1, "a": kind, "b": kind, "d": "bf16", "a_layout": "k",
                            "b_layout": "k", "accumulate": "fast", "scale_a": "none", "scale_b": "none",
                            "bias": False, "activation": "none", "residual": False},
                "telemetry": {"samples": 1, "sm_mhz": {"median": 1700.0, "min": 1600.0},
                              "power_w": {"mean": 600.0, "max": 690.0}, "celsius_max": 50.0},
                "ratios": {}, "contenders": contenders}

    return {"schema": SCHEMA, "started": "2026-01-01T00:00:00Z", "command": "sluice bench --set made-up", "commit": "abc",
            "machine": {"gpu": "Made-up GPU", "sm_count": 132, "driver": "1", "power_limit_w": 700.0,
                        "fp16_peak_tflops": 845.0, "fp8_peak_tflops": 1685.0, "hbm_gbps": 4500.0, "cpu": "", "system": ""},
            "versions": {"nvrtc": "NVRTC 13.0", "cublaslt": "13.0.0", "cublaslt_path": ""},
            "method": {"mode": "cold", "rounds": 9, "rest_ms": 20.0, "replay_us": 3000.0, "tune": 0, "fill": "normal"},
            "shapes": [shape(128, "bf16", [timed(OURS, 10.0), timed(FIRST, 16.0), timed(BEST, 12.5)]),
                       shape(256, "bf16", [timed(OURS, 1.0, verified=False), timed(FIRST, 9.0),
                                           timed(BEST, 9.0, verified=False)]),
                       shape(512, "e4m3", [timed(OURS, 7.0), {"name": FIRST, "detail": "", "error": "not here"}])]}


def self_test() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        results, docs = folder / "results", folder / "docs"
        results.mkdir()
        write_report(results, docs)
        assert "No bench record" in (docs / "performance.md").read_text()
        (results / "made-up.json").write_text(json.dumps(made_up_run()))
        write_report(results, docs)
        text = (docs / "performance.md").read_text()
        assert "| 128 x 64 x 64 | kernel of sluice | 10.0 | 1000 | 60 % | 900 | 16.0 | 12.5 | 1.60 | 1.25 |" in text, text
        assert "| 256 x 64 x 64 | - | - | - | - | - | 9.0 | - | - | - |" in text, "a wrong kernel must not have a time"
        assert "256x64x64 bf16 > bf16, sluice gave a wrong result" in text
        assert "512x64x64 e4m3 > bf16, cuBLASLt first: not here" in text
        assert "| bf16 to bf16 | sluice | cold | 1 of 2 | 1.250 | 1.250 | 1.600 | 1.600 |" in text, text
        assert "690 of 700 W" in text
        (results / "other.json").write_text('{"schema": "something else"}')
        try:
            load_runs(results)
        except SystemExit as refused:
            assert "something else" in str(refused)
        else:
            raise AssertionError("a foreign schema was read")
        plots = sorted(path.name for path in (docs / "img").iterdir())
        print(f"report: self-test passed, plots: {', '.join(plots) or 'none (no matplotlib)'}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results/h200")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    return self_test() if arguments.self_test else write_report(arguments.results, arguments.docs)


if __name__ == "__main__":
    sys.exit(main())
