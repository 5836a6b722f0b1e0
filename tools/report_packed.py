# SPDX-License-Identifier: Apache-2.0
"""The section of docs/performance.md about packed weights: `sluice bench --set packed`, whole or in parts (`--only`), kept in
bench/results/h200/packed/mixed*.json, and single products of many tokens in many*.json beside them, apart from the records whose
peers compute the same thing. Left out if there is none.
"""
import json
import pathlib

from report_data import OURS, READ, SCHEMA, TUNED, commit_of, geometric_mean, measured, median, number, table
from report_files import age_words

OUR_FP8, PEER_FP8, PEER_16 = "sluice FP8", "cuBLASLt FP8", "cuBLASLt 16"  # bench/record.h


def best_fp8(shape: dict) -> float | None:
    times = [us for us in (median(shape, OUR_FP8), median(shape, PEER_FP8)) if us]
    return min(times) if times else None


def divided(a: float | None, b: float | None) -> float | None:
    return a / b if a and b else None


def row_of(shape: dict, ours: str) -> list[str]:
    us, fp8 = median(shape, ours), best_fp8(shape)
    return [shape["name"], number(us, 2), number(median(shape, READ), 2), number(divided(us, median(shape, READ)), 2),
            number(fp8, 2), number(divided(fp8, us), 2), number(median(shape, PEER_16), 2),
            number(divided(median(shape, PEER_16), us), 2)]


def families(shapes: list[dict]) -> dict[str, list[dict]]:
    """Shapes by their tokens' type, which has a name only where there are e4m3 ones."""
    of_bytes = [s for s in shapes if s["problem"]["x"] == "e4m3"]
    others = [s for s in shapes if s["problem"]["x"] != "e4m3"]
    return {", 16-bit tokens": others, ", e4m3 tokens": of_bytes} if of_bytes else {"": others}


def load_packed(results: pathlib.Path, pattern: str = "*.json") -> list[dict]:
    runs = []
    for path in sorted((results / "packed").glob(pattern)):
        run = json.loads(path.read_text()) | {"file": path.name}
        if run.get("schema") != SCHEMA:
            raise SystemExit(f"{path}: schema is {run.get('schema')!r}, not {SCHEMA!r}")
        runs.append(run)
    return runs


def spread(ratios: list[float]) -> str:
    if not ratios:
        return "not measured"
    ends = f"{min(ratios):.2f} to {max(ratios):.2f}; " if len(ratios) > 1 else ""
    return f"{geometric_mean(ratios):.2f} ({ends}{len(ratios)})"


def ratios_by_tokens(results: pathlib.Path) -> dict[tuple[str, int], tuple[list[float], list[float]]]:
    """(type of tokens, number of them) -> ratios to FP8 and to 16 bits."""
    found: dict[tuple[str, int], tuple[list[float], list[float]]] = {}
    for shape in (s for run in load_packed(results) for s in run["shapes"]):
        us = median(shape, OURS)
        for kept, peer in zip(found.setdefault((shape["problem"]["x"], shape["problem"]["m"]), ([], [])), (best_fp8(shape), median(shape, PEER_16))):
            if us and peer:
                kept.append(peer / us)
    return found


def origins(results: pathlib.Path) -> str:
    """Of which commit, day and number of rounds the files are, and who planned, by type of tokens."""
    files: dict[str, list[str]] = {}
    plans: dict[str, list[bool]] = {}
    for run in load_packed(results):
        files.setdefault(f"{measured(run)}{age_words(commit_of(run)).replace(' is', ',')}, {run['method']['rounds']} rounds", []).append(run["file"].removesuffix(".json"))
        for shape in run["shapes"]:
            plans.setdefault(shape["problem"]["x"], []).append(shape["chosen_by"] == "record")
    return ("Measured: " + "; ".join(f"{where} ({', '.join(names)})" for where, names in files.items()) + ". Planned by record: " +
            ", ".join(f"{sum(by_record)} of {len(by_record)} with {kind} tokens" for kind, by_record in plans.items()) + "; the others by the model.")


def token_table(found: dict[tuple[str, int], tuple[list[float], list[float]]], kinds: list[str]) -> str:
    """A row for each number of tokens, two columns for each type."""
    sizes = sorted({m for kind, m in found if kind in kinds})
    return table(["tokens", *(f"{kind} tokens, x {peer}" for kind in kinds for peer in ("FP8", "16-bit"))],
                 [[str(m), *(spread(part) for kind in kinds for part in found.get((kind, m), ([], [])))] for m in sizes])


def to_where(found: dict[tuple[str, int], tuple[list[float], list[float]]], kind: str) -> str:
    """At which numbers of tokens the mean is above that of FP8."""
    means = {m: geometric_mean(fp8) for (of, m), (fp8, _) in sorted(found.items()) if of == kind and fp8}
    faster, slower = ([str(m) for m, mean in means.items() if (mean > 1) == wanted] for wanted in (True, False))
    return ", ".join(f"{how} at {', '.join(which)}" for how, which in (("faster", faster), ("slower", slower)) if which) + f" {kind} tokens"


def short_by_tokens(results: pathlib.Path) -> str:
    """For README.md: types of tokens that were measured on few products are a line, not columns of gaps."""
    found = ratios_by_tokens(results)
    many = [kind for kind in ("fp16", "bf16", "e4m3") if max((len(fp8) for (of, _), (fp8, _) in found.items() if of == kind), default=0) >= 8]
    if not many:
        return ""
    last = max(m for kind, m in found if all(found.get((kind, m), ([], []))[0] for kind in many))
    text = token_table({(kind, m): found[kind, m] for kind, m in found if m <= last}, many) + "\n"
    lines = []
    for kind in sorted({kind for kind, _ in found}):
        parts = [f"{geometric_mean(fp8):.2f} / {geometric_mean(half):.2f} at {m}" for (of, m), (fp8, half) in sorted(found.items())
                 if of == kind and fp8 and half and (m > last or kind not in many)]
        lines += [f"{kind} tokens {', '.join(parts)}"] if parts else []
    text += f"\n- One product or two each, x FP8 / x 16-bit: {'; '.join(lines)}." if lines else ""
    return f"{text}\n- Against FP8, int4 is in the mean {'; '.join(to_where(found, kind) for kind in many)}. Where it is slower, it saves memory, not time."


def by_tokens(results: pathlib.Path) -> str:
    """The same two peers in every row. And up to where int4 is the faster one."""
    found = ratios_by_tokens(results)
    if not found:
        return ""
    kinds = sorted({kind for kind, _ in found}, key=lambda kind: (kind == "e4m3", kind != "fp16"))
    parts = [to_where(found, kind) for kind in kinds]
    return f"{token_table(found, kinds)}\n\n{origins(results)}\n\nAgainst FP8, int4 is in the mean {'; '.join(parts)}. Where it is slower, it saves memory, not time."


def packed_section(results: pathlib.Path) -> str:
    runs = load_packed(results)
    if not runs:
        return ""
    text = ("## Packed weights\n\nint4 beside the faster of cuBLASLt's best FP8 product and our own FP8, cuBLASLt's best in 16 bits, "
            "and a plain read of the packed bytes, all in turn, cold and verified (packed.md).\n\n"
            "Geometric mean of peer time over ours (least to most; products):\n\n" + by_tokens(results) + "\n\n")
    few = [s for run in load_packed(results, "mixed*.json") for s in run["shapes"]]
    header = ["M x N x K", "sluice us", "plain read us", "x plain read's time", "FP8 us", "x FP8", "16-bit us", "x 16-bit"]
    for ours in (OURS, TUNED):
        for tokens, shapes in families(few).items():
            ratios = [r for s in shapes if (r := divided(best_fp8(s), median(s, ours)))]
            if not ratios:
                continue
            text += f"{ours}{tokens}: geometric mean {geometric_mean(ratios):.3f} x FP8's speed over {len(ratios)} of {len(shapes)} shapes, "
            text += f"least {min(ratios):.3f}.\n\n"
            text += table([header[0], f"{ours} us", *header[2:]], [row_of(s, ours) for s in shapes]) + "\n\n"
    many = [s for run in load_packed(results, "many*.json") for s in run["shapes"]]
    if many:
        many.sort(key=lambda s: (s["problem"]["m"], s["name"]))
        text += "Single products of more tokens:\n\n" + table(header, [row_of(s, OURS) for s in many]) + "\n\n"
    return text
