// SPDX-License-Identifier: Apache-2.0
// Names of the error codes, for logs and for the exception types of the Python package.
#include <sluice/result.h>

namespace sluice {

const char* name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_size: return "invalid_size";
    case ErrorCode::invalid_pointer: return "invalid_pointer";
    case ErrorCode::misaligned: return "misaligned";
    case ErrorCode::invalid_stride: return "invalid_stride";
    case ErrorCode::aliasing: return "aliasing";
    case ErrorCode::invalid_type: return "invalid_type";
    case ErrorCode::invalid_config: return "invalid_config";
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::wrong_device: return "wrong_device";
    case ErrorCode::unsupported_arch: return "unsupported_arch";
    case ErrorCode::not_prepared: return "not_prepared";
    case ErrorCode::workspace: return "workspace";
    case ErrorCode::toolchain: return "toolchain";
    case ErrorCode::driver: return "driver";
    case ErrorCode::io: return "io";
    case ErrorCode::internal: return "internal";
  }
  return "?";
}

}  // namespace sluice
