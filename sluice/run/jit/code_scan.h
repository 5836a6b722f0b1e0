// SPDX-License-Identifier: Apache-2.0
// Looks for instructions in the machine code of a cubin. Correctness depends on it: a kernel that may start
// before earlier launches have ended must contain the wait for them.
#pragma once

#include <span>

#include <sluice/spec/base.h>

namespace sluice {

/// The low 12 bits of a 16-byte instruction of sm_90. nvdisasm names the two ACQBULK and PREEXIT.
enum class Opcode : u16 { wait_prerequisites = 0x82e, launch_dependents = 0x82d };

/// Returns whether an executable section of the ELF file contains the instruction. False if the bytes are not
/// an ELF file.
bool holds(std::span<const char> cubin, Opcode opcode);

}  // namespace sluice
