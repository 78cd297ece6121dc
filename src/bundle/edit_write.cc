// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/edit_write.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "formats/litertlm/header_extent.h"

namespace hone::bundle {
namespace {

namespace litertlm = formats::litertlm;

constexpr std::uint64_t kHeaderBegin = 32;  // of the tables; offsets in them count from here
constexpr std::uint64_t kSwitchBegin = 24;
constexpr std::uint64_t kSwitchBytes = 16;
constexpr std::uint64_t kTableAlignment = 8;

// A place for size bytes of tables, or 0. Behind the old ones; or, since old tables of earlier
// edits are dead, between the switch and those that are alive.
std::uint64_t FindRoom(const litertlm::HeaderExtent& extent, std::uint64_t size,
                       std::uint64_t limit) {
  const std::uint64_t behind = RoundUp(extent.end, kTableAlignment);
  if (behind + size <= limit) return behind;
  const std::uint64_t before = kSwitchBegin + kSwitchBytes;
  if (before + size <= extent.live_begin) return before;
  return 0;
}

std::uint64_t Unreachable(const litertlm::Header& header, std::uint64_t file_bytes) {
  std::uint64_t reached = litertlm::kSectionAlignment;  // the header's block
  std::uint64_t lost = 0;
  for (const litertlm::Section& section : header.sections) {
    if (section.begin > reached) lost += section.begin - reached;
    reached = std::max(reached, RoundUp(section.end, litertlm::kSectionAlignment));
  }
  return lost + (file_bytes > reached ? file_bytes - reached : 0);
}

// An open file that closes itself, which also gives up the lock.
class EditedFile {
 public:
  ~EditedFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  EditedFile() = default;
  EditedFile(const EditedFile&) = delete;
  EditedFile& operator=(const EditedFile&) = delete;

  Status Open(const std::string& path) {
    path_ = path;
    std::error_code error;
    if (std::filesystem::is_symlink(path, error)) {
      return Status(
          Code::kInvalidArgument,
          StrCat(path, ": is a link to ", std::filesystem::read_symlink(path, error).string(),
                 "; edit that file by its own name, or a copy (a download cache checks "
                 "the hashes of its files)"));
    }
    fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd_ < 0) return Error("cannot open for writing");
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) return Error("another program is editing it");
    return {};
  }
  Status CheckUnchanged(const InPlaceEdit& edit) const {
    struct stat st{};
    std::array<std::byte, kSwitchBytes> found{};
    const bool read =
        ::fstat(fd_, &st) == 0 && ::pread(fd_, found.data(), found.size(), kSwitchBegin) ==
                                      static_cast<ssize_t>(found.size());
    if (read && static_cast<std::uint64_t>(st.st_size) == edit.old_file_bytes &&
        std::equal(found.begin(), found.end(), edit.old_switch.begin(), edit.old_switch.end())) {
      return {};
    }
    return Status(Code::kIo, StrCat(path_, ": has changed since it was read; try again"));
  }
  Status Write(const FileWrite& write) const {
    std::size_t done = 0;
    while (done < write.bytes.size()) {
      const ssize_t n = ::pwrite(fd_, write.bytes.data() + done, write.bytes.size() - done,
                                 static_cast<off_t>(write.offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Error("cannot write");
      done += static_cast<std::size_t>(n);
    }
    if (::fsync(fd_) != 0) return Error("cannot flush");
    return {};
  }

  // After a failure; if this fails too, the file is longer than need be and still sound.
  void Shorten(std::uint64_t size) const {
    if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) return;
  }

 private:
  Status Error(std::string_view what) const {
    const int e = errno;
    return Status(e == ENOENT ? Code::kNotFound : Code::kIo,
                  StrCat(path_, ": ", what, ": ", std::strerror(e)));
  }
  std::string path_;
  int fd_ = -1;
};

}  // namespace

Result<InPlaceEdit> PlanInPlace(ByteSpan file, litertlm::Header header,
                                const std::vector<NewContent>& contents) {
  HONE_ASSIGN(const litertlm::HeaderExtent extent, litertlm::FindHeaderExtent(file));
  InPlaceEdit edit;
  edit.old_file_bytes = edit.file_bytes = file.size();
  const ByteSpan old_switch = file.subspan(kSwitchBegin, kSwitchBytes);
  edit.old_switch.assign(old_switch.begin(), old_switch.end());

  std::uint64_t limit = litertlm::kSectionAlignment;
  for (const litertlm::Section& section : header.sections) limit = std::min(limit, section.begin);
  std::vector<litertlm::Section> kept, moved;
  for (std::size_t i = 0; i < header.sections.size(); ++i) {
    const auto content = std::find_if(contents.begin(), contents.end(),
                                      [i](const NewContent& c) { return c.section == i; });
    if (content == contents.end()) {
      kept.push_back(std::move(header.sections[i]));
      continue;
    }
    litertlm::Section section = std::move(header.sections[i]);
    section.begin = RoundUp(edit.file_bytes, litertlm::kSectionAlignment);
    section.end = edit.file_bytes = section.begin + content->bytes.size();
    const ByteSpan bytes = AsBytes(content->bytes);
    edit.writes.push_back({section.begin, {bytes.begin(), bytes.end()}});
    moved.push_back(std::move(section));
  }
  kept.insert(kept.end(), std::make_move_iterator(moved.begin()),
              std::make_move_iterator(moved.end()));
  header.sections = std::move(kept);

  HONE_ASSIGN(const std::vector<std::byte> encoded, litertlm::EncodeHeader(header));
  const std::uint64_t size = encoded.size() - kHeaderBegin;
  const std::uint64_t place = FindRoom(extent, size, limit);
  if (place == 0) {
    return Status(Code::kUnsupported,
                  StrCat("the header has no room for ", size, " more bytes before ", limit,
                         "; hone unpack and hone pack write the bundle anew"));
  }
  const ByteSpan tables = ByteSpan(encoded).subspan(kHeaderBegin);
  edit.writes.push_back({place, {tables.begin(), tables.end()}});

  FileWrite last{kSwitchBegin, edit.old_switch};
  const std::uint64_t end = place + size;
  const auto root =
      static_cast<std::uint32_t>(place - kHeaderBegin) + *ReadLe<std::uint32_t>(tables, 0);
  std::memcpy(last.bytes.data(), &end, sizeof(end));
  std::memcpy(last.bytes.data() + sizeof(end), &root, sizeof(root));
  edit.writes.push_back(std::move(last));
  edit.unreachable_bytes = Unreachable(header, edit.file_bytes);
  return edit;
}

Status WriteInPlace(const std::string& path, const InPlaceEdit& edit, const AfterWrite& after) {
  EditedFile file;
  HONE_TRY(file.Open(path));
  HONE_TRY(file.CheckUnchanged(edit));
  for (std::size_t i = 0; i < edit.writes.size(); ++i) {
    Status status = file.Write(edit.writes[i]);
    if (!status.ok()) {
      // Nothing points behind the old end before the switch.
      if (i + 1 < edit.writes.size()) file.Shorten(edit.old_file_bytes);
      return status;
    }
    if (after && !after(i)) return {};
  }
  return {};
}

}  // namespace hone::bundle
