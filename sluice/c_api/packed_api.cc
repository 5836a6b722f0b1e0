// SPDX-License-Identifier: Apache-2.0
// The C interface of packed weights: packing, on the GPU and on the host, and packed products.
#include <sluice/c_api/choices.h>
#include <sluice/c_api/error.h>
#include <sluice/c_api/handles.h>
#include <sluice/c_api/packed.h>
#include <sluice/host/text/packed_units.h>

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
    return status_of(direction == Direction::pack ? device->session.pack(*call, stream)
                                                  : device->session.unpack(*call, stream));
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

Result<packed::Overrides> overrides_of(const sluice_packed_choices* given) {
  packed::Overrides overrides;
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
    return status_of(device->session.make_packer_ready(*checked));
  });
}

sluice_status sluice_packed_plan_create(const sluice_device* device, const sluice_packed_problem* problem,
                                        const sluice_packed_choices* choices, sluice_plan** plan) {
  return guarded([&] {
    if (problem == nullptr || plan == nullptr)
      return fail(null_argument(problem == nullptr ? "problem" : "plan"));
    const Result<PackedProblem> checked = problem_of(*problem);
    if (!checked) return fail(checked.error());
    const Result<packed::Overrides> overrides = overrides_of(choices);
    if (!overrides) return fail(overrides.error());
    const DeviceInfo h200;
    const RecordBook& records = device != nullptr ? device->session.device().records() : shipped_records();
    const Result<packed::Plan> made = packed::plan(
        *checked, device != nullptr ? device->session.device().info() : h200, *overrides, records);
    if (!made) return fail(made.error());
    *plan = new sluice_plan{*made, packed::describe(*made), to_string(made->config), packed::units_of(*made)};
    return SLUICE_OK;
  });
}

sluice_status sluice_packed_problem_of(const sluice_packed_product* product, sluice_packed_problem* problem) {
  return guarded([&] {
    if (product == nullptr || problem == nullptr)
      return fail(null_argument(product == nullptr ? "product" : "problem"));
    const Result<PackedCall> found = packed_of(*product);
    if (!found) return fail(found.error());
    *problem = values_of(found->problem);
    return SLUICE_OK;
  });
}

sluice_status sluice_packed_run(sluice_device* device, const sluice_packed_product* product,
                                sluice_stream stream) {
  return guarded([&] {
    if (device == nullptr || product == nullptr)
      return fail(null_argument(device == nullptr ? "device" : "product"));
    const Result<PackedCall> found = packed_of(*product);
    if (!found) return fail(found.error());
    if (const int ordinal = device->session.device().ordinal(); found->device != ordinal)
      return fail(not_on_device(*product, ordinal));
    const Result<void> done = device->session.run(found->problem, found->args, stream);
    return done ? SLUICE_OK : fail(with_names(*product, done.error()));
  });
}

sluice_status sluice_packed_make_ready(sluice_device* device, const sluice_packed_problem* problems,
                                       int32_t count) {
  return guarded([&] {
    if (device == nullptr || (problems == nullptr && count > 0))
      return fail(null_argument(device == nullptr ? "device" : "problems"));
    if (count < 0) return fail(negative_count(count));
    std::vector<PackedProblem> checked;
    for (int32_t i = 0; i < count; ++i) {
      const Result<PackedProblem> problem = problem_of(problems[i]);
      if (!problem) return fail(problem.error());
      checked.push_back(*problem);
    }
    return status_of(device->session.make_ready(checked));
  });
}

}  // extern "C"
