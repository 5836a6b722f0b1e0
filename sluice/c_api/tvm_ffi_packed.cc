// SPDX-License-Identifier: Apache-2.0
// The functions of packed weights that Python calls through tvm-ffi, as tvm_ffi.cc has those of other
// products. A format comes as one number: its fields by weight_format_of(), as python/sluice/formats.py
// writes them.
#include <string>

#include <sluice/c_api/packed.h>
#include <sluice/c_api/tvm_ffi_args.h>

namespace sluice::c_api {
namespace {

/// type | scale << 4 | zeros << 8 | order << 9 | group << 16; format_of() looks at the values.
sluice_weight_format weight_format_of(int64_t number) {
  return {.type = static_cast<int32_t>(number & 15),
          .group = static_cast<int32_t>(number >> 16 & 0x7FFFFFFF),
          .scale = static_cast<int32_t>(number >> 4 & 15),
          .zeros = static_cast<int32_t>(number >> 8 & 1),
          .order = static_cast<int32_t>(number >> 9 & 1)};
}

constexpr const char* kPackedNames[] = {"x", "packed.blob", "out", "bias", "scale_x"};

/// (x, blob, bias, scale_x, out, format, n, k, activation). Leading dimensions of x and out become one.
sluice_status packed_mm(const ffi::Any* args) {
  ArrayArg x, blob, bias, scale_x, out;
  for (const Result<void>& done :
       {read(args[0], "x", x), read(args[1], "packed.blob", blob), read(args[2], "bias", bias),
        read(args[3], "scale_x", scale_x), read(args[4], "out", out), check_leading("out", out, "x", x),
        flatten("x", x), flatten("out", out)})
    if (!done) return fail(done.error());
  Scalars scalars(args);
  const sluice_packed_product product{.format = weight_format_of(scalars.integer(5, "format")),
                                      .n = scalars.integer(6, "n"),
                                      .k = scalars.integer(7, "k"),
                                      .x = x.get(),
                                      .blob = blob.get(),
                                      .d = out.get(),
                                      .bias = bias.get(),
                                      .scale_x = scale_x.get(),
                                      .activation = scalars.enumerator(8, "activation"),
                                      .names = kPackedNames};
  if (scalars.error()) return fail(*scalars.error());
  // Shapes are looked at first where there is no device to open, so that a bad call says so anywhere.
  if (!x.present || x.array.device_type != SLUICE_ON_CUDA) {
    sluice_packed_problem ignored;
    if (const sluice_status bad = sluice_packed_problem_of(&product, &ignored); bad != SLUICE_OK) return bad;
    return fail(not_on_device(product, 0));
  }
  sluice_device* device = nullptr;
  if (const sluice_status status = sluice_device_default(x.array.device, &device); status != SLUICE_OK)
    return status;
  return sluice_packed_run(device, &product, stream_of(x.array.device));
}

enum class Direction { pack, unpack };

/// (codes, scales, zeros, blob, format), in host memory or on a GPU.
sluice_status move(Direction direction, const ffi::Any* args) {
  ArrayArg codes, scales, zeros, blob;
  for (const Result<void>& done : {read(args[0], "codes", codes), read(args[1], "scales", scales),
                                   read(args[2], "zeros", zeros), read(args[3], "blob", blob)})
    if (!done) return fail(done.error());
  Scalars scalars(args);
  const sluice_packing what{.format = weight_format_of(scalars.integer(4, "format")),
                            .codes = codes.get(),
                            .scales = scales.get(),
                            .zeros = zeros.get(),
                            .blob = blob.get()};
  if (scalars.error()) return fail(*scalars.error());
  const bool packs = direction == Direction::pack;
  if (!codes.present || codes.array.device_type != SLUICE_ON_CUDA)
    return packs ? sluice_pack_on_host(&what) : sluice_unpack_on_host(&what);
  if (const Result<PackCall> checked = packing_of(what); !checked) return fail(checked.error());
  sluice_device* device = nullptr;
  if (const sluice_status status = sluice_device_default(codes.array.device, &device); status != SLUICE_OK)
    return status;
  const sluice_stream stream = stream_of(codes.array.device);
  return packs ? sluice_pack(device, &what, stream) : sluice_unpack(device, &what, stream);
}

sluice_status pack_codes(const ffi::Any* args) {
  return move(Direction::pack, args);
}
sluice_status unpack_codes(const ffi::Any* args) {
  return move(Direction::unpack, args);
}

}  // namespace
}  // namespace sluice::c_api

// The names that tvm-ffi looks for.
extern "C" {

SLUICE_PACKED(packed_mm, 9)
SLUICE_PACKED(pack_codes, 5)
SLUICE_PACKED(unpack_codes, 5)

}  // extern "C"
