// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/answer_printer.h"

#include <utility>

#include "base/status.h"
#include "cli/utf8_text.h"

namespace hone::cli {
namespace {

constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kPlain = "\x1b[0m";

}  // namespace

AnswerPrinter::AnswerPrinter(const PrinterOptions& options, Out out)
    : options_(options), out_(std::move(out)) {}

void AnswerPrinter::Add(const chat::Event& event) {
  if (event.text.empty()) return;
  if (event.kind == chat::EventKind::kThinking) {
    Begin(Part::kThinking);
    if (!options_.hide_thinking) Print(event.text);
  } else if (event.kind == chat::EventKind::kContent) {
    Begin(Part::kContent);
    Print(event.text);
  }
}

void AnswerPrinter::Finish() {
  const bool dims = options_.dim && part_ == Part::kThinking;
  // Hidden thinking leaves no open line.
  const bool nothing = options_.hide_thinking && part_ == Part::kThinking;
  if (dims) out_(kPlain);
  if (!nothing || !options_.terminal) out_("\n");
  part_ = Part::kNothing;
}

void AnswerPrinter::Begin(Part part) {
  if (part == part_) return;
  const bool after_thinking = part_ == Part::kThinking;
  part_ = part;
  if (part == Part::kThinking) {
    if (options_.dim) out_(kDim);
    if (options_.hide_thinking && options_.terminal) out_("(thinking, hidden)\n");
  } else if (after_thinking) {
    if (options_.dim) out_(kPlain);
    if (!options_.hide_thinking) out_("\n\n");
  }
}

void AnswerPrinter::Print(std::string_view text) {
  if (options_.terminal) {
    out_(VisibleText(text));
  } else {
    out_(text);
  }
}

}  // namespace hone::cli
