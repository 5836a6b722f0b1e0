# SPDX-License-Identifier: Apache-2.0
"""Values that no function of the package should be given, and calls that pass them."""
import inspect
import math
import random
import sys

import sluice


class Angry:
    """An object that raises whenever it is used."""

    def __getattr__(self, name):
        raise ZeroDivisionError(name)

    __index__ = __iter__ = __len__ = __repr__ = __str__ = __fspath__ = __bool__ = lambda self: 1 // 0


class Giant:
    """A number that converts to more than any C integer can hold."""

    def __index__(self):
        return 10**400


def arrays(numpy):
    """Returns arrays, some valid for a function and some not."""
    made = [numpy.zeros(shape, kind) for shape in ((), (0,), (64,), (64, 128), (0, 128), (128, 64), (2, 3, 4), (16, 8))
            for kind in ("uint8", "int32", "float16", "float32", "int64", "complex64", "bool")]
    made += [numpy.full((64, 128), math.nan, "float32"), numpy.full((64, 128), math.inf, "float16"),
             numpy.ones((64, 128), "float32").T, numpy.ones((128, 256), "float16")[::2, ::2], numpy.ones((64, 128), "float32")[::-1],
             numpy.array([64, 64]), numpy.array([64]), numpy.array(64), numpy.array(["a"]), numpy.array([object()]),
             numpy.zeros(3, [("a", "int32")]), numpy.broadcast_to(numpy.float32(1), (64, 128)), numpy.int64(64), numpy.float32(3.5),
             numpy.bool_(True), numpy.datetime64("2020-01-01"), numpy.full((8, 64), -1, "int32"), numpy.arange(64)[::-1]]
    made[-2].flags.writeable = False
    return made


def values():
    """Returns values that arguments should refuse, beside some that a few take."""
    nested = []
    nested.append(nested)
    return [None, True, False, 0, 1, -1, 3, 64, 128, 3.9, -0.0, math.nan, math.inf, -math.inf, 1e308, 2**31 - 1, 2**31, 2**32 + 4,
            2**63 - 1, 2**63, 2**64, -2**31 - 1, -2**63 - 1, 10**400, 10**5000, 1j, "", "x", "3", "bf16", "int8", "plain", "plain\0x",
            "\ud800", "a\nb\x1b[31m", "x" * 100000, b"bf16", b"\xff", bytearray(8), (), [], {}, set(), (1, 2), (2**32 + 128, 128),
            ("a", "b"), (None, None), (1, 2, 3, 4), [1.5, 2], range(10**9), nested, iter(()), object(), object, Angry(), Giant(),
            lambda: 0, sys, Ellipsis, NotImplemented, ValueError("x"), memoryview(b"1234"), sluice.Problem(64, 64, 64),
            sluice.Problem(Angry(), 1, 1), sluice.Problem(16, 64, 128, packed=sluice.WeightFormat()), sluice.WeightFormat(), sluice.WeightFormat(group=10**400),
            sluice.Convolution("fprop", (1, 64, 8), (64, 3)), sluice.Convolution(Angry(), "x", None), sluice.plan(m=64, n=64, k=64),
            sluice.plan(m=16, n=64, k=128, packed=sluice.WeightFormat())]


def public(modules):
    """Returns (name, function) of everything callable in the modules' ``__all__``: functions, constructors, methods."""
    for module in modules:
        for name in module.__all__:
            member = getattr(module, name)
            if not callable(member) or (inspect.isclass(member) and issubclass(member, (Exception, tuple))):
                continue
            yield f"{module.__name__}.{name}", member
            for method in vars(member) if inspect.isclass(member) else ():
                if not method.startswith("_") and callable(getattr(member, method)):
                    yield f"{module.__name__}.{name}.{method}", getattr(member, method)


def arguments_for(name, function, good, generator: random.Random):
    """Returns positional and named arguments. Each is a valid value for its name, or any value. If an invalid
    value would end the call early, all values are valid."""
    table, share = good[""], generator.choice((0.0, 0.5, 0.9, 1.0))

    def pick(argument):
        right = good.get(name.split(".")[-2] if argument == "self" else argument)
        return generator.choice(right if right and generator.random() < share else table)

    places, named = [], {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            named.update({size: pick(size) for size in ("m", "n", "k")})
            named.update({field: pick(field) for field in generator.sample(sorted({*good, "colour"}), 1) if generator.random() < 0.5})
        elif parameter.default is parameter.empty:
            places.append(pick(parameter.name))
        elif generator.random() < 0.3:
            named[parameter.name] = pick(parameter.name)
    if generator.random() < 0.02:
        places.append(pick(""))
    return places, named
