// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/repair.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <utility>

#include "base/file.h"
#include "bridge/sha256.h"
#include "bundle/printable.h"
#include "bundle/repair_graph.h"
#include "bundle/repair_scales.h"
#include "formats/litertlm/litertlm.h"
#include "formats/tflite/tflite.h"

namespace hone::bundle {
namespace {

namespace litertlm = formats::litertlm;
namespace tflite = formats::tflite;
using litertlm::Section;
using litertlm::SectionType;
using Sink = std::function<Status(ByteSpan)>;

constexpr std::size_t kPart = std::size_t{4} << 20;

// The bytes of a file with some of them changed.
class Overlay {
 public:
  Overlay(ByteSpan file, std::vector<Patch> patches) : file_(file), patches_(std::move(patches)) {
    std::sort(patches_.begin(), patches_.end(),
              [](const Patch& a, const Patch& b) { return a.offset < b.offset; });
  }

  const std::vector<Patch>& patches() const { return patches_; }

  std::uint64_t CountChanged() const {
    std::uint64_t changed = 0;
    for (const Patch& patch : patches_) {
      for (std::size_t i = 0; i < patch.bytes.size(); ++i) {
        changed += patch.bytes[i] != file_[patch.offset + i] ? 1U : 0U;
      }
    }
    return changed;
  }

  // Hands span to sink, changed where it is a part of the file that a patch touches.
  Status Emit(ByteSpan span, const Sink& sink) const {
    const bool inside =
        span.data() >= file_.data() && span.data() + span.size() <= file_.data() + file_.size();
    if (!inside) return sink(span);
    std::vector<std::byte> copy;
    for (std::size_t at = 0; at < span.size(); at += kPart) {
      const ByteSpan part = span.subspan(at, std::min(kPart, span.size() - at));
      const auto begin = static_cast<std::uint64_t>(part.data() - file_.data());
      if (!Touches(begin, part.size())) {
        HONE_TRY(sink(part));
        continue;
      }
      copy.assign(part.begin(), part.end());
      Apply(begin, copy);
      HONE_TRY(sink(copy));
    }
    return {};
  }

 private:
  // The first patch that ends after offset. Patches are short, and do not overlap.
  std::vector<Patch>::const_iterator FirstAfter(std::uint64_t offset) const {
    return std::partition_point(patches_.begin(), patches_.end(), [offset](const Patch& patch) {
      return patch.offset + patch.bytes.size() <= offset;
    });
  }
  bool Touches(std::uint64_t begin, std::uint64_t size) const {
    const auto patch = FirstAfter(begin);
    return patch != patches_.end() && patch->offset < begin + size;
  }
  void Apply(std::uint64_t begin, std::vector<std::byte>& bytes) const {
    for (auto patch = FirstAfter(begin); patch != patches_.end(); ++patch) {
      if (patch->offset >= begin + bytes.size()) break;
      for (std::size_t i = 0; i < patch->bytes.size(); ++i) {
        const std::uint64_t at = patch->offset + i;
        if (at >= begin && at < begin + bytes.size()) {
          bytes[static_cast<std::size_t>(at - begin)] = patch->bytes[i];
        }
      }
    }
  }

  ByteSpan file_;
  std::vector<Patch> patches_;
};

class Repairer {
 public:
  Repairer(std::shared_ptr<const litertlm::Bundle> bundle, const RepairOptions& options)
      : bundle_(std::move(bundle)), options_(options), file_(bundle_->map().bytes()) {}

  Result<RepairReport> Run(const std::string& out) {
    HONE_TRY(Plan());
    HONE_ASSIGN(report_.sha256_before, HashOf(file_, nullptr));
    if (!report_.changed()) {
      report_.sha256_after = report_.sha256_before;
      return std::move(report_);
    }
    const Overlay scales(file_, patches_);
    HONE_TRY(PatchHoneJson(scales));
    const Overlay overlay(file_, patches_);
    report_.bytes_changed = overlay.CountChanged();
    report_.tables_rewritten = !rewritten_.empty();
    if (options_.dry_run) return std::move(report_);
    if (report_.tables_rewritten) {
      HONE_TRY(WriteSections(overlay, out));
    } else {
      HONE_TRY(WriteCopy(overlay, out));
    }
    return std::move(report_);
  }

 private:
  struct Rewritten {
    std::size_t section = 0;
    RewrittenModel model;
  };
  struct Digest {
    std::size_t section = 0;
    std::string before, after;
    std::uint64_t bytes = 0;
  };

  bool IsCancelled() const {
    return options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed);
  }

  // Finds everything that is to change, and proves the graphs.
  Status Plan() {
    const auto& sections = bundle_->header().sections;
    for (std::size_t i = 0; i < sections.size(); ++i) {
      if (sections[i].type != SectionType::kTfliteModel) continue;
      const std::string label = StrCat("section ", i);
      auto model = tflite::ReadModel(bundle_->SectionBytes(sections[i]));
      if (!model.ok()) return std::move(model).status().Context(label);
      if (options_.scales) HONE_TRY(PlanScales(*model, file_, label, patches_, report_));
      if (!options_.npu_mask && !options_.unused_cache_inputs) continue;
      const std::uint64_t before = report_.masks_changed + report_.inputs_removed;
      RewrittenModel rewritten = RewriteGraph(*model, options_, report_);
      if (report_.masks_changed + report_.inputs_removed == before) continue;
      HONE_TRY(ProveEqual(*model, rewritten.model, options_, report_).Context(label));
      rewritten_.push_back({i, std::move(rewritten)});
    }
    return {};
  }

  const RewrittenModel* FindRewritten(std::size_t section) const {
    for (const Rewritten& entry : rewritten_) {
      if (entry.section == section) return &entry.model;
    }
    return nullptr;
  }

  Status EmitSection(std::size_t index, const Overlay& overlay, const Sink& sink) const {
    if (const RewrittenModel* rewritten = FindRewritten(index)) {
      return StreamModel(rewritten->model,
                         [&](ByteSpan bytes) { return overlay.Emit(bytes, sink); });
    }
    return overlay.Emit(bundle_->SectionBytes(bundle_->header().sections[index]), sink);
  }

  Result<std::string> HashOf(ByteSpan bytes, const Overlay* overlay) const {
    bridge::Sha256 hash;
    const Overlay none(file_, {});
    HONE_TRY((overlay ? overlay : &none)->Emit(bytes, [&](ByteSpan part) {
      if (IsCancelled()) return Status(Code::kCancelled, "cancelled");
      hash.Update(part);
      return Status();
    }));
    return hash.FinishHex();
  }

  // The digests of the sections that change, as they were and as they will be.
  Result<std::vector<Digest>> ChangedDigests(const Overlay& scales) const {
    std::vector<Digest> out;
    const auto& sections = bundle_->header().sections;
    for (std::size_t i = 0; i < sections.size(); ++i) {
      if (sections[i].type != SectionType::kTfliteModel) continue;
      const bool patched =
          std::any_of(scales.patches().begin(), scales.patches().end(), [&](const Patch& patch) {
            return patch.offset >= sections[i].begin && patch.offset < sections[i].end;
          });
      if (!patched && !FindRewritten(i)) continue;
      Digest digest;
      digest.section = i;
      HONE_ASSIGN(digest.before, HashOf(bundle_->SectionBytes(sections[i]), nullptr));
      bridge::Sha256 hash;
      HONE_TRY(EmitSection(i, scales, [&](ByteSpan part) {
        digest.bytes += part.size();
        hash.Update(part);
        return IsCancelled() ? Status(Code::kCancelled, "cancelled") : Status();
      }));
      digest.after = hash.FinishHex();
      out.push_back(std::move(digest));
    }
    return out;
  }

  // hone.json lists the hashes of the sections: those that change are changed there. Their length
  // stays, so that nothing moves; of rewritten tables the size changes too, and the whole text.
  Status PatchHoneJson(const Overlay& scales) {
    const Section* hone = nullptr;
    for (const Section& section : bundle_->header().sections) {
      if (section.type == SectionType::kGenericBinaryData && section.Item("name") == "hone.json") {
        hone = &section;
      }
    }
    if (hone == nullptr) return {};
    HONE_ASSIGN(const std::vector<Digest> digests, ChangedDigests(scales));
    const std::string_view text = AsText(bundle_->SectionBytes(*hone));
    hone_json_ = std::string(text);
    for (const Digest& digest : digests) {
      const std::size_t at = text.find(digest.before);
      if (at == std::string_view::npos) {
        report_.notes.push_back(StrCat("hone.json does not have the hash of section ",
                                       digest.section, "; it is left as it is"));
        continue;
      }
      Patch patch{hone->begin + at, {}};
      const ByteSpan bytes = AsBytes(digest.after);
      patch.bytes.assign(bytes.begin(), bytes.end());
      patches_.push_back(std::move(patch));
      hone_json_->replace(at, digest.after.size(), digest.after);
    }
    if (!rewritten_.empty()) HONE_TRY(SetSizes(digests));
    report_.notes.push_back("the hashes in hone.json are those of the repaired sections");
    return {};
  }

  Status SetSizes(const std::vector<Digest>& digests) {
    HONE_ASSIGN(Json json, ParseJson(*hone_json_));
    const Json* list = json.Find("sections");
    if (list == nullptr || !list->IsArray()) return {};
    Json::Array entries = list->AsArray();
    for (Json& entry : entries) {
      const Json* sha = entry.Find("sha256");
      for (const Digest& digest : digests) {
        if (sha && sha->IsString() && sha->AsString() == digest.after) {
          entry.Set("bytes", digest.bytes);
          break;
        }
      }
    }
    json.Set("sections", Json(std::move(entries)));
    hone_json_ = json.Dump(1) + "\n";
    return {};
  }

  // The same file with a few bytes changed.
  Status WriteCopy(const Overlay& overlay, const std::string& out) {
    HONE_ASSIGN(const auto file, AtomicFile::Create(out));
    bridge::Sha256 hash;
    HONE_TRY(overlay.Emit(file_, [&](ByteSpan part) {
      if (IsCancelled()) return Status(Code::kCancelled, "cancelled");
      hash.Update(part);
      return file->Append(part);
    }));
    HONE_TRY(file->Commit());
    report_.sha256_after = hash.FinishHex();
    return {};
  }

  // All sections one after the other under a new header.
  Status WriteSections(const Overlay& overlay, const std::string& out) {
    HONE_ASSIGN(const auto file, AtomicFile::Create(out));
    HONE_TRY(file->AppendZeros(litertlm::kSectionAlignment));
    litertlm::Header header = bundle_->header();
    for (std::size_t i = 0; i < header.sections.size(); ++i) {
      Section& section = header.sections[i];
      section.begin = RoundUp(file->size(), litertlm::kSectionAlignment);
      HONE_TRY(file->AppendZeros(section.begin - file->size()));
      const bool is_hone = hone_json_ && section.type == SectionType::kGenericBinaryData &&
                           section.Item("name") == "hone.json";
      const Sink append = [&](ByteSpan part) {
        if (IsCancelled()) return Status(Code::kCancelled, "cancelled");
        return file->Append(part);
      };
      if (is_hone) {
        HONE_TRY(append(AsBytes(*hone_json_)));
      } else {
        HONE_TRY(EmitSection(i, overlay, append));
      }
      section.end = file->size();
    }
    HONE_ASSIGN(const std::vector<std::byte> head, litertlm::EncodeHeader(header));
    HONE_TRY(file->WriteAt(0, head));
    HONE_TRY(HashFile(*file));
    return file->Commit();
  }

  Status HashFile(AtomicFile& file) {
    bridge::Sha256 hash;
    std::vector<std::byte> part(kPart);
    for (std::uint64_t at = 0; at < file.size(); at += part.size()) {
      const std::span<std::byte> room(part.data(), static_cast<std::size_t>(std::min<std::uint64_t>(
                                                       part.size(), file.size() - at)));
      HONE_TRY(file.ReadAt(at, room));
      hash.Update(room);
    }
    report_.sha256_after = hash.FinishHex();
    return {};
  }

  std::shared_ptr<const litertlm::Bundle> bundle_;
  const RepairOptions& options_;
  ByteSpan file_;
  RepairReport report_;
  std::vector<Patch> patches_;
  std::vector<Rewritten> rewritten_;
  std::optional<std::string> hone_json_;
};

std::string Float(float value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", static_cast<double>(value));
  return text;
}

}  // namespace

Result<RepairReport> RepairBundle(const std::string& in, const std::string& out,
                                  const RepairOptions& options) {
  HONE_ASSIGN(auto bundle, litertlm::Bundle::Open(in));
  auto report = Repairer(std::move(bundle), options).Run(out);
  if (!report.ok()) return std::move(report).status().Context(in);
  return report;
}

Json RepairJson(const RepairReport& report) {
  Json out(Json::Object{});
  out.Set("changed", report.changed());
  out.Set("scales_changed", report.scales_changed);
  out.Set("masks_changed", report.masks_changed);
  out.Set("inputs_removed", report.inputs_removed);
  out.Set("bytes_changed", report.bytes_changed);
  out.Set("tables_rewritten", report.tables_rewritten);
  out.Set("sha256_before", report.sha256_before);
  out.Set("sha256_after", report.sha256_after);
  Json::Array tensors, proofs, notes;
  for (const RepairedTensor& tensor : report.tensors) {
    tensors.push_back(Json(Json::Object{{"tensor", tensor.where},
                                        {"zero", tensor.zero},
                                        {"subnormal", tensor.subnormal},
                                        {"scale", static_cast<double>(tensor.scale)},
                                        {"recoded_blocks", tensor.recoded_blocks}}));
  }
  for (const std::string& proof : report.proofs) proofs.emplace_back(proof);
  for (const std::string& note : report.notes) notes.emplace_back(note);
  out.Set("tensors", Json(std::move(tensors)));
  out.Set("proofs", Json(std::move(proofs)));
  out.Set("notes", Json(std::move(notes)));
  return out;
}

std::string RepairText(const RepairReport& report) {
  std::string out;
  for (const RepairedTensor& tensor : report.tensors) {
    out += StrCat("scales  ", Printable(tensor.where), ": ", tensor.zero, " zero and ",
                  tensor.subnormal, " subnormal became ", Float(tensor.scale));
    if (tensor.recoded_blocks > 0) out += StrCat("; codes of ", tensor.recoded_blocks, " blocks");
    out += "\n";
  }
  if (report.masks_changed > 0) {
    out += StrCat("masks   ", report.masks_changed, " additions take the mask itself\n");
  }
  if (report.inputs_removed > 0) {
    out += StrCat("inputs  ", report.inputs_removed, " unused cache inputs are gone\n");
  }
  for (const std::string& proof : report.proofs) out += StrCat("proof   ", proof, "\n");
  for (const std::string& note : report.notes) out += StrCat("note    ", note, "\n");
  out += StrCat("before  sha256 ", report.sha256_before, "\n");
  if (!report.changed()) return out + "nothing to repair; nothing was written\n";
  if (report.sha256_after.empty()) {
    out += "after   (dry run: nothing was written)\n";
  } else {
    out += StrCat("after   sha256 ", report.sha256_after, "\n");
  }
  if (report.tables_rewritten) {
    out += "the tables of the model were written anew, weights are as they were";
    if (report.scales_changed > 0) out += StrCat(" but for ", report.scales_changed, " scales");
    return out + "\n";
  }
  return out + StrCat(report.scales_changed, " scales, ", report.bytes_changed,
                      " bytes changed; every other byte is as it was\n");
}

}  // namespace hone::bundle
