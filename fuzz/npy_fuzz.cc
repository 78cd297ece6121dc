// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "formats/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto array = hone::formats::ParseNpy({reinterpret_cast<const std::byte*>(data), size});
  if (!array.ok()) return 0;
  // What was read can be written and read again, bit for bit.
  const auto bytes = hone::formats::EncodeNpy(array->shape, array->data);
  const auto again = hone::formats::ParseNpy(bytes);
  HONE_CHECK(again.ok() && again->shape == array->shape &&
             again->data.size() == array->data.size());
  HONE_CHECK(array->data.empty() || std::memcmp(again->data.data(), array->data.data(),
                                                array->data.size() * sizeof(float)) == 0);
  return 0;
}
