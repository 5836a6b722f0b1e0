# SPDX-License-Identifier: Apache-2.0
"""The tables of speed in README.md, between the markers there: from the same records as docs/performance.md, so that they
say no more than it. Used by report.py.
"""
import pathlib

from report_data import BEST, DRAWN, OURS, geometric_mean, groups_of, measured, percent, ratio, run_of, screened, set_of, table
from report_files import ages
from report_mixed import origins, short_by_tokens
from report_sections import is_blind, losses
from report_torch import triton_sentence

BEGIN, END = "<!-- speed: made by `make report` -->", "<!-- end of speed -->"

# What a set is, to somebody who has not seen it.
SETS = {"engine": "large products, M 1024 to 8192", "tokens": "M 128, 256 and 512", "odd_rows": "M 65 to 1000, mostly no multiple of 64",
        "decode": "decoding, M 1 to 64", "sweep": "4096 x 4096, M 1 to 128", "long_k": "K up to 131072 over a small D",
        "promoted": "fp8, promoted sums", "block": "fp8, block scales", "blind": "blind list: random shapes and layouts",
        "layouts": "other layouts and epilogues, seen by the model's authors", "unseen": "random shapes, seen by the model's authors"}


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


def dense_rows(runs: list[dict]) -> list[list[str]]:
    rows = []
    for wanted, run, name, shapes in dense_groups(runs):
        ratios = [r for s in shapes if (r := ratio(s, OURS, BEST))]
        if ratios:
            extra = name.split(", ", 1)[1] if wanted in DRAWN and ", " in name else ""
            count = str(len(ratios)) if len(ratios) == len(shapes) else f"{len(ratios)} of {len(shapes)}"
            rows.append([words_of(wanted), kinds(name) + (f", {extra}" if extra else ""), count,
                         f"{geometric_mean(ratios):.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}", planned_by(shapes), measured(run)])
    return rows


def verdict(runs: list[dict]) -> str:
    """What a reader in a hurry takes away."""
    rows = [(wanted, kinds(name), [r for s in shapes if (r := ratio(s, OURS, BEST))]) for wanted, _, name, shapes in dense_groups(runs)]
    said = []
    for wanted in ("engine", "tokens", "decode"):
        of_set = [(kind, ratios) for name, kind, ratios in rows if name == wanted and ratios]
        if of_set:
            said.append(f"{words_of(wanted)}: " + ", ".join(f"{geometric_mean(ratios):.2f} ({kind})" for kind, ratios in of_set))
    least = sorted((min(ratios), words_of(wanted), kind) for wanted, kind, ratios in rows if ratios)[:2]
    if not said or not least:
        return ""
    return f"**{'; '.join(said)}. The slowest shapes: {', '.join(f'{value:.2f} ({words}, {kind})' for value, words, kind in least)}.**"


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
    return f"Not compared, for one side has no verified result (docs/performance.md has its error): {'; '.join(found)}." if found else ""


def loss_sentence(runs: list[dict]) -> str:
    run = run_of(runs, "blind")
    found = [(loss[0], len(screened(s))) for s in run["shapes"] if (loss := losses(s))] if run else []
    if not found:
        return ""
    mean, worst = geometric_mean([loss for loss, _ in found]), max(loss for loss, _ in found)
    drawn = "drawn after the planner's last change and measured with it" if is_blind(run) else "once blind, seen since"
    return (f"On the blind list, {len(found)} random shapes and layouts without a record, {drawn}, the planner's choice loses {percent(mean - 1)} in the mean, {percent(worst - 1)} at worst, to the "
            f"fastest of its own first {max(count for _, count in found)} candidates (docs/findings/unseen.md). Backward passes of linear layers (MN-major operands), fp16, fp32 D, bias and GELU are in \"other layouts and epilogues\".")


def speed(runs: list[dict], results: pathlib.Path) -> str:
    header = ["products", "types", "shapes", "mean", "least", "most", "planned by", "measured"]
    notes = [ages([run for run in runs if set_of(run) in SETS], words_of), one_algorithm(runs), without_peer(runs)]
    text = (f"{said}\n\n" if (said := verdict(runs)) else "") + table(header, dense_rows(runs), left=2) + "\n\n" + "\n".join(f"- {note}" for note in notes if note)
    if packed := short_by_tokens(results):
        text += ("\n\nint4 weights (packed; groups of 64 and 128, and of 128 alone where there are one or two products), beside the faster of cuBLASLt's best FP8 and our own FP8 and beside cuBLASLt's best in 16 bits; "
                 "mean (least to most; products):\n\n" + packed + "\n\n" + origins(results))
    return "\n\n".join(filter(None, (text, triton_sentence(results, runs), loss_sentence(runs))))


def update(readme: pathlib.Path, runs: list[dict], results: pathlib.Path) -> None:
    """Nothing where there is no such file, or it has no markers."""
    text = readme.read_text() if readme.exists() else ""
    if BEGIN not in text or END not in text or not runs:
        return
    head, rest = text.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    readme.write_text(f"{head}{BEGIN}\n{speed(runs, results)}\n{END}{tail}")
