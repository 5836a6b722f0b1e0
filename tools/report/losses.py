# SPDX-License-Identifier: Apache-2.0
"""docs/performance-losses.md, and docs/conv.md's table beside cuDNN. Causes are typed and have findings; numbers come
from rows. A part is left out if its rows show no loss."""
from report.figures import TOKENS, by_tokens, compared, floor_shares, geometric_mean, is_fp8, listed, losses, name_of, ratio, short, sizes_of, spread, table, wrapped

SLOWER = 0.99  # ratios above this count as even, because runs differ by 1 %


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def worst_of(rows: list[dict]) -> dict | None:
    """Returns the slowest shape compared with the peer, if it is slower than the peer."""
    found = min(compared(rows), key=ratio, default=None)
    return found if found and ratio(found) < SLOWER else None


def told(row: dict) -> str:
    return f"{ratio(row):.2f} at {name_of(row)}"


def titled(title: str, *items: str) -> str:
    return f"## {title}\n{listed(*items)}"


def without_record(data) -> str:
    rows = [row for row in data.rows("products") if row["planned_by"] == "model"]
    worst, drawn = worst_of(rows), data.rows("products", ("blind",))
    if not worst:
        return ""
    slower, picks, across = sum(ratio(row) < SLOWER for row in compared(rows)), "", compared([row for row in rows if row["layouts"] != "k/k"])
    if lost := losses(drawn):
        most = max(row["candidates"] or 0 for row in drawn)
        picks = (f"On {len(lost)} random shapes the planner's pick takes {percent(geometric_mean(lost) - 1)} longer in the mean, and "
                 f"{percent(max(lost) - 1)} at worst, than the fastest of its own first {most:g} candidates ([unseen.md](findings/unseen.md)).")
    mn_major = ""
    if across and (mean := geometric_mean([ratio(row) for row in across])) < SLOWER:
        mn_major = (f"Operands stored MN-major: {mean:.2f} in the mean of {len(across)}. Cause: the cost model also takes clusters too early there "
                    "([mn-major.md](findings/mn-major.md)).")
    return titled("Shapes without a tuning record", f"{slower} of {len(compared(rows))} are slower than cuBLASLt's best by more than 1 %.",
                  f"The slowest: {told(worst)} (measured at {data.commit(worst['set'])}).", picks, mn_major,
                  "Cause: the cost model has one number for what neighbouring tiles share in L2 ([fitted-widths.md](findings/fitted-widths.md)).")


def many_tokens(data) -> str:
    found = {words: by_tokens(data.rows("packed"), kinds) for words, kinds in TOKENS.items()}
    slow = {words: [(mean, m) for m, ratios in some.items() if (mean := geometric_mean(ratios)) < SLOWER] for words, some in found.items()}
    if not slow["16-bit"]:
        return ""
    from_m = " and ".join(f"from {min(m for _, m in some):g} {kind} tokens on" for kind, some in slow.items() if some)
    worst = min(slow["16-bit"])
    vllm = slower_than_vllm(data)
    return titled("int4 weights with many tokens", f"Slower than FP8 {from_m}, in the mean of known layers. The worst mean is {worst[0]:.2f}, at {worst[1]:g} 16-bit tokens.",
                  vllm and f"Compared with the faster of Marlin and Machete, {vllm}.",
                  "Cause: 4-bit values are converted to the tokens' type before they are multiplied. That takes instructions, and 16-bit tensor cores do half as many "
                  "products per clock as FP8 ones. There int4 saves memory, not time ([few-bit-weights.md](findings/few-bit-weights.md)).")


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
    kinds = {"In 16 bits": [row for row in rows if not is_fp8(row)], "In fp8": [row for row in rows if is_fp8(row)]}
    shares = {kind: floor_shares(part) for kind, part in kinds.items() if part}
    least, most = (pick(row["m"] for row in rows) for pick in (min, max))
    return titled(f"One or two waves of tiles (M {least:g} to {most:g})", f"The slowest: {told(worst)}.",
                  *[f"{kind} sluice reaches {ours:.2f} of the speed that memory or tensor cores allow, cuBLASLt's best {theirs:.2f}." for kind, (ours, theirs) in shares.items()],
                  "Cause: the start and end of a launch and L2 take the rest, and nothing hides them in so few waves ([open-bars.md](findings/open-bars.md)).")


def power_limit(data) -> str:
    rows = [row for row in compared(data.rows("products", ("engine",))) if row["m"] >= 4096]
    worst, clocks = worst_of(rows), [row["sm_mhz"] for row in rows if row["sm_mhz"]]
    if not worst or not clocks:
        return ""
    mean = geometric_mean([ratio(row) for row in rows])
    return titled("Large products", f"From 4096 rows on the mean is {mean:.2f}, the slowest {told(worst)}.",
                  f"SMs ran at {min(clocks):.0f} to {max(clocks):.0f} MHz during the launches.",
                  "Cause: the power limit sets that clock. For either side a kernel gets faster only if it needs fewer joules ([power.md](findings/power.md)).")


def promoted(data) -> str:
    rows = data.rows("products", ("promoted", "block"))
    worst = worst_of(rows)
    if not worst:
        return ""
    fast = {sizes_of(row): row["us"] for row in data.rows("products", ("engine",)) if is_fp8(row) and row["us"]}
    cost = [row["us"] / fast[sizes_of(row)] for row in rows if row["set"] == "promoted" and row["us"] and sizes_of(row) in fast]
    return titled("fp8 with promoted or block-scaled sums", f"The slowest: {told(worst)} ({worst['sums']}).",
                  cost and (f"Promoted sums take {percent(geometric_mean(cost) - 1)} longer than fast sums in the mean of {len(cost)} shapes, "
                            f"{percent(max(cost) - 1)} at worst."),
                  "Cause: partial sums are added to fp32 registers every 128 of k, and no WGMMA is in flight meanwhile. Registers for both kinds of sums limit the "
                  "size of the tile ([promotion.md](findings/promotion.md)).")


def strided(of_gpus: list) -> list[str]:
    """16-bit operands that TMA cannot read, of each GPU that has results."""
    parts = []
    for data in of_gpus:
        rows = compared(data.rows("products", ("strided",)))
        if worst := worst_of(rows):
            slower = sum(ratio(row) < SLOWER for row in rows)
            parts.append(f"{data.gpu()}, at {data.commit('strided')}: {geometric_mean([ratio(row) for row in rows]):.2f} in the mean of {len(rows)}, "
                         f"{slower} of them slower than cuBLASLt's best. The slowest: {told(worst)}.")
    return [titled("16-bit operands that TMA cannot read", "These have a row pitch that is not a multiple of 16 bytes, or a misaligned start.", *parts,
                   "Cause: three warps read such an operand by ordinary loads, and their issue slots are the limit.",
                   "Remedy: padded rows can be three times as fast ([0024](decisions/0024-any-strides.md)).")] if parts else []


def range_of_rows(data) -> str:
    rows = [row for row in data.rows("ranges") if row["mean_loss"] is not None]
    if not rows:
        return ""
    mean, worst = sum(row["mean_loss"] for row in rows) / len(rows), max(rows, key=lambda row: row["worst_loss"])
    most = max(row["kernels"] for row in rows)
    return titled("Few kernels for a range of rows", f"For a range of rows `prepare` makes at most {most:g} kernels. The peer is sluice's own kernel for each number of rows.",
                  f"They take {percent(mean)} longer in the mean of {len(rows)} layers, {percent(worst['worst_loss'])} at worst ({worst['layer']}), by `sluice_lab rows` at "
                  f"{data.commit('rows')}.", "Cause: the planner fits tiles to the number of rows, and so few kernels cannot fit all of them ([0031](decisions/0031-kernels-of-fixed-rows.md)).")


def where_we_lose(data) -> list[str]:
    return [text for make in (without_record, many_tokens, few_waves, power_limit, promoted, range_of_rows) if (text := make(data))]


def page(data, of_gpus: list) -> str:
    """The text of docs/performance-losses.md; "" without losses."""
    parts = [*where_we_lose(data), *strided(of_gpus)]
    words = ("Each section is a kind of product that is slower than its peer, with the worst result and the cause. A figure is the peer's time divided by "
             f"sluice's: below 1, sluice is slower. The peer is cuBLASLt's best unless another is named, and the GPU an {data.gpu()}. Sizes are M x N x K. "
             "Method, words and other results: [performance.md](performance.md).")
    return f"# Where sluice is slower, and why\n\n{wrapped(words)}\n\n" + "\n\n".join(parts) + "\n" if parts else ""


def convolutions(of_gpus: list) -> str:
    """Returns the table of cuDNN's time divided by ours, a line per set."""
    lines = []
    for data in of_gpus:
        for name in dict.fromkeys(row["set"] for row in data.rows("convolutions")):
            rows = data.rows("convolutions", (name,))
            beside = (spread([ratio(row, peer) for row in compared(rows, peer)]) for peer in ("cudnn_us", "cudnn_same_bits_us", "cudnn_first_us"))
            lines.append([short(data.gpu()), name, str(len(rows)), *beside, f"{sum(row['us'] or 0 for row in rows):.0f}", data.commit(f"conv/{name}")])
    header = ["GPU", "set", "layers", "cuDNN's best plan / ours", "its best with equal bits", "its first", "ours, us in all", "commit"]
    return table(header, lines) if lines else "Not measured yet."
