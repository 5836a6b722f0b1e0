// SPDX-License-Identifier: Apache-2.0
// The function `convolution` that Python calls through tvm-ffi, for all three ops (see tvm_ffi.cc). Tensors
// have torch's order of dimensions. Tensors that are read have torch's names: input, weight, grad_output. The
// tensor that the op writes is named out or total.
#include <algorithm>
#include <string>

#include <sluice/c_api/convolutions.h>
#include <sluice/c_api/tvm_ffi_args.h>
#include <sluice/try.h>

namespace sluice::c_api {
namespace {

constexpr int kMostAxes = 3;
/// The names that messages use for arrays that a call does not pass.
constexpr const char* kNames[] = {"input", "weight",  "grad_output", "bias",
                                  "c",     "scale_x", "scale_w",     "scale_d"};

/// A list that is passed as one field per axis.
struct AxisFields {
  int64_t values[kMostAxes];

  AxisFields(Fields& fields, Slot first, const AxisFields& without) {
    for (int i = 0; i < kMostAxes; ++i)
      values[i] = fields.integer(static_cast<Slot>(static_cast<int>(first) + i), without.values[i]);
  }
  explicit constexpr AxisFields(int64_t all) : values{all, all, all} {}
};

/// The slots of x, w and y; the array that the op computes uses the output's slot.
struct ConvSlots {
  Slot all[kConvArrays];
};
ConvSlots slots_of(int32_t op) {
  ConvSlots slots{{Slot::a, Slot::b, Slot::grad_output, Slot::bias, Slot::c, Slot::scale_a, Slot::scale_b,
                   Slot::scale_d}};
  slots.all[roles_of(op).d] = Slot::d;
  return slots;
}

/// The arrays of a convolution, in the order of ConvName.
struct ConvArrayArgs {
  ArrayArg all[kConvArrays];
  const char* names[kConvArrays];

  const sluice_array* operator[](ConvName which) const { return all[which].get(); }

  /// Returns the number of spatial axes of the first array that is present. Later checks refuse a wrong
  /// number.
  int32_t spatial() const {
    for (const ConvName which : {kConvX, kConvW, kConvY})
      if (all[which].present) return std::clamp(all[which].array.ndim - 2, 1, kMostAxes);
    return 1;
  }

  Result<void> read(const Fields& fields, const ConvSlots& slots) {
    for (int i = 0; i < kConvArrays; ++i) {
      const Slot slot = slots.all[i];
      SLUICE_TRY(fields.array(slot, all[i]));
      names[i] = fields.has(slot) ? fields.plain_name(slot) : slot == Slot::d ? "out" : kNames[i];
    }
    return {};
  }
};

/// Refuses an input with the name of the array that the op computes: that array must be passed as `out`.
Result<void> refuse_idle(const Fields& fields, const ConvSlots& slots) {
  for (const Slot slot : {Slot::a, Slot::b, Slot::grad_output}) {
    bool used = false;
    for (const Slot one : slots.all) used = used || one == slot;
    ArrayArg idle;
    if (used || !fields.has(slot)) continue;
    SLUICE_TRY(fields.array(slot, idle));
    if (idle.present)
      return Error{ErrorCode::invalid_argument, std::string(fields.plain_name(slot)) +
                                                    " is given and the op computes it: pass where to write "
                                                    "as out"};
  }
  return {};
}

sluice_status run(const sluice_convolution& what, int64_t workspace) {
  const Named first = named(what, roles_of(what.op).a);
  const auto refuse = [&] {
    sluice_problem ignored;
    if (const sluice_status bad = sluice_conv_problem_of(&what, &ignored); bad != SLUICE_OK) return bad;
    return fail(check_on(first, kOnHost, 0).error());
  };
  return run_at({first.array, workspace}, {sluice_conv_run, sluice_conv_run_with}, what, refuse);
}

/// Runs a convolution. If the field `problem` is the address of a sluice_problem, fills that in instead.
sluice_status convolution(Fields& fields) {
  const int32_t op = fields.enumerator(Slot::op);
  const ConvSlots slots = slots_of(op);
  ConvArrayArgs x;
  if (const Result<void> read = x.read(fields, slots); !read) return fail(read.error());
  if (const Result<void> used = refuse_idle(fields, slots); !used) return fail(used.error());
  const AxisFields stride(fields, Slot::stride, AxisFields(1)),
      dilation(fields, Slot::dilation, AxisFields(1)), padding(fields, Slot::padding, AxisFields(0)),
      padding_after(fields, Slot::padding_after, padding);
  const CallChoices choices = choices_of(fields, x.all[kConvC]);
  const sluice_convolution what{.op = op,
                                .spatial = x.spatial(),
                                .x = x[kConvX],
                                .w = x[kConvW],
                                .y = x[kConvY],
                                .bias = x[kConvBias],
                                .c = x[kConvC],
                                .scale_x = x[kConvScaleX],
                                .scale_w = x[kConvScaleW],
                                .scale_d = x[kConvScaleD],
                                .stride = stride.values,
                                .dilation = dilation.values,
                                .padding = padding.values,
                                .padding_after = padding_after.values,
                                .alpha = choices.alpha,
                                .beta = choices.beta,
                                .accumulate = choices.accumulate,
                                .activation = choices.activation,
                                .update = choices.update,
                                .any_order = choices.any_order,
                                .names = x.names};
  if (fields.error()) return fail(*fields.error());
  if (choices.problem != 0)
    return sluice_conv_problem_of(&what, reinterpret_cast<sluice_problem*>(choices.problem));
  return run(what, choices.workspace);
}

}  // namespace
}  // namespace sluice::c_api

extern "C" {

SLUICE_PACKED(convolution)

}  // extern "C"
