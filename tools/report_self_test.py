# SPDX-License-Identifier: Apache-2.0
"""`report.py --self-test`: pages from records that are made up, so that what may stand in a table is known. Runs in
ctest (tests/unit/cli_report_test.cc), with plots or without.
"""
import copy
import json
import pathlib
import tempfile

import report_timelines
from report_chains import chains_section
from report_data import (BEST, FIRST, NO_COMMIT, OURS, READ, SCHEMA, TUNED, algorithms, commit_of, load_runs, median, peer_words,
                         ratio)
from report_packed import OUR_FP8, PEER_16, PEER_FP8, packed_section, short_by_tokens
from report_sections import block_section, plain_read, promoted_section, untuned_sections
import report_readme
import report_sections
from report_certificates_self_test import check_certificates
from report_files import CountedAt, ages, files_section, head
from report_floor import floor_section
from report_rows import rows_section
from source_hash import hash_of
from report_torch import triton_section, triton_sentence


def timed(name: str, us: float, verified: bool = True) -> dict:
    return {"name": name, "detail": f"kernel of {name}", "us": {"median": us, "p10": us, "p90": us},
            "rates": {"tflops": 1000.0, "gbps": 900.0, "peak_share": 0.6}, "launches": 9, "rounds": [us],
            "verified": verified, "verdict": "made up"}


def shape_of(m: int, kind: str, contenders: list[dict], **different) -> dict:
    problem = {"m": m, "n": 64, "k": 64, "batch": 1, "a": kind, "b": kind, "d": "bf16", "a_layout": "k", "b_layout": "k",
               "accumulate": "fast", "scale_a": "none", "scale_b": "none", "bias": False, "activation": "none",
               "residual": False} | different
    return {"name": f"{m}x64x64 {kind} > bf16", "flops": 2.0 * m * 64 * 64, "bytes": 64.0 * m, "copies": 3,
            "problem": problem, "chosen_by": "model",
            "telemetry": {"samples": 1, "sm_mhz": {"median": 1700.0, "min": 1600.0},
                          "power_w": {"mean": 600.0, "max": 690.0}, "celsius_max": 50.0},
            "peer_algorithms": 8, "ratios": {}, "contenders": contenders}


def made_up_run(shapes: list[dict] | None = None) -> dict:
    """A record; unless told otherwise of a good shape, one with a wrong kernel, one without a peer."""
    shapes = shapes or [shape_of(128, "bf16", [timed(OURS, 10.0), timed(FIRST, 16.0), timed(BEST, 12.5)]),
                        shape_of(256, "bf16", [timed(OURS, 1.0, verified=False), timed(FIRST, 9.0),
                                               timed(BEST, 2.0, verified=False)]),
                        shape_of(512, "e4m3", [timed(OURS, 7.0), {"name": FIRST, "detail": "", "error": "not here"}])]
    return {"schema": SCHEMA, "started": "2026-01-01T00:00:00Z", "command": "sluice bench --set made-up", "commit": "0123abcd",
            "machine": {"gpu": "Made-up GPU", "sm_count": 132, "driver": "1", "power_limit_w": 700.0,
                        "fp16_peak_tflops": 845.0, "fp8_peak_tflops": 1685.0, "hbm_gbps": 4500.0, "cpu": "", "system": ""},
            "versions": {"nvrtc": "NVRTC 13.0", "cublaslt": "13.0.0", "cublaslt_path": ""},
            "method": {"mode": "cold", "rounds": 9, "rest_ms": 20.0, "replay_us": 3000.0, "tune": 0, "fill": "normal"},
            "shapes": shapes}


def named(name: str, shapes: list[dict]) -> dict:
    return made_up_run(shapes) | {"file": f"{name}.json"}


def check_readme(folder: pathlib.Path) -> None:
    """Wrong results count no more than on the page, and nothing outside of the markers is touched."""
    readme = folder / "README.md"
    readme.write_text(f"before\n{report_readme.BEGIN}\nold\n{report_readme.END}\nbehind\n")

    def updated(runs: list[dict]) -> str:
        texts = {readme: readme.read_text()}
        report_readme.put_into(texts, readme, runs, folder)
        return texts[readme]

    def peers(runs: list[dict]) -> str:
        """What the page says of them."""
        return report_readme.one_algorithm(runs) + report_readme.without_peer(runs)

    runs = [named("engine", [shape_of(128, "bf16", [timed(OURS, 10.0), timed(BEST, 12.5)]),
                             shape_of(256, "bf16", [timed(OURS, 10.0), timed(BEST, 9.0)]),
                             shape_of(512, "bf16", [timed(OURS, 1.0, verified=False), timed(BEST, 9.0)])])]
    text = updated(runs)
    assert text.startswith("before\n") and text.endswith("\nbehind\n") and "\nold\n" not in text, text
    assert "| large products, M 1024 to 8192 | 1.06 (0.90 to 1.25; 2 of 3) | - | - | model | 0123abc, 2026-01-01 |" in text, text
    assert peers(runs) == 'Not compared, for one side has no verified result: "large products, M 1024 to 8192" bf16 to bf16 (1 of 3).', peers(runs)
    assert "**Without records: 1.06 in the mean of 2 shapes, least 0.90, most 1.25.**" in text, text
    assert f'counted at {head()} (kernels {hash_of("kernels")}): 0123abc ("large products, M 1024 to 8192").' in text, text
    tuned = [named("engine", [s | {"chosen_by": "record"} for s in runs[0]["shapes"]])]
    assert "**With records of these very shapes: large products, M 1024 to 8192: 1.06 (bf16; least 0.90).**" in updated(tuned)
    scales = {"scale_a": "block", "scale_b": "block"}
    lone = [shape_of(1, "e4m3", [timed(OURS, 10.0), timed(BEST, 12.0)], **scales) | {"peer_algorithms": 1},
            shape_of(2, "e4m3", [timed(OURS, 10.0), {"name": FIRST, "error": "not supported"}], **scales) | {"peer_algorithms": 0}]
    lone_too = runs + [named("block", lone) | {"commit": ""}]
    text, said = updated(lone_too), peers(lone_too)
    assert "| fp8, block scales | - | 1.20 (1.20 to 1.20; 1 of 2) | - | model | commit not recorded, 2026-01-01 |" in text, text
    assert 'no best of several: 1 of 2 of "fp8, block scales" e4m3.' in said and '(1 of 3); "fp8, block scales" e4m3 to bf16' in said, said
    assert 'commit not recorded ("fp8, block scales")' in text, text
    promoted = shape_of(7, "e4m3", [timed(OURS, 10.0), timed(BEST, 9.0), timed(TUNED, 8.0)], accumulate="promoted")
    drawn = [promoted | {"chosen_by": "model", "candidates": [{"name": "a", "us": 8.0, "verified": True}]},
             shape_of(9, "bf16", [timed(OURS, 10.0), timed(BEST, 9.5)], d="fp32")]
    text = updated(runs + [named("blind", drawn)])
    assert "| random shapes and layouts, first look | - | - | e4m3, promoted 0.90 (0.90 to 0.90; 1); bf16 to fp32 0.95 (0.95 to 0.95; 1) |" in text, text
    assert "On 1 random shapes and layouts without a record, seen before it was measured, the planner's choice loses 25.0 % in the mean" in text, text
    epilogues = updated([named("epilogues", runs[0]["shapes"])])
    assert "| short k: no epilogue, bias, bias and GELU | 1.06" in epilogues, "every set has its row"
    readme.write_text("no markers")
    assert updated(runs) == "no markers"


def check_best() -> None:
    """The peer is the fastest of cuBLASLt's in the race, whatever its name; a wrong one has no time, however fast."""
    shape = shape_of(1, "bf16", [timed(OURS, 10.0), timed(FIRST, 8.0), timed(BEST, 9.0)])
    assert median(shape, BEST) == 8.0 and ratio(shape, OURS, BEST) == 0.8 and median(shape, FIRST) == 8.0
    shape["contenders"].append(timed("cuBLASLt another", 7.0))
    assert median(shape, BEST) == 7.0, "any other counts too"
    shape["contenders"] += [timed("cuBLASLt wrong", 1.0, verified=False), {"name": "cuBLASLt broken", "error": "no"}, timed(READ, 2.0)]
    assert median(shape, BEST) == 7.0
    run = named("engine", [shape_of(1, "bf16", [timed(OURS, 10.0), timed(FIRST, 8.0), timed(BEST, 9.0)])])
    assert "| 0.90 |" not in block_section([run]) + floor_section([run])
    plain = named("decode", [shape_of(1, "bf16", [timed(OURS, 10.0), timed(READ, 12.0)]), shape_of(2, "bf16", [timed(OURS, 10.0), timed(READ, 9.0)])])
    assert "sluice beat it on 1 of 2 shapes, by 20.0 % at most" in plain_read([plain]) and plain_read([run]) == ""
    assert algorithms([{"peer_algorithms": n} for n in (8, 1, 8)]) == "1 / 8 / 8" and algorithms([{"peer_algorithms": 8}] * 2) == "8"
    assert algorithms([{}]) == "not recorded" and peer_words([{"peer_algorithms": 1}]) == "cuBLASLt's only algorithm"


def check_files() -> None:
    """A file says its commit, command and day, or the page says that it does not; nothing is made up."""
    for text in ("", None, "timeline", "see findings", "abc"):
        assert commit_of({"commit": text}) == commit_of({}) == NO_COMMIT, text
    assert commit_of({"commit": "0123abcd" * 5}) == "0123abc"
    assert commit_of({"commit": "0123abcd" * 5 + "-dirty"}) == "0123abc-dirty"
    with tempfile.TemporaryDirectory() as name:
        results = pathlib.Path(name)
        for folder in ("python", "chains"):
            (results / folder).mkdir()
        (results / "engine.json").write_text(json.dumps(made_up_run()))
        (results / "chains" / "window.json").write_text(json.dumps({"started": "2026-01-02", "command": "sluice chain", "commit": "", "method": {"rounds": 7}}))
        (results / "python" / "cost.json").write_text(json.dumps({"host_us": {}}))
        text = files_section(results)
    assert "| engine.json | 0123abc | - | 2026-01-01T00:00:00Z | 9 | 20 | 3.0 | - |" in text, text
    assert "| chains/window.json | commit not recorded | - | 2026-01-02 | 7 | - | - | - |" in text, text
    assert "| python/cost.json | commit not recorded | - | not recorded | - | - | - | - |" in text, text
    assert "# engine.json: 0123abc\nsluice bench --set made-up" in text and "# chains/window.json: commit not recorded\nsluice chain" in text, text
    assert "No command is in python/cost.json. Files of python/" in text, text


def check_triton() -> None:
    """A search that was cut is marked, and two records count as of one visit only where commit and time say so."""
    tuning = {"candidates": 287, "timed": 10, "refused": 0, "wrong": []}
    record = {"commit": "0123abc", "started": "2026-01-01T01:00:00Z",
              "shapes": [{"problem": {"m": 1}, "tuning": tuning, "contenders": [timed("Triton direct", 12.0), timed("torch._scaled_mm", 13.0)]}]}
    run = named("sweep", [shape_of(1, "e4m3", [timed(OURS, 10.0), timed(BEST, 11.0)])])
    with tempfile.TemporaryDirectory() as name:
        results = pathlib.Path(name)
        assert triton_section(results, [run]) == triton_sentence(results, [run]) == ""
        (results / "peers").mkdir()

        def page() -> str:
            (results / "peers" / "triton_sweep.json").write_text(json.dumps(record))
            return triton_section(results, [run])
        text = page()
        assert "| 1 | 10.00 | 12.00 | 1.20 | 13.00 | 11.00 | 10 of 287, **cut** | kernel of Triton direct |" in text, text
        assert "ran out of time at M = 1**" in text and "within two hours of the sweep below and at its commit" in text, text
        assert "ran out of time at 1 of them" in triton_sentence(results, [run])
        tuning["timed"], record["started"] = 287, "2026-01-02T01:00:00Z"
        text = page()
        assert "10 of 287" not in text and "cut" not in text and "not in the same visit" in text, text
        assert "1.20 to 1.20 times as fast" in triton_sentence(results, [run])
        record["commit"] = ""
        assert "commit not recorded, 2026-01-02" in page()


def check_ages() -> None:
    """Every row has its age, counted from the commit at which the page is made, and those that touch kernels apart."""
    run = named("epilogues", made_up_run()["shapes"]) | {"commit": "773e7c6" + "0" * 33}
    try:
        CountedAt.commit = "5aa6d47"
        assert ages([run]) == f'How old rows are, counted at 5aa6d47 (kernels {hash_of("kernels")}): 773e7c6 ("epilogues") is 1 commit before, 0 of which touch kernels.', ages([run])
        older = run | {"commit": "d0e9cc4" + "0" * 33}
        assert "d0e9cc4 (\"epilogues\") is 5 commits before, 1 of which touches kernels" in ages([older]), ages([older])
        assert ages([run | {"commit": ""}]).endswith('commit not recorded ("epilogues").')
    finally:
        CountedAt.commit = ""


def check_blind() -> None:
    """A first look: drawn from a library that is the one which was measured. The list's own commit is a later one."""
    blind, kept = named("blind", made_up_run()["shapes"]), report_sections.drawn_from
    try:
        report_sections.drawn_from = lambda: "4129dd5ca3317e8baa3b72630cea605279de2e94"
        first = report_sections.is_blind
        assert first(blind | {"commit": "d0e9cc46c03e3980a7a498e5097c681b568b3f9b"}), "it adds the list alone"
        assert not first(blind | {"commit": "773e7c6"}), "kernels were changed in between"
        assert not first(blind | {"commit": "d0e9cc4-dirty"}) and not first(blind | {"commit": ""}) and not first(blind | {"commit": "0123abc"})
        assert not first(named("unseen", blind["shapes"]) | {"commit": "d0e9cc4"})
    finally:
        report_sections.drawn_from = kept


def check_floor() -> None:
    """A wrong result has no share, and the floor is the longer of the two times."""
    shapes = [shape_of(256, "bf16", [timed(OURS, 20.0), timed(BEST, 25.0)]) | {"flops": 845.0e6 * 10, "bytes": 4.5e6 * 5},
              shape_of(200, "bf16", [timed(OURS, 10.0), timed(BEST, 10.0)]) | {"flops": 1.0, "bytes": 4.5e6 * 4},
              shape_of(256, "e4m3", [timed(OURS, 1.0, verified=False), timed(BEST, 10.0)])]
    text = floor_section([named("tokens", shapes)])
    assert "| bf16 to bf16 | 129 to 256 | 2 | 0.45 | 0.40 | 0.40 (200 x 64 x 64) |" in text and "e4m3" not in text, text
    assert floor_section([named("types", shapes)]) == ""


def check_promoted() -> None:
    engine = named("engine", [shape_of(m, "e4m3", [timed(OURS, 10.0, verified=m != 3), timed(BEST, 8.0)]) for m in (1, 2, 3)])
    slow = [shape_of(m, "e4m3", [timed(OURS, us), timed(BEST, 12.0, verified=m == 1)], accumulate="promoted")
            for m, us in ((1, 11.0), (2, 12.1), (3, 99.0), (4, 99.0))]  # 3: its twin is wrong; 4: has no twin
    text = promoted_section([engine, named("promoted", slow)])
    assert "| 1 x 64 x 64 | 10.0 | 11.0 | 1.10 | 8.0 | 12.0 | 1.50 |" in text, text
    assert "| 2 x 64 x 64 | 10.0 | 12.1 | 1.21 | 8.0 | - | - |" in text, text
    assert "| 3 x 64 x 64 | - | 99.0 | - | 8.0 | - | - |" in text and "| 4 x" not in text, text
    assert "**15.4 %**" in text and "of 2 layers" in text and "21.0 % (2 x 64 x 64)" in text, text
    assert "in the same session" in text and "not in turn" in text, text
    assert "different sessions" in promoted_section([engine, named("promoted", slow) | {"started": "2026-02-01T00:00:00Z"}])
    assert promoted_section([engine]) == promoted_section([named("promoted", slow)]) == ""


def check_block() -> None:
    scales = {"scale_a": "block", "scale_b": "block"}
    run = named("block", [shape_of(128, "e4m3", [timed(OURS, 9.4), timed(BEST, 4.7)], n=4096, k=4096, **scales),
                          shape_of(128, "e4m3", [timed(OURS, 10.0), timed(BEST, 1.0, verified=False)], **scales),
                          shape_of(256, "e4m3", [timed(OURS, 0.1, verified=False), timed(BEST, 1.0)], **scales)])
    text = block_section([run])
    assert "| 128 x 4096 x 4096 | 9.4 | 4.7 | 0.50 |\n" in text and "DeepGEMM" not in text, text
    assert "| 128 x 64 x 64 | 10.0 | - | - |" in text and "| 256 x" not in text, text
    assert "**0.500**" in text and "On 1 of 2 shapes cuBLASLt has no verified time" in text, text
    run["machine"]["gpu"] = "NVIDIA H200"
    text = block_section([run])
    assert "Against DeepGEMM there is no record." in text and "| 9.4 | 4.7 | 0.50 |\n" in text, "what has no record has no digits"
    assert block_section([]) == ""


def check_unseen() -> None:
    def raced(m: int, pick: float, tuned: float, right: bool = True, by: str = "model") -> dict:
        candidates = [{"name": "kernel of sluice", "us": 11.0, "verified": True}, {"name": "b", "us": 10.0, "verified": True},
                      {"name": "wrong", "us": 1.0, "verified": False}]
        shape = shape_of(m, "bf16", [timed(OURS, pick), timed(TUNED, tuned, verified=right), timed(BEST, 12.0)])
        return shape | {"candidates": candidates, "chosen_by": by}

    run = named("unseen", [raced(1, 12.1, 10.0), raced(2, 10.0, 11.0), raced(3, 10.0, 1.0, right=False),
                           raced(4, 50.0, 1.0, by="record")])
    for shape in run["shapes"]:
        shape["contenders"][0]["detail"] = "kernel of sluice"
    text = untuned_sections([run])
    assert "regression set, not a blind one" in text, text
    blind = run | {"file": "blind.json"}
    both = untuned_sections([blind, run])
    assert both.startswith("## The untuned pick on the list drawn last\n") and both.endswith(text) and "of a first look" not in both, both
    drawn_from = report_sections.drawn_from()
    first_look = untuned_sections([blind | {"commit": drawn_from}])
    assert "of a first look" in first_look and "regression set" not in first_look, first_look
    assert "| bf16 to bf16 | 2 | 1 | 10.0 % | 21.0 % | 10.0 % | 10.0 % |" in text, text
    assert "2 of 4 shapes had no verified race of the model's pick" in text and "first 2 candidates at most" in text, text
    assert "| 12.1 | 10.0 | 21.0 % | 10.0 % | 0.99 |" in text and "| 3 x 64" not in text and "| 4 x 64" not in text, text
    assert "4 candidates failed, were wrong" in text, text
    assert untuned_sections([]) == untuned_sections([named("unseen", [shape_of(1, "bf16", [timed(OURS, 1.0)])])]) == ""


def check_packed() -> None:
    def packed(ours: float, right: bool = True, x: str = "fp16") -> dict:
        return {"name": f"16x64x64 {x} * uint4 g64 > fp16", "problem": {"weights": "uint4", "x": x, "m": 16},
                "chosen_by": "record",
                "contenders": [timed(OURS, ours, verified=right), timed(READ, 4.0), timed(PEER_FP8, 12.0), timed(OUR_FP8, 10.0),
                               timed(PEER_16, 20.0)]}

    with tempfile.TemporaryDirectory() as name:
        results = pathlib.Path(name)
        assert packed_section(results) == ""
        (results / "packed").mkdir()
        (results / "packed" / "mixed.json").write_text(json.dumps(made_up_run([packed(5.0), packed(1.0, right=False)])))
        text = packed_section(results)
        assert "| 5.00 | 4.00 | 1.25 | 10.00 | 2.00 | 20.00 | 4.00 |" in text, "the faster FP8 product counts"
        assert "geometric mean 2.000 x FP8's speed over 1 of 2 shapes" in text, text
        assert "| 16 | 2.00 (1) | 4.00 (1) |" in text and "int4 is in the mean faster at 16 fp16 tokens." in text, text
        assert "| - | 4.00 | - | 10.00 | - |" in text, "a wrong kernel must not have a time"
        assert load_runs(results) == [], "it is no record of dense products"
        (results / "packed" / "mixed.json").write_text(json.dumps(made_up_run([packed(5.0), packed(4.0, x="e4m3")])))
        text = packed_section(results)
        assert "sluice, 16-bit tokens: geometric mean 2.000 x" in text and "sluice, e4m3 tokens: geometric mean 2.500 x" in text, text
        more = packed(20.0)
        more["problem"]["m"] = 1024
        (results / "packed" / "many_a.json").write_text(json.dumps(made_up_run([more]) | {"commit": ""}))
        text = packed_section(results)
        assert "| 1024 | 0.50 (1) | 1.00 (1) | not measured | not measured |" in text, text
        assert "faster at 16, slower at 1024 fp16 tokens; faster at 16 e4m3 tokens." in text and "commit not recorded, 2026-01-01, 9 rounds (many_a)" in text, text
        assert "Planned by record: 2 of 2 with fp16 tokens, 1 of 1 with e4m3 tokens" in text, text
        assert short_by_tokens(results) == "", "no type of tokens was measured on many products"
        (results / "packed" / "mixed.json").write_text(json.dumps(made_up_run([*[packed(5.0) for _ in range(8)], packed(8.0, x="bf16")])))
        text = short_by_tokens(results)
        assert "| 16 | 2.00 (2.00 to 2.00; 8) |" in text and "- One product or two each, x FP8 / x 16-bit: bf16 tokens 1.25 / 2.50 at 16" in text, text
        assert "in the mean faster at 16, slower at 1024 fp16 tokens. Where" in text, text


def check_rows() -> None:
    point = {"m": 7, "drawn": True, "same": False, "loss": 0.01, "verified": True}
    layer = {"name": "a layer", "kernels": 9, "kernels_alone": 30, "model": {"mean_loss": 0.01}, "measured": {"mean_loss": 0.012, "worst_loss": 0.05},
             "first_calls": {"worst_us": 310.4, "worst_m": 33}, "points": [point, point | {"verified": False}, {"m": 9, "same": False, "error": "no"}]}
    record = {"schema": "sluice-rows-1", "commit": "0123abcd" * 5, "started": "2026-01-01T00:00:00Z", "machine": {"gpu": "G"},
              "rows": {"low": 1, "high": 512, "numbers": 24}, "summary": {"mean_loss": 0.012, "worst_loss": 0.05, "most_kernels": 9, "worst_call_us": 310.4},
              "layers": [layer, {"name": "another", "error": "out of memory"}]}
    with tempfile.TemporaryDirectory() as name:
        results = pathlib.Path(name)
        assert rows_section(results) == ""
        (results / "rows.json").write_text(json.dumps(record))
        text = rows_section(results)
        assert load_runs(results) == [], "it is no record of dense products"
    assert "| a layer | 9 | 30 | 1.0 % | 1.2 % | 5.0 % | 310 at 33 | 2 |" in text and "| another | out of memory | - |" in text, text
    assert "**1.2 %** slower in the mean, 5.0 % at worst, with at most 9 kernels" in text and "0123abc, 2026-01-01, G" in text, text


def check_chains() -> None:
    def arm(name: str, us: float, **more) -> dict:
        return {"name": name, "us_a_layer": {"median": us, "p10": us, "p90": us}, "share": 0.5} | more

    arms = [arm("off", 40.0, differing=0), arm("tuned", 20.0, differing=0), arm("wrong", 10.0, differing=3),
            {"name": "broken", "error": "driver: no"}, arm("cuBLASLt", 50.0, distance=0.1)]
    with tempfile.TemporaryDirectory() as name:
        results = pathlib.Path(name)
        assert chains_section(results) == ""
        (results / "chains").mkdir()
        run = {"schema": "sluice-chain-1", "commit": "", "started": "2026-01-01T00:00:00Z", "peak_tbps": 4.6, "chains": [{"name": "a layer", "arms": arms}]}
        (results / "chains" / "a.json").write_text(json.dumps(run))
        text = chains_section(results)
        assert "| a layer | off | 40.00 | 50.0 % | 1.000 | 1.250 | commit not recorded, 2026-01-01 |" in text, text
        assert "| tuned | 20.00 | 50.0 % | 2.000 | 2.500 |" in text, text
        assert "wrong" not in text and "broken" not in text, "what has other bits must not have a time"
        assert "Idle windows" not in text, "there was none"
        arms = [arm("off", 40.0, differing=0), arm("window", 47.0, differing=0), arm("prefetch", 44.0, differing=0, hidden_us=3.0, hidden_share=0.6)]
        run["chains"].append({"name": "another", "arms": arms, "window": {"us": 7, "ctas": 1, "before": "o", "allowed_us": 5.0}})
        (results / "chains" / "a.json").write_text(json.dumps(run))
        text = chains_section(results)
        assert "| another | 7 us before o | 5.00 | window | 47.00 |  |  |" in text, text
        assert "prefetch | 44.00 | 3.00 | 60 % |" in text, text
        assert "| another | off" not in text, "its overlap off has no window"
        run["chains"] = [{"name": "short", "passes": 1, "arms": [arm("off", 40.0, differing=0), arm("tuned", 20.0, differing=0, replays=100000)]}]
        (results / "chains" / "a.json").write_text(json.dumps(run))
        text = chains_section(results)
        assert "short, tuned: 100,000" in text and "| short" not in text, text


def check_timelines() -> None:
    def step(name: str, took: float) -> dict:
        return {"name": name, "weight_bytes": 4_600_000, "took_us": took, "since": {"wait_returned": [0.5, 0.6, 0.7]},
                "ctas": [[0, -100, None, 600, None, None, None, 2000], [0, 0, None, 600, 1100, None, None, 2100]]}

    moments = ["start", "loads_issued", "wait_returned", "first_math", "ring_read", "last_load", "exit"]
    run = {"schema": "sluice-timeline-1", "peak_tbps": 4.6,
           "timelines": [{"chain": "a layer", "arm": "off", "us_a_layer": 3.5, "moments": moments, "steps": [step("qkv", 2.1), step("norm", 1.5)]}]}
    with tempfile.TemporaryDirectory() as name:
        results = pathlib.Path(name)
        assert report_timelines.timelines_section(results, []) == ""
        (results / "timelines").mkdir()
        (results / "timelines" / "a.json").write_text(json.dumps(run))
        text = report_timelines.timelines_section(results, ["timeline-a.svg"])
        assert "| off | 3.5 | 2.1 | 1.5 |" in text and "| weights at 4.6 TB/s | 2.0 | 1.0 | 1.0 |" in text, text
        assert "| off | 0.6 / - | 0.6 / - |" in text and "(img/timeline-a.svg)" in text, text
        assert "(img/" not in report_timelines.timelines_section(results, [])
        run["timelines"].append({**run["timelines"][0], "arm": "fused", "steps": run["timelines"][0]["steps"][:1]})
        run["timelines"].append({**run["timelines"][0], "chain": "another layer"})
        (results / "timelines" / "a.json").write_text(json.dumps(run))
        text = report_timelines.timelines_section(results, ["timeline-a-2.svg"])
        assert "| fused | 3.5 | 2.1 |  |" in text and "### another layer\n\n![Timeline of another layer](img/timeline-a-2.svg)" in text, text
    lanes = report_timelines.lanes_of(run["timelines"][0]["steps"][:1], 1, 7)
    assert [lane for _, _, lane in lanes[0]] == [0, 1], "two CTAs at once on one SM"


def check_page(write_report) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        results, docs = folder / "results", folder / "docs"
        results.mkdir()

        def page() -> str:
            write_report(results, docs)
            return (docs / "performance.md").read_text()

        assert "No bench record" in page()
        (results / "made-up.json").write_text(json.dumps(made_up_run()))
        text = page()
        assert "| 128 x 64 x 64 | kernel of sluice | 10.0 | 1000 | 60 % | 900 | 16.0 | 12.5 | 1.60 | 1.25 |" in text, text
        assert "| 256 x 64 x 64 | - | - | - | - | - | 9.0 | 9.0 | - | - |" in text, "a wrong kernel must not have a time"
        assert "256x64x64 bf16 > bf16, sluice: gave a wrong result: made up" in text
        assert "512x64x64 e4m3 > bf16, cuBLASLt first: not here" in text
        assert "| made-up | bf16 to bf16 | sluice | cold | 1 of 2 | 1.250 | 1.250 | 1 / 0 / 0 | 1.600 | 1.600 | 8 | model | 0123abc, 2026-01-01 |" in text, text
        assert "690 of 700 W" in text and "is the time of the first" not in text and "(least / median / most): 8." in text
        assert not any(title in text for title in ("## What promoted", "## Block-scaled", "## The untuned")), text

        odd = copy.deepcopy(made_up_run()["shapes"][0])
        odd["contenders"][1] = timed(FIRST, 10.0)
        (results / "block.json").write_text(json.dumps(made_up_run(
            [odd] + [shape_of(m, "e4m3", [timed(OURS, 5.0), timed(BEST, 5.0, verified=False)], scale_a="block")
                     for m in range(1, 6)])))
        text = page()
        assert "## Block-scaled" in text and "| block | bf16 to bf16 | sluice |" in text, text
        assert "- 5 shapes, 1x64x64 e4m3 > bf16 the first, cuBLASLt best: gave a wrong result" in text, text
        assert "On 1 of 2 shapes cuBLASLt's first was faster in the race" in text and "1 % on 1, 25.0 % at most" in text, text
        assert "| 128 x 64 x 64 | kernel of sluice | 10.0 | 1000 | 60 % | 900 | 10.0 | 10.0 | 1.00 | 1.00 |" in text, text
        assert text.index("## Record block") < text.index("## Record made-up"), "known sets come first"

        (results / "certificate.json").write_text('{"schema": "sluice-certificate-1", "gpu": "G", "driver": "1", "nvrtc": "1", "sections": {}}')
        assert "certificate" not in page(), "what it says is on other pages"
        (results / "other.json").write_text('{"schema": "something else"}')
        try:
            load_runs(results)
        except SystemExit as refused:
            assert "something else" in str(refused)
        else:
            raise AssertionError("a foreign schema was read")
        plots = sorted(path.name for path in (docs / "img").iterdir())
        if plots:
            wanted = {"roofline.svg", "roofline.png", "speedup-made-up.svg", "peak-made-up.svg", "peak-block.svg"}
            assert wanted <= set(plots), plots
            assert all(f"(img/{plot})" in text for plot in plots if plot.endswith(".svg")), text
        return plots


def run(write_report) -> int:
    check_best()
    check_files()
    check_ages()
    check_blind()
    check_certificates()
    check_triton()
    check_floor()
    check_promoted()
    check_block()
    check_unseen()
    check_packed()
    check_rows()
    check_chains()
    check_timelines()
    with tempfile.TemporaryDirectory() as folder:
        check_readme(pathlib.Path(folder))
    plots = check_page(write_report)
    print(f"report: self-test passed, plots: {', '.join(plots) or 'none (no matplotlib)'}")
    return 0
