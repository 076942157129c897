// Texts of errors: a constant one for each code, and the last error of a thread and of a communicator.
#include "api/error.hpp"

#include "api/comm_handle.hpp"
#include "api/internal.h"
#include "base/log.hpp"

namespace twohop {
namespace {

thread_local std::string thread_error;

/// Errors of the caller's own making name the function; what went wrong inside, on any rank, is passed on untouched.
std::string with_function(const char* function, const Error& error) {
  const bool callers =
      error.scope == Scope::kCall && (error.code == twohopInvalidArgument || error.code == twohopInvalidUsage);
  return callers ? fmt::format("{}: {}", function, error.message) : error.message;
}

Error translate_exception() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return make_error(twohopSystemError, "out of memory: free some and try again");
  } catch (const std::system_error& e) {
    return system_error(e.code().value(), "{}", "the system refused a thread or a lock");
  } catch (const std::exception& e) {
    return make_error(twohopInternalError, "unexpected exception: {}; please report it", e.what());
  } catch (...) {
    return make_error(twohopInternalError, "unexpected exception of an unknown type; please report it");
  }
}

}  // namespace

twohopResult_t report(const char* function, twohopComm_t comm, const Error& error) noexcept {
  try {
    thread_error = with_function(function, error);
    log_info("{}", thread_error);
    if (comm && LiveComms::of_process().contains(comm)) comm->remember_error(thread_error);
  } catch (...) {  // no memory for the text: the code must do
  }
  return error.code;
}

Error error_of_exception() noexcept {
  try {
    return translate_exception();
  } catch (...) {  // no memory for the text
    Error error;
    error.code = twohopSystemError;
    return error;
  }
}

Error null_argument(const char* name, const char* what_to_give) {
  return make_error(twohopInvalidArgument, "{} is NULL: give {}", name, what_to_give);
}

}  // namespace twohop

const char* twohopGetErrorString(twohopResult_t result) {
  switch (result) {
    case twohopSuccess:
      return "no error";
    case twohopUnhandledCudaError:
      return "a CUDA call failed";
    case twohopSystemError:
      return "a system call failed";
    case twohopInternalError:
      return "internal error of twohop";
    case twohopInvalidArgument:
      return "invalid argument";
    case twohopInvalidUsage:
      return "invalid usage";
    case twohopRemoteError:
      return "another rank failed or was lost";
    case twohopInProgress:
      return "operation in progress";
    case twohopTimeout:
      return "timed out without progress";
    case twohopAborted:
      return "the communicator was aborted";
  }
  return "unknown result code";
}

const char* twohopGetLastError(twohopComm_t comm) {
  thread_local std::string answer;
  try {
    if (!comm)
      answer = twohop::thread_error;
    else if (auto handle = twohop::live(comm); handle)
      answer = (*handle)->last_error();
    else
      answer = handle.error().message;
  } catch (...) {
    return "out of memory";
  }
  return answer.c_str();
}

void twohopReportInternal(const char* function, twohopResult_t code, const char* text) {
  try {
    twohop::report(function, nullptr, twohop::make_error(code, "{}", text));
  } catch (...) {
  }
}
