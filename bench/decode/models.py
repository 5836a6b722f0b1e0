# SPDX-License-Identifier: Apache-2.0
"""Models of random weights, and the state of a batch that decodes. Every arm reads the same tensors: joined q/k/v and gate/up
products, a bf16 head, caches that begin full of random keys and values.

A ``Model`` holds only as many layers as are measured, and its whole embedding and head.
"""
from __future__ import annotations

import dataclasses
import gc
from typing import Any, Callable

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

BF16 = torch.bfloat16
PRODUCTS = ("qkv", "o", "gate_up", "down")
SPACE = 64  # positions behind the longest context, which replays fill
GAIN = 0.35  # scales the weights of products that write into the residual
EPSILON = 1e-5
MARGIN_ROWS = 16  # sequences of the step that calibrates


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes of a Llama or (``head_norms``) Qwen3 model; ``layers`` is how many the whole model has."""

    width: int
    heads: int
    kv: int
    dim: int
    inner: int
    vocab: int
    layers: int
    theta: float
    head_norms: bool

    @property
    def parts_of_qkv(self) -> list[int]:
        """Columns of q, k and v."""
        return [self.heads * self.dim, self.kv * self.dim, self.kv * self.dim]

    def shape(self, product: str) -> tuple[int, int]:
        """Rows and columns of a product's weight."""
        return {"qkv": ((self.heads + 2 * self.kv) * self.dim, self.width), "o": (self.width, self.heads * self.dim),
                "gate_up": (2 * self.inner, self.width), "down": (self.width, self.inner)}[product]


MODELS = {
    "llama3-8b": Sizes(4096, 32, 8, 128, 14336, 128256, 32, 500000.0, False),
    "qwen3-8b": Sizes(4096, 32, 8, 128, 12288, 151936, 36, 1000000.0, True),
    # Models that nobody tuned for.
    "phi-4": Sizes(5120, 40, 10, 128, 17920, 100352, 40, 250000.0, False),
    "mistral-nemo": Sizes(5120, 32, 8, 128, 14336, 131072, 40, 1000000.0, False),
    "smollm2-1.7b": Sizes(2048, 32, 32, 64, 8192, 49152, 24, 130000.0, False),
    # To test this bench on a CPU.
    "tiny-llama": Sizes(256, 4, 2, 64, 512, 512, 32, 10000.0, False),
    "tiny-qwen": Sizes(256, 4, 2, 64, 512, 512, 36, 10000.0, True),
}


class Model:
    """Weights of the first layers of a model, and what arms made of them (``packed``)."""

    def __init__(self, name: str, layers: int, longest: int, device: str):
        self.name, self.sizes, self.layers, self.device = name, MODELS[name], layers, device
        sizes, self.length = self.sizes, longest + SPACE
        generator = torch.Generator(device=device).manual_seed(0)

        def normal(shape: tuple[int, int], std: float) -> Tensor:
            return torch.empty(shape, device=device, dtype=BF16).normal_(0, std, generator=generator)
        # Inputs of products have unit size, and a layer adds as much as the embedding: so logits tell a wrong scale in one product.
        gains = {p: sizes.shape(p)[1] ** -0.5 * (GAIN if p in ("o", "down") else 1.0) for p in PRODUCTS}
        self.weights = [{p: normal(sizes.shape(p), gains[p]) for p in PRODUCTS} for _ in range(layers)]
        self.embedding, self.head = normal((sizes.vocab, sizes.width), 0.5), normal((sizes.vocab, sizes.width), 0.02)

        def gammas(width: int) -> Tensor:
            return (1 + 0.1 * torch.randn(width, device=device, generator=generator)).to(BF16)
        self.gammas = [(gammas(sizes.width), gammas(sizes.width)) for _ in range(layers)]
        self.final = gammas(sizes.width)
        self.head_norms = [(gammas(sizes.dim), gammas(sizes.dim)) if sizes.head_norms else (None, None) for _ in range(layers)]
        half = sizes.dim // 2
        angle = torch.arange(self.length, device=device)[:, None] * sizes.theta ** -(torch.arange(half, device=device) / half)
        self.rotary = angle.cos(), angle.sin()
        self.largest: list[dict[str, float]] = []  # the largest magnitude of each product's input; calibrate() fills it
        self._packed: dict[str, list[dict[str, tuple]]] = {}

    def packed(self, kind: str, pack: Callable[[Tensor, float, str], tuple]) -> list[dict[str, tuple]]:
        """Each layer's weights as ``pack(weight, largest input, product)`` makes them; arms of one ``kind`` share them."""
        if kind not in self._packed:
            with torch.no_grad():
                self._packed[kind] = [{p: pack(self.weights[i][p], self.largest[i][p], p) for p in PRODUCTS} for i in range(self.layers)]
        return self._packed[kind]

    def forget(self, kind: str) -> None:
        """Frees the packed weights of a kind."""
        self._packed.pop(kind, None)
        gc.collect()


class State:
    """A batch: tokens, lengths, and a cache of keys and of values for each layer, which all arms of the batch share."""

    def __init__(self, model: Model, batch: int):
        sizes, device = model.sizes, model.device
        self.model, self.batch = model, batch
        self.token = torch.zeros(batch, device=device, dtype=torch.int64)
        self.lengths = torch.zeros(batch, device=device, dtype=torch.int32)
        self.slots = torch.arange(batch, device=device, dtype=torch.int32)
        shape = cache_shape(batch, model.length, sizes.kv, sizes.dim)
        generator = torch.Generator(device=device).manual_seed(batch)
        self.caches = [tuple(torch.empty(shape, device=device, dtype=BF16).normal_(generator=generator) for _ in range(2))
                       for _ in range(model.layers)]

    def begin(self, context: int) -> None:
        """Sets the first tokens, and ``context`` cached tokens for each sequence."""
        self.token.copy_(torch.arange(self.batch, device=self.token.device) * 7 % self.model.sizes.vocab)
        self.lengths.fill_(context)


def cache_shape(rows: int, length: int, kv: int, dim: int) -> tuple[int, ...]:
    return rows, kv, length, dim


def rms_norm(x: Tensor, gamma: Tensor) -> Tensor:
    """RMSNorm by its definition, in fp32."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPSILON) * gamma.float()).to(x.dtype)


def nbytes(values: Any) -> int:
    """Bytes of all tensors in nested tuples and lists, blobs and layers."""
    if is_traceable_wrapper_subclass(values):  # torchao's tensors
        return nbytes([getattr(values, name) for name in values.__tensor_flatten__()[0]])
    if isinstance(values, Tensor):
        return values.numel() * values.element_size()
    if isinstance(values, torch.nn.Module):
        return nbytes([*values.parameters(), *values.buffers()])
    if isinstance(values, (tuple, list)):
        return sum(map(nbytes, values))
    return int(getattr(values, "nbytes", 0))
