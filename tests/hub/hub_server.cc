// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "hub_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/json.h"
#include "run_command.h"

extern char** environ;

namespace hone::testing {

HubServer::HubServer() {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  const std::array<const char*, 3> argv = {"python3", HONE_HUB_SERVER, nullptr};
  ::posix_spawnp(&pid_, "python3", &actions, nullptr, const_cast<char**>(argv.data()), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]);
  ::close(out[1]);
  input_ = in[1];
  std::FILE* lines = ::fdopen(out[0], "r");
  if (lines == nullptr) return;
  std::array<char, 64> line{};  // to its end: a server whose reader is gone would end
  int port = 0;
  if (std::fgets(line.data(), line.size(), lines) != nullptr) port = std::atoi(line.data());
  std::fclose(lines);
  endpoint_ = StrCat("http://127.0.0.1:", port);
}

HubServer::~HubServer() {
  ::close(input_);  // the server ends with its standard input
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

std::string HubServer::Ask(const std::string& path) const {
  auto loop = hub::HttpLoop::Create({});
  if (!loop.ok()) return "";
  hub::Settings settings;
  const auto text =
      hub::FetchText(loop->get(), settings, {.name = "test/log"}, endpoint_ + path, 1 << 24, {});
  return text.ok() ? *text : "";
}

void HubServer::Hold() const { EXPECT_EQ(Ask("/_hold"), "{}"); }

void HubServer::Go() const { EXPECT_EQ(Ask("/_go"), "{}"); }

std::vector<SeenRequest> HubServer::Log(const std::string& kind) const {
  std::vector<SeenRequest> seen;
  const auto json = ParseJson(Ask("/_log"));
  EXPECT_TRUE(json.ok()) << json.message();
  if (!json.ok()) return seen;
  for (const Json& entry : json->AsArray()) {
    if (*GetString(entry, "kind") != kind) continue;
    seen.push_back({*GetString(entry, "host"), *GetString(entry, "method"),
                    *GetString(entry, "path"), *GetString(entry, "range"),
                    *GetString(entry, "token")});
  }
  return seen;
}

const HubServer& HubTest::Server() {
  static const HubServer kServer;
  return kServer;
}

HubTest::HubTest() : root(MakeTempFolder("hone-hub")) {
  settings.endpoint = Server().endpoint();
  settings.cache = root + "/cache";
  settings.stall_seconds = 60;  // a server that waits for its turn has not stalled
  options.transfer.chunk_bytes = 64 << 10;
  options.transfer.range_bytes = 256 << 10;
  options.transfer.retry_milliseconds = 1;
  options.transfer.note = [this](const std::string& text) { notes.push_back(text); };
}

HubTest::~HubTest() { RemoveFolder(root); }

Result<hub::PullReport> HubTest::Pull(const std::string& name) {
  auto ref = hub::ParseRepoRef(name);
  if (!ref.ok()) return std::move(ref).status();
  return hub::Pull(settings, *ref, options);
}

}  // namespace hone::testing
