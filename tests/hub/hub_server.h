// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Runs hub_server.py for the time of a test program.
#pragma once

#include <string>
#include <vector>

#include "hub/pull.h"

namespace hone::testing {

struct SeenRequest {
  std::string host;  // hub or storage
  std::string method, path, range, token;
};

class HubServer {
 public:
  HubServer();
  HubServer(const HubServer&) = delete;
  HubServer& operator=(const HubServer&) = delete;
  ~HubServer();

  const std::string& endpoint() const { return endpoint_; }
  // The requests for test/KIND so far.
  std::vector<SeenRequest> Log(const std::string& kind) const;
  // From now on no more than 2.5 MB of the 6 MB of test/big are sent, until Go(): whoever loads it
  // stands in the middle.
  void Hold() const;
  void Go() const;

 private:
  // The answer to a question about the server itself; empty if there is none.
  std::string Ask(const std::string& path) const;

  int input_ = -1;
  int pid_ = -1;
  std::string endpoint_;
};

// A server, a cache and settings for them.
class HubTest {
 public:
  HubTest();
  ~HubTest();
  static const HubServer& Server();

  hub::Settings settings;
  hub::PullOptions options;
  std::string root;  // a temporary folder
  std::vector<std::string> notes;

  Result<hub::PullReport> Pull(const std::string& name);
};

}  // namespace hone::testing
