// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge/chat_template.h"

#include <hone_bridge.h>

#include <utility>

#include "bridge/buffer.h"

namespace hone::bridge {

struct ChatTemplate::Impl {
  Impl() = default;
  ~Impl() { hb_template_free(handle); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  hb_template* handle = nullptr;
};

Result<ChatTemplate> ChatTemplate::Compile(std::string_view source) {
  HONE_TRY(CheckAbi());
  auto impl = std::make_shared<Impl>();
  Buffer error;
  const int status =
      hb_template_new(source.data(), source.size(), nullptr, &impl->handle, error.get());
  if (status != HB_OK) return ToStatus(status, error);
  ChatTemplate result;
  result.impl_ = std::move(impl);
  return result;
}

Result<std::string> ChatTemplate::Render(std::string_view context_json,
                                         std::int64_t local_now) const {
  if (impl_ == nullptr) return Status(Code::kInvalidArgument, "the chat template is empty");
  Buffer text;
  Buffer error;
  const int status = hb_template_render(impl_->handle, context_json.data(), context_json.size(),
                                        local_now, text.get(), error.get());
  if (status != HB_OK) return ToStatus(status, error);
  return text.str();
}

}  // namespace hone::bridge
