// SPDX-License-Identifier: Apache-2.0
// Finds the CUDA driver. A failure is not remembered, because a driver may be mounted into a container later.
#include <sluice/machine.h>
#include <sluice/run/driver/api.h>
#include <sluice/try.h>

#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <string>

namespace sluice {
namespace {

std::atomic<const DriverApi*> replacement{nullptr};

Result<DriverApi> find_calls(void* library) {
  DriverApi api;
#define SLUICE_DRIVER_SYMBOL(name) #name
#define SLUICE_DRIVER_LOOK_UP(name) \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, SLUICE_DRIVER_SYMBOL(name)));
#define SLUICE_DRIVER_FIND(name)                                                                          \
  SLUICE_DRIVER_LOOK_UP(name)                                                                             \
  if (api.name == nullptr)                                                                                \
    return Error{ErrorCode::driver,                                                                       \
                 "libcuda.so.1 has no " SLUICE_DRIVER_SYMBOL(name) +                                      \
                     (": the CUDA driver is too old; install version " + std::to_string(kOldestDriver)) + \
                     " or newer"};
  SLUICE_DRIVER_CALLS(SLUICE_DRIVER_FIND)
  SLUICE_OPTIONAL_DRIVER_CALLS(SLUICE_DRIVER_LOOK_UP)
#undef SLUICE_DRIVER_FIND
#undef SLUICE_DRIVER_LOOK_UP
#undef SLUICE_DRIVER_SYMBOL
  return api;
}

}  // namespace

Result<const DriverApi*> load_driver() {
  if (const DriverApi* fake = replacement.load(std::memory_order_acquire)) return fake;
  static std::mutex mutex;  // held while the library is loaded; loading does not wait for a GPU
  static DriverApi api;
  static bool found = false;
  const std::lock_guard lock(mutex);
  if (found) return &api;
  // Never closed, because the driver starts threads.
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return Error{ErrorCode::driver,
                 std::string("cannot load the CUDA driver: ") + (reason != nullptr ? reason : "unknown") +
                     "; a GPU machine has it with its NVIDIA driver, a container gets it from the NVIDIA "
                     "container toolkit (--gpus all)"};
  }
  SLUICE_TAKE(DriverApi calls, find_calls(library));
  api = calls;
  found = true;
  return &api;
}

const DriverApi* replace_driver_for_test(const DriverApi* fake) {
  return replacement.exchange(fake, std::memory_order_acq_rel);
}

}  // namespace sluice
