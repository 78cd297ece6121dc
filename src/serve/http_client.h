// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// For tests: a client on a raw socket that can be as rude as it likes, and a reader of answers that
// is strict.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "serve/http_types.h"

namespace hone::serve {

struct Answer {
  int status = 0;
  HeaderList headers;
  std::string body;    // chunks put together
  bool whole = false;  // the body ended as its framing says

  std::string Field(std::string_view name) const {
    const std::string* value = headers.Find(name);
    return value == nullptr ? "" : *value;
  }
  // The "message" of an error in OpenAI's form, or "" if it has another form.
  std::string ErrorMessage() const;
};

// The first answer in bytes, which it takes off; nothing if it is not all there. head: the answer
// of HEAD. closed: no more bytes come.
std::optional<Answer> ReadAnswer(std::string& bytes, bool head, bool closed);

class TestClient {
 public:
  // receive_buffer_bytes: 0 leaves the kernel's choice.
  explicit TestClient(std::uint16_t port, int receive_buffer_bytes = 0);
  ~TestClient();
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool connected() const { return connected_; }
  // False if the server has closed.
  bool Send(std::string_view bytes);
  // Whatever comes next, "" at the end or after the time is up (timed_out says which).
  std::string Receive(std::chrono::milliseconds limit = std::chrono::seconds(30));
  bool timed_out() const { return timed_out_; }
  // Reads until the end; what came.
  std::string ReceiveAll(std::chrono::milliseconds limit = std::chrono::seconds(30));
  // Reads until text has come; false if it does not. What came stays for the next ReceiveAnswer.
  bool ReceiveUntil(std::string_view text,
                    std::chrono::milliseconds limit = std::chrono::seconds(30));
  Answer ReceiveAnswer(bool head = false);
  // Sends request and gives the answer.
  Answer Ask(std::string_view request);
  void EndSending();  // a FIN
  void Close();
  void Reset();  // a RST

 private:
  int socket_ = -1;
  bool connected_ = false;
  bool timed_out_ = false;
  std::string received_;
};

// "GET /path HTTP/1.1" for localhost with further lines, each with its CR LF.
std::string Get(std::string_view path, std::string_view fields = "");
// A POST of JSON.
std::string Post(std::string_view path, std::string_view body, std::string_view fields = "");

// Open file descriptors, and threads, of this process.
int CountDescriptors();
int CountThreads();
// Looks every few milliseconds until it is true; false after limit.
template <typename Condition>
bool Eventually(const Condition& condition,
                std::chrono::milliseconds limit = std::chrono::seconds(30));
void SleepMs(int ms);

template <typename Condition>
bool Eventually(const Condition& condition, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    SleepMs(2);
  }
  return true;
}

}  // namespace hone::serve
