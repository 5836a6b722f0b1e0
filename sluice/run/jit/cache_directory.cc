// SPDX-License-Identifier: Apache-2.0
// The POSIX calls of the cache folder. After the folder is opened, all calls are relative to its descriptor
// and follow no symbolic link.
#include <sluice/run/jit/cache_directory.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include <sluice/text.h>
#include <sluice/try.h>

namespace sluice {
namespace {

constexpr off_t kMaxEntryBytes = 64 << 20;  // cubins have about 50 KB; a larger file is not from this cache
constexpr mode_t kPrivateFolder = 0700;
constexpr mode_t kPrivateFile = 0600;

Error io_error(const std::string& what, int code) {
  return {ErrorCode::io, what + ": " + std::strerror(code)};
}

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

/// Returns null if the folder can be trusted, else the rule it breaks.
const char* distrust(const struct stat& status, CacheDirectory::Access access) {
  const bool ours = status.st_uid == geteuid();
  const bool shipped = access == CacheDirectory::Access::read_only && status.st_uid == 0;
  if (!ours && !shipped) return "it belongs to another user";
  if ((status.st_mode & kOthersWrite) != 0) return "others may write to it: chmod go-w";
  return nullptr;
}

/// Returns whether only this user or root can have written the file. The folder's permissions do not protect
/// against files that were moved or linked into it earlier.
bool is_trusted_entry(const struct stat& status) {
  return S_ISREG(status.st_mode) && (status.st_uid == geteuid() || status.st_uid == 0) &&
         (status.st_mode & kOthersWrite) == 0;
}

bool read_all(int file, std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

}  // namespace

FileHandle::~FileHandle() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<CacheDirectory> CacheDirectory::open(const std::string& given, Access access,
                                            const std::string& what) {
  // Removes a trailing slash: with it open() would follow a symbolic link.
  std::filesystem::path folder_path = std::filesystem::path(given).lexically_normal();
  if (!folder_path.has_filename()) folder_path = folder_path.parent_path();
  const std::string path = folder_path.string(), subject = what + " '" + escaped(path) + "'";
  if (access == Access::read_write) {
    std::error_code ignored;  // if a parent cannot be created, the next call fails
    std::filesystem::create_directories(folder_path.parent_path(), ignored);
    if (::mkdir(path.c_str(), kPrivateFolder) != 0 && errno != EEXIST)
      return io_error(subject + " cannot be created", errno);
  }
  FileHandle folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return io_error(subject + " cannot be opened (a symbolic link is not followed)", errno);
  struct stat status {};
  if (::fstat(folder.get(), &status) != 0) return io_error(subject + " cannot be examined", errno);
  if (const char* rule = distrust(status, access))
    return Error{ErrorCode::io, subject + " is not used: " + rule};
  return CacheDirectory(std::move(folder));
}

CacheDirectory::ReadResult CacheDirectory::read(const std::string& name) const {
  // O_NONBLOCK: if the file is a FIFO, opening it must not block.
  const FileHandle file(
      ::openat(folder_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return {.state = errno == ENOENT ? ReadState::absent : ReadState::damaged, .bytes = {}};
  ReadResult result{.state = ReadState::damaged, .bytes = {}};
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !is_trusted_entry(status) || status.st_size > kMaxEntryBytes)
    return result;
  result.bytes.resize(static_cast<size_t>(status.st_size));
  if (read_all(file.get(), result.bytes)) result.state = ReadState::whole;
  return result;
}

CacheDirectory::Lock::Lock(int directory, std::string name, FileHandle file)
    : directory_(directory), name_(std::move(name)), file_(std::move(file)) {}

CacheDirectory::Lock::~Lock() {
  // Removes the name before releasing the lock, so that a waiting thread gets a file that no longer has the
  // name.
  if (file_) ::unlinkat(directory_, name_.c_str(), 0);
}

Result<CacheDirectory::Lock> CacheDirectory::lock(const std::string& name,
                                                  std::chrono::milliseconds timeout) const {
  constexpr std::chrono::milliseconds kFirstPause{1}, kLongestPause{20};
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const std::string lock_name = name + ".lock";
  auto pause = kFirstPause;
  for (;;) {
    constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    FileHandle file(::openat(folder_.get(), lock_name.c_str(), kFlags, kPrivateFile));
    if (!file) return io_error("the file '" + escaped(lock_name) + "' cannot be created", errno);
    while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR)
        return io_error("the file '" + escaped(lock_name) + "' cannot be locked", errno);
      if (std::chrono::steady_clock::now() >= deadline)
        return Error{ErrorCode::io, "another process has held the lock '" + escaped(lock_name) + "' for " +
                                        std::to_string(timeout.count()) + " ms"};
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongestPause);
    }
    struct stat mine {
    }, named{};
    const bool current = ::fstat(file.get(), &mine) == 0 &&
                         ::fstatat(folder_.get(), lock_name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
                         mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
    if (current) return Lock(folder_.get(), lock_name, std::move(file));
  }  // the holder removed the name in the meantime: try again with the new file
}

Result<void> CacheDirectory::write(const std::string& name, std::string_view bytes, const Lock&) const {
  const std::string temporary = name + ".tmp";      // only one writer at a time, because it holds the lock
  ::unlinkat(folder_.get(), temporary.c_str(), 0);  // a file that a process left when it died while writing
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const FileHandle file(::openat(folder_.get(), temporary.c_str(), kFlags, kPrivateFile));
  if (!file) return io_error("the file '" + escaped(temporary) + "' cannot be created", errno);
  // Without fsync a crash could leave the new name with no bytes. The digest would detect that, and the
  // kernel would be compiled again.
  const bool written = write_all(file.get(), bytes) && ::fsync(file.get()) == 0 &&
                       ::renameat(folder_.get(), temporary.c_str(), folder_.get(), name.c_str()) == 0;
  if (written) return {};
  const int code = errno;
  ::unlinkat(folder_.get(), temporary.c_str(), 0);
  if (code == EISDIR || code == ENOTEMPTY || code == EEXIST)
    return Error{ErrorCode::io, "a folder has the name of the file '" + escaped(name) + "': remove it"};
  return io_error("the file '" + escaped(name) + "' cannot be written", code);
}

Result<void> CacheDirectory::probe() const {
  constexpr std::chrono::milliseconds kTimeout{1000};
  constexpr std::size_t kLargeEntry = 90 << 10;  // docs/jit.md: 20 to 90 KB
  const std::string name = "probe";
  SLUICE_TAKE(const Lock held, lock(name, kTimeout));
  const Result<void> written = write(name, std::string(kLargeEntry, '\0'), held);
  if (written) remove(name, held);
  return written;
}

void CacheDirectory::remove(const std::string& name, const Lock&) const {
  if (::unlinkat(folder_.get(), name.c_str(), 0) != 0) ::unlinkat(folder_.get(), name.c_str(), AT_REMOVEDIR);
}

std::vector<std::string> CacheDirectory::list(const std::string& prefix) const {
  std::vector<std::string> names;
  // Opens a new descriptor, because a directory stream moves the offset of its descriptor.
  const int copy = ::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* stream = copy >= 0 ? ::fdopendir(copy) : nullptr;
  if (stream == nullptr) {
    if (copy >= 0) ::close(copy);
    return names;
  }
  while (const dirent* item = ::readdir(stream)) {
    const std::string name = item->d_name;
    if (name.starts_with(prefix)) names.push_back(name);
  }
  ::closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace sluice
