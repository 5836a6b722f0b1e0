# SPDX-License-Identifier: Apache-2.0
"""Attention of one new token per sequence, in one Triton kernel: what runs in the gap of a decoding chain.

The kernel norms the heads, rotates them, writes the cache and attends to it, so it is one launch per layer. Some CTAs share a sequence's
cache, and the last of them to arrive joins their parts. With ``dependent`` it keeps both promises of a gap (docs/attention.md): it
lets the next launch begin at once, and waits before it touches memory. Triton compiles it at the first call.
"""
from __future__ import annotations

import contextlib
import math
from typing import Optional, Tuple

import torch
from torch import Tensor

from .._arguments import shown
from ..errors import Aliasing, InvalidArgument, InvalidSize, InvalidStride, InvalidType, WrongDevice

try:
    import triton
    import triton.language as tl
except ImportError as error:
    raise ImportError("sluice.torch.attention needs Triton 3.6 or newer, which comes with torch for CUDA: pip install triton") from error

E4M3 = torch.float8_e4m3fn
TYPES = (torch.bfloat16, torch.float16)
SMS = 132  # H100 and H200 have so many.
LOG2_E = math.log2(math.e)
INT32 = 2**31 - 1


@triton.jit
def _prefetch(pointers):
    tl.inline_asm_elementwise("prefetch.global.L2 [$1]; // $0", "=r,l", [pointers], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def _weights_of(q_norm, k_norm, g, column, D: tl.constexpr, G: tl.constexpr):
    """Returns the weights of the norms as a tile: of q in rows below G, of k in row G, else 1."""
    inside = (column < D)[None, :]
    column = (g * 0)[:, None] + column[None, :]
    weights = tl.full(column.shape, 1.0, tl.float32)
    if q_norm is not None:
        weights = tl.load(q_norm + column, mask=(g < G)[:, None] & inside, other=1.0).to(tl.float32)
    if k_norm is not None:
        weights *= tl.load(k_norm + column, mask=(g == G)[:, None] & inside, other=1.0).to(tl.float32)
    return weights


@triton.jit
def _product(a, b, WIDE: tl.constexpr):
    if WIDE:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee")
    else:
        return tl.dot(a, b)


@triton.jit
def _logits(score, scale, softcap):
    """Returns logits times log2(e). ``scale`` contains log2(e), unless there is a cap."""
    score = score * scale
    if softcap is not None:
        score = softcap * (1.0 - 2.0 / (tl.exp2(score) + 1.0))
    return score


@triton.jit
def _write(out, value, out_scale, offset, column, G: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr):
    if out_scale is not None:
        value = tl.clamp(value / tl.load(out_scale), -448.0, 448.0, propagate_nan=tl.PropagateNan.ALL)
    g = tl.arange(0, ROWS)
    tl.store(out + offset + g[:, None] * D + column[None, :], value.to(out.dtype.element_ty), mask=(g < G)[:, None] & (column < D)[None, :])


@triton.jit
def _join(out, parts, peaks, out_scale, base, used, out_at, d, G: tl.constexpr, D: tl.constexpr, GJ: tl.constexpr, DP: tl.constexpr,
          CHUNK: tl.constexpr):
    """Joins the parts of ``used`` splits, in their order, whatever the order of arrival. They are read from L2."""
    g, s = tl.arange(0, GJ), tl.arange(0, CHUNK)
    peak = tl.full([GJ], -float("inf"), tl.float32)
    total = tl.zeros([GJ], tl.float32)
    sums = tl.zeros([GJ, DP], tl.float32)
    for start in tl.range(0, used, CHUNK, num_stages=1):
        real = (start + s < used)[:, None] & (g < G)[None, :]
        at = (base + start + s)[:, None] * G + g[None, :]
        peak_of = tl.load(peaks + at * 2, mask=real, other=-float("inf"), cache_modifier=".cg")
        total_of = tl.load(peaks + at * 2 + 1, mask=real, other=0.0, cache_modifier=".cg")
        sums_of = tl.load(parts + at[:, :, None] * D + d[None, None, :], mask=real[:, :, None] & (d < D)[None, None, :], other=0.0,
                          cache_modifier=".cg")
        higher = tl.maximum(peak, tl.max(peak_of, 0))
        weight = tl.exp2(peak_of - higher[None, :])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(weight * total_of, 0)
        sums = sums * shrink[:, None] + tl.sum(weight[:, :, None] * sums_of, 0)
        peak = higher
    _write(out, sums / total[:, None], out_scale, out_at, d, G, D, GJ)


@triton.jit(do_not_specialize=["slot_count", "max_length", "splits", "least", "alone", "window"])
def _attend(qkv, k_cache, v_cache, slots, lengths, out, q_norm, k_norm, out_scale, cosines, sines, parts, peaks, tickets, qkv_pitch,
            k_pitch, v_pitch, out_pitch, slot_count, max_length, splits, least, alone, window, scale, softcap, epsilon, KV: tl.constexpr,
            G: tl.constexpr, D: tl.constexpr, ROTARY: tl.constexpr, GP: tl.constexpr, GJ: tl.constexpr, DP: tl.constexpr,
            VECTOR: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr, DEPENDENT: tl.constexpr, PREFETCH: tl.constexpr,
            WIDE: tl.constexpr):
    if DEPENDENT:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    split, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)

    # These loads depend on nothing, so one latency covers the row's length, its slot and the new token.
    length = tl.load(lengths + row)
    if slots is None:
        slot = row
    else:
        slot = tl.load(slots + row)
    # The tile has the heads of q in rows below G, the new k in row G and the new v in row G + 1.
    g, d = tl.arange(0, GP), tl.arange(0, DP)
    HALF: tl.constexpr = ROTARY // 2
    # The rotation mixes column d with the column half a rotation away. A run of VECTOR columns stays a run.
    swapped = tl.where(d < HALF, d + HALF, tl.where(d < ROTARY, d - HALF, d))
    swapped = tl.max_contiguous(tl.multiple_of(swapped, VECTOR), VECTOR)
    angle = tl.max_contiguous(tl.multiple_of(tl.where(d < HALF, d, d - HALF), VECTOR), VECTOR)
    source = tl.where(g < G, head * G + g, KV * G + head + (g - G) * KV)
    token = qkv + row.to(tl.int64) * qkv_pitch + (source * D)[:, None]
    inside = (d < D)[None, :]
    held = ((g < G) | (g < G + 2) & (split == 0))[:, None] & inside
    x = tl.load(token + d[None, :], mask=held, other=0.0)
    partner = x
    if ROTARY > 0:
        partner = tl.load(token + swapped[None, :], mask=held, other=0.0)
    NORMED: tl.constexpr = q_norm is not None or k_norm is not None
    if NORMED:
        weights = _weights_of(q_norm, k_norm, g, d, D, G)
        if ROTARY > 0:
            partner_weights = _weights_of(q_norm, k_norm, g, swapped, D, G)

    # The cached positions [first, length) are divided among `used` splits: a short cache takes few of them. All CTAs of a
    # row read the same length, so they agree on `used`, and the others leave without a ticket.
    active = (length >= 0) & (length < max_length) & (slot >= 0) & (slot < slot_count)
    if window is None:
        first = 0
    else:
        first = tl.maximum(length - window + 1, 0)
    count = tl.where(active, length - first, 0)
    per = tl.cdiv(tl.maximum(tl.cdiv(count, splits), tl.where(count <= alone, count, least)), BLOCK) * BLOCK
    used = tl.maximum(tl.cdiv(count, tl.maximum(per, 1)), 1)
    if split >= used:
        return
    out_at = row.to(tl.int64) * out_pitch + head * G * D
    if not active:
        _write(out, tl.zeros([GP, DP], tl.float32), None, out_at, d, G, D, GP)
        return

    lo = first + split * per
    hi = tl.minimum(lo + per, length)
    plane = head.to(tl.int64) * max_length * D
    k_base = k_cache + slot.to(tl.int64) * k_pitch + plane
    v_base = v_cache + slot.to(tl.int64) * v_pitch + plane
    t = tl.arange(0, BLOCK)
    if PREFETCH:  # The first two blocks travel from HBM to L2 while q is rotated.
        LINES: tl.constexpr = DP * 2 // 128 if DP >= 64 else 1
        line = tl.minimum(tl.arange(0, LINES) * 64, D - 1)
        early = (tl.maximum(tl.minimum(lo + tl.arange(0, 2 * BLOCK), hi - 1), 0) * D)[:, None] + line[None, :]
        _prefetch(k_base + early)
        _prefetch(v_base + early)

    KIND: tl.constexpr = qkv.dtype.element_ty
    turned = x.to(tl.float32)
    mixed = partner.to(tl.float32)
    if NORMED:
        shrink = tl.rsqrt(tl.sum(turned * turned, 1) / D + epsilon)
        if q_norm is None:
            shrink = tl.where(g < G, 1.0, shrink)
        if k_norm is None:
            shrink = tl.where(g == G, 1.0, shrink)
        turned *= shrink[:, None] * weights
        if ROTARY > 0:
            mixed *= shrink[:, None] * partner_weights
    if ROTARY > 0:
        turns = (d < ROTARY)[None, :] & (g <= G)[:, None]
        position = (g * 0 + length)[:, None] * HALF + angle[None, :]
        cosine = tl.load(cosines + position, mask=turns, other=1.0)
        sine = tl.load(sines + position, mask=turns, other=0.0)
        turned = turned * cosine + mixed * tl.where((d < HALF)[None, :], -sine, sine)
    x = tl.where((g <= G)[:, None], turned.to(KIND), x)

    # Split 0 writes the new token and begins with it, from its tile: no CTA reads the position that is written.
    at = (g * 0 + length)[:, None] * D + d[None, :]
    tl.store(k_base + at, x, mask=held & (g == G)[:, None])
    tl.store(v_base + at, x, mask=held & (g == G + 1)[:, None])
    other = tl.arange(0, GP)[None, :]
    own = _product(x, tl.trans(x), WIDE)
    peak = _logits(tl.sum(tl.where(other == G, own, 0.0), 1), scale, softcap)
    peak = tl.where(split == 0, peak, -float("inf"))
    # The weights are added up by column, and over columns once, behind the loop. The new token's weight is 1 at first; in
    # other splits it fades to 0 at the first block, and so does not count.
    totals = tl.where((t == 0)[None, :], 1.0, 0.0) + tl.zeros([GP, BLOCK], tl.float32)
    picks = ((g * 0)[:, None] + other == G + 1).to(tl.float32).to(KIND)  # the row of v, for all heads
    sums = _product(picks, x, WIDE)
    for start in range(lo, hi, BLOCK):
        live = (start + t < hi)[:, None] & inside
        near = (start + t)[:, None] * D + d[None, :]
        k = tl.load(k_base + near, mask=live, other=0.0)
        score = _product(x, tl.trans(k), WIDE)
        score = tl.where((start + t < hi)[None, :], _logits(score, scale, softcap), -float("inf"))
        higher = tl.maximum(peak, tl.max(score, 1))
        weight = tl.exp2(score - higher[:, None])
        fade = tl.exp2(peak - higher)
        totals = totals * fade[:, None] + weight
        v = tl.load(v_base + near, mask=live, other=0.0)
        sums = sums * fade[:, None] + _product(weight.to(KIND), v, WIDE)
        peak = higher

    total = tl.sum(totals, 1)
    if used == 1:
        _write(out, sums / total[:, None], out_scale, out_at, d, G, D, GP)
        return
    group = row * KV + head
    base = group.to(tl.int64) * splits
    mine_at = (base + split) * G + g
    tl.store(parts + mine_at[:, None] * D + d[None, :], sums, mask=(g < G)[:, None] & inside)
    tl.store(peaks + mine_at * 2, peak, mask=g < G)
    tl.store(peaks + mine_at * 2 + 1, total, mask=g < G)
    tl.debug_barrier()  # The CTA's stores come before the ticket of its first thread.
    if tl.atomic_add(tickets + group, 1, sem="acq_rel", scope="gpu") == used - 1:
        tl.store(tickets + group, 0)  # All tickets of this launch are taken.
        _join(out, parts, peaks, out_scale, base, used, out_at, d, G, D, GJ, DP, CHUNK)


_INTERPRETED = not isinstance(_attend, triton.JITFunction)


def splits_for(rows: int, kv_heads: int, max_length: int, least: int) -> int:
    """Returns among how many CTAs the cache of one sequence and head is divided at most, each with ``least`` positions or more.

    The CTAs fill 132 SMs once, or twice where that takes no more than 16 splits: what the last CTA has to join grows with their
    number. Groups that fill most SMs by themselves are not divided. docs/findings/whole-models.md has the times.
    """
    groups = rows * kv_heads
    once = SMS // groups
    wanted = once if once >= 16 or 2 * groups > SMS else min(16, 2 * SMS // groups)
    return max(1, min(wanted, 64, math.ceil(max_length / least)))


def _whole(name: str, value: object, least: int, most: int, rule: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidArgument(f"{name} = {shown(value)} must be {rule}")
    return value


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (0.0 < value < math.inf):
        raise InvalidArgument(f"{name} = {shown(value)} must be a positive number")
    return float(value)


def _span(tensor: Tensor) -> Tuple[int, int]:
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


class Attention:
    """Attention of one new token per sequence, for a bucket of ``rows`` sequences. Made once, before CUDA graphs are captured.

    - ``heads`` is a multiple of ``kv_heads``, of at most 32 times it. ``head_dim`` is a multiple of 8 from 16 to 256.
    - ``rotary`` is (cos, sin): fp32, contiguous, at least ``max_length`` x rotary_dim / 2. The first rotary_dim columns of a head are
      rotated in halves: column i with column i + rotary_dim / 2, as the Llama models of transformers do. None: no rotation.
    - ``max_length`` is the number of positions in the cache.
    - ``softmax_scale`` is ``head_dim ** -0.5`` by default. ``window`` is the number of positions that are attended to, the new one
      included, or None. ``softcap`` bounds the scaled logits by ``softcap * tanh(logits / softcap)``.
    - ``epsilon`` belongs to the norms of heads. ``dtype`` is bf16 or fp16.
    - ``splits`` is among how many CTAs a sequence and head is divided at most, each with at least ``least`` positions (rounded up to
      whole blocks). The defaults depend on ``rows`` and ``head_dim``, and up to 256 positions (128 of heads wider than 128) stay in
      one CTA. A sequence in one CTA is not joined.
    - ``dependent`` launches with programmatic dependent launch. Then the kernel waits and triggers, as a gap may promise.

    One object may serve all layers of a model that have the same parameters. It owns a workspace: its calls must be in one stream
    or graph. Raises ``InvalidArgument``, ``InvalidSize``, ``InvalidType``, ``InvalidStride`` or ``WrongDevice`` for an argument
    that breaks a rule above.
    """

    nodes = 1
    programmatic_edges = 0  # within the gap: there is one kernel

    def __init__(self, *, heads: int, kv_heads: int, head_dim: int, rotary: Optional[Tuple[Tensor, Tensor]], rows: int, max_length: int,
                 epsilon: float = 1e-5, softmax_scale: Optional[float] = None, window: Optional[int] = None,
                 softcap: Optional[float] = None, dtype: torch.dtype = torch.bfloat16, device: object = "cuda",
                 splits: Optional[int] = None, least: Optional[int] = None, dependent: bool = True) -> None:
        self.kv_heads = _whole("kv_heads", kv_heads, 1, 65535, "an integer from 1 to 65535")
        self.heads = _whole("heads", heads, 1, INT32, "a positive integer")
        if heads % kv_heads or heads // kv_heads > 32:
            raise InvalidArgument(f"heads = {heads} must be a multiple of kv_heads = {kv_heads}, of at most 32 times it")
        self.head_dim = _whole("head_dim", head_dim, 16, 256, "a multiple of 8 from 16 to 256")
        if head_dim % 8:
            raise InvalidArgument(f"head_dim = {head_dim} must be a multiple of 8 from 16 to 256")
        self.rows = _whole("rows", rows, 1, 65535, "an integer from 1 to 65535")
        self.max_length = _whole("max_length", max_length, 1, INT32 // head_dim - 64,
                                 f"an integer from 1 to {INT32 // head_dim - 64}: positions times head_dim must fit 31 bits")
        self.epsilon = _number("epsilon", epsilon)
        self.softmax_scale = head_dim ** -0.5 if softmax_scale is None else _number("softmax_scale", softmax_scale)
        self.window = None if window is None else _whole("window", window, 1, INT32, "a positive number of positions, or None")
        self.softcap = None if softcap is None else _number("softcap", softcap)
        if dtype not in TYPES:
            raise InvalidType(f"dtype = {shown(dtype)} must be torch.bfloat16 or torch.float16")
        self.dtype, self.device = dtype, torch.device(device)  # type: ignore[arg-type]
        if not isinstance(dependent, bool):
            raise InvalidArgument(f"dependent = {shown(dependent)} must be True or False")
        self.waits = self.triggers = dependent
        self._check_device()
        self._take_rotary(rotary)

        group = heads // kv_heads
        width = triton.next_power_of_2(head_dim)
        block = 64 if width <= 128 else 32
        self.least = block if least is None else _whole("least", least, 1, INT32, "a positive number of positions, or None")
        self.alone = 4 * block if least is None else 0  # positions up to which one CTA is faster than some and their join
        self.splits = splits_for(rows, kv_heads, max_length, self.least) if splits is None else \
            _whole("splits", splits, 1, 4096, "an integer from 1 to 4096, or None")
        joined = triton.next_power_of_2(group)
        # The tile of the join has at most 64 fp32 registers in each of 128 threads.
        chunk = min(16, max(1, 8192 // (joined * width)))
        self._constants = dict(KV=kv_heads, G=group, D=head_dim, ROTARY=self.rotary_dim, GJ=joined,
                               GP=max(16, triton.next_power_of_2(group + 2)), DP=width, BLOCK=block, CHUNK=chunk,
                               VECTOR=math.gcd(self.rotary_dim // 2, 8))
        self._stages = 3 if width <= 128 else 2
        self._warps = 4 if self._constants["GP"] * width < 8192 else 8
        parts = rows * heads * self.splits if self.splits > 1 else 1
        self._parts = torch.empty(parts, head_dim, dtype=torch.float32, device=self.device)
        self._peaks = torch.empty(parts, 2, dtype=torch.float32, device=self.device)
        self._tickets = torch.zeros(rows * kv_heads, dtype=torch.int32, device=self.device)

    def _check_device(self) -> None:
        if self.device.type != ("cpu" if _INTERPRETED else "cuda"):
            raise WrongDevice(f"device = {self.device} must be " + ("cpu: TRITON_INTERPRET is set, which runs kernels on the CPU"
                              if _INTERPRETED else "a GPU. Triton's interpreter runs on the CPU: set TRITON_INTERPRET=1"))
        if self.device.type == "cuda" and self.device.index is None:
            self.device = torch.device("cuda", torch.cuda.current_device())

    def _take_rotary(self, rotary: Optional[Tuple[Tensor, Tensor]]) -> None:
        self.cosines = self.sines = None
        self.rotary_dim = 0
        if rotary is None:
            return
        if not (isinstance(rotary, (tuple, list)) and len(rotary) == 2 and all(isinstance(x, Tensor) for x in rotary)):
            raise InvalidArgument(f"rotary = {shown(rotary)} must be two tensors, (cos, sin), or None")
        for name, table in zip(("cos", "sin"), rotary):
            self._check(f"rotary's {name}", table, torch.float32)
            if table.dim() != 2 or table.shape[0] < self.max_length or not 1 <= table.shape[1] <= self.head_dim // 2 \
                    or table.shape != rotary[0].shape or table.numel() > INT32:
                raise InvalidSize(f"rotary's {name} has shape {tuple(table.shape)} and must have at least max_length = {self.max_length} "
                                  f"rows and rotary_dim / 2 columns, from 1 to head_dim / 2 = {self.head_dim // 2}; cos and sin have "
                                  "the same shape")
            if not table.is_contiguous():
                raise InvalidStride(f"rotary's {name} must be contiguous: pass .contiguous()")
        self.cosines, self.sines = rotary
        self.rotary_dim = 2 * rotary[0].shape[1]

    def _check(self, name: str, tensor: Tensor, *kinds: torch.dtype) -> None:
        if not isinstance(tensor, Tensor):
            raise InvalidType(f"{name} is a {type(tensor).__name__} and must be a tensor")
        if tensor.dtype not in kinds:
            raise InvalidType(f"{name} has type {tensor.dtype} and must have type {' or '.join(map(str, kinds))}")
        if tensor.device != self.device:
            raise WrongDevice(f"{name} is on {tensor.device}, and this attention is on {self.device}: move it there")

    def _check_matrix(self, name: str, tensor: Tensor, columns: int) -> None:
        if tuple(tensor.shape) != (self.rows, columns):
            raise InvalidSize(f"{name} has shape {tuple(tensor.shape)} and must have shape ({self.rows}, {columns}): rows x columns")
        if tensor.stride(1) != 1 or tensor.stride(0) < columns and self.rows > 1:
            raise InvalidStride(f"{name} has strides {tensor.stride()}: its rows must be contiguous and must not overlap")

    def _check_cache(self, name: str, cache: Tensor) -> None:
        self._check(name, cache, self.dtype)
        plane = (self.kv_heads, self.max_length, self.head_dim)
        if cache.dim() != 4 or tuple(cache.shape[1:]) != plane or not 1 <= cache.shape[0] <= INT32:
            raise InvalidSize(f"{name} has shape {tuple(cache.shape)} and must have shape (slots, {', '.join(map(str, plane))}): "
                              "slots x kv_heads x max_length x head_dim")
        if not cache[0].is_contiguous() or cache.stride(0) < cache[0].numel() and cache.shape[0] > 1:
            raise InvalidStride(f"{name} has strides {cache.stride()}: each slot must be contiguous, and slots must not overlap")

    def _check_row(self, name: str, tensor: Tensor) -> None:
        self._check(name, tensor, torch.int32)
        if tuple(tensor.shape) != (self.rows,) or not tensor.is_contiguous():
            raise InvalidSize(f"{name} has shape {tuple(tensor.shape)} and must be contiguous, one value for each of {self.rows} rows")

    def _check_call(self, qkv, k_cache, v_cache, slots, lengths, out, q_norm, k_norm, out_scale) -> None:
        self._check("qkv", qkv, self.dtype)
        self._check_matrix("qkv", qkv, (self.heads + 2 * self.kv_heads) * self.head_dim)
        self._check_cache("k_cache", k_cache)
        self._check_cache("v_cache", v_cache)
        if k_cache.shape[0] != v_cache.shape[0]:
            raise InvalidSize(f"k_cache has {k_cache.shape[0]} slots and v_cache {v_cache.shape[0]}: they must have the same number")
        if slots is not None:
            self._check_row("slots", slots)
        elif k_cache.shape[0] < self.rows:
            raise InvalidSize(f"k_cache has {k_cache.shape[0]} slots for {self.rows} rows: without slots, row i uses slot i")
        self._check_row("lengths", lengths)
        if (out_scale is not None) != (isinstance(out, Tensor) and out.dtype == E4M3):
            raise InvalidArgument("out_scale is given for an out of float8_e4m3fn, and for no other type")
        self._check("out", out, self.dtype if out_scale is None else E4M3)
        self._check_matrix("out", out, self.heads * self.head_dim)
        if out_scale is not None:
            self._check("out_scale", out_scale, torch.float32)
            if out_scale.numel() != 1:
                raise InvalidSize(f"out_scale has shape {tuple(out_scale.shape)} and must have one value")
        for name, norm in (("q_norm", q_norm), ("k_norm", k_norm)):
            if norm is not None:
                self._check(name, norm, *TYPES, torch.float32)
                if tuple(norm.shape) != (self.head_dim,) or not norm.is_contiguous():
                    raise InvalidSize(f"{name} has shape {tuple(norm.shape)} and must be contiguous, with head_dim = {self.head_dim} "
                                      "values")
        spans = {"qkv": _span(qkv), "k_cache": _span(k_cache), "v_cache": _span(v_cache), "out": _span(out)}
        names = list(spans)
        for i, one in enumerate(names):
            for other in names[i + 1:]:
                apart = spans[one][1] <= spans[other][0] or spans[other][1] <= spans[one][0]
                if not apart and not self._interleaved(one, other, k_cache, v_cache):
                    raise Aliasing(f"{other} overlaps {one}: CTAs read one while others write the other; use separate memory")

    @staticmethod
    def _interleaved(one: str, other: str, k_cache: Tensor, v_cache: Tensor) -> bool:
        """Returns True for two caches in one tensor, slot by slot, such as ``both[:, 0]`` and ``both[:, 1]``."""
        if (one, other) != ("k_cache", "v_cache") or k_cache.stride(0) != v_cache.stride(0):
            return False
        apart = abs(k_cache.data_ptr() - v_cache.data_ptr()) // k_cache.element_size() % k_cache.stride(0)
        return k_cache[0].numel() <= apart <= k_cache.stride(0) - k_cache[0].numel()

    def writes(self, k_cache: Tensor, v_cache: Tensor, out: Tensor) -> Tuple[Tensor, ...]:
        """Returns the tensors that a call with these writes, its workspace included, for ``writes`` of ``Steps.gap``."""
        return k_cache, v_cache, out, self._parts, self._peaks, self._tickets

    def __call__(self, qkv: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Optional[Tensor], lengths: Tensor, out: Tensor, *,
                 q_norm: Optional[Tensor] = None, k_norm: Optional[Tensor] = None, out_scale: Optional[Tensor] = None) -> None:
        """Adds the new token of each row to the cache, and writes its attention to ``out``, on the current stream.

        - ``qkv`` is rows x (heads + 2 kv_heads) * head_dim: q, then k, then v.
        - ``k_cache``, ``v_cache`` are slots x kv_heads x max_length x head_dim. Of each row the position ``lengths[row]`` is written.
        - ``slots`` (int32) has the cache's slot of each row. No two active rows may share a slot. None: row i uses slot i.
        - ``lengths`` (int32) has the number of cached tokens of each row, which is the position of the new token.
        - ``out`` is rows x heads * head_dim, in ``dtype``; or float8_e4m3fn with ``out_scale``, one fp32 value by which the result is
          divided before it is rounded and saturated at 448.
        - ``q_norm``, ``k_norm`` (head_dim values) are the weights of an RMSNorm of each head of q and of k before the rotation.

        A row is inactive if its length is negative or not less than ``max_length``, or its slot does not exist: it writes no cache, and
        zeros to ``out``. A row's result does not depend on other rows. Raises before the launch if an argument breaks a rule.
        """
        self._check_call(qkv, k_cache, v_cache, slots, lengths, out, q_norm, k_norm, out_scale)
        scale = self.softmax_scale * LOG2_E if self.softcap is None else self.softmax_scale / self.softcap * 2.0 * LOG2_E
        softcap = None if self.softcap is None else self.softcap * LOG2_E
        with contextlib.nullcontext() if _INTERPRETED else torch.cuda.device(self.device):
            _attend[(self.splits, self.kv_heads, self.rows)](
                qkv, k_cache, v_cache, slots, lengths, out, q_norm, k_norm, out_scale, self.cosines, self.sines, self._parts, self._peaks,
                self._tickets, qkv.stride(0), k_cache.stride(0), v_cache.stride(0), out.stride(0), k_cache.shape[0], self.max_length,
                self.splits, self.least, self.alone, self.window, scale, softcap, self.epsilon, **self._constants, **self._launch())

    def _launch(self) -> dict:
        if _INTERPRETED:  # It knows neither dependent launches nor PTX, and multiplies bf16 as integers.
            return dict(DEPENDENT=False, PREFETCH=False, WIDE=True)
        return dict(DEPENDENT=self.waits, PREFETCH=True, WIDE=False, num_warps=self._warps, num_stages=self._stages, launch_pdl=self.waits)
