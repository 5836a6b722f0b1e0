// SPDX-License-Identifier: Apache-2.0
// A CUDA driver of plain host code for tests of the host room. It checks arguments against the documented
// limits, records launches, counts live objects, and fails the n-th call on demand. "Device memory" is host
// memory, so copies and fills are real; kernels do nothing. One exists at a time, and load_driver() gives its
// table. A launch allocates nothing in it.
#pragma once

#include <array>
#include <chrono>
#include <functional>
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
  bool dependent = false;  // may start before the previous launch ends
  GemmParams params;       // dense product
  NarrowParams narrow;     // packed, few tokens
  WideParams wide;         // packed, many tokens
  StripParams strip;
};

/// The fake's contents of a tensor map's 128 bytes, in place of the hardware's encoding.
struct DecodedMap {
  u64 address, inner, outer, batch, row_stride, batch_stride;
  int box_inner, box_outer, box_batch, type, swizzle, l2_promotion, oob_fill, interleave, rank;
  // For five dimensions: inner, outer and batch above are the first three, with the strides of outer and
  // batch.
  u64 fourth = 0, fifth = 0, third_stride = 0, fourth_stride = 0;
  int box_fourth = 0, box_fifth = 0;
};
DecodedMap decode(const TensorMap& map);

/// Handles that were created and not destroyed.
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

  // ---- the machine, set before Device::open ----
  struct Machine {
    const char* name = "Fake H200";
    int device_count = 2;
    int driver_version = 13000;  // CUDA 13.0
    const char* driver = "580.1";
    int uuid = 0x42;  // each byte of the first device's; the next counts on
    int sm_count = 132;
    int compute_major = 9;
    int compute_minor = 0;
    i64 memory_bytes = i64{1} << 30;
    int l2_bytes = 50 << 20;
    // 0: unknown. The memory clock gives 4.5 TB/s sustained, as on an H200.
    int max_sm_khz = 1980000, memory_khz = 3167230, bus_bits = 6144;
    int clusters_of_2 = 66, clusters_of_4 = 30, clusters_of_8 = 15;
    int power_limit_mw = 700000;
    bool has_occupancy = true;  // false: a driver without cuOccupancyMaxActiveClusters
    bool has_nvml = true;
  };
  Machine machine;

  // ---- controls for tests ----
  /// Makes the `index`-th call from now on (0: the next) return `code`. Calls that free something still free
  /// it.
  void fail_call(int index, CUresult code);
  /// Makes every call of this function fail.
  void fail_function(const char* name, CUresult code);
  void fail_nothing();
  /// Sets the calling thread's current context, as cudaSetDevice does; -1: none.
  void make_current(int ordinal);
  /// Memory that the driver knows, or with kind 0 does not. Aligned to 256, followed by a gap, freed with the
  /// FakeDriver.
  void* memory(i64 bytes, int ordinal = 0, unsigned kind = CU_MEMORYTYPE_DEVICE);
  /// Reports full edges in graphs, as if something came between the launches.
  void make_edges_full();
  /// Shortens the 0.25 ms between two events by `milliseconds` for each launch of the last replay that may
  /// begin early, up to `most` launches.
  void make_overlap_gain(float milliseconds, int most = 1 << 20);
  /// Replays whose first launch asks for this much shared memory take 0.1 ms less.
  void make_fast(u32 smem_bytes);
  /// Makes launches that `is_wrong` picks spoil the first 8 bytes of D, now or at each replay of their graph.
  void make_wrong(std::function<bool(const LaunchRecord&)> is_wrong);
  /// Makes times differ by up to this share, in a random order that `seed` decides.
  void make_noise(double share, u64 seed);
  /// Captures `branch` into `origin`'s graph from now on, until that capture ends.
  void fork_capture(CUstream origin, CUstream branch);
  /// Invalidates captures as soon as they begin, as after a forbidden call.
  void lose_captures();
  /// Blocks launches on this device, as a full queue does, until unblock(), at most for kMostBlocked.
  void block_launches(int ordinal);
  /// Blocks loading of modules, which may wait for running work.
  void block_loads(int ordinal);
  /// Returns false if a blocked call timed out and went on.
  bool unblock();
  /// Number of blocked calls.
  int blocked() const;
  /// Gives an address to this device or the host, as if freed and allocated again.
  void give_memory_to(void* memory, int ordinal, unsigned kind);
  /// A stream of another device; do not destroy it.
  CUstream foreign_stream();

  // ---- observations ----
  int calls() const;  // since the last fail_* call or construction
  const char* last_failed() const;
  int launches() const;
  const LaunchRecord& launch(int index) const;  // the first kKeptLaunches
  Alive alive() const;

  static constexpr int kKeptLaunches = 64;
  static constexpr std::chrono::seconds kMostBlocked{10};
};

/// Options without a disk cache; cubins of the device come from no compiler.
Result<Device> open_fake_device(const Options& options = {.jobs = 2}, int ordinal = 0);

}  // namespace sluice
