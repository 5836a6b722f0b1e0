// SPDX-License-Identifier: Apache-2.0
// State of the fake driver, which its two files of functions share. State::mutex guards it, and every Call
// holds that mutex. Each thread has its own stack of contexts, as in the real driver.
#pragma once

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <sluice/run/driver/nvml.h>

#include "fake_driver.h"
#include "fake_image.h"

namespace sluice::fake {

struct Block {
  i64 bytes;
  int ordinal;
  unsigned kind;
};
struct FakeUserObject {
  void* pointer;
  CUhostFn destroy;
  unsigned references;
};
/// A node of a graph and the edge from the previous one. Its address is its handle.
struct FakeNode {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
  CUfunction function = nullptr;
  bool programmatic = false;  // it was launched so that it may start early
};
/// A capture or the graph made of it: a sequence of nodes.
struct FakeGraph {
  std::vector<FakeNode> nodes;
  std::vector<FakeUserObject*> objects{};
  u32 first_smem = 0;               // shared memory of its first launch
  std::vector<u64> wrong_writes{};  // results that a replay overwrites (FakeDriver::make_wrong)
  // Mode and thread of the capture, and whether a forbidden call has invalidated it.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread{};
  bool lost = false;
};
struct FakeStream {
  int ordinal;
  u64 id;                 // unique, as in CUDA; a handle may be reused
  bool blocking = false;  // created without CU_STREAM_NON_BLOCKING, so it synchronises with the legacy stream
  FakeGraph* captured = nullptr;  // the graph being captured; null if none
  u64 capture_id = 0;
};
/// State of blocked calls. It has a mutex of its own, so that calls on other devices can go on.
struct Blocked {
  std::mutex mutex;
  std::condition_variable changed;
  int ordinal = -1, loads_ordinal = -1;  // devices whose launches and module loads block; -1: none
  int waiting = 0;
  bool gave_up = false;
};
enum class ParamsKind {
  other,
  gemm,
  grouped,
  factored,
  narrow,
  wide,
  strip,
  locate,
  compare
};  // kinds of kernel parameters
struct FakeModule {
  int ordinal;
  ParamsKind params = ParamsKind::other;
  int max_smem = 48 * 1024;
};
inline constexpr u64 kMagic = 0x736c75696365;
inline constexpr int kMaxDevices = 4;

struct State {
  std::mutex mutex;
  FakeDriver* driver = nullptr;
  Alive alive;
  int calls = 0, fail_index = -1, launches = 0, capturing = 0;
  const char* fail_name = nullptr;
  const char* last_failed = "";
  CUresult fail_code = CUDA_SUCCESS;
  std::array<LaunchRecord, FakeDriver::kKeptLaunches> records;
  LaunchRecord latest;  // the newest launch, for make_wrong, when `records` is full
  std::map<u64, Block> blocks;
  std::set<FakeStream*> streams;
  FakeStream foreign{1, 0};
  Blocked block;
  bool loses_captures = false;  // FakeDriver::lose_captures
  bool full_edges = false;      // FakeDriver::make_edges_full
  int early = 0;                // launches of the last replay that may start early
  float gain_ms = 0;            // FakeDriver::make_overlap_gain
  int most_gaining = 0;
  // FakeDriver::make_fast; shared memory of the last replay's first launch.
  u32 fast_smem = ~0u, replayed_smem = 0;
  std::function<bool(const LaunchRecord&)> is_wrong{};  // FakeDriver::make_wrong
  double noise = 0;                                     // FakeDriver::make_noise
  u64 noise_state = 1;
};
inline State* state = nullptr;
inline std::array<int, kMaxDevices> context_tags;
inline thread_local std::array<CUcontext, 16> stack;
inline thread_local int depth = 0;
inline thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
inline thread_local bool destroys_user_object =
    false;  // true inside a user object's callback, which must not call the driver

inline CUcontext context_of(int ordinal) {
  return reinterpret_cast<CUcontext>(&context_tags[ordinal]);
}
inline CUcontext current() {
  return depth == 0 ? nullptr : stack[depth - 1];
}
inline int current_ordinal() {
  return static_cast<int>(reinterpret_cast<int*>(current()) - context_tags.data());
}

/// Counts a driver call and decides whether it fails. Holds the state's lock. `code`: the result to return.
struct Call {
  explicit Call(const char* name) : lock(state->mutex) {
    if (destroys_user_object) std::abort();
    const bool by_name = state->fail_name != nullptr && std::strcmp(state->fail_name, name) == 0;
    if (state->calls++ != state->fail_index && !by_name) return;
    code = state->fail_code;
    state->last_failed = name;
  }
  std::lock_guard<std::mutex> lock;
  CUresult code = CUDA_SUCCESS;
};

/// Writes four 16-bit numbers that no product in these tests gives.
inline void write_wrong(u64 address) {
  std::memset(reinterpret_cast<void*>(address), 0x7b, 8);
}

/// Checks a call that CUDA documents as "potentially unsafe" during a capture. If the modes of this thread
/// and of the captures forbid it, those captures are invalidated. The caller holds the state's lock.
CUresult unsafe_call();
/// Checks a use of `stream`. A use of the legacy stream invalidates captures of blocking streams.
CUresult use_of(CUstream stream);

u64 add_block(i64 bytes, const Block& block);
void fill_contexts(DriverApi& api);
const NvmlApi& fake_nvml();
void fill_kernels(DriverApi& api);
void fill_memory(DriverApi& api);
void fill_streams(DriverApi& api);

}  // namespace sluice::fake
