// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Reads a file and writes it again, for tests that show the result to other programs:
//   rewrite_bundle IN.tflite OUT.tflite embedded|inside|outside
//   rewrite_bundle IN.litertlm OUT.litertlm
#include <algorithm>
#include <cstdio>
#include <string>

#include "base/file.h"
#include "formats/litertlm/litertlm.h"
#include "formats/tflite/test_models.h"
#include "formats/tflite/tflite.h"

namespace hone::formats {
namespace {

Status RewriteModel(const std::string& in, const std::string& out, std::string_view mode) {
  HONE_ASSIGN(const MappedFile map, MappedFile::Open(in));
  HONE_ASSIGN(const tflite::Model model, tflite::ReadModel(map.bytes()));
  return WriteFileAtomic(
      out, tflite::WriteToMemory(model, mode != "embedded", mode == "outside" ? 0 : ~0ULL));
}

Status RewriteBundle(const std::string& in, const std::string& out) {
  HONE_ASSIGN(const auto bundle, litertlm::Bundle::Open(in));
  HONE_ASSIGN(const std::vector<std::byte> head, litertlm::EncodeHeader(bundle->header()));
  const ByteSpan old = bundle->map().bytes();
  std::vector<std::byte> bytes(old.begin(), old.end());
  std::fill_n(bytes.begin(), litertlm::kSectionAlignment, std::byte{0});
  std::copy(head.begin(), head.end(), bytes.begin());
  return WriteFileAtomic(out, bytes);
}

}  // namespace
}  // namespace hone::formats

int main(int argc, char** argv) {
  const hone::Status status =
      argc == 4   ? hone::formats::RewriteModel(argv[1], argv[2], argv[3])
      : argc == 3 ? hone::formats::RewriteBundle(argv[1], argv[2])
                  : hone::Status(hone::Code::kInvalidArgument, "two file names and perhaps a mode");
  if (status.ok()) return 0;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(status.message().size()),
               status.message().data());
  return hone::ExitCode(status.code());
}
