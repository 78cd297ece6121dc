// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The server of `hone serve`: the API, the page, health, metrics and imports on one port.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "serve/http_server.h"
#include "serve/http_types.h"
#include "serve/model_registry.h"
#include "serve/openai/endpoints.h"
#include "serve/server_metrics.h"

namespace hone::serve {

struct ServerOptions {
  HttpOptions http = {};
  openai::ApiOptions api = {};
  std::string version = {};
  bool page = true;
  bool allow_import = false;  // POST /models/import, from this machine only
  Json props = {};            // null, or an object whose members go into /props
  // A stream that sends nothing for so long gets a comment.
  std::chrono::milliseconds keep_alive{10'000};
};

// loading until SetReady, then ok until BeginDrain. All methods but Start and Stop may be called
// from any thread.
class Server {
 public:
  // The registry must outlive the server.
  Server(ServerOptions options, ModelRegistry& registry);
  // Stop(0).
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Listens. Fails as HttpServer::Start does.
  Status Start();
  std::uint16_t port() const { return http_.port(); }
  std::string url() const { return http_.url(); }
  std::vector<std::string> Warnings() const { return http_.Warnings(); }
  bool has_page() const { return has_page_; }

  // /health says ok from now on; requests are taken before that, too.
  void SetReady();
  // New requests that cost work get a 503, those that run go on.
  void BeginDrain();
  // API requests and imports that are not answered completely.
  std::int64_t num_running() const { return *num_running_; }
  // HttpServer::Stop, after BeginDrain.
  void Stop(std::chrono::milliseconds drain_time);

 private:
  enum class Phase : std::uint8_t { kLoading, kOk, kDraining };
  using Writer = std::shared_ptr<ResponseWriter>;

  HttpOptions WithCounting(HttpOptions options);
  void AddRoutes();
  void AddApiRoute(const char* method, const char* pattern);
  void AddPage();
  void AnswerApi(const Request& request, const Writer& writer);
  void AnswerImport(const Request& request, const Writer& writer);
  Response Health() const;
  Response Props() const;

  const ServerOptions options_;
  ModelRegistry& registry_;
  const std::shared_ptr<ServerMetrics> metrics_;
  const std::shared_ptr<std::atomic<std::int64_t>> num_running_;
  MeteredBackend backend_;
  std::atomic<Phase> phase_{Phase::kLoading};
  bool has_page_ = false;
  HttpServer http_;  // last: its handlers use the others
};

}  // namespace hone::serve
