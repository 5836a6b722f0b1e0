// SPDX-License-Identifier: Apache-2.0
// Uses the JIT cache's kind of folder (cache_directory.h): opened once, private, links not followed.
#include <sluice/run/records/record_store.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include <sluice/plan/text/json_text.h>
#include <sluice/run/device/calibration.h>
#include <sluice/run/jit/hash.h>
#include <sluice/run/records/race_store.h>
#include <sluice/run/text_file.h>
#include <sluice/spec/packed.h>
#include <sluice/text.h>
#include <sluice/try.h>

namespace sluice {
namespace {

constexpr std::chrono::milliseconds kLockTimeout{2000};
constexpr const char* kSubject = "the folder of tuning records";
constexpr const char* kSuffix = ".json";
constexpr std::size_t kMostPath = 1000;  // bytes of a path in a trouble; its end identifies the file

Error io_error(const std::string& path, const std::string& why) {
  return {ErrorCode::io, "the tuning records cannot be written to '" + escaped(path) + "': " + why +
                             "; name a folder of your own"};
}

/// Stands for a choice for packed weights in names of files of chains, which are those of version 0.2.
constexpr TunedChoice kAnyDecoder{.schedule = Schedule::narrow,
                                  .tile_m = kTokenBlock,
                                  .tile_n = 4 * kBlockRows,
                                  .warps = 8,
                                  .stages = 4,
                                  .ctas = 1};

/// The record's text without choice and history.
std::string key_text(const TuningKey& key) {
  return to_json(TuningRecord{.key = key});
}

std::string name_start(const Recipe& r) {
  const std::string weights = r.weights == WeightType::none ? "" : std::string(name_of(r.weights)) + "-";
  return std::to_string(r.m) + "x" + std::to_string(r.n) + "x" + std::to_string(r.k) + "-" + name_of(r.a) +
         "-" + weights + name_of(r.d);
}

void read_folder(const CacheDirectory& folder, const std::string& path, ParsedRecords& all) {
  for (const std::string& name : folder.list("")) {
    if (!name.ends_with(kSuffix) || name.starts_with(kCalibrationPrefix)) continue;
    const CacheDirectory::ReadResult file = folder.read(name);
    if (file.state == CacheDirectory::ReadState::absent) continue;  // removed meanwhile
    const std::string where = escaped(path + "/" + name, kMostPath);
    if (file.state == CacheDirectory::ReadState::damaged) {
      all.troubles.push_back(where + ": cannot be read as a file; remove it");
      continue;
    }
    ParsedRecords one = parse_records(file.bytes, where);
    std::move(one.records.begin(), one.records.end(), std::back_inserter(all.records));
    std::move(one.races.begin(), one.races.end(), std::back_inserter(all.races));
    std::move(one.chains.begin(), one.chains.end(), std::back_inserter(all.chains));
    std::move(one.troubles.begin(), one.troubles.end(), std::back_inserter(all.troubles));
  }
}

Result<void> write_line(const CacheDirectory& folder, const std::string& name, const std::string& line) {
  const Result<CacheDirectory::Lock> lock = folder.lock(name, kLockTimeout);
  if (!lock) return io_error(name, lock.error().message);
  return folder.write(name, line + "\n", *lock);
}

Result<void> save_line(const std::string& path, const std::string& name, const std::string& line) {
  SLUICE_TAKE(const CacheDirectory folder,
              CacheDirectory::open(path, CacheDirectory::Access::read_write, kSubject));
  return write_line(folder, name, line);
}

Result<void> write_file(const std::string& path, const std::string& text) {
  // A new file of our own: in a shared folder another user may have put a link there.
  const std::string temporary = path + ".tmp" + std::to_string(::getpid());
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const int made = ::open(temporary.c_str(), flags, 0666);
  std::FILE* const file = made >= 0 ? ::fdopen(made, "w") : nullptr;
  if (file == nullptr) return io_error(path, std::strerror(errno));
  const bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) == 0 && whole && std::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const Error failed = io_error(path, std::strerror(errno));
  ::unlink(temporary.c_str());
  return failed;
}

}  // namespace

ParsedRecords read_records_folder(const std::string& path) {
  ParsedRecords all;
  if (path.empty()) return all;
  for (const std::string& each : {path, race_folder(path)}) {
    std::error_code ignored;
    if (!std::filesystem::exists(each, ignored)) continue;
    const Result<CacheDirectory> folder =
        CacheDirectory::open(each, CacheDirectory::Access::read_only, kSubject);
    if (folder)
      read_folder(*folder, each, all);
    else
      all.troubles.push_back(folder.error().message);
  }
  return all;
}

Result<void> save_in_folder(const std::string& path, const TuningRecord& record) {
  return save_line(path, file_name_of(record.key), to_json(record));
}
Result<void> save_in_folder(const std::string& path, const TunedChain& chain) {
  return save_line(path, file_name_of(chain), to_json(chain));
}

std::string file_name_of(const TuningKey& key) {
  return name_start(key.recipe) + "-" + hex(digest(key_text(key))).substr(0, 16) + kSuffix;
}

std::string file_name_of(const TunedChain& chain) {
  TunedChain key{.gpu = chain.gpu, .sm_count = chain.sm_count};
  for (const TunedChain::Step& step : chain.steps) {
    key.steps.push_back({.recipe = step.recipe});
    // to_json needs a choice of the step's kind.
    if (const auto* product = std::get_if<Recipe>(&step.recipe))
      key.steps.back().choice.kernel = product->weights == WeightType::none ? TunedChoice{} : kAnyDecoder;
  }
  return "chain-" + std::to_string(chain.steps.size()) + "-" + hex(digest(to_json(key))).substr(0, 16) +
         kSuffix;
}

Result<RecordStore> RecordStore::open_folder(const std::string& path) {
  SLUICE_TAKE(CacheDirectory folder,
              CacheDirectory::open(path, CacheDirectory::Access::read_write, kSubject));
  if (::access(path.c_str(), W_OK) != 0) return io_error(path, std::strerror(errno));
  ParsedRecords all;
  read_folder(folder, path, all);
  RecordStore store;
  store.folder_ = std::move(folder);
  store.records_ = std::move(all.records);
  store.chains_ = std::move(all.chains);
  store.troubles_ = std::move(all.troubles);
  return store;
}

Result<RecordStore> RecordStore::open_file(const std::string& path) {
  RecordStore store;
  store.file_ = path;
  std::error_code missing;
  if (std::filesystem::is_directory(path, missing))
    return Error{ErrorCode::io, escaped(path) +
                                    " is a folder, and the records go into one file: name a file in it, or "
                                    "give the folder with --records"};
  if (std::filesystem::exists(path, missing)) {
    if (!std::filesystem::is_regular_file(path, missing))
      return Error{ErrorCode::io,
                   escaped(path) + " is no regular file: name one that can be replaced as a whole"};
    const std::filesystem::path target = std::filesystem::canonical(path, missing);
    if (!missing) store.file_ = target.string();  // keeps a link
    SLUICE_TAKE(const std::string text, read_text_file(path, kMostJsonBytes));
    ParsedRecords all = parse_records(text, escaped(path));
    if (!all.troubles.empty()) return Error{ErrorCode::invalid_argument, all.troubles.front()};
    store.records_ = std::move(all.records);
    store.chains_ = std::move(all.chains);
  }
  // Checks write access now rather than after a minute of measuring.
  const std::string parent = std::filesystem::path(path).parent_path().string();
  if (::access(parent.empty() ? "." : parent.c_str(), W_OK) != 0) return io_error(path, std::strerror(errno));
  return store;
}

const TuningRecord* RecordStore::find(const TuningKey& key) const {
  const auto found = std::find_if(records_.begin(), records_.end(),
                                  [&](const TuningRecord& record) { return record.key == key; });
  return found != records_.end() ? &*found : nullptr;
}

Result<RecordStore> open_store(const std::string& out, const std::string& records, const Options& options) {
  const auto refused = [](const char* why) { return Error{ErrorCode::invalid_argument, why}; };
  if (!out.empty() && !records.empty())
    return refused("--records is a folder and --out a file of records: give one of them");
  if (!out.empty()) return RecordStore::open_file(out);
  const std::string& folder = records.empty() ? options.records_dir : records;
  if (folder.empty())
    return refused("there is no folder for records: set SLUICE_RECORDS_DIR or give --records or --out");
  return RecordStore::open_folder(folder);
}

Result<void> RecordStore::save(const TuningRecord& record) {
  std::erase_if(records_, [&](const TuningRecord& old) { return old.key == record.key; });
  records_.push_back(record);
  return write(file_name_of(record.key), to_json(record));
}

Result<void> RecordStore::save(const TunedChain& chain) {
  std::erase_if(chains_, [&](const TunedChain& old) { return same_key(old, chain); });
  chains_.push_back(chain);
  return write(file_name_of(chain), to_json(chain));
}

/// Writes the whole file; in a folder, the file of `line`.
Result<void> RecordStore::write(const std::string& name, const std::string& line) {
  if (!folder_) return write_file(file_, to_json(records_, chains_));
  return write_line(*folder_, name, line);
}

}  // namespace sluice
