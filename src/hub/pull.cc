// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "hub/pull.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <unordered_set>

#include "base/file.h"
#include "hub/cache.h"
#include "hub/http.h"
#include "hub/local_folder.h"
#include "hub/partial_file.h"

namespace hone::hub {
namespace {

// An etag without its quotes and its mark of weakness.
std::string NormalEtag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.starts_with('"') && etag.ends_with('"')) {
    etag = etag.substr(1, etag.size() - 2);
  }
  return std::string(etag);
}

std::string FileUrl(const Settings& settings, const RepoRef& ref, const std::string& commit,
                    const std::string& name) {
  return StrCat(settings.endpoint, "/", ref.name, "/resolve/", commit, "/", QuoteUrl(name, true));
}

// Mirrors may leave hashes and sizes out of the list; the headers of the file have them too.
Status FillFromHeaders(HttpLoop* loop, const Settings& settings, const RepoRef& ref,
                       const std::string& commit, const PullOptions& options, RepoFile* file) {
  if (!file->etag.empty() && file->has_bytes) return {};
  HONE_ASSIGN(const HttpResponse response,
              FetchHeaders(loop, settings, ref, file->name,
                           FileUrl(settings, ref, commit, file->name), options.transfer));
  const bool redirect = response.status / 100 == 3;
  std::string_view etag = response.Header("x-linked-etag");
  if (etag.empty()) etag = response.Header("etag");
  std::string_view size = response.Header("x-linked-size");
  if (size.empty() && !redirect) size = response.Header("content-length");
  if (file->etag.empty()) file->etag = NormalEtag(etag);
  const auto read = std::from_chars(size.data(), size.data() + size.size(), file->bytes);
  const bool good = !size.empty() && read.ec == std::errc() &&
                    read.ptr == size.data() + size.size() && file->bytes <= 1ULL << 50;
  file->has_bytes = file->has_bytes || good;
  if (file->has_bytes && IsBlobName(file->etag)) return {};
  return Status(
      Code::kUnsupported,
      StrCat(ref.name, "/", file->name, ": ", settings.endpoint, " does not say ",
             file->has_bytes ? "by which etag the file is known" : "how large the file is",
             "; it is no hub that Hone can use, check HF_ENDPOINT"));
}

// The free bytes on the disk of the folder, or of the nearest one above that exists.
Result<std::uint64_t> FreeBytes(std::filesystem::path folder) {
  std::error_code ignored;
  folder = std::filesystem::absolute(folder, ignored);
  while (!std::filesystem::exists(folder, ignored) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  struct statvfs disk{};
  if (::statvfs(folder.c_str(), &disk) != 0) {
    return Status(Code::kIo, StrCat(folder.string(), ": cannot ask for free disk space"));
  }
  return std::uint64_t{disk.f_bavail} * disk.f_frsize;
}

std::string Megabytes(std::uint64_t bytes) { return StrCat((bytes + 999999) / 1000000, " MB"); }

class Puller {
 public:
  Puller(const Settings& settings, const RepoRef& ref, const PullOptions& options)
      : settings_(settings),
        ref_(ref),
        options_(options),
        cache_(settings.cache, ref.name),
        local_(options.local_dir),
        to_cache_(options.local_dir.empty()) {}

  Result<PullReport> Run();

 private:
  Status List();
  Result<bool> IsThere(const RepoFile& file) const;
  Status Plan();
  Status CheckDisk() const;
  Status Publish();
  void TellUnfinished() const;

  const Settings& settings_;
  const RepoRef& ref_;
  const PullOptions& options_;
  RepoCache cache_;
  LocalFolder local_;
  bool to_cache_;
  std::unique_ptr<HttpLoop> loop_;
  std::vector<RepoFile> files_;
  std::vector<Download> downloads_;
  PullReport report_;
};

// Asks the hub for the commit and its files, and chooses.
Status Puller::List() {
  const std::string url = StrCat(settings_.endpoint, "/api/models/", ref_.name, "/revision/",
                                 QuoteUrl(ref_.revision, false), "?blobs=true");
  HONE_ASSIGN(const std::string text, FetchText(loop_.get(), settings_, ref_, url,
                                                options_.max_answer_bytes, options_.transfer));
  auto info = ParseRepoInfo(text);
  if (!info.ok()) return std::move(info).status().Context(ref_.name);
  report_.commit = info->commit;
  HONE_ASSIGN(files_, SelectFiles(ref_.name, *info, options_.selection));
  for (RepoFile& file : files_) {
    HONE_TRY(FillFromHeaders(loop_.get(), settings_, ref_, info->commit, options_, &file));
  }
  return {};
}

Result<bool> Puller::IsThere(const RepoFile& file) const {
  if (!to_cache_) return local_.Has(file, options_.force);
  return cache_.Has(report_.commit, file.name, file.bytes);
}

Status Puller::Plan() {
  for (const RepoFile& file : files_) {
    HONE_ASSIGN(const bool there, IsThere(file));
    report_.files.push_back({file.name, file.etag, file.bytes, there});
    report_.bytes += file.bytes;
    if (there) continue;
    Download download = {.name = file.name,
                         .url = FileUrl(settings_, ref_, report_.commit, file.name),
                         .etag = file.etag,
                         .bytes = file.bytes,
                         .target = to_cache_ ? cache_.Blob(file.etag) : local_.File(file.name),
                         .partial = to_cache_ ? cache_.Partial(file.etag) : local_.Partial(file),
                         .lock = to_cache_ ? cache_.Lock(file.etag) : local_.Lock(file.name)};
    downloads_.push_back(std::move(download));
  }
  return {};
}

Status Puller::CheckDisk() const {
  std::uint64_t needed = 0;
  std::unordered_set<std::string> seen;  // the same bytes may have two names
  for (const Download& file : downloads_) {
    if (!seen.insert(file.target).second || FileExists(file.target)) continue;
    needed +=
        PartialFile::MissingAt(file.partial, file.etag, file.bytes, options_.transfer.chunk_bytes);
  }
  if (needed == 0) return {};
  const std::string& folder = to_cache_ ? settings_.cache : options_.local_dir;
  HONE_ASSIGN(const std::uint64_t free, FreeBytes(folder));
  if (free >= needed && free - needed >= options_.spare_disk_bytes) return {};
  return Status(Code::kIo,
                StrCat("not enough disk space for ", ref_.name, " in ", folder, ": ",
                       Megabytes(free), " free, ", Megabytes(needed + options_.spare_disk_bytes),
                       " needed; free some, or choose another place with ",
                       to_cache_ ? "HF_HOME or --local-dir" : "--local-dir"));
}

// Gives the loaded files their names: all links, then the revision that leads to them.
Status Puller::Publish() {
  for (const RepoFile& file : files_) {
    if (!to_cache_) {
      HONE_TRY(local_.Prepare(file.name));
      HONE_TRY(local_.Note(file, report_.commit));
    } else if (!cache_.Has(report_.commit, file.name, file.bytes)) {
      HONE_TRY(cache_.Link(report_.commit, file.name, file.etag));
    }
  }
  return to_cache_ ? cache_.WriteRef(ref_.revision, report_.commit) : Status();
}

void Puller::TellUnfinished() const {
  if (!to_cache_ || !options_.transfer.note) return;
  for (const auto& [path, bytes] : cache_.Unfinished()) {
    options_.transfer.note(StrCat(path, ": an unfinished download of another file or revision (",
                                  Megabytes(bytes),
                                  "); delete it if you do not want to go on with it"));
  }
}

Result<PullReport> Puller::Run() {
  HttpLoop::Options http;
  http.stall_seconds = settings_.stall_seconds;
  http.ca_file = settings_.ca_file;
  HONE_ASSIGN(loop_, HttpLoop::Create(http));
  HONE_TRY(List());
  HONE_TRY(Plan());
  HONE_TRY(CheckDisk());
  if (!downloads_.empty()) {
    if (to_cache_) {
      HONE_TRY(cache_.Prepare());
    } else {
      for (const Download& file : downloads_) HONE_TRY(local_.Prepare(file.name));
    }
    HONE_TRY(LoadAll(loop_.get(), settings_, ref_, downloads_, options_.transfer,
                     &report_.loaded_bytes));
  }
  HONE_TRY(Publish());
  TellUnfinished();
  report_.folder = to_cache_ ? cache_.Snapshot(report_.commit) : options_.local_dir;
  return std::move(report_);
}

}  // namespace

Result<PullReport> Pull(const Settings& settings, const RepoRef& ref, const PullOptions& options) {
  if (settings.offline) {
    return Status(
        Code::kInvalidArgument,
        StrCat(ref.name, ": HF_HUB_OFFLINE forbids downloads; unset it, or use what is in ",
               settings.cache));
  }
  return Puller(settings, ref, options).Run();
}

}  // namespace hone::hub
