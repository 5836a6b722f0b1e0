# SPDX-License-Identifier: Apache-2.0
"""Converts errors at the package's public functions on tensors. An exception that torch or Python raises for an argument, or for a
tensor that no kernel can read, becomes an ``Error`` that begins with the argument's name.

A function decorated with ``op`` checks its arguments only after a call failed, to keep calls fast. A function decorated with
``checked``, which makes or describes something, checks them first.
"""
from __future__ import annotations

import functools
import inspect
import operator
import re
from typing import Any, Callable, Dict, Mapping, NoReturn, Optional, Sequence, Tuple, TypeVar

import torch

from .._arguments import as_ours, check_call, shown
from ..errors import Error, InvalidCall, InvalidType, WrongDevice

Entered = TypeVar("Entered", bound=Callable[..., Any])

# torch's RuntimeErrors about an argument begin with these texts: it is not a tensor, its truth value is asked in a trace, or it has
# no storage.
_OF_ARGUMENTS = ("Expected a value of type", "Boolean value of Tensor", "doesn't have storage")


def _is_integer(value: object) -> bool:
    try:
        operator.index(value)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - an __index__ of the caller's may raise anything
        return False
    return not isinstance(value, (bool, torch.Tensor))


def _is_device(value: object) -> bool:
    try:
        torch.device(value)  # type: ignore[arg-type]
    except (RuntimeError, TypeError):
        return False
    return True


def _is_range(value: object) -> bool:
    return isinstance(value, range) or (isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and len(value) == 2
                                        and all(map(_is_integer, value)))


def _instance_of(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds)


# Maps an annotation to a test of a value, and to the words that say what the value must be.
_RULES: Dict[str, Tuple[Callable[[object], bool], str]] = {
    "Tensor": (_instance_of(torch.Tensor), "a tensor"),
    "bool": (_instance_of(bool, torch.SymBool), "True or False"),
    "int": (_is_integer, "an integer"),
    "float": (lambda value: isinstance(value, (float, torch.SymFloat)) or _is_integer(value), "a number"),
    "str": (_instance_of(str), "a name"),
    "torch.dtype": (_instance_of(torch.dtype), "a torch.dtype"),
    "torch.nn.Module": (_instance_of(torch.nn.Module), "a torch.nn.Module"),
    "torch.nn.Linear": (_instance_of(torch.nn.Linear), "a torch.nn.Linear"),
    "Workspace": (lambda value: isinstance(getattr(type(value), "address", None), (int, property)), "a sluice.Workspace"),
    "PackedWeights": (lambda value: type(value).__name__ == "PackedWeights", "sluice.PackedWeights, as pack_int4 gives them"),
    "Union[Tensor, PackedExperts]": (lambda value: isinstance(value, torch.Tensor) or type(value).__name__ == "PackedExperts",
                                     "a tensor, or sluice.PackedExperts"),
    "QuantizedWeights": (lambda value: type(value).__name__ == "QuantizedWeights", "sluice.weights.QuantizedWeights"),
    "WeightFormat": (lambda value: type(value).__name__ == "WeightFormat", "a sluice.WeightFormat"),
    "Mapping[str, Tensor]": (_instance_of(Mapping), "a state, which maps names to tensors"),
    "Callable": (callable, "a function"),
    "Rows": (_is_range, "two numbers of rows, like (1, 512), or a range"),
    "Union[str, int, torch.device, None]": (lambda value: value is None or _is_device(value), "a device, like 'cuda:0'"),
}


def _check_types(parameters: Mapping[str, inspect.Parameter], values: Mapping[str, Any]) -> None:
    """Raises ``InvalidType`` for the first argument that does not fit its annotation."""
    for name, value in values.items():
        words = str(parameters[name].annotation)
        optional = words.startswith("Optional[")
        words = words[len("Optional["):-1] if optional else words
        rule = _RULES.get("Callable" if words.startswith("Callable[") else words)
        if rule is None or (optional and value is None) or rule[0](value):
            continue
        wanted = rule[1] + (" or None" if optional else "")
        if value is None or words == "Tensor":  # printing the values of a list would not help
            kind = type(value).__name__
            given = "None" if value is None else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
            raise InvalidType(f"{name} is {given} and must be {wanted}")
        raise InvalidType(f"{name} = {shown(value)} must be {wanted}, and is of type {type(value).__name__}")


def _of_meta(values: Mapping[str, Any]) -> Optional[Error]:
    """Returns an error that names the first tensor on the meta device; None if there is no such tensor."""
    for name, value in values.items():
        if isinstance(value, torch.Tensor) and value.is_meta:
            return WrongDevice(f"{name} is on the meta device, which holds no data, and must be on a GPU: load it first "
                               "(load_state_dict(..., assign=True)), or make it there")
    return None


def _of_torch(name: str, error: Exception, values: Mapping[str, Any]) -> Optional[Error]:
    """Converts a ``RuntimeError`` of torch into an ``Error``. Returns None for one that is not about an argument, such as
    one about exhausted memory."""
    if isinstance(error, NotImplementedError) and "sharding strategy" in str(error):
        return InvalidType(f"{name}: a DTensor is given, and products have no sharding rule: pass the shards (x.to_local()) and "
                           "reduce the result yourself")
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return InvalidType(f"{name} cannot be called inside of torch.vmap, torch.func.grad, jvp and their kin: its tensors have no "
                           "memory there; give the batch as leading dimensions, and use .backward() for gradients")
    if isinstance(error, RuntimeError) and _of_meta(values) is not None:
        return _of_meta(values)
    first_line = str(error).partition("\n")[0]
    if isinstance(error, RuntimeError) and any(words in first_line for words in _OF_ARGUMENTS):
        return as_ours(name, TypeError(first_line))
    return None


def _without_autocast(error: InvalidType) -> Optional[Error]:
    """Returns the error with a note if torch.autocast is on, since autocast does not cast the operands of sluice's ops. Returns
    None if it is off."""
    if not any(torch.is_autocast_enabled(kind) for kind in ("cuda", "cpu")):
        return None
    return InvalidType(f"{error}. torch.autocast is on, and casts for torch's own operations only: cast the operands yourself "
                       "(x.to(torch.bfloat16)), and keep the layers' weights in 16 bits")


def _in_callers_words(error: Error, words: Mapping[str, str]) -> Optional[Error]:
    """Returns the error with the names of an inner function's arguments replaced by the caller's, as ``words`` maps them. Returns None
    if its text has none of these names."""
    text = str(error)
    for inner, outer in words.items():
        text = re.sub(rf"(?<![\w.]){inner}(?= (?:is|has|must|and)\b|\.[a-z]|[,;:]|$)", outer, text)
    return None if text == str(error) else type(error)(text)


def _explain(name: str, parameters: Mapping[str, inspect.Parameter], words: Mapping[str, str], error: Exception,
             values: Mapping[str, Any]) -> None:
    given = error
    if isinstance(error, InvalidCall):
        return
    _check_types(parameters, values)
    if isinstance(error, Error):
        error = _in_callers_words(error, words) or error
        casts = name.startswith("conv")  # as torch's convolutions do
        ours = (_without_autocast(error) if isinstance(error, InvalidType) and not casts else None) or error
    else:
        ours = as_ours(name, error) or _of_torch(name, error, values)
    if ours is not None and ours is not given:
        raise ours from given


_MISSING = type("_Missing", (), {"__repr__": lambda self: "..."})()


def _refuse(name: str, parameters: Mapping[str, inspect.Parameter], values: Mapping[str, Any], more: tuple, unknown: Mapping[str, Any]) -> NoReturn:
    """Raises the error for a call whose arguments do not fit the parameters."""
    given = [value for parameter, value in values.items() if parameters[parameter].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    first = next((i for i, value in enumerate(given) if value is _MISSING), len(given))
    named = {parameter: value for parameter, value in list(values.items())[first:] if value is not _MISSING}
    check_call(name, parameters, [*given[:first], *more], {**(named if not more else {}), **unknown})
    raise InvalidType(f"{name}: the arguments do not fit; help({name}) says what it takes")


def op(function: Optional[Entered] = None, **words: str) -> Any:
    """Decorates a function or method that computes, so that its errors are converted. The wrapper is generated with the
    function's own parameters. It adds 0.13 us per call; one with ``*arguments, **named`` would add 0.37 us (on a CPU of
    2 GHz). ``words`` maps names of inner functions' arguments to the names that the caller knows."""
    return _entered(function, "", words) if function is not None else lambda later: _entered(later, "", words)


def checked(function: Entered) -> Entered:
    """Decorates a function or method that is not called per product. Like ``op``, but the types of the arguments are checked before
    it runs."""
    return _entered(function, "check", {})


def _entered(function: Entered, check: str, words: Mapping[str, str]) -> Entered:
    parameters = inspect.signature(function).parameters
    kinds = inspect.Parameter
    before = [p for p in parameters.values() if p.kind is kinds.POSITIONAL_OR_KEYWORD]
    after = [p for p in parameters.values() if p.kind is kinds.KEYWORD_ONLY]
    own = [p for p in before[:1] if p.name in ("self", "cls")]
    needed = [p.name for p in (*before, *after) if p.default is p.empty and p not in own]
    taken = ", ".join([p.name if p in own else f"{p.name}=missing" for p in before] + ["*more"] + [f"{p.name}=missing" for p in after] + ["**unknown"])
    given = ", ".join([p.name for p in before] + [f"{p.name}={p.name}" for p in after])
    values = "{" + ", ".join(f"{p.name!r}: {p.name}" for p in (*before, *after) if p not in own) + "}"
    misfit = " or ".join(["more", "unknown"] + [f"{name} is missing" for name in needed])
    name = function.__qualname__.rpartition("<locals>.")[2]
    source = f"""
def {function.__name__}({taken}):
    try:
        if {misfit}:
            refuse({name!r}, parameters, {values}, more, unknown)
        {f"{check}(parameters, {values})" if check else ""}
        return function({given})
    except Exception as error:
        explain({name!r}, parameters, words, error, {values})
        raise
"""
    scope: dict[str, Any] = {"function": function, "explain": _explain, "refuse": _refuse, "check": _check_types, "missing": _MISSING,
                             "parameters": parameters, "words": words}
    made: dict[str, Any] = {}  # apart from `scope`, whose names a function may have: Chain.check
    exec(compile(source, f"<entry of sluice.torch.{name}>", "exec"), scope, made)  # noqa: S102 - the text holds only our own names
    entered = functools.update_wrapper(made[function.__name__], function)
    entered.__defaults__ = tuple(_MISSING if p.default is p.empty else p.default for p in before if p not in own)
    entered.__kwdefaults__ = {p.name: _MISSING if p.default is p.empty else p.default for p in after}
    return entered  # type: ignore[no-any-return]
