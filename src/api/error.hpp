// How does an error leave the library? As a code, with its text kept for twohopGetLastError; never as an exception.
#pragma once

#include <exception>
#include <new>
#include <system_error>

#include "base/result.hpp"

namespace twohop {

/// Keeps `error` as the calling thread's last one, and as the last one of `comm` if that is a live handle.
twohopResult_t report(const char* function, twohopComm_t comm, const Error& error) noexcept;

/// What an exception of the standard library means; call it inside a catch block.
Error error_of_exception() noexcept;

/// Runs the body of the C function `function`; what it returns or throws becomes the function's result.
template <class Body>
twohopResult_t guarded(const char* function, twohopComm_t comm, Body&& body) {
  try {
    Result<> result = body();
    return result ? twohopSuccess : report(function, comm, result.error());
  } catch (...) {
    return report(function, comm, error_of_exception());
  }
}

Error null_argument(const char* name, const char* what_to_give);

}  // namespace twohop
