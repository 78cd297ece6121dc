// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/sequence_state.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/test_folder.h"
#include "runtime/engine.h"
#include "runtime/hash64.h"
#include "runtime/model_hash.h"
#include "runtime/tiny_model.h"

namespace hone::runtime {
namespace {

std::vector<std::int32_t> Ids(std::size_t count, std::uint32_t seed) {
  std::vector<std::int32_t> ids(count);
  for (auto& id : ids) {
    seed = seed * 1664525U + 1013904223U;
    id = static_cast<std::int32_t>(seed >> 8) % 97;
  }
  return ids;
}

std::unique_ptr<Engine> MakeEngine(const EngineOptions& options,
                                   model::DecoderModel model = MakeTinyModel()) {
  auto engine = Engine::FromModel(std::move(model), {}, options, "tiny");
  EXPECT_TRUE(engine.ok()) << engine.message();
  return *std::move(engine);
}

std::vector<float> Feed(Engine& engine, Sequence& sequence, std::span<const std::int32_t> ids) {
  std::vector<float> logits;
  const Status status = engine.Run(Step{{{&sequence, ids, false}}}, &logits);
  EXPECT_TRUE(status.ok()) << status.message();
  return logits;
}

std::unique_ptr<Sequence> NewSequence(Engine& engine, std::span<const std::int32_t> ids) {
  auto sequence = *engine.NewSequence();
  Feed(engine, *sequence, ids);
  return sequence;
}

std::string Slurp(const std::string& path) { return *ReadFile(path); }

TEST(Hash64, IsXxh64) {
  EXPECT_EQ(Hash64({}), 0xEF46DB3751D8E999ULL);
  EXPECT_EQ(Hash64(AsBytes("a")), 0xD24EC4F1A98C6E5BULL);
  EXPECT_EQ(Hash64(AsBytes("abc")), 0x44BC2CF5AD770999ULL);
  EXPECT_EQ(Hash64(AsBytes("Nobody inspects the spammish repetition")), 0xFBCEA83C8A378BF1ULL);
  EXPECT_NE(Hash64(AsBytes("abc"), 1), Hash64(AsBytes("abc")));
}

TEST(SequenceState, GoesOnWithTheBitsThatItWouldHaveHad) {
  const TestFolder folder;
  const auto ids = Ids(150, 1);
  const auto more = Ids(80, 2);
  for (const auto kv : {KvChoice::kF32, KvChoice::kF16, KvChoice::kInt8}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{64}, std::size_t{150}}) {
      const EngineOptions options{.num_threads = 2, .kv = kv};
      const auto engine = MakeEngine(options);
      const auto sequence = NewSequence(*engine, std::span(ids).first(count));
      const std::string path = folder.File("state");
      ASSERT_TRUE(engine->SaveState(*sequence, "some text", path).ok());
      const std::string bytes = Slurp(path);

      const auto other = MakeEngine({.num_threads = 3, .kv = kv});
      auto saved = other->LoadState(path);
      ASSERT_TRUE(saved.ok()) << saved.message();
      EXPECT_EQ(saved->text, "some text");
      EXPECT_EQ(saved->note, "");
      ASSERT_EQ(saved->sequence->size(), static_cast<std::int64_t>(count));
      EXPECT_EQ(Feed(*other, *saved->sequence, more), Feed(*engine, *sequence, more));
      // A part of it, and another way on.
      auto again = other->LoadState(path);
      ASSERT_TRUE(again.ok());
      again->sequence->Truncate(static_cast<std::int64_t>(count) / 2);
      sequence->Truncate(static_cast<std::int64_t>(count) / 2);
      EXPECT_EQ(Feed(*other, *again->sequence, more), Feed(*engine, *sequence, more));
      EXPECT_EQ(Slurp(path), bytes);
    }
  }
}

TEST(SequenceState, AFileMayBeReplacedWhileItIsMapped) {
  const TestFolder folder;
  const std::string path = folder.File("state");
  const auto engine = MakeEngine({.num_threads = 1});
  const auto sequence = NewSequence(*engine, Ids(100, 1));
  ASSERT_TRUE(engine->SaveState(*sequence, "", path).ok());
  auto saved = engine->LoadState(path);
  ASSERT_TRUE(saved.ok()) << saved.message();
  const auto more = Ids(70, 2);
  const auto want = Feed(*engine, *sequence, more);
  EXPECT_EQ(Feed(*engine, *saved->sequence, more), want);
  ASSERT_TRUE(engine->SaveState(*saved->sequence, "", path).ok());
  const auto last = Ids(1, 3);
  EXPECT_EQ(Feed(*engine, *saved->sequence, last), Feed(*engine, *sequence, last));
  auto longer = engine->LoadState(path);
  ASSERT_TRUE(longer.ok()) << longer.message();
  EXPECT_EQ(longer->sequence->size(), 170);
}

// Keys of tokens that were taken back do not leave with the file.
TEST(SequenceState, TheFileHoldsNothingOfTokensThatWereTakenBack) {
  const TestFolder folder;
  for (const auto kv : {KvChoice::kF32, KvChoice::kF16, KvChoice::kInt8}) {
    const auto engine = MakeEngine({.num_threads = 1, .kv = kv});
    const auto ids = Ids(100, 1);
    ASSERT_TRUE(engine->SaveState(*NewSequence(*engine, ids), "", folder.File("a")).ok());
    const auto sequence = NewSequence(*engine, ids);
    Feed(*engine, *sequence, Ids(20, 2));
    sequence->Truncate(100);
    ASSERT_TRUE(engine->SaveState(*sequence, "", folder.File("b")).ok());
    EXPECT_EQ(Slurp(folder.File("a")), Slurp(folder.File("b")));
  }
}

// What a file says is not offered to conversations that did not load it.
TEST(SequenceState, LoadedPagesStayOutOfThePrefixCache) {
  const TestFolder folder;
  const std::string path = folder.File("state");
  const auto engine = MakeEngine({.num_threads = 1, .prefix_cache_bytes = 1 << 24});
  const auto ids = Ids(100, 1);
  {
    const auto plain = MakeEngine({.num_threads = 1});
    ASSERT_TRUE(plain->SaveState(*NewSequence(*plain, ids), "", path).ok());
  }
  auto saved = engine->LoadState(path);
  ASSERT_TRUE(saved.ok()) << saved.message();
  Feed(*engine, *saved->sequence, Ids(40, 2));
  EXPECT_EQ(engine->prefix_cache_stats().blocks, 0u);
  saved->sequence->Truncate(0);
  Feed(*engine, *saved->sequence, ids);
  EXPECT_EQ(engine->prefix_cache_stats().blocks, 1u);
}

TEST(SequenceState, RefusesToSaveNothing) {
  const TestFolder folder;
  const auto engine = MakeEngine({.num_threads = 1});
  const Status status = engine->SaveState(**engine->NewSequence(), "", folder.File("state"));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_FALSE(FileExists(folder.File("state")));
}

// A saved file, changed and checked.
class BadState : public testing::Test {
 protected:
  void SetUp() override {
    engine_ = MakeEngine({.num_threads = 1});
    ASSERT_TRUE(engine_->SaveState(*NewSequence(*engine_, Ids(100, 1)), "text", path_).ok());
    good_ = Slurp(path_);
  }

  // Puts the head's hash right after a change, as a writer that is not damaged would.
  void Seal(std::string& bytes) const {
    const ByteSpan all = AsBytes(bytes);
    const std::uint64_t hash = Hash64(all.subspan(128, 100 * 4 + 4), Hash64(all.first(120)));
    std::memcpy(bytes.data() + 120, &hash, 8);
  }

  template <typename T>
  std::string With(std::size_t offset, T value, bool seal = true) const {
    std::string bytes = good_;
    std::memcpy(bytes.data() + offset, &value, sizeof(T));
    if (seal) Seal(bytes);
    return bytes;
  }

  void Expect(const std::string& bytes, Code code, std::string_view words,
              Engine* engine = nullptr) {
    folder_.Write("state", bytes);
    auto saved = (engine != nullptr ? engine : engine_.get())->LoadState(path_);
    EXPECT_EQ(saved.code(), code) << saved.message();
    EXPECT_NE(saved.message().find(words), std::string_view::npos) << saved.message();
    EXPECT_TRUE(saved.message().starts_with(path_)) << saved.message();
  }

  TestFolder folder_;
  std::string path_ = folder_.File("state");
  std::unique_ptr<Engine> engine_;
  std::string good_;
};

TEST_F(BadState, TheChecksThemselvesPass) {
  std::string bytes = good_;
  Seal(bytes);
  EXPECT_EQ(bytes, good_);
  EXPECT_TRUE(engine_->LoadState(path_).ok());
}

TEST_F(BadState, OtherFilesAreNamed) {
  Expect("", Code::kInvalidArgument, "is no saved conversation");
  Expect("LITERTLM and more", Code::kInvalidArgument, "does not begin with HONE-SEQ");
  Expect(std::string(4096, 'x'), Code::kInvalidArgument, "does not begin with HONE-SEQ");
}

TEST_F(BadState, CutAndLongerFilesAreDamaged) {
  for (const std::size_t size :
       {std::size_t{8}, std::size_t{127}, std::size_t{128}, std::size_t{600}, good_.size() - 1}) {
    Expect(good_.substr(0, size), Code::kDataLoss, size < 128 ? "at least 128" : "it was cut");
  }
  Expect(good_ + "x", Code::kDataLoss, StrCat("found ", good_.size() + 1, " bytes"));
}

TEST_F(BadState, AnyChangedByteIsFound) {
  for (const std::size_t at : {std::size_t{16}, std::size_t{40}, std::size_t{100}, std::size_t{115},
                               std::size_t{125}, std::size_t{130}, std::size_t{530}}) {
    std::string bytes = good_;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    Expect(bytes, Code::kDataLoss, "hash");
  }
  for (const std::size_t at : {std::size_t{4096}, good_.size() - 1}) {
    std::string bytes = good_;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    Expect(bytes, Code::kDataLoss, "its pages have the hash");
  }
  // The text ends at 532, the pages begin at 4096.
  for (const std::size_t at :
       {std::size_t{532}, std::size_t{533}, std::size_t{2000}, std::size_t{4095}}) {
    std::string bytes = good_;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    Expect(bytes, Code::kDataLoss, StrCat("byte ", at, " before its pages is 1, expected 0"));
  }
  Expect(With(52, std::uint32_t{3}), Code::kDataLoss, "its reserved field is 3, expected 0");
}

TEST_F(BadState, OtherVersionsAreUnsupported) {
  Expect(With(8, std::uint32_t{2}), Code::kUnsupported, "format version 2, expected 1");
  Expect(With(12, std::uint32_t{0x04030201}), Code::kUnsupported, "byte order");
  Expect(With(48, std::uint32_t{77}), Code::kUnsupported,
         "page layout 77 (64 positions), expected");
  Expect(With(44, std::uint32_t{32}), Code::kUnsupported, "(32 positions), expected");
}

TEST_F(BadState, SizesThatContradictEachOtherAreDamaged) {
  Expect(With(56, std::uint64_t{0}), Code::kDataLoss, "0 tokens");
  Expect(With(56, std::uint64_t{129}), Code::kDataLoss, "do not fill the file");
  Expect(With(56, ~std::uint64_t{0}), Code::kDataLoss, "do not fill the file");
  Expect(With(56, std::uint64_t{1} << 62), Code::kDataLoss, "do not fill the file");
  Expect(With(64, ~std::uint64_t{0}), Code::kDataLoss, "do not fill the file");
  Expect(With(64, ~std::uint64_t{0} - 399), Code::kDataLoss, "do not fill the file");
  Expect(With(72, std::uint64_t{0}), Code::kDataLoss, "do not fill the file");
  Expect(With(72, ~std::uint64_t{0}), Code::kDataLoss, "do not fill the file");
  Expect(With(80, std::uint64_t{0}), Code::kDataLoss, "do not fill the file");
  Expect(With(80, ~std::uint64_t{4095}), Code::kDataLoss, "do not fill the file");
}

TEST_F(BadState, AnotherModelOrOtherOptionsAreNamedWithFoundAndExpected) {
  Expect(With(28, std::uint32_t{1}), Code::kInvalidArgument,
         "a key/value cache of type f16, expected f32; --kv");
  Expect(With(28, std::uint32_t{9}), Code::kInvalidArgument, "type unknown, expected f32");
  Expect(With(24, std::uint32_t{1}), Code::kInvalidArgument,
         "activations of type q8, expected f32; --compute");
  Expect(With(32, std::uint32_t{4}), Code::kInvalidArgument, "4 layers of 2 heads of 16");
  Expect(With(36, std::uint32_t{4}), Code::kInvalidArgument, "3 layers of 4 heads of 16");
  Expect(With(40, std::uint32_t{32}), Code::kInvalidArgument, "3 layers of 2 heads of 32");
  Expect(With(16, std::uint64_t{0x1234}), Code::kInvalidArgument,
         "model hash 0000000000001234, expected ");
  Expect(With(128 + 4 * 70, std::int32_t{97}), Code::kDataLoss, "token 70 is 97, expected 0 to 96");
  Expect(With(128, std::int32_t{-1}), Code::kDataLoss, "token 0 is -1");

  const auto f16 = MakeEngine({.num_threads = 1, .kv = KvChoice::kF16});
  Expect(good_, Code::kInvalidArgument, "type f32, expected f16", f16.get());
  const auto q8 =
      MakeEngine({.num_threads = 1, .compute = ComputeChoice::kQ8, .kv = KvChoice::kF32});
  Expect(good_, Code::kInvalidArgument, "type f32, expected q8", q8.get());
  const auto seed = MakeEngine({.num_threads = 1}, MakeTinyModel({.seed = 2}));
  Expect(good_, Code::kInvalidArgument, "it belongs to other weights", seed.get());
  const auto small = MakeEngine({.num_threads = 1}, MakeTinyModel({.max_positions = 99}));
  Expect(good_, Code::kInvalidArgument, "has 100 tokens, but the context holds 99", small.get());
}

TEST_F(BadState, AnotherInstructionSetIsSaid) {
  std::string bytes = good_;
  std::memcpy(bytes.data() + 96, "abacus\0", 7);
  Seal(bytes);
  folder_.Write("state", bytes);
  auto saved = engine_->LoadState(path_);
  ASSERT_TRUE(saved.ok()) << saved.message();
  EXPECT_NE(saved->note.find("abacus"), std::string::npos) << saved->note;
}

// As long as pages of it are in use.
TEST_F(BadState, AnotherInstructionSetIsStillSaidWhenItIsSavedAgain) {
  std::string bytes = good_;
  std::memcpy(bytes.data() + 96, "abacus\0", 7);
  Seal(bytes);
  folder_.Write("state", bytes);
  const auto save_and_load = [&](const Sequence& sequence) {
    const Status status = engine_->SaveState(sequence, "text", path_);
    EXPECT_TRUE(status.ok()) << status.message();
    auto saved = engine_->LoadState(path_);
    EXPECT_TRUE(saved.ok()) << saved.message();
    return *std::move(saved);
  };
  auto loaded = engine_->LoadState(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  SavedSequence saved = save_and_load(*loaded->sequence);
  EXPECT_NE(saved.note.find("abacus"), std::string::npos) << saved.note;
  Feed(*engine_, *saved.sequence, Ids(10, 2));
  saved = save_and_load(*saved.sequence);
  EXPECT_NE(saved.note.find("several instruction sets"), std::string::npos) << saved.note;
  saved.sequence->Truncate(50);
  Feed(*engine_, *saved.sequence, Ids(10, 3));
  saved = save_and_load(*saved.sequence);
  EXPECT_NE(saved.note.find("several instruction sets"), std::string::npos) << saved.note;
  saved.sequence->Truncate(0);
  Feed(*engine_, *saved.sequence, Ids(10, 4));
  EXPECT_EQ(save_and_load(*saved.sequence).note, "");
}

TEST_F(BadState, AMissingFileIsNotFound) {
  EXPECT_EQ(engine_->LoadState(folder_.File("none")).code(), Code::kNotFound);
}

TEST(ModelHash, DependsOnEveryPartAndNotOnThreadsOrTheContext) {
  ThreadPool one(1), three(3);
  const auto hash = [&](const model::DecoderModel& model) { return ModelHash(model, one, {}); };
  const auto model = MakeTinyModel();
  const std::uint64_t base = hash(model);
  EXPECT_EQ(ModelHash(model, three, {}), base);
  EXPECT_EQ(hash(MakeTinyModel({.max_positions = 64})), base);
  EXPECT_NE(hash(MakeTinyModel({.seed = 2})), base);
  EXPECT_NE(hash(MakeTinyModel({.biases = false})), base);
  auto changed = MakeTinyModel();
  changed.spec.attention_scale *= 1.0001F;
  EXPECT_NE(hash(changed), base);
  changed = MakeTinyModel();
  changed.spec.ropes[0].inv_freq.back() *= 2;
  EXPECT_NE(hash(changed), base);
  changed = MakeTinyModel();
  changed.spec.layer_specs = {{}, {.window = 8}, {}};
  EXPECT_NE(hash(changed), base);
  // The last bit of the last weight.
  changed = MakeTinyModel();
  std::vector<std::byte> codes(changed.layers[2].down.view.codes.begin(),
                               changed.layers[2].down.view.codes.end());
  codes.back() ^= std::byte{1};
  changed.layers[2].down.view.codes = codes;
  EXPECT_NE(hash(changed), base);
}

}  // namespace
}  // namespace hone::runtime
