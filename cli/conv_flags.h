// SPDX-License-Identifier: Apache-2.0
// The flags of a convolution, with sizes in torch's order. Types, epilogue and overrides use the flags of
// problem_flags.h. Values stay text until conv_of(), so that errors are Results.
#pragma once

#include <string>
#include <vector>

#include <sluice/spec/conv.h>

#include "cli/problem_flags.h"

namespace CLI {
class Option;
}  // namespace CLI

namespace sluice::cli {

struct ConvFlags {
  std::string op;             // the value of --conv; "": the problem is a matrix product
  std::string input, filter;  // N x C x spatial sizes; K x spatial sizes
  std::string stride = "1", padding = "0", dilation = "1";
  i64 x_pitch = 0, y_pitch = 0;

  const CLI::Option* op_option = nullptr;
  std::vector<const CLI::Option*> options;  // all other options, to check which were given
};

void add_conv_flags(CLI::App& app, ConvFlags& flags);

bool is_conv(const ConvFlags& flags);

/// Parses the value of --conv.
Result<ConvOp> op_of(const ConvFlags& flags);
/// Returns the convolution. Errors: invalid_argument, if a size is missing or malformed.
Result<Conv> conv_of(const ConvFlags& flags);
/// Returns the product that computes `conv`, with the types, epilogue and overrides of `flags`. Errors: those
/// of conv::problem and product_request_of.
Result<bench::Request> conv_request_of(const Conv& conv, const ProblemFlags& flags);

/// Returns a line that describes the convolution if it is pointwise, else "". The plan of a pointwise one is
/// that of a plain product, which does not mention the convolution.
std::string pointwise_line(const bench::Request& request);

}  // namespace sluice::cli
