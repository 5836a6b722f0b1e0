# SPDX-License-Identifier: Apache-2.0
"""`report.py --self-test`: makes tables, pages and pictures from invented records, for which the right text
is known. Each check plants a value that must not be shown, or a claim without rows. Runs in ctest."""
import contextlib
import io
import json
import pathlib
import re
import tempfile

from report import experts, losses, pages, pictures
from report.certificates_self_test import check_certificates
from report.figures import newest_chains, ratio
from report.lines import unshown
from report.records import NO_COMMIT, OUR_FP8, OURS, PEER_16, PEER_FP8, READ, TUNED, Data, commit_of, parsed, texts_of
from tree import refusal

FIRST, BEST = "cuBLASLt first", "cuBLASLt best"
MACHINE = {"gpu": "Made-up GPU", "fp16_peak_tflops": 845.0, "fp8_peak_tflops": 1685.0, "hbm_gbps": 4500.0}


def timed(name: str, us: float, verified: bool = True) -> dict:
    return {"name": name, "detail": f"kernel of {name}", "us": {"median": us}, "sm_mhz": 1600.0, "verified": verified, "verdict": "made up"}


def shape_of(m: int, kind: str, contenders: list[dict], by: str = "model", **different) -> dict:
    problem = {"m": m, "n": 64, "k": 64, "batch": 1, "a": kind, "b": kind, "d": "bf16", "a_layout": "k", "b_layout": "k", "accumulate": "fast",
               "scale_a": "none", "scale_b": "none", "bias": False, "activation": "none", "residual": False} | different
    return {"name": f"{m}x64x64 {kind}", "flops": 2.0 * m * 64 * 64, "bytes": 64.0 * m, "problem": problem, "chosen_by": by, "wall_s": 0.5,
            "peer_algorithms": 8, "contenders": contenders}


def run_of(shapes: list[dict]) -> dict:
    return {"schema": "sluice-bench-1", "started": "2026-01-01T00:00:00Z", "command": "sluice bench --set made-up", "commit": "0123abcd",
            "machine": MACHINE, "method": {"rounds": 9, "rest_ms": 20.0, "replay_us": 3000.0, "tune": 0}, "shapes": shapes}


def packed_of(m: int, us: float, x: str = "fp16", right: bool = True) -> dict:
    return {"name": f"{m}x64x64 {x}", "problem": {"weights": "uint4", "x": x, "m": m, "n": 64, "k": 64, "group": 64}, "chosen_by": "record",
            "contenders": [timed(OURS, us, right), timed(PEER_FP8, 12.0), timed(OUR_FP8, 10.0), timed(PEER_16, 20.0)]}


def arm(name: str, us: float, **more) -> dict:
    return {"name": name, "us_a_layer": {"median": us}} | more


def chain_of(layer: str, arms: list[dict], started: str = "2026-01-01", **more) -> dict:
    chain = {"name": layer, "model": "a-model", "tokens": 4, "weights": "e4m3", "activations": "e4m3", "weight_bytes_a_layer": 46_000_000, "arms": arms}
    return {"schema": "sluice-chain-1", "commit": "", "started": started, "peak_tbps": 4.6, "chains": [chain | more]}


class Folder:
    """bench/results, docs and README of an invented project."""

    def __init__(self, root: pathlib.Path, gpu: str = "h200"):
        self.root, self.results, self.docs = root, root / "results", root / "docs"
        (self.results / gpu).mkdir(parents=True)
        self.docs.mkdir()
        self.gpu = self.results / gpu

    def put(self, name: str, record: dict) -> None:
        (self.gpu / name).parent.mkdir(exist_ok=True)
        (self.gpu / name).write_text(json.dumps(record))

    def rows(self, table: str) -> list[dict]:
        return parsed(texts_of(self.gpu).get(table, ""))

    def data(self) -> Data:
        return Data(texts_of(self.gpu))

    def page(self, name: str = "performance.md") -> str:
        return pages.made(self.results, self.docs).get(self.docs / name, "")

    def says(self, *lines: str) -> None:
        """Fails unless docs/performance.md has these lines."""
        text = flat(self.page())
        for line in lines:
            assert line in text, (line, self.page())


def flat(text: str) -> str:
    return " ".join(text.split())


def check_products(folder: Folder) -> None:
    """A wrong kernel has no time; the peer is cuBLASLt's fastest in the race, under any name."""
    more = [timed("cuBLASLt another", 7.0), timed("cuBLASLt wrong", 1.0, verified=False), {"name": "cuBLASLt broken", "error": "no"}, timed(READ, 2.0)]
    folder.put("engine.json", run_of([shape_of(1, "bf16", [timed(OURS, 10.0), timed(FIRST, 8.0), timed(BEST, 9.0), *more]),
                                      shape_of(2, "bf16", [timed(OURS, 1.0, verified=False), timed(BEST, 9.0)]),
                                      {"name": "3", "problem": shape_of(3, "e4m3", [])["problem"], "error": "refused for a reason"}]))
    first, wrong, refused = folder.rows("products")
    assert first["cublaslt_us"] == 7.0 and ratio(first) == 0.7 and first["cublaslt_first_us"] == 8.0 and first["plain_read_us"] == 2.0, first
    assert first["failed"] == "cuBLASLt wrong: wrong: made up; cuBLASLt broken: no", first
    assert wrong["us"] is None and wrong["kernel"] is None and wrong["failed"] == "sluice: wrong: made up", wrong
    assert refused["us"] is None and refused["failed"] == "refused for a reason", refused
    folder.says("| large products, M 1-3 | cuBLASLt's best | 0.70 (0.70 to 0.70; 1 of 2) | model | 0123abc |")
    folder.put("other.json", {"schema": "something else"})
    assert "something else" in refusal(SystemExit, texts_of, folder.gpu), "a foreign schema"


def check_floor(folder: Folder) -> None:
    """The floor must be the longer of the two times."""
    flops, moved = 845.0e6 * 10, 4.5e6 * 5
    folder.put("tokens.json", run_of([shape_of(256, "bf16", [timed(OURS, 20.0)]) | {"flops": flops, "bytes": moved},
                                      shape_of(256, "bf16", [timed(OURS, 20.0)]) | {"flops": 1.0, "bytes": moved},
                                      shape_of(256, "e4m3", [timed(OURS, 20.0)]) | {"flops": flops, "bytes": 1.0}]))
    assert [row["floor_us"] for row in folder.rows("products")] == [10.0, 5.0, 5.015]


def check_files(folder: Folder) -> None:
    """A record states its commit, day and command, or the cell is empty."""
    for text in ("", None, "timeline", "see findings", "abc"):
        assert commit_of({"commit": text}) == commit_of({}) == NO_COMMIT, text
    assert commit_of({"commit": "0123abcd" * 5}) == "0123abc" and commit_of({"commit": "0123abcd" * 5 + "-dirty"}) == "0123abc-dirty"
    folder.put("engine.json", run_of([shape_of(1, "bf16", [timed(OURS, 10.0), timed(BEST, 9.0)])]))
    folder.put("python/cost.json", {"host_us": {}, "gpu": "G"})
    folder.put("experts/few.json", {"run": {"commit": "0123abcd-dirty", "command": "few.py"}, "results": []})
    assert [row["commit"] for row in folder.rows("files") if row["command"] == "few.py"] == ["0123abc-dirty"], "of a run"
    (folder.gpu / "experts/few.json").unlink()
    cost, engine = sorted(folder.rows("files"), key=lambda row: row["file"], reverse=True)
    assert engine["commit"] == "0123abc" and engine["seconds"] == 0.5 and engine["command"] == "sluice bench --set made-up", engine
    assert cost["commit"] == NO_COMMIT and cost["started"] is None and cost["command"] is None, cost


def check_ages(folder: Folder) -> None:
    """Each commit that is shown has the days of its records."""
    folder.put("engine.json", run_of([shape_of(1, "bf16", [timed(OURS, 10.0), timed(BEST, 9.0)])]))
    folder.put("blind.json", run_of([shape_of(1, "bf16", [timed(OURS, 10.0), timed(BEST, 9.0)])]) | {"commit": "abcdef0", "started": "2026-01-03T00:00:00Z"})
    folder.says("| Made-up GPU | 0123abc | 2026-01-01 |", "| Made-up GPU | abcdef0 | 2026-01-03 |")
    assert pages.measured([folder.data()]) == "Measured on: Made-up GPU, from 2026-01-01 to 2026-01-03.", pages.measured([folder.data()])


def check_readme(folder: Folder) -> None:
    """Each line shows the worst and the best result. There is an int4 line per number of tokens. Nothing
    outside the markers changes."""
    readme = folder.root / "README.md"

    def block() -> str:
        return pages.made(folder.results, folder.docs)[readme]
    begin, end = pages.marks_of("speed")
    readme.write_text(f"before\n{begin}\nold\n{end}\nbehind\n")
    assert block() == readme.read_text(), "without a record nothing is said"
    folder.put("engine.json", run_of([shape_of(1024, "bf16", [timed(OURS, 10.0), timed(BEST, us)], by="record") for us in (12.5, 9.0)]))
    folder.put("long_k.json", run_of([shape_of(64, "bf16", [timed(OURS, 10.0), timed(BEST, 9.5)], by="record")]))
    folder.put("odd_rows.json", run_of([shape_of(65, "e4m3", [timed(OURS, 10.0), timed(BEST, 7.0)])]))
    folder.put("strided.json", run_of([shape_of(64, "bf16", [timed(OURS, 10.0), timed(BEST, 1.5)])]))
    folder.put("packed/mixed.json", run_of([packed_of(1, 5.0), packed_of(64, 20.0), packed_of(64, 0.1, right=False), packed_of(16, 8.0, x="e4m3")]))
    arms = [arm("off", 40.0, differing=0), arm("tuned", 20.0, differing=0), arm("tuned, fused: gated", 10.0, differing=3), arm("cuBLASLt", 50.0)]
    folder.put("chains/a.json", chain_of("a layer", arms))
    text = block()
    assert text.startswith("before\n") and text.endswith("\nbehind\n") and "\nold\n" not in text and "long k" not in text, text
    for line in ("| large products, M 1024 | cuBLASLt's best | 1.06 (0.90 to 1.25; 2) | - | tuning record |",
                 "| shapes without a tuning record, M 65 | cuBLASLt's best | - | 0.70 (0.70 to 0.70; 1) | model |",
                 "| 16 bits, strides that TMA cannot read, M 64 | cuBLASLt's best | 0.15 (0.15 to 0.15; 1) | - | model |",
                 "| int4, known layers, 1 token | FP8 | 2.00 (2.00 to 2.00; 1) | - |", "| int4, known layers, 16 tokens | FP8 | - | 1.25 (1.25 to 1.25; 1) |",
                 "fp8 as `convert_` runs it has not been measured yet."):
        assert line in flat(text), (line, text)
    folder.says("| long k, small D, M 64 | cuBLASLt's best | 0.95 (0.95 to 0.95; 1) |", "| int4, known layers, 64 tokens | FP8 | 0.50 (0.50 to 0.50; 1 of 2) | - |",
                "| a layer as a chain, 4 tokens | cuBLASLt | 2.50 (2.50 to 2.50; 1) | tuning record |")
    assert "chain, fused" not in folder.page(), "fused has other bits"
    readme.write_text("no markers")
    assert block() == "no markers"


def check_rows_of_convert(folder: Folder) -> None:
    """fp8 with row scales is compared with the faster of cuBLASLt and torch, each in its own run."""
    def shape(m: int, peer: str, us: float, theirs: float) -> dict:
        return shape_of(m, "e4m3", [timed(OURS, us), timed(peer, theirs)], by="record", accumulate="promoted", scale_a="vector", scale_b="vector")
    folder.put("row.json", run_of([shape(1, BEST, 10.0, 12.0), shape(64, BEST, 10.0, 20.0), shape(256, BEST, 10.0, 11.0)]))
    folder.says("convert_` runs it (row scales, promoted sums), M 1-64 | the faster of cuBLASLt and torch | 1.55 (1.20 to 2.00; 2) | tuning record |")
    folder.put("row_torch.json", {**run_of([shape(1, "torch._scaled_mm", 20.0, 30.0), shape(64, "torch._scaled_mm", 20.0, 30.0)]), "schema": "sluice-row-torch-1"})
    folder.says("M 1-64 | the faster of cuBLASLt and torch | 1.34 (1.20 to 1.50; 2) | tuning record |",
                "M 256 | the faster of cuBLASLt and torch | 1.10 (1.10 to 1.10; 1) | tuning record |")
    assert "not been measured yet" not in pages.speed([folder.data()])


def check_decoding(folder: Folder) -> None:
    """Decoding is compared with the faster of PyTorch's compiled loops of the same model, batch and context. An arm without its peer
    has no line. A block has a line per number of tokens."""
    rows = [{"model": model, "arm": name, "batch": batch, "context": 128, "tokens_s": rate * batch} for model in ("llama3-8b", "phi-4")
            for name, rate in (("chain_row_tuned", 330.0), ("fp8_row", 200.0), ("chain_int4_tuned", 504.0), ("chain_tensor_tuned", 363.0))
            for batch in (16, 1)]
    rows.append({"model": "phi-4", "arm": "fp8_row_pdl", "batch": 1, "context": 128, "tokens_s": 220.0})
    folder.put("python/decode_arms_two.json", {"gpu": "Made-up GPU", "rows": rows})
    block = {"tokens": 16, "torch us": 20.0, "sluice row us": 10.0, "sluice tensor us": 16.0, "torch error": 0, "sluice error": 0}
    folder.put("python/llama_block.json", {"gpu": "Made-up GPU", "rows": [block]})
    told = folder.page()
    assert "| decoding, a chain, row scales, 1-16 sequences | torch.compile, `_scaled_mm`, row scales | 1.61 (1.50 to 1.65; 4) | model |" in told, told
    assert "tinygemm" not in told and "static scales" not in told and "| a Llama 3 8B block, 16 tokens | `torch._scaled_mm` | 2.00 (2.00 to 2.00; 1) |" in told, told


def check_experts(folder: Folder) -> None:
    """Products, layers and decoding of experts have a table each, with the mean and the worst of each peer; a peer that refused has none."""
    us = [{"sluice fp8": 50.0, "sluice bf16": 80.0, "DeepGEMM fp8": 60.0, "torch bf16": 100.0}, {"sluice fp8": 50.0, "sluice bf16": 80.0, "torch bf16": 72.0}]
    rows = [{"groups": 8, "rows": 4, "n": 4096, "k": 7168, "us": times, "floor_us": {"fp8": 45.0, "bf16": 75.0}} for times in us]
    folder.put("experts/few.json", {"gpu": "Made-up GPU", "results": [*rows, {"groups": 1, "error": "out of memory"}]})
    layer = {"sluice": 20.0, "sluice ops": 22.0, "sluice ops, batch_invariant": 30.0, "vLLM Triton": 30.0}
    of_layer = {"model": "M", "tokens": 1, "floor_us": 8.0, "us": layer, "routing": "uniform", "used": 3}
    skewed = of_layer | {"routing": "zipf", "us": layer | {"vLLM Triton": 18.0}}
    folder.put("experts/layers.json", {"gpu": "Made-up GPU", "results": [of_layer, skewed]})
    folder.put("experts/slots.json", {"gpu": "Made-up GPU", "results": [of_layer | {"us": layer | {"sluice": 1.0}}, of_layer | {"tokens": 2}, of_layer | {"tokens": 4, "used": 0},
                                                                                of_layer | {"tokens": 4, "model": "Mixtral"}]})
    packed = {"model": "M", "tokens": 1, "read_us": 9.0, "us": {"sluice": 12.0, "sluice chain": 10.0, "Marlin": 15.0}}
    folder.put("experts/int4.json", {"gpu": "Made-up GPU", "results": [packed | {"product": "layer"}, packed | {"product": "down"}]})
    sides = {"sluice": 40.0, "sluice, padded": 30.0, "triton_kernels": 36.0}
    folder.put("experts/gpt_oss.json", {"gpu": "Made-up GPU", "results": [{"model": "gpt-oss-20b", "tokens": 64, "us": sides}]})
    fast = {"sluice": 50.0, "sluice, fast sums": 40.0, "torch": 60.0, "CUTLASS (vLLM)": 44.0}
    folder.put("experts/rows.json", {"gpu": "Made-up GPU", "results": [{"us": fast}]})
    arms = [{"arm": arm, "batch": 1, "ms_layer": ms / 50, "ms_whole": ms} for arm, ms in (("row", 2.0), ("grouped_mm", 5.0), ("batched_mm", 6.0))]
    folder.put("experts/decode.json", {"gpu": "Made-up GPU", "layers": [2, 4], "whole": "50 layers, extrapolated", "rows": arms})
    made = experts.block(folder.results, "h200")
    for words in ("| 8 x 4 | 4096 x 7168 | 50.0 | 0.90 | 1.20 | 1.25 |", "| 50.0 | 0.90 | - | 0.90 |", "DeepGEMM fp8 / sluice fp8 1.20 in the mean, 1.20 at worst",
                  "torch bf16 / sluice bf16 1.06 in the mean, 0.90 at worst", "| M | 1 | 3 | 20 | 22 | 30 | 8 | 1.50 | | M | 2 |", "| Mixtral | 4 | 3 | 20 | 22 | 30 | 8 | - |", "uniform routing, 2 layers: 1.50",
                  "experts by Zipf 0.8, 1 layers: 0.90 in the mean, 0.90 at worst", "| M | 1 | 10 | 12 | 9 | 1.50 |", "Marlin's layer / sluice 1.50 in the mean",
                  "| gpt-oss-20b | 64 | 40 | 30 | - | 36 | 1.20 |", "as a checkpoint is read 0.90 in the mean", "CUTLASS (vLLM) / sluice 0.88 in the mean",
                  "| row | 1 | 40 | 2.00 | 2.50 |",
                  "| grouped_mm | 1 | 100 | 5.00 | - |"):
        assert words in " ".join(made.split()), (words, made)
    assert experts.block(folder.results, "h100") is None, "no records"


def check_unshown(folder: Folder) -> None:
    """Each set has a line, and README shows the worst recorded result of each feature and type."""
    def put(name: str, kind: str, theirs: float, by: str = "record") -> list[str]:
        folder.put(name, run_of([shape_of(64, kind, [timed(OURS, 10.0), timed(BEST, theirs)], by=by)]))
        return unshown([folder.data()])
    for name, kind, theirs, by, fault in (
            ("engine.json", "bf16", 9.0, "record", ""), ("strided.json", "bf16", 1.5, "model", ""), ("long_k.json", "bf16", 9.5, "record", ""),
            ("long_k.json", "bf16", 8.0, "record", "README shows nothing worse than 0.90 of dense, 16 bits, and docs/performance.md has 0.80"),
            ("long_k.json", "bf16", 9.5, "record", ""), ("block.json", "e4m3", 7.0, "record", "of dense, fp8, and docs/performance.md has 0.70"),
            ("odd_rows.json", "e4m3", 6.0, "model", ""), ("another.json", "bf16", 9.5, "record", "another has no line")):
        found = put(name, kind, theirs, by)
        assert len(found) == bool(fault) and fault in "".join(found), (name, theirs, found)


def check_packed(folder: Folder) -> None:
    """The faster FP8 product counts, a wrong kernel has no time, and the record is not one of dense products."""
    folder.put("packed/mixed.json", run_of([packed_of(16, 5.0), packed_of(16, 1.0, right=False), packed_of(96, 20.0)]))
    rows = folder.rows("packed")
    assert [row["us"] for row in rows] == [5.0, None, 20.0] and rows[0]["fp8_us"] == 10.0 and rows[0]["bits16_us"] == 20.0 and not folder.rows("products")
    folder.says("| int4, known layers, 16 tokens | FP8 | 2.00 (2.00 to 2.00; 1 of 2) |", "| int4, known layers, 16-96 tokens | cuBLASLt in 16 bits | 2.00 (1.00 to 4.00; 2 of 3) |")
    lost = flat(folder.page("performance-losses.md"))
    assert "Slower than FP8 from 96 16-bit tokens on, in the mean of known layers. The worst mean is 0.50, at 96 16-bit tokens." in lost, lost


def check_chains(folder: Folder) -> None:
    """A variant with other bits has no time. All variants come from the newest file that has the peer."""
    arms = [arm("off", 40.0, differing=0), arm("tuned", 20.0, differing=0), arm("wrong", 10.0, differing=3), {"name": "broken", "error": "driver: no"}]
    folder.put("chains/old.json", chain_of("a layer", [*arms, arm("cuBLASLt", 99.0)], started="2025-12-31"))
    folder.put("chains/new.json", chain_of("a layer", [*arms, arm("cuBLASLt", 50.0)]))
    folder.put("chains/newest.json", chain_of("a layer", [arm("tuned", 1.0, differing=0)], started="2026-02-01"))
    folder.put("chains/short.json", chain_of("a layer", [arm("off", 1.0, differing=0, replays=100_000), arm("cuBLASLt", 99.0)],
                                             started="2026-03-01", passes=1))
    folder.put("chains/window.json", chain_of("a layer", [arm("tuned", 2.0, differing=0, hidden_us=3.0), arm("cuBLASLt", 99.0)], started="2026-03-01",
                                              window={"us": 7, "before": "o", "allowed_us": 5.0}))
    rows = folder.rows("chains")
    told = {row["arm"]: (row["us_a_layer"], row["failed"]) for row in rows if row["file"] == "new"}
    assert told["wrong"] == (None, "other bits than its own kernels with the overlap off") and told["broken"] == (None, "driver: no"), told
    shown = newest_chains(rows)
    assert {row["file"] for row in shown} == {"new"} and [row["us_a_layer"] for row in shown] == [40.0, 20.0, 50.0], shown
    folder.says("| a layer as a chain, 4 tokens | cuBLASLt | 2.50 (2.50 to 2.50; 1) | tuning record |", "1 chains were replayed 100,000 times or more")
    picture = pictures.chains(rows)
    assert ">50.0<" in picture and ">20.0<" in picture and ">10.0<" not in picture and ">99.0<" not in picture, picture


def check_ranges(folder: Folder) -> None:
    """Ranges of rows count wrong points."""
    point = {"m": 7, "same": False, "loss": 0.01, "verified": True}
    layer = {"name": "a layer", "kernels": 9, "kernels_alone": 30, "measured": {"mean_loss": 0.012, "worst_loss": 0.05},
             "points": [point, point | {"verified": False}, {"m": 9, "same": False, "error": "no"}]}
    folder.put("rows.json", {"schema": "sluice-rows-1", "commit": "0123abcd" * 5, "layers": [layer, {"name": "another", "error": "out of memory"}]})
    found, failed = folder.rows("ranges")
    assert found["wrong"] == 2 and failed["failed"] == "out of memory" and failed["mean_loss"] is None, (found, failed)
    assert "1.2 % longer in the mean of 1 layers, 5.0 % at worst (a layer), by `sluice_lab rows` at 0123abc." in flat(folder.page("performance-losses.md"))


def check_int4_peers(folder: Folder) -> None:
    """The faster of Marlin and Machete is the peer. One that refuses or is wrong has no time. Losses are stated."""
    def shape(m: int, contenders: list[dict], name: str = "int4_blind_0123abc") -> dict:
        return {"list": name, "chosen_by": "model", "problem": {"m": m, "n": 256, "k": 128, "group": 64, "dtype": "fp16"}, "contenders": contenders}
    refused, wrong = {"name": "Machete", "verified": False, "refused": "no groups of 32"}, {"name": "Machete", "verified": False, "error": "3 of 4"}
    shapes = [shape(1, [timed(OURS, 10.0), timed("Marlin", 20.0), timed("Machete", 15.0)]), shape(2, [timed(OURS, 10.0), timed("Marlin", 20.0), refused]),
              shape(500, [timed(OURS, 10.0), timed("Marlin", 20.0), timed("Machete", 8.0)]), shape(3, [timed(OURS, 10.0), wrong])]
    folder.put("peers/int4.json", {"schema": "sluice-int4-peers-1", "commit": "0123abc", "versions": {"vllm": "1.2.3"}, "shapes": shapes})
    folder.put("packed/mixed.json", run_of([packed_of(64, 12.5)]))
    rows = folder.rows("int4_peers")
    assert [row["peer_us"] for row in rows] == [15.0, 20.0, 8.0, None] and rows[3]["failed"] == "Machete: 3 of 4" and rows[1]["failed"] is None, rows
    folder.says("| int4, random products, 1-500 tokens | the faster of Marlin and Machete | 1.10 (0.80 to 1.50; 2) |",
                "| int4, random products, 2 tokens | Marlin (the other does not run) | 2.00 (2.00 to 2.00; 1) |", "Not timed: CUTLASS, TensorRT-LLM, DeepGEMM.")
    assert "the faster of Marlin and Machete, 1 of 3 are slower, from 500 tokens on, at worst 0.80" in flat(folder.page("performance-losses.md"))


def check_losses(folder: Folder) -> None:
    """A loss is stated, with its shape, if rows show one. Otherwise nothing is claimed."""
    def put(ours: float) -> str:
        slow = [timed(OURS, ours), timed(BEST, 10.0), timed(TUNED, 8.0)]
        blind = shape_of(7, "bf16", slow, bias=True) | {"candidates": [{"name": "a", "us": 8.0, "verified": True}, {"name": "b", "us": 1.0, "verified": False}]}
        folder.put("blind.json", run_of([blind]))
        folder.put("engine.json", run_of([shape_of(8192, "e4m3", [timed(OURS, ours), timed(BEST, 10.0)], by="record")]))
        folder.put("promoted.json", run_of([shape_of(8192, "e4m3", [timed(OURS, 1.21 * ours), timed(BEST, 10.0)], by="record", accumulate="promoted")]))
        folder.put("packed/mixed.json", run_of([packed_of(64, ours)]))
        return flat("\n".join(losses.where_we_lose(folder.data())))
    text = put(12.5)
    assert "1 of 1 are slower than cuBLASLt's best by more than 1 %. - The slowest: 0.80 at 7 x 64 x 64 bias (measured at 0123abc)." in text, text
    assert "On 1 random shapes the planner's pick takes 56.2 % longer in the mean, and 56.2 % at worst, than the fastest of its own first 1 candidates" in text, text
    assert "The worst mean is 0.80, at 64 16-bit tokens." in text and "From 8192 rows" not in text and "the slowest 0.80 at 8192 x 64 x 64. - SMs ran at 1600 to 1600 MHz" in text, text
    assert "The slowest: 0.66 at 8192 x 64 x 64 (promoted)." in text and "21.0 % longer than fast sums in the mean of 1 shapes" in text, text
    assert put(5.0) == "", put(5.0)


def check_pictures(folder: Folder) -> None:
    """Each shape that is right on both sides has a dot, the slowest three have names; files are small and
    reproducible."""
    shapes = [shape_of(m, "bf16", [timed(OURS, 10.0), timed(BEST, us)]) for m, us in ((64, 7.0), (65, 8.0), (66, 9.0), (67, 9.5))]
    folder.put("engine.json", run_of([*shapes, shape_of(68, "bf16", [timed(OURS, 10.0), timed(BEST, 1.0, verified=False)])]))
    texts = pages.made(folder.results, folder.docs)
    assert sorted(path.name for path in texts if path.suffix == ".svg") == ["dense.svg"], "no rows, no picture"
    picture = texts[folder.docs / "img/dense.svg"]
    assert picture.count("h0") == 4 and all(f">{words}: {m} x 64 x 64<" in picture for m, words in ((64, "0.70"), (65, "0.80"), (66, "0.90"))), picture
    assert "68 x" not in picture and picture == pages.made(folder.results, folder.docs)[folder.docs / "img/dense.svg"]
    assert len(picture.splitlines()) < 500 and "prefers-color-scheme:dark" in picture


def check_check(folder: Folder) -> None:
    """--check finds each way in which a page, table or picture can differ from the records."""
    def quiet(action) -> int:
        with contextlib.redirect_stdout(io.StringIO()):
            return action(folder.results, folder.docs)
    folder.put("engine.json", run_of([shape_of(1024, "bf16", [timed(OURS, 10.0), timed(BEST, 12.5)])]))
    described, page = folder.results / "README.md", folder.docs / "performance.md"
    described.write_text("\n".join(f"| `{name}` | x |" for name in ("*.json", "*.csv")))
    quiet(pages.write)
    assert quiet(pages.check) == 0
    for path, old, new in ((page, "1.25", "1.35"), (folder.gpu / "products.csv", "12.5", "13.5"),
                           (folder.docs / "img/dense.svg", "1.25", "1.35"), (described, "*.csv", "a*.csv")):
        text = path.read_text()
        assert old in text, (path, old)
        path.write_text(text.replace(old, new))
        assert quiet(pages.check) == 1, (path, new)
        path.write_text(text)
    for path, text in ((folder.docs / "img/old.svg", ""), (folder.gpu / "packed.csv", "set\n")):
        path.write_text(text)
        assert quiet(pages.check) == 1, (path, "a picture that no page shows, a table without records")
        path.unlink()
    (folder.gpu / "trials.jsonl").write_text("x" * 100_001)
    assert len(pages.too_large(folder.results)) == quiet(pages.check) == 1
    (folder.gpu / "trials.jsonl").unlink()
    folder.put("long_k.json", run_of([shape_of(64, "bf16", [timed(OURS, 10.0), timed(BEST, 1.0)], by="record")]))
    quiet(pages.write)
    assert quiet(pages.check) == 1, "a result that is worse than all that README shows"


def check_other_gpus(folder: Folder) -> None:
    """Another GPU has columns of its own, and none of its rows is among the first GPU's."""
    folder.put("engine.json", run_of([shape_of(1024, "bf16", [timed(OURS, 10.0), timed(BEST, 12.5)])]))
    other = folder.results / "h100"
    other.mkdir()
    (other / "engine.json").write_text(json.dumps(run_of([shape_of(1024, "bf16", [timed(OURS, 10.0), timed(BEST, 5.0)])]) | {"machine": MACHINE | {"gpu": "an H100"}}))
    folder.says("| GPU, 16 bits | H100, 16 bits |", "| large products, M 1024 | cuBLASLt's best | 1.25 (1.25 to 1.25; 1) | 0.50 (0.50 to 0.50; 1) |", "1 shapes, compared")
    assert (other / "products.csv") in pages.made(folder.results, folder.docs)


def run() -> int:
    check_certificates()
    checks = (check_products, check_floor, check_files, check_ages, check_readme, check_rows_of_convert, check_decoding, check_experts, check_unshown, check_packed, check_chains, check_ranges, check_int4_peers, check_losses,
              check_pictures, check_check, check_other_gpus)
    for check in checks:
        with tempfile.TemporaryDirectory() as name:
            check(Folder(pathlib.Path(name)))
    with tempfile.TemporaryDirectory() as name:
        assert "No bench result" in Folder(pathlib.Path(name)).page()
    print(f"report: self-test passed, {len(checks) + 2} checks")
    return 0
