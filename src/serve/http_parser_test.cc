// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/http_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace hone::serve {
namespace {

using Event = RequestParser::Event;

// What a parser makes of bytes that come step at a time: requests, and the status at the end.
struct Outcome {
  std::vector<std::string> requests;
  int error = 0;
  bool operator==(const Outcome&) const = default;
};

Outcome Parse(std::string_view bytes, std::size_t step, const HttpLimits& limits = {}) {
  RequestParser parser(limits);
  Outcome outcome;
  for (std::size_t at = 0; at < bytes.size() && outcome.error == 0; at += step) {
    parser.Append(bytes.substr(at, step));
    for (Event event = parser.Next(); event != Event::kNeedMore; event = parser.Next()) {
      if (event == Event::kError) {
        outcome.error = parser.error().status;
        break;
      }
      if (event == Event::kHead) continue;
      const Request& request = parser.request();
      std::string text = StrCat(request.method, " ", request.path, " ?", request.query, " ");
      for (const Header& field : request.headers) text += field.name + "=" + field.value + ";";
      outcome.requests.push_back(StrCat(text, " ", request.body));
      parser.Restart();
    }
  }
  return outcome;
}

Outcome ParseAllWays(std::string_view bytes, const HttpLimits& limits = {}) {
  const Outcome whole = Parse(bytes, bytes.size(), limits);
  for (const std::size_t step : {1U, 2U, 3U, 7U}) {
    const Outcome other = Parse(bytes, step, limits);
    EXPECT_EQ(whole.requests, other.requests) << step << ": " << bytes;
    EXPECT_EQ(whole.error, other.error) << step << ": " << bytes;
  }
  return whole;
}

TEST(RequestParser, ReadsRequestsOneAfterTheOther) {
  const Outcome outcome = ParseAllWays(
      "\r\nGET /a?x=1&y HTTP/1.1\r\nHost: h\r\nEmpty:\r\nX:\t v w \t\r\n\r\n"
      "POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc\r\n"
      "POST /c HTTP/1.0\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
      "GET http://h/d HTTP/1.1\r\nHost: h\r\n\r\n"
      "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(outcome.error, 0);
  EXPECT_EQ(outcome.requests, (std::vector<std::string>{
                                  "GET /a ?x=1&y Host=h;Empty=;X=v w; ",
                                  "POST /b ? Host=h;Content-Length=3; abc",
                                  "POST /c ? Host=h;Content-Length=0; ",
                                  "GET /d ? Host=h; ",
                                  "OPTIONS * ? Host=h; ",
                              }));
}

TEST(RequestParser, PutsChunksTogetherAndDropsWhatFollowsThem) {
  const Outcome outcome = ParseAllWays(
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "3\r\nabc\r\n0A;name=\"v\";x\r\n0123456789\r\n000\r\nHost: evil\r\nX: y\r\n\r\n"
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_EQ(outcome.error, 0);
  EXPECT_EQ(outcome.requests, (std::vector<std::string>{
                                  "POST / ? Host=h;Transfer-Encoding=Chunked; abc0123456789",
                                  "POST / ? Host=h;Transfer-Encoding=chunked; ",
                              }));
}

TEST(RequestParser, RefusesWhatAnotherReaderCouldUnderstandDifferently) {
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\n";
  const std::string chunked = start + "Transfer-Encoding: chunked\r\n\r\n";
  const struct {
    std::string bytes;
    int status;
  } cases[] = {
      {start + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {start + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400},
      {start + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
      {start + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
      {start + "Content-Length: 3, 3\r\n\r\nabc", 400},
      {start + "Content-Length: +3\r\n\r\nabc", 400},
      {start + "Content-Length: -1\r\n\r\n", 400},
      {start + "Content-Length: 0x3\r\n\r\nabc", 400},
      {start + "Content-Length: 3 3\r\n\r\nabc", 400},
      {start + "Content-Length:\r\n\r\n", 400},
      {start + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {start + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
      {start + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 501},
      {start + "Transfer-Encoding: xchunked\r\n\r\n", 501},
      {start + "Transfer-Encoding:\r\n\r\n", 501},
      {"POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {start + "Content-Length : 3\r\n\r\nabc", 400},
      {start + "X: a\r\n Content-Length: 3\r\n\r\n", 400},  // folded
      {start + " X: a\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\n Host: h\r\n\r\n", 400},
      {start + "X: a\n\r\n", 400},  // bare LF
      {"GET / HTTP/1.1\nHost: h\n\n", 400},
      {start + "X: a\rb\r\n\r\n", 400},  // bare CR
      {start + std::string("X: a\0b\r\n\r\n", 10), 400},
      {start + "no colon\r\n\r\n", 400},
      {start + ": no name\r\n\r\n", 400},
      {start + "b\xc3\xa4"
               "d: name\r\n\r\n",
       400},
      {chunked + "x\r\n", 400},
      {chunked + "-1\r\n", 400},
      {chunked + "0x3\r\nabc\r\n0\r\n\r\n", 400},
      {chunked + "3 \r\nabc\r\n0\r\n\r\n", 400},
      {chunked + "\r\nabc", 400},
      {chunked + "3\r\nabcd\r\n0\r\n\r\n", 400},
      {chunked + "3\t;a\r\nabc\r\n0\r\n\r\n", 400},
      {chunked + "0 \r\n\r\n", 400},
      {chunked + "3\nabc\n0\n\nGET / HTTP/1.1\r\n", 400},
      {chunked + "10000000000000000\r\n", 400},
      {chunked + "fffffffffffffffff\r\n", 400},
      {chunked + "1;" + std::string(40'000, 'x'), 400},
      {chunked + "0\r\nContent-Length: 5\r\n\r\n", 400},
      {chunked + "0\r\nX: " + std::string(40'000, 'x'), 400},
      {"GET  / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1 \r\n\r\n", 400},
      {"GET /\r\n\r\n", 400},
      {"GET /a b HTTP/1.1\r\n\r\n", 400},
      {" GET / HTTP/1.1\r\n\r\n", 400},
      {"G@T / HTTP/1.1\r\n\r\n", 400},
      {"GET a HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET https://h/ HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET http:///x HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET http://a@h/x HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET * HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\n\r\n", 505},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"GET / HTTP/1.2\r\n\r\n", 505},
      {"GET / http/1.1\r\n\r\n", 400},
      {std::string("\x16\x03\x01\x02\x00", 5), 400},  // TLS
  };
  for (const auto& c : cases) {
    EXPECT_EQ(ParseAllWays(c.bytes).error, c.status) << c.bytes.substr(0, 200);
  }
}

TEST(RequestParser, HoldsEveryLimit) {
  HttpLimits limits;
  limits.target_bytes = 20;
  limits.header_bytes = 100;
  limits.header_count = 3;
  limits.body_bytes = 5;
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_EQ(ParseAllWays("GET /" + std::string(19, 'a') + " HTTP/1.1\r\n\r\n", limits).error, 0);
  EXPECT_EQ(ParseAllWays("GET /" + std::string(20, 'a') + " HTTP/1.1\r\n\r\n", limits).error, 414);
  EXPECT_EQ(ParseAllWays("GET /" + std::string(200, 'a'), limits).error, 414);
  EXPECT_EQ(ParseAllWays(start + "X: " + std::string(200, 'a'), limits).error, 431);
  // "POST / HTTP/1.1" and "Host: h" are 26 bytes, "X: ", CR LF and the empty line 7.
  EXPECT_EQ(ParseAllWays(start + "X: " + std::string(67, 'a') + "\r\n\r\n", limits).error, 0);
  EXPECT_EQ(ParseAllWays(start + "X: " + std::string(68, 'a') + "\r\n\r\n", limits).error, 431);
  EXPECT_EQ(ParseAllWays(start + "A: 1\r\nB: 2\r\n\r\n", limits).error, 0);
  EXPECT_EQ(ParseAllWays(start + "A: 1\r\nB: 2\r\nC: 3\r\n\r\n", limits).error, 431);
  const std::string chunked = start + "Transfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(ParseAllWays(chunked + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", limits).error, 0);
  EXPECT_EQ(ParseAllWays(chunked + "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n", limits).error, 413);
  EXPECT_EQ(ParseAllWays(chunked + "ffffffffffffffff\r\n", limits).error, 413);
}

// The length is known before the body: the server can answer before it comes.
TEST(RequestParser, TellsTheHeadBeforeTheBody) {
  RequestParser parser((HttpLimits()));
  EXPECT_FALSE(parser.started());
  parser.Append("POST /x HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\nab");
  EXPECT_EQ(parser.Next(), Event::kHead);
  EXPECT_TRUE(parser.started());
  EXPECT_EQ(parser.content_length(), 99999999999U);
  EXPECT_FALSE(parser.chunked());
}

}  // namespace
}  // namespace hone::serve
