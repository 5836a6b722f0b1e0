// SPDX-License-Identifier: Apache-2.0
// Converts results into status codes of the C interface. Keeps the last error per thread, and has the guard
// that stops exceptions from leaving a C function.
#pragma once

#include <sluice/c_api.h>

#include <exception>
#include <new>
#include <string>

#include <sluice/result.h>

namespace sluice::c_api {

/// Keeps the message for sluice_error_message(), and returns the error's status.
sluice_status fail(const Error& error);
inline sluice_status status_of(const Result<void>& result) {
  return result.ok() ? SLUICE_OK : fail(result.error());
}

/// Runs `body`, which returns a sluice_status. An exception (no memory, or a bug here) becomes `internal`.
template <class Body>
sluice_status guarded(const Body& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail({ErrorCode::internal, "out of host memory"});
  } catch (const std::exception& thrown) {
    return fail(
        {ErrorCode::internal, std::string("an exception, which is a bug of sluice: ") + thrown.what()});
  } catch (...) {
    return fail({ErrorCode::internal, "an unknown exception, which is a bug of sluice"});
  }
}

inline Error negative_count(int32_t count) {
  return {ErrorCode::invalid_argument,
          "count = " + std::to_string(count) + " must be 0 or more: it is that of the array before it"};
}

inline Error null_argument(const char* name) {
  return {ErrorCode::invalid_argument, std::string(name) + " is NULL: pass one"};
}

}  // namespace sluice::c_api
