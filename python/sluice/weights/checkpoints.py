# SPDX-License-Identifier: Apache-2.0
"""Imports the tensors of quantised checkpoints: GPTQ, AWQ, the formats "pack-quantized" and "float-quantized" (FP8) of
compressed-tensors, the FP8 of DeepSeek and transformers, and gpt-oss's MXFP4.

Each function names the project whose layout it reads; the code is our own. All layouts pack codes into 32-bit words, the first
code in the lowest bits. A code in a word is called a digit below. Arguments have the names of the checkpoint's tensors, without
the layer's prefix.
"""
from __future__ import annotations

import dataclasses
from typing import Any, Optional, Sequence, Tuple

from .._arguments import check_one_of, entry, integer, shown, switch_of
from ..errors import InvalidArgument, InvalidSize, InvalidType
from ._arrays import Array, Library, check_matrix, check_shape, check_type, library_of, type_of
from ._groups import check_bits, group_count, implied_zero
from .canonical import SCALE_TYPES, QuantizedWeights

# Digit j of an AWQ word belongs to column _AWQ_ORDER[j] of its eight (AutoAWQ, awq/modules/linear/gemm.py, "order_map").
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
_CHECKPOINT_FORMATS = ("gptq", "gptq_v2")
_WRAPS = ("digit", "word")
# Scale bytes with which products of e2m1 weights are exact in every kernel, for each type of tokens (docs/numerics.md).
_E8M0_LIMITS = {"bf16": (48, 148), "fp16": (104, 140)}


@entry
def from_gptq(qweight: Array, qzeros: Array, scales: Array, g_idx: Optional[Array] = None, *, bits: int = 4,
              group: Optional[int] = None, checkpoint_format: str = "gptq", symmetric: Optional[bool] = None,
              wrapped_zeros: Optional[str] = None, k: Optional[int] = None) -> QuantizedWeights:
    """Imports a layer of a GPTQ checkpoint (AutoGPTQ, GPTQModel).

    - ``qweight``: int32, k/8 x n (4 bits) or k/4 x n (8 bits). ``qzeros``: int32, groups x n/8 (or n/4).
    - ``scales``: groups x n. ``g_idx``: the group of each of the k columns. It counts as absent if it is empty, or if it is all 0
      although there are several groups.
    - ``k``: needed only if it is not a multiple of 8 and there is no ``g_idx``.
    - ``group``: the configuration's ``group_size`` (-1: all of k).
    - ``checkpoint_format``: the configuration's field of that name. "gptq" stores each zero point minus one, "gptq_v2" the zero
      point itself.
    - ``symmetric``: the configuration's ``sym``. Give it, because some checkpoints call themselves "gptq" and hold "gptq_v2".
      True raises unless every zero point is that of symmetric codes (8, or 128 for 8 bits). None raises only if all of them are
      off by the one that a wrong ``checkpoint_format`` explains.
    - ``wrapped_zeros``: "digit" or "word", as explained below.

    Act-order: if ``g_idx`` is not sorted, the columns are sorted by group and the result has a ``permutation``. A
    tensor-parallel shard of such a layer raises, because its groups have uneven sizes. Import the whole layer instead, and
    shard the result with ``rows()`` and ``columns()``.

    Wrapped zeros: a "gptq" file stores a zero point of 0 as -1, and writers differ in how that changes the rest of the word.
    "digit": only this digit wraps, to 15 (255). "word": the subtraction also borrows from the next digit, as in GPTQModel's
    conversion. Both are read as the zero point 0. The argument is needed only if a digit wrapped, which takes a group with almost no
    negative weights. AutoGPTQ's reader of 2023 adds one without truncating, and uses 16 there. AutoGPTQ's writer sets all higher
    bits of the word too, so the zero points there are lost. Such a word raises unless ``wrapped_zeros`` is given.

    Raises ``InvalidSize`` or ``InvalidType`` for a tensor of another shape or type, and ``InvalidArgument`` for
    arguments that contradict the tensors.
    """
    library = library_of(qweight=qweight, qzeros=qzeros, scales=scales, g_idx=g_idx)
    check_bits(bits)
    check_one_of("checkpoint_format", checkpoint_format, _CHECKPOINT_FORMATS)
    if wrapped_zeros is not None:
        check_one_of("wrapped_zeros", wrapped_zeros, _WRAPS)
    if not (symmetric is None or isinstance(symmetric, bool)):
        raise InvalidArgument(f"symmetric = {shown(symmetric)} must be True, False, or None if the checkpoint does not say")
    _check_matrices(("qweight", qweight, "k/8 x n"), ("qzeros", qzeros, "groups x n/8"), ("scales", scales, "groups x n"))
    per_word = 32 // bits
    groups, n = scales.shape
    if g_idx is not None and _length("g_idx", g_idx) == 0:
        g_idx = None  # some writers store an empty tensor instead of leaving it out
    if k is None:
        k = qweight.shape[0] * per_word if g_idx is None else _length("g_idx", g_idx)
    _check_words("qweight", qweight, (-(-integer("k", k) // per_word), n), f"ceil(k / {per_word}) x n")
    _check_words("qzeros", qzeros, (groups, -(-n // per_word)), f"groups x ceil(n / {per_word})")
    _check_scales("scales", scales)
    group = _group_of(group, k, groups)

    # AutoGPTQ, auto_gptq/nn_modules/qlinear/qlinear_cuda.py: the digits of a word are rows in qweight, columns in qzeros.
    qweight, qzeros, scales = (library.plain(array) for array in (qweight, qzeros, scales))
    if g_idx is not None and groups > 1:
        _check_g_idx("g_idx", g_idx, k)
        g_idx = None if bool((g_idx == 0).all()) else g_idx  # all 0 also means absent: with several groups, one group cannot hold all columns
    permutation = _permutation(library, "g_idx", g_idx, k, group)
    zeros = _gptq_zeros(library, library.signed_words(qzeros), bits, n, checkpoint_format, wrapped_zeros).T
    _check_symmetry(zeros, bits, checkpoint_format, symmetric)
    return _canonical(library, _unpack(library, qweight.T, bits, 1, k), scales.T, zeros, group, permutation, bits)


@entry
def from_awq(qweight: Array, qzeros: Array, scales: Array, *, group: Optional[int] = None) -> QuantizedWeights:
    """Imports a layer of an AWQ checkpoint, version "gemm" (AutoAWQ), of 4 bits.

    - ``qweight``: int32, k x n/8. ``qzeros``: int32, groups x n/8; zero points are stored without an offset. ``scales``: groups x n.
    - ``group``: the configuration's ``group_size`` or ``q_group_size`` (-1: all of k).

    Raises ``InvalidSize`` or ``InvalidType`` for a tensor of another shape or type.
    """
    library = library_of(qweight=qweight, qzeros=qzeros, scales=scales)
    _check_matrices(("qweight", qweight, "k x n/8"), ("qzeros", qzeros, "groups x n/8"), ("scales", scales, "groups x n"))
    groups, n = scales.shape
    k = qweight.shape[0]
    if n % 8:
        raise InvalidSize(f"scales has {n} columns, and n must be a multiple of 8 in an AWQ checkpoint: pass scales groups x n")
    _check_words("qweight", qweight, (k, n // 8), "k x n/8: is it of version \"gemv\", which lies the other way?")
    _check_words("qzeros", qzeros, (groups, n // 8), "groups x n/8")
    _check_scales("scales", scales)
    group = _group_of(group, k, groups)
    # AutoAWQ, awq/modules/linear/gemm.py: a word holds eight outputs, of weights or of zeros, in AWQ's own order.
    qweight, qzeros, scales = (library.plain(array) for array in (qweight, qzeros, scales))
    return _canonical(library, _unpack(library, qweight.T, 4, 0, n, _AWQ_ORDER), scales.T,
                      _unpack(library, qzeros.T, 4, 0, n, _AWQ_ORDER), group, None, 4)


@entry
def from_compressed_tensors(weight_packed: Array, weight_scale: Array, weight_shape: Any,
                            weight_zero_point: Optional[Array] = None, weight_g_idx: Optional[Array] = None, *,
                            bits: int = 4, group: Optional[int] = None) -> QuantizedWeights:
    """Imports a layer of a compressed-tensors checkpoint of format "pack-quantized".

    - ``weight_packed``: int32, n x k/8 (4 bits) or n x k/4 (8 bits). ``weight_shape``: (n, k).
    - ``weight_scale``: n x groups (n x 1: all of k).
    - ``weight_zero_point``: int32, n/8 x groups (or n/4); None for symmetric weights.
    - ``weight_g_idx``: the group of each column (act-order, as in ``from_gptq``), or None.
    - ``bits``: the configuration's ``num_bits``. ``group``: its ``group_size``.

    Raises ``InvalidSize`` or ``InvalidType`` for a tensor of another shape or type, and ``InvalidArgument`` for
    arguments that contradict the tensors.
    """
    library = library_of(weight_packed=weight_packed, weight_scale=weight_scale, weight_zero_point=weight_zero_point,
                         weight_g_idx=weight_g_idx)
    check_bits(bits)
    n, k = _shape_of(weight_shape)
    _check_matrices(("weight_packed", weight_packed, "n x k/8"), ("weight_scale", weight_scale, "n x groups"))
    per_word = 32 // bits
    _check_words("weight_packed", weight_packed, (n, -(-k // per_word)), f"n x ceil(k / {per_word}) of {bits} bits")
    groups = weight_scale.shape[1]
    check_shape("weight_scale", weight_scale, (n, groups), "n x groups")
    _check_scales("weight_scale", weight_scale)
    group = _group_of(group, k, groups)
    zeros = None
    # compressed-tensors, compressors/pack_quantized: codes and zeros are stored as value + 8 (128), zeros packed along n.
    if weight_zero_point is not None:
        if type_of(weight_zero_point) == "int8":
            raise InvalidType("weight_zero_point is int8 and must be int32, ceil(n / {0}) x groups: these may be zeros that were "
                              "unpacked, n x groups; pass them as they are stored, or make QuantizedWeights of codes and of "
                              "zeros + {1}, cast to the scales' type".format(per_word, implied_zero(bits)))
        _check_words("weight_zero_point", weight_zero_point, (-(-n // per_word), groups), f"ceil(n / {per_word}) x groups")
        zeros = _unpack(library, library.plain(weight_zero_point), bits, 0, n)
    # compressed-tensors, quantization/lifecycle/forward.py: -1 in g_idx means that it was never set.
    if weight_g_idx is not None:
        _check_g_idx("weight_g_idx", weight_g_idx, k)
        if bool((weight_g_idx == -1).all()):
            weight_g_idx = None
    permutation = _permutation(library, "weight_g_idx", weight_g_idx, k, group)
    codes = _unpack(library, library.plain(weight_packed), bits, 1, k)
    return _canonical(library, codes, library.plain(weight_scale), zeros, group, permutation, bits)


@entry
@dataclasses.dataclass(frozen=True, eq=False)
class Fp8Weights:
    """FP8 weights of n outputs x k columns: ``W[o, i] = scales[...] * codes[o, i]``, laid out as ``st.nn.Linear`` keeps them.

    - ``codes``: e4m3, n x k. ``scales``: fp32, of shape () ("tensor"), n x 1 ("row") or ceil(n/128) x ceil(k/128) ("block").
    - ``recipe``: the recipe of ``st.nn.Linear``. ``input_scale``: None, or for "tensor" the input's fp32 scale, of shape ().
    """

    codes: Array
    scales: Array
    recipe: str
    input_scale: Optional[Array] = None

    @property
    def shape(self) -> Tuple[int, int]:
        """``(n, k)``."""
        n, k = self.codes.shape
        return n, k


@entry
def from_fp8(weight: Array, weight_scale: Array, input_scale: Optional[Array] = None, *, recipe: Optional[str] = None) -> Fp8Weights:
    """Imports an FP8 layer of a compressed-tensors checkpoint ("float-quantized"), or of one with ``weight_scale_inv`` (DeepSeek,
    Qwen, transformers). Codes are not copied, and neither are scales of fp32.

    - ``weight``: e4m3, n x k.
    - ``weight_scale``: the factors of the codes, fp32, bf16 or fp16: one, n or n x 1, or ceil(n/128) x ceil(k/128). The tensor
      ``weight_scale_inv`` is the same: its name says what the weight was divided by.
    - ``input_scale``: one calibrated scale of the input; None if inputs are quantised as they come.
    - ``recipe``: "tensor", "row" or "block"; None takes it from the shape of ``weight_scale``. One factor can also be taken as "row",
      for inputs with a scale per token; it is then repeated n times.

    Raises ``InvalidType`` for other types: scales of ue8m0 (e8m0) are refused, because their checkpoints round the input's scales to
    powers of two too, which no kernel here does. Raises ``InvalidSize`` for other shapes, and ``InvalidArgument`` for an
    ``input_scale`` that is not of one factor, or that another recipe than "tensor" gets.
    """
    library = library_of(weight=weight, weight_scale=weight_scale, input_scale=input_scale)
    recipes = ("tensor", "row", "block")
    if recipe is not None:
        check_one_of("recipe", recipe, recipes)
    if len(weight.shape) != 2 or 0 in weight.shape:
        raise InvalidSize(f"weight has shape {tuple(weight.shape)} and must be a matrix that is not empty, n x k")
    check_type("weight", weight, ("e4m3",), "pass the FP8 tensor as it is stored, before anything converts it")
    n, k = weight.shape
    if type_of(weight_scale) in ("e8m0", "uint8"):
        raise InvalidType(f"weight_scale is {type_of(weight_scale)}, scales of ue8m0, and must be fp32, bf16 or fp16: its checkpoint "
                          "rounds the input's scales to powers of two too, which no kernel here does; leave the layer as it is")
    _check_scales("weight_scale", weight_scale)
    shapes = {"tensor": ((), (1,), (1, 1)), "row": ((n, 1), (n,)), "block": ((-(-n // 128), -(-k // 128)),)}
    shape = tuple(weight_scale.shape)
    taken = [name for name in recipes if shape in shapes[name] or (name == "row" and shape in shapes["tensor"])]
    if recipe is None and taken:
        recipe = taken[0]
    if recipe not in taken:
        raise InvalidSize(f"weight_scale has shape {shape} and must have " + (" or ".join(str(one[0]) for one in shapes.values())
                          if recipe is None else str(shapes[recipe][0])) + f" for weight of {n} x {k}: pass the tensor as it is stored")
    scales = library.cast(library.plain(weight_scale), "fp32")
    if recipe == "row" and shape in shapes["tensor"]:
        scales = library.module.broadcast_to(scales.reshape(1, 1), (n, 1))  # copied below
    scales = scales.reshape(shapes[recipe][0])
    if input_scale is not None:
        _check_scales("input_scale", input_scale)
        if recipe != "tensor" or tuple(input_scale.shape) not in shapes["tensor"]:
            raise InvalidArgument(f"input_scale has shape {tuple(input_scale.shape)} and the recipe is {shown(recipe)}: it must have one "
                                  "factor and go with one factor of the weight (recipe 'tensor'); leave it out, and inputs are quantised "
                                  "as they come")
        input_scale = library.cast(library.plain(input_scale), "fp32").reshape(())
    return Fp8Weights(library.plain(weight), library.contiguous(scales), recipe, input_scale)


@entry
def from_gpt_oss(blocks: Array, scales: Array, *, interleaved: bool = False, tokens: str = "bf16") -> Tuple[QuantizedWeights, ...]:
    """Imports MXFP4 experts of a gpt-oss checkpoint. Returns the weights of each expert.

    - ``blocks``: the tensor ``*_blocks``, uint8, experts x n x k/32 x 16, with two codes per byte; without ``experts`` one weight.
    - ``scales``: the tensor ``*_scales``, uint8 (or float8_e8m0fnu), experts x n x k/32.
    - ``interleaved``: True for ``gate_up_proj``, whose rows are gate and up in turn. The result has all rows of the gate, then all
      of up, as a gated product needs them. Reorder the bias alike: ``torch.cat([bias[:, ::2], bias[:, 1::2]], 1)``.
    - ``tokens``: the type of the tokens of later products, "bf16" or "fp16". It decides which scales are accepted.

    Scales must be at most 2^21 for bf16 tokens and 2^13 for fp16 ones. Groups with other codes than 0 need at least 2^-79
    (2^-23). So weights are exact in every kernel. Raises ``InvalidArgument`` for other scales, NaN (255) among them, and
    ``InvalidSize`` or ``InvalidType`` for a tensor of another shape or type. Synchronises with the GPU.
    """
    library = library_of(blocks=blocks, scales=scales)
    check_one_of("tokens", tokens, tuple(_E8M0_LIMITS))
    check_type("blocks", blocks, ("uint8",), "pass the tensor *_blocks as it is stored")
    check_type("scales", scales, ("uint8", "e8m0"), "pass the tensor *_scales as it is stored")
    shape = tuple(blocks.shape)
    if len(shape) not in (3, 4) or 0 in shape or shape[-1] != 16:
        raise InvalidSize(f"blocks has shape {shape} and must have experts x n x k/32 x 16 (or n x k/32 x 16): pass *_blocks as it is "
                          "stored")
    check_shape("scales", scales, shape[:-1], "one for each block of 32 codes")
    if switch_of("interleaved", interleaved) and shape[-3] % 2:
        raise InvalidSize(f"n = {shape[-3]} of interleaved rows must be even, gate and up in turn: pass gate_up_proj, or leave "
                          "interleaved out")
    if type_of(scales) == "e8m0":
        scales = scales.view(library.module.uint8)
    blocks, scales = (library.plain(array).reshape(-1, *array.shape[-rank:]) for array, rank in ((blocks, 3), (scales, 2)))
    return tuple(_mxfp4(library, blocks[i], scales[i], interleaved, tokens, i) for i in range(blocks.shape[0]))


def _mxfp4(library: Library, blocks: Array, scales: Array, interleaved: bool, tokens: str, expert: int) -> QuantizedWeights:
    low, high = _E8M0_LIMITS[tokens]
    wrong = (scales > high) | ((scales < low) & (library.amax(blocks & 0x77) > 0))
    if bool(wrong.any()):
        row, group = divmod(wrong.reshape(-1).tolist().index(True), wrong.shape[1])
        byte = int(scales[row, group])
        raise InvalidArgument(f"scales[{expert}][{row}][{group}] is {byte}, {'NaN' if byte == 255 else f'2^{byte - 127}'}, and must be from "
                              f"2^{low - 127} to 2^{high - 127} for {tokens} tokens: mend the checkpoint, or "
                              + ("multiply by bf16 tokens" if tokens == "fp16" else "divide its rows by a power of two"))
    n, groups = scales.shape
    codes = library.empty((n, 32 * groups), "uint8")
    pairs = blocks.reshape(n, 16 * groups)
    # transformers, convert_moe_packed_tensors: the low half of a byte is the first code, and gate_up's even rows are the gate.
    codes[:, 0::2], codes[:, 1::2] = pairs & 15, pairs >> 4
    if interleaved:
        order = library.counting(n).reshape(-1, 2).T.reshape(-1)
        codes, scales = library.take(codes, order, 0), library.take(scales, order, 0)
    return QuantizedWeights(codes, library.contiguous(scales), None, 32, type="e2m1")


# ---- helpers of all importers ----
def _length(name: str, array: Array) -> int:
    if len(array.shape) != 1:
        raise InvalidSize(f"{name} has shape {tuple(array.shape)} and must have one dimension, the group of each column: pass the "
                          "tensor as it is stored")
    return int(array.shape[0])


def _check_g_idx(name: str, g_idx: Array, k: int) -> None:
    check_shape(name, g_idx, (k,), "the group of each column")
    check_type(name, g_idx, ("int32", "int64"), "pass the tensor as it is stored")


def _check_matrices(*rows: Tuple[str, Array, str]) -> None:
    for row in rows:
        check_matrix(*row)


def _check_words(name: str, array: Array, shape: Tuple[int, int], meaning: str) -> None:
    check_type(name, array, ("int32", "uint32"), "pass the packed tensor as it is stored")
    check_shape(name, array, shape, meaning)


def _check_scales(name: str, scales: Array) -> None:
    check_type(name, scales, SCALE_TYPES, "pass the tensor as it is stored, or convert it to fp32")


def _shape_of(weight_shape: Any) -> Tuple[int, int]:
    values = weight_shape.tolist() if hasattr(weight_shape, "tolist") else weight_shape
    if not isinstance(values, (list, tuple)) or len(values) != 2:
        raise InvalidSize(f"weight_shape = {shown(values)} must be (n, k): pass the tensor of that name")
    return integer("weight_shape[0]", values[0]), integer("weight_shape[1]", values[1])


def _group_of(group: Optional[int], k: int, groups: int) -> int:
    """Returns the group size (0: all of k) for k columns in ``groups`` groups. Raises ``InvalidArgument`` if ``group`` must be given,
    and ``InvalidSize`` if the given one makes another number of groups."""
    if group is None:
        width = k // groups
        if groups == 1:
            return 0
        # Without a given size, only a power of two that divides k evenly is unambiguous; any other size would be a guess.
        if k % groups or width & (width - 1):
            raise InvalidArgument(f"group must be given: k = {k} in {groups} groups does not say it; it is the checkpoint's "
                                  "group_size")
        return width
    wanted = max(integer("group", group), 0)
    if group < -1 or group_count(k, wanted) != groups:
        raise InvalidSize(f"group = {group} makes {group_count(k, wanted)} groups of k = {k}, and the scales have {groups}: "
                          "pass the checkpoint's group_size, -1 where a scale is for all of k")
    return wanted


def _unpack(library: Library, words: Array, bits: int, axis: int, count: int, order: Sequence[int] = ()) -> Array:
    """Returns the first ``count`` digits of words as uint8, in the order of the words, along ``axis`` (0: rows; 1: columns).

    It shifts whole words, so any strides are allowed. Besides the result it needs one temporary of the words' size.
    """
    words = library.signed_words(words)
    per_word, mask = 32 // bits, (1 << bits) - 1
    out = library.empty((count, words.shape[1]) if axis == 0 else (words.shape[0], count), "uint8")
    for digit, place in enumerate(order or range(per_word)):
        target = out[place::per_word] if axis == 0 else out[:, place::per_word]
        source = words[:target.shape[0]] if axis == 0 else words[:, :target.shape[1]]
        target[...] = (source >> (bits * digit)) & mask
    return out


def _gptq_zeros(library: Library, words: Array, bits: int, n: int, checkpoint_format: str,
                wrapped_zeros: Optional[str]) -> Array:
    top = (1 << bits) - 1
    if checkpoint_format == "gptq_v2":
        return _unpack(library, words, bits, 1, n)
    if wrapped_zeros == "word":
        # GPTQModel, gptqmodel/utils/model.py: it converts by adding 1 to every digit in one integer addition, so carries propagate.
        return _unpack(library, words + sum(1 << shift for shift in range(0, 32, bits)), bits, 1, n)
    stored = _unpack(library, words, bits, 1, n)
    # AutoGPTQ, qlinear_cuda.py: it ORs 32-bit numbers (zero point minus one) into the word. A -1 therefore sets all bits of every
    # higher digit, which shows in the two highest digits.
    per_word = 32 // bits
    lost = (stored[:, per_word - 2::per_word] == top)[:, :n // per_word] & (stored[:, per_word - 1::per_word] == top)
    if wrapped_zeros is None and bool(lost.any()):
        row, word = divmod(lost.reshape(-1).tolist().index(True), lost.shape[1])
        raise InvalidArgument(
            f"qzeros[{row}][{word}] of checkpoint_format = 'gptq' ends in {top}, {top}: AutoGPTQ's writer lays a zero of 0 less one "
            "over every zero above it in its word, and those are lost: quantise again, or with symmetric codes. For a file that "
            "GPTQModel wrote pass wrapped_zeros='word'; if both zeros are 0 indeed, each digit its own, 'digit'")
    if wrapped_zeros is None and bool((stored == top).any()):
        raise InvalidArgument(f"qzeros of checkpoint_format = 'gptq' hold {top}, a zero of 0 less one: pass wrapped_zeros="
                              "'word' for a file that GPTQModel wrote, 'digit' where each digit is its own; or "
                              "checkpoint_format='gptq_v2', if that is what it is")
    return (stored + 1) & top


def _check_symmetry(zeros: Array, bits: int, checkpoint_format: str, symmetric: Optional[bool]) -> None:
    implied = implied_zero(bits)
    # A file may say "gptq" and hold the zero points of gptq_v2 (vllm-project/vllm, pull request 38966). Every weight would then be
    # off by one times its scale.
    beside = implied + 1 if checkpoint_format == "gptq" else implied - 1
    other = "gptq_v2" if checkpoint_format == "gptq" else "gptq"
    if symmetric is not False and bool((zeros == beside).all()):
        raise InvalidArgument(f"checkpoint_format = {shown(checkpoint_format)} makes every zero {beside}, one beside {implied}: "
                              f"pass checkpoint_format={shown(other)}, or symmetric=False if {beside} is meant")
    if symmetric and not bool((zeros == implied).all()):
        raise InvalidArgument(f"symmetric = True, and qzeros as {shown(checkpoint_format)} hold other zeros than {implied}: pass "
                              "symmetric=False, or the right checkpoint_format")


def _permutation(library: Library, name: str, g_idx: Optional[Array], k: int, group: int) -> Optional[Array]:
    """Returns the permutation that sorts columns by group; None if they are sorted. Raises ``InvalidArgument`` unless every
    sorted group but the last is full."""
    if g_idx is None:
        return None
    _check_g_idx(name, g_idx, k)
    expected = library.counting(k) // (group or k)
    if bool((g_idx == expected).all()):
        return None
    permutation = library.stable_order(g_idx)
    wrong = (g_idx[permutation] != expected).tolist()
    if any(wrong):
        raise InvalidArgument(f"{name} does not fill groups of {group or k}: sorted, column {wrong.index(True)} is in group "
                              f"{int(g_idx[permutation[wrong.index(True)]])}. If this is a shard, import the whole layer and "
                              "take columns() of it; else pass the checkpoint's group_size as group")
    return permutation


def _canonical(library: Library, codes: Array, scales: Array, zeros: Optional[Array], group: int,
               permutation: Optional[Array], bits: int) -> QuantizedWeights:
    if permutation is not None:
        codes = library.take(codes, permutation, 1)
    if zeros is not None:
        implied = bool((zeros == implied_zero(bits)).all())
        zeros = None if implied else library.contiguous(library.cast(zeros, type_of(scales)))
    return QuantizedWeights(codes, library.contiguous(scales), zeros, group, permutation, bits)
