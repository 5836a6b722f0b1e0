// SPDX-License-Identifier: Apache-2.0
// Functions return errors as values. Nothing in the library prints, throws or exits.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace sluice {

/// One code per kind of failure, for callers that branch on it. The message says the value, the rule and the
/// remedy.
enum class ErrorCode {
  invalid_size,      // negative, or above a limit that the message names: 2^31 - 4096 for each size of a
                     // dense product, 2^31 - 129 of a packed one
  invalid_pointer,   // null where data is needed, or a pointer to host memory
  misaligned,        // a pointer or a stride that TMA cannot address
  invalid_stride,    // ld shorter than a row, or rows of D that overlap
  aliasing,          // D overlaps an input
  invalid_type,      // a combination of types or layouts that no kernel supports
  invalid_config,    // a KernelConfig made by hand that breaks a rule
  invalid_argument,  // any other mistake of the caller
  wrong_device,      // the pointer, stream or context belongs to another device
  unsupported_arch,  // not sm_90
  not_prepared,      // the stream is capturing, and the kernel is not loaded yet
  workspace,         // too small, counters not zero, or in use by two launches
  toolchain,         // NVRTC is missing or refused the source
  driver,            // the CUDA driver is missing or returned an error
  io,                // cache or file access failed
  internal,          // a bug in sluice
};

/// "invalid_size" etc.
const char* name_of(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message{};
};

/// A T or an Error. `*result` and `result->` require that `result` is true.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() & { return *std::get_if<0>(&state_); }
  const T& operator*() const& { return *std::get_if<0>(&state_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  const Error& error() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

/// Success or an Error. Success does not allocate.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace sluice
