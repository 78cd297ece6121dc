// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The numbers of /metrics, and the backend that counts what passes through it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http_server.h"
#include "serve/http_types.h"
#include "serve/metrics.h"
#include "serve/model_registry.h"
#include "serve/openai/backend.h"

namespace hone::serve {

// Thread-safe. docs/api.md lists the names.
class ServerMetrics {
 public:
  explicit ServerMetrics(const std::string& version);

  // A finished HTTP request. route: its pattern, so that there are few.
  void CountRequest(const HttpAccess& access, std::string_view route);
  // How an answer went, of the model with that name.
  struct Outcome {
    std::string model;
    openai::Usage usage = {};
    std::string error_code = {};      // "": it is complete
    double seconds = 0;               // from the request to the end
    double first_token_seconds = -1;  // below 0: there was none
  };
  void CountAnswer(const Outcome& outcome);

  // The content of /metrics.
  std::string Render(const HttpServer::Load& load, const std::vector<ModelReport>& models);

 private:
  void SetModels(const std::vector<ModelReport>& models);
  void CountWork(const ModelReport& model);

  Metrics metrics_;
  std::mutex models_mutex_;               // guards the gauges of models, and what follows
  std::vector<std::string> model_names_;  // that have gauges
};

// Passes everything on to another backend, which must outlive it, and counts.
class MeteredBackend final : public openai::Backend {
 public:
  MeteredBackend(openai::Backend& backend, std::shared_ptr<ServerMetrics> metrics)
      : backend_(backend), metrics_(std::move(metrics)) {}

  std::vector<openai::ModelInfo> Models() override { return backend_.Models(); }
  FingerprintReader ReadFingerprint(const std::string& id) override {
    return backend_.ReadFingerprint(id);
  }
  openai::ApiResult<std::shared_ptr<openai::RunningRequest>> Start(
      openai::GenerateRequest request, std::shared_ptr<openai::EventSink> sink) override;
  openai::ApiResult<std::vector<openai::TokenPiece>> Tokenize(
      const openai::TokenizeRequest& request) override {
    return backend_.Tokenize(request);
  }
  openai::ApiResult<std::string> Detokenize(const openai::DetokenizeRequest& request) override {
    return backend_.Detokenize(request);
  }
  openai::ApiResult<std::string> Render(const openai::RenderRequest& request) override {
    return backend_.Render(request);
  }

 private:
  openai::Backend& backend_;
  std::shared_ptr<ServerMetrics> metrics_;
};

}  // namespace hone::serve
