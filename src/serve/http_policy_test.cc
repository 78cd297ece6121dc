// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/http_policy.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "serve/http_router.h"
#include "serve/http_text.h"
#include "serve/http_writer.h"

namespace hone::serve {
namespace {

HttpPolicy Policy(const HttpOptions& options) {
  auto policy = HttpPolicy::Create(options);
  EXPECT_TRUE(policy.ok()) << policy.message();
  return *std::move(policy);
}

Request RequestWith(std::string_view method, const HeaderList& headers) {
  Request request;
  request.method = method;
  request.headers = headers;
  return request;
}

int StatusOf(const std::optional<HttpError>& error) { return error ? error->status : 200; }

TEST(HttpPolicy, KnowsItsOwnNamesOnly) {
  HttpOptions options;
  options.host = "192.168.1.5";
  options.allow_hosts = {"llm.example.org", "10.0.0.7", "fd00::7"};
  const HttpPolicy policy = Policy(options);
  const auto check = [&](const std::string& host) {
    return StatusOf(policy.CheckHost(RequestWith("GET", {{"Host", host}}), "192.168.1.9", ""));
  };
  for (const char* host :
       {"localhost", "LOCALHOST:8080", "127.0.0.1", "127.8.8.8:1", "[::1]", "[::1]:8080",
        "[0:0:0:0:0:0:0:1]", "192.168.1.5:80", "192.168.1.9", "[::ffff:192.168.1.9]",
        "LLM.example.org:443", "10.0.0.7", "[fd00::7]:1"}) {
    EXPECT_EQ(check(host), 200) << host;
  }
  for (const char* host :
       {"evil.example", "localhost.evil.example", "evil-localhost", "127.0.0.1.evil.example",
        "192.168.1.6", "0.0.0.0", "[fe80::1]", "example.org", "127.1"}) {
    EXPECT_EQ(check(host), 403) << host;
  }
  for (const char* host :
       {"", "a b", "localhost:", "localhost:x", "localhost:99999", "user@localhost", "::1", "[::1",
        "[evil]", "localhost/", "localhost,evil", "[::1]x"}) {
    EXPECT_EQ(check(host), 400) << host;
  }
  const auto with = [&](const HeaderList& headers, const std::string& target) {
    return StatusOf(policy.CheckHost(RequestWith("GET", headers), "127.0.0.1", target));
  };
  EXPECT_EQ(with({}, ""), 400);
  EXPECT_EQ(with({{"Host", "localhost"}, {"Host", "localhost"}}, ""), 400);
  EXPECT_EQ(with({{"Host", "localhost"}}, "localhost"), 200);
  EXPECT_EQ(with({{"Host", "localhost"}}, "evil.example"), 400);
  EXPECT_EQ(with({{"Host", "evil.example"}}, "evil.example"), 403);
}

TEST(HttpPolicy, PagesOfOtherSitesStayOut) {
  HttpOptions options;
  const HttpPolicy policy = Policy(options);
  options.allow_origins = {"https://Friend.example", "http://localhost:3000"};
  const HttpPolicy friendly = Policy(options);
  options.allow_origins = {"*"};
  const HttpPolicy open = Policy(options);
  const auto check = [](const HttpPolicy& p, const std::string& method, const std::string& origin,
                        const std::string& host = "localhost:8080") {
    return StatusOf(p.CheckOrigin(RequestWith(method, {{"Host", host}, {"Origin", origin}})));
  };
  EXPECT_EQ(check(policy, "POST", "http://localhost:8080"), 200);
  EXPECT_EQ(check(policy, "POST", "HTTP://LocalHost:8080"), 200);
  EXPECT_EQ(check(policy, "POST", "http://127.0.0.1:80", "127.0.0.1"), 200);
  EXPECT_EQ(check(policy, "POST", "https://127.0.0.1", "127.0.0.1:443"), 200);
  for (const char* method : {"GET", "HEAD", "POST", "OPTIONS", "DELETE"}) {
    for (const char* origin :
         {"https://evil.example", "null", "", "http://localhost", "http://localhost:3000",
          "http://127.0.0.1:8080", "http://localhost:8080.evil.example", "file://",
          "http://localhost:8080/", "http://localhost:8080, http://evil.example"}) {
      EXPECT_EQ(check(policy, method, origin), 403) << method << " " << origin;
    }
  }
  EXPECT_EQ(check(friendly, "POST", "https://friend.example"), 200);
  EXPECT_EQ(check(friendly, "POST", "http://localhost:3000"), 200);
  EXPECT_EQ(check(friendly, "POST", "http://friend.example"), 403);
  EXPECT_EQ(check(friendly, "POST", "null"), 403);
  EXPECT_EQ(check(open, "POST", "https://evil.example"), 200);
  const auto site = [&](const std::string& method, const std::string& value) {
    return StatusOf(policy.CheckOrigin(RequestWith(method, {{"Sec-Fetch-Site", value}})));
  };
  EXPECT_EQ(site("POST", "cross-site"), 403);
  EXPECT_EQ(site("POST", "same-site"), 403);
  EXPECT_EQ(site("POST", "same-origin"), 200);
  EXPECT_EQ(site("POST", "none"), 200);
  EXPECT_EQ(site("GET", "cross-site"), 200);  // a link; the page cannot read it
  EXPECT_EQ(StatusOf(policy.CheckOrigin(RequestWith("POST", {}))), 200);
}

TEST(HttpPolicy, OnlyAllowedOriginsGetCorsFields) {
  HttpOptions options;
  const Request request =
      RequestWith("OPTIONS", {{"Host", "localhost"},
                              {"Origin", "https://a.example"},
                              {"Access-Control-Request-Method", "POST"},
                              {"Access-Control-Request-Headers", "authorization,content-type"},
                              {"Access-Control-Request-Private-Network", "true"}});
  EXPECT_EQ(Policy(options).CorsHeaders(request).size(), 0U);
  EXPECT_EQ(Policy(options).PreflightHeaders(request, "POST").size(), 0U);
  options.allow_origins = {"https://b.example"};
  EXPECT_EQ(Policy(options).CorsHeaders(request).Find("Access-Control-Allow-Origin"), nullptr);
  EXPECT_EQ(*Policy(options).CorsHeaders(request).Find("Vary"), "Origin");
  options.allow_origins = {"https://a.example"};
  const HttpPolicy policy = Policy(options);
  EXPECT_EQ(*policy.CorsHeaders(request).Find("Access-Control-Allow-Origin"), "https://a.example");
  const HeaderList preflight = policy.PreflightHeaders(request, "POST, OPTIONS");
  EXPECT_EQ(*preflight.Find("Access-Control-Allow-Methods"), "POST, OPTIONS");
  EXPECT_EQ(*preflight.Find("Access-Control-Allow-Headers"), "authorization, content-type");
  EXPECT_EQ(*preflight.Find("Access-Control-Allow-Private-Network"), "true");
  options.allow_origins = {"*"};
  EXPECT_EQ(*Policy(options).CorsHeaders(request).Find("Access-Control-Allow-Origin"), "*");
}

TEST(HttpPolicy, TheKeyMustBeRight) {
  HttpOptions options;
  EXPECT_EQ(StatusOf(Policy(options).CheckKey(RequestWith("GET", {}))), 200);
  options.api_key = "sk-123";
  const HttpPolicy policy = Policy(options);
  const auto check = [&](const HeaderList& headers) {
    return StatusOf(policy.CheckKey(RequestWith("GET", headers)));
  };
  EXPECT_EQ(check({{"Authorization", "Bearer sk-123"}}), 200);
  EXPECT_EQ(check({{"authorization", "bearer  sk-123"}}), 200);
  for (const char* value : {"", "Bearer", "Bearer ", "Bearer sk-12", "Bearer sk-1234", "sk-123",
                            "Basic sk-123", "Bearer sk-124", "Bearer sk-123sk-123"}) {
    EXPECT_EQ(check({{"Authorization", value}}), 401) << value;
  }
  EXPECT_EQ(check({}), 401);
  EXPECT_EQ(check({{"Authorization", "Bearer sk-123"}, {"Authorization", "Bearer sk-123"}}), 401);
  // Neither the key nor what was given is repeated.
  const auto error = policy.CheckKey(RequestWith("GET", {{"Authorization", "Bearer guess"}}));
  EXPECT_EQ(error->message.find("guess"), std::string::npos);
  EXPECT_EQ(error->message.find("sk-123"), std::string::npos);
}

TEST(HttpPolicy, BodiesAreJson) {
  const HttpPolicy policy = Policy({});
  const auto check = [&](const HeaderList& headers, bool has_length = true) {
    return StatusOf(policy.CheckBody(RequestWith("POST", headers), has_length));
  };
  EXPECT_EQ(check({{"Content-Type", "application/json"}}), 200);
  EXPECT_EQ(check({{"content-type", "Application/JSON ; charset=UTF-8"}}), 200);
  EXPECT_EQ(check({{"Content-Type", "application/json"}}, false), 411);
  EXPECT_EQ(check({}), 415);
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                           "application/json-x", "", "application/json; charset=latin1",
                           "text/plain; application/json"}) {
    EXPECT_EQ(check({{"Content-Type", type}}), 415) << type;
  }
  EXPECT_EQ(check({{"Content-Type", "application/json"}, {"Content-Type", "text/plain"}}), 415);
  EXPECT_EQ(check({{"Content-Type", "application/json"}, {"Content-Encoding", "gzip"}}), 415);
  EXPECT_EQ(StatusOf(policy.CheckBody(RequestWith("GET", {}), false)), 200);
}

TEST(HttpPolicy, RefusesOptionsThatCannotWork) {
  const auto fails = [](HttpOptions options) { return !HttpPolicy::Create(options).ok(); };
  EXPECT_TRUE(fails({.api_key = "with blank"}));
  EXPECT_TRUE(fails({.api_key = "line\n"}));
  EXPECT_TRUE(fails({.allow_hosts = {"a b"}}));
  EXPECT_TRUE(fails({.allow_hosts = {"a:80"}}));
  EXPECT_TRUE(fails({.allow_hosts = {""}}));
  for (const char* origin : {"example.org", "https://example.org/", "ftp://example.org", ""}) {
    EXPECT_TRUE(fails({.allow_origins = {origin}})) << origin;
  }
}

HttpHandler Nothing() {
  return [](const Request&, const std::shared_ptr<ResponseWriter>&) {};
}

TEST(HttpRouter, FindsRoutesByMethodAndPath) {
  HttpRouter router;
  router.Add("GET", "/", Nothing());
  router.Add("GET", "/v1/models/{id*}", Nothing());
  router.Add("GET", "/v1/models", Nothing());
  router.Add("GET", "/v1/models/special", Nothing());
  router.Add("POST", "/a/{x}/b", Nothing());
  router.Add("DELETE", "/a/{x}/b", Nothing());
  const auto value = [&](std::string_view method, std::string_view path) -> std::string {
    const HttpRouter::Match match = router.Find(method, path);
    if (match.bad_escape) return "bad escape";
    if (match.route == nullptr) return match.methods.empty() ? "nothing" : match.methods;
    return match.values.empty() ? "found" : match.values[0].second;
  };
  EXPECT_EQ(value("GET", "/"), "found");
  EXPECT_EQ(value("HEAD", "/"), "found");
  EXPECT_EQ(value("POST", "/"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(value("GET", "/v1/models"), "found");
  EXPECT_EQ(value("GET", "/v1/models/"), "nothing");
  EXPECT_EQ(value("GET", "/v1/models/a"), "a");
  EXPECT_EQ(value("GET", "/v1/models/org/name"), "org/name");
  EXPECT_EQ(value("GET", "/v1/models/org%2Fna%20me"), "org/na me");
  EXPECT_EQ(value("GET", "/v1/models/special"), "found");
  EXPECT_EQ(value("GET", "/v1/models/%"), "bad escape");
  EXPECT_EQ(value("GET", "/v1/models/%zz"), "bad escape");
  EXPECT_EQ(value("POST", "/a/1/b"), "1");
  EXPECT_EQ(value("PUT", "/a/1/b"), "DELETE, OPTIONS, POST");
  EXPECT_EQ(value("POST", "/a//b"), "nothing");
  EXPECT_EQ(value("POST", "/a/1/b/c"), "nothing");
  EXPECT_EQ(value("GET", "//"), "nothing");
  EXPECT_EQ(value("OPTIONS", "*"), "nothing");
}

TEST(SseEvent, KeepsTheLinesOfData) {
  EXPECT_EQ(SseEvent("{\"a\":1}"), "data: {\"a\":1}\n\n");
  EXPECT_EQ(SseEvent("a\nb\r\nc\rd", "name"),
            "event: name\ndata: a\ndata: b\ndata: c\ndata: d\n\n");
  EXPECT_EQ(SseEvent(""), "data: \n\n");
  EXPECT_EQ(SseEvent("a\n"), "data: a\ndata: \n\n");
}

TEST(HttpText, WritesDatesAsHttpDoes) {
  EXPECT_EQ(HttpDate(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
}

}  // namespace
}  // namespace hone::serve
