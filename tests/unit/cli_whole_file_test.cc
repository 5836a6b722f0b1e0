// SPDX-License-Identifier: Apache-2.0
// Result files: written whole or not at all. Links are followed, and a file that is not regular keeps its
// kind.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <sluice/bench/whole_file.h>

namespace sluice::bench {
namespace {

/// A temporary folder that is removed after the test.
struct ScratchFolder {
  const std::string path = testing::TempDir() + "sluice_whole_file_" + std::to_string(getpid());
  ScratchFolder() { std::filesystem::create_directory(path); }
  ~ScratchFolder() { std::filesystem::remove_all(path); }
  std::string operator/(const char* name) const { return path + "/" + name; }
};

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(whole_file, links_stay_links_and_their_targets_are_written) {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "data");
  std::filesystem::create_symlink("data/one", folder / "near");  // the target does not exist yet
  std::filesystem::create_symlink("near", folder / "far");
  ASSERT_TRUE(write_whole("first", folder / "far"));
  EXPECT_EQ(content_of(folder / "data/one"), "first");
  ASSERT_TRUE(write_whole("second", folder / "near"));
  EXPECT_EQ(content_of(folder / "data/one"), "second");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "near") && std::filesystem::is_symlink(folder / "far"));
  EXPECT_FALSE(std::filesystem::exists(folder / "near.partial"));
}

TEST(whole_file, what_is_no_file_is_written_into_and_stays) {
  const ScratchFolder folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  // Opened for reading, so that the writer does not block.
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_TRUE(write_whole("through it", fifo));
  char got[16] = {};
  EXPECT_EQ(read(reader, got, sizeof got), 10);
  EXPECT_STREQ(got, "through it");
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  EXPECT_FALSE(std::filesystem::exists(fifo + ".partial"));
  close(reader);
}

TEST(whole_file, a_folder_is_refused_by_name_and_nothing_is_left_behind) {
  const ScratchFolder folder;
  const Result<void> refused = write_whole("text", folder.path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, folder.path + " is a folder: name a file in it");
  EXPECT_FALSE(std::filesystem::exists(folder.path + ".partial"));
}

TEST(whole_file, a_failure_keeps_what_was_there_and_leaves_nothing_beside_it) {
  const ScratchFolder folder;
  const std::string path = folder / "file";
  ASSERT_TRUE(write_whole("old", path));
  // Simulates a full disk by a limit on file size.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{.rlim_cur = 2, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  const Result<void> written = write_whole("new and longer", path);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::io);
  EXPECT_EQ(content_of(path), "old");
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

}  // namespace
}  // namespace sluice::bench
