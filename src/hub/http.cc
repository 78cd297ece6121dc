// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "hub/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "base/text.h"

namespace hone::hub {
namespace {

constexpr int kMaxRedirects = 10;
constexpr std::size_t kMaxHeaders = 100;
constexpr std::size_t kMaxHeaderBytes = 8192;
constexpr std::size_t kMaxErrorBytes = 4096;
constexpr long kConnectSeconds = 20;

std::string_view Trim(std::string_view text) {
  const auto space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

std::string UrlPart(CURLU* url, CURLUPart part, unsigned flags) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK || text == nullptr) return "";
  std::string out(text);
  curl_free(text);
  return out;
}

struct Origin {
  std::string scheme, host, port;
  bool operator==(const Origin&) const = default;
};

Origin OriginOf(const std::string& address) {
  Origin origin;
  CURLU* url = curl_url();
  if (url == nullptr) return origin;
  if (curl_url_set(url, CURLUPART_URL, address.c_str(), 0) == CURLUE_OK) {
    origin.scheme = UrlPart(url, CURLUPART_SCHEME, 0);
    origin.host = UrlPart(url, CURLUPART_HOST, 0);
    origin.port = UrlPart(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
    for (std::string* part : {&origin.scheme, &origin.host}) *part = LowerCase(*part);
  }
  curl_url_cleanup(url);
  return origin;
}

struct Call {
  std::uint64_t id = 0;
  HttpRequest request;
  HttpSink sink;
  HttpDone done;
  std::string url;  // after redirects
  Origin first;     // the origin that may see the token
  int redirects = 0;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  HttpResponse response;
  Status sink_status;
  std::array<char, CURL_ERROR_SIZE> error{};

  Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    if (easy != nullptr) curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
  }
};

extern "C" std::size_t HoneHubHeader(char* data, std::size_t size, std::size_t count, void* user) {
  const std::size_t bytes = size * count;
  HttpResponse& response = static_cast<Call*>(user)->response;
  const std::string_view line(data, bytes);
  if (line.starts_with("HTTP/")) {  // also after "100 Continue" and a proxy's own answer
    response.headers.clear();
    return bytes;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return bytes;
  if (response.headers.size() >= kMaxHeaders || bytes > kMaxHeaderBytes) return bytes;
  response.headers.emplace_back(LowerCase(line.substr(0, colon)), Trim(line.substr(colon + 1)));
  return bytes;
}

extern "C" std::size_t HoneHubBody(char* data, std::size_t size, std::size_t count, void* user) {
  auto* call = static_cast<Call*>(user);
  const std::size_t bytes = size * count;
  HttpResponse& response = call->response;
  curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &response.status);
  if (response.status / 100 != 2) {
    const std::size_t room = kMaxErrorBytes - response.error.size();
    response.error.append(data, std::min(room, bytes));
    // The rest of a long error page is of no use.
    return room == 0 ? 0 : bytes;
  }
  call->sink_status = call->sink(response, {reinterpret_cast<const std::byte*>(data), bytes});
  return call->sink_status.ok() ? bytes : 0;
}

}  // namespace

std::string_view HttpResponse::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return "";
}

std::string HostOfUrl(const std::string& url) { return OriginOf(url).host; }

struct HttpLoop::State {
  Options options;
  CURLM* multi = nullptr;
  std::map<std::uint64_t, std::unique_ptr<Call>> calls;
  std::uint64_t next_id = 1;

  ~State() {
    for (auto& [id, call] : calls) curl_multi_remove_handle(multi, call->easy);
    calls.clear();
    if (multi != nullptr) curl_multi_cleanup(multi);
  }

  Status Arm(Call* call);
  bool FollowRedirect(Call* call, HttpResult* result);
  void Finish(CURL* easy, CURLcode code);
};

// Prepares the handle for call->url and adds it to the loop.
Status HttpLoop::State::Arm(Call* call) {
  if (call->easy == nullptr) call->easy = curl_easy_init();
  CURL* easy = call->easy;
  if (easy == nullptr) return Status(Code::kOutOfMemory, "out of memory for a connection");
  curl_easy_reset(easy);
  curl_slist_free_all(call->headers);
  call->headers = nullptr;
  call->response = {};
  const Origin origin = OriginOf(call->url);
  call->response.host = origin.host;
  const HttpRequest& request = call->request;
  if (!request.token.empty() && origin == call->first) {
    const std::string line = StrCat("Authorization: Bearer ", request.token);
    call->headers = curl_slist_append(nullptr, line.c_str());
    if (call->headers == nullptr) return Status(Code::kOutOfMemory, "out of memory for a header");
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
  }
  curl_easy_setopt(easy, CURLOPT_URL, call->url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  // One connection for each request: parallel ranges shall not share one.
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall_seconds));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT, static_cast<long>(request.total_seconds));
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "hone");
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error.data());
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, HoneHubHeader);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, HoneHubBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L << 10);
  if (!options.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, options.ca_file.c_str());
  if (request.head) curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  if (request.end > 0) {
    const std::string range = StrCat(request.begin, "-", request.end - 1);
    curl_easy_setopt(easy, CURLOPT_RANGE, range.c_str());
  }
  call->error[0] = '\0';
  if (const CURLMcode code = curl_multi_add_handle(multi, easy); code != CURLM_OK) {
    return Status(Code::kIo, StrCat("cannot start a request: ", curl_multi_strerror(code)));
  }
  return {};
}

// True if the call goes on at another address. Else *result holds why not, or is untouched.
bool HttpLoop::State::FollowRedirect(Call* call, HttpResult* result) {
  const long status = call->response.status;
  if (status < 300 || status > 399 || status == 304) return false;
  const char* location = nullptr;
  curl_easy_getinfo(call->easy, CURLINFO_REDIRECT_URL, &location);
  if (location == nullptr) return false;
  const std::string next(location);
  const Origin origin = OriginOf(next);
  const Origin here = OriginOf(call->url);
  if (call->request.head && origin != here) return false;
  if (++call->redirects > kMaxRedirects) {
    result->status = Status(Code::kIo, StrCat(here.host, " redirects more than ", kMaxRedirects,
                                              " times; the address leads in a circle"));
    return false;
  }
  const bool web = origin.scheme == "http" || origin.scheme == "https";
  if (!web || (here.scheme == "https" && origin.scheme != "https")) {
    result->status =
        Status(Code::kUnsupported, StrCat(here.host, " redirects to an address that is not https (",
                                          origin.scheme.empty() ? "unreadable" : origin.scheme,
                                          "), which is not followed"));
    return false;
  }
  call->url = next;
  result->status = Arm(call);
  return result->status.ok();
}

void HttpLoop::State::Finish(CURL* easy, CURLcode code) {
  const auto found = std::find_if(calls.begin(), calls.end(),
                                  [&](const auto& entry) { return entry.second->easy == easy; });
  curl_multi_remove_handle(multi, easy);
  if (found == calls.end()) return;
  Call* call = found->second.get();
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &call->response.status);
  HttpResult result;
  const bool error_page = code == CURLE_WRITE_ERROR && call->sink_status.ok();
  if (code == CURLE_OK || error_page) {
    if (FollowRedirect(call, &result)) return;
  } else if (!call->sink_status.ok()) {
    result.status = std::move(call->sink_status);
  } else {
    const bool detail = call->error[0] != '\0';
    std::string host = call->response.host.empty() ? "the address" : call->response.host;
    result.status = Status(
        Code::kIo, StrCat(host, ": ", detail ? call->error.data() : curl_easy_strerror(code)));
    result.from_network = code != CURLE_URL_MALFORMAT && code != CURLE_UNSUPPORTED_PROTOCOL &&
                          code != CURLE_PEER_FAILED_VERIFICATION &&
                          code != CURLE_SSL_CACERT_BADFILE;
    result.unreachable = code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT ||
                         code == CURLE_COULDNT_RESOLVE_PROXY;
  }
  result.response = std::move(call->response);
  const HttpDone done = std::move(call->done);
  calls.erase(found);
  done(std::move(result));
}

HttpLoop::HttpLoop(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpLoop::~HttpLoop() = default;

Result<std::unique_ptr<HttpLoop>> HttpLoop::Create(const Options& options) {
  static const CURLcode kReady = curl_global_init(CURL_GLOBAL_DEFAULT);
  auto state = std::make_unique<State>();
  state->options = options;
  state->multi = kReady == CURLE_OK ? curl_multi_init() : nullptr;
  if (state->multi == nullptr) return Status(Code::kIo, "libcurl cannot start");
  return std::unique_ptr<HttpLoop>(new HttpLoop(std::move(state)));
}

Result<std::uint64_t> HttpLoop::Start(HttpRequest request, HttpSink sink, HttpDone done) {
  auto call = std::make_unique<Call>();
  call->id = state_->next_id++;
  call->url = request.url;
  call->first = OriginOf(request.url);
  if (call->first.host.empty()) {
    return Status(Code::kInvalidArgument, StrCat("\"", request.url, "\" is no web address"));
  }
  call->request = std::move(request);
  call->sink = std::move(sink);
  call->done = std::move(done);
  HONE_TRY(state_->Arm(call.get()));
  const std::uint64_t id = call->id;
  state_->calls.emplace(id, std::move(call));
  return id;
}

void HttpLoop::Cancel(std::uint64_t id) {
  const auto found = state_->calls.find(id);
  if (found == state_->calls.end()) return;
  curl_multi_remove_handle(state_->multi, found->second->easy);
  state_->calls.erase(found);
}

Status HttpLoop::Run(int milliseconds) {
  int running = 0;
  CURLMcode code = curl_multi_perform(state_->multi, &running);
  if (code == CURLM_OK) {
    // A request that is not running any more has ended and wants to be told at once.
    const bool all_run = static_cast<std::size_t>(running) == state_->calls.size();
    code = curl_multi_poll(state_->multi, nullptr, 0, all_run ? milliseconds : 0, nullptr);
  }
  if (code == CURLM_OK) code = curl_multi_perform(state_->multi, &running);
  if (code != CURLM_OK) {
    return Status(Code::kIo, StrCat("the network fails: ", curl_multi_strerror(code)));
  }
  std::vector<std::pair<CURL*, CURLcode>> finished;
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(state_->multi, &left)) {
    if (message->msg == CURLMSG_DONE)
      finished.emplace_back(message->easy_handle, message->data.result);
  }
  for (const auto& [easy, result] : finished) state_->Finish(easy, result);
  return {};
}

std::size_t HttpLoop::active() const { return state_->calls.size(); }

}  // namespace hone::hub
