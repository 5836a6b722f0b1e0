// SPDX-License-Identifier: Apache-2.0
// A CTA of a GPU under g++: threads, barriers, shared memory, copies in flight, and rights to global memory.
// The headers in tests/simulated/sluice replace those with PTX, and do their work here. Include
// cuda_names.h before the kernels. tests/unit/simulated_grid.h cannot serve: it has no blockIdx.y, 256
// threads and no memory, and takes a system call per switch, where a tile here takes thousands of switches.
//
// A barrier orders accesses, and nothing else does. Each word of shared memory knows who read and wrote it,
// and how many barriers of the warp and of the CTA those threads had passed. An access that no barrier orders
// behind an earlier one of another thread is a fault, whatever the order in which threads happen to run.
// Faults are counted, and the first is told; they never stop a launch.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <sluice/spec/base.h>

namespace simulated {

using sluice::i64;
using sluice::u16;
using sluice::u32;
using sluice::u64;
using sluice::u8;

inline constexpr int kLanes = 32, kMostThreads = 512, kNobody = -1;
inline constexpr std::size_t kStackBytes = std::size_t{128} << 10;
inline constexpr u32 kSharedBase = 1024, kMostShared = 227 << 10, kWordBytes = 4;
inline constexpr u8 kPoison = 0xff;  // NaN in every type
inline constexpr u8 kRead = 1, kWrite = 2;

/// A bug to plant in the simulated GPU. The kernel is as if it had the bug.
enum class Bug {
  none,
  late_wait,         // one more group of copies may be in flight behind a wait
  no_warp_sync,      // __syncwarp does nothing
  no_block_sync,     // __syncthreads does nothing
  wrong_piece,       // ldmatrix reads the piece beside the one of odd rows
  swapped_matrices,  // ldmatrix: the second and the third change places
  swapped_halves,    // mma takes rows 8 to 15 of the first operand for k from 8 on
  whole_copies,      // copies read and write all of their bytes
  no_zeros,          // copies leave what they do not read
  no_launch_wait,    // the wait for earlier launches returns at once
  repeated_fp8,      // the second pair of fp8 is the first
};

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
inline Index thread_index, block_index, block_size, grid_size;

/// A step that threads of a warp or of a CTA do together: all must come to the same one.
enum class Step { none, warp_sync, block_sync, load_matrices, multiply, shuffle };

/// A place where threads wait for each other.
struct Meeting {
  int arrived = 0;
  u32 passed = 0;
  Step step = Step::none;
};
/// A copy from global to shared memory. `group`: groups that its thread had made before.
struct Copy {
  u32 to, size, bytes;
  const u8* from;
  u64 group;
  bool landed;
};
/// The last accesses to a word, by threads that no barrier has ordered.
struct Access {
  int thread = kNobody;
  bool several_lanes = false, several_warps = false;
  u32 block_turn = 0, warp_turn = 0;
};
struct Word {
  Access read, written;
  bool in_flight = false;  // a copy to it has been issued and not waited for
};
struct Thread {
  int index = 0;
  ucontext_t start;
  jmp_buf place;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  bool started = false, done = false, waited = false;  // waited: for earlier launches
  const Meeting* meeting = nullptr;
  u32 passed = 0;  // meetings there when it arrived
  u32 block_turn = 0, warp_turn = 0;
  std::vector<Copy> copies;
  u64 groups = 0;
};
/// The operands and results of a step of a warp.
struct Lanes {
  u32 in[kLanes][10], out[kLanes][4];
};
/// Bytes of global memory; each has rights. `early`: no earlier launch writes them.
struct Region {
  const u8* begin;
  const std::vector<u8>* rights;
  bool early;
};
struct LaunchShape {
  unsigned grid_x = 1, grid_y = 1, threads = 32;
  u32 shared_bytes = 0;
  bool overlaps = false;  // threads wait for earlier launches before they read or write what is not early
};

class Cta {
 public:
  Bug bug = Bug::none;
  std::vector<Region> regions;
  std::minstd_rand dice{1};
  int faults = 0;
  std::string first_fault;
  int triggers = 0, prefetches = 0;  // launch_dependents, and pieces prefetched to L2

  void launch(const LaunchShape& shape, const std::function<void()>& kernel);
  void fault(const std::string& what);
  Thread& me() { return threads_[thread_index.x]; }

  // ---- steps of several threads; `work` is done once, by the last to come ----
  template <class Work>
  void meet_block(const Work& work) {
    meet(all_, static_cast<int>(block_size.x), Step::block_sync, work);
  }
  template <class Work>
  void meet_warp(Step step, const Work& work) {
    meet(warps_[thread_index.x / kLanes], kLanes, step, work);
  }
  void sync_block() {
    if (bug == Bug::no_block_sync) return;
    meet_block([] {});
    ++me().block_turn;
  }
  void sync_warp() {
    if (bug == Bug::no_warp_sync) return;
    meet_warp(Step::warp_sync, [] {});
    ++me().warp_turn;
  }
  Lanes& lanes() { return lanes_[thread_index.x / kLanes]; }
  Thread& thread_of_lane(int lane) { return threads_[thread_index.x / kLanes * kLanes + lane]; }

  // ---- shared memory ----
  template <class T>
  T load_shared(u32 address) {
    return load_shared<T>(address, me());
  }
  template <class T>
  T load_shared(u32 address, const Thread& by) {
    T value;
    std::memset(&value, kPoison, sizeof value);
    if (!check_shared(address, sizeof value)) return value;
    note(address, sizeof value, by, false);
    std::memcpy(&value, &shared_[address - kSharedBase], sizeof value);
    return value;
  }
  template <class T>
  void store_shared(u32 address, const T& value) {
    if (!check_shared(address, sizeof value)) return;
    note(address, sizeof value, me(), true);
    std::memcpy(&shared_[address - kSharedBase], &value, sizeof value);
  }

  // ---- copies ----
  void copy(u32 to, const void* from, u32 size, u32 bytes);
  void commit() { ++me().groups; }
  /// Waits until at most `pending` groups are in flight.
  void wait_copies(u64 pending);
  void wait_all_copies() { land(~u64{0}); }

  // ---- global memory ----
  template <class T>
  T load_global(const void* address) {
    T value;
    std::memset(&value, kPoison, sizeof value);
    if (check_global(address, sizeof value, alignof(T), kRead)) std::memcpy(&value, address, sizeof value);
    return value;
  }
  template <class T>
  void store_global(void* address, const T& value) {
    if (check_global(address, sizeof value, alignof(T), kWrite)) std::memcpy(address, &value, sizeof value);
  }
  bool check_global(const void* address, u32 bytes, u32 aligned, u8 right);

 private:
  template <class Work>
  void meet(Meeting& meeting, int count, Step step, const Work& work) {
    if (meeting.arrived == 0) meeting.step = step;
    if (meeting.step != step) fault("threads that meet are at different instructions");
    if (++meeting.arrived == count) {
      work();
      meeting.arrived = 0;
      ++meeting.passed;
      return;
    }
    me().meeting = &meeting;
    me().passed = meeting.passed;
    rest();
  }
  static void run_thread();
  void run_block(const LaunchShape& shape);
  bool run_warp(unsigned warp);
  void resume(Thread& thread);
  void rest();
  bool check_shared(u32 address, u32 bytes);
  void note(u32 address, u32 bytes, const Thread& by, bool writes);
  static bool precedes(const Access& access, const Thread& thread);
  static void add(Access& access, const Thread& thread);
  void land(u64 groups);
  void put(Copy& copy);

  std::vector<Thread> threads_ = std::vector<Thread>(kMostThreads);
  Meeting all_, warps_[kMostThreads / kLanes];
  Lanes lanes_[kMostThreads / kLanes];
  std::vector<u8> shared_;
  std::vector<Word> words_;
  const std::function<void()>* kernel_ = nullptr;
  bool overlaps_ = false;
  ucontext_t scheduler_;
  jmp_buf scheduler_place_;
};
inline Cta cta;

inline void Cta::fault(const std::string& what) {
  if (faults++ == 0)
    first_fault = what + ", in thread " + std::to_string(thread_index.x) + " of CTA " +
                  std::to_string(block_index.x) + ", " + std::to_string(block_index.y);
}

// ---- threads ----

inline void Cta::run_thread() {
  (*cta.kernel_)();
  Thread& thread = cta.me();
  for (const Copy& copy : thread.copies)
    if (copy.size != 0) cta.fault("a thread ends with copies in flight");
  if (cta.overlaps_ && !thread.waited) cta.fault("a thread ends without a wait for earlier launches");
  thread.done = true;
  cta.rest();
}
// longjmp takes no system call, unlike swapcontext; but the address sanitizer follows only the latter.
inline __attribute__((noinline)) void Cta::resume(Thread& thread) {
#ifdef __SANITIZE_ADDRESS__
  swapcontext(&scheduler_, &thread.start);
#else
  if (_setjmp(scheduler_place_) != 0) return;
  if (thread.started) _longjmp(thread.place, 1);
  thread.started = true;
  setcontext(&thread.start);
#endif
}
inline __attribute__((noinline)) void Cta::rest() {
#ifdef __SANITIZE_ADDRESS__
  swapcontext(&me().start, &scheduler_);
#else
  if (_setjmp(me().place) == 0) _longjmp(scheduler_place_, 1);
#endif
}
/// Runs the threads of a warp that need not wait, in a random order, until each waits. Returns whether any
/// ran.
inline bool Cta::run_warp(unsigned warp) {
  const unsigned first = dice() % kLanes, step = dice() % kLanes | 1;
  bool ran = false;
  for (unsigned i = 0; i < kLanes; ++i) {
    Thread& thread = threads_[warp * kLanes + (first + i * step) % kLanes];
    if (thread.done) continue;
    if (thread.meeting != nullptr && thread.meeting->passed == thread.passed) continue;
    thread.meeting = nullptr;
    thread_index.x = static_cast<unsigned>(thread.index);
    resume(thread);
    ran = true;
  }
  return ran;
}
inline void Cta::run_block(const LaunchShape& shape) {
  shared_.assign(shape.shared_bytes, kPoison);
  words_.assign(shape.shared_bytes / kWordBytes + 1, Word{});
  all_ = Meeting{};
  for (Meeting& warp : warps_) warp = Meeting{};
  const unsigned warps = shape.threads / kLanes;
  for (unsigned i = 0; i < shape.threads; ++i) {
    Thread& thread = threads_[i];
    thread.index = static_cast<int>(i);
    thread.started = thread.done = thread.waited = false;
    thread.meeting = nullptr;
    thread.block_turn = thread.warp_turn = 0;
    thread.copies.clear();
    thread.groups = 0;
    getcontext(&thread.start);
    thread.start.uc_stack.ss_sp = thread.stack.get();
    thread.start.uc_stack.ss_size = kStackBytes;
    thread.start.uc_link = nullptr;
    makecontext(&thread.start, run_thread, 0);
  }
  const auto all_done = [&] {
    for (unsigned i = 0; i < shape.threads; ++i)
      if (!threads_[i].done) return false;
    return true;
  };
  for (bool asked_all = false; !all_done();) {
    // Most warps rest at a time, so that some get far ahead of others.
    bool ran = false;
    for (unsigned i = 0; i < warps; ++i)
      if (asked_all || dice() % 4 == 0) ran = run_warp((block_index.x + i) % warps) || ran;
    if (!ran && asked_all) return fault("threads wait for each other for ever");
    asked_all = !ran;
  }
}
inline void Cta::launch(const LaunchShape& shape, const std::function<void()>& kernel) {
  kernel_ = &kernel;
  overlaps_ = shape.overlaps;
  faults = triggers = prefetches = 0;
  first_fault.clear();
  grid_size = {shape.grid_x, shape.grid_y, 1};
  block_size = {shape.threads, 1, 1};
  for (block_index.y = 0; block_index.y < shape.grid_y; ++block_index.y)
    for (block_index.x = 0; block_index.x < shape.grid_x; ++block_index.x) run_block(shape);
}

// ---- shared memory ----

inline bool Cta::check_shared(u32 address, u32 bytes) {
  if (address % bytes != 0) return fault("shared memory is accessed at an unaligned address"), false;
  const bool inside = address >= kSharedBase && address - kSharedBase + bytes <= shared_.size();
  if (!inside) fault("shared memory is accessed outside");
  return inside;
}
/// True if a barrier, or the program of one thread, orders the access before what the thread does now.
inline bool Cta::precedes(const Access& access, const Thread& thread) {
  if (access.thread == kNobody || access.block_turn < thread.block_turn) return true;
  if (access.several_warps || access.thread / kLanes != thread.index / kLanes) return false;
  return access.warp_turn < thread.warp_turn || (!access.several_lanes && access.thread == thread.index);
}
inline void Cta::add(Access& access, const Thread& thread) {
  if (precedes(access, thread)) {
    access = {thread.index, false, false, thread.block_turn, thread.warp_turn};
  } else if (access.thread / kLanes != thread.index / kLanes) {
    access.several_warps = true;
  } else {
    access.several_lanes = true;
  }
}
inline void Cta::note(u32 address, u32 bytes, const Thread& by, bool writes) {
  for (u32 at = address - kSharedBase; at < address - kSharedBase + bytes; at += kWordBytes) {
    Word& word = words_[at / kWordBytes];
    if (word.in_flight) fault("shared memory is accessed before the copy to it is waited for");
    if (!precedes(word.written, by)) fault("no barrier is between a write of shared memory and an access");
    if (writes && !precedes(word.read, by))
      fault("no barrier is between a read of shared memory and a write");
    add(writes ? word.written : word.read, by);
  }
}

// ---- copies ----

/// Moves the copy's data. Global memory is read now, and so is whatever else lies there by now.
inline void Cta::put(Copy& copy) {
  copy.landed = true;
  u8* to = &shared_[copy.to - kSharedBase];
  if (copy.bytes != 0) std::memcpy(to, copy.from, copy.bytes);
  if (bug != Bug::no_zeros) std::memset(to + copy.bytes, 0, copy.size - copy.bytes);
}
inline void Cta::copy(u32 to, const void* from, u32 size, u32 bytes) {
  if (bytes > size) fault("a copy reads more than it writes");
  if (bug == Bug::whole_copies) bytes = size;
  if (reinterpret_cast<u64>(from) % size != 0) fault("a copy reads at an unaligned address");
  if (!check_shared(to, size)) return;
  if (bytes != 0 && !check_global(from, bytes, 1, kRead)) bytes = 0;
  Thread& thread = me();
  for (u32 at = to - kSharedBase; at < to - kSharedBase + size; at += kWordBytes) {
    Word& word = words_[at / kWordBytes];
    if (word.in_flight) fault("two copies to the same place are in flight");
    if (!precedes(word.written, thread) || !precedes(word.read, thread))
      fault("no barrier is between an access to shared memory and the copy that overwrites it");
    word.in_flight = true;
  }
  Copy copy{to, size, bytes, static_cast<const u8*>(from), thread.groups, false};
  if (dice() % 2 == 0)
    put(copy);  // copies land at any time: this one at once, others when they are waited for
  thread.copies.push_back(copy);
}
/// Completes the thread's copies of its first `groups` groups.
inline void Cta::land(u64 groups) {
  Thread& thread = me();
  std::size_t done = 0;
  for (; done < thread.copies.size() && thread.copies[done].group < groups; ++done) {
    Copy& copy = thread.copies[done];
    if (!copy.landed) put(copy);
    for (u32 at = copy.to - kSharedBase; at < copy.to - kSharedBase + copy.size; at += kWordBytes) {
      words_[at / kWordBytes].in_flight = false;
      add(words_[at / kWordBytes].written, thread);
    }
  }
  thread.copies.erase(thread.copies.begin(), thread.copies.begin() + static_cast<std::ptrdiff_t>(done));
}
inline void Cta::wait_copies(u64 pending) {
  if (bug == Bug::late_wait) ++pending;
  const u64 groups = me().groups;
  land(groups > pending ? groups - pending : 0);
}

// ---- global memory ----

inline bool Cta::check_global(const void* address, u32 bytes, u32 aligned, u8 right) {
  if (reinterpret_cast<u64>(address) % aligned != 0)
    return fault("global memory is accessed at an unaligned address"), false;
  for (const Region& region : regions) {
    const u64 offset = reinterpret_cast<u64>(address) - reinterpret_cast<u64>(region.begin);
    if (offset >= region.rights->size() || offset + bytes > region.rights->size()) continue;
    for (u32 i = 0; i < bytes; ++i)
      if (((*region.rights)[offset + i] & right) == 0)
        return fault(right == kRead ? "global memory is read where it must not be"
                                    : "global memory is written where it must not be"),
               false;
    if (overlaps_ && !region.early && !me().waited)
      fault("data of an earlier launch is accessed before the wait");
    return true;
  }
  return fault("global memory is accessed outside of all operands"), false;
}

}  // namespace simulated
