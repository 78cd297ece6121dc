// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <cstdlib>
#include <string_view>

#include "base/check.h"

namespace hone {
namespace {
constexpr EnvVar kTable[] = {
    {"HONE_CPU",
     "caps the kernels: portable (or baseline), avx2, avxvnni, avx512vnni, neon_dot, neon_i8mm "
     "(for "
     "tests)"},
    {"HONE_API_KEY", "the key that clients of 'hone serve' must send"},
    {"HONE_PYTHON", "the Python that 'hone pull' runs, python3 if unset"},
    {"NO_COLOR", "any value: no colour on a terminal"},
    {"HF_ENDPOINT", "the hub, https://huggingface.co if unset"},
    {"HF_TOKEN", "the access token for the hub"},
    {"HF_TOKEN_PATH", "a file with the token, HF_HOME/token if unset"},
    {"HF_HOME", "the folder of the hub's programs, ~/.cache/huggingface if unset"},
    {"HF_HUB_CACHE", "the folder of downloads, HF_HOME/hub if unset"},
    {"HUGGINGFACE_HUB_CACHE", "an older name of HF_HUB_CACHE"},
    {"HF_HUB_OFFLINE", "1: use what was downloaded, ask nobody"},
    {"TRANSFORMERS_OFFLINE", "an older name of HF_HUB_OFFLINE"},
    {"HF_HUB_DOWNLOAD_TIMEOUT", "seconds without a byte before a transfer is tried again, 30"},
    {"CURL_CA_BUNDLE", "a file with the certificates to trust, the system's if unset"},
    {"SSL_CERT_FILE", "the same as CURL_CA_BUNDLE"},
    {"XDG_CACHE_HOME", "the folder of caches, ~/.cache if unset"},
    {"XDG_STATE_HOME", "the folder of the chat's history, ~/.local/state if unset"},
    {"TERM", "the kind of terminal; dumb: lines are not edited and nothing is dimmed"},
    {"HOME", "the user's folder"},
};
}  // namespace

std::span<const EnvVar> EnvTable() { return kTable; }

std::string GetEnv(const char* name) {
  bool known = false;
  for (const EnvVar& var : kTable) known = known || std::string_view(var.name) == name;
  HONE_CHECK(known);
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace hone
