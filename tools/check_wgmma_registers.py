#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds, in SASS text, a register of WGMMA's A that is written before the wait that retires the product.

    cuobjdump -sass kernel.cubin | tools/check_wgmma_registers.py     (or nvdisasm, or files as arguments)
    tools/check_wgmma_registers.py --self-test              (a committed loop, as it is and with planted bugs)

The tensor core reads A's registers while the warp goes on, and kernels/wide.cuh and strip.cuh rewrite them in
the next pass; ptxas need not see the hazard. Along each path through a function, each register of an A has an
age: the number of newer groups committed since (HGMMA or QGMMA with gsb0 ends a group). WARPGROUP.DEPBAR.LE
gsb0, N retires all but the newest N groups. A write to a register that is not retired is a hazard.

Calls and indirect branches are not followed, so a function with products that has one is refused. Exit status
1: a hazard, a refused function, or a file without a product to check. tools/scan_packed_cubins.py compiles
kernels and scans them.
"""
import pathlib
import re
import sys

SAMPLE = pathlib.Path(__file__).resolve().parent.parent / "tests/sass/wide_loop.sass"
OLDEST = 8  # number of groups; the age of older ones is not counted further

PRODUCTS = ("HGMMA", "QGMMA")  # WGMMA instructions for 16-bit and 8-bit operands
INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+([^;/]+);")
LABEL = re.compile(r"^\s*(\.L_[\w.]+):")
FUNCTION = re.compile(r"Function : (\S+)|^\s*\.text\.(\S+):")
NO_RESULT = re.compile(r"^(ST|RED|BAR|BRA|EXIT|NOP|SYNCS|WARPGROUP|UTMA|UBLKCP|MEMBAR|FENCE|CCTL|B[A-Z]*SY|WARPSYNC|UCGABAR|DEPBAR|"
                       r"USETMAXREG|PREFETCH|ERRBAR|CGAERRBAR)")
PREDICATES_ALONE = ("ISETP", "FSETP", "DSETP", "HSETP2", "PLOP3", "R2P", "FCHK")
FOUR_RESULTS = re.compile(r"\.128|M88\.4|^[HIQ]MMA\b")
TWO_RESULTS = re.compile(r"\.64(?!x)\b|\.WIDE|M88\.2|^CS2R(?!\.32)|^D(ADD|MUL|FMA)|F2F\.F64|I2F\.F64|TRANS64")
REFUSED = re.compile(r"^(CALL|RET|BRX|BRXU|JMP|JMX|JMXU|JCAL)\b")  # their targets are not followed


class Instruction:
    def __init__(self, address, text):
        self.address, self.text = address, " ".join(text.split())
        words = re.sub(r"^@!?U?P\w+ ", "", self.text)
        self.conditional = words != self.text
        self.name, _, rest = words.partition(" ")
        self.operands = [operand.strip() for operand in rest.split(",")]

    def register(self, index):
        found = re.match(r"R(\d+)\b", self.operands[index]) if index < len(self.operands) else None
        return int(found[1]) if found else None

    def product(self):
        """Returns the registers of A, or none."""
        first = self.register(1) if self.name.startswith(PRODUCTS) else None
        return [] if first is None else list(range(first, first + 4))

    def written(self):
        if NO_RESULT.match(self.name) or self.name.startswith(PREDICATES_ALONE):
            return []
        index = 0
        while index < len(self.operands) - 1 and re.fullmatch(r"U?P[\dTR]", self.operands[index]):
            # Predicates that are written come before the register: SHFL PT, R4, ...; ATOMG PT, R4, ...
            index += 1
        first = self.register(index)
        if first is None:
            return []
        if self.name.startswith(PRODUCTS):
            count = int(re.search(r"64x(\d+)x", self.name)[1]) // 2
        else:
            count = 4 if FOUR_RESULTS.search(self.name) else 2 if TWO_RESULTS.search(self.name) else 1
        return list(range(first, first + count))


def functions_of(text):
    """Returns [(name, instructions, {label: index})] of the functions in a SASS text."""
    functions = [("?", [], {})]
    for line in text.splitlines():
        if found := FUNCTION.search(line):
            functions.append((found[1] or found[2], [], {}))
        name, instructions, labels = functions[-1]
        if found := LABEL.match(line):
            labels[found[1]] = len(instructions)
        for address, words in INSTRUCTION.findall(line):
            labels[int(address, 16)] = len(instructions)
            instructions.append(Instruction(int(address, 16), words))
    return [function for function in functions if function[1]]


def target_of(instruction, labels):
    for operand in instruction.operands:
        if found := re.search(r"\(?(\.L_[\w.]+)\)?|\b(0x[0-9a-f]+)$", operand):
            return labels.get(found[1] if found[1] else int(found[2], 16))
    return None


def followers(index, instructions, labels):
    instruction = instructions[index]
    after = [index + 1] if index + 1 < len(instructions) else []
    if instruction.name.startswith("EXIT"):
        return after if instruction.conditional else []
    if instruction.name.startswith(("BRA", "BSSY")):
        target = target_of(instruction, labels)
        if instruction.name.startswith("BSSY"):
            return after
        always = not instruction.conditional and not re.match(r"U?!?U?P\d", instruction.operands[0])
        return ([] if always else after) + ([] if target is None else [target])
    return after


def step(instruction, ages):
    """Returns the hazards of the instruction, and the ages after it."""
    wrong = [register for register in instruction.written() if register in ages]
    ages = dict(ages)
    for register in instruction.product():
        ages[register] = 0
    if "gsb0" in instruction.operands[-1] and instruction.name.startswith(PRODUCTS):
        ages = {register: min(age + 1, OLDEST) for register, age in ages.items()}
    if instruction.name.startswith("WARPGROUP.DEPBAR"):
        left = int(instruction.operands[-1], 0)
        ages = {register: age for register, age in ages.items() if age <= left}
    return wrong, ages


def hazards_of(instructions, labels):
    states, found = {0: {}}, {}
    waiting = [0]
    while waiting:
        index = waiting.pop()
        wrong, ages = step(instructions[index], states[index])
        if wrong:
            found[index] = wrong
        for follower in followers(index, instructions, labels):
            known = states.get(follower)
            # If paths meet, the younger age counts.
            merged = dict(ages) if known is None else known | {
                register: min(age, known.get(register, OLDEST)) for register, age in ages.items()}
            if merged != known:
                states[follower] = merged
                waiting.append(follower)
    return found


def check(text):
    """Returns (products with A in registers, messages) of a SASS text."""
    products, messages = 0, []
    for name, instructions, labels in functions_of(text):
        own = sum(1 for instruction in instructions if instruction.product())
        products += own
        messages += [f"{name} at {instruction.address:#06x}: {instruction.text}: refused: where it goes is not followed, and the "
                     "function has products" for instruction in instructions if own and REFUSED.match(instruction.name)]
        for index, registers in sorted(hazards_of(instructions, labels).items()):
            instruction = instructions[index]
            messages.append(f"{name} at {instruction.address:#06x}: {instruction.text}: writes R{registers[0]}, "
                            "which a product that no wait has retired may still read")
    return products, messages


def failures(named):
    """Returns the number of products in all of [(name, text)], and the faults. A text without products is a fault."""
    total, wrong = 0, [] if named else ["nothing to check"]
    for name, text in named:
        products, messages = check(text)
        total += products
        wrong += [f"{name}: {message}" for message in messages]
        if products == 0:
            wrong.append(f"{name}: no product with A in registers: nothing was checked")
    return total, wrong


def self_test():
    loop = SAMPLE.read_text()
    products, messages = check(loop)
    assert products == 8 and not messages, (products, messages)
    waits = re.findall(r".*WARPGROUP\.DEPBAR.*\n", loop)
    assert len(waits) == 2, waits
    for wait in waits:  # lets one group too many stay in flight
        _, messages = check(loop.replace(wait, wait.replace("gsb0, 0x1", "gsb0, 0x2")))
        assert messages, f"a wait that is too short is not found: {wait}"
    # The hazard is only on the loop's back edge, so a scan from top to bottom would miss it.
    start = INSTRUCTION.search(loop)[1]
    straight = re.sub(rf".*\bBRA 0x{start} ;.*\n", "", loop)
    first = waits[0]
    assert straight != loop and not check(straight.replace(first, ""))[1], "the sample does not loop"
    assert check(loop.replace(first, ""))[1], "a hazard of the pass before is not found"
    first_product = re.search(r".*HGMMA\S* R\d+, R(\d+),.*\n", loop)
    planted = first_product[0] + f"        /*fff0*/  HMUL2 R{first_product[1]}, R1, R2 ;\n"
    assert check(loop.replace(first_product[0], planted))[1], "a write behind a product is not found"
    a = int(first_product[1])
    for words, found in {f"ATOMG.E.ADD.STRONG.GPU PT, R{a}, desc[UR4][R2.64], R7": True, f"SHFL.IDX PT, R{a}, R3, RZ, 0x1f": True,
                         f"IADD3 R{a}, P0, R1, R2, RZ": True, f"LOP3.LUT P0, R{a}, R1, R2, RZ, 0xc0, !PT": True,
                         f"@P0 ATOMS.CAS R{a}, [R2], R7, R8": True, f"IMAD.WIDE.U32 R{a - 1}, P0, R2, R3, R4": True,
                         f"VOTE.ANY R{a}, PT, P0": True, f"LDSM.16.M88.4 R{a - 1}, [R2]": True, f"CS2R R{a - 1}, SRZ": True,
                         f"MATCH.ALL PT, R{a}, R3": True, f"HMMA.16816.F32 R{a - 2}, R200, R204, RZ": True,
                         f"ISETP.NE.AND P0, PT, R{a}, RZ, PT": False, f"R2P PR, R{a}, 0x7f": False, f"STS.128 [R2], R{a}": False,
                         f"RED.E.ADD.STRONG.GPU desc[UR4][R2.64], R{a}": False, f"FSETP.GT.AND P1, PT, R{a}, R2, PT": False,
                         "CALL.REL.NOINC 0xf000": True, "BRX R4 -0x10": True, "RET.REL.NODEC R4 0x0": True}.items():
        text = loop.replace(first_product[0], first_product[0] + f"        /*fff0*/  {words} ;\n")
        assert bool(check(text)[1]) == found, f"{words}: must be {'found' if found else 'let pass'}"
    beside = "Function : other\n        /*0000*/  CALL.REL.NOINC 0x100 ;\n"
    assert check(beside) == (0, []), "a call where no product is"
    assert failures([("kernel", loop), ("other", beside)])[1] == ["other: no product with A in registers: nothing was checked"]
    assert failures([("kernel", loop)]) == (8, []) and failures([]) == (0, ["nothing to check"])
    print(f"wgmma registers: ok ({products} products)")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    named = [(name, pathlib.Path(name).read_text()) for name in sys.argv[1:]] or [("standard input", sys.stdin.read())]
    products, messages = failures(named)
    print("\n".join([*messages, f"{products} products with A in registers"]))
    if messages:
        sys.exit(1)


if __name__ == "__main__":
    main()
