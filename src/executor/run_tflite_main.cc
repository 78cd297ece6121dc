// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Runs signatures of a TFLite model, for tests that compare with other programs:
//   run_tflite MODEL.tflite
// Lines on stdin: "SIGNATURE IN_FOLDER OUT_FOLDER". A tensor NAME lies in NAME.bin, its bare
// values; shapes and types are those of the model. Prints "ok" or "error: ..." for each line.
#include <cstdio>
#include <iostream>
#include <string>

#include "base/file.h"
#include "executor/executor.h"
#include "formats/tflite/tflite.h"

namespace hone::executor {
namespace {

Status RunOne(const Program& program, const std::string& signature, const std::string& in,
              const std::string& out) {
  const auto* found = program.model().FindSignature(signature);
  if (found == nullptr) return Status(Code::kNotFound, "no signature " + signature);
  const auto& tensors = program.model().subgraphs[found->subgraph].tensors;
  Values inputs;
  for (const auto& [name, id] : found->inputs) {
    HONE_ASSIGN(const std::string bytes, ReadFile(in + "/" + name + ".bin"));
    const ByteSpan span = AsBytes(bytes);
    inputs[name] = {tensors[id].type, tensors[id].shape, {span.begin(), span.end()}};
  }
  HONE_ASSIGN(const Values outputs, program.Run(signature, inputs));
  for (const auto& [name, value] : outputs) {
    HONE_TRY(WriteFileAtomic(out + "/" + name + ".bin", value.data));
  }
  return {};
}

Status Main(const std::string& path) {
  HONE_ASSIGN(const MappedFile map, MappedFile::Open(path));
  HONE_ASSIGN(const auto model, formats::tflite::ReadModel(map.bytes()));
  HONE_ASSIGN(const Program program, Program::Create(model, path));
  std::string signature, in, out;
  while (std::cin >> signature >> in >> out) {
    const Status status = RunOne(program, signature, in, out);
    std::cout << (status.ok() ? "ok" : "error: ") << status.message() << std::endl;
  }
  return {};
}

}  // namespace
}  // namespace hone::executor

int main(int argc, char** argv) {
  const hone::Status status =
      argc == 2 ? hone::executor::Main(argv[1])
                : hone::Status(hone::Code::kInvalidArgument, "one file name is needed");
  if (status.ok()) return 0;
  std::cerr << status.message() << '\n';
  return hone::ExitCode(status.code());
}
