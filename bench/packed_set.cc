// SPDX-License-Identifier: Apache-2.0
// The named set of packed products, apart from the session that times them: parsers need its names alone.
#include "bench/packed_session.h"

namespace sluice::bench {

std::vector<PackedCase> packed_set() {
  constexpr struct {
    i64 n, k;
  } kLayers[] = {{4096, 4096},  {8192, 8192}, {28672, 4096}, {4096, 14336},
                 {8192, 28672}, {7168, 8192}, {1280, 8192},  {8192, 1024}};
  std::vector<PackedCase> cases{{.problem = {.m = 16, .n = 3584, .k = 8192, .weights = {.group = 64}}}};
  for (const int group : {64, 128})
    for (const i64 m : {1, 4, 16, 32, 64})
      for (const auto& [n, k] : kLayers)
        cases.push_back({.problem = {.m = m, .n = n, .k = k, .weights = {.group = group}}});
  for (const int group : {64, 128})
    for (const i64 m : {1, 4, 16, 32, 64, 128})
      for (const auto& [n, k] : kLayers)
        cases.push_back({.problem = {.m = m,
                                     .n = n,
                                     .k = k,
                                     .x = DType::e4m3,
                                     .scale_x = ScaleMode::vector,
                                     .d = DType::bf16,
                                     .weights = {.group = group, .order = FragmentOrder::byte}}});
  return cases;
}

}  // namespace sluice::bench
