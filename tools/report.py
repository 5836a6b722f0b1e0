#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes everything that comes from bench/results: CSV files beside the records, with a line a shape;
docs/performance.md; pictures (the timeline is for docs/chains.md); blocks of README.md and docs/testing.md.

    tools/report.py              writes all of that (`make report`)
    tools/report.py --check      names pages and tables that differ from the records or the kernels
    tools/report.py --self-test  makes pages from made-up records, with wrong results and claims

No measured number is typed by hand, and a claim is made only if the rows show it. Claims of correctness come
from certificates (report_certificates.py).
"""
import argparse
import fnmatch
import pathlib
import re
import statistics
import sys
import textwrap

import report_certificates
import report_convolutions
import report_losses
import report_pictures
import report_readme
import source_hash
from report_figures import (ARMS, by_tokens, chain_ratios, compared, geometric_mean, is_fp8, name_of, newest_chains, ratio, spread, table)
from report_records import NO_COMMIT, ROOT, CountedAt, age_words, counted_at, first_look, git, parsed, texts_of

SHOWN = "h200"  # the GPU that pages show; other GPUs have only tables
WIDTH = 110
COUNTED = re.compile(r"[Cc]ounted\s+at\s+([0-9a-f]{7})\b")
MARKS = {name: (f"<!-- {name}: made by `make report` -->", f"<!-- end of {name} -->") for name in ("speed", "why")}
# Rows of README's table, each with the sets of problems whose results it shows.
DENSE = (("large products", ("engine",)), ("medium products", ("tokens",)), ("decoding", ("decode",)), ("long sums", ("long_k",)),
         ("fp8, promoted sums", ("promoted",)), ("fp8, row scales, promoted sums", ("row",)), ("fp8, block scales", ("block",)), ("random", ("blind",)),
         ("seen", ("odd_rows", "epilogues", "layouts", "unseen")))
PICTURES = {"dense": ("products", lambda rows: report_pictures.dense(compared(rows))), "packed": ("packed", report_pictures.packed),
            "chains": ("chains", report_pictures.chains), "timeline": ("timelines", report_pictures.timeline)}


class Data:
    """The tables of one GPU, read from the text of its CSV files."""

    def __init__(self, texts: dict[str, str]):
        self.tables = {name: parsed(text) for name, text in texts.items()}

    def rows(self, table: str, sets: tuple[str, ...] = ()) -> list[dict]:
        return [row for row in self.tables.get(table, []) if not sets or row["set"] in sets]

    def commit(self, file: str) -> str:
        return next((row["commit"] for row in self.rows("files") if row["file"] == f"{file}.json"), NO_COMMIT)

    def gpu(self) -> str:
        return next((row["gpu"] for row in self.rows("files") if row["gpu"]), "a GPU that is not recorded")

    def shown_files(self) -> dict[str, str]:
        """Returns the records that tables and pictures show, with their commits."""
        names = [row["set"] for row in self.rows("products")] + [f"packed/{row['set']}" for row in (*self.rows("packed"), *self.rows("packed_blind"))]
        names += [f"chains/{row['file']}" for row in newest_chains(self.rows("chains"))]
        names += ["peers/int4"] if self.rows("int4_peers") else []
        return {name: self.commit(name) for name in dict.fromkeys(names)}


def wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(" ".join(text.split()), WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def dense_cell(rows: list[dict], fp8: bool) -> str:
    part = [row for row in rows if is_fp8(row) == fp8]
    return spread([ratio(row) for row in compared(part)], len(part))


def rows_of_m(rows: list[dict]) -> str:
    least, most = (pick(row["m"] for row in rows) for pick in (min, max))
    return f"M {least:g}-{most:g}" if least != most else f"M {least:g}"


def commits(data: Data, files: list[str]) -> str:
    return ", ".join(sorted({data.commit(file) for file in files}))


def dense_row(data: Data, words: str, sets: tuple[str, ...]) -> list[str] | None:
    rows = data.rows("products", sets)
    if sets == ("blind",):
        words += ", first look" if first_look(data.commit("blind")) else ", seen"
    return rows and [f"{words}, {rows_of_m(rows)}", dense_cell(rows, False), dense_cell(rows, True), report_readme.planned_by(rows),
                     commits(data, [row["set"] for row in rows])]


def measured(of_gpus: list[Data]) -> str:
    """Returns the GPUs and days of the records shown, for README."""
    parts = []
    for data in of_gpus:
        shown = set(data.shown_files().values()) | {row["commit"] for row in data.rows("files") if row["file"].startswith(("untuned/", "strided"))}
        days = sorted({(row["started"] or "day not recorded")[:10] for row in data.rows("files") if row["commit"] in shown})
        if days:
            parts.append(f"{data.gpu()}, {days[0] if len(days) == 1 else f'from {days[0]} to {days[-1]}'}")
    return f"Measured on {'; '.join(parts)}." if parts else ""


def sums_note(of_gpus: list[Data]) -> str:
    """Returns a sentence that tells which accumulation mode (fast or promoted) README's fp8 figures use."""
    mixed = {row["sums"] for data in of_gpus for row in data.rows("products") if row["planned_by"] == "model" and is_fp8(row)} - {"fast"}
    text = "fp8 of large, medium and decoding products: fast sums, no scales" + (f"; without a record: also {' and '.join(sorted(mixed))}" if mixed else "")
    return text + ("." if any(data.rows("products", ("row",)) for data in of_gpus) else ". fp8 as `convert_` runs it has no record yet.")


def ages(data: Data) -> str:
    """Returns a sentence with the records' ages, in commits before this tree. It contains a hash of the tree's kernels, so
    that --check fails until the page is made again after they change."""
    shown, days = set(data.shown_files().values()), {}
    for row in data.rows("files"):
        days.setdefault(row["commit"], set()).add((row["started"] or "day not recorded")[:10])
    parts = [f"{commit} of {', '.join(sorted(days[commit]))}{age_words(commit)}" for commit in sorted(shown) if commit in days]
    return f"Measured on an {data.gpu()}. Counted at {counted_at()} (kernels {source_hash.hash_of('kernels')}): {'; '.join(parts)}." if parts else ""


HEADER = ["products", "peer", "bf16, fp16", "fp8", "planned by", "commit"]


def speed(of_gpus: list[Data]) -> str:
    """Returns the block of speeds in README."""
    return f"{report_readme.speed_table(of_gpus)}\n\n{wrapped(f'{sums_note(of_gpus)} {measured(of_gpus)}')}"


def put_into(pages: dict[pathlib.Path, str], of_gpus: list[Data]) -> None:
    """Updates the blocks of README that come from bench records."""
    blocks = {"speed": speed(of_gpus), "why": wrapped(report_readme.why(of_gpus))}
    for path, text in pages.items():
        for name, (begin, end) in MARKS.items():
            if begin in text and end in text:
                text = f"{text.split(begin)[0]}{begin}\n{blocks[name]}\n{end}{text.split(end, 1)[1]}"
        pages[path] = text


def other_gpus(others: list[Data]) -> str:
    """Returns a sentence on GPUs that the pages do not show."""
    parts = []
    for data in others:
        if found := compared([row for row in data.rows("products") if row["set"] not in report_readme.APART]):
            parts.append(f"{data.gpu()}: {spread([ratio(row) for row in found])} times cuBLASLt's best over all dense shapes")
    return f" Also measured: {'; '.join(parts)}." if parts else ""


METHOD = """`sluice bench` times all contenders in one process, in turn (A B C, B C A, ...). Each is a CUDA graph of many launches,
with a rest and an untimed replay before it, so that all meet the same clocks. L2 is cold: launches rotate over
copies of A, B and D whose weights are three times the L2 cache (at most 64 copies, so the smallest shapes are partly warm, for
both). Data are random reals. Each result is checked in the same run, and a wrong one has no time. Times are medians over rounds,
means are geometric, and a figure is the peer's time over ours.

cuBLASLt has 64 MB of workspace and is asked for 16 algorithms. All that it returns (ALGORITHMS) are screened; its first and the
fastest two race, and the fastest in the race is "cuBLASLt's best". *Record*: `sluice tune` measured candidates of this very shape
before, and the fastest is shipped. *Model*: the planner chose without measuring. So a row by record compares a
tuned plan with the fastest of an untuned list."""


def older_check(data: Data) -> str:
    old = sum((row["started"] or "") < "2026-11-25" for row in data.rows("files") if row["file"].removesuffix(".json") in data.shown_files())
    return (f"{old} of the {len(data.shown_files())} records shown are older than 2026-11-25. Their check bounded each element "
            "alone, which for fp8 with fast sums and k from 2048 on finds little but NaN; exact tests show those kernels right ([testing.md](testing.md)).") if old else ""


def algorithms(rows: list[dict]) -> str:
    """Returns the number of algorithms that the peer returned, as text; with a single one there is no "best"."""
    counts = [row["cublaslt_algorithms"] for row in rows if row["cublaslt_algorithms"]]
    if not counts:
        return "how many is not recorded"
    ones = [row for row in rows if row["cublaslt_algorithms"] == 1]
    scaled = sum(row["sums"] == "block-scaled" for row in ones)
    alone = f"; {len(ones)} shapes, {scaled} of them block-scaled, have but one" if ones else ""
    return f"mostly {statistics.median_low(counts):g}{alone}"


def slowest(rows: list[dict]) -> str:
    found = sorted(compared(rows), key=ratio)
    return ", ".join(f"{ratio(row):.2f} at {name_of(row)}" for row in found[:5])


def packed_sentences(rows: list[dict]) -> str:
    text = ""
    for kind in ("fp16", "bf16", "e4m3"):
        if found := by_tokens(rows, kind):
            means = ", ".join(f"{geometric_mean(part):.2f} at {m:g} ({len(part)})" for m, part in found.items())
            text += f" {kind} tokens, times FP8: {means}."
            half = by_tokens(rows, kind, peer="bits16_us")
            text += f" Times cuBLASLt's 16 bits: {', '.join(f'{geometric_mean(part):.2f} at {m:g}' for m, part in half.items())}." if half else ""
    return text


def chain_sentences(data: Data) -> str:
    found = newest_chains(data.rows("chains"))
    text = "".join(f" Times cuBLASLt, {words}: {spread(ratios)}." for arm, words in ARMS.items() if (ratios := chain_ratios(found, arm)))
    replays = {(row["file"], row["layer"]): row["replays"] for row in data.rows("chains") if row["replays"]}
    return text + (f" {len(replays)} chains were replayed {min(replays.values()):,.0f} times or more with changing inputs, each time with "
                   "the bits of the same kernels without overlap." if replays else "")


def section(title: str, picture: str, data: Data, text: str) -> str:
    rows, words = data.rows(PICTURES[picture][0]), " ".join(text.split())
    return f"## {title}\n![{title}](img/{picture}.svg)\n\n{wrapped(words)}\n" if rows else ""


REPEAT = """On a machine with a Hopper GPU and nothing else running, after `make build`:
```
build/release/sluice bench --set engine --json engine.json  # tokens, decode, sweep, long_k, promoted, block
build/release/sluice bench --shapes bench/shapes/blind.txt --tune 40 --race 3 --rounds 5 --rest-ms 4 --json F
build/release/sluice chain --accumulate fast --tokens 1,4,16,64 --fuse none,gated --against cublaslt --json F
```
"""


def repeat(data: Data) -> str:
    took = [f"{row['file']} {row['seconds']:.0f} s" for row in data.rows("files") if row["file"] in ("engine.json", "blind.json") and row["seconds"]]
    text = ("Each record's own command is in files.csv beside it" + (f" ({', '.join(took)})" if took else "") +
            ". Records go to bench/results/GPU; `make report` makes tables, pictures and this page of them.")
    return REPEAT + wrapped(text)


def page(data: Data, others: list[Data]) -> str:
    """Returns the text of docs/performance.md."""
    text, of_gpus = "# Performance\n\n", [data, *others]
    if not data.shown_files():
        return text + "No bench record has been kept yet.\n"
    text += wrapped(f"{ages(data)}{other_gpus(others)} Made by `make report` from bench/results, where every shape has a line "
                    "([what each file is](../bench/results/README.md)).") + "\n\n"
    products, packed = data.rows("products"), data.rows("packed")
    method = [*METHOD.replace("ALGORITHMS", algorithms(products)).split("\n\n"), older_check(data)]
    text += "## Method\n" + "\n\n".join(wrapped(part) for part in method if part) + "\n\n"
    lone = sum(bool(row["us"]) and not row["cublaslt_us"] for row in products)
    without = f" On {lone} more cuBLASLt has no time (products.csv says why)." if lone else ""
    rows = [row for words, sets in DENSE if (row := dense_row(data, words, sets))]
    shown = {name for _, sets in DENSE for name in sets}
    rest = sorted({row["set"] for row in products} - shown)
    alone = f" In the picture alone: {', '.join(rest)}." if rest else ""
    text += section("Dense products", "dense", data, f"{len(compared(products))} shapes.{without} The slowest: {slowest(products)}. In the "
                    f"table: mean (worst to best; shapes); seen: looked at before by those who changed the planner.{alone}")
    text += f"\n{table([HEADER[0], *HEADER[2:]], rows)}\n\n" if rows else ""
    untimed = "" if data.rows("int4_peers") else "Marlin, Machete, "
    text += section("int4 weights", "packed", data, "Beside the faster of cuBLASLt's best FP8 product and our own; mean (products)."
                    + packed_sentences(packed) + f" Not timed: {untimed}CUTLASS, TensorRT-LLM.") + "\n"
    text += section("A layer as a chain", "chains", data, "All launches of a layer in one CUDA graph, each loading its weights before the one in "
                    "front has ended ([chains.md](chains.md)). Each arm has the bits of its own kernels without overlap. cuBLASLt has its fastest "
                    "screened algorithm for each product, the same norms and quantisers, and never the fused ones." + chain_sentences(data) + report_losses.drawn_chains(of_gpus)) + "\n"
    if others := report_losses.other_peers(data):
        text += "## Beside other peers\n" + "\n".join(wrapped(f"- {line}", "  ") for line in others) + "\n\n"
    if losses := [*report_losses.where_we_lose(data), *report_losses.strided(of_gpus)]:
        text += "## Where we lose, and why\n" + "\n".join(wrapped(f"- {line}", "  ") for line in losses) + "\n\n"
    return text + "## To repeat it\n" + repeat(data) + "\n"


def datas_of(results: pathlib.Path) -> list[Data]:
    return [Data(texts_of(folder, report_convolutions.TABLES)) for folder in sorted(results.iterdir(), key=lambda path: path.name != SHOWN) if folder.is_dir()]


def made(results: pathlib.Path, docs: pathlib.Path) -> dict[pathlib.Path, str]:
    """Returns path -> text of everything that is generated. `results`: bench/results, with a folder per GPU.
    """
    texts, shown, others = {}, Data({}), []
    for folder in sorted(path for path in results.iterdir() if path.is_dir()):
        tables = texts_of(folder, report_convolutions.TABLES)
        texts |= {folder / f"{name}.csv": text for name, text in tables.items() if name not in report_convolutions.UNWRITTEN}
        if folder.name == SHOWN:
            shown = Data(tables)
        else:
            others.append(Data(tables))
    texts |= {docs / "img" / f"{name}.svg": draw(shown.rows(rows)) for name, (rows, draw) in PICTURES.items() if shown.rows(rows)}
    texts |= report_convolutions.pictures(docs, [shown, *others])
    pages = {path: path.read_text() for path in (docs.parent / "README.md", docs / "testing.md") if path.exists()}
    report_certificates.put_into(pages, docs, results)
    if shown.shown_files():
        put_into(pages, [shown, *others])
    report_convolutions.put_into(pages, docs, [shown, *others])
    return texts | pages | {docs / "performance.md": page(shown, others)}


def undescribed(results: pathlib.Path) -> list[str]:
    """Returns files of bench/results that its README does not name, and names there without a file."""
    page_of_it = results / "README.md"
    cells = re.findall(r"^\| (`[^|]+`) \|", page_of_it.read_text(), re.M) if page_of_it.exists() else []
    names = [re.findall(r"`([^`]+)`", cell) for cell in cells]
    patterns = [pattern for some in names for pattern in some]
    kept = [str(path.relative_to(folder)) for folder in results.iterdir() if folder.is_dir() for path in folder.rglob("*") if path.is_file()]
    known = {name for pattern in patterns for name in fnmatch.filter(kept, pattern)}
    return [f"{name} is not described" for name in sorted(set(kept) - known) if patterns] + \
           [f"{', '.join(some)} names no file" for some in names if not any(fnmatch.filter(kept, pattern) for pattern in some)]


def unshown(docs: pathlib.Path) -> list[str]:
    """Returns pictures that no page shows."""
    pages = "".join(path.read_text() for path in (docs.parent / "README.md", *docs.rglob("*.md")) if path.exists())
    return [f"docs/img/{path.name} is shown by no page" for path in sorted((docs / "img").glob("*")) if f"img/{path.name})" not in pages]


def check(results: pathlib.Path, docs: pathlib.Path) -> int:
    """Returns true if all pages match the records. Ages are counted from the page's own commit, if HEAD has
    it."""
    told = COUNTED.search((docs / "performance.md").read_text())
    if git("rev-parse", "HEAD") is None:
        print("report: not possible here: no git, so ages cannot be counted")
        return 77
    if told and git("merge-base", "--is-ancestor", told[1], "HEAD") is None:
        print(f"report: docs/performance.md counts from {told[1]}, which is no commit in front of this one: `make report`")
        return 1
    CountedAt.commit = told[1] if told else ""
    texts = made(results, docs)
    other = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    other += [path for path in results.glob("*/*.csv") if path not in texts]
    for path in other:
        print(f"report: {path.relative_to(docs.parent)} does not say what the records and certificates say of this tree: `make report`, and commit")
    wrong = report_readme.unshown(datas_of(results)) + [f"bench/results/README.md: {line}" for line in undescribed(results)] + unshown(docs)
    print("\n".join(f"report: {line}" for line in wrong), end="\n" if wrong else "")
    return 1 if other or wrong else 0


def write(results: pathlib.Path, docs: pathlib.Path) -> int:
    texts = made(results, docs)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"report: {len(texts)} files made from {results}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs")
    parser.add_argument("--at", default="", help="count ages from this commit (default: HEAD)")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        import report_self_test
        return report_self_test.run()
    CountedAt.commit = arguments.at[:7]
    return (check if arguments.check else write)(arguments.results, arguments.docs)


if __name__ == "__main__":
    sys.exit(main())
