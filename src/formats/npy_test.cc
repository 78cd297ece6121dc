// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/npy.h"

#include <gtest/gtest.h>

#include <array>

#include "base/file.h"

namespace hone::formats {
namespace {

std::string Npy(std::string_view header, std::size_t data_bytes, char major = 1) {
  std::string out = "\x93NUMPY";
  out += major;
  out += '\0';
  const auto length = static_cast<std::uint32_t>(header.size());
  for (unsigned i = 0; i < (major == 1 ? 2U : 4U); ++i) {
    out += static_cast<char>((length >> (8 * i)) & 0xFF);
  }
  out += header;
  out.append(data_bytes, '\0');
  return out;
}

void ExpectError(std::string_view bytes, Code code, std::string_view word) {
  const auto array = ParseNpy(AsBytes(bytes));
  ASSERT_FALSE(array.ok()) << bytes;
  EXPECT_EQ(array.code(), code) << array.message();
  EXPECT_NE(array.message().find(word), std::string_view::npos) << array.message();
}

TEST(Npy, WhatIsEncodedReadsBack) {
  const std::vector<std::vector<std::int64_t>> shapes = {{}, {3}, {2, 3}, {0, 5}, {1, 2, 2}};
  for (const auto& shape : shapes) {
    std::size_t count = 1;
    for (const auto size : shape) count *= static_cast<std::size_t>(size);
    std::vector<float> data(count);
    for (std::size_t i = 0; i < count; ++i) data[i] = 0.5F - static_cast<float>(i);
    const auto bytes = EncodeNpy(shape, data);
    EXPECT_EQ((bytes.size() - 4 * count) % 64, 0U);
    const auto array = ParseNpy(bytes);
    ASSERT_TRUE(array.ok()) << array.message();
    EXPECT_EQ(array->shape, shape);
    EXPECT_EQ(array->data, data);
  }
}

TEST(Npy, HeaderIsExactlyWhatNumpyWrites) {
  const std::array<std::int64_t, 1> shape = {3};
  const std::array<float, 3> data = {};
  const auto bytes = EncodeNpy(shape, data);
  const std::string text(AsText(bytes).substr(10, 118));
  EXPECT_EQ(text.substr(0, 60), "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }   ");
  EXPECT_EQ(text.back(), '\n');
}

TEST(Npy, ReadsTheGoldenLogits) {
  const std::string path = std::string(HONE_SHARED_DATA) + "/golden/bad/00-control-ok/logits.npy";
  const auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.message();
  const auto array = ParseNpy(file->bytes());
  ASSERT_TRUE(array.ok()) << array.message();
  EXPECT_EQ(array->shape, (std::vector<std::int64_t>{2, 384}));
}

TEST(Npy, ReadsVersionsTwoAndThreeAndDoubleQuotes) {
  for (const char major : {'\x02', '\x03'}) {
    const auto array = ParseNpy(
        AsBytes(Npy("{\"descr\":\"<f4\",\"shape\":(2, 1),\"fortran_order\":False}  \n", 8, major)));
    ASSERT_TRUE(array.ok()) << array.message();
    EXPECT_EQ(array->shape, (std::vector<std::int64_t>{2, 1}));
  }
}

TEST(Npy, RefusesWhatItCannotReadByName) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
  ExpectError("", Code::kDataLoss, "NUMPY");
  ExpectError("<!doctype html>", Code::kDataLoss, "web page");
  ExpectError(Npy(good, 8, 4), Code::kUnsupported, "4.0");
  ExpectError(Npy(good, 7), Code::kDataLoss, "needs 8 bytes of data, the file has 7");
  ExpectError(Npy(good, 9), Code::kDataLoss, "needs 8 bytes of data, the file has 9");
  ExpectError(Npy(good, 8).substr(0, 30), Code::kDataLoss, "but the file has 30 bytes");
  ExpectError(Npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", 8),
              Code::kUnsupported, "<f8");
  ExpectError(Npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4),
              Code::kUnsupported, "descr");
  ExpectError(Npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", 16),
              Code::kUnsupported, "Fortran");
  ExpectError(Npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 2), }", 16), Code::kDataLoss,
              "True or False");
  ExpectError(Npy("{'descr': '<f4', 'fortran_order': False, }", 4), Code::kDataLoss, "shape");
  ExpectError(Npy("{'descr': '<f4', 'descr': '<f4', 'shape': (1,), }", 4), Code::kDataLoss,
              "descr");
}

TEST(Npy, RefusesShapesThatOverflowOrAreNotSizes) {
  for (const char* shape :
       {"(4294967296, 4294967296, 2)", "(-1,)", "(1.5,)", "(99999999999999999999,)", "(2 3)",
        "(4611686018427387904,)", "(1,", "2", "(0, 4294967296, 4294967296, 4294967296)"}) {
    const std::string header =
        std::string("{'descr': '<f4', 'fortran_order': False, 'shape': ") + shape + ", }";
    ExpectError(Npy(header, 4), Code::kDataLoss, "npy");
  }
}

TEST(Npy, EveryCutOfAFileIsRefused) {
  const std::array<std::int64_t, 2> shape = {2, 2};
  const std::array<float, 4> data = {1, 2, 3, 4};
  const auto bytes = EncodeNpy(shape, data);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParseNpy(ByteSpan(bytes).first(size)).ok()) << size;
  }
}

}  // namespace
}  // namespace hone::formats
