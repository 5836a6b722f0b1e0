# SPDX-License-Identifier: Apache-2.0
"""Statistics, tables and the record of triton_sweep.py: everything that needs no GPU. Names are those of
`sluice bench` (bench/record.cc), but the schema differs, so that no page confuses the two.
"""
import math
import pathlib
import subprocess
import sys
import time

SCHEMA = "sluice-peers-1"
MAX_LAUNCHES = 2000
L2_TIMES = 3  # size of the weights of all copies, as a multiple of L2


def quantile(values: list[float], q: float) -> float:
    """Returns a quantile, linear between neighbours, as bench/statistics.cc."""
    ranked = sorted(values)
    at = q * (len(ranked) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (at - low)


def rounded(value: float) -> float:
    return round(value, 3)


def launches_for(each_us: float, copies: int, replay_us: float) -> int:
    """Returns the number of launches that fill a replay: at least one per copy."""
    return min(MAX_LAUNCHES, max(int(replay_us / max(each_us, 0.5)), copies, 2))


def copies_for(weight_bytes: int, l2_bytes: int) -> int:
    return max(2, math.ceil(L2_TIMES * l2_bytes / weight_bytes))


def turns(count: int, round_index: int) -> list[int]:
    """Returns the order of contenders in a round. It rotates, so that no contender always follows the one
    that heats the GPU most."""
    return [(turn + round_index) % count for turn in range(count)]


def contender_json(name: str, detail: str, rounds: list[float], launches: int, verdict: str) -> dict:
    return {"name": name, "detail": detail,
            "us": {"median": rounded(quantile(rounds, 0.5)), "p10": rounded(quantile(rounds, 0.1)),
                   "p90": rounded(quantile(rounds, 0.9))},
            "launches": launches, "rounds": [rounded(us) for us in rounds], "verified": True, "verdict": verdict}


def best_of(shape: dict, prefix: str) -> dict | None:
    """Returns the fastest right contender whose name begins with `prefix`."""
    timed = [c for c in shape["contenders"] if c["name"].startswith(prefix) and c.get("verified")]
    return min(timed, key=lambda c: c["us"]["median"]) if timed else None


def was_cut(tuning: dict) -> bool:
    """Returns true if time ran out before all candidates were tried, so that the fastest may not have been
    timed."""
    return tuning["timed"] + tuning["refused"] + len(tuning["wrong"]) < tuning["candidates"]


def searched(tuning: dict) -> str:
    text = f"{tuning['timed']} of {tuning['candidates']}"
    text += f", {len(tuning['wrong'])} wrong" if tuning["wrong"] else ""
    text += f", {tuning['refused']} refused" if tuning["refused"] else ""
    return text + (", **cut**" if was_cut(tuning) else "")


def table(shapes: list[dict]) -> list[str]:
    names = list(dict.fromkeys(c["name"] for shape in shapes for c in shape["contenders"]))
    lines = ["M".rjust(5) + "".join(name.rjust(20) for name in names) + "  fastest Triton"]
    for shape in shapes:
        medians = {c["name"]: f"{c['us']['median']:.2f}" for c in shape["contenders"] if c.get("verified")}
        best = best_of(shape, "Triton")
        lines.append(str(shape["problem"]["m"]).rjust(5) + "".join(medians.get(name, "-").rjust(20) for name in names) +
                     "  " + (best["detail"] if best else "-"))
    return lines


def run_json(machine: dict, method: dict, shapes: list[dict]) -> dict:
    return {"schema": SCHEMA, **started(), "commit": commit(), **machine,
            "method": method, "cut_at": [s["problem"]["m"] for s in shapes if was_cut(s["tuning"])], "shapes": shapes}


def started() -> dict:
    return {"started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "command": " ".join([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]])}


def commit() -> str:
    root = pathlib.Path(__file__).resolve().parent
    done = subprocess.run(["git", "-C", str(root), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


class ProgressBar:
    """A progress line on a terminal; prints nothing elsewhere."""

    def __init__(self, stream=sys.stderr):
        self.stream = stream if stream.isatty() else None

    def show(self, text: str, done: int, total: int) -> None:
        if self.stream is None:
            return
        filled = 24 * done // max(total, 1)
        self.stream.write(f"\r\x1b[K[{'#' * filled}{'.' * (24 - filled)}] {done}/{total} {text}"[:160])
        self.stream.flush()

    def clear(self) -> None:
        if self.stream is not None:
            self.stream.write("\r\x1b[K")
            self.stream.flush()


def nvidia_smi(fields: tuple[str, ...]) -> dict:
    try:
        done = subprocess.run(["nvidia-smi", "-i", "0", "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, timeout=20, check=True)
        return dict(zip(fields, (value.strip() for value in done.stdout.splitlines()[0].split(","))))
    except (OSError, subprocess.SubprocessError, IndexError) as why:
        return {"error": str(why)}
