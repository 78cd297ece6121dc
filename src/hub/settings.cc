// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "hub/settings.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/env.h"
#include "base/file.h"

namespace hone::hub {
namespace {

bool IsTrue(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string ExpandHome(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const std::string home = GetEnv("HOME");
  return home.empty() ? path : home + path.substr(1);
}

// The first variable that is set.
std::string FirstSet(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    std::string value = GetEnv(name);
    if (!value.empty()) return value;
  }
  return "";
}

Result<std::string> HubHome() {
  const std::string hub = GetEnv("HF_HOME");
  if (!hub.empty()) return ExpandHome(hub);
  const std::string cache = GetEnv("XDG_CACHE_HOME");
  if (!cache.empty()) return ExpandHome(cache) + "/huggingface";
  const std::string home = GetEnv("HOME");
  if (home.empty()) {
    return Status(
        Code::kInvalidArgument,
        "neither HF_HOME nor HOME is set, so there is no place for downloads; set HF_HOME");
  }
  return home + "/.cache/huggingface";
}

Status ReadToken(const std::string& home, Settings* settings) {
  const std::string from_env = GetEnv("HF_TOKEN");
  if (!from_env.empty()) {
    settings->token_source = "HF_TOKEN";
    HONE_ASSIGN(settings->token, CheckToken(from_env, "HF_TOKEN"));
    return {};
  }
  std::string path = ExpandHome(GetEnv("HF_TOKEN_PATH"));
  if (path.empty()) path = home + "/token";
  auto text = ReadFile(path, 64 << 10);
  if (!text.ok()) return {};  // no token is no fault
  settings->token_source = path;
  HONE_ASSIGN(settings->token, CheckToken(*text, path));
  return {};
}

}  // namespace

Result<std::string> CheckToken(std::string_view text, std::string_view source) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.remove_suffix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    text.remove_prefix(1);
  }
  const bool fits = text.size() <= 4096 && std::all_of(text.begin(), text.end(),
                                                       [](char c) { return c > 0x20 && c < 0x7f; });
  if (!fits) {
    return Status(Code::kInvalidArgument,
                  StrCat(source,
                         ": that is no access token: it has spaces or characters that a token "
                         "cannot have"));
  }
  return std::string(text);
}

Result<Settings> ReadSettings() {
  Settings settings;
  const std::string endpoint = GetEnv("HF_ENDPOINT");
  if (!endpoint.empty()) {
    settings.endpoint = endpoint;
    while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
    if (!endpoint.starts_with("http://") && !endpoint.starts_with("https://")) {
      return Status(Code::kInvalidArgument, StrCat("HF_ENDPOINT: found \"", endpoint,
                                                   "\", expected an address that begins "
                                                   "with https:// or http://"));
    }
  }
  HONE_ASSIGN(const std::string home, HubHome());
  settings.cache = ExpandHome(FirstSet({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}));
  if (settings.cache.empty()) settings.cache = home + "/hub";
  settings.offline = IsTrue(FirstSet({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));
  settings.ca_file = FirstSet({"CURL_CA_BUNDLE", "SSL_CERT_FILE"});
  const std::string stall = GetEnv("HF_HUB_DOWNLOAD_TIMEOUT");
  if (!stall.empty()) {
    const char* end = stall.data() + stall.size();
    const auto read = std::from_chars(stall.data(), end, settings.stall_seconds);
    if (read.ec != std::errc() || read.ptr != end || settings.stall_seconds < 1 ||
        settings.stall_seconds > 86400) {
      return Status(Code::kInvalidArgument, StrCat("HF_HUB_DOWNLOAD_TIMEOUT: found \"", stall,
                                                   "\", expected 1 to 86400 seconds"));
    }
  }
  HONE_TRY(ReadToken(home, &settings));
  return settings;
}

}  // namespace hone::hub
