// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Loads the files of a model: many ranges at once, going on after cut connections and earlier runs,
// each file checked against its hash before it gets its name.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hub/http.h"
#include "hub/repo.h"
#include "hub/settings.h"

namespace hone::hub {

struct TransferOptions {
  int connections = 8;
  std::uint32_t chunk_bytes = 4U << 20;   // a killed run loses less than this per connection
  std::uint64_t range_bytes = 64U << 20;  // of one request; a multiple of chunk_bytes
  int retry_milliseconds = 1000;          // before the second try; doubles
  int max_tries = 6;                      // without progress in between
  double max_wait_seconds = 120;          // a server that wants more time is not waited for
  const std::atomic<bool>* cancel = nullptr;
  // Bytes that are there, of all that are wanted; what is going on.
  std::function<void(std::uint64_t done, std::uint64_t total, std::string_view what)> progress;
  std::function<void(const std::string&)> note;
};

struct Download {
  std::string name;  // in the repository
  std::string url;
  std::string etag;
  std::uint64_t bytes = 0;
  std::string target;   // appears when it is whole and right
  std::string partial;  // while it is loaded
  std::string lock;
};

// Runs until every target is there. On an error what was loaded stays in the partial files, except
// that of a file with a wrong hash. *loaded counts the bytes that came over the network.
Status LoadAll(HttpLoop* loop, const Settings& settings, const RepoRef& ref,
               const std::vector<Download>& downloads, const TransferOptions& options,
               std::uint64_t* loaded);

// One small answer as text, with the same patience. The error explains what the user can do.
Result<std::string> FetchText(HttpLoop* loop, const Settings& settings, const RepoRef& ref,
                              const std::string& url, std::size_t max_bytes,
                              const TransferOptions& options);

// The headers of a file on the hub, with the same patience.
Result<HttpResponse> FetchHeaders(HttpLoop* loop, const Settings& settings, const RepoRef& ref,
                                  const std::string& file, const std::string& url,
                                  const TransferOptions& options);

// What an etag says about the bytes of a file: "SHA-256" or "SHA-1 of git", or "" if it is neither.
std::string_view HashOfEtag(std::string_view etag);

}  // namespace hone::hub
