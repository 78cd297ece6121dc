// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <thread>

#include "base/status.h"

namespace hone::serve {
namespace {

int CountEntries(const char* folder) {
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) n += !entry.path().empty();
  return n;
}

// The body of chunks at the start of bytes, taken off; nothing if it is not all there.
std::optional<std::string> ReadChunks(std::string_view& bytes) {
  std::string body;
  for (;;) {
    const std::size_t end = bytes.find("\r\n");
    if (end == std::string_view::npos) return std::nullopt;
    const std::size_t size = std::stoul(std::string(bytes.substr(0, end)), nullptr, 16);
    if (bytes.size() < end + 2 + size + 2) return std::nullopt;
    body += bytes.substr(end + 2, size);
    if (bytes.substr(end + 2 + size, 2) != "\r\n") return std::nullopt;
    bytes.remove_prefix(end + 2 + size + 2);
    if (size == 0) return body;
  }
}

}  // namespace

std::string Answer::ErrorMessage() const {
  const auto json = ParseJson(body);
  if (!json.ok() || Field("Content-Type") != "application/json") return "";
  const Json* error = json->Find("error");
  if (error == nullptr || error->Find("type") == nullptr || error->Find("param") == nullptr ||
      error->Find("code") == nullptr) {
    return "";
  }
  const auto message = GetString(*error, "message");
  return message.ok() ? *message : "";
}

std::optional<Answer> ReadAnswer(std::string& bytes, bool head, bool closed) {
  const std::size_t end = bytes.find("\r\n\r\n");
  if (end == std::string::npos || !bytes.starts_with("HTTP/1.1 ")) return std::nullopt;
  Answer answer;
  answer.status = std::stoi(bytes.substr(9, 3));
  std::string_view rest = bytes;
  std::string_view lines = rest.substr(0, end + 2);
  rest.remove_prefix(end + 4);
  lines.remove_prefix(lines.find("\r\n") + 2);
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find("\r\n"));
    const std::size_t colon = line.find(": ");
    answer.headers.Add(line.substr(0, colon), line.substr(colon + 2));
    lines.remove_prefix(line.size() + 2);
  }
  const bool bodyless = head || answer.status < 200 || answer.status == 204 || answer.status == 304;
  answer.whole = true;
  if (bodyless) {
  } else if (answer.Field("Transfer-Encoding") == "chunked") {
    std::string_view after = rest;
    auto body = ReadChunks(after);
    if (!body && !closed) return std::nullopt;
    answer.whole = body.has_value();
    answer.body = body ? *body : std::string(rest);
    rest = body ? after : "";
  } else if (!answer.Field("Content-Length").empty()) {
    const std::size_t size = std::stoul(answer.Field("Content-Length"));
    if (rest.size() < size && !closed) return std::nullopt;
    answer.whole = rest.size() >= size;
    answer.body = rest.substr(0, size);
    rest.remove_prefix(std::min(size, rest.size()));
  } else {
    if (!closed) return std::nullopt;
    answer.body = rest;
    rest = "";
  }
  bytes = std::string(rest);
  return answer;
}

TestClient::TestClient(std::uint16_t port, int receive_buffer_bytes)
    : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  if (receive_buffer_bytes > 0) {
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
                 sizeof receive_buffer_bytes);
  }
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

TestClient::~TestClient() { Close(); }

bool TestClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

std::string TestClient::Receive(std::chrono::milliseconds limit) {
  pollfd state = {socket_, POLLIN, 0};
  timed_out_ = ::poll(&state, 1, static_cast<int>(limit.count())) == 0;
  if (timed_out_) return "";
  std::array<char, 64 << 10> buffer;
  const ssize_t n = ::recv(socket_, buffer.data(), buffer.size(), 0);
  return n > 0 ? std::string(buffer.data(), static_cast<std::size_t>(n)) : "";
}

std::string TestClient::ReceiveAll(std::chrono::milliseconds limit) {
  std::string all = std::exchange(received_, {});
  for (std::string part = Receive(limit); !part.empty(); part = Receive(limit)) all += part;
  return all;
}

bool TestClient::ReceiveUntil(std::string_view text, std::chrono::milliseconds limit) {
  while (received_.find(text) == std::string::npos) {
    const std::string part = Receive(limit);
    if (part.empty()) return false;
    received_ += part;
  }
  return true;
}

Answer TestClient::ReceiveAnswer(bool head) {
  for (;;) {
    if (auto answer = ReadAnswer(received_, head, /*closed=*/false)) return *answer;
    const std::string part = Receive();
    if (part.empty()) return ReadAnswer(received_, head, /*closed=*/true).value_or(Answer());
    received_ += part;
  }
}

Answer TestClient::Ask(std::string_view request) {
  if (!Send(request)) return Answer();
  return ReceiveAnswer(request.starts_with("HEAD "));
}

void TestClient::EndSending() { ::shutdown(socket_, SHUT_WR); }

void TestClient::Close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void TestClient::Reset() {
  const linger at_once = {1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  Close();
}

std::string Get(std::string_view path, std::string_view fields) {
  return StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\n", fields, "\r\n");
}

std::string Post(std::string_view path, std::string_view body, std::string_view fields) {
  return StrCat("POST ", path, " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n",
                "Content-Length: ", body.size(), "\r\n", fields, "\r\n", body);
}

int CountDescriptors() { return CountEntries("/proc/self/fd"); }
int CountThreads() { return CountEntries("/proc/self/task"); }

void SleepMs(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

}  // namespace hone::serve
