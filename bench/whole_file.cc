// SPDX-License-Identifier: Apache-2.0
// rename() replaces any kind of file, so it is used for regular files only. A link or a device (`--out
// /dev/stdout`) keeps its name.
#include <sluice/bench/whole_file.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <sluice/text.h>

namespace sluice::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // symbolic links to follow, as many as Linux does (path_resolution(7))

Error io_error(const std::string& path, int code) {
  return {ErrorCode::io, fmt::format("{} could not be written ({}): does its folder exist, is there space?",
                                     escaped(path), std::strerror(code))};
}

/// Follows symbolic links to the final path, which need not exist.
fs::path behind_links(fs::path path) {
  std::error_code failed;
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, failed); ++i) {
    const fs::path target = fs::read_symlink(path, failed);
    if (failed) break;
    path = path.parent_path() / target;  // if `target` is absolute, it replaces the folder
  }
  return path;
}

/// Returns 0 or errno.
int write_all(int file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(file, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    done += static_cast<std::size_t>(count);
  }
  return 0;
}

/// Returns stdout or stderr if `path` names the same file, else null. The stream may be redirected to a
/// regular file, and replacing that would lose the lines already printed.
std::FILE* own_stream(const std::string& path) {
  struct stat named {};
  if (::stat(path.c_str(), &named) != 0) return nullptr;
  for (std::FILE* stream : {stdout, stderr}) {
    struct stat own {};
    if (::fstat(::fileno(stream), &own) == 0 && own.st_dev == named.st_dev && own.st_ino == named.st_ino)
      return stream;
  }
  return nullptr;
}

/// Returns 0 or errno; closes the file in any case.
int write_and_close(int file, const std::string& text) {
  const int failed = write_all(file, text);
  const int unclosed = ::close(file) == 0 ? 0 : errno;
  return failed != 0 ? failed : unclosed;
}

}  // namespace

Result<void> write_whole(const std::string& text, const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status))
    return Error{ErrorCode::io, fmt::format("{} is a folder: name a file in it", escaped(path))};
  if (std::FILE* own = own_stream(path)) {
    std::fflush(own);
    const int failed = write_all(::fileno(own), text);
    return failed == 0 ? Result<void>{} : io_error(path, failed);
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    const int failed = file < 0 ? errno : write_and_close(file, text);
    return failed == 0 ? Result<void>{} : io_error(path, failed);
  }
  const std::string target = behind_links(path).string(), partial = target + ".partial";
  const int file = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return io_error(path, errno);
  int failed = write_and_close(file, text);
  if (failed == 0 && std::rename(partial.c_str(), target.c_str()) != 0) failed = errno;
  if (failed == 0) return {};
  ::unlink(partial.c_str());
  return io_error(path, failed);
}

}  // namespace sluice::bench
