// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/static_files.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "bridge/sha256.h"
#include "serve/http_text.h"

namespace hone::serve {
namespace {

// The q of "gzip;q=0.5" is not 0.
bool IsWanted(std::string_view parameters) {
  const std::size_t q = parameters.find("q=");
  if (q == std::string_view::npos) return true;
  const std::string_view value = parameters.substr(q + 2);
  return std::any_of(value.begin(), value.end(), [](char c) { return c >= '1' && c <= '9'; });
}

bool AcceptsGzip(const Request& request) {
  std::optional<bool> gzip;
  bool any = false;
  for (const Header& field : request.headers) {
    if (!EqualsIgnoreCase(field.name, "Accept-Encoding")) continue;
    for (const std::string_view item : SplitList(field.value)) {
      const std::size_t semicolon = std::min(item.find(';'), item.size());
      const std::string_view coding = TrimBlanks(item.substr(0, semicolon));
      const bool wanted = IsWanted(item.substr(semicolon));
      if (EqualsIgnoreCase(coding, "gzip")) gzip = wanted;
      if (coding == "*") any = wanted;
    }
  }
  return gzip.value_or(any);
}

bool HasTag(const Request& request, std::string_view tag) {
  for (const Header& field : request.headers) {
    if (!EqualsIgnoreCase(field.name, "If-None-Match")) continue;
    for (std::string_view item : SplitList(field.value)) {
      if (item.starts_with("W/")) item.remove_prefix(2);
      if (item == tag || item == "*") return true;
    }
  }
  return false;
}

}  // namespace

StaticFileHandler::StaticFileHandler(const StaticFile& file) : file_(file) {
  const std::string hash = bridge::Sha256Hex(AsBytes(file.bytes));
  tag_ = StrCat("\"", hash, "\"");
  gzip_tag_ = StrCat("\"", hash, "-gzip\"");
}

Response StaticFileHandler::Answer(const Request& request) const {
  const bool gzip = !file_.gzip.empty() && AcceptsGzip(request);
  const std::string& tag = gzip ? gzip_tag_ : tag_;
  Response response;
  response.headers.Add("ETag", tag);
  response.headers.Add("Cache-Control", file_.cache_control);
  if (!file_.gzip.empty()) response.headers.Add("Vary", "Accept-Encoding");
  if (HasTag(request, tag)) {
    response.status = 304;
    response.content_type.clear();
    return response;
  }
  response.content_type = file_.content_type;
  if (!file_.content_security_policy.empty()) {
    response.headers.Add("Content-Security-Policy", file_.content_security_policy);
  }
  if (gzip) response.headers.Add("Content-Encoding", "gzip");
  response.body = gzip ? file_.gzip : file_.bytes;
  return response;
}

void ServeStaticFiles(HttpServer& server, const std::vector<StaticFile>& files) {
  for (const StaticFile& file : files) {
    server.Handle("GET", file.path,
                  [handler = StaticFileHandler(file)](
                      const Request& request, const std::shared_ptr<ResponseWriter>& writer) {
                    writer->Send(handler.Answer(request));
                  },
                  {.open = true, .quick = true});
  }
}

}  // namespace hone::serve
