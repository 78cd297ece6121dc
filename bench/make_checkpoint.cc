// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Writes a random Llama checkpoint of a given shape: bf16, sharded, with a tokenizer and a chat
// template. The same shape and seed give the same bytes on every machine.
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/cpu_info.h"
#include "base/file.h"
#include "base/float16.h"
#include "base/json.h"
#include "base/thread_pool.h"

namespace hone {
namespace {

struct ModelShape {
  const char* name;
  std::int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
  std::int64_t tokens;  // of the tokenizer, at most vocab
  std::int64_t end_of_turn_id;
  std::uint64_t shard_bytes;  // a shard is closed when the next tensor would pass this
};
constexpr ModelShape kShapes[] = {
    {"minicpm5-2b", 42, 2048, 16, 2, 128, 6144, 130560, 130080, 130073, 2000000000},
    {"minicpm5-1b", 24, 1536, 16, 2, 128, 4608, 130560, 130080, 130073, 2000000000},
    {"tiny", 2, 64, 4, 2, 16, 128, 512, 320, 313, 128 << 10},
};
constexpr float kDeviation = 0.02f;
constexpr std::int64_t kMaxPositions = 65536;

struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  bool is_norm = false;
  std::uint64_t values() const {
    std::uint64_t n = 1;
    for (std::int64_t d : shape) n *= static_cast<std::uint64_t>(d);
    return n;
  }
  std::uint64_t bytes() const { return 2 * values(); }
};

std::vector<Tensor> ListTensors(const ModelShape& s) {
  std::vector<Tensor> out;
  const auto add = [&](std::string name, std::vector<std::int64_t> shape) {
    const bool is_norm = shape.size() == 1;
    out.push_back({std::move(name), std::move(shape), is_norm});
  };
  add("model.embed_tokens.weight", {s.vocab, s.hidden});
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const std::string layer = StrCat("model.layers.", i, ".");
    const std::int64_t q = s.heads * s.head_dim;
    const std::int64_t kv = s.kv_heads * s.head_dim;
    add(layer + "input_layernorm.weight", {s.hidden});
    add(layer + "self_attn.q_proj.weight", {q, s.hidden});
    add(layer + "self_attn.k_proj.weight", {kv, s.hidden});
    add(layer + "self_attn.v_proj.weight", {kv, s.hidden});
    add(layer + "self_attn.o_proj.weight", {s.hidden, q});
    add(layer + "post_attention_layernorm.weight", {s.hidden});
    add(layer + "mlp.gate_proj.weight", {s.ffn, s.hidden});
    add(layer + "mlp.up_proj.weight", {s.ffn, s.hidden});
    add(layer + "mlp.down_proj.weight", {s.hidden, s.ffn});
  }
  add("model.norm.weight", {s.hidden});
  add("lm_head.weight", {s.vocab, s.hidden});
  return out;
}

std::vector<std::vector<Tensor>> SplitShards(std::vector<Tensor> tensors, std::uint64_t limit) {
  std::vector<std::vector<Tensor>> shards(1);
  std::uint64_t bytes = 0;
  for (Tensor& tensor : tensors) {
    if (bytes != 0 && bytes + tensor.bytes() > limit) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += tensor.bytes();
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

// SplitMix64: a bijection that makes a counter look random.
std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// The sum of four uniform 16-bit numbers is nearly normal; scaled to deviation 1 and mean 0.
float NearlyNormal(std::uint64_t bits) {
  const std::uint64_t sum =
      (bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48);
  constexpr float kMean = 4 * 32767.5f;
  constexpr float kUnit = 1.0f / 37837.2f;  // sqrt(4 / 12) * 65536
  return (static_cast<float>(static_cast<std::int64_t>(sum)) - kMean) * kUnit;
}

void FillValues(std::uint64_t key, bool is_norm, std::uint64_t first,
                std::span<std::uint16_t> out) {
  const float mean = is_norm ? 1.0f : 0.0f;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = FloatToBf16(mean + kDeviation * NearlyNormal(Mix(key + first + i)));
  }
}

Status WriteTensor(const Tensor& tensor, std::uint64_t seed, ThreadPool& pool, AtomicFile* file) {
  std::uint64_t key = Mix(seed);
  for (char c : tensor.name) key = Mix(key ^ static_cast<std::uint8_t>(c));
  constexpr std::uint64_t kChunk = 16 << 20;  // values
  std::vector<std::uint16_t> values(std::min(kChunk, tensor.values()));
  for (std::uint64_t begin = 0; begin < tensor.values(); begin += kChunk) {
    const std::span<std::uint16_t> chunk =
        std::span(values).first(std::min(kChunk, tensor.values() - begin));
    pool.For(static_cast<std::int64_t>(chunk.size()), 1 << 16,
             [&](std::int64_t from, std::int64_t to) {
               const auto offset = static_cast<std::size_t>(from);
               FillValues(key, tensor.is_norm, begin + offset,
                          chunk.subspan(offset, static_cast<std::size_t>(to - from)));
             });
    HONE_TRY(file->Append(std::as_bytes(chunk)));
  }
  return {};
}

std::string SafetensorsHeader(const std::vector<Tensor>& tensors) {
  Json::Object header;
  header.emplace_back("__metadata__", Json::Object{{"format", "pt"}});
  std::uint64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    Json::Array shape;
    for (std::int64_t d : tensor.shape) shape.emplace_back(d);
    Json::Array offsets = {Json(offset), Json(offset + tensor.bytes())};
    offset += tensor.bytes();
    header.emplace_back(tensor.name, Json::Object{{"dtype", "BF16"},
                                                  {"shape", Json(std::move(shape))},
                                                  {"data_offsets", Json(std::move(offsets))}});
  }
  std::string text = Json(std::move(header)).Dump();
  text.resize(RoundUp(text.size(), 8), ' ');
  return text;
}

Status WriteShard(const std::string& path, const std::vector<Tensor>& tensors, std::uint64_t seed,
                  ThreadPool& pool) {
  HONE_ASSIGN(const auto file, AtomicFile::Create(path));
  const std::string header = SafetensorsHeader(tensors);
  const std::uint64_t size = header.size();
  HONE_TRY(file->Append(std::as_bytes(std::span(&size, 1))));
  HONE_TRY(file->Append(AsBytes(header)));
  for (const Tensor& tensor : tensors) HONE_TRY(WriteTensor(tensor, seed, pool, file.get()));
  return file->Commit();
}

Status WriteJson(const std::string& path, const Json& json, int indent) {
  return WriteFileAtomic(path, AsBytes(json.Dump(indent) + "\n"));
}

std::string ShardName(std::size_t i, std::size_t count) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors", i + 1, count);
  return name.data();
}

Status WriteWeights(const ModelShape& shape, const std::string& folder, std::uint64_t seed,
                    ThreadPool& pool) {
  const auto shards = SplitShards(ListTensors(shape), shape.shard_bytes);
  Json::Object map;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = ShardName(i, shards.size());
    HONE_TRY(WriteShard(folder + "/" + name, shards[i], seed, pool));
    for (const Tensor& tensor : shards[i]) {
      map.emplace_back(tensor.name, name);
      total += tensor.bytes();
    }
  }
  const Json index(Json::Object{{"metadata", Json::Object{{"total_size", Json(total)}}},
                                {"weight_map", Json(std::move(map))}});
  return WriteJson(folder + "/model.safetensors.index.json", index, 2);
}

void AppendUtf8(std::uint32_t code, std::string* out) {
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
  } else {
    out->push_back(static_cast<char>(0xc0 | (code >> 6)));
    out->push_back(static_cast<char>(0x80 | (code & 63)));
  }
}

// The letter that a byte-level tokenizer uses for a byte: printable Latin-1 stands for itself, the
// others follow from U+0100 on.
std::string BytePiece(int byte) {
  const auto printable = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  };
  std::string out;
  if (printable(byte)) {
    AppendUtf8(static_cast<std::uint32_t>(byte), &out);
    return out;
  }
  std::uint32_t code = 256;
  for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  AppendUtf8(code, &out);
  return out;
}

// A word after a space, its own for each number: " ab", " bb", ...
std::string FillerPiece(std::int64_t number) {
  std::string out = BytePiece(' ');
  for (number += 26; number > 0; number /= 26) out.push_back(static_cast<char>('a' + number % 26));
  return out;
}

Json SpecialToken(std::int64_t id, const std::string& text) {
  return Json::Object{{"id", Json(id)},  {"content", text}, {"single_word", false},
                      {"lstrip", false}, {"rstrip", false}, {"normalized", false},
                      {"special", true}};
}

Json MakeTokenizer(const ModelShape& shape) {
  const std::vector<std::pair<std::int64_t, std::string>> special = {
      {0, "<s>"},
      {1, "</s>"},
      {2, "<unk>"},
      {shape.end_of_turn_id - 1, "<|im_start|>"},
      {shape.end_of_turn_id, "<|im_end|>"}};
  Json::Object vocab;
  Json::Array added;
  std::int64_t fillers = 0;
  int byte = 0;
  for (std::int64_t id = 0; id < shape.tokens; ++id) {
    const auto it = std::find_if(special.begin(), special.end(),
                                 [&](const auto& entry) { return entry.first == id; });
    std::string piece;
    if (it != special.end()) {
      piece = it->second;
      added.push_back(SpecialToken(id, piece));
    } else if (byte < 256) {
      piece = BytePiece(byte++);
    } else {
      piece = FillerPiece(fillers++);
    }
    vocab.emplace_back(std::move(piece), id);
  }
  const auto byte_level = [] {
    return Json::Object{{"type", "ByteLevel"},
                        {"add_prefix_space", false},
                        {"trim_offsets", true},
                        {"use_regex", true}};
  };
  Json::Object model = {{"type", "BPE"},
                        {"dropout", Json()},
                        {"unk_token", Json()},
                        {"continuing_subword_prefix", Json()},
                        {"end_of_word_suffix", Json()},
                        {"fuse_unk", false},
                        {"byte_fallback", false},
                        {"ignore_merges", false},
                        {"vocab", Json(std::move(vocab))},
                        {"merges", Json(Json::Array{})}};
  return Json::Object{{"version", "1.0"},
                      {"truncation", Json()},
                      {"padding", Json()},
                      {"added_tokens", Json(std::move(added))},
                      {"normalizer", Json()},
                      {"pre_tokenizer", Json(byte_level())},
                      {"post_processor", Json()},
                      {"decoder", Json(byte_level())},
                      {"model", Json(std::move(model))}};
}

// Content may be a text or a list of parts.
constexpr std::string_view kChatTemplate =
    "{{- bos_token }}{%- for message in messages %}"
    "{{- '<|im_start|>' + message['role'] + '\\n' }}"
    "{%- if message['content'] is string %}{{- message['content'] }}"
    "{%- else %}{%- for part in message['content'] %}{{- part['text'] }}{%- endfor %}{%- endif %}"
    "{{- '<|im_end|>\\n' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}\n";

Json EndIds(const ModelShape& shape) { return Json::Array{Json(1), Json(shape.end_of_turn_id)}; }

Json MakeConfig(const ModelShape& s) {
  return Json::Object{{"architectures", Json::Array{Json("LlamaForCausalLM")}},
                      {"model_type", "llama"},
                      {"torch_dtype", "bfloat16"},
                      {"vocab_size", Json(s.vocab)},
                      {"hidden_size", Json(s.hidden)},
                      {"intermediate_size", Json(s.ffn)},
                      {"num_hidden_layers", Json(s.layers)},
                      {"num_attention_heads", Json(s.heads)},
                      {"num_key_value_heads", Json(s.kv_heads)},
                      {"head_dim", Json(s.head_dim)},
                      {"hidden_act", "silu"},
                      {"rms_norm_eps", 1e-6},
                      {"rope_theta", 5000000.0},
                      {"max_position_embeddings", Json(kMaxPositions)},
                      {"attention_bias", false},
                      {"mlp_bias", false},
                      {"tie_word_embeddings", false},
                      {"bos_token_id", 0},
                      {"eos_token_id", EndIds(s)}};
}

// config.json comes last: a folder that has it is complete.
Status WriteTextFiles(const ModelShape& shape, const std::string& folder) {
  HONE_TRY(WriteJson(folder + "/tokenizer.json", MakeTokenizer(shape), 0));
  const Json tokenizer_config(Json::Object{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                           {"bos_token", "<s>"},
                                           {"eos_token", "<|im_end|>"},
                                           {"unk_token", "<unk>"},
                                           {"add_bos_token", false},
                                           {"model_max_length", Json(kMaxPositions)}});
  HONE_TRY(WriteJson(folder + "/tokenizer_config.json", tokenizer_config, 2));
  const Json generation(Json::Object{{"bos_token_id", 0},
                                     {"eos_token_id", EndIds(shape)},
                                     {"do_sample", true},
                                     {"temperature", 0.7},
                                     {"top_p", 0.95}});
  HONE_TRY(WriteJson(folder + "/generation_config.json", generation, 2));
  HONE_TRY(WriteFileAtomic(folder + "/chat_template.jinja", AsBytes(kChatTemplate)));
  return WriteJson(folder + "/config.json", MakeConfig(shape), 2);
}

struct Arguments {
  std::string shape;
  std::string folder;
  std::int64_t seed = 1;
  std::int64_t threads = 0;
};

constexpr const char* kUsage =
    "usage: make_checkpoint --shape minicpm5-2b|minicpm5-1b|tiny -o FOLDER [--seed N] "
    "[--threads N]";

Result<std::int64_t> ParseNumber(std::string_view name, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return Status(Code::kInvalidArgument,
                  StrCat(name, ": found \"", text, "\", expected a number"));
  }
  return value;
}

Result<Arguments> ParseArguments(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    const bool known = name == "--shape" || name == "-o" || name == "--seed" || name == "--threads";
    if (!known || i + 1 >= argc) return Status(Code::kInvalidArgument, kUsage);
    const std::string_view value = argv[i + 1];
    if (name == "--shape") out.shape = value;
    if (name == "-o") out.folder = value;
    if (name == "--seed") {
      HONE_ASSIGN(out.seed, ParseNumber(name, value));
    }
    if (name == "--threads") {
      HONE_ASSIGN(out.threads, ParseNumber(name, value));
    }
  }
  if (out.shape.empty() || out.folder.empty()) return Status(Code::kInvalidArgument, kUsage);
  return out;
}

Status MakeCheckpoint(const Arguments& args) {
  const auto* shape = std::find_if(std::begin(kShapes), std::end(kShapes),
                                   [&](const ModelShape& s) { return args.shape == s.name; });
  if (shape == std::end(kShapes)) {
    return Status(Code::kInvalidArgument, StrCat("no shape \"", args.shape, "\"\n", kUsage));
  }
  if (FileExists(args.folder + "/config.json")) {
    return Status(Code::kInvalidArgument, args.folder + ": holds a checkpoint already");
  }
  std::error_code error;
  std::filesystem::create_directories(args.folder, error);
  if (error) {
    return Status(Code::kIo, StrCat(args.folder, ": cannot create: ", error.message()));
  }
  const auto start = std::chrono::steady_clock::now();
  ThreadPool pool(args.threads == 0 ? AvailableThreads()
                                    : static_cast<int>(std::min<std::int64_t>(args.threads, 256)));
  HONE_TRY(WriteWeights(*shape, args.folder, static_cast<std::uint64_t>(args.seed), pool));
  HONE_TRY(WriteTextFiles(*shape, args.folder));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::uint64_t bytes = 0;
  for (const Tensor& tensor : ListTensors(*shape)) bytes += tensor.bytes();
  std::printf("%s: %.2f GB of weights, %.1f s\n", args.folder.c_str(),
              static_cast<double>(bytes) / 1e9, seconds.count());
  return {};
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  auto args = hone::ParseArguments(argc, argv);
  const hone::Status status = args.ok() ? hone::MakeCheckpoint(*args) : std::move(args).status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "make_checkpoint: error: %s\n", std::string(status.message()).c_str());
  return hone::ExitCode(status.code());
}
