// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "hub/transfer.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <list>
#include <memory>
#include <optional>

#include "hub/blob_hash.h"
#include "hub/file_lock.h"
#include "hub/partial_file.h"
#include "hub/retry.h"

namespace hone::hub {
namespace {

constexpr std::uint64_t kProgressBytes = 1 << 20;  // that make a try count as a success
constexpr int kMaxRestarts = 5;                    // of a file whose server knows no ranges
constexpr std::size_t kHashBytes = 8 << 20;        // between two looks at the network

struct Piece {
  explicit Piece(ByteRange r) : range(r), pos(r.begin), tried_from(r.begin) {}

  ByteRange range;
  std::uint64_t pos = 0;
  std::uint64_t tried_from = 0;  // pos when the last try began
  Retry retry;
  Clock::time_point not_before;
  std::uint64_t call = 0;  // 0: no request runs
  bool asks_range = false;
  bool checked = false;  // the headers of the answer
};

enum class Phase { kWaiting, kLoading, kChecking, kDone };

struct Job {
  const Download* what = nullptr;
  Phase phase = Phase::kWaiting;
  Clock::time_point not_before;  // another program holds the lock
  bool told = false;
  std::optional<FileLock> lock;
  std::unique_ptr<PartialFile> file;
  std::list<Piece> pieces;  // that are not there yet
  std::uint64_t have = 0;
  bool no_ranges = false;
  bool restart = false;
  int restarts = 0;
  std::optional<BlobHash> hash;
  std::uint64_t hashed = 0;
};

bool HasSize(const std::string& path, std::uint64_t bytes) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) &&
         static_cast<std::uint64_t>(st.st_size) == bytes;
}

// "bytes 0-99/1000" as its three numbers; the total may be '*', which reads as 0.
std::optional<std::array<std::uint64_t, 3>> ParseContentRange(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  std::array<std::uint64_t, 3> numbers{};
  constexpr std::string_view kSeparators = "-/";
  for (std::size_t i = 0; i < 3; ++i) {
    if (i == 2 && text == "*") return numbers;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), numbers[i]);
    if (read.ec != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
    if (i == 2) break;
    if (text.empty() || text.front() != kSeparators[i]) return std::nullopt;
    text.remove_prefix(1);
  }
  if (!text.empty()) return std::nullopt;
  return numbers;
}

class Downloader {
 public:
  Downloader(HttpLoop* loop, const Settings& settings, const RepoRef& ref,
             const TransferOptions& options)
      : loop_(loop), settings_(settings), ref_(ref), options_(options) {}
  Downloader(const Downloader&) = delete;
  Downloader& operator=(const Downloader&) = delete;
  ~Downloader() {
    for (const auto& job : jobs_) CancelPieces(job.get());
  }

  Status Run(const std::vector<Download>& downloads);
  std::uint64_t loaded() const { return loaded_; }

 private:
  Status Step();
  Status OpenJobs();
  Status OpenJob(Job* job);
  Status StartPieces();
  Status StartPiece(Job* job, Piece* piece);
  Status CheckAnswer(Job* job, const Piece& piece, const HttpResponse& response);
  Status Receive(Job* job, Piece* piece, const HttpResponse& response, ByteSpan bytes);
  Status Finished(Job* job, Piece* piece, HttpResult result);
  Status RestartWhole(Job* job);
  Status HashSome(Job* job);
  void CancelPieces(Job* job);
  void Report() const;
  Status Fault(const Job& job, const HttpResponse& response, std::string_view what) const;

  HttpLoop* loop_;
  const Settings& settings_;
  const RepoRef& ref_;
  const TransferOptions& options_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::uint64_t total_ = 0;
  std::uint64_t loaded_ = 0;
  Status fault_;  // from a callback
};

Status Downloader::Fault(const Job& job, const HttpResponse& response,
                         std::string_view what) const {
  return Status(Code::kDataLoss,
                StrCat(ref_.name, "/", job.what->name, ": ", response.host, " ", what));
}

Status Downloader::Run(const std::vector<Download>& downloads) {
  for (const Download& download : downloads) {
    jobs_.push_back(std::make_unique<Job>());
    jobs_.back()->what = &download;
    total_ += download.bytes;
  }
  const auto done = [](const auto& job) { return job->phase == Phase::kDone; };
  while (!std::all_of(jobs_.begin(), jobs_.end(), done)) HONE_TRY(Step());
  return {};
}

Status Downloader::Step() {
  if (options_.cancel != nullptr && options_.cancel->load()) {
    return Status(Code::kCancelled,
                  "cancelled; what was loaded is kept, the same command goes on there");
  }
  HONE_TRY(OpenJobs());
  HONE_TRY(StartPieces());
  Job* checking = nullptr;
  for (const auto& job : jobs_) {
    if (job->phase == Phase::kChecking && checking == nullptr) checking = job.get();
  }
  HONE_TRY(loop_->Run(checking != nullptr ? 0 : 100));
  if (!fault_.ok()) return std::move(fault_);
  for (const auto& job : jobs_) {
    if (job->restart) HONE_TRY(RestartWhole(job.get()));
  }
  if (checking != nullptr) HONE_TRY(HashSome(checking));
  Report();
  return {};
}

// Opens as many files as the connections need.
Status Downloader::OpenJobs() {
  std::size_t pieces = 0;
  std::size_t checking = 0;
  for (const auto& job : jobs_) {
    pieces += job->pieces.size();
    checking += job->phase == Phase::kChecking ? 1 : 0;
  }
  for (const auto& job : jobs_) {
    if (pieces >= static_cast<std::size_t>(options_.connections) || checking > 16) break;
    if (job->phase != Phase::kWaiting || job->not_before > Clock::now()) continue;
    HONE_TRY(OpenJob(job.get()));
    pieces += job->pieces.size();
    checking += job->phase == Phase::kChecking ? 1 : 0;
  }
  return {};
}

Status Downloader::OpenJob(Job* job) {
  const Download& what = *job->what;
  HONE_ASSIGN(job->lock, FileLock::Try(what.lock));
  if (!job->lock) {
    job->not_before = Clock::now() + std::chrono::milliseconds(200);
    if (!job->told && options_.note) {
      options_.note(StrCat(what.name, ": another program loads it; waiting until it is there"));
    }
    job->told = true;
    return {};
  }
  if (HasSize(what.target,
              what.bytes)) {  // the other program, or the same bytes under another name
    job->have = what.bytes;
    job->phase = Phase::kDone;
    job->lock.reset();
    return {};
  }
  HONE_ASSIGN(job->file,
              PartialFile::Open(what.partial, what.etag, what.bytes, options_.chunk_bytes));
  for (const ByteRange& range : job->file->Missing(options_.range_bytes)) {
    job->pieces.emplace_back(range);
  }
  job->have = what.bytes - job->file->missing_bytes();
  job->hash.emplace(what.etag, what.bytes);
  job->phase = job->pieces.empty() ? Phase::kChecking : Phase::kLoading;
  return {};
}

Status Downloader::StartPieces() {
  const auto now = Clock::now();
  for (const auto& job : jobs_) {
    if (job->phase != Phase::kLoading) continue;
    for (Piece& piece : job->pieces) {
      if (loop_->active() >= static_cast<std::size_t>(options_.connections)) return {};
      if (piece.call != 0 || piece.not_before > now) continue;
      HONE_TRY(StartPiece(job.get(), &piece));
    }
  }
  return {};
}

Status Downloader::StartPiece(Job* job, Piece* piece) {
  HttpRequest request;
  request.url = job->what->url;
  request.token = settings_.token;
  piece->asks_range = piece->pos > 0 || piece->range.end < job->what->bytes;
  if (piece->asks_range) {
    request.begin = piece->pos;
    request.end = piece->range.end;
  }
  piece->checked = false;
  piece->tried_from = piece->pos;
  const HttpSink sink = [this, job, piece](const HttpResponse& response, ByteSpan bytes) {
    return Receive(job, piece, response, bytes);
  };
  HttpDone done = [this, job, piece](HttpResult result) {
    Status status = Finished(job, piece, std::move(result));
    if (!status.ok() && fault_.ok()) fault_ = std::move(status);
  };
  HONE_ASSIGN(piece->call, loop_->Start(std::move(request), sink, std::move(done)));
  return {};
}

// The headers before the first byte: is it the part of the file that was asked for?
Status Downloader::CheckAnswer(Job* job, const Piece& piece, const HttpResponse& response) {
  const std::uint64_t bytes = job->what->bytes;
  const std::string_view encoding = response.Header("content-encoding");
  if (!encoding.empty() && encoding != "identity") {
    return Fault(*job, response, "compresses the file, which was not asked for");
  }
  if (!piece.asks_range) {
    const std::string length(response.Header("content-length"));
    if (response.status == 200 && (length.empty() || length == std::to_string(bytes))) return {};
    return Fault(*job, response,
                 StrCat("sends ", length.empty() ? "another number of" : length.substr(0, 20),
                        " bytes, its list of files says ", bytes, "; try again"));
  }
  if (response.status == 200) {  // the whole file: this server knows no ranges
    job->no_ranges = true;
    job->restart = true;
    return Status(Code::kCancelled, "restart");
  }
  const auto range = ParseContentRange(response.Header("content-range"));
  const bool fits = response.status == 206 && range && (*range)[0] == piece.pos &&
                    (*range)[1] < piece.range.end && ((*range)[2] == 0 || (*range)[2] == bytes);
  if (fits) return {};
  return Fault(*job, response,
               StrCat("sends another part of the file than the one asked for (",
                      response.Header("content-range").substr(0, 60), " instead of ", piece.pos,
                      "-", piece.range.end - 1, "/", bytes, "); try again"));
}

Status Downloader::Receive(Job* job, Piece* piece, const HttpResponse& response, ByteSpan bytes) {
  if (!piece->checked) {
    HONE_TRY(CheckAnswer(job, *piece, response));
    piece->checked = true;
  }
  if (bytes.size() > piece->range.end - piece->pos) {
    return Fault(*job, response, "sends more bytes than were asked for; try again");
  }
  HONE_TRY(job->file->Write(piece->pos, bytes));
  HONE_TRY(job->file->Advance(piece->range.begin, piece->pos, piece->pos + bytes.size()));
  piece->pos += bytes.size();
  job->have += bytes.size();
  loaded_ += bytes.size();
  return {};
}

Status Downloader::Finished(Job* job, Piece* piece, HttpResult result) {
  piece->call = 0;
  if (job->restart) return {};  // Step begins anew
  if (!result.status.ok() && !result.from_network) return std::move(result.status);
  const long status = result.response.status;
  const bool good = result.status.ok() && status / 100 == 2;
  if (good && piece->pos == piece->range.end) {
    job->pieces.remove_if([&](const Piece& p) { return &p == piece; });
    if (job->pieces.empty()) job->phase = Phase::kChecking;
    return {};
  }
  // A signed address of a storage host is good for some time only; the next try gets a new one.
  // The hub itself says why in a header of its own, also where a mirror redirects to it.
  const bool expired = (status == 401 || status == 403) &&
                       result.response.Header("x-error-code").empty() &&
                       result.response.host != HostOfUrl(settings_.endpoint);
  if (result.status.ok() && !good && !expired && !MayWorkLater(status)) {
    return ExplainAnswer(settings_, ref_, job->what->name, result.response);
  }
  if (piece->pos - piece->tried_from >= kProgressBytes) piece->retry.tries = 0;
  const auto next = piece->retry.Next(settings_, ref_, job->what->name, result, options_);
  if (!next.ok()) return Status(next.code(), std::string(next.message()));
  piece->not_before = *next;
  job->restart = job->no_ranges;
  return {};
}

// One request for the whole file, from its beginning.
Status Downloader::RestartWhole(Job* job) {
  Piece whole(ByteRange{0, job->what->bytes});
  for (const Piece& piece : job->pieces) {
    whole.not_before = std::max(whole.not_before, piece.not_before);
    whole.retry.tries = std::max(whole.retry.tries, piece.retry.tries);
  }
  CancelPieces(job);
  job->pieces.clear();
  if (++job->restarts > kMaxRestarts) {
    return Status(Code::kIo,
                  StrCat(ref_.name, "/", job->what->name,
                         ": the connection ends before the "
                         "file does, and this server cannot go on in the middle (no range "
                         "requests); try again later"));
  }
  HONE_TRY(job->file->Reset());
  job->have = 0;
  job->restart = false;
  job->pieces.push_back(std::move(whole));
  return {};
}

Status Downloader::HashSome(Job* job) {
  const Download& what = *job->what;
  std::vector<std::byte> chunk(
      static_cast<std::size_t>(std::min<std::uint64_t>(kHashBytes, what.bytes - job->hashed)));
  HONE_TRY(job->file->ReadAt(job->hashed, chunk));
  job->hash->Update(chunk);
  job->hashed += chunk.size();
  if (job->hashed < what.bytes) return {};
  const std::string found = job->hash->Finish();
  if (!found.empty() && found != what.etag) {
    HONE_TRY(job->file->Remove());
    return Status(Code::kDataLoss, StrCat(ref_.name, "/", what.name, ": ", HashOfEtag(what.etag),
                                          " is ", found, ", the hub says ", what.etag,
                                          "; the download was removed, run the command "
                                          "again"));
  }
  if (found.empty() && options_.note) {
    options_.note(
        StrCat(what.name, ": this server gives no checksum, so only the size was checked"));
  }
  HONE_TRY(job->file->MoveTo(what.target));
  job->file.reset();
  job->lock.reset();
  job->phase = Phase::kDone;
  return {};
}

void Downloader::CancelPieces(Job* job) {
  for (Piece& piece : job->pieces) {
    if (piece.call != 0) loop_->Cancel(piece.call);
    piece.call = 0;
  }
}

void Downloader::Report() const {
  if (!options_.progress) return;
  std::uint64_t done = 0;
  std::string_view what;
  for (const auto& job : jobs_) {
    done += job->have;
    const bool works = job->phase == Phase::kLoading || job->phase == Phase::kChecking;
    if (works && what.empty()) what = job->what->name;
  }
  options_.progress(done, total_, what);
}

}  // namespace

std::string_view HashOfEtag(std::string_view etag) {
  if (IsHex(etag, 64)) return "SHA-256";
  return IsHex(etag, 40) ? "SHA-1 of git" : "";
}

Status LoadAll(HttpLoop* loop, const Settings& settings, const RepoRef& ref,
               const std::vector<Download>& downloads, const TransferOptions& options,
               std::uint64_t* loaded) {
  Downloader downloader(loop, settings, ref, options);
  Status status = downloader.Run(downloads);
  *loaded = downloader.loaded();
  return status;
}

}  // namespace hone::hub
