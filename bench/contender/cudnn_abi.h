// SPDX-License-Identifier: Apache-2.0
// The part of cuDNN 9's backend interface that the bench calls, under our names. It is declared here because
// CUDA toolkits do not contain cudnn.h, and the tool must build without it. The numbers are fixed within a
// major version. tests/unit/cudnn_abi_test.cc compares them with cudnn.h if the machine has it.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sluice/gemm.h>

namespace sluice::bench::cudnn {

using Status = int;  // 0 means success
using Handle = struct Context*;
using Descriptor = void*;
inline constexpr int kMajor = 9;

/// Kinds of descriptors. `device` describes a GPU by text, for making plans without a GPU.
enum class Kind : int {
  convolution = 1,
  engine = 2,
  engine_config = 3,
  heuristic = 4,
  plan = 5,
  knob_choice = 7,
  fprop = 10,
  wgrad = 11,
  dgrad = 12,
  graph = 15,
  variant_pack = 16,
  tensor = 17,
  device = 38,
};

/// Types of attribute values. Enumerators that have no C++ type below are passed as 32-bit integers.
enum class Type : int {
  handle = 0,
  data_type = 1,
  int64 = 3,
  float32 = 4,
  pointer = 6,
  convolution_mode = 7,
  heuristic_mode = 8,
  knob = 9,
  numerical_note = 11,
  descriptor = 15,
  behavior_note = 19,
  text = 24,
};

enum class Attribute : int {
  convolution_compute = 100,
  convolution_mode = 101,
  convolution_dilations = 102,
  convolution_strides = 103,
  convolution_padding_after = 104,
  convolution_padding_before = 105,
  convolution_axes = 106,
  heuristic_mode = 200,
  heuristic_graph = 201,
  heuristic_results = 202,
  heuristic_device = 204,
  config_engine = 300,
  config_knobs = 302,
  plan_handle = 400,
  plan_config = 401,
  plan_workspace = 402,
  plan_device = 407,
  knob_type = 600,
  knob_value = 601,
  fprop_alpha = 700,
  fprop_beta = 701,
  fprop_convolution = 702,
  fprop_w = 703,
  fprop_x = 704,
  fprop_y = 705,
  dgrad_alpha = 706,
  dgrad_beta = 707,
  dgrad_convolution = 708,
  dgrad_w = 709,
  dgrad_dx = 710,
  dgrad_dy = 711,
  wgrad_alpha = 712,
  wgrad_beta = 713,
  wgrad_convolution = 714,
  wgrad_dw = 715,
  wgrad_x = 716,
  wgrad_dy = 717,
  graph_handle = 800,
  graph_operations = 801,
  graph_engine_count = 802,
  tensor_alignment = 900,
  tensor_type = 901,
  tensor_dimensions = 902,
  tensor_strides = 903,
  tensor_id = 906,
  pack_ids = 1000,
  pack_pointers = 1001,
  pack_workspace = 1003,
  engine_graph = 1300,
  engine_index = 1301,
  engine_numerical_notes = 1303,
  engine_behavior_notes = 1305,
  engine_device = 1307,
  device_text = 2702,
};

enum class DataType : int { fp32 = 0, fp16 = 2, bf16 = 9, e4m3 = 12, e5m2 = 13 };
enum class ConvolutionMode : int { flipped = 0, cross_correlation = 1 };
enum class HeuristicMode : int { instant = 0, b = 1, fallback = 2, a = 3 };

/// Numerical notes of an engine, as cuDNN numbers them. Later versions may add more.
inline constexpr int kNoteNondeterministic = 4;
inline constexpr const char* kNumericalNotes[] = {
    "tensor core",  "down-converts inputs", "reduced-precision sums",
    "fft",          "nondeterministic",     "winograd",
    "winograd 4x4", "winograd 6x6",         "winograd 13x13",
    "strict nan"};
/// Behavior notes of an engine: how its kernels are made.
inline constexpr const char* kBehaviorNotes[] = {"compiled at run time", "reorders the filter",
                                                 "reorders the bias", "native graphs", "calls cuBLASLt"};

/// cuDNN's entry points. None is null once the library is loaded.
struct Api {
  std::size_t (*version)();
  const char* (*error_string)(Status);
  void (*last_error)(char* message, std::size_t size);
  Status (*create)(Handle*);
  Status (*destroy)(Handle);
  Status (*set_stream)(Handle, Stream);
  Status (*create_descriptor)(Kind, Descriptor*);
  Status (*destroy_descriptor)(Descriptor);
  Status (*finalize)(Descriptor);
  Status (*set)(Descriptor, Attribute, Type, std::int64_t count, const void* values);
  Status (*get)(Descriptor, Attribute, Type, std::int64_t room, std::int64_t* count, void* values);
  Status (*execute)(Handle, Descriptor plan, Descriptor variant_pack);
};

}  // namespace sluice::bench::cudnn
