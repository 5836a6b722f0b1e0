# SPDX-License-Identifier: Apache-2.0
"""Whether an arm computes the model: its logits beside those of bf16 by definition, and beside other arms of the same weights. A wrong
arm is named, and has no time.

Distances grow with the square root of the number of layers. So the loops of few layers are judged too, where a wrong scale shows. On a
CPU and a width of 256, right FP8 arms of 2 layers are 0.04 from bf16. With one product's scale 25 % off they are 0.08 to 0.21 from it.
"""
from __future__ import annotations

import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from attend import defined
from compiled import layer_of
from loops import embedded
from models import EPSILON, MARGIN_ROWS, PRODUCTS, Model, State
from recipes import recipe

# Largest relative distance of logits from bf16's, by accuracy, of one layer; n layers may have sqrt(n) times as much. Right arms of 2 and 8
# layers had up to 0.0041 (bf16), 0.030 (FP8) and 0.092 (int4) of it.
BOUNDS = {"bf16": 0.008, "row": 0.04, "tensor": 0.04, "int4": 0.12}
# Largest distance between arms with the same packed weights. Only activations are rounded differently; in FP8 that moves codes to their
# neighbours, which is most of the error.
TWINS = {"bf16": 0.008, "row": 0.04, "tensor": 0.04, "int4": 0.015}


def distance(logits: Tensor, wanted: Tensor) -> float:
    """|logits - wanted| / |wanted|, in Frobenius' norm; NaN if either has one."""
    return float((logits.float() - wanted.float()).norm() / wanted.float().norm())


def reference(model: Model, state: State, count: int, seen: Optional[list] = None) -> Tensor:
    """Logits of the state's token in bf16 after ``count`` layers, by definition. Leaves the state, and writes the caches'
    position behind each sequence. ``seen`` gets each layer's largest inputs of products."""
    bf16, layer_seen = recipe("bf16"), {}

    class Noting(type(bf16)):  # type: ignore[misc]
        def __call__(self, x: Tensor, packed: tuple) -> Tensor:
            layer_seen[packed[1]] = float(x.abs().max())
            return F.linear(x, packed[0])
    layer = layer_of(Noting(), lambda *of: defined(model, state, *of))
    with torch.no_grad():
        x = embedded(model, state)
        for i in range(count):
            x = layer(x, model.gammas[i], model.head_norms[i], tuple((model.weights[i][p], p) for p in PRODUCTS), state.caches[i])
            if seen is not None:
                seen.append(dict(layer_seen))
        return F.linear(F.rms_norm(x, (model.sizes.width,), model.final, EPSILON), model.head)


def calibrate(model: Model, context: int) -> None:
    """Fills ``model.largest`` from one step of MARGIN_ROWS sequences."""
    state = State(model, MARGIN_ROWS)
    state.begin(context)
    model.largest.clear()
    reference(model, state, model.layers, model.largest)


class Judge:
    """Judges the arms of one batch, context and number of layers."""

    def __init__(self, model: Model, state: State, count: int):
        self.wanted, self.count, self.twins = reference(model, state, count), count, {}

    def judge(self, accuracy: str, kind: str, logits: Tensor) -> dict:
        """Returns what the record says of an arm's logits. Raises ``ArithmeticError`` if they are wrong; NaN is wrong."""
        bound, of_twins = (round(table[accuracy] * math.sqrt(self.count), 4) for table in (BOUNDS, TWINS))
        found = distance(logits, self.wanted)
        if not found <= bound:
            raise ArithmeticError(f"logits of {self.count} layers are {found:.4f} from bf16's, and {accuracy} may be {bound}")
        twin = self.twins.setdefault(kind, logits.float().clone())
        apart = distance(logits, twin)
        if not apart <= of_twins:
            raise ArithmeticError(f"logits of {self.count} layers are {apart:.4f} from those of another arm with the same weights "
                                  f"({kind}), and may be {of_twins}")
        return {"logits_vs_bf16": round(found, 4), "logits_bound": bound, "logits_vs_twin": round(apart, 4)}
