// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/api_sink.h"

#include <utility>

namespace hone::serve {
namespace {

constexpr int kRetryAfterStopSeconds = 10;

HeaderList Fields(const std::vector<std::pair<std::string, std::string>>& headers,
                  std::string* content_type) {
  HeaderList fields;
  for (const auto& [name, value] : headers) {
    if (name == "Content-Type") {
      *content_type = value;
    } else {
      fields.Add(name, value);
    }
  }
  return fields;
}

}  // namespace

ApiSink::ApiSink(std::shared_ptr<ResponseWriter> writer, std::chrono::milliseconds keep_alive,
                 std::shared_ptr<std::atomic<std::int64_t>> num_running)
    : writer_(std::move(writer)), keep_alive_(keep_alive), num_running_(std::move(num_running)) {
  ++*num_running_;
}

ApiSink::~ApiSink() {
  if (!finished_) --*num_running_;
}

void ApiSink::Begin(const openai::ResponseHead& head) {
  begun_ = true;
  stream_ = head.stream;
  if (!stream_) {
    response_ = Response();
    response_.status = head.http_status;
    response_.headers = Fields(head.headers, &response_.content_type);
    return;
  }
  StreamOptions options;
  options.status = head.http_status;
  options.headers = Fields(head.headers, &options.content_type);
  options.keep_alive = keep_alive_;
  writer_->BeginStream(std::move(options));
}

void ApiSink::Write(std::string_view bytes) {
  if (stream_) {
    writer_->Write(bytes);
  } else {
    response_.body += bytes;
  }
}

void ApiSink::Finish() {
  if (stream_ && writer_->cancelled()) {
    writer_->AbortStream();  // what is missing must not look like an end
  } else if (stream_) {
    writer_->EndStream();
  } else if (begun_) {
    writer_->Send(std::move(response_));
  } else if (writer_->cancel_reason() == CancelReason::kShutdown) {
    writer_->Send(ApiErrorResponse(openai::Unavailable(
        "draining", "the server stopped before the answer was complete", kRetryAfterStopSeconds)));
  } else {  // nobody reads it
    writer_->Send(ApiErrorResponse(openai::Unavailable("cancelled", "the client went away", 1)));
  }
  finished_ = true;
  --*num_running_;
}

Response ApiErrorResponse(const openai::ApiError& error) {
  Response response;
  response.status = error.http_status;
  response.body = openai::ErrorJson(error).Dump();
  if (error.retry_after_seconds > 0) {
    response.headers.Add("Retry-After", std::to_string(error.retry_after_seconds));
  }
  if (!error.allow.empty()) response.headers.Add("Allow", error.allow);
  return response;
}

}  // namespace hone::serve
