// SPDX-License-Identifier: Apache-2.0
// Looks for instructions in the machine code of a cubin. Safety depends on it: a kernel that may begin before
// earlier launches have ended must contain the wait.
#pragma once

#include <span>

#include <sluice/spec/base.h>

namespace sluice {

/// Low 12 bits of a 16-byte instruction of sm_90 (nvdisasm names them ACQBULK and PREEXIT).
enum class Opcode : u16 { wait_prerequisites = 0x82e, launch_dependents = 0x82d };

/// True if any executable section of the ELF file has the instruction. False for bytes that are no ELF file.
bool holds(std::span<const char> cubin, Opcode opcode);

}  // namespace sluice
