// SPDX-License-Identifier: Apache-2.0
// Checks the steps of docs/ladder. Without a GPU: each step must compile for sm_90a without spills, stack or
// messages of the compiler. On a GPU: each must also compute the right D for two shapes, and is timed.
//   sluice_ladder docs/ladder                  a row for each step; exit code 1 if one is wrong
//   sluice_ladder docs/ladder --compile-only   never uses a GPU
//   sluice_ladder docs/ladder --gpu            exit code 77 (skipped) without a Hopper GPU
//   sluice_ladder docs/ladder --self-test      checks that planted faults are found; wrong results need a GPU
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <docs/ladder/ladder.h>

#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/launch.h>
#include <sluice/run/driver/memory.h>
#include <sluice/run/driver/tensor_map.h>
#include <sluice/run/jit/compiler.h>
#include <sluice/try.h>

namespace sluice {
namespace {

constexpr int kSteps = static_cast<int>(std::size(ladder::kSteps));
constexpr const char* kInclude = "#include \"ladder.h\"\n";

struct Shape {
  int m, n, k;
};
constexpr Shape kSmall{384, 512, 832};     // 13 k-tiles: not a multiple of any ring's number of stages
constexpr Shape kLarge{4096, 4096, 4096};  // the shape that is timed
constexpr int kSamples = 4096;             // number of elements of D that are compared for the large shape

/// Dynamic shared memory: the ring, and 1024 bytes for its alignment and the barriers.
constexpr int smem_bytes(const ladder::Launch& launch) {
  return launch.row_bytes == 0 ? 0
                               : launch.stages * (launch.tile_m + launch.tile_n) * launch.row_bytes + 1024;
}

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns a step's source with ladder.h inserted, because NVRTC is given no include path. Returns "" if the
/// file is missing or does not include ladder.h.
std::string unit_of(const std::string& folder, int step) {
  std::string text = file_text(folder + "/step_0" + std::to_string(step + 1) + ".cu");
  const size_t at = text.find(kInclude);
  return at == std::string::npos
             ? ""
             : text.replace(at, std::string(kInclude).size(), file_text(folder + "/ladder.h"));
}

/// Result of compiling a step; `fault` is empty if nothing is wrong.
struct Compiled {
  int registers = 0;
  std::string fault{};
};

Compiled compile_step(const Compiler& compiler, const std::string& unit) {
  if (unit.empty()) return {.fault = "the file is missing, or does not include ladder.h"};
  const Result<Cubin> cubin = compiler.compile(unit);
  if (!cubin) {
    const std::string& message = cubin.error().message;
    // Without the source text, which is in docs/ladder anyway.
    return {.fault = message.substr(0, message.find("\nin the unit\n"))};
  }
  const BuildReport& report = cubin->report;
  if (report.spill_bytes > 0 || report.stack_bytes > 0)
    return {report.registers, std::to_string(report.spill_bytes) + " bytes of spills, " +
                                  std::to_string(report.stack_bytes) + " of stack"};
  return {report.registers, report.log};
}

float to_float(ladder::bf16 value) {
  const u32 bits = static_cast<u32>(value) << 16;
  float result;
  static_assert(sizeof(result) == sizeof(bits));
  std::copy_n(reinterpret_cast<const char*>(&bits), sizeof(bits), reinterpret_cast<char*>(&result));
  return result;
}

/// Random bf16 values between -1 and 1.
std::vector<ladder::bf16> random_matrix(i64 elements, u64 seed) {
  std::mt19937_64 random(seed);
  std::vector<ladder::bf16> values(static_cast<size_t>(elements));
  for (ladder::bf16& value : values) {
    const u64 bits = random();
    const auto exponent = static_cast<u32>(126 - bits % 6);  // magnitudes from 1/64 to 1
    value = static_cast<ladder::bf16>((bits >> 8 & 0x807f) | exponent << 7);
  }
  return values;
}

/// Operands and result of one shape, on host and GPU.
struct Matrices {
  Shape shape{};
  std::vector<ladder::bf16> a{}, b{};
  DeviceBuffer device_a{}, device_b{}, device_d{};

  static Result<Matrices> create(const Device& device, const Shape& shape) {
    Matrices made{.shape = shape,
                  .a = random_matrix(i64{shape.m} * shape.k, 1),
                  .b = random_matrix(i64{shape.n} * shape.k, 2)};
    const auto put = [&](const void* source, i64 bytes, DeviceBuffer& target) -> Result<void> {
      SLUICE_TAKE(target, DeviceBuffer::allocate(device, bytes));
      if (source != nullptr) return target.upload(source, bytes);
      return {};
    };
    SLUICE_TRY(put(made.a.data(), i64{shape.m} * shape.k * 2, made.device_a));
    SLUICE_TRY(put(made.b.data(), i64{shape.n} * shape.k * 2, made.device_b));
    SLUICE_TRY(put(nullptr, i64{shape.m} * shape.n * 4, made.device_d));
    return made;
  }
};

Result<ladder::Params> params_of(const Device& device, const ladder::Launch& launch, const Matrices& x) {
  const DriverApi& api = *device.impl().api;
  ladder::Params params{.a = static_cast<const ladder::bf16*>(x.device_a.data()),
                        .b = static_cast<const ladder::bf16*>(x.device_b.data()),
                        .d = static_cast<float*>(x.device_d.data()),
                        .m = x.shape.m,
                        .n = x.shape.n,
                        .k = x.shape.k};
  const auto map = [&](const char* name, TensorMap& target, const DeviceBuffer& matrix, int rows,
                       int box_rows) -> Result<void> {
    SLUICE_TRY(encode_tensor_map(api, name,
                                 {.inner = x.shape.k,
                                  .outer = rows,
                                  .ld = x.shape.k,
                                  .box_inner = launch.tile_k,
                                  .box_outer = box_rows},
                                 target));
    if (replace_address(api, target, matrix.data()) == CUDA_SUCCESS) return {};
    return Error{ErrorCode::driver, std::string("no tensor map for ") + name};
  };
  if (launch.row_bytes != 128) return params;  // the kernel does not use TMA, so there are no tensor maps
  SLUICE_TRY(map("A", params.map_a, x.device_a, x.shape.m, launch.tile_m));
  SLUICE_TRY(map("B", params.map_b, x.device_b, x.shape.n, launch.tile_n));
  return params;
}

/// Returns the number of checked elements whose distance from the sum in double is more than fp32 sums of k
/// products can explain.
int wrong_elements(const Matrices& x, const std::vector<float>& d) {
  const Shape& s = x.shape;
  const i64 all = i64{s.m} * s.n;
  std::mt19937_64 random(3);
  int wrong = 0;
  for (i64 i = 0; i < std::min<i64>(all, all <= i64{kSmall.m} * kSmall.n ? all : kSamples); ++i) {
    const i64 at = all <= i64{kSmall.m} * kSmall.n ? i : static_cast<i64>(random() % static_cast<u64>(all));
    double sum = 0, size = 0;
    for (i64 k = 0; k < s.k; ++k) {
      const double product = double{to_float(x.a[static_cast<size_t>(at / s.n * s.k + k)])} *
                             to_float(x.b[static_cast<size_t>(at % s.n * s.k + k)]);
      sum += product;
      size += std::abs(product);
    }
    // Each addition has a relative error of at most 2^-24 if it rounds. Tensor cores truncate: 2^-22.
    if (!(std::abs(d[static_cast<size_t>(at)] - sum) <= s.k * 0x1p-22 * size + 1e-30)) ++wrong;
  }
  return wrong;
}

struct Ran {
  int wrong = 0;
  double us = 0;
};

/// Returns the median time of nine launches, after one that is not timed.
Result<Ran> run_step(const Device& device, const ladder::Launch& launch, const std::string& unit,
                     const Matrices& x) {
  SLUICE_TAKE(const auto module, device.impl().load_unit(unit, smem_bytes(launch)));
  const ContextScope scope(*device.impl().primary);  // encoding a tensor map requires a current context
  SLUICE_TRY(scope.entered());
  SLUICE_TAKE(const ladder::Params params, params_of(device, launch, x));
  SLUICE_TAKE(const StreamHandle stream, StreamHandle::create(device));
  const auto columns = static_cast<u32>(x.shape.n / launch.tile_n),
             rows = static_cast<u32>(x.shape.m / launch.tile_m);
  const LaunchShape shape{.grid_x = launch.persistent
                                        ? std::min(columns * rows, static_cast<u32>(device.info().sm_count))
                                        : columns,
                          .grid_y = launch.persistent ? 1 : rows,
                          .block_x = static_cast<u32>(launch.threads),
                          .smem_bytes = static_cast<u32>(smem_bytes(launch))};
  // NaN, so that an element that is never written counts as wrong.
  SLUICE_TRY(x.device_d.fill(0xff, stream.get()));
  std::vector<double> times;
  for (int i = 0; i < 10; ++i) {
    SLUICE_TAKE(const Event begin, Event::create(device));
    SLUICE_TAKE(const Event end, Event::create(device));
    SLUICE_TRY(begin.record(stream.get()));
    SLUICE_TRY(launch_kernel(*device.impl().api, module->function(), shape, &params, stream.get()));
    SLUICE_TRY(end.record(stream.get()));
    SLUICE_TRY(stream.synchronize());
    SLUICE_TAKE(const double us, end.microseconds_since(begin));
    if (i > 0) times.push_back(us);
  }
  std::vector<float> d(static_cast<size_t>(x.shape.m) * static_cast<size_t>(x.shape.n));
  SLUICE_TRY(x.device_d.download(d.data(), static_cast<i64>(d.size() * sizeof(float))));
  std::nth_element(times.begin(), times.begin() + 4, times.end());
  return Ran{wrong_elements(x, d), times[4]};
}

/// Runs a step and prints its row of the table. Returns false if something is wrong.
Result<bool> run_on_gpu(const Device& device, const std::string& folder, int step) {
  const std::string unit = unit_of(folder, step);
  bool right = true;
  for (const Shape& shape : {kSmall, kLarge}) {
    SLUICE_TAKE(const Matrices x, Matrices::create(device, shape));
    SLUICE_TAKE(const Ran ran, run_step(device, ladder::kSteps[step], unit, x));
    std::printf("  %4d x %4d x %4d  %10.1f us  %7.1f TFLOP/s  %s\n", shape.m, shape.n, shape.k, ran.us,
                2.0 * shape.m * shape.n * shape.k / ran.us / 1e6,
                ran.wrong == 0 ? "right" : (std::to_string(ran.wrong) + " elements are WRONG").c_str());
    right = right && ran.wrong == 0;
  }
  return right;
}

enum class Where { compile_only, gpu_if_any, gpu };

constexpr int kSkipped = 77;  // ctest's SKIP_RETURN_CODE

Result<int> run_all(const std::string& folder, Where where) {
  const Options options = options_from_environment();
  SLUICE_TAKE(const auto compiler, Compiler::load(options.nvrtc_path));
  const Result<Device> device = where == Where::compile_only
                                    ? Result<Device>(Error{ErrorCode::driver, "not asked for"})
                                    : Device::open(0, options);
  if (where == Where::gpu && !device) {
    std::printf("skipped: %s\n", device.error().message.c_str());
    return kSkipped;
  }
  std::printf("%s%s\n", compiler->version().c_str(),
              device ? (", " + device->info().name).c_str() : ": compiled, and run nowhere");
  int faults = 0;
  for (int step = 0; step < kSteps; ++step) {
    const Compiled compiled = compile_step(*compiler, unit_of(folder, step));
    std::printf("step %d  %3d registers  %6d bytes of shared memory  %s\n", step + 1, compiled.registers,
                smem_bytes(ladder::kSteps[step]),
                compiled.fault.empty() ? "compiles" : compiled.fault.c_str());
    if (!compiled.fault.empty()) {
      ++faults;
    } else if (device) {
      SLUICE_TAKE(const bool right, run_on_gpu(*device, folder, step));
      faults += right ? 0 : 1;
    }
  }
  return faults == 0 ? 0 : 1;
}

/// Returns the text with `from` replaced by `to`. If it does not contain `from`, the text is unchanged, and
/// the caller's test then fails.
std::string planted(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

Result<int> self_test(const std::string& folder) {
  const Options options = options_from_environment();
  SLUICE_TAKE(const auto compiler, Compiler::load(options.nvrtc_path));
  int missed = 0;
  const auto expect = [&](bool seen, const char* what) {
    std::printf("%s: %s\n", what, seen ? "seen" : "MISSED");
    missed += seen ? 0 : 1;
  };
  const std::string plain = unit_of(folder, 0), roles = unit_of(folder, 6);
  expect(compile_step(*compiler, plain).fault.empty() && compile_step(*compiler, roles).fault.empty(),
         "two steps as they are");
  expect(!compile_step(*compiler, planted(plain, "sum = 0", "sums = 0")).fault.empty(),
         "a name that is none");
  expect(!compile_step(*compiler,
                       planted(plain, "float sum = 0;",
                               "float many[64] = {}; float& sum = many[p.m % 64]; many[p.n % 64] = 1;"))
              .fault.empty(),
         "an array on the stack");
  expect(!compile_step(*compiler, planted(roles, "bounds__(384, 1)", "bounds__(384, 2)")).fault.empty(),
         "too few registers");
  expect(unit_of(folder, kSteps).empty(), "a step that is not there");
  const Result<Device> device = Device::open(0, options);
  if (!device) return missed == 0 ? 0 : 1;
  SLUICE_TAKE(const Matrices x, Matrices::create(*device, kSmall));
  for (const auto& [from, to] :
       {std::pair{"i = 0; i < p.k", "i = 1; i < p.k"}, {"column] = sum", "column] = sum * 1.001f"}}) {
    SLUICE_TAKE(const Ran ran, run_step(*device, ladder::kSteps[0], planted(plain, from, to), x));
    expect(ran.wrong > 0, to);
  }
  return missed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "docs/ladder", how = argc > 2 ? argv[2] : "";
  const auto where = how == "--compile-only" ? sluice::Where::compile_only
                     : how == "--gpu"        ? sluice::Where::gpu
                                             : sluice::Where::gpu_if_any;
  const sluice::Result<int> code =
      how == "--self-test" ? sluice::self_test(folder) : sluice::run_all(folder, where);
  if (code) return *code;
  std::fprintf(stderr, "%s\n", code.error().message.c_str());
  const bool skip =
      code.error().code == sluice::ErrorCode::toolchain && std::getenv("SLUICE_NO_SKIPS") == nullptr;
  return skip ? sluice::kSkipped : 2;
}
