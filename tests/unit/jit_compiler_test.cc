// SPDX-License-Identifier: Apache-2.0
// NVRTC on small units: output, refusals, and threads that compile independently. Skipped without NVRTC,
// except for the tests of the search for it.
#include <thread>

#include <sluice/run/jit/compiler.h>

#include "cache_fake.h"
#include "tests/skip_or_fail.h"

namespace sluice {
namespace {

using test::TemporaryFolder;

class JitCompiler : public testing::Test {
 protected:
  void SetUp() override {
    const Result<std::shared_ptr<const Compiler>> loaded = Compiler::load("");
    if (!loaded) SLUICE_SKIP_OR_FAIL(loaded.error().message);
    compiler = *loaded;
  }
  std::shared_ptr<const Compiler> compiler;
};

std::string kernel(const std::string& body, const std::string& before = "") {
  return before + "extern \"C\" __global__ void sluice_entry(float* p) {\n" + body + "}\n";
}

TEST_F(JitCompiler, makes_a_cubin_and_reports_on_it) {
  const auto cubin =
      compiler->compile(kernel("__shared__ float s[100];\ns[threadIdx.x] = p[threadIdx.x];\n"
                               "__syncthreads();\np[0] = s[99 - threadIdx.x];\n"));
  ASSERT_TRUE(cubin) << cubin.error().message;
  EXPECT_TRUE(
      cubin->image.starts_with("\x7f"
                               "ELF"));
  EXPECT_GT(cubin->report.registers, 0);
  EXPECT_EQ(cubin->report.static_smem_bytes, 400);
  EXPECT_EQ(cubin->report.spill_bytes, 0);
  EXPECT_EQ(cubin->report.stack_bytes, 0);
  EXPECT_EQ(cubin->report.log, "") << "a clean build has nothing to say";
  EXPECT_TRUE(cubin->report.compiler.starts_with(compiler->version())) << cubin->report.compiler;
  EXPECT_GT(cubin->report.seconds, 0);
}

TEST_F(JitCompiler, reports_stack_and_spills) {
  const auto stack = compiler->compile(kernel(
      "float q[64] = {};\nfor (int i = 0; i < 64; ++i) q[int(p[i]) % 64] += p[i];\np[0] = q[int(p[99])];\n"));
  ASSERT_TRUE(stack);
  EXPECT_GT(stack->report.stack_bytes, 0);
  const std::string tight =
      "extern \"C\" __global__ void __launch_bounds__(1024, 2) sluice_entry(float* p) {\n float q[80];\n"
      "#pragma unroll\n for (int i = 0; i < 80; ++i) q[i] = p[i * 1024 + threadIdx.x];\n __syncthreads();\n"
      "#pragma unroll\n for (int i = 0; i < 80; ++i) p[i * 1024 + threadIdx.x] = q[79 - i];\n}\n";
  const auto spills = compiler->compile(tight);
  ASSERT_TRUE(spills);
  EXPECT_GT(spills->report.spill_bytes, 0);
}

TEST_F(JitCompiler, keeps_warnings) {
  const auto cubin = compiler->compile(kernel("int unused;\np[0] = 1;\n"));
  ASSERT_TRUE(cubin);
  EXPECT_NE(cubin->report.log.find("unused"), std::string::npos) << cubin->report.log;
}

TEST_F(JitCompiler, includes_only_what_is_embedded) {
  EXPECT_TRUE(
      compiler->compile(kernel("p[0] = sluice::ceil_div(5, 2);\n", "#include <sluice/spec/base.h>\n")));
  const auto disk = compiler->compile(kernel("", "#include \"options.h\"\n"));
  ASSERT_FALSE(disk);
  EXPECT_EQ(disk.error().code, ErrorCode::toolchain);
}

TEST_F(JitCompiler, refuses_bad_text_with_the_log_and_the_unit) {
  const auto bad = compiler->compile(kernel("this is not C++;\n"));
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::toolchain);
  EXPECT_NE(bad.error().message.find("error"), std::string::npos);
  EXPECT_NE(bad.error().message.find("this is not C++"), std::string::npos);
}

TEST_F(JitCompiler, compiles_from_many_threads) {
  const auto unit = [](int i) {
    return kernel("p[" + std::to_string(i) + "] = " + std::to_string(i) + ";\n");
  };
  constexpr int kUnits = 8;
  std::vector<std::string> alone, together(kUnits);
  for (int i = 0; i < kUnits; ++i) alone.push_back(compiler->compile(unit(i))->image);
  std::vector<std::thread> threads;
  for (int i = 0; i < kUnits; ++i)
    threads.emplace_back([&, i] {
      if (const auto made = compiler->compile(unit(i))) together[i] = made->image;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(alone, together) << "and the bytes do not depend on it";
}

TEST_F(JitCompiler, a_folder_names_its_nvrtc) {
  const std::filesystem::path file = compiler->path();
  const auto by_folder = Compiler::load(file.parent_path());
  ASSERT_TRUE(by_folder) << by_folder.error().message;
  EXPECT_EQ((*by_folder)->version(), compiler->version());
  const TemporaryFolder wheel;
  std::filesystem::create_directories(wheel / "nvidia/cu13");
  std::filesystem::create_directory_symlink(file.parent_path(), wheel / "nvidia/cu13/lib");
  EXPECT_TRUE(Compiler::load(wheel / ""));
  const auto located = locate_nvrtc(file);
  ASSERT_TRUE(located);
  EXPECT_EQ("NVRTC " + located->version, compiler->version()) << "told without loading it";
}

TEST(JitSearch, only_a_library_of_cuda_13_ends_the_search) {
  const TemporaryFolder toolkit, wheel;
  std::filesystem::create_directories(wheel / "nvidia/cu13/lib");
  const auto found = [&] { return default_nvrtc(toolkit / "", wheel / "").file; };
  EXPECT_EQ(found(), "libnvrtc.so.13") << "neither has one: the loader's";
  test::write_file(toolkit / "libnvrtc.so.12", "");
  test::write_file(toolkit / "libnvrtc.so", "");
  EXPECT_EQ(found(), "libnvrtc.so.13") << "the toolkit is CUDA 12";
  test::write_file(wheel / "nvidia/cu13/lib/libnvrtc.so.13", "");
  EXPECT_EQ(found(), wheel / "nvidia/cu13/lib/libnvrtc.so.13") << "a wheel beside CUDA 12";
  test::write_file(toolkit / "libnvrtc.so.13", "");
  EXPECT_EQ(found(), toolkit / "libnvrtc.so.13") << "the toolkit goes first";
  EXPECT_EQ(default_nvrtc("", "").file, "libnvrtc.so.13") << "not the current folder's";
}

TEST(JitSearch, what_was_suggested_holds_from_the_next_search_on) {
  const auto searched = [] { return locate_nvrtc("")->file; };
  const std::string before = searched();
  const TemporaryFolder wheel;
  std::filesystem::create_directories(wheel / "nvidia/cu13/lib");
  test::write_file(wheel / "nvidia/cu13/lib/libnvrtc.so.13", "");
  suggest_nvrtc(wheel / "");
  const bool has_toolkit = std::filesystem::exists("/usr/local/cuda/lib64/libnvrtc.so.13");
  EXPECT_EQ(searched(), has_toolkit ? before : wheel / "nvidia/cu13/lib/libnvrtc.so.13");
  suggest_nvrtc({});
  EXPECT_EQ(searched(), before);
}

TEST(JitSearch, a_missing_nvrtc_is_an_error_with_a_remedy) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "empty");
  test::write_file(folder / "libnvrtc.so.13", "not a library");
  for (const char* name : {"absent.so", "empty", "libnvrtc.so.13", ""}) {
    const auto loaded = Compiler::load(folder / name);
    ASSERT_FALSE(loaded) << name;
    EXPECT_EQ(loaded.error().code, ErrorCode::toolchain);
    EXPECT_NE(loaded.error().message.find("SLUICE_NVRTC"), std::string::npos) << loaded.error().message;
  }
}

}  // namespace
}  // namespace sluice
