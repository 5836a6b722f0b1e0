# SPDX-License-Identifier: Apache-2.0
"""Checks arguments where they enter the package.

Numbers, names, switches and paths are checked before ctypes would silently truncate them. An exception that Python itself
raises for an argument is converted into an ``Error``.
"""
from __future__ import annotations

import ctypes
import difflib
import functools
import inspect
import itertools
import operator
import os
import reprlib
from typing import Any, Callable, Collection, Mapping, Optional, Sequence, TypeVar

from . import errors

# Python, ctypes and numpy raise these for arguments that they cannot take. Errors that are not about arguments
# (MemoryError, ImportError, a RuntimeError of torch) pass unchanged.
_TYPES = (TypeError, AttributeError, ctypes.ArgumentError)
_VALUES = (ValueError, LookupError, ArithmeticError, BufferError)
_LONGEST = 300

Entered = TypeVar("Entered", bound=Callable[..., Any])
Item = TypeVar("Item")


class _Shown(reprlib.Repr):
    """Formats a caller's value for a message: briefly, whatever it is."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 60
        self.maxlevel = 2

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to print a very long integer.
        return repr(x) if -2**128 < x < 2**128 else f"an integer of {x.bit_length()} bits"


_shown = _Shown()


def _in_one_line(text: str) -> str:
    cut = text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)


def shown(value: object) -> str:
    """Returns ``repr(value)`` for a message: bounded in length, in one line, escaped. Never raises."""
    try:
        return _in_one_line(_shown.repr(value))
    except Exception:  # noqa: BLE001 - a __repr__ of the caller's may raise anything
        return f"a {type(value).__name__}"


def did_you_mean(given: object, known: Collection[str]) -> str:
    """Returns the end of a message about an unknown name: ": did you mean X?" for a similar known name, else ""."""
    def letters(name: str) -> list[str]:
        return sorted(name.replace("_", ""))

    text = str(given)
    close = ([name for name in known if letters(name) == letters(text)] or [name for name in known if name == OTHERS.get(text)]
             or [name for name in known if text and name.startswith(text)] or difflib.get_close_matches(text, list(known), 1, 0.7))
    return f": did you mean {close[0]}?" if close else ""


# Maps the names that other libraries, the tool's flags and sluice 0.2 use for an argument to the name used here.
OTHERS = {"dtype": "a", "type": "a", "dtype_a": "a", "a_dtype": "a", "dtype_b": "b", "b_dtype": "b", "out_dtype": "d", "dtype_d": "d",
          "use_fast_accum": "accumulate", "act": "activation", "epilogue": "activation", "residual": "c", "groups": "group",
          "group_size": "group", "x": "a", "x_ld": "a_ld", "scale_x": "scale_a", "norm_x": "norm_a", "weights": "packed",
          "token_blocks": "tile", "row_blocks": "tile", "tokens": "tile", "strips": "tile", "tile_m": "tile", "tile_n": "tile",
          "parts": "cluster", "cluster_m": "cluster", "cluster_n": "cluster", "cluster_k": "cluster", "x_stages": "stages"}


def check_keywords(call: str, given: Collection[str], known: Sequence[str], more: Sequence[str] = ()) -> None:
    """Raises ``InvalidCall`` for a keyword that ``call`` does not take. The message suggests a similar keyword from ``known`` or
    ``more``."""
    for name in given:
        if name not in known:
            meant = did_you_mean(name, [*known, *more]) or ": it takes " + ", ".join([*known, *more])
            raise errors.InvalidCall(f"{call} takes no {shown(name)}{meant}")


def check_call(name: str, parameters: Mapping[str, inspect.Parameter], given: Sequence[object], named: Collection[str]) -> None:
    """Raises ``InvalidCall`` for a call of ``name`` that does not fit its parameters. A keyword may be unknown, an argument may be
    missing or given twice, or there are too many. ``given``: the positional arguments; ``named``: the keywords."""
    kinds = inspect.Parameter
    places = [p for p in parameters.values() if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    names = [p.name for p in parameters.values() if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY) and p.name not in ("self", "cls")]
    if not any(p.kind is kinds.VAR_KEYWORD for p in parameters.values()):
        check_keywords(name, named, names)
    if len(given) > len(places) and not any(p.kind is kinds.VAR_POSITIONAL for p in parameters.values()):
        after = [p.name for p in parameters.values() if p.kind is kinds.KEYWORD_ONLY]
        raise errors.InvalidCall(f"{name} takes {len(places)} arguments by their places, and {len(given)} are given"
                                 + (f": give {', '.join(after)} by name" if after else ""))
    for parameter in places[:len(given)]:
        if parameter.name in named:
            raise errors.InvalidCall(f"{name}: {parameter.name} is given twice, by its place and by name: leave one out")
    missing = [p.name for p in parameters.values() if p.default is p.empty and p.name not in named and p not in places[:len(given)]
               and p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)]
    if missing:
        verb = "is missing: give it" if len(missing) == 1 else "are missing: give them"
        raise errors.InvalidCall(f"{name}: {' and '.join(missing)} {verb}, as help({name}) says")


def integer(what: str, value: object) -> int:
    """Returns ``value`` as an int. Raises ``InvalidType`` for a float, a string or a bool, and ``InvalidSize`` for a
    number that does not fit a 64-bit C integer."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - an __index__ of the caller's may raise anything
        raise errors.InvalidType(f"{what} = {shown(value)} must be an integer, and is of type {type(value).__name__}: pass an "
                                 "int") from None
    if not -2**63 <= number < 2**64:
        raise errors.InvalidSize(f"{what} = {shown(number)} must be below 2^63: pass one that 64 bits hold")
    return number


def size_of(what: str, value: object) -> int:
    """Returns a size or stride as an int that fits 64 bits; the library checks its sign. Raises ``InvalidType`` or
    ``InvalidSize``."""
    size = integer(what, value)
    if not -2**63 <= size < 2**63:
        raise errors.InvalidSize(f"{what} = {shown(size)} must be below 2^63: no memory has that many elements")
    return size


def choice_of(what: str, value: object, bits: int = 32) -> int:
    """Returns an optional number as the C interface takes it: -1, its sign for "use the default", for None. Raises
    ``InvalidType``, or ``InvalidArgument`` for a number that does not fit a C integer of ``bits`` bits."""
    if value is None:
        return -1
    number = integer(what, value)
    if not 0 <= number < 2**(bits - 1):
        raise errors.InvalidArgument(f"{what} = {shown(number)} must be from 0 to 2^{bits - 1} - 1: leave it out (None) for the "
                                     "default")
    return number


def choices_of(what: str, values: object, *counts: int, gaps: bool = False) -> list[Optional[int]]:
    """Returns a list of numbers, each checked by ``choice_of``; an empty list for None. ``counts`` lists the allowed lengths.
    ``gaps``: whether some may be None. Raises as ``choice_of`` does, and ``InvalidArgument`` for another length."""
    if values is None:
        return []
    try:
        numbers = list(itertools.islice(values, counts[-1] + 1))  # type: ignore[call-overload]
    except TypeError:
        numbers = []
    if isinstance(values, (str, bytes)) or len(numbers) not in counts:
        raise errors.InvalidArgument(f"{what} = {shown(values)} must have {' or '.join(map(str, counts))} numbers: pass a tuple")
    if not gaps and any(number is None for number in numbers):
        raise errors.InvalidType(f"{what} = {shown(values)} must hold numbers, and no None: leave all of it out for the default")
    return [None if number is None else choice_of(f"{what}[{i}]", number) for i, number in enumerate(numbers)]


def list_of(what: str, values: object, kept: Callable[[object], Item]) -> list[Item]:
    """Returns ``kept(item)`` for each item. ``kept`` raises for a wrong item, so even an endless iterator stops at its first
    wrong item. Raises ``InvalidType`` for a string and for anything that is not iterable."""
    items = None if isinstance(values, (str, bytes)) else getattr(values, "__iter__", None)
    if items is None:
        raise errors.InvalidType(f"{what} = {shown(values)} must be a list, and is of type {type(values).__name__}: pass [...]")
    return [kept(item) for item in items()]


def check_span(what: str, start: object, stop: object, size: int) -> None:
    """Checks the range ``start`` to ``stop`` of ``size`` rows or columns. Raises ``InvalidType``, or
    ``InvalidSize`` if the range is empty or exceeds 0 to ``size``."""
    first, end = integer("start", start), integer("stop", stop)
    if not 0 <= first < end <= size:
        raise errors.InvalidSize(f"{what} {first} to {end} must lie in 0 to {size} and hold at least one")


def switch_of(what: str, value: object) -> int:
    """Returns 1 for True and 0 for False. Raises ``InvalidArgument`` for anything else: "no" is true to Python."""
    if not isinstance(value, bool):
        raise errors.InvalidArgument(f"{what} = {shown(value)} must be True or False")
    return int(value)


def check_one_of(what: str, value: object, names: Sequence[str]) -> None:
    """Raises ``InvalidArgument``, which lists ``names``, if ``value`` is not exactly one of them."""
    if not isinstance(value, str) or value not in names:
        raise errors.InvalidArgument(f"{what} = {shown(value)} must be one of {', '.join(names)}{did_you_mean(value, names)}")


def check_array(what: str, value: object) -> None:
    """Raises ``InvalidType`` for a value that is neither None nor a DLPack array. Call it before tvm-ffi, which would convert
    a nested list item by item."""
    if value is not None and not hasattr(type(value), "__dlpack__"):
        raise errors.InvalidType(f"{what} = {shown(value)} must be an array, and is of type {type(value).__name__}: pass a torch "
                                 "tensor, or anything else that speaks DLPack")


def name_of(what: str, value: object) -> Optional[bytes]:
    """Returns a name as bytes for the C interface, which checks it against the valid names; None stays None. Raises
    ``InvalidType`` if it is not a string, and ``InvalidArgument`` for a string that is not a valid C string."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise errors.InvalidType(f"{what} = {shown(value)} must be a name, and is of type {type(value).__name__}: pass a str")
    if "\0" in value or not value.isprintable():
        raise errors.InvalidArgument(f"{what} = {shown(value)} must be a name without control characters")
    return value.encode()


def path_of(what: str, value: object) -> Optional[bytes]:
    """Returns a path as bytes for the C interface; None stays None. Raises ``InvalidType`` or ``InvalidArgument`` if
    ``value`` cannot be a path."""
    if value is None:
        return None
    try:
        path = os.fsencode(value)  # type: ignore[arg-type]
    except TypeError:
        raise errors.InvalidType(f"{what} = {shown(value)} must be a path, and is of type {type(value).__name__}: pass a str or "
                                 "a pathlib.Path") from None
    except UnicodeError:
        raise errors.InvalidArgument(f"{what} = {shown(value)} has characters that no file name here can have") from None
    if b"\0" in path:
        raise errors.InvalidArgument(f"{what} = {shown(value)} holds a zero byte, which ends a path: leave it out")
    return path


def as_ours(name: str, error: Exception) -> Optional[errors.Error]:
    """Converts an exception that Python raised for an argument of ``name`` into an ``Error``. Returns None for an
    exception that is not about an argument."""
    if not isinstance(error, _TYPES + _VALUES):
        return None
    kind = errors.InvalidType if isinstance(error, _TYPES) else errors.InvalidArgument
    return kind(f"{name}: {_in_one_line(str(error) or type(error).__name__)}; help({name}) says what it takes")


def _entry_of(function: Entered, name: str, kind: type = object) -> Entered:
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def entered(*arguments: Any, **named: Any) -> Any:
        try:
            if kind is not object and not isinstance(arguments[0], kind):
                raise TypeError(f"a method of {kind.__qualname__}, and not of {type(arguments[0]).__name__}")
            return function(*arguments, **named)
        except errors.Error:
            raise
        except TypeError as error:
            check_call(name, parameters, arguments, named)
            raise as_ours(name, error) from error  # type: ignore[misc]
        except _TYPES + _VALUES as error:
            raise as_ours(name, error) from error  # type: ignore[misc]

    return entered  # type: ignore[return-value]


def entry(what: Entered) -> Entered:
    """Decorates a public function, or a class with its constructor and public methods.

    An exception that Python itself raises for an argument (``TypeError``, ``AttributeError``, ``ValueError`` ...)
    becomes an ``InvalidType`` or ``InvalidArgument``, with the original as its cause. This is the last resort: explicit
    checks run first and have better messages.
    """
    if not inspect.isclass(what):
        return _entry_of(what, what.__qualname__)
    for name, member in list(vars(what).items()):
        if name.startswith("_") and name != "__init__":
            continue
        full = what.__qualname__ if name == "__init__" else f"{what.__qualname__}.{name}"
        if inspect.isfunction(member):
            setattr(what, name, _entry_of(member, full, what))
        elif isinstance(member, (classmethod, staticmethod)):
            setattr(what, name, type(member)(_entry_of(member.__func__, full)))
    return what
