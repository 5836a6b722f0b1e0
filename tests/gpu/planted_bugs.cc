// SPDX-License-Identifier: Apache-2.0
#include "planted_bugs.h"

#include <map>

namespace sluice::testing {
namespace {

/// Every thread passes its value to its neighbour through shared memory; thread 0 adds the first two up.
struct Body {
  const char* store = "data[thread] = neighbour;";
  const char* exchange =
      "value[thread] = data[thread]; __syncthreads(); int neighbour = value[(thread + 1) % 256];";
};

std::string unit(const Body& body) {
  return std::string(R"(
struct Params { int* data; int* sum; };
extern "C" __global__ void sluice_entry(const __grid_constant__ Params params) {
  __shared__ int value[256];
  const int thread = threadIdx.x;
  int* data = params.data;
  )") + body.exchange +
         "\n  " + body.store + R"(
  if (thread == 0) *params.sum = value[0] + value[1];
}
)";
}

}  // namespace

std::string planted_unit(const std::string& tool) {
  const std::map<std::string, Body> bugs = {
      // far past the end of the allocation: the next 512 bytes may be another one, and then nothing is wrong
      // there
      {"memcheck", {.store = "data[thread + 65536] = neighbour;"}},
      // no barrier between the write and the neighbour's read
      {"racecheck",
       {.exchange = "value[thread] = data[thread]; int neighbour = value[(thread + 37) % 256];"}},
      // the caller leaves data as it was allocated; nothing else is needed
      {"initcheck", {}},
      // half of each warp waits with a mask that it is not in
      {"synccheck",
       {.exchange = "value[thread] = data[thread]; __syncwarp(0x0000ffff); __syncthreads();"
                    " int neighbour = value[(thread + 1) % 256];"}},
      // half of each warp never comes to the block's barrier
      {"divergent",
       {.exchange = "value[thread] = data[thread]; int neighbour = 0;"
                    " if (thread % 2 == 0) { __syncthreads(); neighbour = value[(thread + 1) % 256]; }"}},
  };
  return unit(bugs.at(tool));
}

std::string sound_unit() {
  return unit({});
}

}  // namespace sluice::testing
