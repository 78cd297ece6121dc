// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "formats/foreign_file.h"

namespace hone::formats {
namespace {

constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMaxAlignment = 1U << 20;
constexpr std::uint64_t kMaxNameBytes = 65535;
constexpr std::uint32_t kMaxDims = 4;
// Far above any vocabulary; values are widened, so a larger array could outgrow the file many
// times.
constexpr std::uint64_t kMaxElements = 1U << 24;
// The smallest entries there can be; they bound the counts by the size of the file.
constexpr std::uint64_t kMinPairBytes = 8 + 4 + 1;
constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;

struct GgmlType {
  std::uint32_t type;
  const char* name;
  std::uint64_t block;  // values in one block; 0: never stored in a file
  std::uint64_t bytes;  // of one block
};
constexpr std::array kGgmlTypes = {
    GgmlType{0, "F32", 1, 4},         GgmlType{1, "F16", 1, 2},
    GgmlType{2, "Q4_0", 32, 18},      GgmlType{3, "Q4_1", 32, 20},
    GgmlType{4, "Q4_2", 0, 0},        GgmlType{5, "Q4_3", 0, 0},
    GgmlType{6, "Q5_0", 32, 22},      GgmlType{7, "Q5_1", 32, 24},
    GgmlType{8, "Q8_0", 32, 34},      GgmlType{9, "Q8_1", 0, 0},
    GgmlType{10, "Q2_K", 256, 84},    GgmlType{11, "Q3_K", 256, 110},
    GgmlType{12, "Q4_K", 256, 144},   GgmlType{13, "Q5_K", 256, 176},
    GgmlType{14, "Q6_K", 256, 210},   GgmlType{15, "Q8_K", 0, 0},
    GgmlType{16, "IQ2_XXS", 256, 66}, GgmlType{17, "IQ2_XS", 256, 74},
    GgmlType{18, "IQ3_XXS", 256, 98}, GgmlType{19, "IQ1_S", 256, 50},
    GgmlType{20, "IQ4_NL", 32, 18},   GgmlType{21, "IQ3_S", 256, 110},
    GgmlType{22, "IQ2_S", 256, 82},   GgmlType{23, "IQ4_XS", 256, 136},
    GgmlType{24, "I8", 1, 1},         GgmlType{25, "I16", 1, 2},
    GgmlType{26, "I32", 1, 4},        GgmlType{27, "I64", 1, 8},
    GgmlType{28, "F64", 1, 8},        GgmlType{29, "IQ1_M", 256, 56},
    GgmlType{30, "BF16", 1, 2},       GgmlType{31, "Q4_0_4_4", 0, 0},
    GgmlType{32, "Q4_0_4_8", 0, 0},   GgmlType{33, "Q4_0_8_8", 0, 0},
    GgmlType{34, "TQ1_0", 256, 54},   GgmlType{35, "TQ2_0", 256, 66},
    GgmlType{36, "IQ4_NL_4_4", 0, 0}, GgmlType{37, "IQ4_NL_4_8", 0, 0},
    GgmlType{38, "IQ4_NL_8_8", 0, 0}, GgmlType{39, "MXFP4", 32, 17},
    GgmlType{40, "NVFP4", 64, 36},    GgmlType{41, "Q1_0", 128, 18},
};

const GgmlType* FindType(std::uint32_t type) {
  return type < kGgmlTypes.size() ? &kGgmlTypes[type] : nullptr;
}

enum class ValueType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

// Smallest size in the file of one value.
std::uint64_t MinBytes(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return 1;
    case ValueType::kU16:
    case ValueType::kI16:
      return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    default:
      return 8;
  }
}

Status Damaged(std::string message) { return Status(Code::kDataLoss, std::move(message)); }

struct TensorInfo {
  std::string name;
  std::uint32_t type = 0;
  std::vector<std::uint64_t> dims;  // as in the file: innermost first
  std::uint64_t offset = 0;         // from the start of the data
};

using Metadata = std::map<std::string, GgufValue, std::less<>>;

// Reads the header from front to back. Every error says the byte where it happened.
class Reader {
 public:
  explicit Reader(ByteSpan bytes) : bytes_(bytes) {}

  Status Read() {
    HONE_TRY(ReadPrefix());
    for (std::uint64_t i = 0; i < num_pairs_; ++i) HONE_TRY(ReadPair());
    HONE_TRY(CheckCount("tensor", num_tensors_, kMinTensorBytes));
    tensors_.reserve(static_cast<std::size_t>(num_tensors_));
    for (std::uint64_t i = 0; i < num_tensors_; ++i) HONE_TRY(ReadTensor());
    return Status();
  }

  Metadata& metadata() { return metadata_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  std::uint64_t position() const { return pos_; }

 private:
  Status Cut(std::string_view what) const {
    return Damaged(StrCat("the GGUF header ends inside ", what, " at byte ", pos_,
                          "; the file has ", bytes_.size(), " bytes; download it again"));
  }
  template <typename T>
  Status Take(T& out, std::string_view what) {
    const auto value = ReadLe<T>(bytes_, pos_);
    if (!value) return Cut(what);
    out = *value;
    pos_ += sizeof(T);
    return Status();
  }
  Status TakeString(std::string_view& out, std::string_view what) {
    std::uint64_t size = 0;
    HONE_TRY(Take(size, what));
    const auto part = SubSpan(bytes_, pos_, size);
    if (!part) {
      return Damaged(StrCat(what, " at byte ", pos_, " should have ", size,
                            " bytes, but the file has ", bytes_.size() - pos_, " more"));
    }
    out = AsText(*part);
    pos_ += size;
    return Status();
  }
  Status CheckCount(std::string_view what, std::uint64_t count, std::uint64_t min_bytes) const {
    const std::uint64_t rest = bytes_.size() - pos_;
    if (count <= rest / min_bytes) return Status();
    return Damaged(StrCat("the ", what, " count is ", count, ", but after byte ", pos_,
                          " the file has room for ", rest / min_bytes, " at most"));
  }

  Status ReadPrefix() {
    if (bytes_.empty()) return Damaged("not a GGUF file: the file is empty");
    if (AsText(bytes_).substr(0, 4) != "GGUF") {
      const std::string what = DescribeForeignFile(bytes_);
      if (!what.empty()) return Damaged(StrCat("not a GGUF file: ", what));
      return Damaged(StrCat("not a GGUF file: it begins with ", Quote(AsText(bytes_).substr(0, 4)),
                            ", expected \"GGUF\""));
    }
    pos_ = 4;
    std::uint32_t version = 0;
    HONE_TRY(Take(version, "the version"));
    if (version == 0x02000000 || version == 0x03000000) {
      return Status(Code::kUnsupported, "this GGUF file is big-endian, expected little-endian");
    }
    if (version != 2 && version != 3) {
      return Status(Code::kUnsupported,
                    StrCat("GGUF version ", version, " is not supported, expected 2 or 3"));
    }
    HONE_TRY(Take(num_tensors_, "the tensor count"));
    HONE_TRY(Take(num_pairs_, "the metadata count"));
    HONE_TRY(CheckCount("metadata", num_pairs_, kMinPairBytes));
    return CheckCount("tensor", num_tensors_, kMinTensorBytes);
  }

  Status ReadPair() {
    std::string_view key;
    HONE_TRY(TakeString(key, "a metadata key"));
    if (key.empty() || key.size() > kMaxNameBytes || !IsUtf8(key)) {
      return Damaged(StrCat("the metadata key ", Quote(key), " before byte ", pos_,
                            " is empty, too long or not UTF-8"));
    }
    std::uint32_t type = 0;
    HONE_TRY(Take(type, "the type of a metadata value"));
    GgufValue value;
    Status status = ReadValue(type, value);
    if (!status.ok()) return std::move(status).Context(StrCat("metadata ", Quote(key)));
    if (!metadata_.emplace(key, std::move(value)).second) {
      return Damaged(StrCat("the metadata key ", Quote(key), " appears twice"));
    }
    return Status();
  }

  Status ReadValue(std::uint32_t raw_type, GgufValue& out) {
    const auto type = static_cast<ValueType>(raw_type);
    switch (type) {
      case ValueType::kArray:
        return ReadArray(out);
      case ValueType::kString: {
        std::string_view text;
        HONE_TRY(TakeString(text, "text"));
        out = text;
        return Status();
      }
      case ValueType::kF32:
      case ValueType::kF64: {
        double value = 0;
        HONE_TRY(TakeFloat(type, value));
        out = value;
        return Status();
      }
      case ValueType::kBool: {
        bool value = false;
        HONE_TRY(TakeBool(value));
        out = value;
        return Status();
      }
      default: {
        std::int64_t value = 0;
        HONE_TRY(TakeInt(raw_type, value));
        out = value;
        return Status();
      }
    }
  }

  Status TakeFloat(ValueType type, double& out) {
    if (type == ValueType::kF64) return Take(out, "a number");
    float value = 0;
    HONE_TRY(Take(value, "a number"));
    out = value;
    return Status();
  }
  Status TakeBool(bool& out) {
    std::uint8_t value = 0;
    HONE_TRY(Take(value, "a boolean"));
    if (value > 1) return Damaged(StrCat("the boolean is ", int{value}, ", expected 0 or 1"));
    out = value == 1;
    return Status();
  }
  template <typename T>
  Status TakeIntAs(std::int64_t& out) {
    T value = 0;
    HONE_TRY(Take(value, "an integer"));
    if constexpr (sizeof(T) == 8 && std::is_unsigned_v<T>) {
      if (value > static_cast<T>(std::numeric_limits<std::int64_t>::max())) {
        return Status(Code::kUnsupported,
                      StrCat("the integer is ", value, ", expected at most 2^63 - 1"));
      }
    }
    out = static_cast<std::int64_t>(value);
    return Status();
  }
  Status TakeInt(std::uint32_t type, std::int64_t& out) {
    switch (static_cast<ValueType>(type)) {
      case ValueType::kU8:
        return TakeIntAs<std::uint8_t>(out);
      case ValueType::kI8:
        return TakeIntAs<std::int8_t>(out);
      case ValueType::kU16:
        return TakeIntAs<std::uint16_t>(out);
      case ValueType::kI16:
        return TakeIntAs<std::int16_t>(out);
      case ValueType::kU32:
        return TakeIntAs<std::uint32_t>(out);
      case ValueType::kI32:
        return TakeIntAs<std::int32_t>(out);
      case ValueType::kU64:
        return TakeIntAs<std::uint64_t>(out);
      case ValueType::kI64:
        return TakeIntAs<std::int64_t>(out);
      default:
        return Damaged(StrCat("the value type is ", type, ", expected 0 to 12"));
    }
  }

  Status ReadArray(GgufValue& out) {
    std::uint32_t raw_type = 0;
    std::uint64_t count = 0;
    HONE_TRY(Take(raw_type, "the type of an array"));
    HONE_TRY(Take(count, "the size of an array"));
    const auto type = static_cast<ValueType>(raw_type);
    if (type == ValueType::kArray) {
      return Status(Code::kUnsupported, "arrays of arrays are not supported");
    }
    if (raw_type > static_cast<std::uint32_t>(ValueType::kF64)) {
      return Damaged(StrCat("the element type is ", raw_type, ", expected 0 to 12"));
    }
    HONE_TRY(CheckCount("element", count, MinBytes(type)));
    if (count > kMaxElements) {
      return Status(Code::kUnsupported,
                    StrCat("the array has ", count, " elements, expected at most ", kMaxElements));
    }
    auto array = std::make_shared<GgufArray>();
    const auto size = static_cast<std::size_t>(count);
    if (type == ValueType::kString) {
      array->strings.resize(size);
      for (std::string_view& text : array->strings) HONE_TRY(TakeString(text, "text"));
    } else if (type == ValueType::kF32 || type == ValueType::kF64) {
      array->floats.resize(size);
      for (double& value : array->floats) HONE_TRY(TakeFloat(type, value));
    } else if (type == ValueType::kBool) {
      array->bools.resize(size);
      for (std::size_t i = 0; i < size; ++i) {
        bool value = false;
        HONE_TRY(TakeBool(value));
        array->bools[i] = value;
      }
    } else {
      array->ints.resize(size);
      for (std::int64_t& value : array->ints) HONE_TRY(TakeInt(raw_type, value));
    }
    out = std::move(array);
    return Status();
  }

  Status ReadTensor() {
    TensorInfo info;
    std::string_view name;
    HONE_TRY(TakeString(name, "a tensor name"));
    if (name.empty() || name.size() > kMaxNameBytes || !IsUtf8(name)) {
      return Damaged(StrCat("the tensor name ", Quote(name), " before byte ", pos_,
                            " is empty, too long or not UTF-8"));
    }
    info.name = name;
    std::uint32_t num_dims = 0;
    HONE_TRY(Take(num_dims, "the dimensions of a tensor"));
    if (num_dims > kMaxDims) {
      return Damaged(StrCat("tensor ", Quote(name), " has ", num_dims,
                            " dimensions, expected at most ", kMaxDims));
    }
    info.dims.resize(num_dims);
    for (std::uint64_t& dim : info.dims) HONE_TRY(Take(dim, "the dimensions of a tensor"));
    HONE_TRY(Take(info.type, "the type of a tensor"));
    HONE_TRY(Take(info.offset, "the offset of a tensor"));
    tensors_.push_back(std::move(info));
    return Status();
  }

  ByteSpan bytes_;
  std::uint64_t pos_ = 0;
  std::uint64_t num_tensors_ = 0;
  std::uint64_t num_pairs_ = 0;
  Metadata metadata_;
  std::vector<TensorInfo> tensors_;
};

Result<std::uint64_t> Alignment(const Metadata& metadata) {
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) return kDefaultAlignment;
  const auto* value = std::get_if<std::int64_t>(&found->second);
  if (value == nullptr || *value <= 0 || static_cast<std::uint64_t>(*value) > kMaxAlignment ||
      !std::has_single_bit(static_cast<std::uint64_t>(*value))) {
    return Damaged(StrCat("\"general.alignment\" is ",
                          value == nullptr ? "not an integer" : std::to_string(*value),
                          ", expected a power of two up to ", kMaxAlignment));
  }
  return static_cast<std::uint64_t>(*value);
}

// Bytes of a tensor of a known type, or why there is no such number.
Result<std::uint64_t> TensorBytes(const TensorInfo& info, const GgmlType& type) {
  constexpr auto kMaxDim = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::optional<std::uint64_t> values = 1;
  const bool empty = std::find(info.dims.begin(), info.dims.end(), 0U) != info.dims.end();
  for (const std::uint64_t dim : info.dims) {
    if (dim > kMaxDim) return Damaged(StrCat("a dimension is ", dim, ", over 2^63 - 1"));
    if (values && !empty) values = MulChecked(*values, dim);
  }
  if (empty) values = 0;
  const std::uint64_t row = info.dims.empty() ? 1 : info.dims.front();
  if (row % type.block != 0) {
    return Damaged(StrCat("rows of ", row, " values do not divide into the blocks of ", type.block,
                          " values of ", type.name));
  }
  const auto bytes = values ? MulChecked(*values / type.block, type.bytes) : std::nullopt;
  if (!bytes) return Damaged("its size overflows 64 bits");
  return *bytes;
}

Result<GgufTensor> MakeTensor(const TensorInfo& info, ByteSpan data, std::uint64_t data_begin,
                              std::uint64_t alignment) {
  GgufTensor tensor;
  tensor.name = info.name;
  tensor.type = info.type;
  if (info.offset % alignment != 0) {
    return Damaged(
        StrCat("its offset ", info.offset, " is not a multiple of the alignment ", alignment));
  }
  if (info.offset > data.size()) {
    return Damaged(StrCat("its offset ", info.offset, " is past the end of the data, which has ",
                          data.size(), " bytes"));
  }
  const GgmlType* type = FindType(info.type);
  if (type == nullptr || type->block == 0) return tensor;  // named by the caller
  HONE_ASSIGN(const std::uint64_t bytes, TensorBytes(info, *type));
  const auto part = SubSpan(data, info.offset, bytes);
  if (!part) {
    const auto end = AddChecked(info.offset, bytes);
    const auto expected = end ? AddChecked(*end, data_begin) : std::nullopt;
    return Damaged(StrCat("it needs ", bytes, " bytes at offset ", info.offset,
                          "; expected a file of at least ",
                          expected ? std::to_string(*expected) : "2^64", " bytes, have ",
                          data_begin + data.size(), "; if the download was cut off, repeat it"));
  }
  tensor.data = *part;
  for (const std::uint64_t dim : info.dims) tensor.shape.push_back(static_cast<std::int64_t>(dim));
  std::reverse(tensor.shape.begin(), tensor.shape.end());
  return tensor;
}

Status CheckNamesAndOverlap(const std::vector<GgufTensor>& tensors) {
  std::vector<const GgufTensor*> order;
  for (const GgufTensor& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->name < b->name; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i]->name == order[i - 1]->name) {
      return Damaged(StrCat("the tensor name ", Quote(order[i]->name), " appears twice"));
    }
  }
  std::erase_if(order, [](const auto* t) { return t->data.empty(); });
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->data.data() < b->data.data(); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i]->data.data() < order[i - 1]->data.data() + order[i - 1]->data.size()) {
      return Damaged(StrCat("tensors ", Quote(order[i - 1]->name), " and ", Quote(order[i]->name),
                            " overlap"));
    }
  }
  return Status();
}

Result<std::vector<GgufTensor>> MakeTensors(const Reader& reader, ByteSpan bytes,
                                            std::uint64_t alignment) {
  const std::uint64_t data_begin =
      std::min<std::uint64_t>(RoundUp(reader.position(), alignment), bytes.size());
  const ByteSpan data = bytes.subspan(static_cast<std::size_t>(data_begin));
  std::vector<GgufTensor> tensors;
  tensors.reserve(reader.tensors().size());
  for (const TensorInfo& info : reader.tensors()) {
    auto tensor = MakeTensor(info, data, data_begin, alignment);
    if (!tensor.ok())
      return std::move(tensor).status().Context(StrCat("tensor ", Quote(info.name)));
    tensors.push_back(*std::move(tensor));
  }
  HONE_TRY(CheckNamesAndOverlap(tensors));
  for (const TensorInfo& info : reader.tensors()) {
    const GgmlType* type = FindType(info.type);
    if (type == nullptr || type->block == 0) {
      return Status(Code::kUnsupported,
                    StrCat("tensor ", Quote(info.name), " has the ggml type ",
                           type == nullptr ? std::to_string(info.type) : type->name,
                           ", which is unknown or is never stored in a file"));
    }
  }
  return tensors;
}

const char* FoundName(const GgufValue* value) {
  if (value == nullptr) return "missing";
  static constexpr const char* kNames[] = {"an integer", "a number", "a boolean", "text",
                                           "an array"};
  return kNames[value->index()];
}

Status Wrong(const std::string& path, std::string_view key, const GgufValue* found,
             const char* expected) {
  return Status(
      found == nullptr ? Code::kNotFound : Code::kInvalidArgument,
      StrCat(path, ": metadata ", Quote(key), " is ", FoundName(found), ", expected ", expected));
}

}  // namespace

std::string GgmlTypeName(std::uint32_t type) {
  const GgmlType* found = FindType(type);
  return found == nullptr ? StrCat("type ", type) : found->name;
}

Result<std::shared_ptr<const GgufFile>> GgufFile::Parse(ByteSpan bytes, const std::string& path) {
  Reader reader(bytes);
  if (Status status = reader.Read(); !status.ok()) return std::move(status).Context(path);
  auto alignment = Alignment(reader.metadata());
  if (!alignment.ok()) return std::move(alignment).status().Context(path);
  auto tensors = MakeTensors(reader, bytes, *alignment);
  if (!tensors.ok()) return std::move(tensors).status().Context(path);
  std::shared_ptr<GgufFile> file(new GgufFile());
  file->path_ = path;
  file->metadata_ = std::move(reader.metadata());
  file->tensors_ = *std::move(tensors);
  return std::shared_ptr<const GgufFile>(std::move(file));
}

Result<std::shared_ptr<const GgufFile>> GgufFile::Open(const std::string& path) {
  HONE_ASSIGN(MappedFile mapped, MappedFile::Open(path));
  auto map = std::make_shared<const MappedFile>(std::move(mapped));
  HONE_ASSIGN(const std::shared_ptr<const GgufFile> parsed, Parse(map->bytes(), path));
  std::shared_ptr<GgufFile> file(new GgufFile(*parsed));
  file->map_ = std::move(map);
  return std::shared_ptr<const GgufFile>(std::move(file));
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto it = std::find_if(tensors_.begin(), tensors_.end(),
                               [&](const GgufTensor& t) { return t.name == name; });
  return it == tensors_.end() ? nullptr : &*it;
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto it = metadata_.find(key);
  return it == metadata_.end() ? nullptr : &it->second;
}

Result<std::int64_t> GgufFile::GetInt(std::string_view key) const {
  const GgufValue* value = Find(key);
  const auto* found = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  if (found == nullptr) return Wrong(path_, key, value, "an integer");
  return *found;
}

Result<double> GgufFile::GetDouble(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value != nullptr) {
    if (const auto* number = std::get_if<double>(value)) return *number;
    if (const auto* whole = std::get_if<std::int64_t>(value)) return static_cast<double>(*whole);
  }
  return Wrong(path_, key, value, "a number");
}

Result<std::string_view> GgufFile::GetString(std::string_view key) const {
  const GgufValue* value = Find(key);
  const auto* found = value == nullptr ? nullptr : std::get_if<std::string_view>(value);
  if (found == nullptr) return Wrong(path_, key, value, "text");
  return *found;
}

Result<const GgufArray*> GgufFile::GetArray(std::string_view key) const {
  const GgufValue* value = Find(key);
  const auto* found = value == nullptr ? nullptr : std::get_if<std::shared_ptr<GgufArray>>(value);
  if (found == nullptr) return Wrong(path_, key, value, "an array");
  return static_cast<const GgufArray*>(found->get());
}

}  // namespace hone::formats
