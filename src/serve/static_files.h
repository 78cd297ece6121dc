// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Files that live in the program, such as the chat page, served with ETag and gzip.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http_server.h"
#include "serve/http_types.h"

namespace hone::serve {

// All views must stay valid as long as the server.
struct StaticFile {
  std::string_view path;          // "/", "/assets/app.js"
  std::string_view content_type;  // "text/html; charset=utf-8"
  std::string_view bytes = {};
  std::string_view gzip = {};  // the same bytes as a gzip stream, or "" for none
  // For HTML; "" allows nothing. Framing is refused unless it says something of frame-ancestors.
  std::string_view content_security_policy = {};
  // no-cache: kept, but asked for again each time, which costs no more than a 304.
  std::string_view cache_control = "no-cache";
};

// Answers GET and HEAD of one file.
class StaticFileHandler {
 public:
  explicit StaticFileHandler(const StaticFile& file);
  Response Answer(const Request& request) const;

 private:
  StaticFile file_;
  std::string tag_;  // with its quotes; the gzip form has another one
  std::string gzip_tag_;
};

// Adds a route for each, without the key: a browser that opens a page cannot send it. Before Start.
void ServeStaticFiles(HttpServer& server, const std::vector<StaticFile>& files);

}  // namespace hone::serve
