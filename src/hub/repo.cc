// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "hub/repo.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"

namespace hone::hub {
namespace {

constexpr std::size_t kMaxName = 96;
constexpr std::size_t kMaxRevision = 200;
constexpr std::size_t kMaxPath = 1024;
constexpr std::size_t kMaxComponent = 200;  // a lock or a temporary name adds a suffix

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

// Calls visit(part) for each part between slashes until it returns false.
template <typename Visit>
bool EachPart(std::string_view path, Visit visit) {
  while (true) {
    const std::size_t slash = path.find('/');
    if (!visit(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool IsNamePart(std::string_view part) {
  if (part.empty() || part.size() > kMaxName) return false;
  for (const char c : part) {
    if (!IsWord(c) && c != '-' && c != '.') return false;
  }
  return IsWord(part.front()) && IsWord(part.back());
}

bool IsRepoName(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) return false;
  if (name.find("--") != std::string_view::npos || name.find("..") != std::string_view::npos) {
    return false;
  }
  return IsNamePart(name.substr(0, slash)) && IsNamePart(name.substr(slash + 1)) &&
         !name.ends_with(".git");
}

// What git allows, so that the name is safe below the folder "refs".
bool IsRevision(std::string_view revision) {
  if (revision.empty() || revision.size() > kMaxRevision) return false;
  for (const char c : revision) {
    if (IsControl(c) || std::string_view(" ~^:?*[\\").find(c) != std::string_view::npos)
      return false;
  }
  if (revision.find("..") != std::string_view::npos) return false;
  return EachPart(revision, [](std::string_view part) {
    return !part.empty() && part.front() != '.' && !part.ends_with(".lock");
  });
}

// Why a part of a path is refused, or null.
const char* PartFault(std::string_view part) {
  if (part.empty()) return "has an empty part";
  if (part == "." || part == "..") return "leaves its folder";
  if (part.size() > kMaxComponent) return "has a part of more than 200 bytes";
  if (LowerCase(part) == ".git") return "lies in a .git folder";
  if (part.size() >= 2 && part[1] == ':') return "names a drive";
  return nullptr;
}

}  // namespace

Result<RepoRef> ParseRepoRef(std::string_view text) {
  std::string_view rest = text;
  for (const std::string_view prefix :
       {"hf://models/", "hf://", "https://huggingface.co/", "https://hf.co/"}) {
    if (!rest.starts_with(prefix)) continue;
    rest.remove_prefix(prefix.size());
    break;
  }
  while (rest.ends_with('/') && rest.find('@') == std::string_view::npos) rest.remove_suffix(1);
  RepoRef ref;
  const std::size_t tree = rest.find("/tree/");
  const std::size_t at = tree != std::string_view::npos ? tree : rest.find('@');
  if (at != std::string_view::npos) {
    ref.revision = rest.substr(at + (tree != std::string_view::npos ? 6 : 1));
    rest = rest.substr(0, at);
  }
  ref.name = rest;
  if (!IsRepoName(ref.name)) {
    return Status(Code::kInvalidArgument,
                  StrCat("\"", text,
                         "\" is no name of a model on the hub, expected ORG/NAME or "
                         "ORG/NAME@REVISION, for example openbmb/MiniCPM5-2B"));
  }
  if (!IsRevision(ref.revision)) {
    return Status(
        Code::kInvalidArgument,
        StrCat("\"", text, "\": the revision after '@' is no branch, tag or commit of git"));
  }
  return ref;
}

Status CheckFileName(std::string_view name) {
  const char* fault = nullptr;
  if (name.size() > kMaxPath) fault = "has more than 1024 bytes";
  if (std::any_of(name.begin(), name.end(), IsControl)) fault = "has a control character";
  if (name.find('\\') != std::string_view::npos) fault = "has a backslash";
  if (name.starts_with('/')) fault = "is absolute";
  if (fault == nullptr) {
    EachPart(name, [&](std::string_view part) { return (fault = PartFault(part)) == nullptr; });
  }
  if (fault == nullptr) return {};
  return Status(Code::kDataLoss, StrCat("the server names a file \"", name.substr(0, 100),
                                        "\" that ", fault, "; nothing was downloaded"));
}

bool IsHex(std::string_view text, std::size_t digits) {
  return text.size() == digits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool IsBlobName(std::string_view text) {
  if (text.empty() || text.size() > 128 || text.front() == '.' || text.front() == '-') return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return IsWord(c) || c == '-' || c == '.'; });
}

std::string QuoteUrl(std::string_view text, bool keep_slash) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 0x80 && (IsWord(c) || c == '-' || c == '.' || c == '~');
    if (plain || (c == '/' && keep_slash)) {
      out += c;
    } else {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

namespace {

// Matches one character against the pattern at *at and moves *at behind what it used.
bool MatchOne(std::string_view pattern, std::size_t* at, char c) {
  if (pattern[*at] == '?') {
    ++*at;
    return true;
  }
  const std::size_t end = pattern[*at] == '[' ? pattern.find(']', *at + 2) : std::string_view::npos;
  if (end == std::string_view::npos) return pattern[(*at)++] == c;
  std::string_view set = pattern.substr(*at + 1, end - *at - 1);
  const bool negated = set.front() == '!';
  if (negated) set.remove_prefix(1);
  bool found = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      found = found || (set[i] <= c && c <= set[i + 2]);
      i += 2;
    } else {
      found = found || set[i] == c;
    }
  }
  *at = end + 1;
  return found != negated;
}

}  // namespace

bool MatchesGlob(std::string_view pattern, std::string_view text) {
  const std::string below = pattern.ends_with('/') ? std::string(pattern) + "*" : std::string();
  if (!below.empty()) pattern = below;
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // behind the last '*'
  std::size_t retry = 0;                      // where the text goes on if that one takes more
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      retry = t;
      continue;
    }
    std::size_t next = p;
    if (p < pattern.size() && MatchOne(pattern, &next, text[t])) {
      p = next;
      ++t;
      continue;
    }
    if (star == std::string_view::npos) return false;
    p = star;
    t = ++retry;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace hone::hub
