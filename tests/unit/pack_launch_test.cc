// SPDX-License-Identifier: Apache-2.0
// Launches of a packer on the fake driver: number of kernels and blocks, refusals, no allocation.
#include <sluice/pack.h>

#include "allocation_counter.h"
#include "launch_fixture.h"

namespace sluice {
namespace {

class PackLaunch : public LaunchTest {
 protected:
  static constexpr WeightFormat kFormat{.group = 64, .zero = ScaleZero::per_group};
  static constexpr PackShape kShape{.n = 100, .k = 300};

  Packer made(const WeightFormat& format = kFormat, CodeStorage storage = CodeStorage::byte) {
    const Result<Packer> packer = Packer::create(device(), format, storage);
    EXPECT_TRUE(packer.ok()) << (packer.ok() ? "" : packer.error().message);
    return *packer;
  }
  PackArgs args() {
    return {.codes = driver.memory(1 << 15),
            .scales = driver.memory(1 << 12),
            .zeros = driver.memory(1 << 12),
            .blob = driver.memory(1 << 16)};
  }
  static UnpackArgs back(const PackArgs& args) {
    return {args.blob, const_cast<void*>(args.codes), const_cast<void*>(args.scales),
            const_cast<void*>(args.zeros)};
  }
};

TEST_F(PackLaunch, is_one_kernel_and_allocates_nothing) {
  const Packer packer = made();
  const PackArgs given = args();
  const long before = allocations_of_this_thread();
  const bool packed = packer.pack(kShape, given, nullptr).ok();
  const bool unpacked = packer.unpack(kShape, back(given), nullptr).ok();
  EXPECT_EQ(allocations_of_this_thread(), before);
  EXPECT_TRUE(packed && unpacked);
  EXPECT_EQ(driver.launches(), 2);
}

TEST_F(PackLaunch, nothing_is_nothing_to_do) {
  launched(made().pack({.n = 0, .k = 128}, {}, nullptr), 0);
  launched(made().unpack({.n = 64, .k = 0}, {}, nullptr), 0);
}

TEST_F(PackLaunch, refuses_shapes_and_null_arrays) {
  const Packer packer = made();
  refused(packer.pack({.n = -1, .k = 128}, args(), nullptr), ErrorCode::invalid_size, "n = -1");
  refused(packer.pack({.n = 1, .k = i64{1} << 31}, args(), nullptr), ErrorCode::invalid_size,
          "k = 2147483648");
  refused(packer.pack({.n = i64{1} << 30, .k = i64{1} << 30}, args(), nullptr), ErrorCode::invalid_size,
          "2^31 tiles");
  for (const char* name : {"codes", "scales", "zeros", "blob"}) {
    PackArgs bad = args();
    if (name[0] == 'c') bad.codes = nullptr;
    if (name[0] == 's') bad.scales = nullptr;
    if (name[0] == 'z') bad.zeros = nullptr;
    if (name[0] == 'b') bad.blob = nullptr;
    refused(packer.pack(kShape, bad, nullptr), ErrorCode::invalid_pointer, std::string(name) + " is null");
    refused(packer.unpack(kShape, back(bad), nullptr), ErrorCode::invalid_pointer,
            std::string(name) + " is null");
  }
}

TEST_F(PackLaunch, refuses_what_is_misaligned_or_overlaps) {
  const Packer packer = made();
  PackArgs bad = args();
  bad.blob = shifted(bad.blob, 8);
  refused(packer.pack(kShape, bad, nullptr), ErrorCode::misaligned, "multiple of 16 bytes");
  bad = args();
  bad.zeros = shifted(bad.zeros, 1);
  refused(packer.pack(kShape, bad, nullptr), ErrorCode::misaligned, "zeros");
  bad = args();
  bad.blob = shifted(const_cast<void*>(bad.codes), 29984);  // inside the codes, which have 30000 bytes
  refused(packer.pack(kShape, bad, nullptr), ErrorCode::aliasing, "overlaps codes");
  bad = args();
  bad.scales = shifted(bad.blob, 4096);
  refused(packer.pack(kShape, bad, nullptr), ErrorCode::aliasing, "overlaps scales");
  bad = args();
  bad.zeros = bad.scales;  // allowed, because both are only read
  refused(packer.unpack(kShape, back(bad), nullptr), ErrorCode::aliasing, "scales");
  launched(packer.pack(kShape, bad, nullptr), 1);
}

TEST_F(PackLaunch, follows_memory_of_its_own_device_alone) {
  PackArgs bad = args();
  bad.scales = driver.memory(1 << 20, 0, CU_MEMORYTYPE_HOST);
  refused(made().pack(kShape, bad, nullptr), ErrorCode::invalid_pointer, "scales");
}

TEST_F(PackLaunch, refuses_zeros_that_the_format_does_not_store) {
  const Packer packer = made({.group = 64});
  refused(packer.pack(kShape, args(), nullptr), ErrorCode::invalid_argument, "uint4 means zero 8");
  PackArgs good = args();
  good.zeros = nullptr;
  launched(packer.pack(kShape, good, nullptr), 1);
}

TEST_F(PackLaunch, refuses_formats_that_there_are_not) {
  const Result<Packer> group = Packer::create(device(), {.group = 48});
  ASSERT_FALSE(group.ok());
  EXPECT_EQ(group.error().code, ErrorCode::invalid_config);
  EXPECT_NE(group.error().message.find("group 48"), std::string::npos) << group.error().message;
  const Result<Packer> halves = Packer::create(device(), {.type = WeightType::int8}, CodeStorage::nibble);
  ASSERT_FALSE(halves.ok());
  EXPECT_NE(halves.error().message.find("two a byte"), std::string::npos) << halves.error().message;
}

}  // namespace
}  // namespace sluice
