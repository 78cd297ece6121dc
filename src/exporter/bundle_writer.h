// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Writes a .litertlm section by section and its header last. Reproducible: nothing but the bytes of
// the sections and their items decides the file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/span_util.h"
#include "base/status.h"
#include "bridge/sha256.h"
#include "formats/litertlm/litertlm.h"

namespace hone::exporter {

struct SectionDigest {
  std::string name;  // "TFLiteModel tf_lite_embedder"
  std::uint64_t bytes = 0;
  std::string sha256;
};

class BundleWriter {
 public:
  // Nothing appears at path before Finish.
  static Result<BundleWriter> Create(const std::string& path);

  // Sections follow each other; a section ends where the next begins.
  Status Begin(formats::litertlm::SectionType type,
               std::vector<formats::litertlm::KeyValue> items = {});
  Status Append(ByteSpan bytes);
  void End();

  // Of the sections ended so far.
  const std::vector<SectionDigest>& digests() const { return digests_; }

  struct Finished {
    std::uint64_t bytes = 0;
    std::string sha256;  // of the whole file
  };
  // Writes the header, whose uuid comes from the sections' digests, and puts the file in place.
  Result<Finished> Finish();
  // The uuid that Finish() writes, from the digests of the sections so far.
  std::string ContentUuid() const;
  // The same with the caller's system metadata.
  Result<Finished> Finish(std::vector<formats::litertlm::KeyValue> system);

 private:
  BundleWriter() = default;
  std::unique_ptr<AtomicFile> file_;
  formats::litertlm::Header header_;
  std::optional<bridge::Sha256> hash_;  // of the open section
  std::vector<SectionDigest> digests_;
};

// A uuid of version 8 (a free form that is no random number and no time) from the first 16 bytes
// of a digest in hexadecimal: the same digest gives the same uuid.
std::string UuidFromDigest(const std::string& hex);

}  // namespace hone::exporter
