// SPDX-License-Identifier: Apache-2.0
// The simulated CTA finds planted races and misuse, and accepts the same programs without them.
#include <gtest/gtest.h>

#include "cuda_names.h"
//
#include <sluice/device/ptx/async_copy.cuh>
#include <sluice/device/ptx/shared.cuh>

namespace simulated {
namespace {

using namespace sluice::ptx;

/// Runs `kernel` in one CTA. Returns its first fault without the place; "" if there is none.
std::string fault_of(const std::function<void()>& kernel) {
  cta.launch({.threads = 64, .shared_bytes = 4096}, kernel);
  return cta.first_fault.substr(0, cta.first_fault.find(", in thread"));
}
bool is_faulty(const std::function<void()>& kernel) {
  return !fault_of(kernel).empty();
}
unsigned me() {
  return threadIdx.x;
}
u32 slot(unsigned thread) {
  return kSharedBase + 4 * thread;
}
void write() {
  store_shared_u32(slot(me()), me());
}
u32 read(unsigned thread) {
  return load_shared_u32(slot(thread));
}

void expect(unsigned thread) {
  EXPECT_EQ(read(thread), thread);
}

TEST(simulated_cta, orders_threads_by_barriers_alone) {
  EXPECT_FALSE(is_faulty([] { write(), expect(me()); }));
  EXPECT_FALSE(is_faulty([] { write(), __syncwarp(), expect(me() ^ 1); }));
  EXPECT_FALSE(is_faulty([] { write(), __syncthreads(), expect(me() ^ 32); }));
  EXPECT_FALSE(is_faulty([] { read(me() ^ 1), read(me() ^ 32), __syncthreads(), write(); }));
  EXPECT_TRUE(is_faulty([] { write(), read(me() ^ 1); }));
  EXPECT_TRUE(is_faulty([] { write(), __shfl_xor_sync(~0u, 1, 1), read(me() ^ 1); }));
  EXPECT_TRUE(is_faulty([] { write(), __syncwarp(), read(me() ^ 32); }));
  EXPECT_TRUE(is_faulty([] { read(me() ^ 1), __shfl_xor_sync(~0u, 1, 1), write(); }));
  EXPECT_TRUE(is_faulty([] { read(me() ^ 1), read(me() ^ 32), __syncwarp(), write(); }));
}

TEST(simulated_cta, keeps_copies_apart_until_their_groups_are_waited_for) {
  alignas(16) static u32 words[64 * 4];
  for (u32 i = 0; i < 64 * 4; ++i) words[i] = i;
  const std::vector<u8> rights(sizeof words, kRead);
  cta.regions = {{reinterpret_cast<const u8*>(words), &rights, true}};
  const auto copy = [] { copy_4_bytes(slot(me()), &words[me()], 4), commit_copies(); };
  EXPECT_FALSE(is_faulty([&] { copy(), wait_copies<0>(), expect(me()); }));
  EXPECT_FALSE(is_faulty([&] { copy(), wait_copies<0>(), __syncwarp(), expect(me() ^ 1); }));
  EXPECT_FALSE(is_faulty([&] { copy(), copy_async_wait_all(), expect(me()); }));
  EXPECT_FALSE(is_faulty([&] { copy(), commit_copies(), wait_copies<1>(), expect(me()); }));
  EXPECT_EQ(fault_of([&] { copy(), wait_copies<1>(), read(me()), wait_copies<0>(); }),
            "shared memory is accessed before the copy to it is waited for");
  EXPECT_TRUE(is_faulty([&] { copy(), wait_copies<0>(), read(me() ^ 1); }));
  EXPECT_TRUE(is_faulty([&] { copy(), __syncwarp(), wait_copies<0>(), read(me() ^ 1); }));
  EXPECT_TRUE(is_faulty([&] { read(me() ^ 1), copy(), wait_copies<0>(); }));
  EXPECT_EQ(fault_of([&] { copy(), copy(), wait_copies<0>(); }),
            "two copies to the same place are in flight");
  EXPECT_EQ(fault_of([&] { copy(); }), "a thread ends with copies in flight");
  const auto copy_16 = [](u32 offset, u32 bytes) {
    copy_16_bytes(kSharedBase + 16 * me(), reinterpret_cast<const u8*>(&words[me() * 4]) + offset, bytes);
    copy_async_wait_all();
  };
  EXPECT_FALSE(is_faulty([&] {
    copy_16(0, 6);
    for (u32 i = 0; i < 4; ++i)
      EXPECT_EQ(load_shared_u32(kSharedBase + 16 * me() + 4 * i), i == 0   ? 4 * me()
                                                                  : i == 1 ? (4 * me() + 1) & 0xffff
                                                                           : 0);
  }));
  EXPECT_EQ(fault_of([&] { copy_16(4, 4); }), "a copy reads at an unaligned address");
  EXPECT_EQ(fault_of([&] { copy_16(1024, 4); }), "global memory is accessed outside of all operands");
  EXPECT_FALSE(is_faulty([&] { copy_16(1024, 0); }));
  cta.regions.clear();
}

TEST(simulated_cta, finds_accesses_outside_and_barriers_that_some_threads_miss) {
  EXPECT_EQ(fault_of([] { load_shared_u32(kSharedBase + 4096); }), "shared memory is accessed outside");
  EXPECT_EQ(fault_of([] { store_shared_v2(kSharedBase + 4, 1.0f, 2.0f); }),
            "shared memory is accessed at an unaligned address");
  EXPECT_EQ(fault_of([] {
              if (me() != 3) __syncwarp();
            }),
            "threads wait for each other for ever");
  EXPECT_EQ(fault_of([] { me() % 2 == 0 ? __syncwarp() : (void)__shfl_sync(~0u, 1, 0); }),
            "threads that meet are at different instructions");
}

}  // namespace
}  // namespace simulated
