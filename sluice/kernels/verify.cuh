// SPDX-License-Identifier: Apache-2.0
// The verification kernels: one JIT unit each, entry in check/verify.cc.
//   fill_regions   writes every buffer of a problem with its guard zones and padding; or proves them
//   unchanged check_output   every output again in fp64, and what D holds judged against it
#pragma once

#include <sluice/kernels/verify_check.cuh>
#include <sluice/kernels/verify_fill.cuh>
