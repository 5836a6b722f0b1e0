// SPDX-License-Identifier: Apache-2.0
// `sluice pack` as a user starts it: the numbers that it prints, its blob (equal to the library's), its
// refusals. Fails if signed values are not converted, if the order does not follow the tokens' type, or if a
// file of wrong size is accepted.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "packed_formats.h"
#include "run_tool.h"

namespace sluice {
namespace {

class CliPack : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "sluice_pack_" + std::to_string(getpid());
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Outcome pack(const std::string& arguments) const { return run_tool("", "pack " + arguments); }
  std::string file(const char* name, const std::vector<u8>& bytes) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return folder_ + "/" + name;
  }
  std::vector<u8> content(const std::string& path) const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string folder_;
};

TEST_F(CliPack, prints_the_formats_numbers) {
  const Outcome outcome = pack("-n 3584 -k 8192 --weights int4 --group 64");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  for (const char* part : {"zero 8, order half", "4352 bytes for 64 x 128: codes 4096, scales 256, zeros 0",
                           "15597568 bytes for 3584 x 8192: 56 strips", "4.25 stored, 4 of them its code"})
    EXPECT_TRUE(outcome.has(part)) << part << " is not in\n" << outcome.text;
  const Outcome bytes =
      pack("-n 100 -k 300 --weights uint4 --group 0 --scale fp32 --zero per_group --tokens-type e4m3");
  EXPECT_EQ(bytes.code, 0) << bytes.text;
  for (const char* part :
       {"group of the whole k, fp32 scales, a zero a group, order byte", "3 tiles, then 512 bytes"})
    EXPECT_TRUE(bytes.has(part)) << part << " is not in\n" << bytes.text;
}

TEST_F(CliPack, prints_the_slices_of_shards) {
  const Outcome outcome = pack("-n 200 -k 500 --group 64 --shards 2");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  for (const char* part :
       {"0..128", "128..200", "34816", "0..256", "256..500", "8704 x 4", "pitch of strips 17408"})
    EXPECT_TRUE(outcome.has(part)) << part << " is not in\n" << outcome.text;
}

TEST_F(CliPack, packs_files_as_the_library_does) {
  const WeightFormat f{
      .group = 32, .scale = DType::bf16, .zero = ScaleZero::per_group, .order = FragmentOrder::byte};
  const test::RandomWeights weights(f, 70, 200, 3);
  const std::string out = folder_ + "/blob";
  const Outcome outcome = pack(
      "-n 70 -k 200 --weights uint4 --group 32 --scale bf16 --zero per_group --tokens-type e4m3 --codes " +
      file("codes", weights.codes()) + " --scales " + file("scales", weights.scales()) + " --zeros " +
      file("zeros", weights.zeros()) + " --out " + out);
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  const auto wanted = pack_weights(f, weights.arrays());
  ASSERT_TRUE(wanted);
  EXPECT_TRUE(content(out) == *wanted);
}

/// With zero points, int8 values are codes, because a zero point is a code.
TEST_F(CliPack, int8_with_zeros_are_codes) {
  const WeightFormat f{.type = WeightType::int8, .group = 64, .zero = ScaleZero::per_group};
  const test::RandomWeights weights(f, 64, 128, 5);
  const Outcome outcome =
      pack("-n 64 -k 128 --weights int8 --group 64 --zero per_group --codes " +
           file("codes", weights.codes()) + " --scales " + file("scales", weights.scales()) + " --zeros " +
           file("zeros", weights.zeros()) + " --out " + folder_ + "/blob");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(content(folder_ + "/blob") == *pack_weights(f, weights.arrays()));
}

TEST_F(CliPack, signed_values_become_codes) {
  for (const auto& [name, added] : {std::pair<const char*, int>{"int4", 8}, {"int8", 128}}) {
    const WeightFormat f{.type = added == 8 ? WeightType::uint4 : WeightType::int8};
    const test::RandomWeights weights(f, 64, 128, 4);
    std::vector<u8> values = weights.codes();
    for (u8& value : values) value = static_cast<u8>(value - added);
    const std::string arguments = std::string("-n 64 -k 128 --weights ") + name + " --codes " +
                                  file("codes", values) + " --scales " + file("scales", weights.scales()) +
                                  " --out " + folder_ + "/blob";
    const Outcome outcome = pack(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_TRUE(content(folder_ + "/blob") == *pack_weights(f, weights.arrays())) << name;
  }
}

TEST_F(CliPack, refuses_with_value_and_remedy) {
  const auto refused = [&](const std::string& arguments, const char* code, const char* mention) {
    const Outcome outcome = pack(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.text;
    EXPECT_TRUE(outcome.text.find(std::string("sluice: ") + code) != std::string::npos) << outcome.text;
    EXPECT_TRUE(outcome.has(mention)) << mention << " is not in\n" << outcome.text;
  };
  const std::string size = "-n 64 -k 128 ";
  refused("-n 64", "invalid_argument", "--k");
  refused(size + "--weights int5", "invalid_argument", "int4, uint4, int8, e4m3");
  refused(size + "--tokens-type fp32", "invalid_argument", "fp16, bf16, e4m3");
  refused(size + "--group 48", "invalid_config", "group must be 32, 64, 128");
  refused(size + "--weights e2m1 --group 128", "invalid_config", "--group 128 --scale e8m0 --zero none");
  refused(size + "--weights e2m1 --tokens-type e4m3", "invalid_config", "order half");
  refused(size + "--weights int8 --tokens-type e4m3", "invalid_config", "8-bit tokens");
  refused(size + "--weights int4 --zero per_group", "invalid_argument", "zeros are for uint4 and int8");
  refused("-n 0 -k 128", "invalid_size", "1..2^31-1");
  refused(size + "--shards 0", "invalid_size", "1..64");
  refused(size + "--out " + folder_ + "/x", "invalid_argument", "need --codes");
  const std::string codes = file("codes", std::vector<u8>(64 * 128, 9)),
                    scales = file("scales", std::vector<u8>(128));
  refused(size + "--codes " + codes, "invalid_argument", "--scales FILE and --out FILE");
  const std::string rest = " --scales " + scales + " --out " + folder_ + "/x";
  refused(size + "--codes " + codes + rest, "invalid_argument", "value 9 at [0][0] must be in -8..7");
  refused(size + "--codes " + folder_ + "/none" + rest, "io", "/none");
  refused("-n 65 -k 128 --weights uint4 --codes " + codes + rest, "invalid_size",
          "has 8192 bytes and must have 8320");
  refused(size + "--weights uint4 --codes " + file("codes", std::vector<u8>(64 * 128, 16)) + rest,
          "invalid_argument", "codes[0][0] = 16 must be at most 15");
  file("codes", std::vector<u8>(64 * 128, 15));
  refused(size + "--weights uint4 --codes " + codes + " --scales " + scales + " --out /no/such/folder/x",
          "io", "--out /no/such/folder/x could not be written");
}

TEST_F(CliPack, a_blob_to_stdout_stands_beside_what_the_tool_says) {
  const std::string codes = file("codes", std::vector<u8>(64 * 128, 3)),
                    scales = file("scales", std::vector<u8>(128)), all = folder_ + "/all";
  const Outcome outcome = pack("-n 64 -k 128 --weights uint4 --codes " + codes + " --scales " + scales +
                               " --out /dev/stdout > " + all);
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  const std::vector<u8> bytes = content(all);
  const std::string text(bytes.begin(), bytes.end());
  EXPECT_GT(text.size(), 4224u + 100u) << "blob and lines";
  EXPECT_NE(text.find("bytes written"), std::string::npos);
}

TEST_F(CliPack, an_input_is_never_written_over_by_whatever_name) {
  const std::string codes = file("codes", std::vector<u8>(64 * 128, 3)),
                    scales = file("scales", std::vector<u8>(128));
  std::filesystem::create_symlink("scales", folder_ + "/link");
  for (const std::string& out : {codes, scales, folder_ + "/./codes", folder_ + "/link"}) {
    const Outcome outcome =
        pack("-n 64 -k 128 --weights uint4 --codes " + codes + " --scales " + scales + " --out " + out);
    EXPECT_EQ(outcome.code, 2) << outcome.text;
    EXPECT_TRUE(outcome.has("--out " + out + " is the file of --")) << outcome.text;
  }
  EXPECT_TRUE(content(codes) == std::vector<u8>(64 * 128, 3));
  EXPECT_TRUE(content(scales) == std::vector<u8>(128));
}

}  // namespace
}  // namespace sluice
