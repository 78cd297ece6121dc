// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Bytes of a client through a whole connection: parser, checks, routes, answers. The first byte
// says in what steps they come a second time; the answers must not depend on it.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "serve/http_client.h"
#include "serve/http_fake_transport.h"

namespace {

using hone::serve::Request;
using hone::serve::ResponseWriter;

hone::serve::HttpOptions Options() {
  hone::serve::HttpOptions options;
  options.limits.target_bytes = 100;
  options.limits.header_bytes = 400;
  options.limits.header_count = 8;
  options.limits.body_bytes = 50;
  options.limits.all_bodies_bytes = 200;
  options.allow_origins = {"https://a.example"};
  return options;
}

std::vector<std::string> Run(std::string_view bytes, std::size_t step) {
  hone::serve::FakeServer server(Options());
  server.router.Add("POST", "/e", [](Request request, const std::shared_ptr<ResponseWriter>& w) {
    w->Send({.body = std::move(request.body)});
  });
  server.router.Add("GET", "/{n*}",
                    [](const Request& request, const std::shared_ptr<ResponseWriter>& w) {
                      w->BeginStream({});
                      w->Write(request.PathValue("n"));
                      w->EndStream();
                    });
  server.Connect();
  for (std::size_t at = 0; at < bytes.size(); at += step) server.Receive(bytes.substr(at, step));
  server.transport->DeliverEnd(/*clean=*/true);
  server.Run();
  for (int i = 0; i < 3; ++i) {  // whatever a time limit makes it say goes out, then it lingers
    server.transport->Wait(std::chrono::hours(1));
    server.Run();
  }
  HONE_CHECK(server.transport->closed() && server.host.num_requests == 0);
  HONE_CHECK(server.host.all_bodies_bytes == 0);

  // What went out is one well-formed answer a request, and nothing else.
  std::vector<std::string> answers;
  std::string& out = server.transport->written;
  for (const hone::serve::HttpAccess& access : server.log) {
    const bool head = access.method == "HEAD";
    auto answer = hone::serve::ReadAnswer(out, head, /*closed=*/true);
    if (answer && answer->status == 100) {
      answer = hone::serve::ReadAnswer(out, head, /*closed=*/true);
    }
    HONE_CHECK(answer && answer->whole && answer->status == access.status);
    answers.push_back(std::to_string(answer->status) + " " + answer->body);
  }
  if (out == "HTTP/1.1 100 Continue\r\n\r\n") out.clear();
  HONE_CHECK(out.empty());
  return answers;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::vector<std::string> whole = Run(bytes, size);
  HONE_CHECK(whole == Run(bytes, 1 + data[0] % 64));
  return 0;
}
