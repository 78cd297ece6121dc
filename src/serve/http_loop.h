// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Listening sockets, connections and timers on one thread. Boost.Asio stays inside.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "serve/http_transport.h"

namespace hone::serve {

class EventLoop {
 public:
  // Takes a new connection; called on the loop's thread. Not keeping it closes it.
  using Accept = std::function<void(std::shared_ptr<Transport> transport)>;
  // Runs a function on the loop's thread; from any thread, also after the loop is gone: then it is
  // dropped.
  using Poster = std::function<void(std::function<void()>)>;

  EventLoop();
  ~EventLoop();  // after Run has returned
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Before Run. Listens at every address of host ("localhost" may have two), all on one port.
  // send_buffer_bytes: what the kernel holds for a client that does not read. unread_time: after
  // that, a peer that acknowledges nothing counts as gone.
  struct ListenOptions {
    std::string host;
    std::uint16_t port = 0;
    int send_buffer_bytes = 256 << 10;
    std::chrono::milliseconds unread_time{30'000};
  };
  Status Listen(const ListenOptions& options, Accept accept);
  std::uint16_t port() const;
  bool is_loopback() const;  // every address

  // Runs on the calling thread until Stop.
  void Run();
  void StopListening();  // on the loop's thread
  void Stop();           // from any thread
  Poster poster() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace hone::serve
