// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the operator wants for requests that do not say it themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/openai/backend.h"

namespace hone::serve {

struct RequestDefaults {
  std::optional<std::int64_t> max_tokens = {};
  openai::ThinkMode thinking = openai::ThinkMode::kDefault;
};

// Fills in defaults and passes everything on.
class DefaultsBackend final : public openai::Backend {
 public:
  DefaultsBackend(std::unique_ptr<openai::Backend> backend, RequestDefaults defaults)
      : backend_(std::move(backend)), defaults_(defaults) {}

  std::vector<openai::ModelInfo> Models() override { return backend_->Models(); }
  openai::ApiResult<std::shared_ptr<openai::RunningRequest>> Start(
      openai::GenerateRequest request, std::shared_ptr<openai::EventSink> sink) override {
    if (!request.max_tokens) request.max_tokens = defaults_.max_tokens;
    if (request.chat) Complete(*request.chat);
    return backend_->Start(std::move(request), std::move(sink));
  }
  openai::ApiResult<std::vector<openai::TokenPiece>> Tokenize(
      const openai::TokenizeRequest& request) override {
    return backend_->Tokenize(request);
  }
  openai::ApiResult<std::string> Detokenize(const openai::DetokenizeRequest& request) override {
    return backend_->Detokenize(request);
  }
  openai::ApiResult<std::string> Render(const openai::RenderRequest& request) override {
    openai::RenderRequest complete = request;
    Complete(complete.chat);
    return backend_->Render(complete);
  }

 private:
  void Complete(openai::ChatInput& chat) const {
    openai::Thinking& thinking = chat.thinking;
    const bool said = thinking.mode != openai::ThinkMode::kDefault || thinking.budget_tokens;
    if (!said) thinking.mode = defaults_.thinking;
  }

  std::unique_ptr<openai::Backend> backend_;
  RequestDefaults defaults_;
};

}  // namespace hone::serve
