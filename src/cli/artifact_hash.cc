// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/artifact_hash.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/span_util.h"
#include "bridge/sha256.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

Status NotReadable(const std::string& path) {
  return Status(Code::kIo, StrCat(path, ": cannot be read"));
}

// The file, or the folder's files in the order of their names.
Result<std::vector<std::string>> FilesOf(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored)) files.push_back(it->path().string());
  }
  if (error) return NotReadable(path);
  std::sort(files.begin(), files.end());
  return files;
}

Result<std::string> HashFile(const std::string& path, std::uint64_t& done,
                             const std::function<void(std::uint64_t)>& progress,
                             const std::atomic<bool>* cancel) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return NotReadable(path);
  std::vector<char> piece(std::size_t{4} << 20U);
  bridge::Sha256 hash;
  while (in) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      return Status(Code::kCancelled, "cancelled");
    }
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    const auto count = static_cast<std::size_t>(in.gcount());
    hash.Update(std::as_bytes(std::span<const char>(piece).first(count)));
    done += count;
    if (progress) progress(done);
  }
  if (in.bad()) return NotReadable(path);
  return hash.FinishHex();
}

}  // namespace

Result<std::uint64_t> ArtifactBytes(const std::string& path) {
  HONE_ASSIGN(const std::vector<std::string> files, FilesOf(path));
  std::uint64_t bytes = 0;
  for (const std::string& file : files) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(file, error);
    if (error) return NotReadable(file);
    bytes += size;
  }
  return bytes;
}

Result<ArtifactHash> HashArtifact(const std::string& path,
                                  const std::function<void(std::uint64_t)>& progress,
                                  const std::atomic<bool>* cancel) {
  HONE_ASSIGN(const std::vector<std::string> files, FilesOf(path));
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored);
  ArtifactHash out;
  std::string lines;
  for (const std::string& file : files) {
    HONE_ASSIGN(out.sha256, HashFile(file, out.bytes, progress, cancel));
    lines += StrCat(out.sha256, "  ", fs::path(file).filename().string(), "\n");
  }
  if (folder) out.sha256 = bridge::Sha256Hex(std::as_bytes(std::span<const char>(lines)));
  return out;
}

}  // namespace hone::cli
