// SPDX-License-Identifier: Apache-2.0
// The three steps of get(), and the threads of get_all().
#include <sluice/host/jit/cache.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>

#include <sluice/host/jit/cache_directory.h>
#include <sluice/host/jit/cache_entry.h>
#include <sluice/host/jit/cache_key.h>
#include <sluice/host/jit/compiler.h>

namespace sluice {

using Shared = std::shared_ptr<const Cubin>;
using SharedResult = Result<Shared>;

namespace {

struct Lookup {
  Shared cubin;          // nullptr: absent or damaged
  bool damaged = false;  // something is there under this name, and it is not the entry
};

/// A healthy holder needs well under a second; one that was stopped must not stop everybody.
constexpr std::chrono::seconds kLockTimeout{30};

}  // namespace

struct KernelCache::State {
  Options options;
  CompilerSeam compiler;
  std::optional<CacheDirectory> directory;
  std::string disk_problem;
  std::mutex version_mutex;
  std::string version;  // empty: not known yet, or no compiler so far

  std::mutex mutex;  // of the two maps
  std::unordered_map<std::string, Shared> ready;
  std::unordered_map<std::string, std::shared_future<SharedResult>> in_flight;

  std::atomic<int> memory_hits{0}, disk_hits{0}, compiles{0}, damaged{0}, write_failures{0};

  void open_directory();
  std::string compiler_version();
  SharedResult produce(const std::string& bare_unit);
  SharedResult compile(const std::string& unit);
  Lookup read(const std::string& source, const std::string& compiler_text);
  Shared read_any(const std::string& source);
  SharedResult compile_and_keep(const std::string& unit, const std::string& source, const std::string& by);
};

void KernelCache::State::open_directory() {
  if (options.cache_dir.empty()) {
    disk_problem = "no cache folder: set SLUICE_CACHE_DIR";
    return;
  }
  const auto access =
      options.cache_read_only ? CacheDirectory::Access::read_only : CacheDirectory::Access::read_write;
  Result<CacheDirectory> opened = CacheDirectory::open(options.cache_dir, access);
  if (opened)
    directory.emplace(*std::move(opened));
  else
    disk_problem = opened.error().message;
}

/// Asked for until there is one: a compiler may be installed while the process runs.
std::string KernelCache::State::compiler_version() {
  const std::lock_guard guard(version_mutex);
  if (version.empty()) version = compiler.version();
  return version;
}

SharedResult KernelCache::State::compile(const std::string& unit) {
  Result<Cubin> made = compiler.compile(unit);
  if (!made) return made.error();
  ++compiles;
  return Shared(std::make_shared<const Cubin>(*std::move(made)));
}

Lookup KernelCache::State::read(const std::string& source, const std::string& compiler_text) {
  const CacheDirectory::ReadResult file = directory->read(entry_name(source, compiler_text));
  if (file.state == CacheDirectory::ReadState::absent) return {};
  std::optional<CacheEntry> entry;
  if (file.state == CacheDirectory::ReadState::whole) entry = decode_entry(file.bytes);
  if (!entry || entry->key != full_key(source, compiler_text)) return {.cubin = nullptr, .damaged = true};
  ++disk_hits;
  return {.cubin = std::make_shared<const Cubin>(std::move(entry->cubin)), .damaged = false};
}

/// An entry by any compiler, the last name first.
Shared KernelCache::State::read_any(const std::string& source) {
  const std::vector<std::string> names = directory->list(any_compiler_prefix(source));
  for (auto name = names.rbegin(); name != names.rend(); ++name)
    if (const std::string by = compiler_of(*name); !by.empty())
      if (Lookup found = read(source, by); found.cubin) return found.cubin;
  return nullptr;
}

SharedResult KernelCache::State::compile_and_keep(const std::string& unit, const std::string& source,
                                                  const std::string& by) {
  const std::string name = entry_name(source, by);
  const std::optional<CacheDirectory::Lock> lock = directory->lock(name, kLockTimeout);
  const Lookup found = read(source, by);
  if (found.cubin) return found.cubin;  // another process was first
  if (found.damaged && lock) directory->remove(name, *lock);
  SharedResult made = compile(unit);
  if (!made) return made;
  const bool kept = lock && directory->write(name, encode_entry(full_key(source, by), **made), *lock);
  if (!kept) ++write_failures;
  return made;
}

SharedResult KernelCache::State::produce(const std::string& bare_unit) {
  const std::string unit = compiler.prologue + bare_unit;
  if (!directory) return compile(unit);
  const std::string source = source_key(unit);
  const std::string by = compiler_version();
  const bool have_compiler = !by.empty();
  if (have_compiler) {
    const Lookup found = read(source, by);
    if (found.cubin) return found.cubin;
    if (found.damaged) ++damaged;
  }
  if (have_compiler && !options.cache_read_only) return compile_and_keep(unit, source, by);
  if (Shared found = read_any(source)) return found;
  return compile(unit);
}

CompilerSeam nvrtc_compiler(const std::string& nvrtc_path) {
  struct Lazy {
    std::mutex mutex;
    std::shared_ptr<const Compiler> loaded;
  };
  auto lazy = std::make_shared<Lazy>();
  const auto load = [lazy, nvrtc_path]() -> Result<std::shared_ptr<const Compiler>> {
    const std::lock_guard guard(lazy->mutex);
    if (lazy->loaded) return lazy->loaded;
    Result<std::shared_ptr<const Compiler>> made = Compiler::load(nvrtc_path);
    if (made) lazy->loaded = *made;
    return made;
  };
  return {.version = [load, nvrtc_path]() -> std::string {
            const Result<NvrtcLocation> found = locate_nvrtc(nvrtc_path);
            if (found && !found->version.empty()) return "NVRTC " + found->version;
            const auto compiler = load();
            return compiler ? (*compiler)->version() : std::string();
          },
          .compile = [load](const std::string& unit) -> Result<Cubin> {
            const auto compiler = load();
            if (!compiler) return compiler.error();
            return (*compiler)->compile(unit);
          }};
}

KernelCache::KernelCache(const Options& options) : KernelCache(options, nvrtc_compiler(options.nvrtc_path)) {}

KernelCache::KernelCache(const Options& options, CompilerSeam compiler) : state_(std::make_unique<State>()) {
  state_->options = options;
  state_->compiler = std::move(compiler);
  state_->open_directory();
}

KernelCache::~KernelCache() = default;
KernelCache::KernelCache(KernelCache&&) noexcept = default;
KernelCache& KernelCache::operator=(KernelCache&&) noexcept = default;

SharedResult KernelCache::get(const std::string& unit) const {
  State& state = *state_;
  std::promise<SharedResult> promise;
  {
    std::unique_lock guard(state.mutex);
    if (const auto found = state.ready.find(unit); found != state.ready.end()) {
      ++state.memory_hits;
      return found->second;
    }
    if (const auto found = state.in_flight.find(unit); found != state.in_flight.end()) {
      const std::shared_future<SharedResult> other = found->second;
      guard.unlock();
      return other.get();
    }
    state.in_flight.emplace(unit, promise.get_future().share());
  }
  try {
    SharedResult result = state.produce(unit);
    {
      const std::lock_guard guard(state.mutex);
      if (result) state.ready.emplace(unit, *result);
      state.in_flight.erase(unit);
    }
    promise.set_value(result);
    return result;
  } catch (...) {  // out of memory: whoever waits hears of it, and the next one tries again
    const std::lock_guard guard(state.mutex);
    state.in_flight.erase(unit);
    promise.set_exception(std::current_exception());
    throw;
  }
}

std::vector<SharedResult> KernelCache::get_all(std::span<const std::string> units, int jobs,
                                               const Progress& progress) const {
  std::unordered_map<std::string_view, size_t> index_of;
  std::vector<const std::string*> distinct;
  for (const std::string& unit : units)
    if (index_of.emplace(unit, distinct.size()).second) distinct.push_back(&unit);

  const int total = static_cast<int>(distinct.size());
  std::vector<std::optional<SharedResult>> results(distinct.size());
  std::atomic<int> next{0};
  std::mutex progress_mutex;
  int done = 0;
  const auto work = [&] {
    for (int i = next++; i < total; i = next++) {
      results[i] = get(*distinct[i]);
      const std::lock_guard guard(progress_mutex);
      ++done;
      if (progress) progress(done, total);
    }
  };

  if (jobs <= 0) jobs = state_->options.jobs;
  if (jobs <= 0) jobs = static_cast<int>(std::thread::hardware_concurrency());
  std::vector<std::jthread> helpers;
  try {  // a machine that is out of threads still has this one
    while (static_cast<int>(helpers.size()) + 1 < std::min(jobs, total)) helpers.emplace_back(work);
  } catch (const std::system_error&) {
  }
  work();
  for (std::jthread& helper : helpers) helper.join();

  std::vector<SharedResult> answers;
  answers.reserve(units.size());
  for (const std::string& unit : units) answers.push_back(*results[index_of.at(unit)]);
  return answers;
}

CacheStats KernelCache::stats() const {
  return {.memory_hits = state_->memory_hits,
          .disk_hits = state_->disk_hits,
          .compiles = state_->compiles,
          .damaged = state_->damaged,
          .write_failures = state_->write_failures};
}

const std::string& KernelCache::disk_problem() const {
  return state_->disk_problem;
}

}  // namespace sluice
