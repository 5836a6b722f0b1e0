# SPDX-License-Identifier: Apache-2.0
"""Writes the sentences of docs/performance.md on losses and on libraries other than cuBLASLt. The causes are
written by hand and have findings; the numbers come from rows. A sentence is left out if its rows show no
loss."""
import re

from report_figures import by_tokens, chain_ratios, compared, floor_shares, geometric_mean, is_fp8, losses, name_of, ratio, sizes_of, spread
from report_records import NO_COMMIT, age_words, first_look

SLOWER = 0.99  # ratios above this count as even, because runs differ by 1 %


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def worst_of(rows: list[dict]) -> dict | None:
    """Returns the slowest shape compared with the peer, if it is slower than the peer."""
    found = min(compared(rows), key=ratio, default=None)
    return found if found and ratio(found) < SLOWER else None


def told(row: dict) -> str:
    return f"{ratio(row):.2f} at {name_of(row)}"


def without_record(data) -> str:
    rows = [row for row in data.rows("products") if row["planned_by"] == "model"]
    worst, drawn = worst_of(rows), data.rows("products", ("blind",))
    if not worst:
        return ""
    slower = sum(ratio(row) < SLOWER for row in compared(rows))
    text = (f"**Shapes without a record.** {slower} of {len(compared(rows))} are slower by more than 1 %, the slowest {told(worst)} "
            f"(measured at {data.commit(worst['set'])}).")
    if lost := losses(drawn):
        look = "a first look" if first_look(data.commit("blind")) else "seen before"
        most = max(row["candidates"] or 0 for row in drawn)
        text += (f" On {len(lost)} random shapes ({look}) the pick takes {percent(geometric_mean(lost) - 1)} longer in the mean and "
                 f"{percent(max(lost) - 1)} at worst than the fastest of its own first {most:g} candidates ([unseen.md](findings/unseen.md)).")
    text += " Cause: the cost model has one number for what neighbouring tiles share in L2 ([fitted-widths.md](findings/fitted-widths.md))"
    across = compared([row for row in rows if row["layouts"] != "k/k"])
    if across and geometric_mean([ratio(row) for row in across]) < SLOWER:
        text += (f"; for operands stored MN-major ({geometric_mean([ratio(row) for row in across]):.2f} in the mean of {len(across)}) it also takes "
                 "clusters too early ([mn-major.md](findings/mn-major.md))")
    return text + "."


def many_tokens(data) -> str:
    means = {m: geometric_mean(part) for m, part in by_tokens(data.rows("packed"), "fp16").items()}
    slower = [f"{mean:.2f} at {m:g}" for m, mean in means.items() if mean < SLOWER]
    if not slower:
        return ""
    bytes_too = {m: geometric_mean(part) for m, part in by_tokens(data.rows("packed"), "e4m3").items()}
    text = f"**int4 weights with many tokens.** Beside FP8: {', '.join(slower)} fp16 tokens"
    if slow := [f"{mean:.2f} at {m:g}" for m, mean in bytes_too.items() if mean < SLOWER]:
        text += f"; {', '.join(slow)} e4m3 tokens"
    if told := slower_than_vllm(data):
        text += f". Beside the faster of Marlin and Machete, {told}"
    return text + (". Cause: codes are unpacked to the tokens' type before they are multiplied; that takes instructions, and 16-bit tensor "
                   "cores do half as many products a clock as FP8 ones. There int4 saves memory, not time ([few-bit-weights.md](findings/few-bit-weights.md)).")


def slower_than_vllm(data) -> str:
    """Returns a sentence on the shapes where Marlin or Machete is faster; "" if there are none."""
    rows = compared(data.rows("int4_peers"), "peer_us")
    slower = sorted((row for row in rows if ratio(row, "peer_us") < SLOWER), key=lambda row: ratio(row, "peer_us"))
    return (f"{len(slower)} of {len(rows)} are slower, from {min(row['m'] for row in slower):g} tokens on, at worst "
            f"{ratio(slower[0], 'peer_us'):.2f} ([which](findings/int4-peers.md))") if slower else ""


def few_waves(data) -> str:
    rows = compared(data.rows("products", ("tokens",)))
    worst = worst_of(rows)
    if not worst:
        return ""
    kinds = {"in 16 bits": [row for row in rows if not is_fp8(row)], "in fp8": [row for row in rows if is_fp8(row)]}
    shares = {kind: floor_shares(part) for kind, part in kinds.items() if part}
    words = " and ".join(f"{ours:.2f} (cuBLASLt {theirs:.2f}) {kind}" for kind, (ours, theirs) in shares.items())
    least, most = (pick(row["m"] for row in rows) for pick in (min, max))
    return (f"**One or two waves of tiles**, M {least:g} to {most:g}: {told(worst)}. Products reach {words} of what memory or tensor cores "
            "allow. Cause: starts, ends and L2 take the rest, and nothing hides them in so few waves ([what-is-left.md](findings/what-is-left.md)).")


def power_limit(data) -> str:
    rows = [row for row in compared(data.rows("products", ("engine",))) if row["m"] >= 4096]
    worst, clocks = worst_of(rows), [row["sm_mhz"] for row in rows if row["sm_mhz"]]
    if not worst or not clocks:
        return ""
    mean = geometric_mean([ratio(row) for row in rows])
    return (f"**Large products.** From 4096 rows on the mean is {mean:.2f}, the slowest {told(worst)}. SMs ran at {min(clocks):.0f} to "
            f"{max(clocks):.0f} MHz, counted beside the launches. Cause: the power limit sets that clock; a kernel gains by fewer joules only, "
            "for either side ([power.md](findings/power.md)).")


def promoted(data) -> str:
    rows = data.rows("products", ("promoted", "block"))
    worst = worst_of(rows)
    if not worst:
        return ""
    fast = {sizes_of(row): row["us"] for row in data.rows("products", ("engine",)) if is_fp8(row) and row["us"]}
    cost = [row["us"] / fast[sizes_of(row)] for row in rows if row["set"] == "promoted" and row["us"] and sizes_of(row) in fast]
    text = f"**fp8 with promoted or block-scaled sums.** The slowest: {told(worst)} ({worst['sums']})."
    if cost:
        text += (f" Promotion takes {percent(geometric_mean(cost) - 1)} longer than fast sums in the mean of {len(cost)} shapes, "
                 f"{percent(max(cost) - 1)} at worst.")
    return text + (" Cause: sums move to fp32 registers every 128 of k, with nothing in flight meanwhile, and registers for both kinds of sums "
                   "bound the tile ([promotion.md](findings/promotion.md)).")


def strided(of_gpus: list) -> list[str]:
    """Returns a sentence on 16-bit operands that TMA cannot read, for each GPU that has a record."""
    parts = []
    for data in of_gpus:
        rows = compared(data.rows("products", ("strided",)))
        if worst := worst_of(rows):
            slower = sum(ratio(row) < SLOWER for row in rows)
            parts.append(f"{data.gpu()}, at {data.commit('strided')}: {geometric_mean([ratio(row) for row in rows]):.2f} in the mean of {len(rows)}, "
                         f"{slower} of them slower than cuBLASLt's best, the slowest {told(worst)}")
    return ["**16-bit operands that TMA cannot read** (rows no multiple of 16 bytes apart, or a misaligned start). " + "; ".join(parts) +
            ". Cause: three warps read such an operand by ordinary loads, and their issue slots are the limit; with padded rows it can be three times as fast "
            "([0024](decisions/0024-any-strides.md))."] if parts else []


def drawn_chains(of_gpus: list) -> str:
    """Returns a sentence on layers of randomly drawn models, which have no records."""
    parts = []
    for data in of_gpus:
        rows = [row for row in data.rows("drawn_chains") if row["us_a_layer"]]
        if planned := chain_ratios(rows, "tuned, fused: gated"):
            guarded = chain_ratios(rows, "guarded, fused: gated")
            parts.append(f"{data.gpu()} {spread(planned)}" + (f", with `Chain::guarded` {spread(guarded)}" if guarded else ""))
    return f" Layers of models drawn at random, without records, fused: {'; '.join(parts)} ([untuned-chains.md](findings/untuned-chains.md))." if parts else ""


def where_we_lose(data) -> list[str]:
    return [text for make in (without_record, many_tokens, few_waves, power_limit, promoted) if (text := make(data))]


def beside_triton(data) -> str:
    ours = {row["m"]: row["us"] for row in data.rows("products", ("sweep",)) if is_fp8(row) and row["us"]}
    rows = [row for row in data.rows("triton") if row["triton_us"] and row["m"] in ours]
    if not rows:
        return ""
    ratios = [row["triton_us"] / ours[row["m"]] for row in rows]
    theirs = data.commit("peers/triton_sweep")
    text = (f"**Triton** kernels of our own, e4m3 at 4096 x 4096, M {rows[0]['m']:g} to {rows[-1]['m']:g}: {geometric_mean(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f}; {len(ratios)}). Triton was timed at {theirs}{age_words(theirs)}; sluice at "
            f"{data.commit('sweep')}.")
    if wrong := sum(row["wrong"] > 0 for row in rows):
        text += f" At {wrong} of the sizes candidates gave wrong results by a fault of the script, so the fastest Triton kernel may be missing there."
    if cut := sum(row["cut"] for row in rows):
        text += f" At {cut:g} of the sizes the search ran out of time."
    return text


def beside_vllm(data) -> str:
    rows = compared(data.rows("int4_peers"), "peer_us")
    if not rows:
        return ""
    commit, parts = data.commit("peers/int4"), []
    for name in dict.fromkeys(row["set"] for row in rows):
        words = {"int4_known": "known layers"}.get(name, name)
        if drawn := name.partition("int4_blind_")[2]:
            words = "random products" + (f" ({'first look' if first_look(commit, drawn) else 'seen'})" if re.fullmatch("[0-9a-f]{7,40}", drawn) else "")
        parts.append(f"{spread([ratio(row, 'peer_us') for row in rows if row['set'] == name])} on {words}")
    both = [row for row in rows if row["marlin_us"] and row["machete_us"]]
    ran = f"; where both ran {spread([ratio(row, 'peer_us') for row in both])}" if 0 < len(both) < len(rows) else ""
    return (f"**Marlin, Machete** (vLLM {rows[0]['vllm']}), int4, times the faster: {', '.join(parts)}{ran}, at {commit} "
            "([by tokens](findings/int4-peers.md)).")


def in_torch(data) -> str:
    rows = data.rows("blocks")
    if not rows:
        return ""
    commits = {data.commit(f"python/{row['file']}") for row in rows}
    where = "commit not recorded" if commits == {NO_COMMIT} else ", ".join(sorted(commits))
    found: dict[float, list[str]] = {}
    for row in rows:
        found.setdefault(row["tokens"], []).append(f"{row['torch_us'] / row['sluice_us']:.2f}")
    return ("**torch._scaled_mm**, a Llama 3 8B block under torch.compile (examples/llama_block.py), four layers in a graph: " +
            ", ".join(f"{' and '.join(times)} at {tokens:g}" for tokens, times in found.items()) + f" tokens ({where}).")


def range_of_rows(data) -> str:
    rows = [row for row in data.rows("ranges") if row["mean_loss"] is not None]
    if not rows:
        return ""
    mean, worst = sum(row["mean_loss"] for row in rows) / len(rows), max(rows, key=lambda row: row["worst_loss"])
    most = max(row["kernels"] for row in rows)
    return (f"**A kernel for each number of rows**, where `prepare` makes at most {most:g} for a range (`sluice rows`, {len(rows)} layers): "
            f"{percent(mean)} slower in the mean, {percent(worst['worst_loss'])} at worst ({worst['layer']}), at {data.commit('rows')}.")


def other_peers(data) -> list[str]:
    lines = [text for make in (beside_vllm, beside_triton, in_torch, range_of_rows) if (text := make(data))]
    return [*lines, "**DeepGEMM** and other FP8 libraries have no record here."] if lines else []
