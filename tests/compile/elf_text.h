// SPDX-License-Identifier: Apache-2.0
// Reads the instructions of a kernel from a cubin, which is an ELF file (System V ABI), and the size of its
// parameters. Every offset is checked, so a damaged file gives an Error. Called by the opcode scan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sluice/result.h>
#include <sluice/spec/base.h>

namespace sluice::test {

/// An instruction of sm_90a, 16 bytes.
struct Instruction {
  u64 low = 0;
  u64 high = 0;
  bool operator==(const Instruction&) const = default;
};

/// Returns all instructions of the section ".text.<kernel>".
Result<std::vector<Instruction>> instructions_of(std::string_view cubin, const std::string& kernel);

/// Returns the bytes of constant memory that a launch fills in: the driver's own, then the kernel's
/// parameters.
Result<u64> launch_constant_bytes(std::string_view cubin, const std::string& kernel);

}  // namespace sluice::test
