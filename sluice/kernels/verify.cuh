// SPDX-License-Identifier: Apache-2.0
// The verification kernels, one JIT unit each, with their entries in check/verify.cc.
//   fill_regions   fills every buffer of a problem, its guard zones and padding, or checks that they are
//   unchanged check_output   computes every output again in fp64 and compares D with it
#pragma once

#include <sluice/kernels/verify_check.cuh>
#include <sluice/kernels/verify_fill.cuh>
