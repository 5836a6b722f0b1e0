# SPDX-License-Identifier: Apache-2.0
"""The sections of docs/performance.md that look across records or into one of a kind: what promotion costs, how
block-scaled products compare, what the planner's pick loses on shapes nobody tuned. Each is "" without its record.
"""
import datetime

from report_data import (BEST, OURS, READ, TUNED, algorithms, commit_of, contender, geometric_mean, groups_of, kernel, measured, median, number, peer_words,
                         percent, ratio, run_of, screened, set_of, shape_name, sizes, sums_of, table, types_of)
from report_files import LISTS, ROOT

# Microseconds of DeepGEMM (1x128 / 128x128 scales), timed by us on an H200 in an earlier session with the same method
# (graph of launches, rotating weights, random data): m, n, k -> us. No record of that run is kept.
DEEPGEMM_US = {
    (128, 4096, 4096): 10.34, (128, 8192, 8192): 25.03, (128, 1280, 8192): 13.7, (128, 8192, 1024): 7.23,
    (128, 7168, 8192): 26.58, (128, 8192, 3584): 13.31, (128, 28672, 4096): 40.94, (128, 4096, 14336): 27.65,
    (256, 4096, 4096): 13.14, (256, 8192, 8192): 32.06, (256, 1280, 8192): 14.8, (256, 8192, 1024): 8.48,
    (256, 7168, 8192): 33.65, (256, 8192, 3584): 16.22, (256, 28672, 4096): 59.38, (256, 4096, 14336): 35.78,
    (1024, 4096, 4096): 28.88, (1024, 8192, 8192): 100.19, (1024, 1280, 8192): 24.17, (1024, 8192, 1024): 18.38}


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
    on_h200 = "H200" in run["machine"]["gpu"]
    rows, of_cublaslt, of_deepgemm = [], [], []
    for shape in run["shapes"]:
        ours, peer = median(shape, OURS), ratio(shape, OURS, BEST)
        if sums_of(shape) != "block-scaled" or not ours:
            continue
        before = DEEPGEMM_US.get(sizes(shape)) if on_h200 else None
        of_cublaslt += [peer] if peer else []
        of_deepgemm += [before / ours] if before else []
        rows.append([shape_name(shape), number(ours, 1), number(median(shape, BEST), 1), number(peer, 2),
                     number(before, 1), number(before / ours if before else None, 2)])
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
    if of_deepgemm:
        lines.append(f"- Against DeepGEMM on an H200, measured by us before, **not in this run** (no record of that run is kept, nor of DeepGEMM's version): {against(of_deepgemm)}. "
                     "Method alike (cold L2, random data, graphs of launches), clocks and day not.")
    header = ["m x n x k", "sluice us", "cuBLASLt block-scaled us", "x cuBLASLt", "DeepGEMM us, before", "x DeepGEMM"]
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
BLIND = ("They were drawn from the commit that planned them, after the last change of the planner, and nothing was changed for them before they were "
         "measured ([findings/unseen.md](findings/unseen.md) says how; bench/shapes/blind.txt).")
# Lists whose every shape was planned by the model.
UNTUNED = {"blind": "The untuned pick on the blind list", "unseen": "The untuned pick on the regression set"}


def is_blind(run: dict) -> bool:
    """Was it measured with the commit that it was drawn from? Every later look is one of somebody who knows it."""
    first = (ROOT / LISTS["blind"]).read_text().splitlines()[0]
    return set_of(run) == "blind" and any(word.startswith(commit_of(run)) for word in first.split())


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
