// SPDX-License-Identifier: Apache-2.0
// The verification kernels: one JIT unit each, with their entries in check/verify.cc.
//   fill_regions   writes every buffer of a problem with its guard zones and padding, or proves them
//   unchanged check_output   computes every output again in fp64 and judges D against it
#pragma once

#include <sluice/kernels/verify_check.cuh>
#include <sluice/kernels/verify_fill.cuh>
