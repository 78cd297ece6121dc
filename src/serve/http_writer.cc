// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/http_writer.h"

#include <algorithm>
#include <utility>

#include "serve/http_exchange.h"

namespace hone::serve {

ResponseWriter::ResponseWriter(std::shared_ptr<Exchange> exchange)
    : exchange_(std::move(exchange)) {}
ResponseWriter::~ResponseWriter() { exchange_->Abandon(); }

bool ResponseWriter::Send(Response response) { return exchange_->Send(std::move(response)); }
bool ResponseWriter::BeginStream(StreamOptions options) {
  return exchange_->BeginStream(std::move(options));
}
bool ResponseWriter::Write(std::string_view piece) { return exchange_->Write(piece); }
bool ResponseWriter::EndStream() { return exchange_->EndStream(); }
void ResponseWriter::AbortStream() { exchange_->AbortStream(); }
CancelReason ResponseWriter::cancel_reason() const { return exchange_->cancel_reason(); }
void ResponseWriter::OnCancel(std::function<void(CancelReason)> callback) {
  exchange_->OnCancel(std::move(callback));
}
std::size_t ResponseWriter::queued_bytes() const { return exchange_->queued_bytes(); }

std::string SseEvent(std::string_view data, std::string_view name) {
  std::string event;
  if (!name.empty()) event.append("event: ").append(name).append("\n");
  for (bool more = true; more;) {
    // CR and CR LF end a line of an event too.
    const std::size_t end = std::min(data.find_first_of("\r\n"), data.size());
    event.append("data: ").append(data.substr(0, end)).append("\n");
    more = end < data.size();
    data.remove_prefix(end);
    if (more) data.remove_prefix(data.starts_with("\r\n") ? 2 : 1);
  }
  event += "\n";
  return event;
}

}  // namespace hone::serve
