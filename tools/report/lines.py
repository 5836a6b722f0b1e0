# SPDX-License-Identifier: Apache-2.0
"""Lines of the tables of speed. A line is a kind of work compared with a peer, with a cell per GPU and type. Pages show
all lines; README shows headlines. unshown() names a set without a line, and a feature whose worst result README
leaves out.
"""
import dataclasses
from typing import Callable

from report.figures import FP8, PEER_ARM, SIXTEEN, bounds, compared, is_fp8, layers, newest_chains, ratio, short, spread, table
from report.records import is_drawn

MANY = 256  # from this number of tokens on, int4 layers of known models share a line
APART = ("row", "strided", "sweep")  # sets that have lines of their own
FUSED = ", fused: gated"
RECORD, MODEL = "tuning record", "model"
PAGE_ONLY = ("packed, 16 bits", "block")  # features without a headline


@dataclasses.dataclass
class Cell:
    """The ratios of one GPU and type. `of`: the number of shapes that were run. `note` stands for the spread of a
    single ratio."""
    ratios: list[float]
    of: int = 0
    note: str = ""

    def text(self) -> str:
        return f"{self.ratios[0]:.2f} ({self.note})" if self.note and self.ratios else spread(self.ratios, self.of)


@dataclasses.dataclass
class Kind:
    """How rows become ratios. `type`: a row's column. `value`: its ratio; None if a time is missing. `file`: its record.
    `by`: how plans were made; "": the rows say it."""
    feature: str
    peer: str
    type: Callable[[dict], str]
    value: Callable[[dict], float | None]
    file: Callable[[dict], str]
    by: str = ""


@dataclasses.dataclass
class Line:
    kind: Kind
    words: str
    headline: bool
    cells: dict[tuple[str, str], Cell]
    by: str
    sets: set[str]
    commits: str


def beside(peer: str) -> Callable[[dict], float | None]:
    """The ratio of a row beside this peer, if both have a time."""
    return lambda row: ratio(row, peer) if row.get(peer) and row["us"] else None


def ratio_in(row: dict) -> float:
    return row["ratio"]


DENSE = Kind("dense", "cuBLASLt's best", lambda row: FP8 if is_fp8(row) else SIXTEEN, beside("cublaslt_us"), lambda row: row["set"])
STRIDED = dataclasses.replace(DENSE, feature="strided")
ROW = Kind("row", "the faster of cuBLASLt and torch", lambda row: FP8, ratio_in, lambda row: "row")
PACKED = Kind("packed", "FP8", lambda row: FP8 if row["tokens"] == "e4m3" else SIXTEEN, beside("fp8_us"), lambda row: f"packed/{row['set']}")
PACKED_16 = dataclasses.replace(PACKED, feature="packed, 16 bits", peer="cuBLASLt in 16 bits", value=beside("bits16_us"))
VLLM = Kind("vllm", "the faster of Marlin and Machete", lambda row: SIXTEEN, beside("peer_us"), lambda row: "peers/int4")
CHAIN = Kind("chains", "cuBLASLt", lambda row: FP8, ratio_in, lambda row: f"chains/{row['file']}", RECORD)
DRAWN = dataclasses.replace(CHAIN, file=lambda row: f"untuned/{row['file']}", by=MODEL)
BLOCK = Kind("block", "`torch._scaled_mm`", lambda row: FP8, ratio_in, lambda row: f"python/{row['file']}", MODEL)


def planned_by(rows: list[dict]) -> str:
    by_record = sum(row["planned_by"] == "record" for row in rows)
    return RECORD if by_record == len(rows) else MODEL if by_record == 0 else f"{RECORD} ({by_record} of {len(rows)})"


def line(of_gpus: list, kind: Kind, words: str, pick: Callable[[object], list[dict]], headline: bool = True) -> Line | None:
    """A line of the rows that `pick` takes of each GPU; None without any ratio. `words`: {m} stands for the rows' M or
    tokens."""
    cells, every, sets, commits = {}, [], set(), set()
    for data in of_gpus:
        rows = pick(data)
        every += rows
        sets |= {row["set"] for row in rows if "set" in row}
        commits |= {data.commit(kind.file(row)) for row in rows}
        for column in (SIXTEEN, FP8):
            part = [row for row in rows if kind.type(row) == column]
            if ratios := [value for row in part if (value := kind.value(row))]:
                cells[short(data.gpu()), column] = Cell(ratios, len(part), part[0].get("note", ""))
    if not cells:
        return None
    words = words.format(m=bounds(every, "m" if "m" in every[0] else "tokens"))
    return Line(kind, words, headline, cells, kind.by or planned_by(every), sets, ", ".join(sorted(commits)))


def of_sets(*names: str) -> Callable[[object], list[dict]]:
    return lambda data: data.rows("products", names)


def within(rows: list[dict], least: int, most: int) -> list[dict]:
    return [row for row in rows if least <= row["m"] <= most]


def row_ratios(data) -> list[dict]:
    """fp8 with row scales and promoted sums: each row of the set, with the ratio beside the faster of cuBLASLt's product
    and torch's. Each peer is compared with the time of ours in its own run."""
    torch = {(row["m"], row["n"], row["k"]): row["torch_us"] / row["us"] for row in data.rows("row_torch") if row["torch_us"] and row["us"]}
    found = []
    for row in data.rows("products", ("row",)):
        ratios = [torch[size]] if (size := (row["m"], row["n"], row["k"])) in torch else []
        ratios += [ratio(row)] if compared([row]) else []
        found += [row | {"ratio": min(ratios)}] if ratios else []
    return found


def dense_lines(of_gpus: list) -> list[Line | None]:
    untuned = {row["set"] for data in of_gpus for row in data.rows("products") if row["planned_by"] == "model"} - {*APART}
    return [line(of_gpus, DENSE, "large products, M {m}", of_sets("engine")),
            line(of_gpus, DENSE, "medium products, M {m}", of_sets("tokens")),
            line(of_gpus, DENSE, "decoding, M {m}", of_sets("decode")),
            line(of_gpus, DENSE, "few rows, N x K = 4096 x 4096, M {m}", of_sets("sweep"), headline=False),
            line(of_gpus, DENSE, "long k, small D, M {m}", of_sets("long_k"), headline=False),
            line(of_gpus, DENSE, "fp8, promoted, M {m}", of_sets("promoted"), headline=False),
            line(of_gpus, DENSE, "fp8, block scales, M {m}", of_sets("block"), headline=False),
            *(line(of_gpus, ROW, "fp8 as `convert_` runs it (row scales, promoted sums), M {m}",
                   lambda data, least=least, most=most: within(row_ratios(data), least, most)) for least, most in ((1, 64), (65, 512), (513, 1 << 20))),
            line(of_gpus, DENSE, "random, M {m}", of_sets("blind"), headline=False),
            line(of_gpus, DENSE, "shapes without a tuning record, M {m}", of_sets(*untuned)) if untuned else None,
            line(of_gpus, STRIDED, "16 bits, strides that TMA cannot read, M {m}", of_sets("strided"))]


def int4_lines(of_gpus: list) -> list[Line | None]:
    """Lines of known layers, one per number of tokens, of MXFP4, and of random products, one per range."""
    def known(data) -> list[dict]:  # the set of MXFP4 has int4 beside it, in groups of 32
        return [row for row in data.rows("packed") if row["set"] != "mxfp4"]

    tokens = sorted({row["m"] for data in of_gpus for row in known(data)})
    parts = [(m, m) for m in tokens if m < MANY] + ([(MANY, tokens[-1])] if tokens and tokens[-1] >= MANY else [])
    found = [line(of_gpus, PACKED, f"int4, known layers, {{m}} token{'s' * (most > 1)}", lambda data, least=least, most=most: within(known(data), least, most),
                  headline=least in (1, 16, MANY)) for least, most in parts]
    found.append(line(of_gpus, PACKED_16, "int4, known layers, {m} tokens", known, headline=False))
    found.append(line(of_gpus, PACKED, "MXFP4, layers of gpt-oss and others, {m} tokens", lambda data: [row for row in data.rows("packed") if row["weights"] == "e2m1"]))
    found += [line(of_gpus, PACKED, "int4, random products, {m} tokens", lambda data, least=least, most=most: within(data.rows("packed_blind"), least, most),
                   headline=least != 33) for least, most in ((1, 32), (33, 128), (129, 1 << 20))]

    def peers(both: bool) -> Callable[[object], list[dict]]:
        return lambda data: [row for row in compared(data.rows("int4_peers"), "peer_us") if is_drawn(row["set"]) and bool(row["marlin_us"] and row["machete_us"]) == both]
    alone = "Marlin" if all(row["marlin_us"] for data in of_gpus for row in peers(False)(data)) else "Marlin or Machete"
    one = dataclasses.replace(VLLM, peer=f"{alone} (the other does not run)")
    return [*found, line(of_gpus, VLLM, "int4, random products, {m} tokens", peers(True)), line(of_gpus, one, "int4, random products, {m} tokens", peers(False))]


def chain_rows(rows: list[dict], arm: str) -> list[dict]:
    """The layers that have both this arm and the peer's, with the ratio."""
    every = [arms for model in dict.fromkeys(row["model"] for row in rows) for arms in layers(rows, model).values()]
    return [arms[arm] | {"ratio": arms[PEER_ARM]["us_a_layer"] / arms[arm]["us_a_layer"]} for arms in every if PEER_ARM in arms and arm in arms]


# Arms of bench/decode/arms.py (bench/results/GPU/python/decode_arms*.json), and PyTorch's counterparts of each, of which the faster counts.
DECODING = (("a chain, row scales", "chain_row_tuned", "`_scaled_mm`, row scales", ("fp8_row", "fp8_row_pdl"), FP8),
            ("a chain, static scales", "chain_tensor_tuned", "`_scaled_mm`, static scales", ("fp8_static", "fp8_static_pdl"), FP8),
            ("a chain, int4", "chain_int4_tuned", "tinygemm int4", ("int4_tinygemm",), SIXTEEN),
            ("torchao's rows under `st.override()`", "override_torchao", "torchao's rows", ("torchao_row",), FP8))


def decoding_rows(data, arm: str, others: tuple[str, ...]) -> list[dict]:
    """Decoding by an arm, of all models, batches and contexts that have a time of compiled PyTorch, too."""
    def of(row: dict) -> tuple:
        return row["model"], row["batch"], row["context"]
    rows = data.rows("decoding")
    peers = [(of(row), row["tokens_s"]) for row in rows if row["arm"] in others]
    found = []
    for row in (row for row in rows if row["arm"] == arm):
        if rates := [rate for where, rate in peers if where == of(row)]:
            found.append(row | {"ratio": row["tokens_s"] / max(rates), "tokens": row["batch"]})
    return found


def layer_lines(of_gpus: list) -> list[Line | None]:
    def drawn(data) -> list[dict]:
        return [row for row in data.rows("drawn_chains") if row["us_a_layer"]]
    guarded = dataclasses.replace(DRAWN, by=f"{MODEL}, then timed for 0.2 s")
    found = [line(of_gpus, CHAIN, "a layer as a chain, {m} tokens", lambda data: chain_rows(newest_chains(data.rows("chains")), "tuned"), headline=False),
             line(of_gpus, CHAIN, "a layer as a chain, fused, {m} tokens", lambda data: chain_rows(newest_chains(data.rows("chains")), "tuned" + FUSED)),
             line(of_gpus, DRAWN, "a layer of a random model as a chain, fused, {m} tokens", lambda data: chain_rows(drawn(data), "tuned" + FUSED)),
             line(of_gpus, guarded, "the same with `Chain::guarded`, {m} tokens", lambda data: chain_rows(drawn(data), "guarded" + FUSED))]
    for words, arm, peer, others, column in DECODING:
        kind = Kind("decoding", f"torch.compile, {peer}", lambda row, column=column: column, ratio_in, lambda row: "python/decode_arms", MODEL)
        found.append(line(of_gpus, kind, f"decoding, {words}, {{m}} sequences", lambda data, arm=arm, others=others: decoding_rows(data, arm, others)))
    blocks = [row | {"ratio": row["torch_us"] / row["sluice_us"], "gpu": data} for data in of_gpus for row in data.rows("blocks")]
    return found + [line(of_gpus, BLOCK, f"a Llama 3 8B block, {m:g} token{'s' * (m > 1)}",
                         lambda data, m=m: [row for row in blocks if row["gpu"] is data and row["tokens"] == m], headline=False)
                    for m in dict.fromkeys(row["tokens"] for row in blocks)]


def lines_of(of_gpus: list) -> list[Line]:
    """Returns all lines. `of_gpus`: records.Data of each GPU; the one that pages show comes first."""
    return [one for one in (*dense_lines(of_gpus), *int4_lines(of_gpus), *layer_lines(of_gpus)) if one]


def table_of(of_gpus: list, lines: list[Line], commits: bool = True) -> str:
    """The one table of speed; "" without lines. `commits`: with the commits that were measured."""
    columns = [(gpu, kind) for gpu in dict.fromkeys(short(data.gpu()) for data in of_gpus) for kind in (SIXTEEN, FP8)]
    columns = [column for column in columns if any(column in one.cells for one in lines)]
    rows = [[one.words, one.kind.peer, *(one.cells[column].text() if column in one.cells else "-" for column in columns), one.by] +
            ([one.commits] if commits else []) for one in lines]
    return table(["what", "peer", *(f"{gpu}, {kind}" for gpu, kind in columns), "plan by"] + (["measured at"] if commits else []), rows) if rows else ""


def unshown(of_gpus: list) -> list[str]:
    """Returns the sets without a line, and the features whose worst result README does not show."""
    lines = lines_of(of_gpus)
    sets = {row["set"] for data in of_gpus for row in compared(data.rows("products"))} - {name for one in lines for name in one.sets}
    faults = [f"{name} has no line: give it one in tools/report/lines.py" for name in sorted(sets)]
    worst: dict[tuple[bool, str, str], float] = {}
    for one in lines:
        for (_, column), cell in one.cells.items():
            for key in {(one.headline, one.kind.feature, column), (False, one.kind.feature, column)}:
                worst[key] = min(worst.get(key, float("inf")), *cell.ratios)
    for (headline, feature, column), value in worst.items():
        shown = worst.get((True, feature, column), float("inf"))
        if not headline and feature not in PAGE_ONLY and value < shown - 0.005:
            faults.append(f"README shows nothing worse than {shown:.2f} of {feature}, {column}, and docs/performance.md has {value:.2f}: make that line a headline")
    return faults
