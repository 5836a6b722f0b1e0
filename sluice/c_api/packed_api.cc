// SPDX-License-Identifier: Apache-2.0
// The C interface of packed weights: packing, on the GPU and on the host, and mixed products.
#include <sluice/c_api/choices.h>
#include <sluice/c_api/error.h>
#include <sluice/c_api/handles.h>
#include <sluice/c_api/packed.h>
#include <sluice/host/mixed_units.h>

using namespace sluice;
using namespace sluice::c_api;

namespace {

enum class Direction { pack, unpack };

sluice_status move_on_gpu(Direction direction, sluice_device* device, const sluice_packing* what,
                          Stream stream) {
  return guarded([&] {
    if (device == nullptr || what == nullptr)
      return fail(null_argument(device == nullptr ? "device" : "what"));
    const Result<PackCall> call = packing_of(*what);
    if (!call) return fail(call.error());
    if (const int ordinal = device->session.device().ordinal(); call->device != ordinal)
      return fail({ErrorCode::wrong_device, "codes are not on cuda:" + std::to_string(ordinal) +
                                                ", where the call is to run: move all arrays there"});
    return status_of(direction == Direction::pack ? device->packed.pack(*call, stream)
                                                  : device->packed.unpack(*call, stream));
  });
}

sluice_status move_on_host(Direction direction, const sluice_packing* what) {
  return guarded([&] {
    if (what == nullptr) return fail(null_argument("what"));
    const Result<PackCall> call = packing_of(*what);
    if (!call) return fail(call.error());
    if (call->device >= 0)
      return fail({ErrorCode::wrong_device, "codes are on cuda:" + std::to_string(call->device) +
                                                ": call sluice_pack or sluice_unpack, or move all arrays "
                                                "to host memory"});
    return status_of(direction == Direction::pack ? pack_on_host(*call) : unpack_on_host(*call));
  });
}

Result<mixed::Overrides> overrides_of(const sluice_mixed_choices* given) {
  mixed::Overrides overrides;
  if (given == nullptr) return overrides;
  const struct {
    const char* name;
    int32_t value;
    std::optional<int>& target;
  } choices[] = {{"token_blocks", given->token_blocks, overrides.token_blocks},
                 {"row_blocks", given->row_blocks, overrides.row_blocks},
                 {"warps", given->warps, overrides.warps},
                 {"stages", given->stages, overrides.stages},
                 {"parts", given->parts, overrides.parts},
                 {"ctas", given->ctas, overrides.ctas},
                 {"tokens", given->tokens, overrides.tokens},
                 {"cluster_n", given->cluster_n, overrides.cluster_n},
                 {"cluster_k", given->cluster_k, overrides.cluster_k},
                 {"x_stages", given->x_stages, overrides.x_stages},
                 {"w_stages", given->w_stages, overrides.w_stages},
                 {"tail_parts", given->tail_parts, overrides.tail_parts},
                 {"strips", given->strips, overrides.strips},
                 {"k_groups", given->k_groups, overrides.k_groups}};
  for (const auto& [name, value, target] : choices) {
    if (Result<void> good = check_choice({name, value}); !good) return good.error();
    if (value >= 0) target = value;
  }
  if (Result<void> good = check_choice({"ignore_records", given->ignore_records, 1}); !good)
    return good.error();
  overrides.ignore_records = given->ignore_records > 0;
  return overrides;
}

}  // namespace

extern "C" {

sluice_status sluice_packed_numbers_of(const sluice_weight_format* format, int64_t n, int64_t k,
                                       sluice_packed_numbers* numbers) {
  return guarded([&] {
    if (format == nullptr || numbers == nullptr)
      return fail(null_argument(format == nullptr ? "format" : "numbers"));
    const Result<WeightFormat> checked = format_of(*format);
    if (!checked) return fail(checked.error());
    const Result<sluice_packed_numbers> found = numbers_of(*checked, n, k);
    if (!found) return fail(found.error());
    *numbers = *found;
    return SLUICE_OK;
  });
}

sluice_status sluice_pack(sluice_device* device, const sluice_packing* what, sluice_stream stream) {
  return move_on_gpu(Direction::pack, device, what, stream);
}

sluice_status sluice_unpack(sluice_device* device, const sluice_packing* what, sluice_stream stream) {
  return move_on_gpu(Direction::unpack, device, what, stream);
}

sluice_status sluice_pack_on_host(const sluice_packing* what) {
  return move_on_host(Direction::pack, what);
}

sluice_status sluice_unpack_on_host(const sluice_packing* what) {
  return move_on_host(Direction::unpack, what);
}

sluice_status sluice_make_packer_ready(sluice_device* device, const sluice_weight_format* format) {
  return guarded([&] {
    if (device == nullptr || format == nullptr)
      return fail(null_argument(device == nullptr ? "device" : "format"));
    const Result<WeightFormat> checked = format_of(*format);
    if (!checked) return fail(checked.error());
    return status_of(device->packed.make_packer_ready(*checked));
  });
}

sluice_status sluice_mixed_plan_create(const sluice_device* device, const sluice_mixed_problem* problem,
                                       const sluice_mixed_choices* choices, sluice_plan** plan) {
  return guarded([&] {
    if (problem == nullptr || plan == nullptr)
      return fail(null_argument(problem == nullptr ? "problem" : "plan"));
    const Result<MixedProblem> checked = problem_of(*problem);
    if (!checked) return fail(checked.error());
    const Result<mixed::Overrides> overrides = overrides_of(choices);
    if (!overrides) return fail(overrides.error());
    const DeviceInfo h200;
    const RecordBook& records = device != nullptr ? device->session.device().records() : shipped_records();
    const Result<mixed::Plan> made = mixed::plan(
        *checked, device != nullptr ? device->session.device().info() : h200, *overrides, records);
    if (!made) return fail(made.error());
    *plan = new sluice_plan{*made, mixed::describe(*made), to_string(made->config), mixed::units_of(*made)};
    return SLUICE_OK;
  });
}

sluice_status sluice_mixed_problem_of(const sluice_mixed_product* product, sluice_mixed_problem* problem) {
  return guarded([&] {
    if (product == nullptr || problem == nullptr)
      return fail(null_argument(product == nullptr ? "product" : "problem"));
    const Result<MixedCall> found = mixed_of(*product);
    if (!found) return fail(found.error());
    *problem = values_of(found->problem);
    return SLUICE_OK;
  });
}

sluice_status sluice_mixed_run(sluice_device* device, const sluice_mixed_product* product,
                               sluice_stream stream) {
  return guarded([&] {
    if (device == nullptr || product == nullptr)
      return fail(null_argument(device == nullptr ? "device" : "product"));
    const Result<MixedCall> found = mixed_of(*product);
    if (!found) return fail(found.error());
    if (const int ordinal = device->session.device().ordinal(); found->device != ordinal)
      return fail(not_on_device(*product, ordinal));
    const Result<void> done = device->packed.run(found->problem, found->args, stream);
    return done ? SLUICE_OK : fail(with_names(*product, done.error()));
  });
}

sluice_status sluice_mixed_make_ready(sluice_device* device, const sluice_mixed_problem* problems,
                                      int32_t count) {
  return guarded([&] {
    if (device == nullptr || (problems == nullptr && count > 0))
      return fail(null_argument(device == nullptr ? "device" : "problems"));
    if (count < 0) return fail(negative_count(count));
    std::vector<MixedProblem> checked;
    for (int32_t i = 0; i < count; ++i) {
      const Result<MixedProblem> problem = problem_of(problems[i]);
      if (!problem) return fail(problem.error());
      checked.push_back(*problem);
    }
    return status_of(device->packed.make_ready(checked));
  });
}

}  // extern "C"
