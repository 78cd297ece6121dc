// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/sequence_state.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/cpu_info.h"
#include "base/file.h"
#include "runtime/hash64.h"
#include "runtime/kv_cache.h"

namespace hone::runtime {
namespace {

constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kByteOrder = 0x01020304;
constexpr std::uint64_t kBlockAlignment = 4096;
constexpr std::string_view kMixedTarget = "mixed";

// As it lies in the file, little-endian.
struct Header {
  std::array<char, 8> magic{};
  std::uint32_t version = kVersion;
  std::uint32_t byte_order = kByteOrder;
  std::uint64_t model_hash = 0;
  std::uint32_t compute = 0;
  std::uint32_t kv_type = 0;
  std::uint32_t num_layers = 0;
  std::uint32_t num_kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t page_positions = 0;
  std::uint32_t layout = 0;
  std::uint32_t reserved = 0;
  std::uint64_t num_tokens = 0;
  std::uint64_t text_bytes = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t blocks_at = 0;
  std::uint64_t file_bytes = 0;
  std::array<char, 16> target{};  // of the kernels that wrote it, padded with zeros
  std::uint64_t blocks_hash = 0;
  std::uint64_t head_hash = 0;  // of all before it, then of tokens and text
};
static_assert(sizeof(Header) == 128 && std::is_trivially_copyable_v<Header>);
constexpr std::uint64_t kHashedHeader = sizeof(Header) - sizeof(Header::head_hash);

const char* ComputeName(std::uint64_t compute) {
  constexpr std::array kNames = {"f32", "q8"};
  return compute < kNames.size() ? kNames[compute] : "unknown";
}

const char* KvName(std::uint64_t type) {
  constexpr std::array kNames = {"f32", "f16", "int8"};
  return type < kNames.size() ? kNames[type] : "unknown";
}

std::string Hex(std::uint64_t value) {
  std::string text(16, '0');
  for (std::size_t i = 0; i < 16; ++i) text[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
  return text;
}

// The best instruction set that this machine may use.
std::string_view TargetName() {
  for (const CpuTarget target : {CpuTarget::kNeonI8mm, CpuTarget::kNeonDot, CpuTarget::kAvx512Vnni,
                                 CpuTarget::kAvxVnni, CpuTarget::kAvx2}) {
    if (CpuSupports(target)) return CpuTargetName(target);
  }
  return CpuTargetName(CpuTarget::kPortable);
}

std::uint64_t NumBlocks(std::uint64_t num_tokens) {
  constexpr auto kPage = static_cast<std::uint64_t>(kernels::kPagePositions);
  return num_tokens / kPage + (num_tokens % kPage != 0 ? 1 : 0);
}

void SetTarget(Header& header, std::string_view target) {
  header.target = {};
  std::memcpy(header.target.data(), target.data(), std::min(target.size(), header.target.size()));
}

std::string_view GetTarget(const Header& header) {
  const std::string_view all(header.target.data(), header.target.size());
  return all.substr(0, all.find('\0'));
}

Header MakeHeader(const StateFacts& facts, std::uint64_t num_tokens, std::uint64_t text_bytes) {
  Header header;
  std::memcpy(header.magic.data(), kStateMagic.data(), header.magic.size());
  header.model_hash = facts.model_hash;
  header.compute = static_cast<std::uint32_t>(facts.compute);
  header.kv_type = static_cast<std::uint32_t>(facts.kv_type);
  header.num_layers = static_cast<std::uint32_t>(facts.num_layers);
  header.num_kv_heads = static_cast<std::uint32_t>(facts.num_kv_heads);
  header.head_dim = static_cast<std::uint32_t>(facts.head_dim);
  header.page_positions = static_cast<std::uint32_t>(kernels::kPagePositions);
  header.layout = kernels::kKvLayoutVersion;
  header.num_tokens = num_tokens;
  header.text_bytes = text_bytes;
  header.block_bytes =
      KvCache::BlockBytes(facts.kv_type, facts.num_layers, facts.num_kv_heads, facts.head_dim);
  header.blocks_at =
      RoundUp(sizeof(Header) + num_tokens * sizeof(std::int32_t) + text_bytes, kBlockAlignment);
  header.file_bytes = header.blocks_at + NumBlocks(num_tokens) * header.block_bytes;
  SetTarget(header, TargetName());
  return header;
}

std::uint64_t HeadHash(const Header& header, ByteSpan tokens_and_text) {
  return Hash64(tokens_and_text, Hash64(std::as_bytes(std::span(&header, 1)).first(kHashedHeader)));
}

Status Damaged(std::string_view what) {
  return Status(Code::kDataLoss, StrCat("the saved conversation is damaged: ", what));
}

// Where things lie: the sizes agree with each other and with the file.
Status CheckSizes(const Header& header, std::uint64_t size) {
  if (header.file_bytes != size) {
    return Damaged(StrCat("found ", size, " bytes, expected ", header.file_bytes,
                          size < header.file_bytes ? "; it was cut" : ""));
  }
  const auto token_bytes = MulChecked(header.num_tokens, sizeof(std::int32_t));
  const auto head = token_bytes ? AddChecked(*token_bytes, header.text_bytes) : std::nullopt;
  const bool head_fits = head && *head <= size &&
                         header.blocks_at == RoundUp(*head + sizeof(Header), kBlockAlignment) &&
                         header.blocks_at <= size;
  const auto blocks = MulChecked(NumBlocks(header.num_tokens), header.block_bytes);
  if (!head_fits || header.num_tokens == 0 || !blocks || *blocks != size - header.blocks_at) {
    return Damaged(StrCat(header.num_tokens, " tokens, ", header.text_bytes,
                          " bytes of text and blocks of ", header.block_bytes, " bytes from byte ",
                          header.blocks_at, " on do not fill the file"));
  }
  return Status();
}

Status CheckFormat(const Header& header) {
  if (std::string_view(header.magic.data(), header.magic.size()) != kStateMagic) {
    return Status(Code::kInvalidArgument,
                  StrCat("is no saved conversation: it does not begin with ", kStateMagic));
  }
  if (header.byte_order != kByteOrder) {
    return Status(Code::kUnsupported,
                  "the saved conversation comes from a machine of another byte order");
  }
  if (header.version != kVersion) {
    return Status(Code::kUnsupported,
                  StrCat("the saved conversation has format version ", header.version,
                         ", expected ", kVersion, "; save it again with this Hone"));
  }
  return Status();
}

// One sentence about the first thing that differs.
Status CheckFacts(const Header& header, const StateFacts& facts) {
  const Header own = MakeHeader(facts, 1, 0);
  const auto differs = [](Code code, std::string_view what, const auto& found, const auto& expected,
                          std::string_view hint) {
    return Status(code, StrCat("the saved conversation has ", what, " ", found, ", expected ",
                               expected, hint));
  };
  if (header.layout != own.layout || header.page_positions != own.page_positions) {
    return differs(Code::kUnsupported, "page layout",
                   StrCat(header.layout, " (", header.page_positions, " positions)"),
                   StrCat(own.layout, " (", own.page_positions, " positions)"),
                   "; save it again with this Hone");
  }
  if (header.kv_type != own.kv_type) {
    return differs(Code::kInvalidArgument, "a key/value cache of type", KvName(header.kv_type),
                   KvName(own.kv_type), "; --kv chooses the type");
  }
  if (header.compute != own.compute) {
    return differs(Code::kInvalidArgument, "activations of type", ComputeName(header.compute),
                   ComputeName(own.compute), "; --compute chooses the type");
  }
  if (header.num_layers != own.num_layers || header.num_kv_heads != own.num_kv_heads ||
      header.head_dim != own.head_dim || header.block_bytes != own.block_bytes) {
    const auto shape = [](const Header& h) {
      return StrCat(h.num_layers, " layers of ", h.num_kv_heads, " heads of ", h.head_dim, " (",
                    h.block_bytes, " bytes a block)");
    };
    return differs(Code::kInvalidArgument, "another model's shape:", shape(header), shape(own), "");
  }
  if (header.model_hash != own.model_hash) {
    return differs(Code::kInvalidArgument, "model hash", Hex(header.model_hash),
                   Hex(own.model_hash), "; it belongs to other weights");
  }
  if (header.num_tokens > static_cast<std::uint64_t>(facts.max_positions)) {
    return Status(Code::kInvalidArgument,
                  StrCat("the saved conversation has ", header.num_tokens,
                         " tokens, but the context holds ", facts.max_positions));
  }
  return Status();
}

Result<std::vector<std::int32_t>> ReadTokens(ByteSpan bytes, std::int64_t vocab) {
  std::vector<std::int32_t> tokens(bytes.size() / sizeof(std::int32_t));
  std::memcpy(tokens.data(), bytes.data(), bytes.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab) continue;
    return Damaged(StrCat("token ", i, " is ", tokens[i], ", expected 0 to ", vocab - 1));
  }
  return tokens;
}

// A copy of the last block in which the positions from `used` on are as if nothing had been stored
// there: what a conversation took back must not leave with it.
Result<kernels::AlignedBuffer> CopyUsed(const StateFacts& facts, const KvBlock& block,
                                        std::uint64_t block_bytes, std::int64_t used) {
  kernels::AlignedBuffer copy = kernels::AllocateAligned(block_bytes);
  if (copy == nullptr) {
    return Status(Code::kOutOfMemory, StrCat("no memory for ", block_bytes, " bytes"));
  }
  std::memcpy(copy.get(), block.data(), static_cast<std::size_t>(block_bytes));
  const std::int64_t unused = kernels::kPagePositions - used;
  const std::vector<float> zeros(
      static_cast<std::size_t>(unused * facts.num_kv_heads * facts.head_dim));
  const std::uint64_t page_bytes =
      kernels::KvPageBytes(facts.kv_type, facts.num_kv_heads, facts.head_dim);
  void* page = copy.get();
  for (std::int64_t layer = 0; layer < facts.num_layers; ++layer) {
    for (const auto part : {kernels::KvPart::kKeys, kernels::KvPart::kValues}) {
      kernels::StoreKv(facts.kv_type, part, zeros.data(), unused, used, facts.num_kv_heads,
                       facts.head_dim, &page);
      page = static_cast<std::byte*>(page) + page_bytes;
    }
  }
  return copy;
}

std::string TargetNote(std::string_view found) {
  if (found == TargetName()) return "";
  return StrCat("the conversation was computed for ",
                found == kMixedTarget ? "several instruction sets" : found, ", this process runs ",
                TargetName(), "; the last digits of its numbers may differ");
}

// Of the pages of num_tokens tokens.
std::string_view TargetOf(const LoadedPart& loaded, std::size_t num_tokens) {
  if (loaded.positions == 0 || loaded.target == TargetName()) return TargetName();
  return static_cast<std::int64_t>(num_tokens) > loaded.positions ? kMixedTarget : loaded.target;
}

// What no hash covers, and what later versions may use.
Status CheckZeros(const Header& header, ByteSpan gap) {
  if (header.reserved != 0) {
    return Damaged(StrCat("its reserved field is ", header.reserved, ", expected 0"));
  }
  const auto wrong =
      std::find_if(gap.begin(), gap.end(), [](std::byte b) { return b != std::byte{}; });
  if (wrong == gap.end()) return Status();
  return Damaged(StrCat(
      "byte ", header.blocks_at - gap.size() + static_cast<std::uint64_t>(wrong - gap.begin()),
      " before its pages is ", std::to_integer<int>(*wrong), ", expected 0"));
}

}  // namespace

Status WriteSequenceState(const std::string& path, const StateFacts& facts,
                          std::span<const std::int32_t> tokens, std::string_view text,
                          std::span<const std::shared_ptr<KvBlock>> blocks,
                          const LoadedPart& loaded) {
  if (tokens.empty()) {
    return Status(Code::kInvalidArgument, StrCat(path, ": nothing to save: there are no tokens"));
  }
  Header header = MakeHeader(facts, tokens.size(), text.size());
  SetTarget(header, TargetOf(loaded, tokens.size()));
  HONE_ASSIGN(auto file, AtomicFile::Create(path));
  std::vector<std::byte> head(tokens.size_bytes() + text.size());
  std::memcpy(head.data(), tokens.data(), tokens.size_bytes());
  std::copy_n(AsBytes(text).begin(), text.size(), head.data() + tokens.size_bytes());
  HONE_TRY(file->AppendZeros(sizeof(Header)));
  HONE_TRY(file->Append(head));
  HONE_TRY(file->AppendZeros(header.blocks_at - file->size()));
  const auto used = static_cast<std::int64_t>(tokens.size()) % kernels::kPagePositions;
  kernels::AlignedBuffer last;
  const auto num_blocks = static_cast<std::size_t>(NumBlocks(tokens.size()));
  for (std::size_t i = 0; i < num_blocks; ++i) {
    const std::byte* data = blocks[i]->data();
    if (i + 1 == num_blocks && used > 0) {
      HONE_ASSIGN(last, CopyUsed(facts, *blocks[i], header.block_bytes, used));
      data = last.get();
    }
    const ByteSpan bytes(data, static_cast<std::size_t>(header.block_bytes));
    header.blocks_hash = Hash64(bytes, header.blocks_hash);
    HONE_TRY(file->Append(bytes));
  }
  header.head_hash = HeadHash(header, head);
  HONE_TRY(file->WriteAt(0, std::as_bytes(std::span(&header, 1))));
  return file->Commit();
}

Result<SequenceState> ParseSequenceState(ByteSpan bytes, std::shared_ptr<const void> owner,
                                         const StateFacts& facts) {
  Header header;
  if (bytes.size() >= sizeof(Header)) {
    std::memcpy(&header, bytes.data(), sizeof(Header));
  } else if (AsText(bytes).starts_with(kStateMagic)) {
    return Damaged(StrCat("found ", bytes.size(), " bytes, expected at least ", sizeof(Header)));
  }
  HONE_TRY(CheckFormat(header));
  HONE_TRY(CheckSizes(header, bytes.size()));
  const auto token_bytes = static_cast<std::size_t>(header.num_tokens) * sizeof(std::int32_t);
  const ByteSpan head =
      bytes.subspan(sizeof(Header), token_bytes + static_cast<std::size_t>(header.text_bytes));
  if (const std::uint64_t hash = HeadHash(header, head); hash != header.head_hash) {
    return Damaged(
        StrCat("its head has the hash ", Hex(hash), ", expected ", Hex(header.head_hash)));
  }
  const std::size_t head_end = sizeof(Header) + head.size();
  HONE_TRY(CheckZeros(
      header, bytes.subspan(head_end, static_cast<std::size_t>(header.blocks_at) - head_end)));
  HONE_TRY(CheckFacts(header, facts));

  SequenceState state;
  HONE_ASSIGN(state.tokens, ReadTokens(head.first(token_bytes), facts.vocab));
  state.text = AsText(head.subspan(token_bytes));
  std::uint64_t hash = 0;
  for (std::uint64_t at = header.blocks_at; at < bytes.size(); at += header.block_bytes) {
    const ByteSpan block =
        bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(header.block_bytes));
    hash = Hash64(block, hash);
    state.blocks.push_back(std::make_shared<KvBlock>(block, owner));
  }
  if (hash != header.blocks_hash) {
    return Damaged(
        StrCat("its pages have the hash ", Hex(hash), ", expected ", Hex(header.blocks_hash)));
  }
  state.target = GetTarget(header);
  state.note = TargetNote(state.target);
  return state;
}

Result<SequenceState> OpenSequenceState(const std::string& path, const StateFacts& facts) {
  HONE_ASSIGN(MappedFile opened, MappedFile::Open(path));
  const auto map = std::make_shared<const MappedFile>(std::move(opened));
  PrefetchPages(map->bytes());
  auto state = ParseSequenceState(map->bytes(), map, facts);
  if (!state.ok()) return std::move(state).status().Context(path);
  return state;
}

}  // namespace hone::runtime
