// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "model/arch/family.h"

namespace hone::model {

std::span<const Family* const> Families() {
  static constexpr std::array kFamilies = {&kGemma2,    &kGemma3Text, &kGranite, &kLlama, &kMiniCpm,
                                           &kMinistral, &kMinistral3, &kMistral, &kOlmo2, &kPhi3,
                                           &kQwen2,     &kQwen3,      &kSmolLm3};
  return kFamilies;
}

}  // namespace hone::model
