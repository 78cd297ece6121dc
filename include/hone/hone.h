/* SPDX-FileCopyrightText: The Hone authors
   SPDX-License-Identifier: Apache-2.0
   Hone as a C library (C99): open a model, generate, tokenize, render a chat.

   Handles are opaque. A call returns HONE_OK or says why not: the words are then in
   hone_last_message(engine) until the next call on that engine. One thread at a time may use an
   engine and its sequences; only hone_cancel may be called from any thread or a signal handler.
   Nothing is kept in globals or thread-locals.

   Every options and result struct begins with its size: set it with the _INIT macro, so that a
   library with more fields knows which ones you have. */
#ifndef HONE_HONE_H_
#define HONE_HONE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hone_status {
  HONE_OK = 0,
  HONE_INVALID_ARGUMENT = 1, /* a wrong option or call */
  HONE_NOT_FOUND = 2,
  HONE_DATA_LOSS = 3,   /* the file is damaged */
  HONE_UNSUPPORTED = 4, /* well formed, but Hone cannot do it */
  HONE_OUT_OF_MEMORY = 5,
  HONE_DEADLINE = 6,
  HONE_CANCELLED = 7,
  HONE_IO = 8,
  HONE_INTERNAL = 9 /* our own fault */
} hone_status;

typedef struct hone_engine hone_engine;     /* a model */
typedef struct hone_sequence hone_sequence; /* tokens and their cache */

/* "0.1.0" */
const char* hone_version(void);

/* A handle without a model, so that a failed hone_engine_open has a place for its message. NULL if
   there is no memory. Free it with hone_engine_free, after its sequences. */
hone_engine* hone_engine_new(void);
void hone_engine_free(hone_engine* engine);
/* Why the last call on this engine or its sequences failed; "" if it did not. */
const char* hone_last_message(const hone_engine* engine);

typedef enum hone_compute {
  HONE_COMPUTE_AUTO = 0, /* Q8 for quantized bundles, F32 else */
  HONE_COMPUTE_F32 = 1,
  HONE_COMPUTE_Q8 = 2
} hone_compute;
typedef enum hone_kv {
  HONE_KV_AUTO = 0, /* F32 for float weights, F16 else */
  HONE_KV_F32 = 1,
  HONE_KV_F16 = 2,
  HONE_KV_INT8 = 3 /* a scale for each position and head */
} hone_kv;

typedef struct hone_engine_options {
  size_t struct_size;
  int32_t num_threads; /* 0: all available */
  int32_t compute;     /* hone_compute */
  int32_t kv;          /* hone_kv */
} hone_engine_options;
#define HONE_ENGINE_OPTIONS_INIT {sizeof(hone_engine_options), 0, HONE_COMPUTE_AUTO, HONE_KV_AUTO}

/* path: a .litertlm bundle, a .gguf file or a checkpoint folder. options may be NULL. An engine
   opens one model in its life. */
hone_status hone_engine_open(hone_engine* engine, const char* path,
                             const hone_engine_options* options);
/* Facts of an open model; 0 if none is open. */
int64_t hone_context_size(const hone_engine* engine);
int64_t hone_vocabulary_size(const hone_engine* engine);

/* An empty sequence. It must be freed before its engine. */
hone_status hone_sequence_new(hone_engine* engine, hone_sequence** sequence);
void hone_sequence_free(hone_sequence* sequence);
int64_t hone_sequence_size(const hone_sequence* sequence); /* in tokens */
/* Forgets the tokens from position on. */
void hone_sequence_truncate(hone_sequence* sequence, int64_t position);
/* Stops a hone_generate that runs on the sequence, within one layer's work. */
void hone_cancel(hone_sequence* sequence);

/* Output into the caller's memory: at most capacity items are written, *count is how many there
   are. Call with capacity 0 to ask for the size. Text is not terminated by a zero. */

/* Add the tokens of the post-processor, such as BOS. */
#define HONE_TOKENIZE_BOS 1u
/* A rendered prompt: prepend the bundle's start token if needed. */
#define HONE_TOKENIZE_PROMPT 2u
hone_status hone_tokenize(hone_engine* engine, const char* text, size_t text_bytes, uint32_t flags,
                          int32_t* ids, size_t capacity, size_t* count);
hone_status hone_detokenize(hone_engine* engine, const int32_t* ids, size_t num_ids,
                            int skip_special, char* text, size_t capacity, size_t* count);

typedef enum hone_think { HONE_THINK_AUTO = 0, HONE_THINK_ON = 1, HONE_THINK_OFF = 2 } hone_think;

typedef struct hone_render_options {
  size_t struct_size;
  int32_t think;                 /* hone_think */
  int32_t add_generation_prompt; /* 1: open the assistant's turn */
  const char* tools_json;        /* a JSON array, zero-terminated, or NULL */
  int64_t local_now;             /* seconds of the local wall clock, for templates with a date */
} hone_render_options;
#define HONE_RENDER_OPTIONS_INIT {sizeof(hone_render_options), HONE_THINK_AUTO, 1, NULL, 0}

/* messages_json: a zero-terminated JSON array of {"role": ..., "content": ...}. */
hone_status hone_render_chat(hone_engine* engine, const char* messages_json,
                             const hone_render_options* options, char* text, size_t capacity,
                             size_t* count);

/* One generated token. text is what became certain with it: whole UTF-8, often empty, not
   zero-terminated. id is -1 for text that comes after the last token. Return 0 to go on; anything
   else cancels. */
typedef int (*hone_token_callback)(void* user, int32_t id, const char* text, size_t text_bytes);

typedef struct hone_generate_options {
  size_t struct_size;
  int64_t max_tokens; /* 0: as many as the context holds */
  float temperature;  /* 0: always the best token */
  int32_t top_k;      /* 0: off */
  float top_p;        /* 1: off */
  float min_p;        /* 0: off */
  float repetition_penalty;
  float presence_penalty;
  float frequency_penalty;
  uint64_t seed;
  const char* const* stop_strings; /* besides the model's own; zero-terminated */
  size_t num_stop_strings;
  hone_token_callback callback; /* may be NULL */
  void* user;
} hone_generate_options;
#define HONE_GENERATE_OPTIONS_INIT \
  {sizeof(hone_generate_options), 0, 0.0f, 0, 1.0f, 0.0f, 1.0f, 0.0f, 0.0f, 0, NULL, 0, NULL, NULL}

typedef enum hone_finish_reason {
  HONE_FINISH_STOP = 0,
  HONE_FINISH_LENGTH = 1,
  HONE_FINISH_CANCELLED = 2
} hone_finish_reason;

typedef struct hone_generation {
  size_t struct_size;
  int32_t finish_reason; /* hone_finish_reason */
  int64_t num_tokens;    /* generated, the stop token left out */
  int64_t prefill_tokens;
  int64_t decode_tokens;
  double prefill_seconds;
  double decode_seconds;
  double first_token_seconds;
} hone_generation;
#define HONE_GENERATION_INIT {sizeof(hone_generation), 0, 0, 0, 0, 0.0, 0.0, 0.0}

/* Makes the sequence hold prompt (what it has in common with the cached tokens is kept) and
   generates. options may be NULL (greedy); result may be NULL. A cancelled answer is HONE_OK with
   HONE_FINISH_CANCELLED. */
hone_status hone_generate(hone_engine* engine, hone_sequence* sequence, const int32_t* prompt,
                          size_t num_prompt, const hone_generate_options* options,
                          hone_generation* result);

#ifdef __cplusplus
}
#endif

#endif /* HONE_HONE_H_ */
