// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors/safetensors.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "base/json.h"
#include "base/text.h"
#include "formats/foreign_file.h"

namespace hone::formats {
namespace {

constexpr std::uint64_t kPrefixBytes = 8;
// Above the limit of the reference reader (100 MB); real headers are a few megabytes.
constexpr std::uint64_t kMaxHeaderBytes = 256U << 20;
constexpr std::size_t kMaxDims = 64;

struct DtypeFacts {
  Dtype dtype;
  const char* name;
  std::uint64_t bits;
};
constexpr std::array kDtypes = {
    DtypeFacts{Dtype::kBool, "BOOL", 8},      DtypeFacts{Dtype::kU8, "U8", 8},
    DtypeFacts{Dtype::kI8, "I8", 8},          DtypeFacts{Dtype::kU16, "U16", 16},
    DtypeFacts{Dtype::kI16, "I16", 16},       DtypeFacts{Dtype::kU32, "U32", 32},
    DtypeFacts{Dtype::kI32, "I32", 32},       DtypeFacts{Dtype::kU64, "U64", 64},
    DtypeFacts{Dtype::kI64, "I64", 64},       DtypeFacts{Dtype::kF16, "F16", 16},
    DtypeFacts{Dtype::kBf16, "BF16", 16},     DtypeFacts{Dtype::kF32, "F32", 32},
    DtypeFacts{Dtype::kF64, "F64", 64},       DtypeFacts{Dtype::kF8E4M3, "F8_E4M3", 8},
    DtypeFacts{Dtype::kF8E5M2, "F8_E5M2", 8}, DtypeFacts{Dtype::kF8E8M0, "F8_E8M0", 8},
    DtypeFacts{Dtype::kF4, "F4", 4},          DtypeFacts{Dtype::kF6E2M3, "F6_E2M3", 6},
    DtypeFacts{Dtype::kF6E3M2, "F6_E3M2", 6}, DtypeFacts{Dtype::kC64, "C64", 64},
};

const DtypeFacts* FindDtype(std::string_view name) {
  const auto it =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& d) { return d.name == name; });
  return it == kDtypes.end() ? nullptr : &*it;
}

Status Damaged(std::string message) { return Status(Code::kDataLoss, std::move(message)); }

// What the header says about one tensor; offsets are relative to the end of the header.
struct Entry {
  std::string name;
  std::string dtype_name;
  const DtypeFacts* dtype = nullptr;  // null: a name that Hone does not know
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::string TensorText(const Entry& entry) { return StrCat("tensor ", Quote(entry.name)); }

std::optional<std::int64_t> AsSize(const Json& value) {
  if (!value.IsInt() || value.AsInt() < 0) return std::nullopt;
  return value.AsInt();
}

// The header's text, or a sentence about what the file is instead.
Result<std::string_view> HeaderText(ByteSpan bytes) {
  if (bytes.empty()) return Damaged("the file is empty, expected a safetensors header");
  const auto length = ReadLe<std::uint64_t>(bytes, 0);
  if (const std::string what = DescribeForeignFile(bytes); !what.empty()) {
    return Damaged(StrCat("not a safetensors file: ", what));
  }
  if (!length) {
    return Damaged(StrCat("the file is too short for a safetensors header: expected at least ",
                          kPrefixBytes, " bytes, have ", bytes.size()));
  }
  const std::uint64_t rest = bytes.size() - kPrefixBytes;
  if (*length > rest) {
    const std::string_view first = AsText(bytes).substr(0, kPrefixBytes);
    if (std::all_of(first.begin(), first.end(), [](char c) {
          return std::isprint(static_cast<unsigned char>(c)) != 0 || c == '\n' || c == '\r';
        })) {
      return Damaged(StrCat("not a safetensors file: it begins with the text ", Quote(first),
                            " instead of a header length"));
    }
    return Damaged(StrCat("the safetensors header should have ", *length,
                          " bytes, but the file ends after ", rest,
                          " of them; the header is cut off or damaged, download the file again"));
  }
  if (*length == 0) return Damaged("the safetensors header has length 0, expected a JSON object");
  if (*length > kMaxHeaderBytes) {
    return Status(Code::kUnsupported, StrCat("the safetensors header has ", *length,
                                             " bytes, expected at most ", kMaxHeaderBytes));
  }
  const std::string_view text = AsText(bytes.subspan(kPrefixBytes, *length));
  if (text.front() != '{') {
    return Damaged(StrCat("the safetensors header begins with ", Quote(text.substr(0, 4)),
                          ", expected \"{\""));
  }
  return text;
}

Status CheckMetadata(const Json& metadata) {
  if (metadata.IsNull()) return Status();
  if (!metadata.IsObject()) {
    return Damaged(
        StrCat("__metadata__ is ", metadata.TypeName(), ", expected an object of strings"));
  }
  for (const auto& [key, value] : metadata.AsObject()) {
    if (!value.IsString()) {
      return Damaged(
          StrCat("__metadata__: ", Quote(key), " is ", value.TypeName(), ", expected a string"));
    }
  }
  return Status();
}

Status ReadShape(const Json& json, Entry& entry) {
  const Json* shape = json.Find("shape");
  if (shape == nullptr || !shape->IsArray()) {
    return Damaged(StrCat("\"shape\" is ", shape == nullptr ? "missing" : shape->TypeName(),
                          ", expected an array of sizes"));
  }
  if (shape->AsArray().size() > kMaxDims) {
    return Damaged(
        StrCat("shape has ", shape->AsArray().size(), " dimensions, expected at most ", kMaxDims));
  }
  for (const Json& dim : shape->AsArray()) {
    const auto size = AsSize(dim);
    if (!size) {
      return Damaged(StrCat("shape ", Quote(shape->Dump()),
                            " holds a dimension that is not an integer from 0 to 2^63 - 1"));
    }
    entry.shape.push_back(*size);
  }
  return Status();
}

Status ReadOffsets(const Json& json, Entry& entry) {
  const Json* offsets = json.Find("data_offsets");
  if (offsets == nullptr) return Damaged("\"data_offsets\" is missing");
  if (offsets->IsArray() && offsets->AsArray().size() == 2) {
    const auto begin = AsSize(offsets->AsArray()[0]);
    const auto end = AsSize(offsets->AsArray()[1]);
    if (begin && end && *begin <= *end) {
      entry.begin = static_cast<std::uint64_t>(*begin);
      entry.end = static_cast<std::uint64_t>(*end);
      return Status();
    }
  }
  return Damaged(StrCat("data_offsets ", Quote(offsets->Dump()),
                        ", expected two integers [begin, end] with 0 <= begin <= end"));
}

Status ReadEntry(const Json& json, Entry& entry) {
  if (!json.IsObject()) {
    return Damaged(StrCat("is ", json.TypeName(),
                          ", expected an object with dtype, shape and "
                          "data_offsets"));
  }
  const Json* dtype = json.Find("dtype");
  if (dtype == nullptr || !dtype->IsString()) {
    return Damaged(StrCat("\"dtype\" is ", dtype == nullptr ? "missing" : dtype->TypeName(),
                          ", expected a string"));
  }
  entry.dtype_name = dtype->AsString();
  entry.dtype = FindDtype(entry.dtype_name);
  HONE_TRY(ReadShape(json, entry));
  return ReadOffsets(json, entry);
}

// Range inside the file, and shape x dtype against the range.
Status CheckEntry(const Entry& entry, std::uint64_t header_end, std::uint64_t file_size) {
  const std::uint64_t data_size = file_size - header_end;
  if (entry.end > data_size) {
    return Damaged(StrCat("data_offsets [", entry.begin, ",", entry.end,
                          "] are out of range: the data has ", data_size, " bytes"));
  }
  if (entry.dtype == nullptr) return Status();
  std::optional<std::uint64_t> bits = entry.dtype->bits;
  const bool empty = std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end();
  for (const std::int64_t dim : entry.shape) {
    if (bits && !empty) bits = MulChecked(*bits, static_cast<std::uint64_t>(dim));
  }
  if (empty) bits = 0;
  const std::string what = StrCat("shape ", ShapeText(entry.shape), " of ", entry.dtype_name);
  if (!bits) return Damaged(StrCat(what, " has over 2^64 bits"));
  if (*bits % 8 != 0) return Damaged(StrCat(what, " is not a whole number of bytes"));
  if (*bits / 8 != entry.end - entry.begin) {
    return Damaged(StrCat(what, " needs ", *bits / 8, " bytes, data_offsets [", entry.begin, ",",
                          entry.end, "] hold ", entry.end - entry.begin));
  }
  return Status();
}

// The tensors must follow each other without overlap or hole, from the header to the end.
Status CheckLayout(const std::vector<Entry>& entries, std::uint64_t data_size) {
  std::uint64_t position = 0;
  const Entry* before = nullptr;
  for (const Entry& entry : entries) {
    if (entry.begin < position) {
      return Damaged(StrCat(TensorText(entry), " begins at ", entry.begin, " and overlaps ",
                            TensorText(*before), ", which ends at ", position));
    }
    if (entry.begin > position) {
      return Damaged(StrCat(TensorText(entry), " begins at ", entry.begin, ", expected ", position,
                            ": the bytes between belong to no tensor"));
    }
    position = entry.end;
    before = &entry;
  }
  if (position != data_size) {
    return Damaged(StrCat("the tensors end at byte ", position, " of the data, but the data has ",
                          data_size, " bytes: trailing bytes belong to no tensor"));
  }
  return Status();
}

Result<std::vector<Entry>> ReadEntries(std::string_view text) {
  auto parsed = ParseJson(text);
  if (!parsed.ok()) return std::move(parsed).status().Context("safetensors header");
  std::vector<Entry> entries;
  for (const auto& [name, value] : parsed->AsObject()) {
    if (name == "__metadata__") {
      HONE_TRY(CheckMetadata(value));
      continue;
    }
    Entry entry;
    entry.name = name;
    if (Status status = ReadEntry(value, entry); !status.ok()) {
      return std::move(status).Context(TensorText(entry));
    }
    entries.push_back(std::move(entry));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  return entries;
}

}  // namespace

const char* DtypeName(Dtype dtype) {
  for (const DtypeFacts& facts : kDtypes) {
    if (facts.dtype == dtype) return facts.name;
  }
  HONE_CHECK(false);
}

Result<std::vector<SafetensorsTensor>> ParseSafetensors(ByteSpan bytes) {
  HONE_ASSIGN(const std::string_view text, HeaderText(bytes));
  HONE_ASSIGN(const std::vector<Entry> entries, ReadEntries(text));
  const std::uint64_t header_end = kPrefixBytes + text.size();
  const std::uint64_t data_size = bytes.size() - header_end;

  // Where the file should end, for a file that was cut off. Damaged offsets can end anywhere.
  std::uint64_t end = 0;
  for (const Entry& entry : entries) end = std::max(end, entry.end);
  for (const Entry& entry : entries) {
    Status status = CheckEntry(entry, header_end, bytes.size());
    if (status.ok()) continue;
    status = std::move(status).Context(TensorText(entry));
    const auto expected = AddChecked(header_end, end);
    if (entry.end > data_size && expected) {
      return Damaged(StrCat(status.message(), "; expected a file of ", *expected, " bytes, have ",
                            bytes.size(), " bytes; if the download was cut off, repeat it"));
    }
    return status;
  }
  HONE_TRY(CheckLayout(entries, data_size));

  std::vector<SafetensorsTensor> tensors;
  tensors.reserve(entries.size());
  for (const Entry& entry : entries) {
    if (entry.dtype == nullptr) {
      return Status(Code::kUnsupported,
                    StrCat(TensorText(entry), " has the unknown dtype ", Quote(entry.dtype_name)));
    }
    SafetensorsTensor tensor;
    tensor.name = entry.name;
    tensor.dtype = entry.dtype->dtype;
    tensor.shape = entry.shape;
    tensor.data = bytes.subspan(static_cast<std::size_t>(header_end + entry.begin),
                                static_cast<std::size_t>(entry.end - entry.begin));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace hone::formats
