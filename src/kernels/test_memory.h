// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Arrays for the tests of kernels, placed so that every touch outside of them shows.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace hone::kernels {

// Where an array lies: between guards, or against a page that no one may touch. Of such a page
// reads show, too, also those that no sanitizer sees: of vector instructions and inline assembly.
enum class Place : std::uint8_t { kBetweenGuards, kBeforeAFence, kBehindAFence };

struct Placement {
  Place place = Place::kBetweenGuards;
  // Between guards: elements from an address aligned to 64 to the array.
  std::int64_t shift = 0;
  // Elements behind each row of x and of y that are not theirs.
  std::int64_t x_gap = 0, y_gap = 0;

  std::string Text() const {
    return StrCat(" place ", static_cast<int>(place), " shift ", shift, " gaps ", x_gap, " ",
                  y_gap);
  }
};

// Every way: elements that are no multiple of a vector from an aligned address, and fences.
inline constexpr Placement kPlacements[] = {{Place::kBetweenGuards, 1, 5, 3},
                                            {Place::kBetweenGuards, 3, 0, 1},
                                            {Place::kBetweenGuards, 4, 1, 16},
                                            {Place::kBeforeAFence, 0, 3, 5},
                                            {Place::kBehindAFence, 0, 0, 0}};

// Pages from the system, the first and the last of them fences.
class FencedPages {
 public:
  // At least `bytes` that may be touched. Ends the test if the system refuses.
  explicit FencedPages(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    size_ = (bytes + page - 1) / page * page;
    total_ = size_ + 2 * page;
    void* p = ::mmap(nullptr, total_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HONE_CHECK(p != MAP_FAILED);
    all_ = static_cast<std::byte*>(p);
    data_ = all_ + page;
    HONE_CHECK(::mprotect(data_, size_, PROT_READ | PROT_WRITE) == 0);
  }
  FencedPages(FencedPages&& other) noexcept
      : all_(std::exchange(other.all_, nullptr)),
        data_(other.data_),
        size_(other.size_),
        total_(other.total_) {}
  FencedPages& operator=(FencedPages&&) = delete;
  ~FencedPages() {
    if (all_ != nullptr) ::munmap(all_, total_);
  }
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte *all_, *data_;
  std::size_t size_, total_;
};

// rows x n values of T, `stride` apart. All memory around them holds a pattern: as a float it is
// 1.5e16, so that a sum shows it.
template <typename T>
class PlacedRows {
 public:
  // A copy of rows that lie values_stride apart; null: the pattern.
  PlacedRows(const T* values, std::int64_t rows, std::int64_t n, std::int64_t values_stride,
             std::int64_t stride, const Placement& at)
      : rows_(rows), n_(n), stride_(stride), pages_(Bytes() + 2 * kGuardBytes + 64 + Shift(at)) {
    std::memset(pages_.data(), kPattern, pages_.size());
    begin_ = at.place == Place::kBetweenGuards  ? kGuardBytes + Shift(at)
             : at.place == Place::kBeforeAFence ? pages_.size() - Bytes()
                                                : 0;
    for (std::int64_t i = 0; values != nullptr && i < rows; ++i) {
      std::memcpy(data() + i * stride, values + i * values_stride, RowBytes());
    }
  }
  PlacedRows(const T* values, std::int64_t n, const Placement& at)
      : PlacedRows(values, 1, n, n, n, at) {}

  T* data() const { return reinterpret_cast<T*>(pages_.data() + begin_); }
  T* row(std::int64_t i) const { return data() + i * stride_; }
  std::int64_t stride() const { return stride_; }
  // Whether all that is not of a row still holds the pattern.
  bool Intact() const {
    std::size_t at = 0;
    for (std::int64_t i = 0; i < rows_; ++i) {
      const std::size_t row = begin_ + static_cast<std::size_t>(i * stride_) * sizeof(T);
      if (!IsPattern(at, row)) return false;
      at = row + RowBytes();
    }
    return IsPattern(at, pages_.size());
  }

 private:
  static constexpr int kPattern = 0x5a;
  static constexpr std::size_t kGuardBytes = 256;

  static std::size_t Shift(const Placement& at) {
    return static_cast<std::size_t>(at.shift) * sizeof(T);
  }
  std::size_t RowBytes() const { return static_cast<std::size_t>(n_) * sizeof(T); }
  std::size_t Bytes() const {
    return rows_ == 0 ? 0
                      : static_cast<std::size_t>((rows_ - 1) * stride_) * sizeof(T) + RowBytes();
  }
  bool IsPattern(std::size_t from, std::size_t to) const {
    for (std::size_t i = from; i < to; ++i) {
      if (pages_.data()[i] != static_cast<std::byte>(kPattern)) return false;
    }
    return true;
  }

  std::int64_t rows_, n_, stride_;
  FencedPages pages_;
  std::size_t begin_ = 0;
};

// Address space whose pages exist once they are written, for indices that 32 bits do not hold.
class SparseMemory {
 public:
  explicit SparseMemory(std::uint64_t bytes) : size_(static_cast<std::size_t>(bytes)) {
    // qemu-user keeps a record of every page, which would take all memory. tools/test_arm64 sets
    // the variable.
    if (std::getenv("QEMU_CPU") != nullptr) return;
    void* p = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return;
    data_ = static_cast<std::byte*>(p);
#if defined(MADV_NOHUGEPAGE)
    ::madvise(p, size_, MADV_NOHUGEPAGE);
#endif
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  ~SparseMemory() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  // Null: the system refuses so much.
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_;
};

}  // namespace hone::kernels
