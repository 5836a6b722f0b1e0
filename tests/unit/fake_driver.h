// SPDX-License-Identifier: Apache-2.0
// A fake CUDA driver on the host, for tests of sluice/run. It checks arguments against the documented
// limits, records launches, counts live objects, and fails the n-th call on request. "Device memory" is host
// memory, so copies and fills are real; kernels do nothing. Only one can exist at a time, and load_driver()
// returns its functions. A launch allocates nothing in it.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <string>

#include <sluice/gemm.h>
#include <sluice/run/driver/api.h>
#include <sluice/spec/packed.h>
#include <sluice/spec/params.h>
#include <sluice/spec/strip.h>
#include <sluice/spec/wide.h>

namespace sluice {

struct LaunchRecord {
  u32 grid_x = 0, grid_y = 0, block_x = 0, cluster_x = 0, smem_bytes = 0;
  CUstream stream = nullptr;
  bool captured = false;
  bool dependent = false;   // launched so that it may start before the previous launch ends
  GemmParams params;        // dense product
  GroupedParams grouped;    // with groups: `params` and the table
  FactoredParams factored;  // with factors of rows: `params` and those
  NarrowParams narrow;      // packed, few tokens
  WideParams wide;          // packed, many tokens
  StripParams strip;
};

/// A decoded tensor map. The fake driver stores it in the map's 128 bytes, in place of the hardware's
/// encoding.
struct DecodedMap {
  u64 address, inner, outer, batch, row_stride, batch_stride;
  int box_inner, box_outer, box_batch, type, swizzle, l2_promotion, oob_fill, interleave, rank;
  // Set for five dimensions. Then inner, outer and batch are the first three, and their strides those of
  // outer and batch.
  u64 fourth = 0, fifth = 0, third_stride = 0, fourth_stride = 0;
  int box_fourth = 0, box_fifth = 0;
};
DecodedMap decode(const TensorMap& map);

/// Number of handles that were created and not destroyed.
struct Alive {
  int contexts = 0, modules = 0, allocations = 0, streams = 0, events = 0, graphs = 0, executables = 0;
  int user_objects = 0;
  int pushed = 0;  // contexts pushed and not popped, summed over all threads

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
    int uuid = 0x42;  // every byte of the first device's UUID; the next device has the next number
    int sm_count = 132;
    int compute_major = 9;
    int compute_minor = 0;
    i64 memory_bytes = i64{1} << 30;
    int l2_bytes = 50 << 20;
    // 0 means unknown. The memory clock corresponds to 4.5 TB/s sustained, as on an H200.
    int max_sm_khz = 1980000, memory_khz = 3167230, bus_bits = 6144;
    int clusters_of_2 = 66, clusters_of_4 = 30, clusters_of_8 = 15;
    int power_limit_mw = 700000;
    bool has_occupancy = true;  // false: the driver lacks cuOccupancyMaxActiveClusters
    bool has_nvml = true;
  };
  Machine machine;

  // ---- controls for tests ----
  /// Makes one driver call return `code`: the one after `index` further calls (0: the next). A call that
  /// frees something still frees it.
  void fail_call(int index, CUresult code);
  /// Makes every call of this driver function fail.
  void fail_function(const char* name, CUresult code);
  void fail_nothing();
  /// Makes the device's context current for the calling thread, as cudaSetDevice does. -1: none.
  void make_current(int ordinal);
  /// Returns memory that the driver reports as of this kind; 0: memory unknown to the driver. It is aligned
  /// to 256 bytes, followed by an unused gap, and freed with the FakeDriver.
  void* memory(i64 bytes, int ordinal = 0, unsigned kind = CU_MEMORYTYPE_DEVICE);
  /// Makes graphs report ordinary edges in place of programmatic ones, as if the driver had inserted
  /// something between launches.
  void make_edges_full();
  /// Makes overlap gain time: subtracts `milliseconds` from the 0.25 ms between two events for each launch of
  /// the last replay that may start early. At most `most` launches count.
  void make_overlap_gain(float milliseconds, int most = 1 << 20);
  /// Makes graph replays 0.1 ms faster if their first launch requests this much shared memory.
  void make_fast(u32 smem_bytes);
  /// Makes the launches for which `is_wrong` is true overwrite the first 8 bytes of D, at once or at each
  /// replay of their graph.
  void make_wrong(std::function<bool(const LaunchRecord&)> is_wrong);
  /// Makes measured times vary by up to this fraction, at random with this seed.
  void make_noise(double share, u64 seed);
  /// Includes launches on `branch` in the graph that is captured from `origin`, until that capture ends.
  void fork_capture(CUstream origin, CUstream branch);
  /// Invalidates captures as soon as they begin, as if a forbidden call had been made.
  void lose_captures();
  /// Makes launches on this device block, as they do when the launch queue is full, until unblock() or
  /// kMostBlocked.
  void block_launches(int ordinal);
  /// Makes loading of modules block, as it may while kernels run.
  void block_loads(int ordinal);
  /// Ends the blocking. Returns false if a blocked call had timed out.
  bool unblock();
  /// Number of calls that are blocked now.
  int blocked() const;
  /// Makes an address belong to this device or the host, as if it had been freed and allocated again.
  void give_memory_to(void* memory, int ordinal, unsigned kind);
  /// A stream of another device, owned by the fake.
  CUstream foreign_stream();

  // ---- observations ----
  int calls() const;  // number of calls since the last fail_* call or construction
  const char* last_failed() const;
  int launches() const;
  const LaunchRecord& launch(int index) const;  // the first kKeptLaunches are kept
  Alive alive() const;

  static constexpr int kKeptLaunches = 64;
  static constexpr std::chrono::seconds kMostBlocked{10};
};

/// Opens the fake GPU, by default without a disk cache. Its cubins are made without a compiler.
Result<Device> open_fake_device(const Options& options = {.jobs = 2}, int ordinal = 0);

}  // namespace sluice
