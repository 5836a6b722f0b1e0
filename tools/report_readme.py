# SPDX-License-Identifier: Apache-2.0
"""The tables of speed in README, and its sentences on why one would use the library. A line is a feature compared with
a peer, with a cell per GPU and type. `unshown` names each recorded result that is worse than what the table shows
of its feature, so that no page praises a feature and leaves its losses out. Used by report.py.
"""
import dataclasses

from report_figures import PEER_ARM, bounds, chain_ratios, compared, geometric_mean, is_fp8, layers, newest_chains, ratio, short, spread, table, wrapped
from report_records import is_drawn

MANY = 256  # from this number of tokens on, int4 layers of known models share a line
RANGES = ((1, 32), (33, 128), (129, 1 << 20))  # ranges of tokens of random int4 products
FEW = 64  # rows of a decoding step
APART = ("row", "strided", "sweep")  # sets that have lines of their own, or only a picture
SIXTEEN, FP8 = "16", "fp8"
FUSED = ", fused: gated"
RECORD, MODEL = "tuning record", "model"
# Tables of README: the features, the words in front, and the types in the heads of columns.
TABLES = ((("dense", "row", "strided"), "**Dense products.** M is the number of rows of A and D.", ("bf16, fp16", "fp8")),
          (("packed", "vllm"), "**int4 weights.** Tokens are the rows of the activations. \"FP8\" is the product of the same size with fp8 operands: the faster of "
           "cuBLASLt's best and sluice's own. Marlin and Machete are vLLM's kernels. Known layers are those of published models; random products have random sizes.",
           ("16-bit tokens", "e4m3 tokens")),
          (("chains", "decoding"), "**Layers and models.** A chain is one transformer layer whose launches overlap: each loads weights before the previous one has "
           "ended. Its peer is cuBLASLt with the same norms and quantisers, in one CUDA graph. \"Fused\": SwiGLU and quantisers are part of the products. Random models "
           "have random sizes. Decoding is one sequence of a whole model without a chain; the figures in brackets are tokens per second.", ("16 bits", "fp8")))


@dataclasses.dataclass
class Cell:
    """The ratios of one GPU and type. `of`: the number of shapes that were run."""
    ratios: list[float]
    of: int = 0
    note: str = ""

    def text(self) -> str:
        """`note` stands for the spread of a single ratio."""
        if self.note and self.ratios:
            return f"{self.ratios[0]:.2f} ({self.note})"
        return spread(self.ratios, self.of) if self.ratios else "-"


@dataclasses.dataclass
class Line:
    """A line of the table. `feature` groups lines and recorded results; `cells` are by GPU and type."""
    feature: str
    words: str
    peer: str
    cells: dict[tuple[str, str], Cell]
    by: str

    def any(self) -> bool:
        return any(cell.ratios for cell in self.cells.values())


def planned_by(rows: list[dict]) -> str:
    by_record = sum(row["planned_by"] == "record" for row in rows)
    return RECORD if by_record == len(rows) else MODEL if by_record == 0 else f"{RECORD} ({by_record} of {len(rows)})"


def by_gpu(of_gpus: list, pick) -> dict[str, list[dict]]:
    """Returns the rows of each GPU that has some."""
    return {short(data.gpu()): rows for data in of_gpus if (rows := pick(data))}


def line_of(of_gpus: list, feature: str, words, peer: str, pick, kind, value) -> Line | None:
    """A line of the rows that `pick` takes of each GPU; None without any. `words`: text, or a function of all rows. `kind`:
    a row's type, for its column. `value`: a row's ratio, or None if a time is missing."""
    found = by_gpu(of_gpus, pick)
    every = [row for rows in found.values() for row in rows]
    cells = {}
    for gpu, rows in found.items():
        for column in (SIXTEEN, FP8):
            part = [row for row in rows if kind(row) == column]
            cells[gpu, column] = Cell([ratio for row in part if (ratio := value(row))], len(part))
    return Line(feature, words if isinstance(words, str) else words(every), peer, cells, planned_by(every)) if every else None


def beside(peer: str):
    """The ratio of a row beside this peer, if both have a time."""
    return lambda row: ratio(row, peer) if row.get(peer) and row["us"] else None


def dense_line(of_gpus: list, feature: str, words: str, pick) -> Line | None:
    return line_of(of_gpus, feature, lambda every: f"{words}, M {bounds(every)}", "cuBLASLt's best", pick,
                   lambda row: FP8 if is_fp8(row) else SIXTEEN, beside("cublaslt_us"))


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


def row_lines(of_gpus: list) -> list[Line | None]:
    """Returns the lines for fp8 as README's Python and convert_ run it, one line per range of M."""
    return [line_of(of_gpus, "row", lambda every: f"fp8 as `convert_` runs it (row scales, promoted sums), M {bounds(every)}",
                    "the faster of cuBLASLt and torch", lambda data, least=least, most=most: within(row_ratios(data), least, most),
                    lambda row: FP8, lambda row: row["ratio"]) for least, most in ((1, FEW), (FEW + 1, 512), (513, 1 << 20))]


def packed_line(of_gpus: list, words: str, pick) -> Line | None:
    return line_of(of_gpus, "packed", words, "FP8", pick, lambda row: FP8 if row["tokens"] == "e4m3" else SIXTEEN, beside("fp8_us"))


def within(rows: list[dict], least: int, most: int) -> list[dict]:
    return [row for row in rows if least <= row["m"] <= most]


def packed_lines(of_gpus: list) -> list[Line | None]:
    """Returns the lines of known layers, one per number of tokens, and of random products, one per range."""
    every = sorted({row["m"] for data in of_gpus for row in data.rows("packed")})
    parts = [(m, m) for m in every if m < MANY] + ([(MANY, every[-1])] if every and every[-1] >= MANY else [])
    lines = [packed_line(of_gpus, f"known layers, {f'{least:g}' if least == most else f'{least:g}-{most:g}'} token{'s' * (most > 1)}",
                         lambda data, least=least, most=most: within(data.rows("packed"), least, most)) for least, most in parts]
    drawn = [row["m"] for data in of_gpus for row in data.rows("packed_blind")]
    return lines + [packed_line(of_gpus, f"random products, {least}-{min(most, max(drawn)):g} tokens",
                                lambda data, least=least, most=most: within(data.rows("packed_blind"), least, most))
                    for least, most in RANGES if any(least <= m <= most for m in drawn)]


def vllm_lines(of_gpus: list) -> list[Line | None]:
    """Random int4 products beside Marlin and Machete: where both ran, and where one of them did."""
    def words(every: list[dict]) -> str:
        groups = sorted({row["group"] for row in every})
        return f"random products{f', group {groups[0]:g}' if len(groups) == 1 else ''}, {bounds(every)} tokens"

    def line(both: bool) -> Line | None:
        def pick(data) -> list[dict]:
            return [row for row in compared(data.rows("int4_peers"), "peer_us") if is_drawn(row["set"]) and bool(row["marlin_us"] and row["machete_us"]) == both]
        alone = "Marlin" if all(row["marlin_us"] for data in of_gpus for row in pick(data)) else "Marlin or Machete"
        return line_of(of_gpus, "vllm", words, "the faster of Marlin and Machete" if both else f"{alone} (the other does not run)", pick,
                       lambda row: SIXTEEN, beside("peer_us"))
    return [line(True), line(False)]


def chain_lines(of_gpus: list) -> list[Line]:
    """Returns the lines of layers of known models with records, then of random models without records,
    planned and guarded."""
    lines = []
    for words, table_of, arm, by in (("a layer as a chain", "chains", "tuned", RECORD), ("a layer as a chain, fused", "chains", "tuned" + FUSED, RECORD),
                                     ("a layer of a random model as a chain, fused", "drawn_chains", "tuned" + FUSED, MODEL),
                                     ("the same with `Chain::guarded`", "drawn_chains", "guarded" + FUSED, f"{MODEL}, then timed for 0.2 s")):
        def pick(data, table_of=table_of):
            rows = [row for row in data.rows(table_of) if row["us_a_layer"]]
            return newest_chains(rows) if table_of == "chains" else rows
        found = {gpu: ratios for gpu, rows in by_gpu(of_gpus, pick).items() if (ratios := chain_ratios(rows, arm))}
        every = [row for data in of_gpus for row in pick(data)]
        if found:
            lines.append(Line("chains", f"{words}, {bounds(every, 'tokens')} tokens", "cuBLASLt", {(gpu, FP8): Cell(ratios) for gpu, ratios in found.items()}, by))
    return lines


# Variants of a decoding loop (bench/results/GPU/python/decode.json), and PyTorch's counterpart of each.
DECODING = (("`convert_(\"row\")`", "sluice_row", "`_scaled_mm`, row scales", "fp8_row", FP8),
            ("`st` functions, static scales", "sluice_ops_static", "`_scaled_mm`, static scales", "fp8_static", FP8),
            ("`st` functions, int4", "sluice_ops_int4", "tinygemm int4", "int4_tinygemm", SIXTEEN))


def decoding_lines(of_gpus: list) -> list[Line]:
    """Returns the lines of a whole model's decoding without a chain: tokens per second of one sequence,
    compared with compiled PyTorch."""
    lines = []
    for words, arm, peer, other, kind in DECODING:
        cells, model = {}, ""
        for data in of_gpus:
            rows = [row for row in data.rows("decoding") if row["batch"] == 1]
            first = next((row for row in rows if row["arm"] == arm), None)
            beside = first and next((row for row in rows if row["arm"] == other and (row["model"], row["context"]) == (first["model"], first["context"])), None)
            if beside:
                model = first["model"]
                cells[short(data.gpu()), kind] = Cell([first["tokens_s"] / beside["tokens_s"]], note=f"{first['tokens_s']:.0f} against {beside['tokens_s']:.0f}")
        if cells:
            lines.append(Line(f"decoding {arm}", f"decoding {model}, {words}", f"torch.compile, {peer}", cells, MODEL))
    return lines


def lines_of(of_gpus: list) -> list[Line]:
    """Returns all lines. `of_gpus`: report.Data of each GPU; the one that pages show comes first."""
    untuned = {row["set"] for data in of_gpus for row in data.rows("products") if row["planned_by"] == "model"} - {*APART}
    lines = [dense_line(of_gpus, "dense", words, lambda data, sets=sets: data.rows("products", sets))
             for words, sets in (("large products", ("engine",)), ("medium products", ("tokens",)), ("decoding", ("decode",)))]
    lines += row_lines(of_gpus)
    lines += [dense_line(of_gpus, "dense", "shapes without a tuning record", lambda data: [row for row in data.rows("products") if row["set"] in untuned]),
              dense_line(of_gpus, "strided", "16 bits, strides that TMA cannot read", lambda data: data.rows("products", ("strided",)))]
    lines += [*packed_lines(of_gpus), *vllm_lines(of_gpus), *chain_lines(of_gpus), *decoding_lines(of_gpus)]
    return [line for line in lines if line and line.any()]


def speed_table(of_gpus: list) -> str:
    """Returns README's tables, each with the sentences in front of it."""
    lines, parts = lines_of(of_gpus), []
    for features, words, kinds in TABLES:
        some = [line for line in lines if line.feature.split()[0] in features]
        columns = list(dict.fromkeys((short(data.gpu()), kind) for data in of_gpus for kind in (SIXTEEN, FP8)))
        columns = [column for column in columns if any(column in line.cells and line.cells[column].ratios for line in some)]
        names = [f"{gpu}, {kinds[kind == FP8]}" for gpu, kind in columns]
        rows = [[line.words, line.peer, *(line.cells[column].text() if column in line.cells else "-" for column in columns), line.by] for line in some]
        parts += [f"{wrapped(words)}\n\n{table(['products' if features != TABLES[2][0] else 'what', 'peer', *names, 'plan by'], rows)}"] if some else []
    return "\n\n".join(parts)


def recorded(of_gpus: list) -> dict[tuple[str, str], list[tuple[float, str]]]:
    """Returns every recorded ratio and its set, by feature and type."""
    found: dict[tuple[str, str], list[tuple[float, str]]] = {}

    def add(feature: str, kind: str, value: float, where: str) -> None:
        found.setdefault((feature, kind), []).append((value, where))

    for data in of_gpus:
        gpu = short(data.gpu())
        for row in compared([row for row in data.rows("products") if row["set"] != "row"]):
            add("strided" if row["set"] == "strided" else "dense", FP8 if is_fp8(row) else SIXTEEN, ratio(row), f"{gpu}, {row['set']}")
        for row in row_ratios(data):
            add("row", FP8, row["ratio"], f"{gpu}, row")
        for row in compared([*data.rows("packed"), *data.rows("packed_blind")], "fp8_us"):
            add("packed", FP8 if row["tokens"] == "e4m3" else SIXTEEN, ratio(row, "fp8_us"), f"{gpu}, {row['set']}")
        for row in compared(data.rows("int4_peers"), "peer_us"):
            add("vllm", SIXTEEN, ratio(row, "peer_us"), f"{gpu}, {row['set']}")
        for rows in (newest_chains(data.rows("chains")), [row for row in data.rows("drawn_chains") if row["us_a_layer"]]):
            for model in dict.fromkeys(row["model"] for row in rows):
                for arms in layers(rows, model).values():
                    for arm in ("tuned", "tuned" + FUSED, "guarded" + FUSED):
                        if arm in arms and PEER_ARM in arms:
                            add("chains", FP8, arms[PEER_ARM]["us_a_layer"] / arms[arm]["us_a_layer"], f"{gpu}, {arms[arm]['file']}")
    return found


def unshown(of_gpus: list) -> list[str]:
    """Returns the sets that have a result worse than the worst that the table shows of its feature."""
    shown: dict[tuple[str, str], float] = {}
    for line in lines_of(of_gpus):
        for (_, kind), cell in line.cells.items():
            if cell.ratios:
                shown[line.feature, kind] = min(shown.get((line.feature, kind), cell.ratios[0]), *cell.ratios)
    faults = []
    for (feature, kind), values in recorded(of_gpus).items():
        value, where = min(values)
        if value < shown.get((feature, kind), float("inf")) - 0.005:
            faults.append(f"README shows nothing worse than {shown.get((feature, kind), float('nan')):.2f} of {feature}, {kind}, and {where} has {value:.2f}: "
                          "give the set a line in tools/report_readme.py")
    return faults


def mean_of(lines: list[Line], start: str, kind: str) -> float | None:
    """Returns the mean of the first line whose text starts with `start`, on the first GPU that has it."""
    for line in lines:
        if line.words.startswith(start):
            for (_, one), cell in line.cells.items():
                if one == kind and cell.ratios:
                    return geometric_mean(cell.ratios)
    return None


def why(of_gpus: list) -> str:
    """Returns the list under README's formula, with the tables' figures; a line without a figure is left out."""
    lines = lines_of(of_gpus)
    few, row, large = (mean_of(lines, start, kind) for start, kind in (("decoding, M", SIXTEEN), ("fp8 as `convert_`", FP8), ("large products", SIXTEEN)))
    vllm = next((line for line in lines if line.feature == "vllm"), None)
    parts = []
    if few:
        parts.append(f"Products of 1 to {FEW} rows (decoding) in 16 bits: {few:.2f} times as fast as cuBLASLt's best.")
    if row:
        parts.append(f"The same in fp8 with row scales: {row:.2f} times as fast as the faster of cuBLASLt and PyTorch.")
    if vllm:
        parts.append(f"int4 weights: {geometric_mean(next(iter(vllm.cells.values())).ratios):.2f} times as fast as {vllm.peer}.")
    if large:
        parts.append(f"Large products: as fast as cuBLASLt's best ({large:.2f}).")
    if not parts:
        return ""
    return (f"**Why**, measured on an {short(of_gpus[0].gpu())} (means of the tables below):\n" + "\n".join(f"- {part}" for part in parts) +
            "\n\nA new shape costs about half a second of compiling, once, not a build with CUTLASS. One library has bf16, fp8,\n"
            "int4 and their epilogues, for Python, C++ and C.")
