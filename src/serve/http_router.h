// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Which handler answers a method and a path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/http_types.h"

namespace hone::serve {

struct RouteOptions {
  // Served without the API key, for example the chat page: it asks for the key itself.
  bool open = false;
  // Runs on the server's own thread, so that it answers even while every other thread works. It
  // must not block and must be quick.
  bool quick = false;
};

struct Route {
  std::string method;
  std::vector<std::string> parts;  // of the path; "{name}" stands for one, "{name*}" for the rest
  HttpHandler handler;
  RouteOptions options;
};

class HttpRouter {
 public:
  // pattern: "/v1/models/{id}"; "{id*}" at the end takes slashes too. A GET route answers HEAD.
  // A wrong pattern, or a second route for the same, ends the program.
  void Add(std::string_view method, std::string_view pattern, HttpHandler handler,
           RouteOptions options = {});

  struct Match {
    const Route* route = nullptr;  // null: see methods
    std::string methods;           // "GET, HEAD, OPTIONS", or "" if nothing has that path
    std::vector<std::pair<std::string, std::string>> values;
    bool bad_escape = false;  // a percent escape of the path is broken
  };
  Match Find(std::string_view method, std::string_view path) const;

  static bool IsKnownMethod(std::string_view method);

 private:
  std::vector<Route> routes_;
};

}  // namespace hone::serve
