// SPDX-License-Identifier: Apache-2.0
// Idle windows in a chain of layers: a foreign step that occupies a few SMs for some microseconds and leaves
// HBM alone, in the place of attention or an all-reduce. What may be read in it is what a hand-off can hide.
// Used by chain/session.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sluice/host/driver/module.h>

#include "bench/chain/layers.h"
#include "bench/lab.h"

namespace sluice::bench {

struct WindowSpec {
  double us = 0;                   // 0: no window
  int ctas = 1;                    // that idle
  std::string before = "gate_up";  // the product behind it; "all": every one
  bool overlapped = false;         // it triggers at its start
  i64 hand_off_bytes = 0;          // of that product, by the step before the window
  i64 prefetch_bytes = 0;          // of that product, by itself
};

/// Does nothing for a while, by the GPU's clock.
class Idler {
 public:
  static Result<Idler> create(const Lab& lab);
  static const char* unit_text();
  Result<void> enqueue(const WindowSpec& window, Stream stream) const;

 private:
  Idler(const Device& device, std::shared_ptr<const Module> module)
      : device_(device), module_(std::move(module)) {}
  Device device_;
  std::shared_ptr<const Module> module_;
};

/// Windows put into all layers. Without an idler they launch nothing, which is enough for plans.
void add_windows(const WindowSpec& window, const Idler* idler, std::vector<ChainStep>& steps);

/// What windows let a layer hide at most: of each the time, or that of the bytes that fit into 0.4 of L2.
double allowed_us(const WindowSpec& window, const LayerSpec& spec, const DeviceInfo& device);

}  // namespace sluice::bench
