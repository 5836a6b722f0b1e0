# SPDX-License-Identifier: Apache-2.0
"""Checks what generate is given and turns it into sequences of token numbers without padding."""
from __future__ import annotations

import dataclasses
from typing import Any, List, Optional

import torch
from torch import Tensor

from ...errors import InvalidArgument, InvalidSize, InvalidType
from .bucket import SIZES
from .sampling import STOPS


@dataclasses.dataclass(frozen=True)
class Request:
    """``prompts``: int64 in host memory, one per row, without padding. ``given``: the input as a matrix, padded on the left if it was a
    list."""

    prompts: List[Tensor]
    given: Tensor
    device: Any


def request_of(input_ids: Any, attention_mask: Any, pad: Optional[int], vocab: int) -> Request:
    """Returns the request. Raises ``InvalidType``, ``InvalidSize`` or ``InvalidArgument`` for anything but rows of tokens."""
    if isinstance(input_ids, Tensor):
        return _of_matrix(input_ids, attention_mask, pad, vocab)
    if attention_mask is not None:
        raise InvalidArgument("attention_mask is given and input_ids is a list: each sequence of a list has its own length, so leave it "
                              "out")
    if not isinstance(input_ids, (list, tuple)) or not input_ids:
        raise InvalidType(f"input_ids is {type(input_ids).__name__} and must be an integer tensor (rows x tokens), or a list of sequences "
                          "of tokens")
    rows = [input_ids] if all(isinstance(token, int) for token in input_ids) else input_ids
    prompts = []
    for i, row in enumerate(rows):
        try:
            tensor = row.detach().cpu() if isinstance(row, Tensor) else torch.tensor(row)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InvalidType(f"input_ids[{i}] is {type(row).__name__} and must be a sequence of tokens: {error}") from error
        prompts.append(check_tokens(tensor, f"input_ids[{i}]", vocab))
    longest = max(prompt.numel() for prompt in prompts)
    given = torch.full((len(prompts), longest), 0 if pad is None else pad, dtype=torch.int64)
    for row, prompt in zip(given, prompts):
        row[longest - prompt.numel():] = prompt
    return Request(prompts, given, "cpu")


def _of_matrix(ids: Tensor, mask: Any, pad: Optional[int], vocab: int) -> Request:
    if ids.dim() == 1:
        ids = ids[None]
    if ids.dim() != 2 or ids.shape[0] == 0:
        raise InvalidSize(f"input_ids has shape {tuple(ids.shape)} and must be rows x tokens")
    host = ids.detach().cpu()
    if mask is None:
        prompts = [check_tokens(row, f"input_ids[{i}]", vocab) for i, row in enumerate(host)]
        if pad is not None and any(int(row[0]) == pad or int(row[-1]) == pad for row in prompts) and len(prompts) > 1:
            raise InvalidArgument(f"input_ids has rows that begin or end with {pad}, the padding token, and no attention_mask: pass the "
                                  "tokenizer's attention_mask, or one of ones if these are tokens of the text")
        return Request(prompts, host.to(torch.int64), ids.device)
    if not isinstance(mask, Tensor) or mask.shape != ids.shape:
        raise InvalidSize(f"attention_mask must be a tensor of input_ids' shape {tuple(ids.shape)}, 1 for tokens and 0 for padding")
    kept = mask.detach().cpu() != 0
    prompts = []
    for i, (row, keep) in enumerate(zip(host, kept)):
        places = keep.nonzero()[:, 0]
        if places.numel() and int(places[-1] - places[0]) + 1 != places.numel():
            raise InvalidArgument(f"attention_mask[{i}] has a hole: tokens must be contiguous, with padding on the left, the right or both")
        prompts.append(check_tokens(row[keep], f"input_ids[{i}]", vocab))
    return Request(prompts, host.to(torch.int64), ids.device)


def check_tokens(row: Tensor, name: str, vocab: int) -> Tensor:
    """Returns a row of tokens as int64. Raises ``InvalidSize``, ``InvalidType`` or ``InvalidArgument``."""
    if row.dim() != 1 or row.numel() == 0:
        raise InvalidSize(f"{name} has shape {tuple(row.shape)} and must hold at least one token: a prompt begins with one")
    if row.dtype not in (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8):
        raise InvalidType(f"{name} is {row.dtype} and must hold whole numbers: tokens, not embeddings")
    row = row.to(torch.int64)
    if int(row.min()) < 0 or int(row.max()) >= vocab:
        raise InvalidArgument(f"{name} holds {int(row.min())} to {int(row.max())} and must be in 0..{vocab - 1}, the model's vocabulary")
    return row


def check_room(prompts: List[Tensor], new: int, max_length: int) -> None:
    if new <= 0:
        raise InvalidSize(f"max_new_tokens = {new} must be positive")
    longest = max(prompt.numel() for prompt in prompts)
    if longest + new > max_length:
        raise InvalidSize(f"a prompt of {longest} tokens and max_new_tokens = {new} need {longest + new} places, and the cache has "
                          f"max_length = {max_length}: pass a larger max_length to decode, or fewer tokens")


def bucket_of(rows: int, bucket: Optional[int]) -> int:
    if rows > SIZES[-1]:
        raise InvalidSize(f"input_ids has {rows} rows and may have {SIZES[-1]}: call generate for {SIZES[-1]} at a time")
    if bucket is None:
        return next(size for size in SIZES if size >= rows)
    if bucket not in SIZES or bucket < rows:
        raise InvalidArgument(f"bucket = {bucket} must be one of {', '.join(map(str, SIZES))}, and at least the {rows} rows of input_ids")
    return bucket


def stops_of(given: Any, own: List[int], vocab: int) -> List[int]:
    stops = own if given is None else [given] if isinstance(given, int) else list(given)
    if given is None and len(own) > STOPS:
        raise InvalidArgument(f"the model's generation_config.json has {len(own)} stop tokens (eos_token_id), and generate() takes {STOPS}: "
                              "pass eos_token_id with those that may occur")
    if len(stops) > STOPS or not all(isinstance(stop, int) and not isinstance(stop, bool) for stop in stops):
        raise InvalidArgument(f"eos_token_id = {given!r} must be a token or a list of at most {STOPS}; [] for none")
    return [stop for stop in stops if 0 <= stop < vocab]


def mode_of(temperature: float, top_k: int, top_p: float, vocab: int) -> str:
    """Returns how tokens are picked; "greedy" for temperature 0."""
    if not 0 <= temperature < float("inf"):
        raise InvalidArgument(f"temperature = {temperature} must be 0 (the likeliest token) or positive")
    if top_k < 0:
        raise InvalidArgument(f"top_k = {top_k} must be 0 (all tokens) or positive")
    if not 0 < top_p <= 1:
        raise InvalidArgument(f"top_p = {top_p} must be above 0 and at most 1 (all tokens)")
    filters = 0 < top_k < vocab or top_p < 1
    if temperature == 0:
        if filters:
            raise InvalidArgument(f"top_k = {top_k} and top_p = {top_p} are given and temperature = 0 takes the likeliest token: pass a "
                                  "temperature")
        return "greedy"
    return "filter" if filters else "sample"
