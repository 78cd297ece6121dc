// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "hub/explain.h"

#include <algorithm>
#include <charconv>
#include <ctime>

namespace hone::hub {
namespace {

std::string Detail(const HttpResponse& response) {
  constexpr std::size_t kMost = 200;
  const std::string_view text = response.Header("x-error-message");
  if (text.empty()) return "";
  return StrCat(" (the hub says: ", text.substr(0, kMost), ")");
}

std::string HowToGetAToken(const Settings& settings) {
  return StrCat("make a token at ", settings.endpoint,
                "/settings/tokens and set HF_TOKEN to it, or log in with huggingface_hub");
}

Status NoAccess(const Settings& settings, const RepoRef& ref, const HttpResponse& response) {
  const std::string page = StrCat(settings.endpoint, "/", ref.name);
  const bool gated = response.Header("x-error-code") == "GatedRepo";
  const std::string begin = StrCat(ref.name, ": ");
  const std::string answer = StrCat(" (", response.status, ")");
  if (gated && settings.token.empty()) {
    return Status(Code::kInvalidArgument,
                  StrCat(begin, "this model is gated", answer, ": accept its terms at ", page,
                         ", then ", HowToGetAToken(settings), Detail(response)));
  }
  if (gated) {
    return Status(
        Code::kInvalidArgument,
        StrCat(begin, "this model is gated", answer, " and the account of the token from ",
               settings.token_source, " has no access yet: accept its terms at ", page,
               " and wait until its owner agrees, then try again", Detail(response)));
  }
  if (settings.token.empty()) {
    return Status(Code::kInvalidArgument,
                  StrCat(begin, "the hub does not show this model to strangers", answer,
                         ": check the name; if the model is private or gated, open ", page, ", ",
                         HowToGetAToken(settings), Detail(response)));
  }
  return Status(
      Code::kInvalidArgument,
      StrCat(begin, "the hub refuses the token from ", settings.token_source, answer,
             ": check the name, that the token is valid, and that it may read this model (", page,
             ")", Detail(response)));
}

Status NotFound(const Settings& settings, const RepoRef& ref, const std::string& file,
                const HttpResponse& response) {
  const std::string_view code = response.Header("x-error-code");
  if (code == "RevisionNotFound") {
    return Status(Code::kNotFound,
                  StrCat(ref.name, ": there is no revision \"", ref.revision, "\" (404); see ",
                         settings.endpoint, "/", ref.name, "/tree/main for its branches and tags"));
  }
  if (!file.empty()) {
    return Status(Code::kNotFound,
                  StrCat(ref.name, ": ", file, " is not there (404)", Detail(response)));
  }
  return Status(Code::kNotFound,
                StrCat(ref.name, ": the hub at ", settings.endpoint, " has no such model",
                       code.empty() ? " or no such revision" : "", " (404); check the name",
                       Detail(response)));
}

}  // namespace

Status ExplainAnswer(const Settings& settings, const RepoRef& ref, const std::string& file,
                     const HttpResponse& response) {
  const std::string what = file.empty() ? ref.name : StrCat(ref.name, "/", file);
  switch (response.status) {
    case 401:
    case 403:
      return NoAccess(settings, ref, response);
    case 404:
      return NotFound(settings, ref, file, response);
    case 429:
      return Status(Code::kIo,
                    StrCat(what, ": ", response.host, " answers \"too many requests\" (429)",
                           settings.token.empty() ? "; set HF_TOKEN for a higher limit, or" : ";",
                           " try again later"));
    default:
      return Status(Code::kIo, StrCat(what, ": ", response.host, " answers with HTTP status ",
                                      response.status, Detail(response), "; try again later"));
  }
}

bool MayWorkLater(long status) {
  return status == 408 || status == 425 || status == 429 || status == 500 || status == 502 ||
         status == 503 || status == 504;
}

double RetryAfterSeconds(const HttpResponse& response) {
  const std::string text(response.Header("retry-after"));
  if (text.empty()) return 0;
  int seconds = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size()) return std::max(0, seconds);
  std::tm date{};
  if (::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date) == nullptr) return 0;
  return std::max(0.0, std::difftime(::timegm(&date), std::time(nullptr)));
}

}  // namespace hone::hub
