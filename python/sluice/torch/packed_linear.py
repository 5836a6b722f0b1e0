# SPDX-License-Identifier: Apache-2.0
"""``Linear4bit``, ``Linear8bit`` and ``LinearPacked``: replacements of ``torch.nn.Linear`` with packed weights. Forward only."""
from __future__ import annotations

import dataclasses
from typing import Any, Optional, Tuple, Union

import torch
from torch import Tensor

from .._arguments import shown
from ..errors import Error, InvalidArgument, InvalidType
from ..formats import WEIGHT_TYPES, WeightFormat
from ..packed import PackedWeights, pack_int4, pack_int8, pack_quantized
from ..plans import Rows, prepare, prepare_quantizers
from ..problems import Problem
from ..weights import QuantizedWeights
from ..weights._arrays import library_of
from ..weights.canonical import check_permutation, check_width
from .autograd import needs_grad, refuse_grad
from ._entry import checked, op
from ._layers import check_layer, packed_problem
from ._library import PACKED_MM, dispatch
from ._states import QuantizedState
from .packed import permuted
from .quantize import quantize

_HEAD = 3  # numbers in weight_format: the format's number, n, k


def gpu_of(weight: Tensor) -> int:
    """Returns the number of the GPU that holds a weight. Raises ``InvalidArgument`` if no GPU does."""
    if weight.device.type != "cuda":
        raise InvalidArgument(f"the layer's weight is on {weight.device} and must be on a GPU: move the model there first")
    return weight.device.index


class LinearPacked(QuantizedState):
    """A linear with packed weights: ``input[..., permutation] @ W.t() + bias``. The input is bf16 or fp16; the output has
    the input's type.

    ``activations``: None, or "e4m3" (4-bit weights only). With "e4m3" a fused kernel quantises the input, which may be fp32 too, to
    e4m3 with one scale per token. The order of ``format`` is then "byte".

    The state holds ``weight_packed`` (the blob), ``weight_format`` (the format's number, n and k), ``permutation`` if there
    is one, and ``bias``. Loading a state checks ``weight_format``. ``.to()`` moves all of them to a device; it changes the type of
    the bias only.

    To load a state, make the module with equal sizes, ``format``, ``bias`` and ``act_order``. A shard in act-order
    (``PackedWeights.slice_k``) also needs ``width``, the number of columns of its input, which exceeds ``in_features``.
    """

    codes_name = "weight_packed"
    weight_packed: Tensor
    weight_format: Tensor
    permutation: Optional[Tensor]
    bias: Optional[torch.nn.Parameter]
    DEFAULT = WeightFormat()
    TYPES: Tuple[str, ...] = WEIGHT_TYPES

    @checked
    def __init__(self, in_features: int, out_features: int, bias: bool = True, *,
                 format: Optional[WeightFormat] = None, act_order: bool = False,  # noqa: A002
                 activations: Optional[str] = None, width: Optional[int] = None,
                 device: Union[str, int, torch.device, None] = None, dtype: Optional[torch.dtype] = None) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        order = _order_of(activations)
        if format is None:
            format = dataclasses.replace(self.DEFAULT, order=order)
        elif activations is not None and format.order != order:
            raise InvalidArgument(f"format has the order {shown(format.order)} and activations = {shown(activations)} needs 'byte': give a "
                                  "format of that order")
        self.format = format
        if format.type not in self.TYPES:
            raise InvalidArgument(f"{type(self).__name__} takes weights of {', '.join(self.TYPES)}, not {format.type}: use "
                                  "LinearPacked")
        check_layer(self, [packed_problem(self, format)])
        nbytes = format.numbers(out_features, in_features).blob_bytes
        self._number, self._numbers = format.number, (*format.values, out_features, in_features)
        check_width(width, in_features, act_order)
        self._width = in_features if width is None else width
        self.register_buffer("weight_packed", torch.zeros(nbytes, device=device, dtype=torch.uint8))
        self.register_buffer("weight_format", torch.tensor([self._number, out_features, in_features], dtype=torch.int64,
                                                           device=device))
        self.register_buffer("permutation", torch.arange(in_features, device=device) if act_order else None)
        self.bias = None
        if bias:
            self.bias = torch.nn.Parameter(torch.zeros(out_features, device=device, dtype=dtype or torch.bfloat16),
                                           requires_grad=False)

    @classmethod
    @checked
    def from_packed(cls, packed: PackedWeights, bias: Optional[Tensor] = None) -> "LinearPacked":
        """Makes the layer from packed weights without copying them. ``bias``: n values, bf16, fp16 or fp32. Raises
        ``InvalidArgument`` for another shape of the bias, ``InvalidType`` for another type, and ``InvalidConfig`` for weights
        of a gated product."""
        packed.check_gated(False)
        made = cls(packed.k, packed.n, bias=False, format=packed.format, device="meta")
        if bias is not None and tuple(bias.shape) != (packed.n,):
            raise InvalidArgument(f"bias has shape {tuple(bias.shape)} and must have ({packed.n},), a value for each output")
        if bias is not None and bias.dtype not in (torch.bfloat16, torch.float16, torch.float32):
            raise InvalidType(f"bias is {bias.dtype} and must be bfloat16, float16 or float32: convert it")
        made.weight_packed = packed.blob
        made.weight_format = torch.tensor([made._number, packed.n, packed.k], dtype=torch.int64, device=packed.blob.device)
        made.permutation = packed.permutation
        made._width = packed.token_width
        if bias is not None:
            made.bias = torch.nn.Parameter(bias.detach(), requires_grad=False)
        return made

    @classmethod
    @checked
    def from_quantized(cls, weights: QuantizedWeights, bias: Optional[Tensor] = None, *,
                       activations: Optional[str] = None) -> "LinearPacked":
        """Makes the layer from quantised weights (``sluice.weights``), such as those of GPTQ, AWQ, compressed-tensors or
        ``quantize_groups``. They are packed on the device that holds them. Raises ``InvalidArgument`` unless they are torch
        tensors."""
        if not isinstance(weights.codes, Tensor):
            raise InvalidArgument(f"codes are {type(weights.codes).__name__} and must be torch tensors: import the checkpoint "
                                  "from tensors")
        return cls.from_packed(pack_quantized(weights, order=_order_of(activations)), bias)

    @classmethod
    @checked
    def from_linear(cls, module: torch.nn.Linear, group: int = 128, *, symmetric: bool = True,
                    scale_type: Optional[str] = None, activations: Optional[str] = None) -> "LinearPacked":
        """Makes the layer from a ``torch.nn.Linear``, sharing its bias. The weight is rounded to the nearest 4-bit code
        (8-bit in ``Linear8bit``). Scales have type ``scale_type``, by default the weight's. Raises ``InvalidArgument`` for
        ``activations`` with 8 bits."""
        weight, how = module.weight.detach(), {"symmetric": symmetric, "scale_type": scale_type}
        if weight.is_meta:  # an empty layer, to be filled by load_state_dict
            format = WeightFormat(cls.DEFAULT.type, group, scale_type or str(weight.dtype), not symmetric, _order_of(activations))  # noqa: A001
            return cls(module.in_features, module.out_features, module.bias is not None, format=format, activations=activations,
                       device="meta", dtype=weight.dtype).train(module.training)
        with torch.no_grad():
            if cls.DEFAULT.type != "int8":
                packed = pack_int4(weight, group, order=_order_of(activations), **how)
            elif activations is None:
                packed = pack_int8(weight, group, **how)
            else:
                raise InvalidArgument(f"activations = {shown(activations)} is for 4-bit weights: use Linear4bit, or leave it out")
            return cls.from_packed(packed, module.bias).train(module.training)

    @property
    def packed(self) -> PackedWeights:
        """The layer's weights, not copied."""
        return PackedWeights(self.weight_packed, self.out_features, self.in_features, self.format, self.permutation,
                             None if self.permutation is None else self._width)

    @property
    def activations(self) -> Optional[str]:
        """"e4m3" if the input is quantised, else None."""
        return "e4m3" if self.format.order == "byte" else None

    @op(x="input")
    def forward(self, input: Tensor) -> Tensor:
        if needs_grad(input, None, self.bias, None):
            refuse_grad(type(self).__name__)
        if self.permutation is not None:
            input = permuted(input, self.permutation, self._width)
        tokens, scale_x = input, None
        if self.format.order == "byte":
            tokens, scale_x = quantize(input, "row")
        return dispatch(PACKED_MM, None, input.dtype, tokens, self.weight_packed, self._numbers, scale_x, None, 0.0, self.bias, None,
                        None, False, None, 0)

    @checked
    def prepare(self, rows: Rows, dtype: Optional[torch.dtype] = None) -> None:
        """Compiles and loads the kernels that ``forward`` needs for every row count of a range, like ``(1, 512)``: at
        most 12 kernels, and with ``activations`` the input's quantiser.

        The row count is the input's elements divided by its last extent. ``dtype`` is the input's type. By default it is the
        bias's, or bf16 without a bias. Raises ``InvalidArgument`` if the layer is not on a GPU.
        """
        device = gpu_of(self.weight_packed)
        prepare(self.problem(1, dtype), m=rows, device=device)
        if self.format.order == "byte":
            prepare_quantizers(self._input_type(dtype), device=device)

    @checked
    def problem(self, m: int, dtype: Optional[torch.dtype] = None) -> Problem:
        """Returns the problem of ``forward`` for an input of ``m`` rows of type ``dtype``, as in ``prepare``."""
        name = str(self._input_type(dtype))
        bias = None if self.bias is None else str(self.bias.dtype)
        return self.packed.problem(m, "e4m3" if self.format.order == "byte" else name, d=name, bias=bias)

    def _input_type(self, dtype: Optional[torch.dtype]) -> torch.dtype:
        return dtype or (torch.bfloat16 if self.bias is None else self.bias.dtype)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, local_metadata: dict, strict: bool, missing_keys: list,
                              unexpected_keys: list, error_msgs: list) -> None:
        """Checks the format too. torch compares only shapes, and blobs of different formats may have equal lengths."""
        head = state_dict.get(prefix + "weight_format")
        if head is not None and not head.is_meta:
            wanted = [self._number, self.out_features, self.in_features]
            got = [int(value) for value in head.reshape(-1)]
            if got != wanted:
                error_msgs.append(f"{prefix}weight_format: the state is of {_head_text(got)}, and this module of "
                                  f"{_head_text(wanted)}; make the module with that format")
                return
        order = state_dict.get(prefix + "permutation")
        if self.permutation is not None and order is not None and not order.is_meta and order.shape == self.permutation.shape:
            try:
                check_permutation(library_of(permutation=order), order, self._width)
            except Error as error:
                error_msgs.append(f"{prefix}permutation: {error} (for a shard, make the module with width=)")
                return
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def extra_repr(self) -> str:
        return (f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
                f"format={self.format}, act_order={self.permutation is not None}, "
                f"{'' if self.permutation is None else f'width={self._width}, '}activations={self.activations}")


class Linear4bit(LinearPacked):
    """``LinearPacked`` for 4-bit integers only."""

    TYPES = ("uint4",)


class Linear8bit(LinearPacked):
    """``LinearPacked`` for 8-bit integers only."""

    DEFAULT = WeightFormat("int8")
    TYPES = ("int8",)


def _order_of(activations: Optional[str]) -> str:
    """Returns the order of codes for inputs of type ``activations``: "byte" for "e4m3", "half" for None. Raises
    ``InvalidArgument`` for anything else."""
    if activations not in (None, "e4m3"):
        raise InvalidArgument(f"activations = {shown(activations)} must be None (16 bits, as they come) or 'e4m3'")
    return "half" if activations is None else "byte"


def _head_text(head: list) -> str:
    if len(head) != _HEAD:
        return f"{len(head)} numbers"
    try:
        kind: Any = WeightFormat.from_number(head[0])
    except InvalidArgument:
        kind = f"format {head[0]}, which this version does not know"
    return f"{head[1]} x {head[2]} weights as {kind}"


PACKED_RECIPES = {"int4": Linear4bit, "int8": Linear8bit}
