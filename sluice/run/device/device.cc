// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <sluice/gemm.h>
#include <sluice/machine.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/ask_gpu.h>
#include <sluice/run/driver/error.h>
#include <sluice/run/jit/build_report.h>
#include <sluice/run/ops/race_results.h>
#include <sluice/try.h>

namespace sluice {
namespace {

Result<int> attribute(const DriverApi& api, CUdevice_attribute which, CUdevice device) {
  int value = 0;
  const CUresult code = api.cuDeviceGetAttribute(&value, which, device);
  if (code == CUDA_SUCCESS) return value;
  return driver_error(api, code, "cuDeviceGetAttribute", "attribute " + std::to_string(which));
}

/// Reads the facts that decide whether the kernels run here. Impl::info queries the others on demand.
Result<GpuFacts> read_facts(const DriverApi& api, CUdevice device) {
  GpuFacts facts;
  std::array<char, 256> name{};
  if (const CUresult code = api.cuDeviceGetName(name.data(), name.size() - 1, device); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuDeviceGetName");
  facts.name = name.data();
  int l2_bytes = 0;
  const struct {
    CUdevice_attribute which;
    int& value;
  } known[] = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, facts.compute_major},
               {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, facts.compute_minor},
               {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, facts.sm_count},
               {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, l2_bytes}};
  for (const auto& fact : known) {
    SLUICE_TAKE(const int value, attribute(api, fact.which, device));
    fact.value = value;
  }
  facts.l2_bytes = l2_bytes;
  return facts;
}

Result<CUdevice> find_device(const DriverApi& api, int ordinal) {
  if (const CUresult code = api.cuInit(0); code != CUDA_SUCCESS) return driver_error(api, code, "cuInit");
  int count = 0;
  if (const CUresult code = api.cuDeviceGetCount(&count); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count)
    return Error{ErrorCode::driver, "device " + std::to_string(ordinal) +
                                        " does not exist: this process sees " + std::to_string(count) +
                                        " of them, counted from 0; look at nvidia-smi and "
                                        "CUDA_VISIBLE_DEVICES"};
  CUdevice device = 0;
  if (const CUresult code = api.cuDeviceGet(&device, ordinal); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuDeviceGet", "device " + std::to_string(ordinal));
  return device;
}

/// Without this check prepare() would fail with the driver's message about a cubin that is too new.
Result<void> check_driver(const DriverApi& api) {
  int version = 0;
  if (const CUresult code = api.cuDriverGetVersion(&version); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuDriverGetVersion");
  if (version >= kOldestDriverCuda) return {};
  return Error{ErrorCode::driver, "the driver is for CUDA " + std::to_string(version / 1000) + "." +
                                      std::to_string(version % 1000 / 10) +
                                      ": it must be for 13.0 or newer; install the NVIDIA driver " +
                                      std::to_string(kOldestDriver) + " or newer"};
}

/// A module that keeps its context alive.
struct OwnedModule {
  std::shared_ptr<const PrimaryContext> primary;
  std::shared_ptr<const Module> module;
};

}  // namespace

Result<Device> Device::open(int ordinal, const Options& options) {
  SLUICE_TAKE(const auto driver, load_driver());
  const DriverApi& api = *driver;
  SLUICE_TRY(check_driver(api));
  SLUICE_TAKE(const CUdevice device, find_device(api, ordinal));
  SLUICE_TAKE(const GpuFacts facts, read_facts(api, device));
  if (facts.compute_major != 9 || facts.compute_minor != 0)
    return Error{ErrorCode::unsupported_arch,
                 "device " + std::to_string(ordinal) + ", " + facts.name + ", has compute capability " +
                     std::to_string(facts.compute_major) + "." + std::to_string(facts.compute_minor) +
                     ": the kernels need 9.0 (Hopper: H100, H200, GH200)"};
  SLUICE_TAKE(std::shared_ptr<const PrimaryContext> primary, PrimaryContext::retain(api, device, ordinal));
  return Device(std::make_shared<Impl>(std::move(primary), facts, options));
}

const DeviceInfo& Device::info() const {
  return impl_->info();
}

const Options& Device::options() const {
  return impl_->options;
}

const RecordBook& Device::records() const {
  return impl_->records;
}

int Device::ordinal() const {
  return impl_->primary->ordinal();
}

Device::Impl::Impl(std::shared_ptr<const PrimaryContext> context_owner, const GpuFacts& first_facts,
                   const Options& device_options)
    : primary(std::move(context_owner)),
      api(&primary->api()),
      options(device_options),
      records(open_records(device_options)),
      cache(device_options),
      facts_(first_facts) {}

std::size_t Device::Impl::next_slot() {
  static std::atomic<std::size_t> next{0};
  return next++;
}

const DeviceInfo& Device::Impl::info() {
  std::call_once(asked_, [this] {
    ask_gpu(*primary, facts_);
    info_ = device_info_of(facts_);
    card_ = card_of(*primary, facts_.name);
    ops::let_card_decide(records, card_.key());
    calibration_ = find_calibration(options.records_dir, card_);
    if (calibration_.calibration) apply(*calibration_.calibration, info_);
  });
  return info_;
}

const Card& Device::Impl::card() {
  info();
  return card_;
}

const FoundCalibration& Device::Impl::calibration() {
  info();
  return calibration_;
}

Result<std::shared_ptr<const Module>> Device::Impl::load_unit(const std::string& unit,
                                                              int dynamic_smem_bytes) {
  SLUICE_TAKE(const std::shared_ptr<const Cubin> cubin, cache.get(unit));
  return load_cubin(unit, *cubin, dynamic_smem_bytes);
}

Result<std::shared_ptr<const Module>> Device::Impl::load_cubin(const std::string& unit, const Cubin& cubin,
                                                               int dynamic_smem_bytes) {
  const std::string key = unit + "// dynamic shared memory: " + std::to_string(dynamic_smem_bytes);
  if (std::shared_ptr<const Module> loaded = find_module(key)) return loaded;
  const ContextScope scope(*primary);
  SLUICE_TRY(scope.entered());
  // Loads without the lock: loading may wait for running GPU work.
  SLUICE_TAKE(std::shared_ptr<const Module> module, Module::load(*api, cubin, dynamic_smem_bytes));
  const auto owned = std::make_shared<const OwnedModule>(OwnedModule{primary, std::move(module)});
  const std::shared_ptr<const Module> shared(owned, owned->module.get());
  const std::lock_guard lock(mutex);
  std::erase_if(modules, [](const auto& entry) { return entry.second.expired(); });
  if (std::shared_ptr<const Module> first = modules[key].lock()) return first;  // another thread was first
  modules[key] = shared;
  return shared;
}

std::shared_ptr<const Module> Device::Impl::find_module(const std::string& key) {
  const std::lock_guard lock(mutex);
  const auto found = modules.find(key);
  return found != modules.end() ? found->second.lock() : nullptr;
}

}  // namespace sluice
