#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens per second of a decoding model, by the ways that PyTorch and sluice offer ("arms"), on one GPU and on random weights.

    bench/decode/arms.py --out decode_arms.json --seconds 540             # Llama-3-8B; run again to go on
    bench/decode/arms.py --out decode_arms.json --model qwen3-8b --batches 1 --arms bf16,chain_row_tuned --layers full
    bench/decode/arms.py --list                                           # the arms

By default 4 and 8 layers are measured with the whole embedding and head, and the whole model is EXTRAPOLATED from both; the record says
so. Times are medians of windows; the own loops of a model, batch and context are timed in turn. An arm whose logits are wrong is named and
has no time. Rows that the file has already are not measured again (but --again). What did not fit in --seconds stands in `skipped`, and
what failed in `errors`. The exit status is 0 if there is a row.

Without a GPU, tiny models test this script (--cpu); those times mean nothing.
"""
from __future__ import annotations

import argparse
import contextlib
import gc
import pathlib
import sys
import time
from typing import Any, Callable, Optional

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(pathlib.Path(__file__).resolve().parent)]

import torch  # noqa: E402

import agree  # noqa: E402
import alone  # noqa: E402
import attend  # noqa: E402
import host  # noqa: E402
from cell import Cell, row_of  # noqa: E402
from chains import OVERLAPS, ChainArm, Ops  # noqa: E402
from compiled import PDL, TORCHAO, Compiled  # noqa: E402
from hugging_face import HuggingFace  # noqa: E402
from models import MODELS, Model, State, nbytes  # noqa: E402
from record import Record, what_of  # noqa: E402

ROUNDS = 7
ARMS: list[Any] = [
    Compiled("bf16", "bf16"), Compiled("fp8_row", "row"), Compiled("fp8_row_pdl", "row", settings=PDL),
    Compiled("fp8_static", "tensor"), Compiled("fp8_static_pdl", "tensor", settings=PDL),
    Compiled("torchao_row", "torchao", settings=TORCHAO), Compiled("int4_tinygemm", "tinygemm"),
    Compiled("override_row", "row", override=True), Compiled("override_torchao", "torchao", settings=TORCHAO, override=True),
    Compiled("convert_row", "convert_row"), Compiled("convert_int4", "convert_int4"),
    Ops("sluice_ops_row", "row"), Ops("sluice_ops_static", "tensor"), Ops("sluice_ops_int4", "int4"),
    *(ChainArm(f"chain_{by}_{overlap}", by, overlap) for by in ("tensor", "row", "int4", "bf16") for overlap in reversed(OVERLAPS)),
    HuggingFace("hf_eager", static=False), HuggingFace("hf_static", static=True),
]


class Bench:
    """Runs what fits into ``seconds``. A failed arm is noted and does not end the run."""

    def __init__(self, o: argparse.Namespace):
        self.o, self.since = o, time.monotonic()
        self.cuda = not o.cpu
        self.record = Record(o.out, torch.cuda.get_device_name(0) if self.cuda else "cpu", o.seconds)
        self.whole = o.layers == "full"
        self.rounds = ROUNDS if self.cuda else 1

    def left(self) -> float:
        return self.o.seconds - (time.monotonic() - self.since)

    def counts(self) -> tuple[int, ...]:
        return (MODELS[self.o.model].layers,) if self.whole else self.o.layers

    def missing(self, arm: Any, batch: int) -> list[int]:
        return [context for context in self.o.contexts
                if self.o.again or not self.record.has(self.o.model, arm.name, batch, context, self.whole)]

    def failed(self, arm: Any, batch: int, contexts: list[int]) -> Callable[[Any, Exception], None]:
        def note(_: Any, error: Exception) -> None:
            text = f"{type(error).__name__}: {str(error)[:400]}"
            self.record.note("errors", what_of(self.o.model, arm.name, batch), contexts, text)
            print(f"error: {arm.name} b{batch} {contexts}: {text[:200]}", flush=True)
            if "CUDA error" in text:
                raise SystemExit("the CUDA context is lost: run again to go on")
        return note

    def attempt(self, arm: Any, batch: int, contexts: list[int], reserve: float, body: Callable[[], Any]) -> Any:
        """Runs ``body`` if there is time for it and ``reserve`` seconds; notes a failure. Returns None if it did not run."""
        needs = (arm.seconds if self.cuda else 0.0) + reserve
        if self.left() < needs:
            why = f"{self.left():.0f} s left, and it may take {needs:.0f}"
            self.record.note("skipped", what_of(self.o.model, arm.name, batch), contexts, why)
            return None
        since = time.monotonic()
        try:
            return body()
        except Exception as error:  # noqa: BLE001 - an arm must not end the run
            self.failed(arm, batch, contexts)(arm, error)
            return None
        finally:
            self.record.save()
            print(f"  {arm.name} b{batch}: {time.monotonic() - since:.1f} s, {self.left():.0f} s left", flush=True)

    def own_loops(self, model: Model, batch: int, arms: list[Any]) -> None:
        wanted = [arm for arm in arms if not isinstance(arm, HuggingFace) and self.missing(arm, batch)]
        if not wanted:
            return
        state = State(model, batch)
        parts = self.parts(model, state)
        cell = Cell(self.record, model, state, self.rounds, self.o.contexts)
        reserve = 15.0 * len(self.o.contexts) if self.cuda else 0.0  # the races themselves
        for arm in wanted:
            self.attempt(arm, batch, self.missing(arm, batch), reserve, lambda arm=arm: cell.add(arm, self.counts()))
        for context in sorted(self.o.contexts):
            if self.left() < 0:
                for one in cell.built:
                    self.record.note("skipped", what_of(model.name, one.arm.name, batch), [context], "no time left for the race")
                continue
            try:
                rows = cell.measure(context, parts, lambda arm, error: self.failed(arm, batch, [context])(arm, error))
            except Exception as error:  # noqa: BLE001 - other contexts and batches may work
                for arm in (one.arm for one in cell.built):
                    self.failed(arm, batch, [context])(arm, error)
                continue
            for row in rows:
                self.record.put(row)
                print(f"{row['arm']:22} b{batch:<3} {context:5} {row['ms_token']:9.4f} ms {row['tokens_s']:9.1f} tokens/s", flush=True)
            self.record.save()

    def parts(self, model: Model, state: State) -> Optional[dict]:
        try:
            found = alone.parts(model, state, self.o.contexts, self.rounds)
        except Exception as error:  # noqa: BLE001 - the arms can be measured without them
            why = f"{type(error).__name__}: {str(error)[:400]}"
            self.record.note("errors", what_of(model.name, "alone", state.batch), self.o.contexts, why)
            return None
        self.record.put_alone({"model": model.name, "batch": state.batch, **found})
        return found

    def hugging_face(self, model: Model, batch: int, arms: list[Any]) -> None:
        for arm in (arm for arm in arms if isinstance(arm, HuggingFace)):
            for context in self.missing(arm, batch):
                self.attempt(arm, batch, [context], 0.0, lambda arm=arm, context=context: self.one_of_hf(arm, model, batch, context))

    def one_of_hf(self, arm: HuggingFace, model: Model, batch: int, context: int) -> None:
        state, since = State(model, batch), time.monotonic()
        state.begin(context)
        judge = agree.Judge(model, state, max(self.counts()))
        us, logits = arm.measure(model, state, context, self.counts())
        verdict = judge.judge(arm.accuracy, arm.kind, logits)
        row = row_of(model, batch, context, us, nbytes([list(w.values()) for w in model.weights]), self.record.data["gpu"])
        self.record.put({**row, "arm": arm.name, "accuracy": arm.accuracy, "race": None, "sm_mhz": None, **verdict,
                         "build_s": round(time.monotonic() - since, 1)})

    def run(self) -> int:
        wanted = [arm for arm in ARMS if self.o.arms is None or arm.name in self.o.arms]
        for arm in wanted:
            if isinstance(arm, ChainArm):
                arm.tune = self.o.tune_seconds
                arm.seconds = ChainArm.seconds + 2 * self.o.tune_seconds
        model = Model(self.o.model, max(self.counts()), max(self.o.contexts), "cpu" if self.o.cpu else "cuda")
        agree.calibrate(model, min(self.o.contexts))
        for step in (self.own_loops, self.hugging_face):
            for batch in self.o.batches:
                step(model, batch, wanted)
                attend.CALLS.clear()
                torch._dynamo.reset()
                gc.collect()
                if self.cuda:
                    torch.cuda.empty_cache()
                self.record.save()
        for name in ("errors", "skipped"):
            for note in self.record.data[name]:
                print(f"{name}: {note['what']} at {note['context']}: {note['why']}")
        print(f"{len(self.record.data['rows'])} rows in {self.o.out}")
        return 0 if self.record.data["rows"] else 1


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [arm.name for arm in ARMS]

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    def of_arms(text: str) -> list[str]:
        given = text.split(",")
        if unknown := [name for name in given if name not in names]:
            raise argparse.ArgumentTypeError(f"no arm {unknown[0]}: --list names them")
        return given

    def of_layers(text: str) -> Any:
        if text == "full":
            return text
        counts = tuple(numbers(text))
        if len(counts) != 2 or not 0 < counts[0] < counts[1]:
            raise argparse.ArgumentTypeError(f"{text} must be 'full' or two numbers of layers, like 4,8")
        return counts
    made.add_argument("--out", type=pathlib.Path, help="the record; a run goes on in one that is there")
    made.add_argument("--seconds", type=float, default=540.0, help="begin nothing that may end later (default 540)")
    made.add_argument("--model", choices=sorted(MODELS), help="default llama3-8b; with --cpu tiny-llama")
    made.add_argument("--batches", type=numbers, help="default 1,16,64,4")
    made.add_argument("--contexts", type=numbers, help="default 128,1024,4096")
    made.add_argument("--arms", type=of_arms, help="only these")
    made.add_argument("--layers", type=of_layers, default=(4, 8), help="two numbers of layers to extrapolate from, or full (default 4,8)")
    made.add_argument("--tune-seconds", type=float, default=0.0, help="Chain.tune of tuned chains; 0: the records that ship")
    made.add_argument("--torchao", type=pathlib.Path, help="a folder with torchao's unpacked wheel")
    made.add_argument("--again", action="store_true", help="measure rows that are there once more")
    made.add_argument("--cpu", action="store_true", help="tiny models, to test this script")
    made.add_argument("--list", action="store_true", help="print the arms and end")
    return made


def main(arguments: Optional[list[str]] = None) -> int:
    given = parser()
    o = given.parse_args(arguments)
    if o.list:
        print("\n".join(arm.name for arm in ARMS))
        return 0
    if o.out is None:
        given.error("--out is missing: the record's file")
    if o.torchao is not None:
        if not (o.torchao / "torchao").is_dir():
            given.error(f"--torchao {o.torchao} holds no folder torchao: unpack the wheel there")
        sys.path.insert(0, str(o.torchao))
    if not o.cpu and not torch.cuda.is_available():
        given.error("torch sees no GPU: --cpu tests this script on tiny models")
    o.model = o.model or ("tiny-llama" if o.cpu else "llama3-8b")
    o.batches = o.batches or ([1, 2] if o.cpu else [1, 16, 64, 4])
    o.contexts = sorted(o.contexts or ([8, 40] if o.cpu else [128, 1024, 4096]))
    import torch._dynamo as dynamo
    dynamo.config.recompile_limit, dynamo.config.accumulated_recompile_limit = 512, 4096
    with host.on_host() if o.cpu else contextlib.nullcontext():
        return Bench(o).run()


if __name__ == "__main__":
    sys.exit(main())
