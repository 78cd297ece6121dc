// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone check on bundles with one damaged part. The first byte chooses the part that the rest of the
// input is: the whole file, the metadata, the tokenizer, hone.json or the decoder's graph.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "bundle/check.h"
#include "formats/litertlm/litertlm.h"
#include "formats/litertlm/llm_metadata.h"

namespace {

namespace litertlm = hone::formats::litertlm;
using litertlm::SectionType;

constexpr const char* kTokenizer =
    R"({"version":"1.0","added_tokens":[{"id":1,"content":"<end>","special":true,"single_word":false,)"
    R"("lstrip":false,"rstrip":false,"normalized":false}],"normalizer":null,"pre_tokenizer":)"
    R"({"type":"WhitespaceSplit"},"post_processor":null,"decoder":null,"model":{"type":"WordLevel",)"
    R"("vocab":{"a":0,"<end>":1,"b":2},"unk_token":"a"}})";

std::string Metadata() {
  litertlm::LlmMetadata metadata;
  metadata.stop_tokens.emplace_back().ids = {1};
  metadata.model_type = "generic_model";
  metadata.jinja_prompt_template = "{% for m in messages %}{{ m.content }}<end>{% endfor %}";
  return litertlm::EncodeLlmMetadata(metadata);
}

std::vector<std::byte> Bundle(int part, const std::string& input) {
  std::vector<std::pair<litertlm::Section, std::string>> parts;
  const auto add = [&](SectionType type, const char* key, const char* value, std::string content) {
    litertlm::Section section;
    section.type = type;
    if (*key != '\0') section.items = {{.key = key, .value = value}};
    parts.emplace_back(std::move(section), std::move(content));
  };
  add(SectionType::kLlmMetadata, "", "", part == 1 ? input : Metadata());
  const auto tokenizer = litertlm::DeflateTokenizer(part == 2 ? input : kTokenizer);
  add(SectionType::kHfTokenizerZlib, "", "", std::string(hone::AsText(tokenizer)));
  add(SectionType::kGenericBinaryData, "name", "hone.json", part == 3 ? input : "{}");
  add(SectionType::kTfliteModel, "backend_constraint", "cpu,gpu,npu", part == 4 ? input : "");
  litertlm::Header header;
  std::uint64_t end = 0;
  for (auto& [section, content] : parts) {
    section.begin = hone::RoundUp(end + 1, litertlm::kSectionAlignment);
    end = section.end = section.begin + content.size();
    header.sections.push_back(section);
  }
  const auto head = litertlm::EncodeHeader(header);
  if (!head.ok()) std::abort();
  std::vector<std::byte> bytes = *head;
  bytes.resize(end);
  for (const auto& [section, content] : parts) {
    const auto from = hone::AsBytes(content);
    std::copy(from.begin(), from.end(), bytes.begin() + static_cast<std::ptrdiff_t>(section.begin));
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const int part = data[0] % 5;
  std::vector<std::byte> bytes;
  if (part == 0) {
    const auto from = hone::AsBytes(input);
    bytes.assign(from.begin(), from.end());
  } else {
    bytes = Bundle(part, input);
  }
  static const int file = ::memfd_create("bundle", 0);
  if (file < 0 || ::ftruncate(file, 0) != 0) std::abort();
  if (::pwrite(file, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    std::abort();
  }
  hone::bundle::CheckOptions options;
  options.num_threads = 1;
  const auto report = hone::bundle::CheckBundle("/proc/self/fd/" + std::to_string(file), options);
  if (!report.ok()) return 0;
  if (hone::bundle::CheckText(*report).empty()) std::abort();
  return 0;
}
