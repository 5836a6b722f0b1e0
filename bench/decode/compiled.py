# SPDX-License-Identifier: Apache-2.0
"""Arms whose layers are under torch.compile: norms, quantisers, SwiGLU and residuals are the compiler's, products the recipe's."""
from __future__ import annotations

import contextlib
from typing import Callable, ContextManager, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attend import Attention, attend, numbered
from loops import Arm, Program, embedded
from models import EPSILON, PRODUCTS, Model, State, rms_norm
from recipes import Recipe, recipe

PDL = {"triton.enable_pdl": True}  # Inductor's Triton kernels under programmatic dependent launch
# Settings of torchao's recommended_inductor_config_setter, for its arms only.
TORCHAO = {"coordinate_descent_tuning": True, "coordinate_descent_check_all_directions": True, "force_fuse_int_mm_with_mul": True,
           "triton.unique_kernel_names": True}


def layer_of(by: Recipe, attention: Callable) -> Callable[..., Tensor]:
    """A layer with products ``by`` a recipe; ``attention(qkv, caches, head norms, out_scale)`` writes the caches."""
    def layer(x: Tensor, gammas: tuple, head_norms: tuple, packed: tuple, caches: tuple) -> Tensor:
        qkv, o, gate_up, down = packed
        scale = by.attention_scale(o)
        out = attention(by(rms_norm(x, gammas[0]), qkv), *caches, *head_norms, scale)
        x = x + (by(out, o) if scale is None else by.product((out,), o))
        gate, up = by(rms_norm(x, gammas[1]), gate_up).chunk(2, -1)
        return x + by(F.silu(gate) * up, down)
    return layer


class Compiled(Arm):
    """``settings``: of Inductor. ``override``: under ``st.override()``, which takes torch._scaled_mm."""

    seconds = 14.0

    def __init__(self, name: str, by: str, *, settings: dict | None = None, override: bool = False):
        super().__init__(name, recipe(by).kind, recipe(by).accuracy)
        self.by, self.settings, self.override = recipe(by), settings or {}, override

    @contextlib.contextmanager
    def _scope(self) -> Iterator[None]:
        import torch._inductor.config as inductor
        unknown = [name for name in self.settings if not _has(inductor, name)]
        if unknown:
            raise NotImplementedError(f"this torch ({torch.__version__}) has no torch._inductor.config.{unknown[0]}")
        with contextlib.ExitStack() as stack:
            if self.settings:
                stack.enter_context(inductor.patch(self.settings))
            if self.override:
                from sluice.torch.override import override
                override.reset_counts()
                stack.enter_context(override())
            if self.settings or self.override:
                torch._dynamo.reset()  # code compiled under other settings is not found again
                stack.callback(torch._dynamo.reset)
            yield

    def scope(self) -> ContextManager:
        return self._scope()

    def build(self, model: Model, state: State) -> Program:
        number = numbered(Attention(model, state, dependent=False))
        packed = model.packed(self.kind, self.by.pack)
        compiled = torch.compile(layer_of(self.by, lambda *of: attend(*of, number)), fullgraph=True, dynamic=False,
                                 backend="aot_eager" if model.device == "cpu" else "inductor")

        def hidden(count: int) -> Callable[[], Tensor]:
            def body() -> Tensor:
                x = embedded(model, state)
                for i in range(count):
                    x = compiled(x, model.gammas[i], model.head_norms[i], tuple(packed[i][p] for p in PRODUCTS), state.caches[i])
                return F.rms_norm(x, (model.sizes.width,), model.final, EPSILON)
            return body
        return Program(hidden, packed, notes=self._notes)

    def _notes(self) -> dict:
        """How many calls sluice took while this arm was built, and why torch kept others."""
        if not self.override:
            return {}
        from sluice.torch.override import override
        return {"override": override.counts()._asdict()}


def _has(module: object, name: str) -> bool:
    for part in name.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True
