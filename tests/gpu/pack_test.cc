// SPDX-License-Identifier: Apache-2.0
// The packing kernels on the GPU. For random formats and sizes the blob equals the reference's byte for byte,
// and unpacking restores the arrays. Arrays are at any address, between guards. This covers loads, bank
// conflicts and the barrier inside a kernel, which the simulated grid lacks. SLUICE_PACK_CASES: number of
// cases. SLUICE_PACK_SEED: seed of the first.
#include <sluice/pack.h>

#include <algorithm>
#include <vector>

#include <sluice/plan/text/pack_units.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/memory.h>

#include "gpu.h"
#include "lab/random/dice.h"
#include "tests/unit/packed_formats.h"

namespace sluice::testing {
namespace {

constexpr int kGuard = 64;
constexpr u8 kPoison = 0xcd;
constexpr int kUnits[] = {1, 1, 2, 16, 32, 128};  // k is a multiple of one of these
constexpr i64 kShifts[] = {0, 0, 0, 1, 8, 16};  // bytes by which the codes' address is off 16-byte alignment
constexpr double kLeastGigabytes = 1200;        // minimum of gigabytes read and written per second

/// Device memory of `bytes`, at `shift` bytes after a guard, with poison before and after it.
class Region {
 public:
  static Result<Region> create(const Device& device, i64 bytes, i64 shift) {
    Result<DeviceBuffer> buffer = DeviceBuffer::allocate(device, bytes + shift + 2 * kGuard);
    if (!buffer) return buffer.error();
    if (Result<void> filled = buffer->fill(kPoison, nullptr); !filled) return filled.error();
    return Region(*std::move(buffer), bytes, kGuard + shift);
  }
  void* data() const { return static_cast<u8*>(buffer_.data()) + first_; }

  Result<void> write(const std::vector<u8>& bytes) const {
    std::vector<u8> whole(static_cast<std::size_t>(bytes_ + first_ + kGuard), kPoison);
    std::copy(bytes.begin(), bytes.end(), whole.begin() + first_);
    return buffer_.upload(whole.data(), static_cast<i64>(whole.size()));
  }
  Result<std::vector<u8>> read() const {
    std::vector<u8> whole(static_cast<std::size_t>(bytes_ + first_ + kGuard));
    if (Result<void> got = buffer_.download(whole.data(), static_cast<i64>(whole.size())); !got)
      return got.error();
    const auto poisoned = [](u8 byte) { return byte == kPoison; };
    EXPECT_TRUE(std::all_of(whole.begin(), whole.begin() + first_, poisoned)) << "written before the array";
    EXPECT_TRUE(std::all_of(whole.end() - kGuard, whole.end(), poisoned)) << "written behind the array";
    return std::vector<u8>(whole.begin() + first_, whole.end() - kGuard);
  }

 private:
  Region(DeviceBuffer buffer, i64 bytes, i64 first)
      : buffer_(std::move(buffer)), bytes_(bytes), first_(first) {}

  DeviceBuffer buffer_;
  i64 bytes_, first_;
};

struct Case {
  WeightFormat format;
  CodeStorage storage = CodeStorage::byte;
  i64 n = 0, k = 0, shift = 0;
};

std::string text_of(const Case& c) {
  return to_string(c.format) + " codes a " + name_of(c.storage) + ", " + std::to_string(c.n) + " x " +
         std::to_string(c.k) + ", shifted by " + std::to_string(c.shift);
}

class pack : public GpuTest {
 protected:
  std::vector<u8> stored(const Case& c, const std::vector<u8>& codes) {
    if (c.storage == CodeStorage::byte) return codes;
    std::vector<u8> rows(static_cast<std::size_t>(c.n * code_row_bytes(c.storage, c.k)));
    for (i64 row = 0; row < c.n; ++row)
      for (i64 k = 0; k < c.k; ++k)
        rows[static_cast<std::size_t>(row * code_row_bytes(c.storage, c.k) + k / 2)] |=
            static_cast<u8>(codes[static_cast<std::size_t>(row * c.k + k)] << (k % 2 * 4));
    return rows;
  }
  Region region(std::size_t bytes, i64 shift = 0) {
    Result<Region> made = Region::create(device(), static_cast<i64>(bytes), shift);
    EXPECT_TRUE(ok(made));
    return *std::move(made);
  }
  void expect_bytes(const Region& got, const std::vector<u8>& wanted, const char* what) {
    const Result<std::vector<u8>> bytes = got.read();
    ASSERT_TRUE(ok(bytes));
    i64 wrong = 0, first = -1;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if ((*bytes)[i] != wanted[i]) first = wrong++ == 0 ? static_cast<i64>(i) : first;
    EXPECT_EQ(wrong, 0) << "bytes of " << what << " of " << wanted.size() << ", the first at " << first;
  }

  void expect_like_reference(const Case& c, u64 seed) {
    SCOPED_TRACE(text_of(c));
    const test::RandomWeights weights(c.format, c.n, c.k, seed);
    const auto wanted = pack_weights(c.format, weights.arrays());
    ASSERT_TRUE(ok(wanted));
    const auto packer = Packer::create(device(), c.format, c.storage);
    ASSERT_TRUE(ok(packer));
    const std::vector<u8> rows = stored(c, weights.codes());
    const Region blob = region(wanted->size()), codes = region(rows.size(), c.shift);
    const Region scales = region(weights.scales().size()), zeros = region(weights.zeros().size());
    ASSERT_TRUE(ok(codes.write(rows)) && ok(scales.write(weights.scales())) &&
                ok(zeros.write(weights.zeros())));
    void* const zeros_or_none = weights.zeros().empty() ? nullptr : zeros.data();
    ASSERT_TRUE(
        ok(packer->pack({c.n, c.k}, {codes.data(), scales.data(), zeros_or_none, blob.data()}, nullptr)));
    ASSERT_TRUE(ok(synchronize(device())));
    expect_bytes(blob, *wanted, "the blob");

    const Region codes_again = region(rows.size(), c.shift);
    const Region scales_again = region(weights.scales().size()), zeros_again = region(weights.zeros().size());
    void* const zeros_target = weights.zeros().empty() ? nullptr : zeros_again.data();
    ASSERT_TRUE(ok(packer->unpack(
        {c.n, c.k}, {blob.data(), codes_again.data(), scales_again.data(), zeros_target}, nullptr)));
    ASSERT_TRUE(ok(synchronize(device())));
    expect_bytes(codes_again, rows, "the codes");
    expect_bytes(scales_again, weights.scales(), "the scales");
    expect_bytes(zeros_again, weights.zeros(), "the zeros");
  }
};

TEST_F(pack, every_format_is_the_references) {
  u64 seed = 1;
  for (const WeightFormat& format : test::all_formats())
    for (const CodeStorage storage : {CodeStorage::byte, CodeStorage::nibble}) {
      if (storage == CodeStorage::nibble && code_bits(format.type) != 4) continue;
      expect_like_reference({format, storage, 200, 480}, seed += 10);
      expect_like_reference({format, storage, 67, 333}, seed += 10);
      if (HasFailure()) return;
    }
}

TEST_F(pack, random_sizes_are_the_references) {
  const i64 cases = setting("SLUICE_PACK_CASES", 200), first = setting("SLUICE_PACK_SEED", 1);
  const std::vector<WeightFormat> formats = test::all_formats();
  for (i64 i = 0; i < cases && !HasFailure(); ++i) {
    Dice dice(static_cast<u64>(first + i));
    Case c{.format = dice.any_of(formats)};
    if (code_bits(c.format.type) == 4 && dice.one_in(2)) c.storage = CodeStorage::nibble;
    const int unit = dice.any_of(kUnits);
    c.n = dice.between(1, dice.one_in(4) ? 2000 : 150);
    c.k = unit * dice.between(1, (dice.one_in(4) ? 6000 : 700) / unit);
    c.shift = dice.any_of(kShifts);
    SCOPED_TRACE("SLUICE_PACK_CASES=1 SLUICE_PACK_SEED=" + std::to_string(first + i));
    expect_like_reference(c, static_cast<u64>(first + i));
  }
}

TEST_F(pack, layers_of_models_are_the_references) {
  for (const auto& [n, k] : {std::pair<i64, i64>{3584, 8192}, {1280, 8192}})
    for (const CodeStorage storage : {CodeStorage::byte, CodeStorage::nibble})
      for (const FragmentOrder order : {FragmentOrder::half, FragmentOrder::byte})
        expect_like_reference({{.group = 64, .order = order}, storage, n, k}, 5);
}

/// The operands exceed L2, so each launch reads HBM.
TEST_F(pack, keeps_up_with_memory) {
  constexpr i64 n = 28672, k = 8192;
  const auto stream = StreamHandle::create(device());
  const auto start = Event::create(device()), end = Event::create(device());
  ASSERT_TRUE(ok(stream) && ok(start) && ok(end));
  for (const CodeStorage storage : {CodeStorage::byte, CodeStorage::nibble})
    for (const FragmentOrder order : {FragmentOrder::half, FragmentOrder::byte}) {
      const WeightFormat format{.group = 64, .order = order};
      const i64 code_bytes = n * code_row_bytes(storage, k), scale_bytes = n * group_count(format, k) * 2;
      const auto codes = DeviceBuffer::allocate(device(), code_bytes);
      const auto scales = DeviceBuffer::allocate(device(), scale_bytes);
      const auto blob = DeviceBuffer::allocate(device(), blob_bytes(format, n, k));
      ASSERT_TRUE(ok(codes) && ok(scales) && ok(blob));
      const auto packer = Packer::create(device(), format, storage);
      ASSERT_TRUE(ok(packer));
      const PackArgs args{.codes = codes->data(), .scales = scales->data(), .blob = blob->data()};
      constexpr int kLaunches = 20;
      for (int i = -3; i < kLaunches; ++i) {
        if (i == 0) {
          ASSERT_TRUE(ok(start->record(stream->get())));
        }
        ASSERT_TRUE(ok(packer->pack({n, k}, args, stream->get())));
      }
      ASSERT_TRUE(ok(end->record(stream->get())));
      ASSERT_TRUE(ok(end->synchronize()));
      const auto us = end->microseconds_since(*start);
      ASSERT_TRUE(ok(us));
      const double moved = static_cast<double>(code_bytes + scale_bytes + blob_bytes(format, n, k));
      const double rate = moved * kLaunches / *us * 1e-3;
      std::printf("packing %lld x %lld, a code a %s, order %s: %.1f us, %.0f GB/s\n", n, k, name_of(storage),
                  name_of(order), *us / kLaunches, rate);
      EXPECT_GT(rate, kLeastGigabytes);
    }
}

TEST_F(pack, misuse_launches_nothing) {
  const WeightFormat format{.group = 64};
  const auto packer = Packer::create(device(), format);
  ASSERT_TRUE(ok(packer));
  const Region blob = region(4352), codes = region(64 * 128), scales = region(64 * 2 * 2);
  const PackArgs good{.codes = codes.data(), .scales = scales.data(), .blob = blob.data()};
  const auto refused = [&](const PackShape& shape, const PackArgs& args, ErrorCode code) {
    const Result<void> result = packer->pack(shape, args, nullptr);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, code) << result.error().message;
  };
  PackArgs bad = good;
  bad.codes = nullptr;
  refused({64, 128}, bad, ErrorCode::invalid_pointer);
  bad = good;
  bad.blob = static_cast<u8*>(blob.data()) + 4;
  refused({64, 128}, bad, ErrorCode::misaligned);
  bad = good;
  bad.blob = codes.data();
  refused({64, 128}, bad, ErrorCode::aliasing);
  bad = good;
  bad.zeros = scales.data();
  refused({64, 128}, bad, ErrorCode::invalid_argument);
  refused({64, -128}, good, ErrorCode::invalid_size);
  ASSERT_TRUE(ok(synchronize(device())));
  const auto untouched = blob.read();
  ASSERT_TRUE(ok(untouched));
  EXPECT_TRUE(std::all_of(untouched->begin(), untouched->end(), [](u8 byte) { return byte == kPoison; }));
}

}  // namespace
}  // namespace sluice::testing
