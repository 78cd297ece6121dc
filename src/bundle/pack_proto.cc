// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/pack_proto.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <limits>
#include <memory>

#include "pack_metadata.pb.h"

namespace hone::bundle {
namespace {

namespace pb = google::protobuf;

constexpr int kMaxDepth = 64;

std::unique_ptr<pb::Message> MakeMessage(MessageKind kind) {
  switch (kind) {
    case MessageKind::kExecutorMetadata:
      return std::make_unique<proto::ExecutorMetadata>();
    case MessageKind::kEmbeddingMetadata:
      return std::make_unique<proto::EmbeddingMetadata>();
    default:
      return std::make_unique<proto::LlmMetadata>();
  }
}

// protobuf prints what it dislikes on stderr; a library must not.
bool ParseBinary(pb::Message& message, ByteSpan bytes) {
  const pb::LogSilencer silence;
  if (bytes.size() > std::numeric_limits<int>::max()) return false;
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

// Floats as litert-lm-builder prints them: 1.0, not 1.
class FloatPrinter : public pb::TextFormat::FastFieldValuePrinter {
 public:
  void PrintFloat(float value, pb::TextFormat::BaseTextGenerator* generator) const override {
    Print(pb::TextFormat::FieldValuePrinter().PrintFloat(value), generator);
  }
  void PrintDouble(double value, pb::TextFormat::BaseTextGenerator* generator) const override {
    Print(pb::TextFormat::FieldValuePrinter().PrintDouble(value), generator);
  }

 private:
  static void Print(std::string text, pb::TextFormat::BaseTextGenerator* generator) {
    if (text.find_first_of(".ein") == std::string::npos) text += ".0";
    generator->PrintString(text);
  }
};

class FirstError : public pb::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!text.empty()) return;
    text = StrCat("line ", line + 1, ", column ", column + 1, ": ", message);
  }
  void AddWarning(int, int, const std::string&) override {}
  std::string text;
};

Status NotAMessage(MessageKind kind) {
  return Status(
      Code::kDataLoss,
      StrCat("the bytes are no ",
             MakeMessage(kind)->GetTypeName().substr(std::string_view("hone.bundle.proto.").size()),
             " message, or a text in it is not UTF-8"));
}

}  // namespace

Result<std::string> MessageToText(MessageKind kind, ByteSpan bytes) {
  const auto message = MakeMessage(kind);
  if (!ParseBinary(*message, bytes)) return NotAMessage(kind);
  pb::TextFormat::Printer printer;
  printer.SetHideUnknownFields(true);
  printer.SetDefaultFieldValuePrinter(new FloatPrinter);  // the printer owns it
  std::string text;
  const pb::LogSilencer silence;
  if (!printer.PrintToString(*message, &text)) return NotAMessage(kind);
  return text;
}

Result<std::string> MessageFromText(MessageKind kind, std::string_view text) {
  if (text.size() > std::numeric_limits<int>::max()) {
    return Status(Code::kUnsupported, "the text is too long");
  }
  const pb::LogSilencer silence;
  const auto message = MakeMessage(kind);
  FirstError error;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMaxDepth);
  if (!parser.ParseFromString(std::string(text), message.get())) {
    return Status(Code::kDataLoss, error.text.empty() ? "no protobuf text" : error.text);
  }
  std::string out;
  // Wrong UTF-8 is written all the same, but nobody would read it.
  if (!message->SerializeToString(&out) || !IsBinaryMessage(kind, AsBytes(out))) {
    return Status(Code::kDataLoss, "the message cannot be encoded: a text in it is not UTF-8");
  }
  return out;
}

bool TextCarries(MessageKind kind, ByteSpan bytes, std::string_view text) {
  const auto again = MessageFromText(kind, text);
  return again.ok() && *again == AsText(bytes);
}

bool IsBinaryMessage(MessageKind kind, ByteSpan bytes) {
  return ParseBinary(*MakeMessage(kind), bytes);
}

Result<std::string> ApplyOverrides(ByteSpan llm_metadata, const LlmOverrides& overrides) {
  proto::LlmMetadata message;
  if (!ParseBinary(message, llm_metadata)) return NotAMessage(MessageKind::kLlmMetadata);
  if (overrides.min_runtime_version && !overrides.min_runtime_version->empty()) {
    message.set_min_runtime_version(*overrides.min_runtime_version);
  }
  if (overrides.supports_thinking) message.set_supports_thinking(*overrides.supports_thinking);
  if (overrides.supports_function_calling) {
    message.set_supports_function_calling(*overrides.supports_function_calling);
  }
  if (overrides.max_num_patches || overrides.pooling_kernel_size) {
    proto::LlmModelType& type = *message.mutable_llm_model_type();
    if (type.model_type_case() == proto::LlmModelType::MODEL_TYPE_NOT_SET) {
      type.mutable_generic_model();
    }
    const pb::FieldDescriptor* active =
        type.GetDescriptor()->FindFieldByNumber(static_cast<int>(type.model_type_case()));
    pb::Message* body = type.GetReflection()->MutableMessage(&type, active);
    const auto set = [&](const char* name, const std::optional<std::int32_t>& value) {
      const pb::FieldDescriptor* field = body->GetDescriptor()->FindFieldByName(name);
      if (value && field != nullptr) body->GetReflection()->SetInt32(body, field, *value);
    };
    set("max_num_patches", overrides.max_num_patches);
    set("pooling_kernel_size", overrides.pooling_kernel_size);
  }
  std::string out;
  const pb::LogSilencer silence;
  if (!message.SerializeToString(&out)) return NotAMessage(MessageKind::kLlmMetadata);
  return out;
}

}  // namespace hone::bundle
