# SPDX-License-Identifier: Apache-2.0
"""The mechanism of ``override``, the same for all ops of torch. It puts a function in front of the kernels of one dispatch key, keeps one
decision per call's metadata, and counts. ``Calls`` has what an op adds to it.

The invariant: a call that torch accepts never raises here, and one that torch refuses raises torch's error, since it goes to torch.
"""
from __future__ import annotations

import threading
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from ..errors import Error, InvalidArgument, NotPrepared, StorageError, ToolchainError, UnsupportedArch
from ..problems import Problem
from ._override_reasons import DEVICE, IN_CAPTURE, ROWS, SLOWER, UNMEASURED


class Counts(NamedTuple):
    """The calls of torch's products since the start of the process, or since ``override.reset_counts()``, while an override was on."""

    taken: int
    """Calls that sluice computed."""
    passed: Dict[str, int]
    """Calls that torch computed, by reason."""


class Judged(NamedTuple):
    """A call that sluice computes as torch does, if the device can and the rule wants it."""

    tensors: Tuple[Tensor, ...]
    """All tensors of the call."""
    rows: int
    """What ``rows`` of an override bounds."""
    problem: Problem
    gain: Optional[Callable[[str], Optional[float]]] = None
    """Returns the least measured ratio of torch's time and sluice's for products of this kind, if the plan is of "record" or "model";
    None if there is none. None instead of a function: nothing was measured."""


class Calls(NamedTuple):
    """How calls of an op are read, judged and computed. The functions take a call's arguments as torch's dispatcher passes them: in the
    order of the schema, those behind a * by name, and without a tail of defaults."""

    names: Tuple[str, ...]
    """The op and its variants that have the same arguments, or ``out`` beside them, like ("_scaled_mm", "_scaled_mm.out")."""
    metadata: Callable[..., tuple]
    """Returns all that ``judge`` reads, as a key. It begins with the op's name, since ops share a dictionary. Every eager call pays for
    it."""
    judge: Callable[..., Union[str, Judged]]
    """Returns the reason why sluice leaves the call to torch. It reads no data and no addresses; what torch would refuse has a reason,
    too."""
    compute: Callable[..., Tensor]
    """Returns what sluice computes, in ``out`` or in a new tensor of torch's shape, type and strides. Every eager call pays for it."""


class Rule(NamedTuple):
    """The arguments of an override, and its decisions: by a call's metadata the reason, or None for a call that sluice takes."""

    min_gain: float
    rows: Tuple[int, float]
    decided: Dict[tuple, Optional[str]]


_NEW = "new"  # no reason has this text
_MOST_DECISIONS = 65536
# After these errors a call of the same metadata is not tried again: it would fail again, after half a second of compiling.
_LASTING = (ToolchainError, StorageError, UnsupportedArch)


class Route:
    """Puts sluice in front of torch's kernels of some ops for one dispatch key.

    ``ops`` are the ops. ``fits(*tensors)`` returns whether a device can compute a call. ``planned_by(problem, device)`` returns
    "record" or "model". Tests give others than the defaults.

    torch's table of kernels may not change while another thread reads it. So the functions stay registered from the first ``enter``
    on; while no rule is on, they pass every call to torch.
    """

    def __init__(self, key: str, ops: Sequence[Calls], fits: Callable[..., bool], planned_by: Callable[[Problem, int], str]) -> None:
        self.key, self.ops, self.fits, self.planned_by = key, tuple(ops), fits, planned_by
        self.rule: Optional[Rule] = None
        self._stack: List[Tuple[object, Rule]] = []
        self._lock = threading.Lock()
        self._taken = 0
        self._passed: Dict[str, int] = {}
        self._library: Optional[torch.library.Library] = None

    def enter(self, owner: object, rule: Rule) -> None:
        """Turns a rule on. The rule that was turned on last decides."""
        with self._lock:
            if self._library is None:
                self._library = self._register()
            self._stack.append((owner, rule))
            self.rule = rule

    def leave(self, owner: object) -> None:
        """Turns the last rule of ``owner`` off. Raises ``InvalidArgument`` if it has none."""
        with self._lock:
            at = next((i for i in reversed(range(len(self._stack))) if self._stack[i][0] is owner), None)
            if at is None:
                raise InvalidArgument("override: disable() without enable(): it is not on; call enable() before, and once for each "
                                      "disable()")
            del self._stack[at]
            self.rule = self._stack[-1][1] if self._stack else None

    def counts(self) -> Counts:
        with self._lock:
            return Counts(self._taken, dict(self._passed))

    def reset_counts(self) -> None:
        with self._lock:
            self._taken, self._passed = 0, {}

    def _take(self) -> None:
        with self._lock:
            self._taken += 1

    def _pass(self, reason: str) -> None:
        with self._lock:
            self._passed[reason] = self._passed.get(reason, 0) + 1

    def _decide(self, rule: Rule, key: tuple, op: Calls, call: tuple, named: Dict[str, Any]) -> Optional[str]:
        """Returns the reason of a call of new metadata, and keeps it."""
        try:
            reason = self._reason(rule, op.judge(*call, **named))
        except Exception as error:  # noqa: BLE001 - whatever it is, torch may accept the call
            reason = _reason_of(error)
        if len(rule.decided) >= _MOST_DECISIONS:
            rule.decided.clear()
        rule.decided[key] = reason
        return reason

    def _reason(self, rule: Rule, judged: Union[str, Judged]) -> Optional[str]:
        if isinstance(judged, str):
            return judged
        if not self.fits(*judged.tensors):
            return DEVICE
        if not rule.rows[0] <= judged.rows <= rule.rows[1]:
            return ROWS
        judged.problem.check()
        if rule.min_gain == 0:
            return None
        gain = None if judged.gain is None else judged.gain(self.planned_by(judged.problem, judged.tensors[0].get_device()))
        if gain is None:
            return UNMEASURED
        return None if gain >= rule.min_gain else SLOWER

    def _failed(self, rule: Rule, key: tuple, error: Exception) -> str:
        """Returns the reason of a call that sluice did not run."""
        reason = _reason_of(error)
        if isinstance(error, _LASTING):
            rule.decided[key] = reason
        return reason

    def _register(self) -> torch.library.Library:
        if not hasattr(torch.library, "get_kernel"):
            raise InvalidArgument("override needs a PyTorch whose own kernels can be called (torch.library.get_kernel, as 2.11 has), and "
                                  f"this is {torch.__version__}: call st.scaled_mm and st.grouped_mm instead")
        keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, self.key))
        library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of each kernel that is replaced
            for name, op in ((name, op) for op in self.ops for name in op.names):
                original = _kernel_of_torch(name, self.key)
                if original is not None:
                    library.impl(name, _kernel(self, op, original, keys), self.key, allow_override=True)
        return library


def _kernel_of_torch(name: str, key: str) -> Optional[Callable[..., Any]]:
    """Returns torch's kernel of an op; None if this torch has none, so that a call of it raises torch's error."""
    try:
        return torch.library.get_kernel(f"aten::{name}", key).call_boxed  # type: ignore[no-any-return]
    except RuntimeError:
        return None


def _reason_of(error: Exception) -> str:
    if isinstance(error, NotPrepared):
        return IN_CAPTURE
    return f"sluice refused: {error.code if isinstance(error, Error) else type(error).__name__}"


def _kernel(route: Route, op: Calls, original: Callable[..., Any], keys: Any) -> Callable[..., Tensor]:
    """Returns the function in front of one of torch's kernels. Its body has few calls, since every eager product pays for them."""
    metadata, compute = op.metadata, op.compute

    def product(*call, **named):  # type: ignore[no-untyped-def]
        rule = route.rule
        if rule is not None:
            key = metadata(*call, **named)
            reason = rule.decided.get(key, _NEW)
            if reason is _NEW:
                reason = route._decide(rule, key, op, call, named)
            if reason is None:
                try:
                    result = compute(*call, **named)
                    route._take()
                    return result
                except Exception as error:  # noqa: BLE001 - whatever it is, torch may accept the call
                    reason = route._failed(rule, key, error)
            route._pass(reason)
        return original(keys, *call, **named)

    return product
