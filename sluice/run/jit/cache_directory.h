// SPDX-License-Identifier: Apache-2.0
// The folder of cache files. It is private to the user, and is opened once and used through its descriptor,
// so that replacing the path later has no effect. Called by cache.cc and run/records/record_store.cc.
// Invariants: a file appears completely or not at all; only the holder of a key's lock writes or removes its
// file.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sluice/result.h>

namespace sluice {

class FileHandle {
 public:
  explicit FileHandle(int descriptor = -1) : descriptor_(descriptor) {}
  FileHandle(FileHandle&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FileHandle();

  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

class CacheDirectory {
 public:
  enum class Access { read_write, read_only };

  /// Opens the folder, and creates it (0700) unless read_only. `what`: its name in messages. Error io: it
  /// cannot be opened, is a symbolic link, belongs to another user (root is allowed if read_only), or is
  /// writable by group or others.
  static Result<CacheDirectory> open(const std::string& path, Access access,
                                     const std::string& what = "the kernel cache");

  enum class ReadState { whole, absent, damaged };
  struct ReadResult {
    ReadState state = ReadState::absent;
    std::string bytes;
  };
  /// Reads a file. State damaged: the file exists but cannot be used. It cannot be read, is not an ordinary
  /// file of plausible size, does not belong to this user or root, or is writable by group or others.
  ReadResult read(const std::string& name) const;

  /// A lock between processes and threads, held until it is destroyed or the process dies.
  class Lock {
   public:
    Lock(int directory, std::string name, FileHandle file);
    Lock(Lock&&) noexcept = default;
    ~Lock();

   private:
    int directory_;
    std::string name_;
    FileHandle file_;
  };
  /// Locks the file's name. Error io: `timeout` has passed, or no lock file can be created or locked (a full
  /// or read-only folder). The caller then compiles without writing.
  Result<Lock> lock(const std::string& name, std::chrono::milliseconds timeout) const;

  /// Tests permissions and free space: writes a file as large as most entries and removes it. Error io gives
  /// the reason.
  Result<void> probe() const;

  /// Both require the lock of `name`.
  Result<void> write(const std::string& name, std::string_view bytes, const Lock& proof) const;
  void remove(const std::string& name, const Lock& proof) const;

  /// Returns the names that start with `prefix`, sorted. Reads the whole folder.
  std::vector<std::string> list(const std::string& prefix) const;

 private:
  explicit CacheDirectory(FileHandle folder) : folder_(std::move(folder)) {}
  FileHandle folder_;
};

}  // namespace sluice
