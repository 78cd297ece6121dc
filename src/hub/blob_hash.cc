// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "hub/blob_hash.h"

#include "base/file.h"
#include "hub/repo.h"

namespace hone::hub {

BlobHash::BlobHash(const std::string& etag, std::uint64_t size) {
  if (IsHex(etag, 64)) sha256_.emplace();
  if (!IsHex(etag, 40)) return;
  sha1_.emplace();
  const std::string header = StrCat("blob ", size);  // as git does it, with the zero
  sha1_->Update(AsBytes(std::string_view(header.c_str(), header.size() + 1)));
}

void BlobHash::Update(ByteSpan bytes) {
  if (sha256_) sha256_->Update(bytes);
  if (sha1_) sha1_->Update(bytes);
}

std::string BlobHash::Finish() {
  if (sha256_) return sha256_->FinishHex();
  return sha1_ ? sha1_->FinishHex() : "";
}

Result<bool> FileHasEtag(const std::string& path, const std::string& etag, std::uint64_t size) {
  HONE_ASSIGN(const MappedFile file, MappedFile::Open(path));
  if (file.bytes().size() != size) return false;
  BlobHash hash(etag, size);
  hash.Update(file.bytes());
  return hash.Finish() == etag;
}

}  // namespace hone::hub
