/* SPDX-FileCopyrightText: The Hone authors
 * SPDX-License-Identifier: Apache-2.0
 * C ABI of the Rust crate hone_bridge: tokenizers, chat templates, grammars, regular expressions,
 * SHA-256.
 *
 * No call unwinds into the caller. Texts carry lengths and may hold NUL. Functions that return a
 * status fill err with a message if it is not zero. Output buffers are overwritten, not appended
 * to.
 */
#ifndef HONE_BRIDGE_H_
#define HONE_BRIDGE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HB_ABI_VERSION 2u

enum hb_status {
  HB_OK = 0,
  HB_RAISED = 1,       /* raise_exception in a template; err holds its exact words */
  HB_SYNTAX = 2,       /* template, grammar or tokenizer.json is malformed */
  HB_RUNTIME = 3,      /* a template, grammar or tokenizer failed while running */
  HB_LIMIT = 4,        /* a limit on work, size or depth was reached */
  HB_BAD_CONTEXT = 5,  /* the context of a template is not a JSON object */
  HB_BAD_ARGUMENT = 6, /* a null pointer, text that is not UTF-8, an id out of range */
  HB_UNSUPPORTED = 7,  /* well formed, but of a kind that is not supported */
  HB_NO_RESOURCE = 8,  /* the system refuses memory or a thread */
  HB_PANIC = 9         /* a defect in a library, caught */
};

/* Owned by the caller: start with {0}, reuse freely, release with hb_buf_free. */
typedef struct hb_buf {
  uint8_t* data;
  size_t size;
  size_t cap;
} hb_buf;

/* Zero means the default: 2,000,000 steps, 64 MiB of output, 1 MiB of source. */
typedef struct hb_limits {
  uint64_t fuel;
  uint64_t max_output;
  uint64_t max_source;
} hb_limits;

typedef struct hb_tokenizer hb_tokenizer;
typedef struct hb_stream hb_stream;
typedef struct hb_template hb_template;
typedef struct hb_sha256 hb_sha256;
typedef struct hb_regex hb_regex;
typedef struct hb_vocab hb_vocab;
typedef struct hb_matcher hb_matcher;

uint32_t hb_abi_version(void);
void hb_buf_free(hb_buf* buf);

/* Tokenizers are read-only after creation: any thread may use one. A stream belongs to one thread
 * at a time and may outlive the tokenizer handle. */
#define HB_ENCODE_ADD_SPECIAL 1u   /* add what the post-processor adds */
#define HB_ENCODE_PLAIN_SPECIAL 2u /* read special tokens in the text as plain text */
int hb_tokenizer_new(const void* json, size_t size, hb_tokenizer** out, hb_buf* err);
void hb_tokenizer_free(hb_tokenizer* tokenizer);
/* ids: native-endian uint32 values; copy, do not cast. */
int hb_tokenizer_encode(const hb_tokenizer* tokenizer, const char* text, size_t size,
                        uint32_t flags, hb_buf* ids, hb_buf* err);
int hb_tokenizer_decode(const hb_tokenizer* tokenizer, const uint32_t* ids, size_t count,
                        int skip_special, hb_buf* text, hb_buf* err);
/* The piece as the vocabulary spells it, and the bytes it stands for. */
int hb_tokenizer_piece(const hb_tokenizer* tokenizer, uint32_t id, hb_buf* piece, hb_buf* err);
int hb_tokenizer_token_bytes(const hb_tokenizer* tokenizer, uint32_t id, hb_buf* bytes,
                             hb_buf* err);
int64_t hb_tokenizer_id(const hb_tokenizer* tokenizer, const char* piece, size_t size); /* or -1 */
uint32_t hb_tokenizer_size(const hb_tokenizer* tokenizer); /* largest id + 1 */
/* JSON array of {"id": 0, "content": "<s>", "special": true}, by id. */
int hb_tokenizer_added(const hb_tokenizer* tokenizer, hb_buf* json, hb_buf* err);

hb_stream* hb_stream_new(const hb_tokenizer* tokenizer, int skip_special); /* NULL: out of memory */
void hb_stream_free(hb_stream* stream);
int hb_stream_push(hb_stream* stream, uint32_t id, hb_buf* text, hb_buf* err);
int hb_stream_finish(hb_stream* stream, hb_buf* text, hb_buf* err);

/* A compiled chat template is read-only: any thread may render it. limits may be NULL. */
int hb_template_new(const char* source, size_t size, const hb_limits* limits, hb_template** out,
                    hb_buf* err);
void hb_template_free(hb_template* tmpl);
/* json: an object of variables. local_now: seconds since 1970 of the local wall clock. */
int hb_template_render(const hb_template* tmpl, const char* json, size_t size, int64_t local_now,
                       hb_buf* text, hb_buf* err);

/* A regular expression without look-around and back references, so that a search takes time in
 * proportion to the text. Read-only: any thread may search. The pattern has at most 4096 bytes. */
int hb_regex_new(const char* pattern, size_t size, hb_regex** out, hb_buf* err);
int hb_regex_search(const hb_regex* regex, const char* text, size_t size); /* 1, 0; -1: not UTF-8 */
void hb_regex_free(hb_regex* regex);

/* The tokens of a model as grammars see them. Read-only: any thread may use one, and it may outlive
 * the tokenizer handle. n_logits: how many ids the model scores, at most 2^22. ends: ids that end a
 * text. blocked: ids that must never be chosen; one that is also an end is no end. */
int hb_vocab_new(const hb_tokenizer* tokenizer, uint32_t n_logits, const uint32_t* ends,
                 size_t n_ends, const uint32_t* blocked, size_t n_blocked, hb_vocab** out,
                 hb_buf* err);
void hb_vocab_free(hb_vocab* vocab);

/* A grammar and the tokens that it has taken. One thread at a time; clones are independent, and may
 * be on other threads. May outlive the vocab handle. Text has at most 1 MiB. */
enum hb_grammar_kind {
  HB_JSON_SCHEMA = 0,
  HB_JSON_OBJECT = 1, /* any object; the text is not read */
  HB_REGEX = 2,       /* the whole text matches; Rust's syntax without look-around */
  HB_LARK = 3
};
/* What can be said about a grammar without a vocabulary: the errors of hb_matcher_new but those
 * about tokens. */
int hb_grammar_check(int kind, const char* text, size_t size, hb_buf* err);
int hb_matcher_new(const hb_vocab* vocab, int kind, const char* text, size_t size, hb_matcher** out,
                   hb_buf* err);
int hb_matcher_clone(const hb_matcher* matcher, hb_matcher** out, hb_buf* err);
void hb_matcher_free(hb_matcher* matcher);
/* Bit id % 32 of word id / 32: whether the token may come next. n_words is (n_logits + 31) / 32. */
int hb_matcher_mask(hb_matcher* matcher, uint32_t* words, size_t n_words, hb_buf* err);
/* Takes tokens. HB_BAD_ARGUMENT: one is not allowed; those before it are taken. Every other error
 * stays for ever. */
int hb_matcher_accept(hb_matcher* matcher, const uint32_t* ids, size_t count, hb_buf* err);
/* How many of these tokens could be taken, one after the other; -1: the matcher has failed. */
int64_t hb_matcher_check(hb_matcher* matcher, const uint32_t* ids, size_t count);
/* Takes the last count tokens back. */
int hb_matcher_rollback(hb_matcher* matcher, size_t count, hb_buf* err);
/* The tokens that must come next, uint32 as hb_tokenizer_encode; none if there is a choice. */
int hb_matcher_forced(hb_matcher* matcher, hb_buf* ids, hb_buf* err);
#define HB_MATCHER_MAY_END 1u /* what was taken is a whole text of the grammar */
#define HB_MATCHER_ENDED 2u   /* and nothing but an end can follow */
#define HB_MATCHER_FAILED 4u
uint32_t hb_matcher_state(hb_matcher* matcher);
/* Remarks about the grammar, one a line. */
int hb_matcher_warnings(const hb_matcher* matcher, hb_buf* lines, hb_buf* err);

hb_sha256* hb_sha256_new(void);
void hb_sha256_update(hb_sha256* state, const void* data, size_t size);
void hb_sha256_finish(hb_sha256* state, uint8_t digest[32]); /* and starts anew */
void hb_sha256_free(hb_sha256* state);

#ifdef __cplusplus
}
#endif

#endif /* HONE_BRIDGE_H_ */
