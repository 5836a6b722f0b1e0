# SPDX-License-Identifier: Apache-2.0
"""The tables of speed in README.md, between the markers there: from the same records as docs/performance.md, so that they
say no more than it. Used by report.py.
"""
import pathlib

from report_data import BEST, DRAWN, OURS, geometric_mean, groups_of, measured, percent, ratio, run_of, screened, set_of, table
from report_files import ages
from report_packed import origins, short_by_tokens
from report_sections import is_blind, losses
from report_torch import triton_sentence

BEGIN, END = "<!-- speed: made by `make report` -->", "<!-- end of speed -->"

# What a set is, to somebody who has not seen it. "seen": by those who changed the planner, before these figures.
SETS = {"engine": "large products, M 1024 to 8192", "tokens": "M 128, 256 and 512", "odd_rows": "M 65 to 1000, mostly no multiple of 64",
        "decode": "decoding, M 1 to 64", "sweep": "4096 x 4096, M 1 to 128", "long_k": "K up to 131072 over a small D",
        "promoted": "fp8, promoted sums", "block": "fp8, block scales", "epilogues": "short k: no epilogue, bias, bias and GELU",
        "blind": "random shapes and layouts, first look", "layouts": "other layouts and epilogues, seen", "unseen": "random shapes, seen"}


def kinds(name: str) -> str:
    """`e4m3 to bf16, promoted` says again what the set's name says; a D that is neither bf16 nor of the operands' type is told."""
    of, to = name.split(", ")[0].split(" to ")
    return of if to in ("bf16", of) else f"{of} to {to}"


def planned_by(shapes: list[dict]) -> str:
    by_record = sum(s["chosen_by"] == "record" for s in shapes)
    return "record" if by_record == len(shapes) else "model" if by_record == 0 else f"{by_record} by record"


def words_of(name: str) -> str:
    return SETS.get(name, name)


def dense_groups(runs: list[dict]) -> list[tuple[str, dict, str, list[dict]]]:
    return [(wanted, run, name, shapes) for wanted in SETS for run in runs if set_of(run) == wanted
            for name, shapes in groups_of(run).items()]


def spread(ratios: list[float], shapes: int) -> str:
    count = str(len(ratios)) if len(ratios) == shapes else f"{len(ratios)} of {shapes}"
    return f"{geometric_mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}; {count})"


def dense_rows(runs: list[dict]) -> list[list[str]]:
    """A row a set: bf16, e4m3 with fast sums, and whatever other types it has."""
    rows = []
    for wanted in SETS:
        run = next((run for run in runs if set_of(run) == wanted), None)
        cells: dict[str, list[str]] = {"bf16": [], "e4m3": [], "others": []}
        for name, shapes in groups_of(run).items() if run else ():
            if ratios := [r for s in shapes if (r := ratio(s, OURS, BEST))]:
                lone = wanted in ("promoted", "block")  # the set's name says of what kind
                kind = kinds(name) + (f", {name.split(', ', 1)[1]}" if ", " in name and not lone else "")
                cells[kind if kind in cells else "others"].append((f"{kind} " if kind not in cells else "") + spread(ratios, len(shapes)))
        if any(cells.values()):
            rows.append([words_of(wanted), *("; ".join(parts) or "-" for parts in cells.values()), planned_by(run["shapes"]), measured(run)])
    return rows


def all_ratios(runs: list[dict], wanted: str, by: str) -> list[float]:
    return [r for run in runs if set_of(run) == wanted for s in run["shapes"] if s["chosen_by"] == by and (r := ratio(s, OURS, BEST))]


def verdict(runs: list[dict]) -> str:
    """What a reader in a hurry takes away: who planned, and the worst beside the mean."""
    said = []
    for wanted in ("engine", "tokens", "decode"):
        groups = [(kinds(name), [r for s in shapes if s["chosen_by"] == "record" and (r := ratio(s, OURS, BEST))]) for of, _, name, shapes in dense_groups(runs) if of == wanted]
        if groups := [(kind, ratios) for kind, ratios in groups if ratios]:
            said.append(f"{words_of(wanted)}: " + ", ".join(f"{geometric_mean(ratios):.2f} ({kind}; least {min(ratios):.2f})" for kind, ratios in groups))
    text = f"With records of these very shapes: {'; '.join(said)}. " if said else ""
    if model := [r for wanted in SETS for r in all_ratios(runs, wanted, "model")]:
        text += f"Without records: {geometric_mean(model):.2f} in the mean of {len(model)} shapes, least {min(model):.2f}, most {max(model):.2f}."
    return f"**{text.strip()}**" if text else ""


def one_algorithm(runs: list[dict]) -> str:
    """The shapes for which there is no best of cuBLASLt's, because it has one algorithm or none."""
    found = []
    for wanted, _, name, shapes in dense_groups(runs):
        ones = [s for s in shapes if s.get("peer_algorithms", 0) == 1]
        if ones:
            which = "all" if len(ones) == len(shapes) else f"{len(ones)} of {len(shapes)}"
            found.append(f'{which} of "{words_of(wanted)}" {kinds(name) if wanted not in DRAWN else name}')
    return f"Where cuBLASLt's heuristic returns one algorithm, that one is the peer, and no best of several: {'; '.join(found)}." if found else ""


def without_peer(runs: list[dict]) -> str:
    """Where a row has fewer shapes than were run."""
    found = [f'"{words_of(wanted)}" {name} ({missing} of {len(shapes)})' for wanted, _, name, shapes in dense_groups(runs)
             if (missing := sum(ratio(s, OURS, BEST) is None for s in shapes))]
    return f"Not compared, for one side has no verified result: {'; '.join(found)}." if found else ""


def loss_sentence(runs: list[dict]) -> str:
    run = run_of(runs, "blind")
    found = [(loss[0], len(screened(s))) for s in run["shapes"] if (loss := losses(s))] if run else []
    if not found:
        return ""
    mean, worst = geometric_mean([loss for loss, _ in found]), max(loss for loss, _ in found)
    drawn = "drawn from the planner that was measured and not looked at before" if is_blind(run) else "seen before it was measured"
    return (f"On {len(found)} random shapes and layouts without a record, {drawn}, the planner's choice loses {percent(mean - 1)} in the mean, {percent(worst - 1)} at worst, to the "
            f"fastest of its own first {max(count for _, count in found)} candidates (docs/findings/unseen.md). Backward passes of linear layers (MN-major operands), fp16, fp32 D, bias and GELU are in \"{words_of('layouts')}\".")


def speed(runs: list[dict], results: pathlib.Path) -> str:
    header = ["products", "bf16: mean (least to most; shapes)", "e4m3", "other types", "planned by", "measured"]
    notes = [ages([run for run in runs if set_of(run) in SETS], words_of)]
    text = (f"{said}\n\n" if (said := verdict(runs)) else "") + table(header, dense_rows(runs), left=1) + "\n\n" + "\n".join(f"- {note}" for note in notes if note)
    if packed := short_by_tokens(results):
        text += ("\n\nint4 weights (packed; groups of 64 and 128, and of 128 alone where there are one or two products), beside the faster of cuBLASLt's best FP8 and our own FP8 and beside cuBLASLt's best in 16 bits; "
                 "mean (least to most; products). No kernel of others for int4 weights (Marlin, Machete, CUTLASS, TensorRT-LLM) was timed:\n\n" + packed + "\n- " + origins(results))
    return "\n- ".join(filter(None, (text, triton_sentence(results, runs), loss_sentence(runs))))


def put_into(texts: dict[pathlib.Path, str], readme: pathlib.Path, runs: list[dict], results: pathlib.Path) -> None:
    """Nothing where there is no such file, or it has no markers."""
    text = texts.get(readme, "")
    if BEGIN not in text or END not in text or not runs:
        return
    head, rest = text.split(BEGIN, 1)
    texts[readme] = f"{head}{BEGIN}\n{speed(runs, results)}\n{END}{rest.split(END, 1)[1]}"
