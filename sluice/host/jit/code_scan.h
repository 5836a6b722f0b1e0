// SPDX-License-Identifier: Apache-2.0
// Looks into the machine code of a cubin. What is asked is what a launch's safety hangs on: a kernel that may
// begin before earlier launches have ended must hold the wait, whatever its source says.
#pragma once

#include <span>

#include <sluice/spec/base.h>

namespace sluice {

/// Low 12 bits of an instruction of 16 bytes, sm_90 (nvdisasm names them ACQBULK and PREEXIT).
enum class Opcode : u16 { wait_prerequisites = 0x82e, launch_dependents = 0x82d };

/// Whether any executable section of the ELF file holds the instruction. Of what is no such file: no.
bool holds(std::span<const char> cubin, Opcode opcode);

}  // namespace sluice
