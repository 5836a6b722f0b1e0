// SPDX-License-Identifier: Apache-2.0
// The instructions of a kernel inside a cubin, which is an ELF file. Reads sections by the book (System V
// ABI) and trusts no offset: a damaged file gives an Error. Called by the opcode scan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sluice/result.h>
#include <sluice/spec/base.h>

namespace sluice::test {

/// 16 bytes of sm_90a.
struct Instruction {
  u64 low = 0;
  u64 high = 0;
  bool operator==(const Instruction&) const = default;
};

/// Each instruction in section ".text.<kernel>".
Result<std::vector<Instruction>> instructions_of(std::string_view cubin, const std::string& kernel);

}  // namespace sluice::test
