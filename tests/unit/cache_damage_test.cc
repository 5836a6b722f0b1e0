// SPDX-License-Identifier: Apache-2.0
// 1,000 damaged cache files, of ten kinds. Each must be noticed, compiled again and replaced by an intact
// file. To see it fail: remove the check of the checksum or of the key; wrong cubins are then loaded.
#include <sys/stat.h>

#include <random>

#include <sluice/run/jit/cache_entry.h>
#include <sluice/run/jit/hash.h>

#include "cache_fake.h"

namespace sluice {
namespace {

using test::cache_at;
using test::entry_file;
using test::fake_cubin;
using test::FakeCompiler;
using test::read_file;
using test::TemporaryFolder;
using test::write_file;

namespace fs = std::filesystem;

enum class Damage { truncate, flip, swap, version, oversize, huge, empty, directory, symlink, fifo };
constexpr int kDamages = 10;

/// Returns an intact entry, checksum included, whose magic number is that of another version.
std::string foreign_version(std::string bytes) {
  bytes[6] = '9';  // the version digit in "sluice1\n"
  bytes.resize(bytes.size() - sizeof(Digest));
  const Digest sum = digest(bytes);
  return bytes.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
}

void damage(const std::string& path, const std::string& other, Damage kind, std::mt19937& random) {
  std::string bytes = read_file(path);
  const auto position = [&] { return std::uniform_int_distribution<size_t>(0, bytes.size() - 1)(random); };
  switch (kind) {
    case Damage::truncate: return fs::resize_file(path, position());
    case Damage::flip:
      bytes[position()] ^= static_cast<char>(1 << position() % 8);
      return write_file(path, bytes);
    case Damage::swap: return write_file(path, read_file(other));
    case Damage::version: return write_file(path, foreign_version(bytes));
    case Damage::oversize: return write_file(path, bytes + std::string(1 + position(), '\0'));
    case Damage::huge: return fs::resize_file(path, u64{1} << 40);  // makes a sparse file
    case Damage::empty: return write_file(path, "");
    default: break;
  }
  fs::remove(path);
  if (kind == Damage::directory) fs::create_directory(path);
  if (kind == Damage::symlink) fs::create_symlink(other, path);
  if (kind == Damage::fifo) mkfifo(path.c_str(), 0600);
}

TEST(CacheDamage, a_thousand_damaged_files_are_compiled_anew) {
  const TemporaryFolder folder;
  const std::string cache_folder = folder / "cache";
  const FakeCompiler compiler;
  constexpr int kKeys = 101, kRounds = 10;
  const auto unit = [](int i) { return "unit " + std::to_string(i); };
  const KernelCache maker(cache_at(cache_folder), compiler.seam());
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(maker.get(unit(i)));
  const std::string pristine = folder / "pristine";
  fs::copy(entry_file(cache_folder, unit(0)), pristine);
  const std::string other_unit = read_file(pristine);

  std::mt19937 random(20261121);
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 1; i < kKeys; ++i)
      damage(entry_file(cache_folder, unit(i)), pristine, static_cast<Damage>((i + round) % kDamages),
             random);
    *compiler.calls = 0;
    const KernelCache cache(cache_at(cache_folder), compiler.seam());
    for (int i = 1; i < kKeys; ++i) {
      const auto got = cache.get(unit(i));
      ASSERT_TRUE(got) << got.error().message;
      ASSERT_EQ(**got, fake_cubin(unit(i))) << "round " << round << ", kind " << (i + round) % kDamages;
    }
    EXPECT_EQ(*compiler.calls, kKeys - 1);
    EXPECT_EQ(cache.stats().damaged, kKeys - 1);
    EXPECT_EQ(cache.stats().write_failures, 0);
    const KernelCache healed(cache_at(cache_folder), compiler.seam());
    for (int i = 0; i < kKeys; ++i) ASSERT_EQ(**healed.get(unit(i)), fake_cubin(unit(i)));
    EXPECT_EQ(*compiler.calls, kKeys - 1) << "each bad file was replaced by a good one";
  }
  EXPECT_EQ(read_file(pristine), other_unit) << "nothing was written through a symbolic link";
  EXPECT_EQ(test::files_in(cache_folder), kKeys);
}

TEST(CacheDamage, a_full_folder_in_place_of_an_entry_is_left_alone) {
  const TemporaryFolder folder;
  const std::string path = entry_file(folder / "cache", "unit");
  fs::create_directories(path);
  fs::permissions(folder / "cache", fs::perms::owner_all);
  write_file(path + "/precious", "data");
  const KernelCache cache(cache_at(folder / "cache"), FakeCompiler{}.seam());
  EXPECT_EQ(**cache.get("unit"), fake_cubin("unit"));
  EXPECT_EQ(cache.stats().write_failures, 1);
  EXPECT_EQ(read_file(path + "/precious"), "data");
}

TEST(CacheEntry, every_single_changed_or_missing_byte_is_noticed) {
  const Cubin cubin{.image = "image", .report = {.compiler = "c", .log = "l"}};
  const std::string whole = encode_entry("key", cubin);
  const std::optional<CacheEntry> back = decode_entry(whole);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->key, "key");
  EXPECT_EQ(back->cubin, cubin);
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_FALSE(decode_entry(whole.substr(0, i)));
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = whole;
      changed[i] ^= static_cast<char>(1 << bit);
      EXPECT_FALSE(decode_entry(changed)) << "byte " << i << " bit " << bit;
    }
  }
  EXPECT_FALSE(decode_entry(whole + '\0'));
}

}  // namespace
}  // namespace sluice
