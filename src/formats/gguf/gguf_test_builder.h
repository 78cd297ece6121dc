// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Builds GGUF bytes for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace hone::formats::testing {

class GgufBuilder {
 public:
  explicit GgufBuilder(std::uint32_t version = 3) : version_(version) {}

  template <typename T>
  static void Put(std::string& out, T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    out.append(raw, sizeof(T));
  }
  static void PutString(std::string& out, std::string_view text) {
    Put<std::uint64_t>(out, text.size());
    out += text;
  }

  // A value of any type: type is the number in the file.
  template <typename T>
  GgufBuilder& Scalar(std::string_view key, std::uint32_t type, T value) {
    Key(key, type);
    Put(pairs_, value);
    return *this;
  }
  GgufBuilder& U32(std::string_view key, std::uint32_t value) { return Scalar(key, 4, value); }
  GgufBuilder& F32(std::string_view key, float value) { return Scalar(key, 6, value); }
  GgufBuilder& Bool(std::string_view key, bool value) {
    return Scalar<std::uint8_t>(key, 7, value ? 1 : 0);
  }
  GgufBuilder& String(std::string_view key, std::string_view value) {
    Key(key, 8);
    PutString(pairs_, value);
    return *this;
  }
  GgufBuilder& Strings(std::string_view key, const std::vector<std::string>& values) {
    Key(key, 9);
    Put<std::uint32_t>(pairs_, 8);
    Put<std::uint64_t>(pairs_, values.size());
    for (const std::string& value : values) PutString(pairs_, value);
    return *this;
  }
  template <typename T>
  GgufBuilder& Array(std::string_view key, std::uint32_t type, const std::vector<T>& values) {
    Key(key, 9);
    Put(pairs_, type);
    Put<std::uint64_t>(pairs_, values.size());
    for (const T value : values) Put(pairs_, value);
    return *this;
  }
  GgufBuilder& Tensor(std::string_view name, std::uint32_t type,
                      const std::vector<std::uint64_t>& dims, std::uint64_t offset) {
    PutString(tensors_, name);
    Put(tensors_, static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims) Put(tensors_, dim);
    Put(tensors_, type);
    Put(tensors_, offset);
    ++num_tensors_;
    return *this;
  }

  // The header, padding to align, and data_bytes of data.
  std::string Bytes(std::size_t data_bytes = 0, std::size_t align = 32) const {
    std::string out = "GGUF";
    Put(out, version_);
    Put(out, num_tensors_);
    Put(out, num_pairs_);
    out += pairs_;
    out += tensors_;
    if (num_tensors_ > 0) out.append((align - out.size() % align) % align, '\0');
    out.append(data_bytes, '\1');
    return out;
  }

 private:
  void Key(std::string_view key, std::uint32_t type) {
    PutString(pairs_, key);
    Put(pairs_, type);
    ++num_pairs_;
  }

  std::uint32_t version_;
  std::uint64_t num_tensors_ = 0;
  std::uint64_t num_pairs_ = 0;
  std::string pairs_;
  std::string tensors_;
};

}  // namespace hone::formats::testing
