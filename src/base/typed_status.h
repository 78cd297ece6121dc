// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Status and Result<T> for errors that say more than a code and a message. HONE_TRY and HONE_ASSIGN
// work with them. A module names its own:
//
//   using ParseStatus = TypedStatus<ParseError>;
//   template <typename T>
//   using ParseResult = TypedResult<T, ParseError>;
#pragma once

#include <cassert>
#include <memory>
#include <utility>
#include <variant>

#include "base/status.h"

namespace hone {

// Nothing, or an E. One pointer wide: success is null.
template <typename E>
class [[nodiscard]] TypedStatus {
 public:
  TypedStatus() = default;
  TypedStatus(E error)  // NOLINT(google-explicit-constructor): 'return error;' is the point
      : error_(std::make_unique<E>(std::move(error))) {}
  bool ok() const { return error_ == nullptr; }
  // Only if not ok; valid while this object lives.
  const E& error() const {
    assert(!ok());
    return *error_;
  }

 private:
  std::unique_ptr<E> error_;
};

// A value, or an E.
template <typename T, typename E>
class [[nodiscard]] TypedResult {
 public:
  // NOLINTBEGIN(google-explicit-constructor): 'return value;' and 'return error;' are the point.
  TypedResult(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  TypedResult(E error) : v_(std::in_place_index<1>, std::move(error)) {}
  TypedResult(TypedStatus<E> error) : v_(std::in_place_index<1>, std::move(error)) {
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
  TypedStatus<E> status() && { return ok() ? TypedStatus<E>() : std::move(*std::get_if<1>(&v_)); }
  // Only if not ok; valid while this object lives.
  const E& error() const {
    assert(!ok());
    return std::get_if<1>(&v_)->error();
  }

 private:
  std::variant<T, TypedStatus<E>> v_;
};

}  // namespace hone
