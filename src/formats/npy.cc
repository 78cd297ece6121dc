// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/npy.h"

#include <cstring>
#include <optional>

#include "base/check.h"
#include "formats/foreign_file.h"

namespace hone::formats {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kHeaderAlign = 64;
constexpr std::size_t kMaxDims = 32;

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;
};

// Reads the Python dict literal that NumPy writes, and nothing more of the language.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  Result<Header> Read() {
    Header header;
    if (!Take('{')) return Wrong("{");
    while (!Take('}')) {
      auto key = ReadString();
      if (!key || !Take(':')) return Wrong("a quoted key and ':'");
      if (*key == "descr" && !header.descr) {
        header.descr = ReadString();
        if (!header.descr) {
          return Status(Code::kUnsupported,
                        StrCat("npy: descr at byte ", pos_,
                               " is not a plain dtype name, expected '<f4' (little-endian "
                               "float32)"));
        }
      } else if (*key == "fortran_order" && !header.fortran_order) {
        header.fortran_order = ReadBool();
        if (!header.fortran_order) return Wrong("True or False");
      } else if (*key == "shape" && !header.shape) {
        header.shape = ReadShape();
        if (!header.shape) return Wrong("a tuple of sizes from 0 to 2^63 - 1");
      } else {
        return Status(Code::kDataLoss, StrCat("npy: key ", Quote(*key),
                                              " in the header is unknown or appears twice, "
                                              "expected descr, fortran_order and shape once"));
      }
      if (!Take(',') && !Peek('}')) return Wrong("',' or '}'");
    }
    SkipSpace();
    if (pos_ != text_.size()) return Wrong("the end of the header");
    return header;
  }

 private:
  Status Wrong(std::string_view expected) {
    SkipSpace();
    return Status(Code::kDataLoss, StrCat("npy: header at byte ", pos_, " is ",
                                          Quote(text_.substr(pos_, 20)), ", expected ", expected));
  }
  void SkipSpace() {
    while (pos_ < text_.size() && (text_[pos_] == ' ' || text_[pos_] == '\n')) ++pos_;
  }
  bool Peek(char c) {
    SkipSpace();
    return pos_ < text_.size() && text_[pos_] == c;
  }
  bool Take(char c) {
    if (!Peek(c)) return false;
    ++pos_;
    return true;
  }
  std::optional<std::string> ReadString() {
    SkipSpace();
    if (pos_ >= text_.size() || (text_[pos_] != '\'' && text_[pos_] != '"')) return std::nullopt;
    const auto end = text_.find(text_[pos_], pos_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string out(text_.substr(pos_ + 1, end - pos_ - 1));
    pos_ = end + 1;
    return out;
  }
  std::optional<bool> ReadBool() {
    SkipSpace();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(pos_, word.size()) == word) {
        pos_ += word.size();
        return value;
      }
    }
    return std::nullopt;
  }
  std::optional<std::int64_t> ReadSize() {
    SkipSpace();
    std::int64_t value = 0;
    const std::size_t begin = pos_;
    for (; pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '9'; ++pos_) {
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text_[pos_] - '0', &value)) {
        return std::nullopt;
      }
    }
    if (pos_ == begin) return std::nullopt;
    return value;
  }
  std::optional<std::vector<std::int64_t>> ReadShape() {
    if (!Take('(')) return std::nullopt;
    std::vector<std::int64_t> shape;
    while (!Take(')')) {
      const auto size = ReadSize();
      if (!size || shape.size() >= kMaxDims) return std::nullopt;
      shape.push_back(*size);
      if (!Take(',') && !Peek(')')) return std::nullopt;
    }
    return shape;
  }

  std::string_view text_;
  std::size_t pos_ = 0;
};

std::optional<std::uint64_t> NumValues(std::span<const std::int64_t> shape) {
  std::uint64_t total = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size == 0) empty = true;
    const auto product = MulChecked(total, static_cast<std::uint64_t>(size == 0 ? 1 : size));
    if (!product) return std::nullopt;
    total = *product;
  }
  return empty ? 0 : total;
}

// The header's text and where the data begins.
struct Frame {
  std::string_view header;
  ByteSpan data;
};

Result<Frame> ReadFrame(ByteSpan bytes) {
  if (AsText(bytes).substr(0, kMagic.size()) != kMagic) {
    std::string what = DescribeForeignFile(bytes);
    if (what.empty()) what = StrCat("not an npy file: it does not begin with \\x93NUMPY");
    return Status(Code::kDataLoss, std::move(what));
  }
  const auto major = ReadLe<std::uint8_t>(bytes, 6);
  const auto minor = ReadLe<std::uint8_t>(bytes, 7);
  if (!major || !minor) return Status(Code::kDataLoss, "npy: the file ends inside its version");
  if (*major < 1 || *major > 3 || *minor != 0) {
    return Status(Code::kUnsupported, StrCat("npy: version ", int{*major}, ".", int{*minor},
                                             ", expected 1.0, 2.0 or 3.0"));
  }
  std::optional<std::uint64_t> length;
  if (*major == 1) {
    length = ReadLe<std::uint16_t>(bytes, 8);
  } else {
    length = ReadLe<std::uint32_t>(bytes, 8);
  }
  const std::uint64_t begin = *major == 1 ? 10 : 12;
  const auto header = length ? SubSpan(bytes, begin, *length) : std::nullopt;
  if (!header) {
    return Status(Code::kDataLoss,
                  StrCat("npy: the header needs ", length.value_or(0), " bytes from byte ", begin,
                         ", but the file has ", bytes.size(), " bytes"));
  }
  return Frame{AsText(*header), bytes.subspan(static_cast<std::size_t>(begin + *length))};
}

}  // namespace

Result<NpyArray> ParseNpy(ByteSpan bytes) {
  HONE_ASSIGN(const Frame frame, ReadFrame(bytes));
  HONE_ASSIGN(Header header, HeaderReader(frame.header).Read());
  if (!header.descr || !header.fortran_order || !header.shape) {
    const char* missing = !header.descr           ? "descr"
                          : !header.fortran_order ? "fortran_order"
                                                  : "shape";
    return Status(Code::kDataLoss, StrCat("npy: \"", missing, "\" is missing in the header"));
  }
  if (*header.descr != "<f4") {
    return Status(Code::kUnsupported, StrCat("npy: dtype is ", Quote(*header.descr),
                                             ", expected '<f4' (little-endian float32)"));
  }
  if (*header.fortran_order && header.shape->size() > 1) {
    return Status(Code::kUnsupported, "npy: the array is in Fortran order, expected C order");
  }
  const auto count = NumValues(*header.shape);
  const auto size = count ? MulChecked(*count, sizeof(float)) : std::nullopt;
  if (!size || *size != frame.data.size()) {
    return Status(Code::kDataLoss,
                  StrCat("npy: the shape needs ", size ? std::to_string(*size) : "over 2^64",
                         " bytes of data, the file has ", frame.data.size()));
  }
  NpyArray array;
  array.shape = std::move(*header.shape);
  array.data.resize(static_cast<std::size_t>(*count));
  if (!array.data.empty()) std::memcpy(array.data.data(), frame.data.data(), frame.data.size());
  return array;
}

std::vector<std::byte> EncodeNpy(std::span<const std::int64_t> shape, std::span<const float> data) {
  const auto count = NumValues(shape);
  HONE_CHECK(count && *count == data.size());
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (const std::int64_t size : shape) {
    header += StrCat(size, shape.size() == 1 ? "," : &size == &shape.back() ? "" : ", ");
  }
  header += "), }";
  constexpr std::size_t kPrefix = 10;
  const auto total = static_cast<std::size_t>(RoundUp(kPrefix + header.size() + 1, kHeaderAlign));
  header.append(total - kPrefix - header.size() - 1, ' ');
  header += '\n';
  const auto length = static_cast<std::uint16_t>(header.size());
  HONE_CHECK(length == header.size());

  std::vector<std::byte> out(total + data.size_bytes());
  std::memcpy(out.data(), kMagic.data(), kMagic.size());
  out[6] = std::byte{1};
  out[7] = std::byte{0};
  std::memcpy(out.data() + 8, &length, sizeof(length));
  std::memcpy(out.data() + kPrefix, header.data(), header.size());
  if (!data.empty()) std::memcpy(out.data() + total, data.data(), data.size_bytes());
  return out;
}

}  // namespace hone::formats
