#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes everything that comes from bench/results: CSV files beside the records, with a line a shape;
docs/performance.md; pictures; blocks of README.md and docs/testing.md.

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

import report_certificates
import report_losses
import report_pictures
import report_readme
import result_files
import source_hash
from report_figures import (ARMS, TOKENS, by_tokens, chain_ratios, compared, geometric_mean, is_fp8, newest_chains, ratio, short, sizes_of, spread, table,
                            wrapped)
from report_records import NO_COMMIT, ROOT, CountedAt, age_of, counted_at, first_look, git, parsed, texts_of

SHOWN = "h200"  # the GPU on the pages; others have their tables
COUNTED = re.compile(r"[Cc]ounted\s+at\s+([0-9a-f]{7})\b")
# Rows of the table, each with the sets of problems whose results it shows.
DENSE = (("large products", ("engine",)), ("medium products", ("tokens",)), ("decoding", ("decode",)), ("long k, small D", ("long_k",)),
         ("fp8, promoted", ("promoted",)), ("fp8, row scales, promoted", ("row",)), ("fp8, block scales", ("block",)), ("random", ("blind",)),
         ("others", ("odd_rows", "epilogues", "layouts", "unseen")))
PICTURES = {"dense": ("products", lambda rows: report_pictures.dense(compared(rows))), "packed": ("packed", report_pictures.packed),
            "chains": ("chains", report_pictures.chains)}


class Data:
    """The tables of one GPU, read from the text of its CSV files."""

    def __init__(self, texts: dict[str, str], folder: str = SHOWN):
        self.texts, self.folder = texts, folder
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


def commits(data: Data, files: list[str]) -> str:
    return ", ".join(sorted({data.commit(file) for file in files}))


def dense_row(data: Data, words: str, sets: tuple[str, ...]) -> list[str] | None:
    if sets == ("blind",):
        words += ", new" if first_look(data.commit("blind")) else ", seen"
    line = report_readme.dense_line([data], "dense", words, lambda data: data.rows("products", sets))
    names = [row["set"] for row in data.rows("products", sets)]
    return line and [line.words, *(cell.text() for cell in line.cells.values()), line.by, commits(data, names)]


def days_of(data: Data) -> dict[str, list[str]]:
    """Commit -> days of its records."""
    found: dict[str, set[str]] = {}
    for row in data.rows("files"):
        found.setdefault(row["commit"], set()).add((row["started"] or "day not recorded")[:10])
    return {commit: sorted(days) for commit, days in found.items()}


def measured(of_gpus: list[Data]) -> str:
    """Returns the GPUs and days of the records shown, and how many later commits touch kernels, for README."""
    parts = []
    for data in of_gpus:
        shown = set(data.shown_files().values()) | {row["commit"] for row in data.rows("files") if row["file"].startswith(("untuned/", "strided"))}
        days = sorted({day for commit, some in days_of(data).items() if commit in shown for day in some})
        if days:
            since = sorted({touches for commit in shown if (touches := age_of(commit)[1]) is not None})
            changed = f" (later commits that touch kernels: {since[0] if len(since) == 1 else f'{since[0]} to {since[-1]}'})" if since else ""
            parts.append(f"{data.gpu()}, {days[0] if len(days) == 1 else f'from {days[0]} to {days[-1]}'}{changed}")
    return f"Measured on: {'; '.join(parts)}." if parts else ""


def sums_note(of_gpus: list[Data]) -> str:
    """Returns a sentence that tells which accumulation mode (fast or promoted) README's fp8 figures use."""
    mixed = {row["sums"] for data in of_gpus for row in data.rows("products") if row["planned_by"] == "model" and is_fp8(row)} - {"fast"}
    text = "In the rows of large, medium and decoding products, fp8 has fast sums and no scales." + (
        f" The row without a tuning record also has shapes with {' and '.join(sorted(mixed))} sums." if mixed else "")
    return text + ("" if any(data.rows("products", ("row",)) for data in of_gpus) else " fp8 as `convert_` runs it has not been measured yet.")


def ages(data: Data) -> str:
    """Returns a table of the shown results' ages, in commits before this tree. It contains a hash of the tree's kernels, so
    that --check fails until the page is made again after they change."""
    days = days_of(data)
    rows = [[commit, ", ".join(days[commit]), *("not known" if each is None else str(each) for each in age_of(commit))]
            for commit in sorted(set(data.shown_files().values())) if commit in days]
    words = (f"Results on this page were measured on an {data.gpu()} at these commits. Ages are counted at {counted_at()} (hash of the kernels' sources: "
             f"{source_hash.hash_of('kernels')}).")
    return f"{wrapped(words)}\n\n{table(['commit', 'measured', 'commits since', 'of these, commits that touch kernels'], rows)}" if rows else ""


HEADER = ["products", "bf16, fp16", "fp8", "plan by", "measured at"]


def speed(of_gpus: list[Data]) -> str:
    """The tables in README."""
    return f"{report_readme.speed_table(of_gpus)}\n\n{wrapped(f'{sums_note(of_gpus)} {measured(of_gpus)}')}"


def other_gpus(others: list[Data]) -> str:
    """Returns a sentence on GPUs that the pages do not show."""
    parts = []
    for data in others:
        if found := compared([row for row in data.rows("products") if row["set"] not in report_readme.APART]):
            parts.append(f"{data.gpu()}: {spread([ratio(row) for row in found])}")
    return f"All dense shapes on another GPU, compared with cuBLASLt's best: {'; '.join(parts)}." if parts else ""


LEGEND = """**How to read a figure.** It is the peer's time divided by sluice's: above 1, sluice is faster. `1.11 (0.99 to 1.41; 40)`
means: geometric mean 1.11, worst shape 0.99, best shape 1.41, 40 shapes. `25 of 30` instead of a count: 30 shapes ran, and 25
have a time of both sides. All figures are of an GPU_NAME unless another GPU is named. M, N, K: D is M x N, the sum has K terms."""
PLANS = """**Plan by.** *Tuning record*: `sluice tune` measured candidates of this very shape before, and the fastest is shipped with
the library. *Model*: the planner's cost model chose without measuring. So a row by tuning record compares a tuned plan with a list of cuBLASLt's
that was not tuned. In brackets: how many of the row's shapes have a record; the others have the model's plan."""
METHOD = """- `sluice bench` times all contenders in one process, in turn (A B C, B C A, ...). A time is the median over rounds.
- Each contender is a CUDA graph of many launches. A rest and an untimed replay come before it, so that all run at the same clocks.
- L2 is cold: launches rotate over copies of A, B and D whose weights are three times the L2 cache. There are at most 64 copies, so the
smallest shapes are partly warm, for both sides.
- Data are random reals. Each result is checked in the same run, and a wrong one has no time.
- "cuBLASLt's best": cuBLASLt gets 64 MB of workspace and is asked for 16 algorithms. All that it returns (ALGORITHMS) are timed briefly. Its
first and the fastest two are then timed with sluice, and the fastest there counts."""


def older_check(data: Data) -> str:
    old = sum((row["started"] or "") < "2026-11-25" for row in data.rows("files") if row["file"].removesuffix(".json") in data.shown_files())
    return (f"- {old} of the {len(data.shown_files())} result files shown are older than 2026-11-25. Their check bounded each element by itself. For fp8 with fast "
            "sums and k from 2048 on, that bound finds little but NaN. Exact tests show those kernels right ([testing.md](testing.md)).") if old else ""


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
    return table(["peer's time / sluice's", "M x N x K", "type of A", "stored (A/B)", "epilogue"],
                 [[f"{ratio(row):.2f}", sizes_of(row), row["a"], f"{row['layouts']}-major", row["epilogue"] or "-"] for row in found[:5]])


def packed_table(rows: list[dict]) -> str:
    """Returns a row per number of tokens, and a column per type of tokens and peer."""
    found = [(f"{words}; peer {name}", by_tokens(rows, kinds, peer)) for words, kinds in TOKENS.items() for peer, name in (("fp8_us", "FP8"), ("bits16_us", "16 bits"))]
    columns = [column for column in found if column[1]]
    return table(["tokens", *(words for words, _ in columns)],
                 [[f"{m:g}", *(spread(found[m]) if m in found else "-" for _, found in columns)] for m in sorted({m for _, found in columns for m in found})])


def chain_table(data: Data, of_gpus: list[Data]) -> str:
    found = newest_chains(data.rows("chains"))
    rows = [["layers of known models", words, short(data.gpu()), report_readme.RECORD, spread(ratios)] for arm, words in ARMS.items() if (ratios := chain_ratios(found, arm))]
    return table(["layers", "fused", "GPU", "plan by", "cuBLASLt's time / sluice's"], rows + report_losses.drawn_chains(of_gpus))


def replays(data: Data) -> str:
    found = {(row["file"], row["layer"]): row["replays"] for row in data.rows("chains") if row["replays"]}
    return (f"{len(found)} chains were replayed {min(found.values()):,.0f} times or more with changing inputs, each time with the bits of the same kernels "
            "without overlap.") if found else ""


def section(title: str, picture: str, data: Data, *parts: str) -> str:
    """`parts`: paragraphs and tables; none is wrapped twice."""
    shown = [part if part.startswith(("|", "-")) else wrapped(part) for part in parts if part]
    return f"## {title}\n![{title}](img/{picture}.svg)\n\n" + "\n\n".join(shown) + "\n\n" if data.rows(PICTURES[picture][0]) else ""


REPEAT = """On a machine with a Hopper GPU and nothing else running, after `make build`:
```
build/release/sluice bench --set engine --json engine.json  # tokens, decode, sweep, long_k, promoted, block
build/release/sluice bench --shapes bench/shapes/blind.txt --tune 40 --race 3 --rounds 5 --rest-ms 4 --json F
build/release/sluice chain --accumulate fast --tokens 1,4,16,64 --fuse none,gated --against cublaslt --json F
```
"""


def repeat(data: Data) -> str:
    took = [f"{row['file']} {row['seconds']:.0f} s" for row in data.rows("files") if row["file"] in ("engine.json", "blind.json") and row["seconds"]]
    text = ("The command of each result file is in files.csv next to it" + (f" ({', '.join(took)})" if took else "") +
            ". Result files go to bench/results/GPU; `make report` makes tables, pictures and this page of them. Every shape has a line there "
            "([what each file is](../bench/results/README.md)).")
    return REPEAT + wrapped(text)


def result(data: Data) -> str:
    """The first paragraph: what the page is for, and the means of its main rows."""
    means = [f"{words} {geometric_mean(ratios):.2f}" for words, name in (("for large products", "engine"), ("for products of 1 to 64 rows", "decode"))
             if (ratios := [ratio(row) for row in compared(data.rows("products", (name,))) if not is_fp8(row)])]
    means = f" On an {data.gpu()}, in 16 bits, cuBLASLt's best time divided by sluice's is {' and '.join(means)} (geometric means)." if means else ""
    return f"How fast sluice is, compared with cuBLASLt and other libraries. Where it is slower, and why: [performance-losses.md](performance-losses.md).{means}"


def page(data: Data, others: list[Data]) -> str:
    """Returns the text of docs/performance.md."""
    text, of_gpus = "# Performance\n\n", [data, *others]
    if not data.shown_files():
        return text + "No bench result has been kept yet.\n"
    text += wrapped(result(data)) + "\n\n" + wrapped(LEGEND.replace("GPU_NAME", data.gpu())) + "\n\n" + wrapped(PLANS) + "\n\n"
    products, packed = data.rows("products"), data.rows("packed")
    alone = sum(bool(row["us"]) and not row["cublaslt_us"] for row in products)
    without = f" On {alone} more cuBLASLt has no time (products.csv says why)." if alone else ""
    rows = [row for words, sets in DENSE if (row := dense_row(data, words, sets))]
    shown = {name for _, sets in DENSE for name in sets}
    rest = sorted({row["set"] for row in products} - shown)
    only = f" Result files that only the picture shows: {', '.join(rest)}." if rest else ""
    text += section("Dense products", "dense", data, f"{len(compared(products))} shapes, compared with cuBLASLt's best.{without} *Promoted* sums are added to fp32 "
                    "registers every 128 of k; other fp8 sums are *fast*, in the tensor core ([numerics.md](numerics.md)). *Seen*, and *others*: the planner was changed after "
                    f"these shapes were measured, so it may fit them better than new ones.{only}", table(HEADER, rows), "The five slowest shapes:", slowest(products),
                    other_gpus(others))
    untimed = "" if data.rows("int4_peers") else "Marlin, Machete, "
    text += section("int4 weights", "packed", data, "Layers of known models; tokens are the rows of the activations, in 16 bits or in e4m3. Peers are products of the same size. FP8: the "
                    "faster of cuBLASLt's best and sluice's own. 16 bits: cuBLASLt's, with 16-bit weights.", packed_table(packed),
                    f"Not timed: {untimed}CUTLASS, TensorRT-LLM.")
    text += section("A layer as a chain", "chains", data, "A chain is all launches of one transformer layer, in fp8, for 1 to 64 tokens, in one CUDA graph. Each launch loads its "
                    "weights before the previous one has ended ([chains.md](chains.md)). cuBLASLt has its fastest algorithm for each product, the same norms and quantisers, and "
                    "nothing fused. *Fused*: SwiGLU and quantisers are part of sluice's products.", chain_table(data, of_gpus), replays(data))
    text += report_losses.other_peers(data)
    method = [*METHOD.replace("ALGORITHMS", algorithms(products)).split("\n- "), older_check(data)]
    text += "## Method\n" + "\n".join(wrapped("- " + part.removeprefix("- "), "  ") for part in method if part) + "\n\n"
    return text + "## To repeat it\n" + repeat(data) + "\n\n## Age of the results\n" + ages(data) + "\n"


def datas_of(results: pathlib.Path) -> list[Data]:
    """Tables of each GPU, of the one that pages show first; it may have none."""
    others = sorted(path.name for path in results.iterdir() if path.is_dir() and path.name != SHOWN)
    return [Data(texts_of(results / name), name) for name in (SHOWN, *others)]


# Blocks of pages: the page, the block's name in its marks, and what makes it of the tables and certificates.
BLOCKS = (("README.md", "speed", lambda of_gpus, _: speed(of_gpus) if of_gpus[0].shown_files() else None),
          ("README.md", "why", lambda of_gpus, _: report_readme.why(of_gpus) if of_gpus[0].shown_files() else None),
          ("README.md", "certified", lambda _, certificates: report_certificates.summary(certificates)),
          ("docs/testing.md", "certificates", lambda _, certificates: report_certificates.by_section(certificates)),
          ("docs/conv.md", "convolutions", lambda of_gpus, _: report_losses.convolutions(of_gpus)))


def marks_of(name: str) -> tuple[str, str]:
    return f"<!-- {name}: made by `make report` -->", f"<!-- end of {name} -->"


def with_block(text: str, name: str, block: str | None) -> str:
    """`text` with `block` between the marks; as it was without marks or block."""
    begin, end = marks_of(name)
    if block is None or begin not in text or end not in text:
        return text
    return f"{text.split(begin)[0]}{begin}\n{block}\n{end}{text.split(end, 1)[1]}"


def made(results: pathlib.Path, docs: pathlib.Path) -> dict[pathlib.Path, str]:
    """Path -> text of everything that is made. `results`: bench/results, with a folder for each GPU."""
    of_gpus, certificates = datas_of(results), report_certificates.load(results)
    shown, *others = of_gpus
    texts = {results / data.folder / f"{name}.csv": text for data in of_gpus for name, text in data.texts.items()}
    texts |= {docs / "img" / f"{name}.svg": draw(shown.rows(rows)) for name, (rows, draw) in PICTURES.items() if shown.rows(rows)}
    for page_name, name, make in BLOCKS:
        path = docs / page_name.removeprefix("docs/") if page_name.startswith("docs/") else docs.parent / page_name
        if path.exists():
            texts[path] = with_block(texts.get(path) or path.read_text(), name, make(of_gpus, certificates))
    lost = report_losses.page(shown, of_gpus)
    return texts | {docs / "performance.md": page(shown, others)} | ({docs / "performance-losses.md": lost} if lost else {})


def kept_files(results: pathlib.Path) -> list[str]:
    """Names below a GPU's folder, as they are without compression."""
    return [str(path.relative_to(folder)) for folder in results.iterdir() if folder.is_dir() for path in result_files.files(folder, "**/*")]


def undescribed(results: pathlib.Path) -> list[str]:
    """Returns files of bench/results that its README does not name, and names there without a file."""
    page_of_it = results / "README.md"
    cells = re.findall(r"^\| (`[^|]+`) \|", page_of_it.read_text(), re.M) if page_of_it.exists() else []
    names, kept = [[name.removesuffix(".xz") for name in re.findall(r"`([^`]+)`", cell)] for cell in cells], kept_files(results)
    known = {name for some in names for pattern in some for name in fnmatch.filter(kept, pattern)}
    return [f"{name} is not described" for name in sorted(set(kept) - known) if names] + \
           [f"{', '.join(some)} names no file" for some in names if not any(fnmatch.filter(kept, pattern) for pattern in some)]


def too_large(results: pathlib.Path) -> list[str]:
    return [f"{path.relative_to(results.parent)} has more than {result_files.MOST:,} bytes: compress it with `xz -9`" for path in sorted(results.rglob("*.*"))
            if path.suffix in (".json", ".jsonl", ".csv") and path.stat().st_size > result_files.MOST]


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
    other = [path for path, text in texts.items() if result_files.text_of(path) != text]
    other += [path for path in result_files.files(results, "*/*.csv") if path not in texts]
    for path in other:
        print(f"report: {path.relative_to(docs.parent)} does not say what the records and certificates say of this tree: `make report`, and commit")
    wrong = report_readme.unshown(datas_of(results)) + [f"bench/results/README.md: {line}" for line in undescribed(results)] + too_large(results) + unshown(docs)
    print("\n".join(f"report: {line}" for line in wrong), end="\n" if wrong else "")
    return 1 if other or wrong else 0


def write(results: pathlib.Path, docs: pathlib.Path) -> int:
    texts = made(results, docs)
    for path, text in texts.items():
        result_files.write(path, text)
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
