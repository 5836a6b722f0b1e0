# SPDX-License-Identifier: Apache-2.0
"""Puts tables, pictures and certificates into pages: docs/performance.md as a whole, and blocks of README.md,
docs/testing.md and docs/conv.md. Used by tools/report.py, whose --check compares the files with what is made here.
"""
import fnmatch
import json
import pathlib
import re
import statistics
import subprocess

import result_files
from report import certificates, experts, losses, pictures
from report.figures import compared, is_fp8, listed, table, wrapped
from report.lines import dense_lines, int4_lines, layer_lines, lines_of, table_of, unshown
from report.records import NO_COMMIT, Data, texts_of

SHOWN = "h200"  # the GPU that pictures, and the list of losses, show
PICTURES = {"dense": ("products", lambda rows: pictures.dense(compared(rows))), "chains": ("chains", pictures.chains)}


def shown_commits(data: Data) -> set[str]:
    """The commits of the records that tables show."""
    return {commit for one in lines_of([data]) for commit in one.commits.split(", ")}


def days_of(data: Data) -> dict[str, list[str]]:
    """Commit -> days of its records."""
    found: dict[str, set[str]] = {}
    for row in data.rows("files"):
        found.setdefault(row["commit"], set()).update([row["started"][:10]] if row["started"] else [])
    return {commit: sorted(days) for commit, days in found.items()}


KERNELS = ("sluice/spec", "sluice/device", "sluice/kernels")
# Text that counts commits. It grows with each commit, so --check compares pages without it.
COUNTED = re.compile(r"\d+ commits? that change kernels|(?<=\| )(?:\d+|unknown)(?= \|$)", re.M)


def kernel_commits_since(commit: str) -> str:
    """Returns how many commits have changed kernels since this one; "unknown" for one that this clone lacks."""
    told = subprocess.run(["git", "rev-list", "--count", f"{commit.removesuffix('-dirty')}..HEAD", "--", *KERNELS], cwd=pathlib.Path(__file__).parents[2],
                          check=False, capture_output=True, text=True)
    return told.stdout.strip() or "unknown"


def measured(of_gpus: list[Data]) -> str:
    """Returns the GPUs and days of the records shown, and how far behind they are, for README."""
    parts = []
    for data in of_gpus:
        days_by = days_of(data)
        if days := sorted({day for commit in shown_commits(data) - {NO_COMMIT} for day in days_by.get(commit, ())}):
            parts.append(f"{data.gpu()}, {days[0] if len(days) == 1 else f'from {days[0]} to {days[-1]}'}")
    behind = [int(count) for data in of_gpus for commit in shown_commits(data) - {NO_COMMIT} if (count := kernel_commits_since(commit)).isdigit()]
    age = f" The code is {max(behind)} commits that change kernels ahead of the oldest." if behind else ""
    return f"Measured on: {'; '.join(parts)}.{age}" if parts else ""


def sums_note(of_gpus: list[Data]) -> str:
    """Returns a sentence that tells which accumulation mode (fast or promoted) README's fp8 figures use."""
    mixed = {row["sums"] for data in of_gpus for row in data.rows("products") if row["planned_by"] == "model" and is_fp8(row)} - {"fast"}
    text = "In the rows of large, medium and decoding products, fp8 has fast sums and no scales." + (
        f" The row without a tuning record also has shapes with {' and '.join(sorted(mixed))} sums." if mixed else "")
    return text + ("" if any(data.rows("products", ("row",)) for data in of_gpus) else " fp8 as `convert_` runs it has not been measured yet.")


def speed(of_gpus: list[Data]) -> str:
    """The table of README."""
    return f"{table_of(of_gpus, [one for one in lines_of(of_gpus) if one.headline], commits=False)}\n\n{wrapped(f'{sums_note(of_gpus)} {measured(of_gpus)}')}"


def days(of_gpus: list[Data]) -> str:
    """Returns a table of the commits that were measured, with days."""
    rows = [[data.gpu(), commit, ", ".join(days_of(data)[commit]) or "not recorded", kernel_commits_since(commit)]
            for data in of_gpus for commit in sorted(shown_commits(data) - {NO_COMMIT})]
    return table(["GPU", "commit", "measured", "kernel commits since"], rows)


INTRO = """How fast sluice is, compared with cuBLASLt and other libraries. Where it is slower, and why: [performance-losses.md](performance-losses.md)."""
LEGEND = """**How to read a figure.** It is the peer's time divided by sluice's: above 1, sluice is faster. `1.11 (0.99 to 1.41; 40)`
means: geometric mean 1.11, worst shape 0.99, best shape 1.41, 40 shapes. `25 of 30` instead of a count: 30 shapes ran, and 25
have a time of both sides. M, N, K: D is M x N, the sum has K terms. Pictures are of an GPU_NAME."""
PLANS = """**Plan by.** *Tuning record*: `sluice tune` measured candidates of this very shape before, and the fastest is shipped with
the library. *Model*: the planner's cost model chose without measuring. So a row by tuning record compares a tuned plan with a list of cuBLASLt's
that was not tuned. In brackets: how many of the row's shapes have a record; the others have the model's plan."""
DENSE = """SHAPES shapes, compared with cuBLASLt's best.WITHOUT *Promoted* sums are added to fp32 registers every 128 of k; other fp8 sums are
*fast*, in the tensor core ([numerics.md](numerics.md)). *Random*: the planner may have been changed since these shapes
were drawn, so it may fit them better than new ones."""
INT4 = """Tokens are the rows of the activations, in 16 bits or in e4m3. Known layers are those of published models; random products have random
sizes. FP8: the product of the same size with fp8 operands, the faster of cuBLASLt's best and sluice's own. Marlin and Machete are vLLM's
kernels ([int4-peers.md](findings/int4-peers.md)). Not timed: UNTIMEDCUTLASS, TensorRT-LLM, DeepGEMM."""
CHAINS = """A chain is all launches of one transformer layer, in fp8, in one CUDA graph. Each launch loads its weights before the previous
one has ended ([chains.md](chains.md)). cuBLASLt has its fastest algorithm for each product, the same norms and quantisers, and nothing fused. *Fused*:
SwiGLU and quantisers are part of sluice's products. Decoding is one sequence of a whole model without a chain; in brackets are tokens per second. A
block is examples/llama_block.py under torch.compile, four layers in a CUDA graph."""
AGE = """How far behind the code a result is: the commits that change kernels since then, when this page was made. Their list:
`git log --oneline COMMIT.. -- sluice/spec sluice/device sluice/kernels`."""
METHOD = """`sluice bench` times all contenders in one process, in turn (A B C, B C A, ...). A time is the median over rounds.
- Each contender is a CUDA graph of many launches. A rest and an untimed replay come before it, so that all run at the same clocks.
- L2 is cold: launches rotate over copies of A, B and D whose weights are three times the L2 cache. There are at most 64 copies, so the
smallest shapes are partly warm, for both sides.
- Data are random reals. Each result is checked in the same run, and a wrong one has no time.
- "cuBLASLt's best": cuBLASLt gets 64 MB of workspace and is asked for 16 algorithms. All that it returns (ALGORITHMS) are timed briefly. Its
first and the fastest two are then timed with sluice, and the fastest there counts.
- Result files older than 2026-11-25 bounded each element by itself in their check. For fp8 with fast sums and k from 2048 on, that bound finds little
but NaN. Exact tests show those kernels right ([testing.md](testing.md))."""
REPEAT = """On a machine with a Hopper GPU and nothing else running, after `make build`:
```
build/release/sluice bench --set engine --json engine.json  # tokens, decode, sweep, long_k, promoted, block
build/release/sluice bench --shapes bench/shapes/blind.txt --tune 40 --race 3 --rounds 5 --rest-ms 4 --json F
build/release/sluice chain --accumulate fast --tokens 1,4,16,64 --fuse none,gated --against cublaslt --json F
```
The command of each result file is in files.csv next to it. Result files go to bench/results/GPU; `make
report` makes tables, pictures and this page of them. Every shape has a line there
([what each file is](../bench/results/README.md))."""


def algorithms(rows: list[dict]) -> str:
    """Returns the number of algorithms that the peer returned, as text; with a single one there is no "best"."""
    counts = [row["cublaslt_algorithms"] for row in rows if row["cublaslt_algorithms"]]
    ones = [row for row in rows if row["cublaslt_algorithms"] == 1]
    scaled = sum(row["sums"] == "block-scaled" for row in ones)
    alone = f"; {len(ones)} shapes, {scaled} of them block-scaled, have but one" if ones else ""
    return f"mostly {statistics.median_low(counts):g}{alone}" if counts else "how many is not recorded"


def replays(data: Data) -> str:
    found = {(row["file"], row["layer"]): row["replays"] for row in data.rows("chains") if row["replays"]}
    return (f"{len(found)} chains were replayed {min(found.values()):,.0f} times or more with changing inputs, each time with the bits of the same kernels "
            "without overlap.") if found else ""


def marks_of(name: str) -> tuple[str, str]:
    return f"<!-- {name}: made by `make report` -->", f"<!-- end of {name} -->"


def page(of_gpus: list[Data]) -> str:
    """Returns the text of docs/performance.md."""
    data = of_gpus[0]
    if not shown_commits(data):
        return "# Performance\n\nNo bench result has been kept yet.\n"
    products = data.rows("products")
    alone = sum(bool(row["us"]) and not row["cublaslt_us"] for row in products)
    without = f" On {alone} more cuBLASLt has no time (products.csv says why)." if alone else ""
    parts = ["# Performance", *(wrapped(text.replace("GPU_NAME", data.gpu())) for text in (INTRO, LEGEND, PLANS))]
    for title, picture, words, lines, note in (
            ("Dense products", "dense", DENSE.replace("SHAPES", str(len(compared(products)))).replace("WITHOUT", without), dense_lines(of_gpus), ""),
            ("int4 weights", "", INT4.replace("UNTIMED", "" if data.rows("int4_peers") else "Marlin, Machete, "), int4_lines(of_gpus), ""),
            ("Layers and models", "chains", CHAINS, layer_lines(of_gpus), replays(data))):
        if shown := table_of(of_gpus, [one for one in lines if one]):
            drawn = f"\n![{title}](img/{picture}.svg)\n" if picture and data.rows(PICTURES[picture][0]) else ""
            begin, end = marks_of(title.lower())
            parts += [f"## {title}{drawn}\n{wrapped(words)}", f"{begin}\n{shown}\n{end}", *([wrapped(note)] if note else [])]
    method = listed(*METHOD.replace("ALGORITHMS", algorithms(products)).split("\n- "))
    return "\n\n".join([*parts, f"## Method\n{method}", f"## To repeat it\n{REPEAT}", f"## Age of the results\n{wrapped(AGE)}\n\n{days(of_gpus)}"]) + "\n"


def datas_of(results: pathlib.Path) -> list[Data]:
    """Tables of each GPU, of the one that pages show first; it may have none."""
    others = sorted(path.name for path in results.iterdir() if path.is_dir() and path.name != SHOWN)
    return [Data(texts_of(results / name), name) for name in (SHOWN, *others)]


def decode_records(results: pathlib.Path) -> list[dict]:
    """The records of bench/decode/arms.py, that of the GPU that pages show first."""
    paths = sorted(results.glob("*/python/decode_arms.json*"), key=lambda path: path.parts[-3] != SHOWN)
    return [json.loads(result_files.text_of(path)) for path in paths]


# Blocks of pages: the page, the block's name in its marks, and what makes it of the tables and certificates.
BLOCKS = (("README.md", "speed", lambda of_gpus, _: speed(of_gpus) if shown_commits(of_gpus[0]) else None),
          ("README.md", "certified", lambda _, kept: certificates.summary(kept)),
          ("docs/testing.md", "certificates", lambda _, kept: certificates.by_section(kept)),
          ("docs/conv.md", "convolutions", lambda of_gpus, _: losses.convolutions(of_gpus)))


def with_block(text: str, name: str, block: str | None) -> str:
    """`text` with `block` between the marks; as it was without marks or block."""
    begin, end = marks_of(name)
    if block is None or begin not in text or end not in text:
        return text
    return f"{text.split(begin)[0]}{begin}\n{block}\n{end}{text.split(end, 1)[1]}"


def made(results: pathlib.Path, docs: pathlib.Path) -> dict[pathlib.Path, str]:
    """Path -> text of everything that is made. `results`: bench/results, with a folder for each GPU."""
    of_gpus, kept = datas_of(results), certificates.load(results)
    shown = of_gpus[0]
    texts = {results / data.folder / f"{name}.csv": text for data in of_gpus for name, text in data.texts.items()}
    texts |= {docs / "img" / f"{name}.svg": draw(shown.rows(rows)) for name, (rows, draw) in PICTURES.items() if shown.rows(rows)}
    decoded = decode_records(results)
    if decoded:
        import decode_picture  # which draws with this package
        texts[docs / "img/decode.svg"] = decode_picture.picture(decoded[0])
        path = docs / "decode.md"
        if path.exists():
            texts[path] = with_block(path.read_text(), "decode", decode_picture.numbers(decoded).strip())
    if (path := docs / "experts.md").exists():
        texts[path] = with_block(path.read_text(), "experts", experts.block(results, SHOWN))
    for page_name, name, make in BLOCKS:
        path = docs / page_name.removeprefix("docs/") if page_name.startswith("docs/") else docs.parent / page_name
        if path.exists():
            texts[path] = with_block(texts.get(path) or path.read_text(), name, make(of_gpus, kept))
    lost = losses.page(shown, of_gpus)
    return texts | {docs / "performance.md": page(of_gpus)} | ({docs / "performance-losses.md": lost} if lost else {})


def undescribed(results: pathlib.Path) -> list[str]:
    """Returns files of bench/results that its README does not name, and names there without a file."""
    page_of_it = results / "README.md"
    cells = re.findall(r"^\| (`[^|]+`) \|", page_of_it.read_text(), re.M) if page_of_it.exists() else []
    names = [[name.removesuffix(".xz") for name in re.findall(r"`([^`]+)`", cell)] for cell in cells]
    kept = [str(path.relative_to(folder)) for folder in results.iterdir() if folder.is_dir() for path in result_files.files(folder, "**/*")]
    known = {name for some in names for pattern in some for name in fnmatch.filter(kept, pattern)}
    return [f"bench/results/README.md: {name} is not described" for name in sorted(set(kept) - known) if names] + \
           [f"bench/results/README.md: {', '.join(some)} names no file" for some in names if not any(fnmatch.filter(kept, pattern) for pattern in some)]


def too_large(results: pathlib.Path) -> list[str]:
    return [f"{path.relative_to(results.parent)} has more than {result_files.MOST:,} bytes: compress it with `xz -9`" for path in sorted(results.rglob("*.*"))
            if path.suffix in (".json", ".jsonl", ".csv") and path.stat().st_size > result_files.MOST]


def unused(docs: pathlib.Path) -> list[str]:
    """Returns pictures that no page shows."""
    pages = "".join(path.read_text() for path in (docs.parent / "README.md", *docs.rglob("*.md")) if path.exists())
    return [f"docs/img/{path.name} is shown by no page" for path in sorted((docs / "img").glob("*")) if f"img/{path.name})" not in pages]


def check(results: pathlib.Path, docs: pathlib.Path) -> int:
    """Returns 0 if all pages match the records."""
    texts = made(results, docs)
    def same(kept: str | None, text: str) -> bool:
        return kept is not None and COUNTED.sub("", kept) == COUNTED.sub("", text)

    other = [path for path, text in texts.items() if not (same(result_files.text_of(path), text) if path.suffix == ".md" else result_files.text_of(path) == text)]
    other += [path for path in result_files.files(results, "*/*.csv") if path not in texts]
    faults = [f"{path.relative_to(docs.parent)} does not say what the records and certificates say of this tree: `make report`, and commit" for path in other]
    faults += unshown(datas_of(results)) + undescribed(results) + too_large(results) + unused(docs)
    print("\n".join(f"report: {line}" for line in faults), end="\n" if faults else "")
    return 1 if faults else 0


def write(results: pathlib.Path, docs: pathlib.Path) -> int:
    texts = made(results, docs)
    for path, text in texts.items():
        result_files.write(path, text)
    print(f"report: {len(texts)} files made from {results}")
    return 0
