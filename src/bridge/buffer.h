// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Buffers and status codes of the C ABI as C++ values. Only for the files of this module.
#pragma once

#include <hone_bridge.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace hone::bridge {

class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { hb_buf_free(&buf_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  hb_buf* get() { return &buf_; }
  const void* data() const { return buf_.data; }
  std::size_t size() const { return buf_.size; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(buf_.data), buf_.data == nullptr ? 0 : buf_.size};
  }
  std::string str() const { return std::string(text()); }

 private:
  hb_buf buf_ = {};
};

// kInternal if the Rust library is not the one that the header describes.
inline Status CheckAbi() {
  const std::uint32_t found = hb_abi_version();
  if (found == HB_ABI_VERSION) return {};
  return {Code::kInternal, StrCat("hone_bridge: the library has ABI ", found, ", expected ",
                                  HB_ABI_VERSION, "; build it again")};
}

// An error for a status that is not HB_OK.
inline Status ToStatus(int status, const Buffer& message) {
  Code code = Code::kInternal;
  switch (status) {
    case HB_RAISED:
    case HB_BAD_CONTEXT:
    case HB_BAD_ARGUMENT:
      code = Code::kInvalidArgument;
      break;
    case HB_SYNTAX:
      code = Code::kDataLoss;
      break;
    case HB_RUNTIME:
    case HB_UNSUPPORTED:
    case HB_LIMIT:
      code = Code::kUnsupported;
      break;
    case HB_NO_RESOURCE:
      code = Code::kOutOfMemory;
      break;
    case HB_PANIC:  // a library met bytes that it did not expect
      code = Code::kDataLoss;
      break;
    default:
      break;
  }
  return {code, message.str()};
}

}  // namespace hone::bridge
