// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/http_parser.h"

// Beast 1.74 asserts that a last chunk has five bytes before it has them all; a client that sends
// byte by byte decides that. The code behind the assertion does not need it.
#define BOOST_DISABLE_ASSERTS
#include <boost/beast/http/basic_parser.hpp>
#include <limits>
#include <utility>

#include "base/status.h"
#include "serve/http_text.h"

namespace hone::serve {
namespace {

namespace beast = boost::beast;

// Of a chunk's size line with its extensions, and of trailer fields.
constexpr std::size_t kMaxChunkLineBytes = 16 << 10;

std::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

// Boost.Beast reads request line, fields and chunks. What it lets pass and we do not is checked
// before (CheckHeadLines) and after (CheckFraming).
class RequestParser::Grammar final : public beast::http::basic_parser<true> {
 public:
  Grammar(RequestParser& parser, std::size_t max_body_bytes)
      : parser_(parser), max_body_bytes_(max_body_bytes) {
    header_limit(std::numeric_limits<std::uint32_t>::max());
    body_limit(std::numeric_limits<std::uint64_t>::max());
  }

  bool too_large() const { return too_large_; }

 private:
  using Error = beast::error_code;

  void on_request_impl(beast::http::verb /*verb*/, beast::string_view method,
                       beast::string_view target, int version, Error& /*error*/) override {
    parser_.request_.method = View(method);
    parser_.target_ = View(target);
    parser_.request_.minor_version = version % 10;
  }
  void on_response_impl(int /*status*/, beast::string_view /*reason*/, int /*version*/,
                        Error& error) override {
    error = beast::http::error::bad_method;
  }
  void on_field_impl(beast::http::field /*field*/, beast::string_view name,
                     beast::string_view value, Error& /*error*/) override {
    // Fields behind a chunked body are read and dropped.
    if (!in_header_) return;
    parser_.request_.headers.Add(View(name), View(value));
  }
  void on_header_impl(Error& /*error*/) override { in_header_ = false; }
  void on_body_init_impl(const boost::optional<std::uint64_t>& /*bytes*/,
                         Error& /*error*/) override {}
  std::size_t on_body_impl(beast::string_view body, Error& error) override {
    return Take(body, error);
  }
  void on_chunk_header_impl(std::uint64_t bytes, beast::string_view extensions,
                            Error& error) override {
    // Blanks behind the size: readers differ on them.
    if (!extensions.empty() && extensions.front() != ';') {
      error = beast::http::error::bad_chunk_extension;
    } else if (bytes > max_body_bytes_ - parser_.request_.body.size()) {
      Refuse(error);
    }
  }
  std::size_t on_chunk_body_impl(std::uint64_t /*remain*/, beast::string_view body,
                                 Error& error) override {
    return Take(body, error);
  }
  void on_finish_impl(Error& /*error*/) override {}

  std::size_t Take(beast::string_view body, Error& error) {
    if (body.size() > max_body_bytes_ - parser_.request_.body.size()) {
      Refuse(error);
      return 0;
    }
    parser_.request_.body.append(body.data(), body.size());
    return body.size();
  }
  void Refuse(Error& error) {
    too_large_ = true;
    error = beast::http::error::body_limit;
  }

  RequestParser& parser_;
  std::size_t max_body_bytes_;
  bool in_header_ = true;
  bool too_large_ = false;
};

RequestParser::RequestParser(const HttpLimits& limits) : limits_(limits) { Restart(); }
RequestParser::~RequestParser() = default;

void RequestParser::Append(std::string_view bytes) { buffer_.append(bytes); }

void RequestParser::Restart() {
  grammar_ = std::make_unique<Grammar>(*this, limits_.body_bytes);
  request_ = Request();
  target_.clear();
  target_authority_.clear();
  content_length_.reset();
  chunked_ = false;
  started_ = false;
  scanned_ = 0;
  state_ = State::kHead;
}

RequestParser::Event RequestParser::Next() {
  switch (state_) {
    case State::kHead:
      return ReadHead();
    case State::kBody:
      return ReadBody();
    case State::kComplete:
      return Event::kComplete;
    case State::kError:
      return Event::kError;
  }
  return Event::kError;
}

RequestParser::Event RequestParser::Fail(int status, std::string message) {
  state_ = State::kError;
  error_ = {.status = status, .message = std::move(message)};
  if (status == 413) error_.code = "body_too_large";
  return Event::kError;
}

RequestParser::Event RequestParser::ReadHead() {
  if (!started_) {
    // Empty lines before a request are allowed; some old clients end a body with one.
    std::size_t skip = 0;
    while (buffer_.compare(skip, 2, "\r\n") == 0) skip += 2;
    buffer_.erase(0, skip);
    started_ = !buffer_.empty() && buffer_ != "\r";
    if (!started_) return Event::kNeedMore;
  }
  const std::size_t head_bytes = FindHeadEnd();
  if (state_ == State::kError) return Event::kError;
  if (head_bytes == 0) return Event::kNeedMore;
  const std::string head = buffer_.substr(0, head_bytes);
  buffer_.erase(0, head_bytes);
  if (!CheckHeadLines(head)) return Event::kError;
  beast::error_code error;
  grammar_->put({head.data(), head.size()}, error);
  if (error) return Fail(400, StrCat("the request is not HTTP/1.1: ", error.message()));
  if (!grammar_->is_header_done()) return Fail(400, "the request is not HTTP/1.1");
  if (!SplitTarget() || !CheckFraming()) return Event::kError;
  state_ = State::kBody;
  return Event::kHead;
}

std::size_t RequestParser::FindHeadEnd() {
  for (std::size_t i = scanned_; i < buffer_.size(); ++i) {
    const auto c = static_cast<unsigned char>(buffer_[i]);
    const bool after_return = i > 0 && buffer_[i - 1] == '\r';
    if ((c == '\n') != after_return) {
      Fail(400, "a line of the request does not end with CR LF");
      return 0;
    }
    if ((c < 0x20 && c != '\t' && c != '\r' && c != '\n') || c == 0x7f) {
      Fail(400, "the request has control characters before its body; is the client using TLS?");
      return 0;
    }
    if (c == '\n' && i >= 3 && buffer_.compare(i - 3, 4, "\r\n\r\n") == 0) return i + 1;
    if (i + 1 >= limits_.header_bytes) {
      const bool in_first_line = buffer_.find('\n') > i;
      Fail(in_first_line ? 414 : 431,
           StrCat(in_first_line ? "the request line has" : "request line and header fields have",
                  " over ", limits_.header_bytes, " bytes"));
      return 0;
    }
  }
  scanned_ = buffer_.size();
  return 0;
}

bool RequestParser::CheckHeadLines(std::string_view head) {
  std::size_t num_fields = 0;
  head.remove_suffix(2);  // the empty line
  for (bool first = true; !head.empty(); first = false) {
    const std::size_t end = head.find("\r\n");
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 2);
    if (first) {
      if (!CheckRequestLine(line)) return false;
      continue;
    }
    if (++num_fields > limits_.header_count) {
      Fail(431, StrCat("the request has over ", limits_.header_count, " header fields"));
      return false;
    }
    // A line that begins with a blank would go on with the field before it: each proxy reads that
    // in its own way.
    if (!IsToken(line.substr(0, line.find(':'))) || line.find(':') == std::string_view::npos) {
      Fail(400, StrCat("header field ", num_fields, " does not begin with a name and a colon"));
      return false;
    }
  }
  return true;
}

bool RequestParser::CheckRequestLine(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  const bool three_parts = first != std::string_view::npos && first != last &&
                           line.find(' ', first + 1) == last &&
                           line.find('\t') == std::string_view::npos;
  if (!three_parts || !IsToken(line.substr(0, first))) {
    Fail(400, "the request line is not METHOD TARGET HTTP/1.1");
    return false;
  }
  const std::string_view version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    const bool other = version.starts_with("HTTP/");
    Fail(other ? 505 : 400, other ? "the server speaks HTTP/1.1 and HTTP/1.0 only"
                                  : "the request line is not METHOD TARGET HTTP/1.1");
    return false;
  }
  if (last - first - 1 > limits_.target_bytes) {
    Fail(414, StrCat("the target has ", last - first - 1, " bytes, at most ", limits_.target_bytes,
                     " are allowed"));
    return false;
  }
  return true;
}

bool RequestParser::SplitTarget() {
  std::string_view target = target_;
  constexpr std::string_view kScheme = "http://";
  if (EqualsIgnoreCase(target.substr(0, kScheme.size()), kScheme)) {
    target.remove_prefix(kScheme.size());
    const std::size_t end = std::min(target.find_first_of("/?"), target.size());
    target_authority_ = target.substr(0, end);
    if (!ParseAuthority(target_authority_)) {
      Fail(400, "the target does not name a host");
      return false;
    }
    target.remove_prefix(end);
  }
  const std::size_t question = target.find('?');
  request_.path = target.substr(0, question);
  if (question != std::string_view::npos) request_.query = target.substr(question + 1);
  if (request_.path.empty() && !target_authority_.empty()) request_.path = "/";
  const bool any = request_.path == "*" && request_.method == "OPTIONS";
  if ((!request_.path.starts_with('/') && !any) || target.find('#') != std::string_view::npos) {
    Fail(400, "the target is not a path");
    return false;
  }
  return true;
}

// Where the body ends must have one meaning only (RFC 9112, section 6).
bool RequestParser::CheckFraming() {
  const HeaderList& headers = request_.headers;
  if (const std::string* coding = headers.Find("Transfer-Encoding")) {
    if (headers.Count("Transfer-Encoding") > 1 || headers.Count("Content-Length") > 0 ||
        request_.minor_version == 0) {
      Fail(400, "the request's length is ambiguous: Transfer-Encoding with another length");
      return false;
    }
    if (!EqualsIgnoreCase(*coding, "chunked")) {
      Fail(501, "the only transfer coding of the server is chunked");
      return false;
    }
    chunked_ = true;
    return true;
  }
  const std::string* length = headers.Find("Content-Length");
  if (length == nullptr) return true;
  const bool digits = !length->empty() && length->size() <= 19 &&
                      length->find_first_not_of("0123456789") == std::string::npos;
  if (headers.Count("Content-Length") > 1 || !digits) {
    Fail(400, "Content-Length is not one number");
    return false;
  }
  std::uint64_t bytes = 0;
  for (const char c : *length) bytes = bytes * 10 + static_cast<std::uint64_t>(c - '0');
  content_length_ = bytes;
  return true;
}

RequestParser::Event RequestParser::ReadBody() {
  std::size_t used = 0;
  beast::error_code error;
  while (!grammar_->is_done() && used < buffer_.size() && !error) {
    used += grammar_->put({buffer_.data() + used, buffer_.size() - used}, error);
  }
  buffer_.erase(0, used);
  if (grammar_->too_large()) {
    return Fail(413, StrCat("the body has over ", limits_.body_bytes, " bytes"));
  }
  if (error && error != beast::http::error::need_more) {
    return Fail(400, StrCat("the body is not well formed: ", error.message()));
  }
  if (grammar_->is_done()) {
    state_ = State::kComplete;
    return Event::kComplete;
  }
  if (buffer_.size() > kMaxChunkLineBytes) {
    return Fail(400, "the body is not well formed: a chunk begins with too long a line");
  }
  return Event::kNeedMore;
}

}  // namespace hone::serve
