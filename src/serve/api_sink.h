// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Responses of the API go out through a ResponseWriter.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "serve/http_writer.h"
#include "serve/openai/endpoints.h"

namespace hone::serve {

// Counts itself in num_running from its making to Finish.
class ApiSink final : public openai::ResponseSink {
 public:
  ApiSink(std::shared_ptr<ResponseWriter> writer, std::chrono::milliseconds keep_alive,
          std::shared_ptr<std::atomic<std::int64_t>> num_running);
  ~ApiSink() override;
  ApiSink(const ApiSink&) = delete;
  ApiSink& operator=(const ApiSink&) = delete;

  void Begin(const openai::ResponseHead& head) override;
  void Write(std::string_view bytes) override;
  void Finish() override;
  bool cancelled() const override { return writer_->cancelled(); }

 private:
  std::shared_ptr<ResponseWriter> writer_;
  std::chrono::milliseconds keep_alive_;
  std::shared_ptr<std::atomic<std::int64_t>> num_running_;
  bool begun_ = false, stream_ = false, finished_ = false;
  Response response_;  // one that is no stream, while it grows
};

// The same as the openai layer's error, for what the server itself refuses.
Response ApiErrorResponse(const openai::ApiError& error);

}  // namespace hone::serve
