# SPDX-License-Identifier: Apache-2.0
"""The experts of transformers' models on sluice's products of groups: ``import sluice.transformers`` registers the implementation.

    import sluice.transformers
    model = AutoModelForCausalLM.from_pretrained(folder, experts_implementation="sluice")

No host waits for the number of tokens that an expert gets, so generation can be captured in CUDA graphs. Training works too; its
gathering and adding are then torch's. Activations, gates and norms other than SwiGLU are the model's own modules, between the products.

gpt-oss stores gate and up as alternating columns. ``arrange_experts(model)`` stores them as halves, once, and then its clamped SwiGLU is
in the kernel of the first product.
"""
from __future__ import annotations

import types
from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from .torch import grouped_mm, moe

NAME = "sluice"
CLAMPED = (1.702, 7.0)
"""The slope and the limit of the kernels' clamped SwiGLU, those of gpt-oss."""


def register() -> None:
    """Registers ``experts_forward`` as "sluice". Does nothing if transformers has no registry of experts."""
    try:
        from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
    except ImportError:
        return
    ALL_EXPERTS_FUNCTIONS.register(NAME, experts_forward)


def _is_plain_swiglu(self: torch.nn.Module) -> bool:
    """Returns whether the module computes ``down(silu(gate) * up)`` of weights that are stored as sluice reads them."""
    from transformers.integrations.moe import _default_apply_gate

    owner: Any = self
    return (owner.has_gate and owner.is_concatenated and not owner.is_transposed and not owner.has_post_expert_norm
            and type(owner)._apply_gate is _default_apply_gate
            and type(owner.act_fn).__name__ in ("SiLUActivation", "SiLU"))


def _apply_gate_of_halves(self: Any, gate_up: Tensor) -> Tensor:
    """gpt-oss's ``_apply_gate`` for gate and up that are stored as halves."""
    gate, up = gate_up.chunk(2, -1)
    gate, up = gate.clamp(max=self.limit), up.clamp(min=-self.limit, max=self.limit)
    return (up + 1) * (gate * torch.sigmoid(gate * self.alpha))


def _is_clamped_swiglu(owner: Any) -> bool:
    """Returns whether the module is one that ``arrange_experts`` arranged, with the kernels' constants."""
    gate = getattr(owner._apply_gate, "__func__", None) if owner.has_gate else None
    return gate is _apply_gate_of_halves and (owner.alpha, owner.limit) == CLAMPED


def _as_halves(parameter: torch.nn.Parameter) -> torch.nn.Parameter:
    """Returns the parameter with the alternating entries of its last dimension as halves. That of a matrix is the strided one then."""
    with torch.no_grad():
        arranged = torch.cat((parameter[..., ::2], parameter[..., 1::2]), -1)
        if arranged.dim() == 3:
            arranged = arranged.transpose(-2, -1).contiguous().transpose(-2, -1)
    return torch.nn.Parameter(arranged, requires_grad=parameter.requires_grad)


def arrange_experts(model: torch.nn.Module) -> int:
    """Stores gate and up of gpt-oss's experts as halves, matrix by matrix, and returns how many modules it has arranged. Call it once
    after loading. The model computes the same with every ``experts_implementation``; a module arranged before is left alone.

    Parameters are new, so make an optimizer afterwards. A state dict has halves too: load one that was saved before in front of the call.
    """
    arranged = 0
    for module in model.modules():
        if type(module).__name__ != "GptOssExperts" or getattr(module._apply_gate, "__func__", None) is _apply_gate_of_halves:
            continue
        owner: Any = module
        for name in ("gate_up_proj", "gate_up_proj_bias"):
            setattr(owner, name, _as_halves(getattr(owner, name)))
        owner._apply_gate = types.MethodType(_apply_gate_of_halves, owner)
        arranged += 1
    return arranged


def _weights(owner: Any, name: str) -> Tuple[Tensor, Optional[Tensor]]:
    """Returns the weights of a product as experts x inputs x outputs, and their bias."""
    weight = getattr(owner, name)
    return weight if owner.is_transposed else weight.transpose(-2, -1), getattr(owner, f"{name}_bias") if owner.has_bias else None


def experts_forward(self: torch.nn.Module, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """Returns the sum of the chosen experts of each token, as transformers' own implementations do. ``self``: a module of experts.
    An index past the last expert, of a token of another rank, adds nothing."""
    owner: Any = self
    if _is_plain_swiglu(self):
        biases = {"bias_13": owner.gate_up_proj_bias, "bias_2": owner.down_proj_bias} if owner.has_bias else {}
        return moe.experts(hidden_states, top_k_index, top_k_weights, owner.gate_up_proj, owner.down_proj,  # type: ignore[no-any-return]
                           **biases)
    if _is_clamped_swiglu(owner):
        return moe.experts(hidden_states, top_k_index, top_k_weights, owner.gate_up_proj.transpose(-2, -1),  # type: ignore[no-any-return]
                           owner.down_proj.transpose(-2, -1), bias_13=owner.gate_up_proj_bias, bias_2=owner.down_proj_bias,
                           activation="clamped_swiglu")
    ends, row_of_slot, token_of_row = moe.route(top_k_index, owner.num_experts)
    up, up_bias = _weights(owner, "gate_up_proj" if owner.has_gate else "up_proj")
    down, down_bias = _weights(owner, "down_proj")
    hidden = grouped_mm(moe.rows_of(hidden_states, token_of_row), up, offs=ends, bias=up_bias, zero_rest=True)
    hidden = owner._apply_gate(hidden) if owner.has_gate else owner.act_fn(hidden)
    y = grouped_mm(hidden.contiguous(), down, offs=ends, bias=down_bias, zero_rest=True)
    if owner.has_post_expert_norm:
        y = owner.post_expert_norm(y)
    return moe.sum_of_slots(y, row_of_slot, top_k_weights).to(hidden_states.dtype)
