// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "formats/litertlm/litertlm.h"

namespace hone::formats::litertlm {
namespace {

constexpr std::size_t kSizeBytes = 8;
// zlib cannot shrink further than about 1032 to 1.
constexpr std::uint64_t kMaxRatio = 1100;
constexpr std::size_t kStepBytes = 1U << 20;

struct InflateStream {
  z_stream stream{};
  bool ready = false;
  InflateStream() { ready = inflateInit(&stream) == Z_OK; }
  ~InflateStream() {
    if (ready) inflateEnd(&stream);
  }
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;
};

}  // namespace

Result<std::string> InflateTokenizer(ByteSpan section, std::uint64_t max_bytes) {
  const auto declared = ReadLe<std::uint64_t>(section, 0);
  if (!declared) {
    return Status(Code::kDataLoss, StrCat("the compressed tokenizer has ", section.size(),
                                          " bytes, at least 8 are expected"));
  }
  const ByteSpan packed = section.subspan(kSizeBytes);
  if (*declared > max_bytes) {
    return Status(Code::kDataLoss, StrCat("the compressed tokenizer declares ", *declared,
                                          " bytes, at most ", max_bytes, " are accepted"));
  }
  if (*declared / kMaxRatio > packed.size()) {
    return Status(Code::kDataLoss, StrCat("the compressed tokenizer declares ", *declared,
                                          " bytes, but only ", packed.size(), " are stored"));
  }
  InflateStream inflater;
  if (!inflater.ready) return Status(Code::kOutOfMemory, "zlib cannot start");
  z_stream& z = inflater.stream;
  std::string out(*declared, '\0');
  std::size_t read = 0, written = 0;
  int code = Z_OK;
  // zlib counts in 32 bits, so it gets the bytes in steps. One byte too much shows a long stream.
  char spare = 0;
  while (code == Z_OK) {
    const std::size_t in = std::min(packed.size() - read, kStepBytes);
    const std::size_t room = std::min(out.size() - written, kStepBytes);
    z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data() + read));
    z.avail_in = static_cast<uInt>(in);
    z.next_out = reinterpret_cast<Bytef*>(room != 0 ? out.data() + written : &spare);
    z.avail_out = room != 0 ? static_cast<uInt>(room) : 1;
    const uInt room_before = z.avail_out;
    code = inflate(&z, Z_NO_FLUSH);
    read += in - z.avail_in;
    if (room == 0 && z.avail_out != room_before) {
      return Status(Code::kDataLoss, StrCat("the compressed tokenizer holds more than the ",
                                            *declared, " bytes that it declares"));
    }
    if (room != 0) written += room_before - z.avail_out;
  }
  if (code != Z_STREAM_END) {
    return Status(Code::kDataLoss, StrCat("the compressed tokenizer is damaged or cut off after ",
                                          written, " of ", *declared, " bytes"));
  }
  if (written != *declared) {
    return Status(Code::kDataLoss, StrCat("the compressed tokenizer declares ", *declared,
                                          " bytes but holds ", written));
  }
  return out;
}

std::vector<std::byte> DeflateTokenizer(std::string_view tokenizer_json) {
  uLongf size = compressBound(tokenizer_json.size());
  std::vector<std::byte> out(kSizeBytes + size);
  const std::uint64_t raw = tokenizer_json.size();
  std::memcpy(out.data(), &raw, sizeof(raw));
  // Fails only if the room is short, and compressBound made it large enough, or without memory.
  HONE_CHECK(compress2(reinterpret_cast<Bytef*>(out.data() + kSizeBytes), &size,
                       reinterpret_cast<const Bytef*>(tokenizer_json.data()), tokenizer_json.size(),
                       9) == Z_OK);
  out.resize(kSizeBytes + size);
  return out;
}

}  // namespace hone::formats::litertlm
