# SPDX-License-Identifier: Apache-2.0
"""The sections of docs/performance.md that look across records or into one of a kind: what promotion costs, how
block-scaled products compare, what the planner's pick loses on shapes nobody tuned. Each is "" without its record.
"""
import datetime
import re

from report_data import (BEST, NO_COMMIT, OURS, READ, TUNED, algorithms, commit_of, contender, geometric_mean, groups_of, kernel, measured, median, number, peer_words,
                         percent, ratio, run_of, screened, set_of, shape_name, sums_of, table, types_of)
from report_files import LISTS, ROOT, same_sources

# Timed by us on an H200 in a visit of which nothing is kept, nor DeepGEMM's version: so no digits.
DEEPGEMM = ("Against DeepGEMM there is no record. In a visit whose files are not kept sluice was faster on nearly all of twenty shapes, by a tenth to a "
            "fifth in the mean: nobody can check that, so take it for a reason to measure.")


def same_session(one: dict, other: dict) -> bool:
    """One card kind, driver and cuBLASLt, started within two hours: as near as the records can tell."""
    key = [(r["machine"]["gpu"], r["machine"]["driver"], r["versions"]["cublaslt"]) for r in (one, other)]
    try:
        starts = [datetime.datetime.fromisoformat(r["started"].replace("Z", "+00:00")) for r in (one, other)]
    except ValueError:
        return False
    return key[0] == key[1] and abs((starts[0] - starts[1]).total_seconds()) < 7200


def fast_twin(engine: dict, shape: dict) -> dict | None:
    """The same problem with fast accumulation."""
    wanted = shape["problem"] | {"accumulate": "fast"}
    return next((s for s in engine["shapes"] if s["problem"] == wanted), None)


def promoted_section(runs: list[dict]) -> str:
    promoted, engine = run_of(runs, "promoted"), run_of(runs, "engine")
    if not promoted or not engine:
        return ""
    rows, costs, peer_costs = [], {}, {}
    for shape in promoted["shapes"]:
        twin = fast_twin(engine, shape) if sums_of(shape) == "promoted" else None
        if not twin:
            continue
        cells = [shape_name(shape)]
        for name, kept in ((OURS, costs), (BEST, peer_costs)):
            fast, slow = median(twin, name), median(shape, name)
            if fast and slow:
                kept[shape_name(shape)] = slow / fast
            cells += [number(fast, 1), number(slow, 1), number(slow / fast if fast and slow else None, 2)]
        rows.append(cells)
    if not costs:
        return ""
    worst = max(costs, key=costs.get)
    text = (f"Promoted sums (fp32 outside of the tensor core, every 128 of k) cost **{percent(mean_loss(costs))}** over fast "
            f"ones, geometric mean of {len(costs)} layers; the worst is {percent(costs[worst] - 1)} ({worst}).")
    if peer_costs:
        worst = max(peer_costs, key=peer_costs.get)
        text += (f" cuBLASLt's best without fast accumulation costs {percent(mean_loss(peer_costs))} over its best with it, "
                 f"at worst {percent(peer_costs[worst] - 1)} ({worst}).")
    session = "in the same session" if same_session(promoted, engine) else "in **different sessions**"
    text += (f"\nThe two were timed {session} ({engine['file']} from {engine['started']}, {promoted['file']} from "
             f"{promoted['started']}), not in turn: a difference of 1 or 2 % says nothing.")
    header = ["m x n x k", "fast us", "promoted us", "ratio", "cuBLASLt fast us", "not fast us", "ratio"]
    return f"## What promoted sums cost\n\n{text}\n\n{folded('All layers', table(header, rows))}\n"


def mean_loss(ratios: dict[str, float]) -> float:
    return geometric_mean(list(ratios.values())) - 1


def folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def block_section(runs: list[dict]) -> str:
    run = run_of(runs, "block")
    if not run:
        return ""
    rows, of_cublaslt = [], []
    for shape in run["shapes"]:
        ours, peer = median(shape, OURS), ratio(shape, OURS, BEST)
        if sums_of(shape) != "block-scaled" or not ours:
            continue
        of_cublaslt += [peer] if peer else []
        rows.append([shape_name(shape), number(ours, 1), number(median(shape, BEST), 1), number(peer, 2)])
    if not rows:
        return ""
    lines = ["fp8 with fp32 scales: one for 1 x 128 of A, one for 128 x 128 of B."]
    if of_cublaslt:
        lines.append(f"- Against cuBLASLt's own block-scaled product, timed in turn in this run ({algorithms(run['shapes'])} of its algorithms returned and "
                     f"timed{one_only(run['shapes'])}): {against(of_cublaslt)}.")
    left_out = len(rows) - len(of_cublaslt)
    if left_out:
        lines.append(f"- On {left_out} of {len(rows)} shapes cuBLASLt has no verified time, so there is nothing to "
                     "compare with.")
    elif not any("peer_caveat" in s for s in run["shapes"]):
        lines.append("- cuBLASLt takes the scales of A as a column-major array, sluice as a row-major one. The bench "
                     "sets them to one, so that both read the same values and both can be verified.")
    if "H200" in run["machine"]["gpu"]:
        lines.append(f"- {DEEPGEMM}")
    header = ["m x n x k", "sluice us", "cuBLASLt block-scaled us", "x cuBLASLt"]
    return "## Block-scaled fp8\n\n" + "\n".join([lines[0], "", *lines[1:]]) + f"\n\n{table(header, rows)}\n"


def one_only(shapes: list[dict]) -> str:
    return "" if peer_words(shapes).endswith("best") else ", so there is no best of several"


def against(ratios: list[float]) -> str:
    count = f"{len(ratios)} shape{'s' * (len(ratios) > 1)}"
    return (f"**{geometric_mean(ratios):.3f}** times as fast, geometric mean of {count}; from {min(ratios):.2f} to "
            f"{max(ratios):.2f}, slower on {sum(r < 1 for r in ratios)}")


def plain_read(runs: list[dict]) -> str:
    """What the page's `plain read` is, and that it is no lower bound."""
    ratios = [median(s, READ) / ours for run in runs for s in run["shapes"] if median(s, READ) and (ours := median(s, OURS))]
    if not ratios:
        return ""
    return ("\n`plain read` is a kernel that only reads B with plain 16-byte loads, timed in the same run. It is no lower bound: sluice beat it on "
            f"{sum(r > 1 for r in ratios)} of {len(ratios)} shapes, by {percent(max(ratios) - 1)} at most. The floor (\"How near the floor\") is computed, not "
            "measured. In the JSON files, and in older issues, the plain read has the name \"read floor\" or \"plain-read floor\".\n")


def losses(shape: dict) -> tuple[float, float | None] | None:
    """The pick's time over the best's: in the final race, and as screening saw it. None if there was no race."""
    pick, tuned = median(shape, OURS), median(shape, TUNED)
    if not pick or not tuned or shape.get("chosen_by", "model") != "model":
        return None
    found = screened(shape)
    seen = found and kernel(found[0]["name"]) == kernel(contender(shape, OURS)["detail"])
    return pick / min(pick, tuned), found[0]["us"] / min(c["us"] for c in found) if seen else None


SEEN = ("They are a regression set, not a blind one: the same list was timed and reported before, while the model was being changed "
        "([findings/unseen.md](findings/unseen.md)).")
BLIND = ("These figures are of a first look: the list was drawn from a commit whose library is the one that was measured "
         "([findings/unseen.md](findings/unseen.md) says how; bench/shapes/blind.txt). It is spent: tests/unit/cost_results_test.cc holds the "
         "model to it, so another measurement of it is one of a list that is known.")
# Lists whose every shape was planned by the model.
UNTUNED = {"blind": "The untuned pick on the list drawn last", "unseen": "The untuned pick on the regression set"}


def drawn_from() -> str:
    """The commit in the first line of the list that was drawn last; "" where it names none."""
    first = (ROOT / LISTS["blind"]).read_text().splitlines()[0]
    found = re.search(r"\b[0-9a-f]{40}\b", first)
    return found[0] if found else ""


def is_blind(run: dict) -> bool:
    """Was it measured with the library that it was drawn from, so that nothing can have been changed for it? The commit that
    puts the list into the repository is another one, and has the same library."""
    drawn, measured_at = drawn_from(), commit_of(run)
    return (set_of(run) == "blind" and bool(drawn) and NO_COMMIT != measured_at and not measured_at.endswith("-dirty")
            and same_sources(drawn, measured_at))


def untuned_sections(runs: list[dict]) -> str:
    return "\n".join(filter(None, (untuned_section(run_of(runs, name), title) for name, title in UNTUNED.items())))


def untuned_section(run: dict | None, title: str) -> str:
    raced = [(s, *found) for s in run["shapes"] if (found := losses(s))] if run else []
    if not raced:
        return ""
    rows = []
    for name in [*groups_of(run), "all"]:
        part = [row for row in raced if name in ("all", types_of(row[0]))]
        checks = [row[2] for row in part if row[2]]
        if part:
            rows.append([name, str(len(part)), str(sum(row[1] <= 1.01 for row in part)),
                         percent(geometric_mean([row[1] for row in part]) - 1), percent(max(row[1] for row in part) - 1),
                         percent(geometric_mean(checks) - 1 if checks else None),
                         percent(max(checks) - 1 if checks else None)])
    worst = max(raced, key=lambda row: row[1])
    most = max(len(screened(row[0])) for row in raced)
    text = f"""## {title}

{len(raced)} random shapes that no tuning record has and the fit of the cost model does not use, planned without records ({measured(run)}). \
{BLIND if is_blind(run) else SEEN} Of each the planner's own first \
{most} candidates at most were verified and screened, and the fastest raced the pick in turn. The pick loses \
**{rows[-1][3]}** to the fastest of those (geometric mean) and {percent(worst[1] - 1)} at worst ({shape_name(worst[0])}, \
{types_of(worst[0])}); a better kernel that the planner ranks lower, or does not know, is not seen. Screening is short, and the least of \
many noisy times flatters, so its columns are a check from above.

"""
    text += table(["types", "shapes", "pick within 1 %", "loss, mean", "worst", "screening: mean", "worst"], rows)
    rows = []
    for shape, loss, check in sorted(raced, key=lambda row: -row[1])[:10]:
        pick, tuned = contender(shape, OURS), contender(shape, TUNED)
        best = min(pick, tuned, key=lambda c: c["us"]["median"])
        rows.append([shape_name(shape), types_of(shape), kernel(pick["detail"]), kernel(best["detail"]),
                     number(pick["us"]["median"], 1), number(best["us"]["median"], 1), percent(loss - 1),
                     percent(check - 1 if check else None), number(ratio(shape, OURS, BEST), 2)])
    header = ["m x n x k", "types", "pick", "best", "pick us", "best us", "loss", "screening", "pick x cuBLASLt best"]
    text += f"\n\nThe worst {len(rows)}:\n\n{table(header, rows, left=4)}\n"
    bad = sum(len(s.get("candidates", [])) - len(screened(s)) for s in run["shapes"])
    if bad:
        text += f"\n{bad} candidates failed, were wrong or were not timed, and count nowhere.\n"
    skipped = len(run["shapes"]) - len(raced)
    if skipped:
        text += f"\n{skipped} of {len(run['shapes'])} shapes had no verified race of the model's pick and are left out.\n"
    return text
