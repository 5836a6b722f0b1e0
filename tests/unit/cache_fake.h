// SPDX-License-Identifier: Apache-2.0
// For the cache tests: a fast fake compiler that counts, and folders that remove themselves. A fake cubin
// depends only on its unit, so loading the wrong one is noticed.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include <sluice/run/jit/cache.h>
#include <sluice/run/jit/cache_key.h>

#include "fake_image.h"

namespace sluice::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    // Uses a folder in memory if there is one. Each write is followed by an fsync, which takes 12 ms on the
    // CI machine's disk.
    std::error_code ignored;
    const bool memory = std::filesystem::is_directory("/dev/shm", ignored) && access("/dev/shm", W_OK) == 0;
    std::string pattern = (memory ? "/dev/shm/" : testing::TempDir()) + "sluice_cache_XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline Cubin fake_cubin(const std::string& unit, const std::string& version = "fake 1.0") {
  std::string image = fake::fake_image(unit);
  while (image.size() < 30000) image += image;  // about the size of a real cubin
  return {.image = image,
          .report = {.registers = 168,
                     .spill_bytes = 1,
                     .stack_bytes = 2,
                     .static_smem_bytes = 3,
                     .compiler = version,
                     .seconds = 0.25,
                     .log = "a note\n"}};
}

struct FakeCompiler {
  std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);
  std::string version = "fake 1.0";

  CompilerSeam seam() const {
    return {.version = [v = version] { return v; },
            .compile = [calls = calls, v = version](const std::string& unit) -> Result<Cubin> {
              ++*calls;
              return fake_cubin(unit, v);
            }};
  }
};

inline Options cache_at(const std::string& folder) {
  return {.cache_dir = folder, .cache_read_only = false, .nvrtc_path = {}, .jobs = 2};
}

/// Returns the path of the cache entry for `unit`, compiled by the fake compiler.
inline std::string entry_file(const std::string& folder, const std::string& unit,
                              const std::string& version = "fake 1.0") {
  return folder + "/" + entry_name(source_key(unit), version);
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
inline int files_in(const std::string& folder) {
  return static_cast<int>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

}  // namespace sluice::test
