// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A connected socket and its timer, as a connection sees them. Tests and the fuzzer have their own.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace hone::serve {

using SteadyTime = std::chrono::steady_clock::time_point;

// Called on the server's thread, never from inside a call of Transport.
class TransportEvents {
 public:
  virtual ~TransportEvents() = default;
  virtual void OnRead(std::string_view bytes) = 0;
  // No more bytes will come. clean: the peer ended its half; else the connection broke.
  virtual void OnReadEnd(bool clean) = 0;
  // All of the last Write has left, or the connection broke.
  virtual void OnWritten(bool ok) = 0;
  virtual void OnTimer() = 0;
  // Something threw while handling one of the others, for lack of memory.
  virtual void OnFault() = 0;
};

// On the server's thread only.
class Transport {
 public:
  virtual ~Transport() = default;
  // Who is told; must live until Close.
  virtual void SetEvents(TransportEvents* events) = 0;
  // Reads some bytes, once.
  virtual void Read() = 0;
  // One at a time; bytes is not empty.
  virtual void Write(std::string bytes) = 0;
  virtual void ShutdownSend() = 0;
  // No event comes after it.
  virtual void Close() = 0;
  // The peer has closed, as far as can be told without reading.
  virtual bool IsPeerGone() = 0;
  // OnTimer at that time; replaces the time before.
  virtual void SetTimer(SteadyTime at) = 0;
  virtual SteadyTime Now() const = 0;
  virtual const std::string& local_address() const = 0;  // "127.0.0.1", without port
  virtual const std::string& remote_name() const = 0;    // "127.0.0.1:53218"
};

}  // namespace hone::serve
