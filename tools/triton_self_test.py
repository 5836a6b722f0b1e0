# SPDX-License-Identifier: Apache-2.0
"""`triton_sweep.py --self-test`: arguments, statistics, the list of configs and the form of the record, on
made-up numbers. Needs no GPU, torch or Triton; runs in ctest (tests/unit/cli_report_test.cc).
"""
import contextlib
import io
import json

import triton_configs
from triton_record import (SCHEMA, ProgressBar, best_of, contender_json, copies_for, launches_for, quantile, run_json, searched,
                           table, turns, was_cut)
from triton_sweep import CONTENDERS, CUT, TOKENS, parse, verdict_of


def refusal(words: list[str]) -> str:
    text = io.StringIO()
    try:
        with contextlib.redirect_stderr(text):
            parse(words)
    except SystemExit as ended:
        assert ended.code == 2, ended.code
        return text.getvalue()
    raise AssertionError(f"{words} was taken")


def check_arguments() -> None:
    plain = parse([])
    assert (plain.n, plain.k, tuple(plain.m)) == (4096, 4096, TOKENS) and plain.json is None, plain
    chosen = parse(["--m", "1", "16", "--seconds", "60", "--json", "x.json"])
    assert chosen.m == [1, 16] and chosen.seconds == 60.0 and chosen.json.name == "x.json", chosen
    assert "--n = 100 must be a multiple of 128" in refusal(["--n", "100"])
    assert "--k = 128 must be a multiple of 256" in refusal(["--k", "128"])
    assert "--seconds = 0.0 must be above 0" in refusal(["--seconds", "0"])
    assert "--k = 8192 must be at most 4096" in refusal(["--k", "8192"])
    assert "1 to 1024 tokens" in refusal(["--m", "0"])


def check_statistics() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0 and quantile([4.0, 1.0], 0.5) == 2.5
    assert abs(quantile([float(i) for i in range(11)], 0.1) - 1.0) < 1e-12 and quantile([7.0], 0.9) == 7.0
    assert launches_for(10.0, 11, 3000.0) == 300, "as many as fill a replay"
    assert launches_for(1e6, 11, 3000.0) == 11, "every copy once"
    assert launches_for(0.0, 2, 3000.0) == 2000
    assert copies_for(4096 * 4096, 60 << 20) == 12 and copies_for(1 << 40, 60 << 20) == 2
    for index in range(5):
        assert sorted(turns(3, index)) == [0, 1, 2] and turns(3, index)[0] == index % 3


def check_configs() -> None:
    assert [triton_configs.blocks_of_m(m) for m in (1, 16, 17, 48, 128, 500)] == [[16], [16], [32, 16], [64, 32], [128, 64],
                                                                                [128, 64]]
    for m in TOKENS:
        found = triton_configs.candidates(m, 4096, 4096, 132)
        assert len(found) == len(set(found)) and {c.way for c in found} == set(triton_configs.WAYS), m
        for c in found:
            assert (c.block_m + c.block_n) * c.block_k * c.stages <= triton_configs.SMEM_BYTES, c.text()
            assert (c.split_k == 1) == (c.way == "direct") and 4096 % (c.block_k * c.split_k) == 0, c.text()
            assert c.block_n >= 64 or not c.weights_first, c.text()
    first = triton_configs.candidates(16, 4096, 4096, 132)[0]
    assert 132 / 3 <= triton_configs.ctas_of(first, 16, 4096) <= 2 * 132 and first.weights_first, first.text()
    assert triton_configs.candidates(16, 100, 4096, 132) == []


def check_record() -> None:
    def shape(m: int, contenders: list[dict]) -> dict:
        return {"name": f"{m}x4096x4096 e4m3 > bf16", "problem": {"m": m}, "tuning": {"candidates": 4, "timed": 4, "refused": 0, "wrong": []},
                "contenders": contenders}
    peer = contender_json("torch._scaled_mm", "made up", [7.0, 7.2, 7.1], 300, "right")
    assert peer["us"] == {"median": 7.1, "p10": 7.02, "p90": 7.18} and peer["verified"] is True, peer
    slow = contender_json("Triton atomic", "config A", [9.0], 300, "right")
    fast = contender_json("Triton workspace", "config B", [8.0], 300, "right")
    wrong = {"name": "Triton direct", "detail": "config C", "verified": False, "error": "3 of 4 elements are wrong"}
    shapes = [shape(1, [peer, slow, fast, wrong]), shape(2, [peer, wrong])]
    assert best_of(shapes[0], "Triton")["detail"] == "config B" and best_of(shapes[1], "Triton") is None
    lines = table(shapes)
    assert "7.10" in lines[1] and "8.00" in lines[1] and lines[1].endswith("config B"), lines
    assert lines[2].endswith("-") and "wrong" not in "".join(lines), "a wrong kernel has no time"
    record = json.loads(json.dumps(run_json({"machine": {}, "versions": {}}, {"mode": "cold"}, shapes)))
    assert record["schema"] == SCHEMA and list(record)[-4:] == ["versions", "method", "cut_at", "shapes"], list(record)
    assert [c["name"] for c in record["shapes"][0]["contenders"]] == ["torch._scaled_mm", "Triton atomic", "Triton workspace",
                                                                      "Triton direct"]


def check_cut() -> None:
    """A search that was stopped early says so in the record, on stderr and by its exit status. Wrong and
    refused candidates count as tried."""
    def shape(m: int, timed: int, wrong: list[str]) -> dict:
        return {"name": f"{m}x4096x4096", "problem": {"m": m}, "contenders": [],
                "tuning": {"candidates": 287, "timed": timed, "refused": 1, "wrong": wrong}}
    whole, early = shape(1, 284, ["a", "b"]), shape(2, 10, [])
    assert not was_cut(whole["tuning"]) and was_cut(early["tuning"])
    assert searched(whole["tuning"]) == "284 of 287, 2 wrong, 1 refused" and searched(early["tuning"]).endswith("**cut**")
    assert run_json({"machine": {}}, {}, [whole, early])["cut_at"] == [2]
    text = io.StringIO()
    with contextlib.redirect_stderr(text):
        assert verdict_of([whole], False) == 0 and text.getvalue() == ""
        assert verdict_of([whole, early], False) == CUT and verdict_of([whole, early], True) == 0
    assert "2x4096x4096: the search was cut, 10 of 287" in text.getvalue(), text.getvalue()
    assert parse(["--allow-cut"]).allow_cut and not parse([]).allow_cut


def check_bar() -> None:
    pipe = io.StringIO()
    bar = ProgressBar(pipe)
    bar.show("compile", 1, 2)
    bar.clear()
    assert pipe.getvalue() == "", "no bar where there is no terminal"
    pipe.isatty = lambda: True
    ProgressBar(pipe).show("compile", 1, 2)
    assert "[############............] 1/2 compile" in pipe.getvalue(), pipe.getvalue()


def self_test() -> int:
    check_arguments()
    check_statistics()
    check_configs()
    check_record()
    check_cut()
    check_bar()
    assert len(CONTENDERS) >= 2
    print("triton_sweep: self-test passed")
    return 0
