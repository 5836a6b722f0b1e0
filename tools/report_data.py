# SPDX-License-Identifier: Apache-2.0
"""What report.py and its sections read out of bench records (schema sluice-bench-1, bench/record.cc).

Every time comes through contender() or screened(), which know only kernels whose result was checked and right. Who
cuBLASLt's best is, is decided in contender() and nowhere else.
"""
import json
import math
import pathlib
import re
import statistics

SCHEMA = "sluice-bench-1"
OURS, TUNED, FIRST, BEST = "sluice", "sluice tuned", "cuBLASLt first", "cuBLASLt best"
PEER = "cuBLASLt"
# A kernel that only reads B. Pages call it a plain read: products that load better beat it, so it is no floor.
READ = "read floor"
SHOWN = {READ: "plain read"}
NO_COMMIT = "commit not recorded"
CERTIFICATE, ROWS_RECORD = "certificate.json", "rows.json"  # of a folder: report_certificates.py, report_rows.py
SETS = ("engine", "tokens", "decode", "sweep", "long_k", "promoted", "block", "epilogues", "blind", "layouts", "unseen")
DRAWN = ("blind", "layouts", "unseen")  # of those, lists of shapes of several kinds
EVEN = 0.01  # nearer than this two times are called even: runs differ by as much


def load_runs(folder: pathlib.Path) -> list[dict]:
    """The records of a folder, known sets first; a file of another schema is an error, not a gap. Its certificate and rows are none."""
    runs = []
    for path in sorted(folder.glob("*.json")):
        if path.name in (CERTIFICATE, ROWS_RECORD):
            continue
        run = json.loads(path.read_text())
        if run.get("schema") != SCHEMA:
            raise SystemExit(f"{path}: schema is {run.get('schema')!r}, not {SCHEMA!r}")
        run["file"] = path.name
        runs.append(run)
    return sorted(runs, key=lambda run: SETS.index(set_of(run)) if set_of(run) in SETS else len(SETS))


def set_of(run: dict) -> str:
    return run["file"].removesuffix(".json")


def run_of(runs: list[dict], name: str) -> dict | None:
    return next((run for run in runs if set_of(run) == name), None)


def commit_of(record: dict) -> str:
    """Seven digits of it, and whether the build differed from it; what is not a commit's name is none (`--commit` takes any
    text)."""
    found = re.fullmatch(r"([0-9a-f]{7})[0-9a-f]{0,33}(-dirty)?", str(record.get("commit") or ""))
    return found[1] + (found[2] or "") if found else NO_COMMIT


def day_of(record: dict) -> str:
    return str(record.get("started") or "")[:10] or "date not recorded"


def measured(record: dict) -> str:
    return f"{commit_of(record)}, {day_of(record)}"


def shown(name: str) -> str:
    return SHOWN.get(name, name)


def contender(shape: dict, name: str) -> dict | None:
    """The contender if it was timed and is right: a wrong kernel has no speed. BEST is the fastest of all that cuBLASLt
    had in the race, under any name: what was fastest in screening need not be. (Of dense products: a packed one's peers
    compute different things, and none is called BEST.)"""
    right = [c for c in shape["contenders"] if "error" not in c and c["verified"] and c["us"]["median"] > 0]
    if name == BEST:
        return min((c for c in right if c["name"].startswith(PEER)), key=lambda c: c["us"]["median"], default=None)
    return next((c for c in right if c["name"] == name), None)


def algorithms(shapes: list[dict]) -> str:
    """How many cuBLASLt's heuristic returned, all of which were timed: least / median / most, or the one number."""
    counts = [s["peer_algorithms"] for s in shapes if "peer_algorithms" in s]
    if not counts:
        return "not recorded"
    spread = (min(counts), statistics.median_low(counts), max(counts))
    return str(spread[0]) if spread[0] == spread[2] else " / ".join(map(str, spread))


def peer_words(shapes: list[dict]) -> str:
    """There is no best of one."""
    return "cuBLASLt's only algorithm" if max((s.get("peer_algorithms", 0) for s in shapes), default=0) == 1 else "cuBLASLt's best"


def screened(shape: dict) -> list[dict]:
    """The candidates that were screened and are right, in the planner's order (its pick is the first)."""
    return [c for c in shape.get("candidates", []) if "error" not in c and c["verified"] and c["us"] > 0]


def median(shape: dict, name: str) -> float | None:
    c = contender(shape, name)
    return c["us"]["median"] if c else None


def ratio(shape: dict, ours: str, peer: str) -> float | None:
    """Peer time over our time: above 1, ours is faster."""
    our_us, peer_us = median(shape, ours), median(shape, peer)
    return peer_us / our_us if our_us and peer_us else None


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def is_fp8(shape: dict) -> bool:
    return shape["problem"]["a"].startswith("e")


def peak(run: dict, shape: dict) -> float:
    return run["machine"]["fp8_peak_tflops" if is_fp8(shape) else "fp16_peak_tflops"]


def peak_share(run: dict, shape: dict, name: str) -> float | None:
    us = median(shape, name)
    return shape["flops"] / us * 1e-6 / peak(run, shape) if us and peak(run, shape) > 0 else None


def sums_of(shape: dict) -> str:
    """How partial sums are kept: fast, promoted or block-scaled (which promotes too)."""
    p = shape["problem"]
    return "block-scaled" if "block" in (p["scale_a"], p["scale_b"]) else p["accumulate"]


def types_of(shape: dict) -> str:
    p = shape["problem"]
    inputs = p["a"] if p["a"] == p["b"] else f"{p['a']} x {p['b']}"
    return f"{inputs} to {p['d']}" + (f", {sums_of(shape)}" if sums_of(shape) != "fast" else "")


def groups_of(run: dict) -> dict[str, list[dict]]:
    groups: dict[str, list[dict]] = {}
    for shape in run["shapes"]:
        groups.setdefault(types_of(shape), []).append(shape)
    return groups


def sizes(shape: dict) -> tuple[int, int, int]:
    return shape["problem"]["m"], shape["problem"]["n"], shape["problem"]["k"]


def extras(problem: dict) -> str:
    """What is not plain about a problem and not in the name of its types."""
    words = []
    if (problem["a_layout"], problem["b_layout"]) != ("k", "k"):
        words.append(f"{problem['a_layout']}/{problem['b_layout']}-major")
    if problem["batch"] != 1:
        words.append(f"batch {problem['batch']}")
    words += ["bias"] if problem["bias"] else []
    words += [problem["activation"]] if problem["activation"] != "none" else []
    words += ["residual"] if problem["residual"] else []
    if problem.get("update") == "add":
        words.append("added" if problem.get("deterministic", True) else "added in any order")
    return (" " + ", ".join(words)) if words else ""


def shape_name(shape: dict) -> str:
    return " x ".join(map(str, sizes(shape))) + extras(shape["problem"])


def kernel(detail: str) -> str:
    """Schedule, tile, stages and cluster of a kernel's name."""
    return " ".join(detail.split()[:4])


def number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def percent(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def table(header: list[str], rows: list[list[str]], left: int = 1) -> str:
    rule = ["---" if i < left else "---:" for i in range(len(header))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *rows])
