// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone tokenize: text to ids.
#include <CLI/CLI.hpp>
#include <iostream>
#include <iterator>
#include <memory>
#include <utility>

#include "cli/cli.h"
#include "cli/model_options.h"
#include "runtime/engine.h"

namespace hone::cli {
namespace {

struct TokenizeArgs {
  std::string model, text;
  bool bos = false, json = false;
};

Status Run(const TokenizeArgs& args) {
  std::vector<std::string> warnings;
  HONE_ASSIGN(const runtime::TextSetup setup, runtime::LoadText(args.model, &warnings));
  PrintWarnings(warnings);
  if (!setup.tokenizer) {
    return Status(Code::kUnsupported, StrCat(args.model, ": ", setup.tokenizer_error));
  }
  std::string text = args.text;
  if (text == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  }
  bridge::EncodeOptions options;
  options.add_special_tokens = args.bos;
  HONE_ASSIGN(const std::vector<std::int32_t> ids, setup.tokenizer->Encode(text, options));

  Json::Array id_list, pieces;
  std::string line;
  for (const std::int32_t id : ids) {
    HONE_ASSIGN(std::string piece, setup.tokenizer->Piece(id));
    id_list.emplace_back(id);
    pieces.emplace_back(std::move(piece));
    line += StrCat(line.empty() ? "" : " ", id);
  }
  if (args.json) {
    PrintJson(
        Json(Json::Object{{"ids", Json(std::move(id_list))}, {"pieces", Json(std::move(pieces))}}));
  } else {
    PrintText(line + "\n");
  }
  return Status();
}

}  // namespace

void RegisterTokenize(CLI::App& app, Command* selected) {
  auto args = std::make_shared<TokenizeArgs>();
  CLI::App* tokenize = app.add_subcommand("tokenize", "Print the token ids of a text");
  tokenize->footer(
      "Examples:\n"
      "  hone tokenize m.litertlm \"Hello world\"\n"
      "  hone tokenize m.litertlm - --json < prompt.txt");
  tokenize
      ->add_option("model", args->model, "A .litertlm bundle, a .gguf file or a checkpoint folder")
      ->required();
  tokenize->add_option("text", args->text, "The text; - reads standard input")->required();
  tokenize->add_flag("--bos", args->bos, "Add the tokens of the post-processor, such as BOS");
  tokenize->add_flag("--json", args->json, "Print {\"ids\": [...], \"pieces\": [...]}");
  tokenize->callback([args, selected] { *selected = [args] { return Run(*args); }; });
}

}  // namespace hone::cli
