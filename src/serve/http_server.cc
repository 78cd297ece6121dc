// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/http_server.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "serve/http_connection.h"
#include "serve/http_loop.h"
#include "serve/http_policy.h"
#include "serve/http_text.h"
#include "serve/http_workers.h"

namespace hone::serve {
namespace {

using std::chrono::milliseconds;

// Connections over the limit that are told so at once; more than that just close.
constexpr std::size_t kMaxRefusals = 64;
// For connections to leave the table after they were closed.
constexpr milliseconds kForgetTime{1'000};

Status CheckOptions(const HttpOptions& options) {
  const HttpLimits& limits = options.limits;
  const bool sizes = limits.target_bytes > 0 && limits.header_bytes > 0 &&
                     limits.header_count > 0 && limits.body_bytes > 0 &&
                     limits.all_bodies_bytes > 0 && limits.connections > 0 &&
                     limits.queued_bytes > 0;
  const auto times = {limits.header_time,      limits.body_time,   limits.idle_time,
                      limits.write_stall_time, limits.linger_time, limits.cancel_time};
  const bool times_good =
      std::all_of(times.begin(), times.end(), [](milliseconds t) { return t.count() > 0; });
  if (!sizes || !times_good || options.num_threads < 1) {
    return Status(Code::kInvalidArgument, "every limit of the HTTP server must be over 0");
  }
  return Status();
}

}  // namespace

struct HttpServer::Impl {
  explicit Impl(HttpOptions given) : options(std::move(given)) {}

  HttpOptions options;
  HttpRouter router;
  std::optional<HttpPolicy> policy;
  ConnectionHost host;
  std::atomic<bool> started{false};

  std::atomic<std::int64_t> num_connections{0};
  std::atomic<std::uint64_t> num_accepted{0}, num_refused{0};
  EventLoop loop;
  HttpWorkers workers;
  std::thread loop_thread;
  // Of the loop's thread.
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections;

  std::mutex mutex;  // with changed: for Stop, which waits until num_connections is 0
  std::condition_variable changed;

  void SetUpHost();
  void Accept(std::shared_ptr<Transport> transport);
  bool MakeRoom();
  void Forget(Connection* connection);
  void ForEach(const std::function<void(Connection&)>& act);
  bool WaitUntilEmpty(milliseconds limit);
  void Shut(milliseconds drain_time);
};

void HttpServer::Impl::SetUpHost() {
  host.options = &options;
  host.policy = &*policy;
  host.router = &router;
  host.post = loop.poster();
  host.run_elsewhere = [this](std::function<void()> task) { workers.Run(std::move(task)); };
  host.closed = [this](Connection* connection) {
    host.post([this, connection] { Forget(connection); });
  };
}

void HttpServer::Impl::Accept(std::shared_ptr<Transport> transport) {
  ++num_accepted;
  const bool room = connections.size() < options.limits.connections || MakeRoom();
  if (!room) {
    ++num_refused;
    if (connections.size() >= options.limits.connections + kMaxRefusals) return;
  }
  const auto connection = std::make_shared<Connection>(host, std::move(transport));
  connections.emplace(connection.get(), connection);
  num_connections = static_cast<std::int64_t>(connections.size());
  if (room) {
    connection->Start();
  } else {
    connection->Refuse();
  }
}

// Ends the connection that has waited longest for its next request, if there is one.
bool HttpServer::Impl::MakeRoom() {
  Connection* oldest = nullptr;
  for (const auto& [key, connection] : connections) {
    if (!connection->is_idle()) continue;
    if (oldest == nullptr || connection->idle_since() < oldest->idle_since()) oldest = key;
  }
  if (oldest == nullptr) return false;
  oldest->Close();  // leaves the table a moment later
  return true;
}

void HttpServer::Impl::Forget(Connection* connection) {
  connections.erase(connection);
  {
    const std::lock_guard lock(mutex);
    num_connections = static_cast<std::int64_t>(connections.size());
  }
  changed.notify_all();
}

void HttpServer::Impl::ForEach(const std::function<void(Connection&)>& act) {
  host.post([this, act] {
    for (const auto& [key, connection] : connections) act(*connection);
  });
}

bool HttpServer::Impl::WaitUntilEmpty(milliseconds limit) {
  std::unique_lock lock(mutex);
  return changed.wait_for(lock, limit, [this] { return num_connections == 0; });
}

void HttpServer::Impl::Shut(milliseconds drain_time) {
  // What was accepted but not yet taken comes before this on the loop's thread, or not at all.
  std::atomic<bool> told{false};
  host.post([this, &told] {
    loop.StopListening();
    host.draining = true;
    for (const auto& [key, connection] : connections) connection->Drain();
    const std::lock_guard lock(mutex);
    told = true;
    changed.notify_all();
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return told.load(); });
  }
  if (!WaitUntilEmpty(drain_time)) {
    ForEach([](Connection& connection) { connection.Cancel(CancelReason::kShutdown); });
    if (!WaitUntilEmpty(options.limits.cancel_time)) {
      ForEach([](Connection& connection) { connection.Close(); });
    }
  }
  workers.Stop();
  WaitUntilEmpty(kForgetTime);
  loop.Stop();
  loop_thread.join();
  // What was to close them may have come too late for the loop. Nobody else runs now.
  for (const auto& [key, connection] : connections) connection->Close();
  connections.clear();
  num_connections = 0;
}

HttpServer::HttpServer(HttpOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
HttpServer::~HttpServer() { Stop(milliseconds(0)); }

void HttpServer::Handle(std::string_view method, std::string_view pattern, HttpHandler handler,
                        RouteOptions route) {
  HONE_CHECK(!impl_->started);
  impl_->router.Add(method, pattern, std::move(handler), route);
}

Status HttpServer::Start() {
  Impl& impl = *impl_;
  HONE_CHECK(!impl.started);
  HONE_TRY(CheckOptions(impl.options));
  HONE_ASSIGN(impl.policy, HttpPolicy::Create(impl.options));
  impl.SetUpHost();
  EventLoop::ListenOptions listen;
  listen.host = impl.options.host;
  listen.port = impl.options.port;
  listen.unread_time = impl.options.limits.write_stall_time;
  HONE_TRY(impl.loop.Listen(listen, [&impl](std::shared_ptr<Transport> transport) {
    impl.Accept(std::move(transport));
  }));
  if (!impl.loop.is_loopback() && impl.options.api_key.empty() && !impl.options.allow_no_key) {
    return Status(Code::kInvalidArgument,
                  StrCat("host '", impl.options.host,
                         "' can be reached from other machines, so the server needs an API key; "
                         "give one, or listen at 127.0.0.1"));
  }
  HONE_TRY(impl.workers.Start(impl.options.num_threads));
  HONE_ASSIGN(impl.loop_thread, StartThread([&impl] { impl.loop.Run(); }));
  impl.started = true;
  return Status();
}

std::uint16_t HttpServer::port() const { return impl_->loop.port(); }

std::string HttpServer::url() const {
  std::string host = impl_->options.host;
  if (host == "0.0.0.0" || host == "::") host = "localhost";
  const bool v6 = host.find(':') != std::string::npos;
  return StrCat("http://", v6 ? "[" : "", host, v6 ? "]:" : ":", int{port()});
}

std::vector<std::string> HttpServer::Warnings() const {
  std::vector<std::string> warnings;
  if (!impl_->loop.is_loopback() && impl_->options.api_key.empty()) {
    warnings.emplace_back(
        "Everyone who reaches this machine over the network can use the server: it has no API "
        "key.");
  }
  if (impl_->policy && impl_->policy->any_origin() && impl_->options.api_key.empty()) {
    warnings.emplace_back(
        "Every web page that you open can use the server: all origins are allowed and there is "
        "no API key.");
  }
  return warnings;
}

void HttpServer::Stop(milliseconds drain_time) {
  if (!impl_->started.exchange(false)) return;
  impl_->Shut(drain_time);
}

HttpServer::Load HttpServer::load() const {
  return {.connections = impl_->num_connections,
          .requests = impl_->host.num_requests,
          .accepted = impl_->num_accepted,
          .refused = impl_->num_refused};
}

}  // namespace hone::serve
