#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/img/decode.svg, and makes README's table of decoding, from the record of bench/decode/arms.py.

    tools/decode_picture.py --record bench/results/h200/python/decode_arms.json --out docs/img/decode.svg
    tools/decode_picture.py --record FILE [FILE ...] --table
    tools/decode_picture.py --self-test

One sequence, the shortest context. A bar or number is there only if the record has a row of it, whose logits were right.
"""
import argparse
import json
import pathlib
import sys

import result_files
from report.figures import short, table
from report.pictures import Picture

MODEL = "llama3-8b"
# Headings by accuracy, and the words for arms.
GROUPS = (("bf16", "bf16"), ("row", "FP8, a scale per row and token"), ("tensor", "FP8, static scales"), ("int4", "int4, groups of 128"))
WORDS = {"hf_eager": "transformers, eager", "hf_static": "transformers, static cache, compiled", "bf16": "compiled layers",
         "fp8_row": "compiled, _scaled_mm", "fp8_row_pdl": "the same with Inductor's PDL", "fp8_static": "compiled, _scaled_mm",
         "fp8_static_pdl": "the same with Inductor's PDL",
         "torchao_row": "compiled, torchao", "int4_tinygemm": "compiled, tinygemm", "override_row": "compiled, _scaled_mm, st.override()",
         "override_torchao": "compiled, torchao, st.override()", "convert_row": "compiled, convert_", "convert_int4": "compiled, convert_",
         "sluice_ops_row": "st functions", "sluice_ops_static": "st functions", "sluice_ops_int4": "st functions",
         "off": "chain, overlap off",
         "untuned": "chain, untuned", "tuned": "chain, tuned", "ordinary": "chain, tuned, ordinary edges at gaps"}
OURS = ("override", "convert", "sluice", "chain")
TITLE = "Tokens per second of one sequence, by the ways that PyTorch and sluice offer"
TOP, STEP, LEFT, WIDTH = 62, 17, 270, 520


def is_ours(arm: str) -> bool:
    return arm.startswith(OURS)


def words_of(arm: str) -> str:
    return WORDS.get(arm) or WORDS.get(arm.rpartition("_")[2], arm)


def rows_of(record: dict, model: str = MODEL) -> list[dict]:
    """The rows of one sequence at the shortest context, without arms whose whole model was measured as well as extrapolated: then the
    measured row counts."""
    rows = [row for row in record["rows"] if (row["model"], row["batch"]) == (model, 1)]
    least = min((row["context"] for row in rows), default=0)
    found = {}
    for row in sorted((row for row in rows if row["context"] == least), key=lambda row: row["whole"]):
        found[row["arm"]] = row
    return list(found.values())


def note_of(rows: list[dict]) -> str:
    """How the whole model's times were found."""
    counts = sorted({" and ".join(row["us"]) for row in rows if not row["whole"]})
    how = f"extrapolated from {', '.join(counts)} layers" if counts else "all layers measured"
    return f"{how}, random weights" if len({row["whole"] for row in rows}) < 2 else f"{how}, or all measured; random weights"


def picture(record: dict, model: str = MODEL) -> str:
    """The SVG: a bar an arm, by accuracy. The line is the rate at which the datasheet's bandwidth reads the weights."""
    rows = rows_of(record, model)
    groups = [(words, sorted((row for row in rows if row["accuracy"] == of), key=lambda row: row["tokens_s"])) for of, words in GROUPS]
    groups = [group for group in groups if group[1]]
    floors = [row["tokens_s"] / row["hbm_share"] for row in rows if row["hbm_share"]]
    most = max([row["tokens_s"] for row in rows] + floors + [1])
    height = TOP + sum(30 + STEP * len(group) for _, group in groups) + 36
    drawn = Picture(860, height, TITLE)
    context = rows[0]["context"] if rows else 0
    where = f"{model}, one sequence, context {context}, {short(record['gpu'])}"
    drawn.text((20, 26), f"tokens per second, {where} ({note_of(rows)}). Line: HBM's rate", "pale")
    y = TOP
    for words, group in groups:
        drawn.text((20, y), words, "bold")
        top = y + 4
        for row in group:
            y += STEP
            width = row["tokens_s"] / most * WIDTH
            arm = row["arm"]
            drawn.text((LEFT - 8, y), words_of(arm), "small", "end")
            drawn.bar((LEFT, y - 10), (width, 12), "blue" if arm.startswith("chain") else "light" if is_ours(arm) else "grey")
            drawn.text((LEFT + width + 5, y), f"{row['tokens_s']:.0f}", "small")
        if floor := next((row["tokens_s"] / row["hbm_share"] for row in reversed(group) if row["hbm_share"]), None):
            x = LEFT + floor / most * WIDTH
            drawn.line((x, top), (x, y + 4), "axis")
        y += 30
    drawn.legend((20, height - 14), [("grey", "PyTorch"), ("light", "sluice in PyTorch's loop, or alone"), ("blue", "sluice's chains")])
    return drawn.done()


def best(rows: list[dict], *names: str) -> dict | None:
    """The fastest row of these arms; without names, of PyTorch's."""
    found = [row for row in rows if (row["arm"] in names if names else not is_ours(row["arm"]))]
    return max(found, key=lambda row: row["tokens_s"], default=None)


NUMBERS = (("chain, FP8, static scales", ("chain_tensor_tuned",)), ("chain, FP8, a scale per row and token", ("chain_row_tuned",)),
           ("chain, int4", ("chain_int4_tuned",)), ("PyTorch's fastest", ()))


def numbers(records: list[dict], model: str = MODEL) -> str:
    """README's table: tokens per second of one sequence, a column for each GPU; "" if there is no row."""
    every = [(record, rows) for record in records if (rows := rows_of(record, model))]
    if not every:
        return ""

    def cell(rows: list[dict], names: tuple[str, ...]) -> str:
        row = best(rows, *names)
        if row is None:
            return "-"
        return f"{row['tokens_s']:.0f}" if names else f"{row['tokens_s']:.0f} (`{row['arm']}`)"
    head = [f"{model}, tokens/s of one sequence", *(f"{short(record['gpu'])}, context {rows[0]['context']}" for record, rows in every)]
    notes = dict.fromkeys(note_of(rows) for _, rows in every)
    made = table(head, [[words, *(cell(rows, names) for _, rows in every)] for words, names in NUMBERS])
    return f"{made}\n\nThe whole model: {'; '.join(notes)}."


def self_test() -> None:
    def row(arm: str, accuracy: str, tokens_s: float, **more: object) -> dict:
        return {"model": MODEL, "arm": arm, "accuracy": accuracy, "batch": 1, "context": 128, "whole": False, "us": {"4": 1, "8": 2},
                "tokens_s": tokens_s, "hbm_share": 0.5, **more}
    rows = [row("fp8_row", "row", 200.0), row("chain_row_tuned", "row", 430.0), row("chain_tensor_tuned", "tensor", 470.0),
            row("fp8_static_pdl", "tensor", 326.0), row("chain_row_tuned", "row", 99.0, context=1024), row("bf16", "bf16", 900.0, batch=16)]
    record = {"gpu": "NVIDIA H200", "rows": rows}
    told = numbers([record])
    assert "| chain, FP8, static scales | 470 |" in told and "| PyTorch's fastest | 326 (`fp8_static_pdl`) |" in told, told
    assert "| chain, int4 | - |" in told and "extrapolated from 4 and 8 layers" in told, told
    assert "| llama3-8b, tokens/s of one sequence | H200, context 128 |" in told, told
    whole = {"gpu": "NVIDIA H200", "rows": [*rows, row("chain_row_tuned", "row", 428.0, whole=True, us={"32": 1})]}
    assert "| 428 |" in numbers([whole]) and "or all measured" in numbers([whole]), "a measured model counts before an extrapolated one"
    assert numbers([{"gpu": "NVIDIA H100", "rows": []}]) == "" and picture({"gpu": "NVIDIA H100", "rows": []}).startswith("<svg")
    drawn = picture(record)
    assert ">430<" in drawn and ">99<" not in drawn and ">900<" not in drawn and drawn == picture(record), drawn
    print("decode_picture: self-test passed")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=pathlib.Path, nargs="+", help="records; the picture shows the first")
    parser.add_argument("--out", type=pathlib.Path, help="the SVG file")
    parser.add_argument("--table", action="store_true", help="print the table")
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return 0
    if not arguments.record or not (arguments.out or arguments.table):
        parser.error("give --record, and --out or --table")
    records = []
    for path in arguments.record:
        if (text := result_files.text_of(path)) is None:
            parser.error(f"{path} is not there: bench/decode/arms.py --out makes it")
        records.append(json.loads(text))
    if arguments.out:
        arguments.out.write_text(picture(records[0], arguments.model))
    if arguments.table:
        print(numbers(records, arguments.model))
    return 0


if __name__ == "__main__":
    sys.exit(main())
