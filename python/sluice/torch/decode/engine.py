# SPDX-License-Identifier: Apache-2.0
"""The engine that decode returns: buckets of rows that are made when first needed, prompts, the loop of tokens, and what it measured."""
from __future__ import annotations

import pathlib
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

import torch
from torch import Tensor

from ...errors import InvalidArgument, InvalidSize
from .._entry import checked
from .._layers import let_race
from . import request as asked
from . import storage
from .bucket import Bucket, Caches
from .model import Model, products_of
from .prompt import calibrate, run_prompt
from .recipes import Recipe


class Engine:
    """A model that generates. ``sluice.decode`` makes it. It is for one thread and one stream at a time.

    - ``model.shape``: the architecture as it was read. ``notes``: what is computed in another way than by transformers.
    - ``recipe``, ``head``: how the layers' weights and the head's are kept.
    """

    def __init__(self, model: Model, recipe: Optional[str], head: Optional[str], machine: Any, *, config: Dict[str, Any],
                 generation: Dict[str, Any], stops: List[int], pad: Optional[int], attention: Optional[Callable[..., Any]], overlap: str,
                 tune: Optional[float], scales: Optional[Tensor], show: Optional[bool]) -> None:
        self.model, self.recipe, self.head = model, recipe, head
        self.notes = model.shape.notes
        self._machine, self._attention, self._overlap, self._tune, self._show = machine, attention, overlap, tune, show
        self._config, self._generation, self._stops, self._pad = config, generation, stops, pad
        self._kind = Recipe(recipe, model.shape.epsilon, model.shape.activation, model.dtype)
        for operand in (operand for layer in model.layers for operand in products_of(layer).values()):
            for sizes in operand.sizes():
                let_race(*sizes)  # prompts; chains have a tuner of their own
        self._caches = Caches(model, machine.device)
        self._buckets: Dict[int, Bucket] = {}
        self._calibrated = recipe != "tensor" or scales is not None
        self._stats: Optional[Dict[str, Any]] = None
        if scales is not None:
            self.set_scales(scales)

    # ---- generation
    @checked
    def generate(self, input_ids: Any, *, attention_mask: Any = None, max_new_tokens: int = 128, temperature: float = 0.0, top_k: int = 0,
                 top_p: float = 1.0, seed: int = 0, eos_token_id: Any = None, pad_token_id: Optional[int] = None, streamer: Any = None,
                 bucket: Optional[int] = None, check_every: int = 32) -> Tensor:
        """Returns ``input_ids`` followed by new tokens, int64, rows x tokens on the device of ``input_ids``, as generate of transformers
        does. It ends when every row has a stop token, or after ``max_new_tokens``; rows that ended earlier are filled with the padding
        token.

        - ``input_ids``: an integer tensor, rows x tokens, with ``attention_mask`` where rows are padded (left, right or both). A list of
          sequences of different lengths comes back padded on the left. At most 64 rows.
        - ``temperature``: 0 takes the likeliest token; else tokens are drawn, of the ``top_k`` likeliest (0: all), of those that make up
          ``top_p`` of the probability. ``seed`` gives a row the same tokens again, within one bucket.
        - ``eos_token_id``, ``pad_token_id``: by default the model's; ``eos_token_id=[]`` never stops. Without a padding token the first
          stop token fills.
        - ``streamer``: called with each chunk of new tokens, rows x ``check_every``, in host memory; or an object with ``put`` and ``end``.
        - ``bucket``: 1, 2, 4, 8, 16, 32 or 64 rows to compute with; by default the smallest that holds the rows. Within one bucket a row's
          tokens do not depend on the other rows; buckets may have other kernels, and last bits.
        - ``check_every``: after so many tokens the host looks whether all rows have ended.

        Raises ``InvalidArgument``, ``InvalidSize`` or ``InvalidType`` for arguments that break a rule.
        """
        vocab = self.model.shape.vocab
        stops = asked.stops_of(eos_token_id, self._stops, vocab)
        pad = self._pad if pad_token_id is None else pad_token_id
        mode = asked.mode_of(temperature, top_k, top_p, vocab)
        request = asked.request_of(input_ids, attention_mask, pad, vocab)
        if pad is None:
            pad = stops[0] if stops else 0
        if check_every <= 0:
            raise InvalidSize(f"check_every = {check_every} must be positive")
        with torch.no_grad(), self._machine.current():
            own = self._start(request.prompts, max_new_tokens, bucket, mode,
                              dict(stops=stops, pad=pad, seed=seed, temperature=temperature, top_k=top_k, top_p=top_p))
            new = self._loop(own, mode, max_new_tokens, len(request.prompts), check_every, streamer, stops)
        return torch.cat((request.given, new), 1).to(request.device)

    @checked
    def forced_logits(self, input_ids: Any, tokens: Tensor, *, attention_mask: Any = None, bucket: Optional[int] = None) -> Tensor:
        """Returns the logits from which each of ``tokens`` (rows x steps) would be picked, rows x steps x vocab in host memory. The first
        are the prompt's; each token but the last is then a step of decode. The other arguments are those of ``generate``. It is for
        tests, and for comparing recipes."""
        request = asked.request_of(input_ids, attention_mask, None, self.model.shape.vocab)
        rows = len(request.prompts)
        if tokens.dim() != 2 or tokens.shape[0] != rows or tokens.shape[1] == 0:
            raise InvalidSize(f"tokens has shape {tuple(tokens.shape)} and must have {rows} rows, one per prompt, of at least one token")
        for i, row in enumerate(tokens):
            asked.check_tokens(row.detach().cpu(), f"tokens[{i}]", self.model.shape.vocab)
        made = []
        with torch.no_grad(), self._machine.current():
            own = self._start(request.prompts, tokens.shape[1], bucket, "forced",
                              dict(stops=[], pad=0, seed=0, temperature=0.0, top_k=0, top_p=1.0, forced=tokens))
            token = own.token("forced")
            made.append(own.buffers.logits[:rows].to("cpu", copy=True))
            own.pick("forced")
            for _ in range(tokens.shape[1] - 1):
                token.run()
                made.append(own.buffers.logits[:rows].to("cpu", copy=True))
        return torch.stack(made, 1)

    def _start(self, prompts: List[Tensor], new: int, bucket: Optional[int], mode: str, books: Dict[str, Any]) -> Bucket:
        """Makes what is missing, runs the prompts and sets the books; returns the bucket, whose logits are those of the prompts."""
        asked.check_room(prompts, new, self.model.max_length)
        size = asked.bucket_of(len(prompts), bucket)
        if not self._calibrated:
            self.set_scales(calibrate(self.model, self._kind, prompts))
        own = self._bucket(size)
        own.token(mode)
        own.buffers.logits.zero_()
        for row, prompt in enumerate(prompts):
            own.buffers.logits[row:row + 1] = run_prompt(self.model, self._kind, self._machine.now, prompt, self._caches.layers, row)
        own.books.begin([prompt.numel() for prompt in prompts], **books)
        self._lengths = [prompt.numel() for prompt in prompts]
        return own

    def _loop(self, own: Bucket, mode: str, most: int, rows: int, check_every: int, streamer: Any, stops: Sequence[int]) -> Tensor:
        token, books, clock = own.token(mode), own.books, self._machine.clock()
        put, end = getattr(streamer, "put", streamer), getattr(streamer, "end", None)
        own.pick(mode)
        done, shown, self._stats = 1, 0, None
        clock.begin()
        while done < most:
            if done % check_every == 0 or done == 1:
                if bool(books.finished.all()):
                    break
                if put is not None and done % check_every == 0:
                    put(books.made[:rows, shown:done].to("cpu", copy=True))
                    shown = done
            token.run()
            done += 1
        clock.end()
        ms = clock.ms()
        new = books.made[:rows, :done].to("cpu", copy=True)
        new = new[:, :_needed(new, stops)]
        if put is not None and shown < new.shape[1]:
            put(new[:, shown:])
        if end is not None:
            end()
        self._measured(own, token, ms, done - 1, rows, new.shape[1])
        return new

    def _bucket(self, rows: int) -> Bucket:
        self._caches.need(rows)
        if rows not in self._buckets:
            self._buckets[rows] = Bucket(rows, self.model, self._kind, self._machine, self._caches, self._attention, self._overlap,
                                         self._tune)
        return self._buckets[rows]

    # ---- scales
    @checked
    def set_scales(self, scales: Tensor) -> None:
        """Sets the static scales of the recipe "tensor": fp32, layers x 4, of the inputs of qkv, o, gate_up and down. An input is divided
        by its scale and rounded to e4m3, whose largest value is 448. Chains that exist read the new ones."""
        layers = len(self.model.layers)
        if self.recipe != "tensor":
            raise InvalidArgument(f"scales are given and recipe = {self.recipe!r}: static scales belong to recipe = 'tensor'")
        if tuple(scales.shape) != (layers, 4) or not scales.is_floating_point():
            raise InvalidSize(f"scales has shape {tuple(scales.shape)} and type {scales.dtype} and must be floats, ({layers}, 4): for each "
                              "layer those of the inputs of qkv, o, gate_up and down")
        if not bool(((scales > 0) & scales.isfinite()).all()):
            raise InvalidArgument("scales must be positive and finite: they divide what is rounded to e4m3")
        self.model.set_scales(scales)
        self._calibrated = True

    def scales(self) -> Optional[Tensor]:
        """Returns the static scales, layers x 4 in host memory; None before the first prompt calibrated them, and for other recipes."""
        return self.model.scales() if self.recipe == "tensor" and self._calibrated else None

    # ---- files
    def save(self, folder: Union[str, pathlib.Path]) -> None:
        """Writes the quantised weights, the config and calibrated scales into a folder that ``sluice.decode(folder)`` reads. Raises
        ``StorageError`` if it cannot be written."""
        storage.save(pathlib.Path(folder), self.model, self.recipe, self.head, self._config, self._generation, self.scales(), self._show)

    # ---- what it measured
    def stats(self) -> Dict[str, Any]:
        """Returns what the last generate measured, by events around its tokens after the first.

        - ``ms_token``: milliseconds of a step of all rows. ``tokens_s``: tokens per second of all rows together.
        - ``bytes_token``: bytes of the weights, and of the caches at the mean length, that a step reads; of experts those that tokens
          reach that choose evenly.
        - ``hbm_share``: those bytes over the datasheet's rate of the device; None if the device is not listed.
        - ``launches_token``: nodes of the graph. The other values say what was run.

        Raises ``InvalidArgument`` before a generate of two tokens."""
        if self._stats is None:
            raise InvalidArgument("stats are of the last generate, and none has run two tokens: call generate first")
        return dict(self._stats)

    def _measured(self, own: Bucket, token: Any, ms: float, steps: int, rows: int, new: int) -> None:
        if steps < 1:
            return
        one, about = ms / steps, self._machine.describe()
        read = self.model.weight_bytes(rows) + sum(self._caches.bytes_at(length + new / 2) for length in self._lengths)
        rate = about["hbm_gb_s"]
        self._stats = {"ms_token": one, "tokens_s": rows / one * 1e3 if one else None, "tokens": steps, "rows": rows, "bucket": own.rows,
                       "bytes_token": int(read), "hbm_share": None if rate is None or not one else read / one / 1e6 / rate,
                       "hbm_gb_s_datasheet": rate, "launches_token": token.launches, "recipe": self.recipe, "head": self.head,
                       "device": about["device"], "overlap": self._overlap}

    @checked
    def explain(self, rows: int = 1) -> str:
        """Returns the plan of the chain of a bucket, which is made if it does not exist."""
        with torch.no_grad(), self._machine.current():
            return str(self._bucket(asked.bucket_of(rows, None)).chain.explain())

    def __repr__(self) -> str:
        s = self.model.shape
        return (f"<sluice.Engine of {s.model_type}, {s.layers} layers of {s.width}, recipe {self.recipe!r}, head {self.head!r}, "
                f"{self.model.weight_bytes() / 1e9:.2f} GB, max_length {self.model.max_length}>")


def _needed(new: Tensor, stops: Sequence[int]) -> int:
    """Returns the columns up to the last row's stop token; all of them if a row has none."""
    if not stops:
        return new.shape[1]
    is_stop = torch.isin(new, torch.tensor(stops))
    ends = torch.where(is_stop.any(1), is_stop.int().argmax(1) + 1, new.shape[1])
    return int(ends.max())

