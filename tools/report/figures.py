# SPDX-License-Identifier: Apache-2.0
"""Ratios, means and groups of rows of the CSV tables, and the words and tables that pages make of them."""
import math
import textwrap

SIXTEEN, FP8 = "16 bits", "fp8"
PEER_ARM = "cuBLASLt"


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(" ".join(text.split()), 110, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def listed(*items: str) -> str:
    """A list of Markdown; empty items are left out."""
    return "\n".join(wrapped(f"- {item}", "  ") for item in items if item)


def short(gpu: str) -> str:
    """ "H200" of "NVIDIA H200"."""
    return gpu.split()[1] if len(gpu.split()) > 1 else gpu


def bounds(rows: list[dict], key: str = "m") -> str:
    least, most = (pick(row[key] for row in rows) for pick in (min, max))
    return f"{least:g}-{most:g}" if least != most else f"{least:g}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Returns a Markdown table."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, ["---"] * len(header), *rows])


def spread(ratios: list[float], of: int = 0) -> str:
    """Returns mean, worst, best and number of shapes as text. `of`: the number of shapes that were run, if larger."""
    if not ratios:
        return "-"
    count = f"{len(ratios)} of {of}" if of > len(ratios) else str(len(ratios))
    return f"{geometric_mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}; {count})"


def is_fp8(row: dict) -> bool:
    return row["a"].startswith("e")


def ratio(row: dict, peer: str = "cublaslt_us") -> float:
    """Returns the peer's time divided by ours; above 1, ours is faster. Both must exist (compared())."""
    return row[peer] / row["us"]


def compared(rows: list[dict], peer: str = "cublaslt_us") -> list[dict]:
    return [row for row in rows if row.get(peer) and row.get("us")]


def sizes_of(row: dict) -> str:
    return " x ".join(f"{row[key]:g}" for key in ("m", "n", "k"))


def name_of(row: dict) -> str:
    layouts = f" {row['layouts']}-major" if row["layouts"] != "k/k" else ""
    return sizes_of(row) + layouts + (f" {row['epilogue']}" if row["epilogue"] else "")


# Types of tokens that are told together.
TOKENS = {"16-bit": ("fp16", "bf16"), "e4m3": ("e4m3",)}


def by_tokens(rows: list[dict], kinds: tuple[str, ...]) -> dict[float, list[float]]:
    """Ratios of packed products with these types of tokens, by number of tokens."""
    found: dict[float, list[float]] = {}
    for row in compared(rows, "fp8_us"):
        if row["tokens"] in kinds:
            found.setdefault(row["m"], []).append(ratio(row, "fp8_us"))
    return dict(sorted(found.items()))


def newest_chains(rows: list[dict]) -> list[dict]:
    """Returns the rows of whole fp8 layers of a model, without idle windows and the short chains of replays.
    All variants of a layer come from one file, the newest one with the peer, because only variants of one run
    are timed in turn."""
    whole = [row for row in rows if row["us_a_layer"] and row["weights"] == row["activations"] == "e4m3" and not row["projections"]
             and row["window_us"] is None and row["passes"] != 1]
    newest: dict[str, tuple[str, str]] = {}
    for row in whole:
        if row["arm"] == PEER_ARM:
            newest[row["layer"]] = max(newest.get(row["layer"], ("", "")), (str(row["started"]), row["file"]))
    return [row for row in whole if newest.get(row["layer"], ("", ""))[1] == row["file"]]


def layers(chains: list[dict], model: str | None = None) -> dict[float, dict[str, dict]]:
    """Returns number of tokens -> variants by name, for one model or all."""
    found: dict[float, dict[str, dict]] = {}
    for row in sorted((row for row in chains if row["model"] == model), key=lambda row: row["tokens"]):
        found.setdefault(row["tokens"], {})[row["arm"]] = row
    return found


def losses(rows: list[dict]) -> list[float]:
    """Returns the times of the model's picks divided by the fastest measured times."""
    return [row["us"] / min(row["us"], row["tuned_us"]) for row in rows if row["planned_by"] == "model" and row["us"] and row["tuned_us"]]


def floor_shares(rows: list[dict]) -> tuple[float, float]:
    """Returns the means of the floor's time divided by ours, and by the peer's."""
    return tuple(geometric_mean([row["floor_us"] / row[key] for row in rows]) for key in ("us", "cublaslt_us"))
