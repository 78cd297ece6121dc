// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The container: is it a bundle, is it whole, are its sections where they should be.
#include <algorithm>
#include <map>

#include "base/text.h"
#include "bundle/check_groups.h"
#include "formats/foreign_file.h"

namespace hone::bundle {
namespace {

namespace litertlm = formats::litertlm;
using litertlm::Section;
using litertlm::SectionType;

constexpr std::string_view kMagic = "LITERTLM";
constexpr std::uint64_t kHeaderBegin = 32;
constexpr std::uint64_t kTwoGib = std::uint64_t{1} << 31;

std::string SectionText(std::size_t index, const Section& section) {
  return StrCat("section ", index, " (", litertlm::SectionTypeName(section.type), ")");
}

// What a file without the magic is.
void AddStranger(const Subject& subject, Findings& out) {
  const std::string_view text = AsText(subject.bytes);
  const std::string foreign = formats::DescribeForeignFile(subject.bytes);
  if (kMagic.starts_with(text)) {
    out.Add("truncated", StrCat("the file has ", text.size(),
                                " bytes; a header alone needs more "
                                "than 32"));
  } else if (text.starts_with("version https://git-lfs")) {
    out.Add("lfs-pointer", foreign.empty() ? "the file is a Git LFS pointer" : foreign);
  } else if (!foreign.empty() && foreign.find("web page") != std::string::npos) {
    out.Add("web-page", foreign);
  } else {
    out.Add("not-a-bundle", subject.header_error);
  }
}

void CheckPlaces(const Subject& subject, Findings& out) {
  const std::uint64_t size = subject.bytes.size();
  const auto& sections = subject.header->sections;
  std::uint64_t end = 0;
  for (const Section& section : sections) end = std::max(end, section.end);
  bool ranges = true;
  std::uint64_t previous_end = subject.header_end;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const Section& section = sections[i];
    const std::string text = SectionText(i, section);
    if (section.begin > section.end) {
      ranges = false;
      out.Add("section-range",
              StrCat(text, " begins at ", section.begin, " but ends at ", section.end));
      continue;
    }
    if (section.begin < previous_end) {
      out.Add("section-overlap",
              StrCat(text, " begins at ", section.begin, ", inside what ends at ", previous_end));
    }
    previous_end = std::max(previous_end, section.end);
    if (section.begin % litertlm::kSectionAlignment != 0) {
      out.Add("section-unaligned", StrCat(text, " begins at ", section.begin,
                                          ", not at a multiple of ", litertlm::kSectionAlignment));
    }
    if (section.begin == section.end) out.Add("section-empty", StrCat(text, " has no bytes"));
    if (section.end - section.begin > kTwoGib) {
      out.Add("section-over-2gib",
              StrCat(text, " has ", section.end - section.begin, " bytes, over ", kTwoGib));
    }
  }
  if (ranges && end > size) {
    out.Add("truncated", StrCat("the sections end at ", end, ", but the file has ", size,
                                " bytes: ", end - size, " are missing"));
  }
}

void CheckKinds(const Subject& subject, Findings& out) {
  std::map<std::pair<SectionType, std::string>, std::size_t> first;
  const auto& sections = subject.header->sections;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const Section& section = sections[i];
    if (litertlm::SectionTypeName(section.type).starts_with("section type")) {
      out.Add("section-unknown", StrCat("section ", i, " has the type number ",
                                        static_cast<int>(section.type), ", which is unknown"));
    }
    if (section.type == SectionType::kGenericBinaryData) continue;
    const std::string type = LowerCase(section.Item("model_type"));
    const auto [same, is_new] = first.try_emplace({section.type, type}, i);
    if (!is_new) {
      out.Add("section-duplicate", StrCat(SectionText(i, section), " repeats section ",
                                          same->second, "; the first is used"));
    }
  }
  if (first.contains({SectionType::kSpTokenizer, ""}) &&
      first.contains({SectionType::kHfTokenizerZlib, ""})) {
    out.Add("tokenizer-two", "there is an SP_Tokenizer and a HF_Tokenizer_Zlib section");
  }
}

void CheckTokenizer(const Subject& subject, Findings& out) {
  const bool hf = subject.bundle->Find(SectionType::kHfTokenizerZlib) != nullptr;
  const bool sp = subject.bundle->Find(SectionType::kSpTokenizer) != nullptr;
  if (!hf && !sp) {
    out.Add("tokenizer-missing", "there is no HF_Tokenizer_Zlib and no SP_Tokenizer section");
  } else if (subject.tokenizer_size_lies) {
    out.Add("tokenizer-size", subject.tokenizer_error);
  } else if (!subject.tokenizer_error.empty()) {
    out.Add(subject.tokenizer_code == Code::kUnsupported ? "tokenizer-unsupported"
                                                         : "tokenizer-damaged",
            subject.tokenizer_error);
  } else if (!hf) {
    out.Add("tokenizer-unsupported", "the tokenizer is SentencePiece");
  }
}

void CheckSignatures(const Subject& subject, Findings& out) {
  if (subject.facts.prefill.empty()) {
    out.Add("signature-missing", "no signature's name begins with 'prefill'");
  }
  if (!subject.facts.decode) {
    out.Add("signature-missing", "there is no signature 'decode'");
    return;
  }
  if (subject.facts.vocab == 0) {
    out.Add("signature-missing", "the signature 'decode' has no output 'logits'");
  }
  if (subject.facts.takes_embeddings && subject.embedder == nullptr) {
    out.Add("embedder-missing", StrCat("the decoder takes embeddings of ", subject.facts.hidden,
                                       " values, and there is no tf_lite_embedder section"));
  }
}

}  // namespace

void CheckHeader(const Subject& subject, Findings& out) {
  if (!AsText(subject.bytes).starts_with(kMagic)) return AddStranger(subject, out);
  if (subject.bytes.size() < kHeaderBegin) {
    return out.Add("truncated", StrCat("the file has ", subject.bytes.size(),
                                       " bytes; a header alone needs more than ", kHeaderBegin));
  }
  const auto major = *ReadLe<std::uint32_t>(subject.bytes, 8);
  const auto minor = *ReadLe<std::uint32_t>(subject.bytes, 12);
  const auto end = *ReadLe<std::uint64_t>(subject.bytes, 24);
  if (major != 1) {
    return out.Add("version-major",
                   StrCat("the version is ", major, ".", minor, ", 1 is expected"));
  }
  if (minor > 7) out.Add("version-minor", StrCat("the version is 1.", minor, ", 1.7 is known"));
  if (end <= kHeaderBegin || end > subject.bytes.size()) {
    return out.Add("header-end",
                   StrCat("the header ends at ", end, "; expected more than 32 and at ", "most ",
                          subject.bytes.size(), ", the size of the file"));
  }
  if (!subject.header) return out.Add("header-damaged", subject.header_error);
  if (end > litertlm::kSectionAlignment) {
    out.Add("header-size",
            StrCat("the header ends at ", end, ", over ", litertlm::kSectionAlignment));
  }
  CheckPlaces(subject, out);
  CheckKinds(subject, out);
}

void CheckSections(const Subject& subject, Findings& out) {
  if (!subject.bundle) return;
  if (subject.bundle->Find(SectionType::kLlmMetadata) == nullptr) {
    out.Add("metadata-missing", "there is no LlmMetadataProto section");
  }
  if (!subject.llm_error.empty())
    out.Add("metadata-damaged", "LlmMetadataProto: " + subject.llm_error);
  if (!subject.executor_error.empty()) {
    out.Add("metadata-damaged", "ExecutorMetadataProto: " + subject.executor_error);
  }
  if (!subject.hone_error.empty()) out.Add("metadata-damaged", "hone.json: " + subject.hone_error);
  CheckTokenizer(subject, out);
  for (const ModelSection& entry : subject.models) {
    if (entry.model) continue;
    const std::string what =
        StrCat("section ", entry.index, " (", entry.model_type, "): ", entry.error);
    if (entry.bytes.size() > kTwoGib && entry.code == Code::kDataLoss) {
      out.Add("flatbuffer-over-2gib",
              StrCat(what, "; the section has ", entry.bytes.size(), " bytes"));
    } else if (entry.code == Code::kUnsupported) {
      out.Add("model-unsupported", what);
    } else {
      out.Add("model-damaged", what);
    }
  }
  if (subject.decoder == nullptr) {
    out.Add("decoder-missing",
            "there is no TFLiteModel section with model_type "
            "tf_lite_prefill_decode");
  } else if (subject.decoder->model) {
    CheckSignatures(subject, out);
  }
}

}  // namespace hone::bundle
