// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/import_request.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "serve/http_text.h"
#include "serve/model_registry.h"
#include "serve/openai/field_reader.h"

namespace hone::serve {
namespace {

using openai::ApiError;
using openai::ApiResult;
using openai::ApiStatus;
using openai::InvalidField;

constexpr std::int64_t kMaxContext = 100'000'000;
constexpr std::size_t kMaxPathBytes = 4096;

ApiError NotAllowed(std::string message) {
  ApiError error = openai::Forbidden(std::move(message));
  error.code = "import_not_allowed";
  return error;
}

ApiResult<std::string> ReadPath(const Json* value) {
  if (value == nullptr) return openai::MissingField("path", "a path on the server's disk");
  if (!value->IsString()) {
    return InvalidField("path", StrCat("found ", value->TypeName(), ", expected a string"));
  }
  const std::string& path = value->AsString();
  const bool controls = std::any_of(path.begin(), path.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (!path.starts_with('/') || path.size() > kMaxPathBytes || controls) {
    return InvalidField("path", "expected the absolute path of a model, which begins with '/'");
  }
  std::error_code ignored;
  const bool named = path.ends_with(".litertlm") || path.ends_with(".gguf");
  if (!named && !std::filesystem::is_directory(path, ignored)) {
    return InvalidField("path", "expected a .litertlm bundle, a .gguf file or a checkpoint folder");
  }
  return path;
}

// Models run on the CPU; what else is asked for is said, or refused if nothing is left.
ApiStatus ReadAccelerators(const Json* value, std::vector<std::string>* warnings) {
  if (value == nullptr) return ApiStatus();
  if (!value->IsArray()) {
    return InvalidField("accelerators",
                        StrCat("found ", value->TypeName(), ", expected a list of cpu, gpu, npu"));
  }
  bool cpu = false;
  for (const Json& item : value->AsArray()) {
    const std::string name = item.IsString() ? item.AsString() : "";
    if (name != "cpu" && name != "gpu" && name != "npu") {
      return InvalidField("accelerators", "expected a list of cpu, gpu, npu");
    }
    cpu = cpu || name == "cpu";
    if (name != "cpu") {
      warnings->push_back(StrCat("the server runs models on the CPU, not on the ", name));
    }
  }
  if (cpu) return ApiStatus();
  return openai::UnsupportedField("accelerators",
                                  "the server runs models on the CPU, so the list needs cpu");
}

}  // namespace

bool IsLocalClient(const std::string& remote) {
  const auto authority = ParseAuthority(remote);
  return authority && authority->host != "localhost" && IsLoopbackName(authority->host);
}

ApiResult<ImportWish> CheckImport(const Request& request, bool allowed) {
  if (!allowed) {
    return NotAllowed("models cannot be imported; start the server with --allow-import");
  }
  if (!IsLocalClient(request.remote)) {
    return NotAllowed("models can be imported only from the machine of the server");
  }
  HONE_ASSIGN(const Json body, openai::ParseBody(request.body, {}));
  for (const auto& [key, value] : body.AsObject()) {
    if (key != "path" && key != "accelerators" && key != "context" && key != "thinking") {
      return openai::UnknownField(key);
    }
  }
  ImportWish wish;
  HONE_ASSIGN(wish.entry.path, ReadPath(body.FindNonNull("path")));
  HONE_TRY(ReadAccelerators(body.FindNonNull("accelerators"), &wish.warnings));
  if (const Json* context = body.FindNonNull("context")) {
    if (!context->IsInt() || context->AsInt() < 1 || context->AsInt() > kMaxContext) {
      return InvalidField("context", StrCat("expected a whole number from 1 to ", kMaxContext));
    }
    wish.entry.context = context->AsInt();
  }
  if (const Json* thinking = body.FindNonNull("thinking")) {
    if (!thinking->IsBool()) return InvalidField("thinking", "expected true or false");
    wish.entry.thinking = thinking->AsBool();
  }
  wish.entry.name = ModelNameOf(wish.entry.path);
  return wish;
}

}  // namespace hone::serve
