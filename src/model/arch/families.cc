// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "model/arch/family.h"

namespace hone::model {

std::span<const Family* const> Families() {
  static constexpr std::array kFamilies = {&kLlama};
  return kFamilies;
}

}  // namespace hone::model
