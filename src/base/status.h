// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Errors as values: Status, Result<T> and the macros that pass them on. See
// docs/adr/0002-error-model.md.
#pragma once

#include <cassert>
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace hone {

enum class Code : std::uint8_t {
  kOk,
  kInvalidArgument,  // a wrong flag, option or call
  kNotFound,         // a file or a field that must be there is not
  kDataLoss,         // the bytes are damaged or contradict themselves
  kUnsupported,      // well formed, but Hone cannot do it
  kOutOfMemory,
  kDeadline,
  kCancelled,
  kIo,
  kInternal,  // our own fault
};

// The outcome of an operation that has no value. One pointer wide: success is null.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message,
         std::source_location where = std::source_location::current())
      : rep_(new Rep{code, std::move(message), where}) {
    assert(code != Code::kOk);
  }
  Status(Status&& o) noexcept : rep_(std::exchange(o.rep_, nullptr)) {}
  Status& operator=(Status&& o) noexcept {
    std::swap(rep_, o.rep_);
    return *this;
  }
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;
  ~Status() { delete rep_; }

  bool ok() const { return rep_ == nullptr; }
  Code code() const { return rep_ ? rep_->code : Code::kOk; }
  std::string_view message() const { return rep_ ? std::string_view(rep_->message) : ""; }

  // Prepends "what: " so that the outermost caller reads left to right.
  Status&& Context(std::string_view what) && {
    if (rep_) rep_->message.insert(0, std::string(what) + ": ");
    return std::move(*this);
  }

 private:
  struct Rep {
    Code code;
    std::string message;
    std::source_location where;
  };
  Rep* rep_ = nullptr;
};

// Process exit code for a status: 0 ok, 2 usage or unsupported input, 5 damaged data,
// 6 input/output or memory, 130 cancelled, 70 our own fault.
int ExitCode(Code code);

// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  // NOLINTBEGIN(google-explicit-constructor): 'return value;' and 'return status;' are the point.
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  Result(Status error) : v_(std::in_place_index<1>, std::move(error)) {
    assert(!std::get<1>(v_).ok());
  }
  // NOLINTEND(google-explicit-constructor)
  bool ok() const { return v_.index() == 0; }
  T& operator*() & {
    assert(ok());
    return *std::get_if<0>(&v_);
  }
  const T& operator*() const& {
    assert(ok());
    return *std::get_if<0>(&v_);
  }
  T&& operator*() && {
    assert(ok());
    return std::move(*std::get_if<0>(&v_));
  }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }
  Status status() && { return ok() ? Status() : std::move(*std::get_if<1>(&v_)); }
  // The error, or an ok status; valid while this object lives.
  Code code() const { return ok() ? Code::kOk : std::get_if<1>(&v_)->code(); }
  std::string_view message() const { return ok() ? "" : std::get_if<1>(&v_)->message(); }

 private:
  std::variant<T, Status> v_;
};

// Joins the parts as text: StrCat("section ", 3, ": ends at ", end).
template <typename... Parts>
std::string StrCat(const Parts&... parts);

namespace internal {
inline void AppendPart(std::string& out, std::string_view s) { out.append(s); }
inline void AppendPart(std::string& out, const char* s) { out.append(s); }
inline void AppendPart(std::string& out, char c) { out.push_back(c); }
template <typename N>
  requires std::is_arithmetic_v<N>
void AppendPart(std::string& out, N n) {
  if constexpr (std::is_same_v<N, bool>) {
    out.append(n ? "true" : "false");
  } else {
    out.append(std::to_string(n));
  }
}
}  // namespace internal

template <typename... Parts>
std::string StrCat(const Parts&... parts) {
  std::string out;
  (internal::AppendPart(out, parts), ...);
  return out;
}

#define HONE_CONCAT_(a, b) a##b
#define HONE_CONCAT(a, b) HONE_CONCAT_(a, b)
#define HONE_TRY(expr)                                                       \
  do {                                                                       \
    if (auto hone_status_ = (expr); !hone_status_.ok()) return hone_status_; \
  } while (false)
#define HONE_ASSIGN(decl, expr) HONE_ASSIGN_(HONE_CONCAT(hone_result_, __LINE__), decl, expr)
#define HONE_ASSIGN_(tmp, decl, expr)            \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  decl = *std::move(tmp)

}  // namespace hone
