// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone logits: raw logits of given ids as a .npy file.
#include <CLI/CLI.hpp>
#include <array>
#include <limits>
#include <memory>
#include <utility>

#include "base/file.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/model_options.h"
#include "formats/npy.h"
#include "model/reference_forward.h"
#include "runtime/engine.h"

namespace hone::cli {
namespace {

struct LogitsArgs {
  std::string model, out, id_text;
  std::vector<std::int32_t> ids;  // from id_text
  std::string positions = "last", engine = "auto", compute, kv;
  int threads = 0;
};

const std::vector<std::string> kEngineWords = {"auto", "kernels", "reference", "graph"};

// [positions, vocab]
struct Logits {
  std::vector<float> values;
  std::int64_t vocab = 0;
};

Result<Logits> RunReference(const LogitsArgs& args) {
  if (!args.compute.empty() && args.compute != "f32") {
    return Status(Code::kInvalidArgument,
                  "--engine reference computes in float32; --compute q8 needs --engine kernels");
  }
  std::vector<std::string> warnings;
  HONE_ASSIGN(const model::DecoderModel model, runtime::LoadModel(args.model, &warnings));
  PrintWarnings(warnings);
  HONE_ASSIGN(std::vector<float> all, model::ReferenceLogits(model, args.ids));
  const auto vocab = static_cast<std::ptrdiff_t>(model.spec.vocab);
  if (args.positions == "last") all.erase(all.begin(), all.end() - vocab);
  return Logits{std::move(all), model.spec.vocab};
}

Result<Logits> RunEngine(const LogitsArgs& args) {
  using runtime::RunChoice;
  RunChoice run = RunChoice::kAuto;
  if (args.engine == "kernels") run = RunChoice::kKernels;
  if (args.engine == "graph") {
    run = RunChoice::kGraph;
    if (!args.compute.empty() || !args.kv.empty()) {
      return Status(Code::kInvalidArgument,
                    "--engine graph computes as the graph says; --compute and --kv need "
                    "--engine kernels");
    }
  }
  const std::string kv = args.kv.empty() ? "f32" : args.kv;
  HONE_ASSIGN(const auto engine, OpenEngine(args.model, args.threads, args.compute, kv, run));
  HONE_ASSIGN(const auto sequence, engine->NewSequence());
  Logits logits{{}, engine->spec().vocab};
  const runtime::StepPart part{sequence.get(), args.ids, args.positions == "all"};
  HONE_TRY(engine->Run(runtime::Step{{part}}, &logits.values, CancelFlag()));
  return logits;
}

Status Run(LogitsArgs& args) {
  HONE_TRY(CheckOutputPath(args.out));
  HONE_TRY(CheckReplaces(args.out, args.model, "\x93NUMPY", ".npy file"));
  HONE_ASSIGN(const std::vector<std::int64_t> ids,
              ParseNumberList("--ids", args.id_text, 0, std::numeric_limits<std::int32_t>::max()));
  args.ids.assign(ids.begin(), ids.end());
  CancelFlag();
  HONE_ASSIGN(const Logits logits,
              args.engine == "reference" ? RunReference(args) : RunEngine(args));
  if (CancelFlag()->load()) return Status(Code::kCancelled, "cancelled");
  const auto size = static_cast<std::int64_t>(logits.values.size());
  const std::array<std::int64_t, 2> shape = {size / logits.vocab, logits.vocab};
  return WriteFileAtomic(args.out, formats::EncodeNpy(shape, logits.values));
}

}  // namespace

void RegisterLogits(CLI::App& app, Command* selected) {
  auto args = std::make_shared<LogitsArgs>();
  CLI::App* logits = app.add_subcommand("logits", "Write the logits of token ids to a .npy file");
  logits->footer(
      "Example:\n"
      "  hone logits m.litertlm --ids 1,35,87,301 --positions all -o logits.npy\n"
      "The file is float32 [positions, vocabulary]; no token is suppressed.");
  logits->add_option("model", args->model, kModelHelp)->required();
  logits->add_option("--ids", args->id_text, "Token ids, separated by commas")->required();
  logits->add_option("--positions", args->positions, "last or all")
      ->check(CLI::IsMember(std::vector<std::string>{"last", "all"}))
      ->capture_default_str();
  logits
      ->add_option("--engine", args->engine,
                   "kernels; reference: plain float32 loops on the dequantized weights; graph: a "
                   "bundle's own graph, operator by operator, slow; auto: kernels, or the graph of "
                   "a bundle that the kernels cannot run")
      ->check(CLI::IsMember(kEngineWords))
      ->capture_default_str();
  logits
      ->add_option("--compute", args->compute,
                   "Activations (default: q8 for quantized bundles, f32 else)")
      ->check(CLI::IsMember(kComputeWords));
  logits->add_option("--kv", args->kv, "Type of the key/value cache (default: f32)")
      ->check(CLI::IsMember(kKvWords));
  logits->add_option("--threads", args->threads, kThreadsHelp)
      ->transform(ThreadsWord)
      ->default_str("auto");
  logits->add_option("-o,--out,--output", args->out, "The .npy file to write")->required();
  logits->callback([args, selected] { *selected = [args] { return Run(*args); }; });
}

}  // namespace hone::cli
