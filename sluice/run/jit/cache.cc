// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/jit/cache.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>

#include <sluice/run/jit/build_id.h>
#include <sluice/run/jit/cache_directory.h>
#include <sluice/run/jit/cache_entry.h>
#include <sluice/run/jit/cache_key.h>
#include <sluice/run/jit/compiler.h>
#include <sluice/run/jit/kernel_log.h>
#include <sluice/text.h>
#include <sluice/try.h>

namespace sluice {

using Shared = std::shared_ptr<const Cubin>;
using SharedResult = Result<Shared>;

namespace {

struct Lookup {
  Shared cubin;          // nullptr: absent or damaged
  bool damaged = false;  // true: a file with this name exists, but it is not the entry
};

/// Longest wait for another process's lock. A healthy process holds one for well under a second; a stopped
/// process must not block others.
constexpr std::chrono::seconds kLockTimeout{30};

}  // namespace

struct KernelCache::State {
  Options options;
  CompilerSeam compiler;
  std::optional<CacheDirectory> directory;
  std::string disk_problem;
  std::mutex version_mutex;
  std::string version;  // empty: not queried yet, or no compiler was found so far

  std::mutex mutex;  // guards the two maps
  std::unordered_map<std::string, Shared> ready;
  std::unordered_map<std::string, std::shared_future<SharedResult>> in_flight;

  std::atomic<int> memory_hits{0}, disk_hits{0}, compiles{0}, damaged{0}, write_failures{0};
  std::atomic<bool> requires_disk{false};
  std::mutex problem_mutex;
  std::string write_problem;  // the first one

  void keep_problem(const Error& error);
  std::string first_problem();

  void open_directory();
  std::string compiler_version();
  SharedResult produce(const std::string& unit);
  void log_kernel(const std::string& unit);
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

/// Queries the compiler until the version is known, because it may be installed while the process runs.
std::string KernelCache::State::compiler_version() {
  const std::lock_guard guard(version_mutex);
  if (version.empty()) version = compiler.version();
  return version;
}

SharedResult KernelCache::State::compile(const std::string& unit) {
  SLUICE_TAKE(Cubin made, compiler.compile(unit));
  ++compiles;
  return Shared(std::make_shared<const Cubin>(std::move(made)));
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

/// Finds an entry of any compiler version; the newest first.
Shared KernelCache::State::read_any(const std::string& source) {
  std::vector<std::string> names = directory->list(any_compiler_prefix(source));
  std::sort(names.begin(), names.end(), is_older_name);
  for (auto name = names.rbegin(); name != names.rend(); ++name)
    if (const std::string by = compiler_of(*name); !by.empty())
      if (Lookup found = read(source, by); found.cubin) return found.cubin;
  return nullptr;
}

SharedResult KernelCache::State::compile_and_keep(const std::string& unit, const std::string& source,
                                                  const std::string& by) {
  const std::string name = entry_name(source, by);
  const Result<CacheDirectory::Lock> lock = directory->lock(name, kLockTimeout);
  const Lookup found = read(source, by);
  if (found.cubin) return found.cubin;  // another process compiled it in the meantime
  if (!lock) keep_problem(lock.error());
  if (const std::string problem = first_problem(); requires_disk && !problem.empty())
    return Error{ErrorCode::io, "the kernel cannot be kept: " + problem};
  if (found.damaged && lock) directory->remove(name, *lock);
  SharedResult made = compile(unit);
  if (!made || !lock) return made;
  const Result<void> kept = directory->write(name, encode_entry(full_key(source, by), **made), *lock);
  if (kept) return made;
  keep_problem(kept.error());
  if (requires_disk) return Error{ErrorCode::io, "the kernel cannot be kept: " + first_problem()};
  return made;
}

/// `why`: the system's reason, or the rule that was broken.
std::string unwritable(const std::string& folder, const std::string& why) {
  return "the kernel cache '" + escaped(folder) + "' cannot be written: " + why +
         "; name a writable folder with space in it with SLUICE_CACHE_DIR, or set SLUICE_CACHE_READ_ONLY=1 "
         "to "
         "use what is there; until then every process compiles anew";
}

void KernelCache::State::keep_problem(const Error& error) {
  ++write_failures;
  const std::lock_guard guard(problem_mutex);
  if (write_problem.empty()) write_problem = unwritable(options.cache_dir, error.message);
}

std::string KernelCache::State::first_problem() {
  const std::lock_guard guard(problem_mutex);
  return write_problem;
}

SharedResult KernelCache::State::produce(const std::string& unit) {
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

void KernelCache::State::log_kernel(const std::string& unit) {
  if (options.kernel_log.empty()) return;
  append_kernel_log(options.kernel_log, entry_name(source_key(unit), compiler_version()), unit);
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
            // NVRTC reports only its major and minor version, but two builds of one version emit different
            // code.
            const auto with_build = [](const std::string& version, const std::string& file) {
              const std::string build = build_id_of(file);
              return build.empty() ? version : version + " " + build;
            };
            if (found && !found->version.empty()) return with_build("NVRTC " + found->version, found->file);
            const auto compiler = load();
            return compiler ? with_build((*compiler)->version(), (*compiler)->path()) : std::string();
          },
          .compile = [load](const std::string& unit) -> Result<Cubin> {
            SLUICE_TAKE(const auto compiler, load());
            return compiler->compile(unit);
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
    if (result) state.log_kernel(unit);
    {
      const std::lock_guard guard(state.mutex);
      if (result) state.ready.emplace(unit, *result);
      state.in_flight.erase(unit);
    }
    promise.set_value(result);
    return result;
  } catch (...) {  // out of memory: waiting threads get the exception, and the next request tries again
    const std::lock_guard guard(state.mutex);
    state.in_flight.erase(unit);
    promise.set_exception(std::current_exception());
    throw;
  }
}

namespace {

/// Calls get() on a thread of the cache, where an exception (out of memory) must not end the process.
SharedResult caught(const KernelCache& cache, const std::string& unit) {
  try {
    return cache.get(unit);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::internal,
                 "this machine has too little memory to compile a kernel: ask for fewer jobs"};
  } catch (const std::exception& error) {
    return Error{ErrorCode::internal, std::string("an exception, which is a bug of sluice: ") + error.what()};
  } catch (...) {
    return Error{ErrorCode::internal, "an unknown exception, which is a bug of sluice"};
  }
}

}  // namespace

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
      results[i] = caught(*this, *distinct[i]);
      const std::lock_guard guard(progress_mutex);
      ++done;
      if (progress) progress(done, total);
    }
  };

  if (jobs <= 0) jobs = state_->options.jobs;
  if (jobs <= 0) jobs = static_cast<int>(std::thread::hardware_concurrency());
  std::vector<std::jthread> helpers;
  try {  // if no thread can be started, this thread does the work
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

void KernelCache::require_disk() {
  state_->requires_disk = true;
}

std::string KernelCache::write_problem() const {
  return state_->first_problem();
}

std::string KernelCache::probe_disk() const {
  if (!state_->directory || state_->options.cache_read_only) return {};
  const Result<void> probed = state_->directory->probe();
  return probed ? std::string() : unwritable(state_->options.cache_dir, probed.error().message);
}

const std::string& KernelCache::disk_problem() const {
  return state_->disk_problem;
}

}  // namespace sluice
