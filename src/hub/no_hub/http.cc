// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// HttpLoop of a build without libcurl: nothing can be downloaded, and it says so.
#include "hub/http.h"

namespace hone::hub {

struct HttpLoop::State {};

std::string_view HttpResponse::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return "";
}

std::string HostOfUrl(const std::string&) { return ""; }

HttpLoop::HttpLoop(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpLoop::~HttpLoop() = default;

Result<std::unique_ptr<HttpLoop>> HttpLoop::Create(const Options&) {
  return Status(Code::kUnsupported,
                "this build cannot download; configure with -DHONE_HUB=ON, which needs libcurl");
}
Result<std::uint64_t> HttpLoop::Start(HttpRequest, HttpSink, HttpDone) {
  return Status(Code::kUnsupported, "this build cannot download");
}
void HttpLoop::Cancel(std::uint64_t) {}
Status HttpLoop::Run(int) { return Status(Code::kUnsupported, "this build cannot download"); }
std::size_t HttpLoop::active() const { return 0; }

}  // namespace hone::hub
