#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that libsluice_c.so exports only its own names and links only to libc, so that one file works with
every Python and every torch.

Called by ctest with the library's path.
"""
import re
import subprocess
import sys

NEEDED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}
SHOWN = re.compile(r"(sluice_[a-z0-9_]+|__tvm_ffi_[a-z0-9_]+)$")
FOREIGN = re.compile(r"_?Py[A-Z_]|c10|torch|at::|cu[A-Z]|nvrtc|_ZSt|_ZNSt")
GLIBC = (2, 35)


def lines(*command: str) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def faults_in(library: str) -> list[str]:
    faults = []
    for line in lines("readelf", "-d", library):
        match = re.search(r"\(NEEDED\).*\[(.*)\]", line)
        if match and match[1] not in NEEDED:
            faults.append(f"needs {match[1]}, and may need libc alone")
    for line in lines("nm", "-D", "--defined-only", library):
        name = line.split()[-1].split("@")[0]
        if not SHOWN.match(name):
            faults.append(f"shows {name}: cmake/sluice_c.map lets through more than it should")
    for line in lines("nm", "-D", "--undefined-only", library):
        name, _, version = line.split()[-1].partition("@")
        if FOREIGN.match(name):
            faults.append(f"asks its process for {name}")
        match = re.match(r"GLIBC_(\d+)\.(\d+)$", version)
        if match and (int(match[1]), int(match[2])) > GLIBC:
            faults.append(f"needs {name} of {version}; the wheel promises glibc {GLIBC[0]}.{GLIBC[1]}")
    return faults


def main() -> int:
    faults = faults_in(sys.argv[1])
    print("\n".join(faults) if faults else "symbols: ok")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
