// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// One loaded model behind the API.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "chat/model_host.h"
#include "chat/prompt.h"
#include "runtime/engine.h"
#include "serve/openai/backend.h"

namespace hone::serve {

struct ModelBackendOptions {
  std::string id = {};  // the model's name in the API; "": of its file, without the extension
  std::string fingerprint = {};
  runtime::EngineOptions engine = {.prefix_cache_bytes = std::uint64_t{256} << 20};
  chat::HostOptions host = {};
  chat::OnFull on_full = chat::OnFull::kError;
  // Names of control tokens in messages become these tokens.
  bool allow_control_tokens = false;
  // Where a request says nothing; what is absent here too is as the model recommends.
  openai::SamplingFields sampling = {};
  // Called after each request that was taken, on the thread that drives the model; may be empty.
  std::function<void(const Status& status, const chat::JobUsage& usage)> on_end = {};
};

// Takes requests for one model, whatever model they name.
class ModelBackend final : public openai::Backend {
 public:
  // Loads the model, which may take seconds.
  static Result<std::unique_ptr<ModelBackend>> Open(const std::string& path,
                                                    ModelBackendOptions options);
  // Of an engine that is open already; options.engine is not looked at.
  ModelBackend(std::unique_ptr<runtime::Engine> engine, ModelBackendOptions options);
  // Stops: requests that run end with an error.
  ~ModelBackend() override;

  std::vector<openai::ModelInfo> Models() override;
  openai::ApiResult<std::shared_ptr<openai::RunningRequest>> Start(
      openai::GenerateRequest request, std::shared_ptr<openai::EventSink> sink) override;
  openai::ApiResult<std::vector<openai::TokenPiece>> Tokenize(
      const openai::TokenizeRequest& request) override;
  openai::ApiResult<std::string> Detokenize(const openai::DetokenizeRequest& request) override;
  openai::ApiResult<std::string> Render(const openai::RenderRequest& request) override;

  // Drain, WaitIdle, Stop and the numbers.
  chat::ModelHost& host() { return *host_; }
  const chat::ModelHost& host() const { return *host_; }

 private:
  openai::ApiStatus CheckRequest(const openai::GenerateRequest& request) const;
  openai::ApiStatus CheckRoom() const;
  openai::ApiError RefusalError(const chat::Submission& refused) const;
  chat::PromptLimits Limits(const openai::GenerateRequest& request) const;
  runtime::SamplerOptions MakeSampler(const openai::SamplingFields& asked) const;
  openai::ApiResult<std::vector<chat::Prompt>> MakePrompts(
      const openai::GenerateRequest& request) const;

  ModelBackendOptions options_;
  std::int64_t created_ = 0;  // seconds since 1970
  // Running requests share it, so that a late Cancel finds it.
  std::shared_ptr<chat::ModelHost> host_;
};

}  // namespace hone::serve
