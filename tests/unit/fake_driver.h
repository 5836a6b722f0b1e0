// SPDX-License-Identifier: Apache-2.0
// A CUDA driver of plain host code, for tests of the host room: it checks what it is given against the
// documented limits, records launches, counts what is alive, and fails the n-th call on demand. "Device
// memory" is host memory, so copies and fills are real; kernels do nothing.
// One lives at a time; while it does, load_driver() gives its table. Calls allocate nothing in a launch.
#pragma once

#include <array>
#include <chrono>
#include <string>

#include <sluice/gemm.h>
#include <sluice/host/driver/api.h>
#include <sluice/spec/packed.h>
#include <sluice/spec/params.h>
#include <sluice/spec/strip.h>
#include <sluice/spec/wide.h>

namespace sluice {

struct LaunchRecord {
  u32 grid_x = 0, grid_y = 0, block_x = 0, cluster_x = 0, smem_bytes = 0;
  CUstream stream = nullptr;
  bool captured = false;
  bool dependent = false;  // may start before the launch before it ends
  GemmParams params;       // of a dense product
  NarrowParams narrow;     // of a packed one for few tokens
  WideParams wide;         // for many
  StripParams strip;
};

/// What the fake writes into a tensor map's 128 bytes instead of the hardware's encoding.
struct DecodedMap {
  u64 address, inner, outer, batch, row_stride, batch_stride;
  int box_inner, box_outer, box_batch, type, swizzle, l2_promotion, oob_fill, interleave, rank;
  // Of five dimensions: inner, outer and batch above are the first three of them, and the strides those of
  // outer and batch.
  u64 fourth = 0, fifth = 0, third_stride = 0, fourth_stride = 0;
  int box_fourth = 0, box_fifth = 0;
};
DecodedMap decode(const TensorMap& map);

/// Handles that were given out and not given back.
struct Alive {
  int contexts = 0, modules = 0, allocations = 0, streams = 0, events = 0, graphs = 0, executables = 0;
  int user_objects = 0;
  int pushed = 0;  // contexts pushed and not popped, over all threads

  bool operator==(const Alive&) const = default;
};

class FakeDriver {
 public:
  FakeDriver();
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  // ---- the machine, to be set before Device::open ----
  struct Machine {
    const char* name = "Fake H200";
    int device_count = 2;
    int driver_version = 13000;  // CUDA 13.0
    int sm_count = 132;
    int compute_major = 9;
    int compute_minor = 0;
    i64 memory_bytes = i64{1} << 30;
    int l2_bytes = 50 << 20;
    // 0: no answer. The clock of memory is such that 4.5 TB/s are sustained, as on an H200.
    int max_sm_khz = 1980000, memory_khz = 3167230, bus_bits = 6144;
    int clusters_of_2 = 66, clusters_of_4 = 30, clusters_of_8 = 15;
    int power_limit_mw = 700000;
    bool has_occupancy = true;  // false: a driver without cuOccupancyMaxActiveClusters
    bool has_nvml = true;
  };
  Machine machine;

  // ---- what a test does to it ----
  /// The `index`-th call from now on (0: the next) returns `code`. Calls that give back do so all the same.
  void fail_call(int index, CUresult code);
  /// Every call of this function fails.
  void fail_function(const char* name, CUresult code);
  void fail_nothing();
  /// What cudaSetDevice does to the calling thread; -1: no context is current.
  void make_current(int ordinal);
  /// Memory that the driver knows, or (kind 0) does not. Aligned to 256, with a gap behind it. Freed with the
  /// FakeDriver.
  void* memory(i64 bytes, int ordinal = 0, unsigned kind = CU_MEMORYTYPE_DEVICE);
  /// Graphs tell of no programmatic edge, as if something had come between the launches.
  void make_edges_full();
  /// Two events are 0.25 ms apart, less so much for each launch of the last replay that may begin early, of
  /// `most` such launches at most.
  void make_overlap_gain(float milliseconds, int most = 1 << 20);
  /// From now on `branch` is captured into the graph that `origin` is captured into, until that capture ends.
  void fork_capture(CUstream origin, CUstream branch);
  /// Captures are lost as soon as they have begun, as after a call that a capture forbids.
  void lose_captures();
  /// Launches on this device block, as on a full queue, until unblock(), or for kMostBlocked at most.
  void block_launches(int ordinal);
  /// The same of loading modules, which may wait for what runs.
  void block_loads(int ordinal);
  /// False: a call was blocked for so long that it gave up, and went on.
  bool unblock();
  /// Calls that are blocked now.
  int blocked() const;
  /// The same address belongs to this device, or to the host, from now on: freed and allocated again.
  void give_memory_to(void* memory, int ordinal, unsigned kind);
  /// A stream of another device; do not destroy it.
  CUstream foreign_stream();

  // ---- what happened ----
  int calls() const;  // since the last fail_* call or construction
  const char* last_failed() const;
  int launches() const;
  const LaunchRecord& launch(int index) const;  // the first kKeptLaunches of them
  Alive alive() const;

  static constexpr int kKeptLaunches = 64;
  static constexpr std::chrono::seconds kMostBlocked{10};
};

/// Options without a disk cache, and a device whose cubins come from no compiler.
Result<Device> open_fake_device(const Options& options = {.jobs = 2}, int ordinal = 0);

}  // namespace sluice
