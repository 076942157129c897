// Error and Result<T>: how every function inside the library reports failure. No exceptions, no macros.
//
//   Result<int> parse(...);
//   auto n = parse(...);
//   if (!n) return n.error();     // an Error converts to any Result<T>
//   use(*n);
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "twohop/twohop.h"

namespace twohop {

/// What must be rebuilt after an error.
enum class Scope : unsigned char { kCall, kRail, kPeer, kCommunicator };

struct Error {
  twohopResult_t code = twohopInternalError;
  std::string message;  // names the thing, the value, what was expected, the next step
  Scope scope = Scope::kCall;
  int rank = -1;  // the rank at fault, -1 unknown
  int rail = -1;
  int sys_errno = 0;
};

template <class... Args>
[[nodiscard]] Error make_error(twohopResult_t code, fmt::format_string<Args...> f, Args&&... args) {
  Error e;
  e.code = code;
  e.message = fmt::format(f, std::forward<Args>(args)...);
  return e;
}

/// A twohopSystemError ending in ": <strerror> (errno N)"; errno is passed in, since formatting may change it.
template <class... Args>
[[nodiscard]] Error system_error(int sys_errno, fmt::format_string<Args...> f, Args&&... args) {
  Error e;
  e.code = twohopSystemError;
  e.sys_errno = sys_errno;
  e.message =
      fmt::format(f, std::forward<Args>(args)...) + fmt::format(": {} (errno {})", std::strerror(sys_errno), sys_errno);
  return e;
}

/// Either a T or an Error, spelled like std::expected. Result<void> holds nothing or an Error.
template <class T = void>
class [[nodiscard]] Result {
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

 public:
  Result() requires(std::is_void_v<T>) : state_(std::in_place_index<0>) {}
  template <class U = Value>
  requires(!std::is_void_v<T> && std::is_constructible_v<Value, U&&> &&
           !std::is_same_v<std::remove_cvref_t<U>, Error> && !std::is_same_v<std::remove_cvref_t<U>, Result>)
      Result(U&& value)
      : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  Result(Error e) : state_(std::in_place_index<1>, std::move(e)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  Value& value() & { return std::get<0>(state_); }
  const Value& value() const& { return std::get<0>(state_); }
  Value&& value() && { return std::get<0>(std::move(state_)); }
  Value& operator*() & { return value(); }
  const Value& operator*() const& { return value(); }
  Value&& operator*() && { return std::move(*this).value(); }
  Value* operator->() { return &value(); }
  const Value* operator->() const { return &value(); }
  Error& error() { return std::get<1>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<Value, Error> state_;
};

}  // namespace twohop
