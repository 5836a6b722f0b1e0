# SPDX-License-Identifier: Apache-2.0
"""A cell: the own loops of one model and batch. Their programs are built one after another. Then, context by context, each is judged by
its logits, and all right ones are timed in turn. Every time becomes a row of the record.
"""
from __future__ import annotations

import dataclasses
import time
from typing import Any, Optional

from agree import Judge
from clocks import Contender, Loop, race, sm_mhz
from loops import Arm, Program, token_body
from models import Model, State, nbytes
from sluice.torch.decode.machine import datasheet_gb_s


def layers_us(us: dict[int, float], layers: int) -> tuple[Optional[float], Optional[float], float]:
    """Microseconds of a layer, of the rest, and of the whole model, from times by number of layers. With one count, that is the whole
    model and nothing is known of its parts."""
    if len(us) == 1:
        return None, None, next(iter(us.values()))
    few, many = min(us), max(us)
    one = (us[many] - us[few]) / (many - few)
    rest = us[many] - many * one
    return one, rest, rest + layers * one


def row_of(model: Model, batch: int, context: int, us: dict[int, float], weights: int, gpu: str) -> dict:
    """The times of a row. ``weights``: bytes of the measured layers' weights; the head's are added."""
    sizes = model.sizes
    one, rest, whole = layers_us(us, sizes.layers)
    nbytes_token = weights / model.layers * sizes.layers + nbytes(model.head)
    rate = datasheet_gb_s(gpu)
    return {"model": model.name, "batch": batch, "context": context, "whole": len(us) == 1, "model_layers": sizes.layers,
            "us": {str(count): round(value, 1) for count, value in us.items()}, "us_layer": rounded(one), "us_fixed": rounded(rest),
            "ms_token": round(whole / 1e3, 4), "tokens_s": round(batch * 1e6 / whole, 1), "weights_gb": round(nbytes_token / 1e9, 3),
            "weights_gb_s": round(nbytes_token / whole / 1e3, 1), "hbm_share": rate and round(nbytes_token / whole / 1e3 / rate, 3)}


def rounded(value: Optional[float]) -> Optional[float]:
    return None if value is None else round(value, 2)


@dataclasses.dataclass
class Built:
    """An arm's program with its loops by number of layers: whole tokens, and of chains the layers alone."""

    arm: Arm
    program: Program
    tokens: dict[int, Loop]
    layers: dict[int, Loop]
    notes: dict

    @classmethod
    def build(cls, arm: Arm, model: Model, state: State, counts: tuple[int, ...]) -> "Built":
        since, cuda = time.monotonic(), model.device != "cpu"
        with arm.scope():
            program = arm.build(model, state)
            tokens = {count: Loop(token_body(model, state, program.hidden(count)), cuda) for count in counts}
            layers = {count: Loop(program.layers(count), cuda) for count in counts} if program.layers else {}
            notes: dict[str, Any] = {"build_s": round(time.monotonic() - since, 1), **program.notes()}
        if program.chain is not None and cuda:
            notes["edges"] = edges(program.chain(max(counts)), tokens[max(counts)].graph)
        return cls(arm, program, tokens, layers, notes)


def edges(chain: Any, graph: Any) -> str:
    """Whether a captured graph has the launches and programmatic edges that the chain plans."""
    try:
        chain.check(graph)
    except Exception as error:  # noqa: BLE001 - the times say what a missing edge costs, and the record which it is
        return f"{type(error).__name__}: {str(error)[:400]}"
    return "as planned"


class Cell:
    """``record``, ``model`` and ``state`` of one batch, and what was ``built``."""

    def __init__(self, record: Any, model: Model, state: State, rounds: int, contexts: list[int]):
        self.record, self.model, self.state, self.rounds, self.contexts = record, model, state, rounds, contexts
        self.built: list[Built] = []

    def add(self, arm: Arm, counts: tuple[int, ...]) -> None:
        self.state.begin(self.contexts[0])
        self.built.append(Built.build(arm, self.model, self.state, counts))

    def right(self, context: int, refuse: Any) -> list[tuple[Built, dict]]:
        """The programs whose logits are right, and what the record says of them. ``refuse(arm, error)`` takes the others."""
        found, judges = [], {}
        for count in sorted({count for one in self.built for count in one.tokens}):
            self.state.begin(context)
            judges[count] = Judge(self.model, self.state, count)
        for one in self.built:
            try:
                for count in sorted(one.tokens):  # the last verdict, of all layers, is kept
                    self.state.begin(context)
                    verdict = judges[count].judge(one.arm.accuracy, one.arm.kind, one.tokens[count].run())
                found.append((one, verdict))
            except Exception as error:  # noqa: BLE001 - an arm must not end the run
                refuse(one.arm, error)
        return found

    def measure(self, context: int, parts: Optional[dict], refuse: Any) -> list[dict]:
        """Rows of one context: all right programs, timed in turn."""
        right, reset = self.right(context, refuse), lambda: self.state.begin(context)
        loops = {(i, kind, count): Contender(loop, reset) for i, (one, _) in enumerate(right)
                 for kind, by_count in (("token", one.tokens), ("layers", one.layers)) for count, loop in by_count.items()}
        if not loops:
            return []
        race(list(loops.values()), self.rounds)
        clock, name = sm_mhz(next(iter(loops.values()))), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        rows = []
        for i, (one, verdict) in enumerate(right):
            def times(kind: str, i: int = i) -> dict[int, float]:
                return {count: loop.median() for (at, of, count), loop in loops.items() if (at, of) == (i, kind)}
            row = row_of(self.model, self.state.batch, context, times("token"), nbytes([list(w.values()) for w in one.program.weights]),
                         self.record.data["gpu"])
            rows.append({**row, "arm": one.arm.name, "accuracy": one.arm.accuracy, "race": name, "sm_mhz": clock, **verdict, **one.notes,
                         **self.beside_parts(times("layers"), row["ms_token"], parts)})
        return rows

    def beside_parts(self, us: dict[int, float], ms_token: float, parts: Optional[dict]) -> dict:
        """Returns, for a chain, the time of its layers alone, and a token's time over the sum of layers, head and sampling, each alone."""
        if not us:
            return {}
        whole = layers_us(us, self.model.sizes.layers)[2]
        told = {"layers_alone_ms": round(whole / 1e3, 4)}
        if parts:
            told["over_parts"] = round(ms_token * 1e3 / (whole + parts["head_us"] + parts["sampling_us"]), 4)
        return told
