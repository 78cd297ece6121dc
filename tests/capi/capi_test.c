/* SPDX-FileCopyrightText: The Hone authors
   SPDX-License-Identifier: Apache-2.0
   The C interface from C: opens the model named by the only argument (golden llama-gqa8), talks to
   it, and checks what comes back. Exit code 0 if all checks hold. */
#include <hone/hone.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

#define CHECK(x)                                                      \
  do {                                                                \
    if (!(x)) {                                                       \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #x); \
      ++failures;                                                     \
    }                                                                 \
  } while (0)

typedef struct Received {
  int32_t ids[64];
  size_t num_ids;
  char text[4096];
  size_t text_bytes;
  size_t stop_after; /* tokens; 0: never */
} Received;

static int on_token(void* user, int32_t id, const char* text, size_t text_bytes) {
  Received* received = (Received*)user;
  if (text_bytes > sizeof(received->text) - received->text_bytes) return 1;
  memcpy(received->text + received->text_bytes, text, text_bytes);
  received->text_bytes += text_bytes;
  if (id >= 0 && received->num_ids < 64) received->ids[received->num_ids++] = id;
  return received->stop_after != 0 && received->num_ids >= received->stop_after;
}

static void check_errors(const char* path) {
  hone_engine* engine = hone_engine_new();
  hone_sequence* sequence = NULL;
  hone_engine_options bad = HONE_ENGINE_OPTIONS_INIT;
  CHECK(engine != NULL);
  CHECK(strcmp(hone_last_message(engine), "") == 0);
  CHECK(hone_sequence_new(engine, &sequence) == HONE_INVALID_ARGUMENT);
  CHECK(strstr(hone_last_message(engine), "hone_engine_open") != NULL);
  CHECK(hone_engine_open(engine, "/nonexistent/m.litertlm", NULL) == HONE_NOT_FOUND);
  CHECK(strstr(hone_last_message(engine), "/nonexistent/m.litertlm") != NULL);
  bad.struct_size = 0;
  CHECK(hone_engine_open(engine, path, &bad) == HONE_INVALID_ARGUMENT);
  CHECK(hone_engine_open(engine, NULL, NULL) == HONE_INVALID_ARGUMENT);
  CHECK(hone_engine_open(NULL, path, NULL) == HONE_INVALID_ARGUMENT);
  CHECK(hone_context_size(engine) == 0);
  hone_engine_free(engine);
  hone_engine_free(NULL);
}

static size_t check_text(hone_engine* engine, int32_t* ids, size_t capacity) {
  const char* messages = "[{\"role\": \"user\", \"content\": \"Hello world.\"}]";
  const char* want = "<s><|im_start|>user\nHello world.<|im_end|>\n<|im_start|>assistant\n";
  char text[512];
  char back[512];
  size_t text_bytes = 0, num_ids = 0, needed = 0;
  hone_render_options render = HONE_RENDER_OPTIONS_INIT;
  CHECK(hone_render_chat(engine, messages, &render, NULL, 0, &needed) == HONE_OK);
  CHECK(needed == strlen(want));
  CHECK(hone_render_chat(engine, messages, NULL, text, sizeof(text), &text_bytes) == HONE_OK);
  CHECK(text_bytes == strlen(want) && memcmp(text, want, text_bytes) == 0);
  render.think = HONE_THINK_ON;
  CHECK(hone_render_chat(engine, messages, &render, NULL, 0, &needed) == HONE_OK);
  CHECK(needed == text_bytes + strlen("<think>\n"));
  CHECK(hone_render_chat(engine, "{", &render, NULL, 0, &needed) != HONE_OK);
  CHECK(strlen(hone_last_message(engine)) > 0);

  CHECK(hone_tokenize(engine, text, text_bytes, HONE_TOKENIZE_PROMPT, ids, capacity, &num_ids) ==
        HONE_OK);
  CHECK(strcmp(hone_last_message(engine), "") == 0);
  CHECK(num_ids == 18 && ids[0] == 0 && ids[11] == 642);
  CHECK(hone_tokenize(engine, "Hi", 2, HONE_TOKENIZE_BOS, NULL, 0, &needed) == HONE_OK);
  CHECK(needed >= 2);
  CHECK(hone_detokenize(engine, ids, num_ids, 0, back, sizeof(back), &needed) == HONE_OK);
  CHECK(needed == text_bytes && memcmp(back, text, needed) == 0);
  CHECK(hone_tokenize(engine, "\xff", 1, 0, NULL, 0, &needed) == HONE_INVALID_ARGUMENT);
  return num_ids;
}

static void check_generate(hone_engine* engine) {
  /* golden.json of the model: greedy tokens; 643 is the fused stop token "!<|im_end|>\n". */
  static const int32_t prompt[] = {0, 276, 529, 508, 262};
  static const int32_t want[] = {279, 337, 522, 180};
  static const char* const stops[] = {"never in this answer"};
  Received received;
  hone_sequence* sequence = NULL;
  hone_generate_options options = HONE_GENERATE_OPTIONS_INIT;
  hone_generation result = HONE_GENERATION_INIT;
  memset(&received, 0, sizeof(received));
  options.callback = on_token;
  options.user = &received;
  options.stop_strings = stops;
  options.num_stop_strings = 1;
  CHECK(hone_sequence_new(engine, &sequence) == HONE_OK);
  if (sequence == NULL) return;
  CHECK(hone_generate(engine, sequence, prompt, 5, &options, &result) == HONE_OK);
  CHECK(received.num_ids == 4 && memcmp(received.ids, want, sizeof(want)) == 0);
  CHECK(received.text_bytes > 0 && received.text[received.text_bytes - 1] == '!');
  CHECK(result.finish_reason == HONE_FINISH_STOP && result.num_tokens == 4);
  CHECK(result.prefill_tokens == 5 && result.first_token_seconds > 0);
  CHECK(hone_sequence_size(sequence) == 9);

  hone_sequence_truncate(sequence, 2);
  CHECK(hone_sequence_size(sequence) == 2);
  memset(&received, 0, sizeof(received));
  received.stop_after = 2;
  CHECK(hone_generate(engine, sequence, prompt, 5, &options, &result) == HONE_OK);
  CHECK(result.finish_reason == HONE_FINISH_CANCELLED && result.num_tokens == 2);
  CHECK(result.prefill_tokens == 3);

  received.stop_after = 0;
  options.max_tokens = 3;
  CHECK(hone_generate(engine, sequence, prompt, 5, &options, &result) == HONE_OK);
  CHECK(result.finish_reason == HONE_FINISH_LENGTH && result.num_tokens == 3);
  CHECK(hone_generate(engine, sequence, prompt, 0, &options, NULL) == HONE_INVALID_ARGUMENT);
  CHECK(hone_generate(engine, NULL, prompt, 5, NULL, NULL) == HONE_INVALID_ARGUMENT);
  hone_cancel(sequence);
  hone_cancel(NULL);
  hone_sequence_free(sequence);
  hone_sequence_free(NULL);
}

int main(int argc, char** argv) {
  hone_engine* engine;
  hone_engine_options options = HONE_ENGINE_OPTIONS_INIT;
  int32_t ids[64];
  if (argc != 2) {
    fprintf(stderr, "usage: capi_test MODEL\n");
    return 2;
  }
  CHECK(strlen(hone_version()) > 0);
  check_errors(argv[1]);

  engine = hone_engine_new();
  options.num_threads = 1;
  options.kv = HONE_KV_F32;
  if (engine == NULL || hone_engine_open(engine, argv[1], &options) != HONE_OK) {
    fprintf(stderr, "cannot open %s: %s\n", argv[1], hone_last_message(engine));
    return 1;
  }
  CHECK(hone_engine_open(engine, argv[1], NULL) == HONE_INVALID_ARGUMENT);
  CHECK(hone_context_size(engine) == 256);
  CHECK(hone_vocabulary_size(engine) == 704);
  CHECK(check_text(engine, ids, 64) == 18);
  check_generate(engine);
  hone_engine_free(engine);
  return failures == 0 ? 0 : 1;
}
