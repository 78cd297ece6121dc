// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/http_fake_transport.h"

#include <utility>

#include "base/check.h"

namespace hone::serve {

void FakeTransport::Write(std::string bytes) {
  HONE_CHECK(!closed_ && !shut_ && !writing_ && !bytes.empty());
  writing_ = std::move(bytes);
}

void FakeTransport::Close() {
  events_ = nullptr;
  closed_ = true;
  wants_read_ = false;
  timer_.reset();
  writing_.reset();
}

bool FakeTransport::DeliverWritten() {
  if (!writing_ || holds_writes || events_ == nullptr) return false;
  written += *std::exchange(writing_, std::nullopt);
  events_->OnWritten(true);
  return true;
}

bool FakeTransport::DeliverRead(std::string_view bytes) {
  if (!std::exchange(wants_read_, false) || events_ == nullptr) return false;
  events_->OnRead(bytes);
  return true;
}

bool FakeTransport::DeliverEnd(bool clean) {
  if (!std::exchange(wants_read_, false) || events_ == nullptr) return false;
  events_->OnReadEnd(clean);
  return true;
}

void FakeTransport::Wait(std::chrono::milliseconds time) {
  const SteadyTime end = now + time;
  while (events_ != nullptr && timer_ && *timer_ <= end) {
    now = std::max(now, *std::exchange(timer_, std::nullopt));
    events_->OnTimer();
  }
  now = end;
}

FakeServer::FakeServer(HttpOptions options) : options_(std::move(options)) {
  auto policy = HttpPolicy::Create(options_);
  HONE_CHECK(policy.ok());
  policy_ = *std::move(policy);
  options_.access_log = [this](const HttpAccess& access) { log.push_back(access); };
  host.options = &options_;
  host.policy = &*policy_;
  host.router = &router;
  host.run_elsewhere = [this](std::function<void()> task) { handlers_.push_back(std::move(task)); };
  host.post = [this](std::function<void()> task) { posted_.push_back(std::move(task)); };
  host.closed = [](Connection* /*connection*/) {};
}

void FakeServer::Connect() {
  connection = std::make_shared<Connection>(host, transport);
  connection->Start();
}

void FakeServer::Run() {
  for (bool more = true; more;) {
    more = transport->DeliverWritten();
    std::deque<std::function<void()>>& queue =
        posted_.empty() && !holds_handlers ? handlers_ : posted_;
    if (queue.empty()) continue;
    const auto task = std::move(queue.front());
    queue.pop_front();
    task();
    more = true;
  }
}

void FakeServer::Receive(std::string_view bytes) {
  Run();
  if (transport->DeliverRead(bytes)) Run();
}

}  // namespace hone::serve
