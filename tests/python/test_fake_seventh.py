# SPDX-License-Identifier: Apache-2.0
"""An operation that the library does not know (tests/seventh/scale.h), called from Python on the fake GPU."""
import pytest

from fake_gpu import OnGpu, launches_of, on_gpu, tvm_ffi
from sluice import _binding as f
from sluice import errors

scale = f._module["scale"]


def test_an_operation_of_one_file_is_called_from_python():
    x, y = on_gpu("fp32", (4096,)), on_gpu("fp32", (4096,))
    assert launches_of(lambda: scale(f.INPUT, x, f.OUTPUT, y, f.ALPHA, 3.0)) == 1


def test_its_operand_table_refuses_what_any_operation_would():
    x = OnGpu("fp32", (4096,))
    with pytest.raises(errors.Aliasing, match="overlaps x"):
        scale(f.INPUT, tvm_ffi.from_dlpack(x), f.OUTPUT, on_gpu("fp32", (4096,), data=x.data + 4))
    with pytest.raises(errors.InvalidType, match="must be fp32"):
        scale(f.INPUT, on_gpu("bf16", (4096,)), f.OUTPUT, tvm_ffi.from_dlpack(x))
