#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes sluice/run/driver/generated/empty_kernel.h: the cubin of a kernel that does nothing, for sm_90.

Device::info() asks the driver how many clusters of such a kernel fit on a GPU. Loading PTX instead would run
the driver's compiler for 10 to 144 ms (H100); this takes 0.1 ms. Needs NVRTC 13.0: tools/gen_empty_kernel.py
[LIBRARY]
"""
import ctypes
import pathlib
import sys

HEADER = pathlib.Path(__file__).resolve().parent.parent / "sluice/run/driver/generated/empty_kernel.h"
KERNEL = b'extern "C" __global__ void __launch_bounds__(384) sluice_entry() {}\n'
BYTES_OF_LINE = 24


def cubin(library):
    nvrtc = ctypes.CDLL(library)
    program, size = ctypes.c_void_p(), ctypes.c_size_t()

    def call(name, *arguments):
        code = getattr(nvrtc, name)(*arguments)
        if code != 0:
            raise SystemExit(f"{name} failed with {code}")

    call("nvrtcCreateProgram", ctypes.byref(program), KERNEL, b"empty.cu", 0, None, None)
    options = (ctypes.c_char_p * 1)(b"-arch=sm_90")
    call("nvrtcCompileProgram", program, 1, options)
    call("nvrtcGetCUBINSize", program, ctypes.byref(size))
    image = ctypes.create_string_buffer(size.value)
    call("nvrtcGetCUBIN", program, image)
    return image.raw


def main():
    image = cubin(sys.argv[1] if len(sys.argv) > 1 else "libnvrtc.so.13")
    lines = [", ".join(f"0x{byte:02x}" for byte in image[i:i + BYTES_OF_LINE]) + ","
             for i in range(0, len(image), BYTES_OF_LINE)]
    HEADER.parent.mkdir(exist_ok=True)
    HEADER.write_text("// SPDX-License-Identifier: Apache-2.0\n"
                      "// Written by tools/gen_empty_kernel.py: a kernel sluice_entry for sm_90 that does nothing.\n"
                      "#pragma once\n\nnamespace sluice {\n\n"
                      "alignas(64) inline constexpr unsigned char kEmptyKernel[] = {\n" + "\n".join(lines) +
                      "\n};\n\n}  // namespace sluice\n")


if __name__ == "__main__":
    main()
