// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// For tests and the fuzzer: a connection without socket, threads or real time.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http_connection.h"

namespace hone::serve {

class FakeTransport final : public Transport {
 public:
  void SetEvents(TransportEvents* events) override { events_ = events; }
  void Read() override { wants_read_ = true; }
  void Write(std::string bytes) override;
  void ShutdownSend() override { shut_ = true; }
  void Close() override;
  bool IsPeerGone() override { return peer_gone; }
  void SetTimer(SteadyTime at) override { timer_ = at; }
  SteadyTime Now() const override { return now; }
  const std::string& local_address() const override { return local_address_; }
  const std::string& remote_name() const override { return remote_name_; }

  // Delivers one event if the connection waits for one. False if there is nothing.
  bool DeliverWritten();
  bool DeliverRead(std::string_view bytes);
  bool DeliverEnd(bool clean);
  // Moves time on and fires the timer as often as it comes due.
  void Wait(std::chrono::milliseconds time);

  bool closed() const { return closed_; }
  bool shut() const { return shut_; }
  bool wants_read() const { return wants_read_; }

  std::string written;        // what the client got
  bool holds_writes = false;  // the client does not read
  bool peer_gone = false;
  SteadyTime now{};

 private:
  TransportEvents* events_ = nullptr;
  bool wants_read_ = false;
  bool closed_ = false;
  bool shut_ = false;
  std::optional<std::string> writing_;
  std::optional<SteadyTime> timer_;
  std::string local_address_ = "127.0.0.1";
  std::string remote_name_ = "127.0.0.1:5";
};

// A connection, with the server's part played by queues.
class FakeServer {
 public:
  explicit FakeServer(HttpOptions options);
  // After the routes are added: takes the connection.
  void Connect();
  // Runs everything that can run now: tasks, handlers, writes.
  void Run();
  // Bytes from the client, as far as the connection takes them.
  void Receive(std::string_view bytes);

  HttpRouter router;
  ConnectionHost host;
  std::shared_ptr<FakeTransport> transport = std::make_shared<FakeTransport>();
  std::shared_ptr<Connection> connection;
  std::vector<HttpAccess> log;
  bool holds_handlers = false;  // every worker is busy

 private:
  HttpOptions options_;
  std::optional<HttpPolicy> policy_;
  std::deque<std::function<void()>> posted_, handlers_;
};

}  // namespace hone::serve
