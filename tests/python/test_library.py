# SPDX-License-Identifier: Apache-2.0
"""Python's declarations of the C interface agree with include/sluice/c_api.h, and the binding's structs with
tvm-ffi's."""
import ctypes
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import sluice
from sluice import _library, convolutions, errors, formats, problems

C_TYPES = {"int64_t": ctypes.c_int64, "int32_t": ctypes.c_int32, "const char*": ctypes.c_char_p, "const char *": ctypes.c_char_p,
           "double": ctypes.c_double, "float": ctypes.c_float, "void*": ctypes.c_void_p,
           "sluice_weight_format": _library.WeightFormatStruct, "const int64_t*": ctypes.POINTER(ctypes.c_int64),
           "const sluice_array*": ctypes.POINTER(_library.ArrayStruct), "uint64_t": ctypes.c_uint64,
           "sluice_conv": _library.ConvStruct, "sluice_matrix": _library.MatrixStruct, "sluice_problem": _library.ProblemStruct,
           "const sluice_workspace*": ctypes.c_void_p, "const void*": ctypes.c_void_p,
           "const sluice_range*": ctypes.POINTER(_library.RangeStruct)}
MIRRORS = {"sluice_problem": _library.ProblemStruct, "sluice_array": _library.ArrayStruct, "sluice_call": _library.CallStruct,
           "sluice_options": _library.OptionsStruct, "sluice_compiled": _library.CompiledStruct,
           "sluice_holdings": _library.HoldingsStruct, "sluice_weight_format": _library.WeightFormatStruct,
           "sluice_packed_numbers": _library.PackedNumbersStruct, "sluice_conv": _library.ConvStruct,
           "sluice_matrix": _library.MatrixStruct, "sluice_range": _library.RangeStruct, "sluice_gap": _library.GapStruct,
           "sluice_chain_options": _library.ChainOptionsStruct}
COUNTS = {"SLUICE_OPERANDS": len(_library.OPERANDS)}


@pytest.fixture(scope="module")
def header(source_root):
    text = "".join((source_root / f"include/sluice/{name}.h").read_text(encoding="utf-8") for name in ("c_api", "c_rows", "c_experts", "c_chain", "c_training"))
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


@pytest.mark.parametrize("name", MIRRORS)
def test_structs_mirror_the_header(header, name):
    body = re.search(r"typedef struct \{([^{}]*)\} " + name + ";", header)[1]
    fields = []
    for line in filter(None, (part.strip() for part in body.split(";"))):
        kind, star, names = re.match(r"((?:const )?\w+)((?:\* const)?\s*\**)\s*(.*)", line, re.S).groups()
        for one in names.split(","):
            one, _, count = one.strip(" *\n]").partition("[")
            of_one = C_TYPES[kind + star.strip()]
            fields.append((one, of_one * int(COUNTS.get(count, count)) if count else of_one))
    assert fields == MIRRORS[name]._fields_


def test_errors_are_the_statuses_of_the_header(header):
    names = re.search(r"SLUICE_OK = 0,(.*?)\} sluice_status", header, re.S)[1]
    statuses = [name.strip().removeprefix("SLUICE_").lower() for name in names.split(",")]
    assert [error.code for error in errors.BY_STATUS] == statuses


def test_names_are_in_the_order_of_the_header(header):
    assert [n.strip() for n in re.search(r"\{ (SLUICE_BF16.*?) \} sluice_dtype", header)[1].split(",")] == \
        ["SLUICE_" + name.upper() for name in problems.DTYPES]
    activations = re.search(r"SLUICE_NO_ACTIVATION,(.*?),\s*SLUICE_ACTIVATIONS", header, re.S)[1]
    assert tuple(name.strip().removeprefix("SLUICE_").lower() for name in activations.split(",")) == problems.ACTIVATIONS[1:]
    assert [n.strip() for n in re.search(r"\{\s*(SLUICE_NOT_PACKED.*?)\s*\} sluice_weight_type", header, re.S)[1].split(",")] == \
        ["SLUICE_NOT_PACKED", "SLUICE_UINT4", "SLUICE_INT8", "SLUICE_E4M3_WEIGHT", "SLUICE_E2M1_WEIGHT"]
    assert formats.WEIGHT_TYPES == ("uint4", "int8", "e4m3", "e2m1")
    assert re.search(r"SLUICE_ORDER_HALF, SLUICE_ORDER_BYTE", header) and formats.ORDERS == ("half", "byte")
    assert re.search(r"SLUICE_PRODUCT, SLUICE_FPROP, SLUICE_DGRAD, SLUICE_WGRAD", header) and convolutions.CONV_OPS == ("fprop", "dgrad", "wgrad")


def test_every_function_of_the_header_is_in_the_library(header):
    for name in re.findall(r"SLUICE_API [^;]*?\b(sluice_\w+)\(", header):
        assert hasattr(_library.lib, name), name


def test_versions_agree(source_root):
    assert sluice.__version__ == re.search(r'^version = "(.*)"', (source_root / "pyproject.toml").read_text(), re.M)[1]
    assert sluice.__version__ == re.search(r"VERSION ([\d.]+)", (source_root / "CMakeLists.txt").read_text().split("project(")[1])[1]


def test_the_bindings_structs_are_tvm_ffis(source_root, tmp_path):
    libinfo = pytest.importorskip("tvm_ffi.libinfo")
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    test = tmp_path / "abi.cc"
    test.write_text("""
#include <dlpack/dlpack.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <sluice/c_api/tvm_ffi_abi.h>
#include <type_traits>
namespace ours = sluice::c_api::ffi;
#define SAME(x, y) static_assert((x) == (y))
SAME(sizeof(ours::Tensor), sizeof(DLTensor));
SAME(offsetof(ours::Tensor, device_type), offsetof(DLTensor, device));
SAME(offsetof(ours::Tensor, ndim), offsetof(DLTensor, ndim));
SAME(offsetof(ours::Tensor, dtype), offsetof(DLTensor, dtype));
SAME(offsetof(ours::Tensor, shape), offsetof(DLTensor, shape));
SAME(offsetof(ours::Tensor, strides), offsetof(DLTensor, strides));
SAME(offsetof(ours::Tensor, byte_offset), offsetof(DLTensor, byte_offset));
SAME(sizeof(ours::DataType), sizeof(DLDataType));
SAME(ours::kUnsigned, kDLUInt);
SAME(ours::kFloat, kDLFloat);
SAME(ours::kBfloat, kDLBfloat);
SAME(ours::kFloat8E4m3fn, kDLFloat8_e4m3fn);
SAME(ours::kFloat8E5m2, kDLFloat8_e5m2);
SAME(int(ours::kCpu), int(kDLCPU));
SAME(int(ours::kCuda), int(kDLCUDA));
SAME(int(ours::kCudaHost), int(kDLCUDAHost));
SAME(int(ours::kCudaManaged), int(kDLCUDAManaged));
SAME(sizeof(ours::Any), sizeof(TVMFFIAny));
SAME(offsetof(ours::Any, v_int64), offsetof(TVMFFIAny, v_int64));
SAME(int(ours::kNone), int(kTVMFFINone));
SAME(int(ours::kInt), int(kTVMFFIInt));
SAME(int(ours::kBool), int(kTVMFFIBool));
SAME(int(ours::kReal), int(kTVMFFIFloat));
SAME(int(ours::kTensorPointer), int(kTVMFFIDLTensorPtr));
SAME(int(ours::kTensorObject), int(kTVMFFITensor));
SAME(ours::kObjectHeaderBytes, sizeof(TVMFFIObject));
static_assert(std::is_same_v<ours::SetRaised, decltype(&TVMFFIErrorSetRaisedFromCStr)>);
static_assert(std::is_same_v<ours::GetStream, decltype(&TVMFFIEnvGetStream)>);
""")
    folders = [source_root, *map(pathlib.Path, {libinfo.find_include_path(), libinfo.find_dlpack_include_path()})]
    subprocess.run([compiler, "-std=c++20", "-fsyntax-only", *(f"-I{folder}" for folder in folders), str(test)], check=True)


def run_without_torch(code):
    return subprocess.run([sys.executable, "-c", "import sys; sys.modules['torch'] = None\nimport sluice\n" + code], check=False,
                          capture_output=True, text=True)


def test_packed_mm_says_what_it_needs_where_there_is_no_torch():
    found = run_without_torch("sluice.packed_mm")
    assert found.returncode != 0 and "sluice.torch needs PyTorch" in found.stderr and "pip install" in found.stderr
    found = run_without_torch("from sluice import *\nassert 'packed_mm' not in dir() and sluice.pack")
    assert found.returncode == 0, found.stderr
