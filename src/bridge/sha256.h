// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// SHA-256.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/span_util.h"

namespace hone::bridge {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void Update(ByteSpan bytes);
  // The digest as 64 lower-case hex digits; the object starts anew.
  std::string FinishHex();

 private:
  void* state_;
};

std::string Sha256Hex(ByteSpan bytes);

}  // namespace hone::bridge
