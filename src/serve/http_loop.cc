// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/http_loop.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

namespace hone::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr std::size_t kReadBytes = 16 << 10;
constexpr std::chrono::milliseconds kAcceptPause{100};

std::string AddressText(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  }
  // An address with a zone, "fe80::1%eth0", comes as "fe80::1" in a Host field.
  const std::string text = address.to_string();
  return text.substr(0, text.find('%'));
}

void SetOption(tcp::socket& socket, int level, int name, int value) {
  // A kernel without the option is no fault: other limits end such a connection, later.
  static_cast<void>(::setsockopt(socket.native_handle(), level, name, &value, sizeof value));
}

class SocketTransport final : public Transport,
                              public std::enable_shared_from_this<SocketTransport> {
 public:
  SocketTransport(tcp::socket socket, const EventLoop::ListenOptions& options)
      : socket_(std::move(socket)), timer_(socket_.get_executor()) {
    ErrorCode error;
    const tcp::endpoint local = socket_.local_endpoint(error);
    if (!error) local_address_ = AddressText(local.address());
    const tcp::endpoint remote = socket_.remote_endpoint(error);
    if (!error) {
      const std::string host = AddressText(remote.address());
      const bool v6 = host.find(':') != std::string::npos;
      remote_name_ = StrCat(v6 ? "[" : "", host, v6 ? "]:" : ":", int{remote.port()});
    }
    socket_.set_option(tcp::no_delay(true), error);
    SetOption(socket_, SOL_SOCKET, SO_SNDBUF, options.send_buffer_bytes);
    SetOption(socket_, SOL_SOCKET, SO_KEEPALIVE, 1);
    SetOption(socket_, IPPROTO_TCP, TCP_KEEPIDLE, 15);
    SetOption(socket_, IPPROTO_TCP, TCP_KEEPINTVL, 5);
    SetOption(socket_, IPPROTO_TCP, TCP_KEEPCNT, 3);
    SetOption(socket_, IPPROTO_TCP, TCP_USER_TIMEOUT,
              static_cast<int>(std::min<std::int64_t>(options.unread_time.count(), 1 << 30)));
  }

  void SetEvents(TransportEvents* events) override { events_ = events; }

  void Read() override {
    socket_.async_read_some(asio::buffer(buffer_),
                            [self = shared_from_this()](const ErrorCode& error, std::size_t bytes) {
                              self->Tell([&](TransportEvents& events) {
                                if (error) {
                                  events.OnReadEnd(error == asio::error::eof);
                                } else {
                                  events.OnRead({self->buffer_.data(), bytes});
                                }
                              });
                            });
  }

  void Write(std::string bytes) override {
    outgoing_ = std::move(bytes);
    asio::async_write(socket_, asio::buffer(outgoing_),
                      [self = shared_from_this()](const ErrorCode& error, std::size_t /*bytes*/) {
                        self->Tell([&](TransportEvents& events) { events.OnWritten(!error); });
                      });
  }

  void ShutdownSend() override {
    ErrorCode ignored;  // the peer may be gone
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }

  void Close() override {
    events_ = nullptr;
    ErrorCode ignored;
    timer_.cancel();
    socket_.close(ignored);
  }

  bool IsPeerGone() override {
    pollfd state = {socket_.native_handle(), POLLRDHUP, 0};
    return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  }

  void SetTimer(SteadyTime at) override {
    timer_.expires_at(at);  // what waited before is cancelled
    timer_.async_wait([self = shared_from_this()](const ErrorCode& error) {
      if (!error) self->Tell([](TransportEvents& events) { events.OnTimer(); });
    });
  }

  SteadyTime Now() const override { return std::chrono::steady_clock::now(); }
  const std::string& local_address() const override { return local_address_; }
  const std::string& remote_name() const override { return remote_name_; }

  template <typename Event>
  void Tell(const Event& event) {
    if (events_ == nullptr) return;
    try {
      event(*events_);
    } catch (const std::exception&) {
      if (events_ != nullptr) events_->OnFault();
    }
  }

 private:
  tcp::socket socket_;
  asio::steady_timer timer_;
  TransportEvents* events_ = nullptr;
  std::array<char, kReadBytes> buffer_ = {};
  std::string outgoing_;
  std::string local_address_, remote_name_;
};

// Stays behind when the loop is gone, for those who still hold a poster.
struct Gate {
  std::mutex mutex;
  asio::io_context* context = nullptr;  // null: gone
};

}  // namespace

struct EventLoop::Impl {
  // One thread runs it, others only post.
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::vector<tcp::acceptor> acceptors;
  asio::steady_timer pause{context};
  ListenOptions options;
  Accept accept;
  std::uint16_t port = 0;
  bool loopback = true;
  std::shared_ptr<Gate> gate = std::make_shared<Gate>();

  Status Open(const tcp::endpoint& endpoint);
  void AcceptNext(tcp::acceptor& acceptor);
  void Take(tcp::socket socket);
};

namespace {

Status SocketError(std::string_view what, const tcp::endpoint& endpoint, const ErrorCode& error) {
  const std::string host = AddressText(endpoint.address());
  std::string hint;
  if (error == asio::error::address_in_use) hint = "; another program has the port, take another";
  if (error == asio::error::access_denied) hint = "; ports under 1024 need rights, take another";
  return Status(Code::kIo, StrCat("cannot ", what, " ", host, " port ", int{endpoint.port()}, ": ",
                                  error.message(), hint));
}

}  // namespace

Status EventLoop::Impl::Open(const tcp::endpoint& endpoint) {
  ErrorCode error;
  tcp::acceptor acceptor(context);
  acceptor.open(endpoint.protocol(), error);
  // A machine may lack IPv6 and have names for its addresses all the same.
  if (error == asio::error::address_family_not_supported) return Status();
  if (error) return SocketError("open a socket for", endpoint, error);
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  // "::" takes IPv4 too; a loopback address never does.
  if (endpoint.protocol() == tcp::v6()) acceptor.set_option(asio::ip::v6_only(false), error);
  acceptor.bind(endpoint, error);
  if (error == asio::error::make_error_code(asio::error::basic_errors(EADDRNOTAVAIL)) &&
      endpoint.protocol() == tcp::v6() && !acceptors.empty()) {
    return Status();
  }
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return SocketError("listen at", endpoint, error);
  port = acceptor.local_endpoint(error).port();
  loopback = loopback && endpoint.address().is_loopback();
  acceptors.push_back(std::move(acceptor));
  return Status();
}

void EventLoop::Impl::AcceptNext(tcp::acceptor& acceptor) {
  acceptor.async_accept([this, &acceptor](const ErrorCode& error, tcp::socket socket) {
    if (!acceptor.is_open()) return;
    if (!error) {
      Take(std::move(socket));
      AcceptNext(acceptor);
      return;
    }
    // Out of file descriptors or memory, most likely: trying at once would spin.
    pause.expires_after(kAcceptPause);
    pause.async_wait([this, &acceptor](const ErrorCode& /*cancelled*/) {
      if (acceptor.is_open()) AcceptNext(acceptor);
    });
  });
}

void EventLoop::Impl::Take(tcp::socket socket) {
  try {
    accept(std::make_shared<SocketTransport>(std::move(socket), options));
  } catch (const std::exception&) {
    // No memory for one more connection: its socket closes.
  }
}

EventLoop::EventLoop() : impl_(std::make_shared<Impl>()) { impl_->gate->context = &impl_->context; }

EventLoop::~EventLoop() {
  const std::lock_guard lock(impl_->gate->mutex);
  impl_->gate->context = nullptr;
}

Status EventLoop::Listen(const ListenOptions& options, Accept accept) {
  impl_->options = options;
  impl_->accept = std::move(accept);
  tcp::resolver resolver(impl_->context);
  ErrorCode error;
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  if (error) {
    return Status(Code::kInvalidArgument,
                  StrCat("host '", options.host, "': ", error.message(),
                         "; expected a name or an address of this machine"));
  }
  std::vector<tcp::endpoint> endpoints;
  for (const auto& entry : found) {
    if (std::find(endpoints.begin(), endpoints.end(), entry.endpoint()) == endpoints.end()) {
      endpoints.push_back(entry.endpoint());
    }
  }
  // IPv4 first: its port is the one that the others take.
  std::stable_sort(endpoints.begin(), endpoints.end(), [](const auto& a, const auto& b) {
    return a.address().is_v4() && !b.address().is_v4();
  });
  for (tcp::endpoint endpoint : endpoints) {
    if (impl_->port != 0) endpoint.port(impl_->port);
    HONE_TRY(impl_->Open(endpoint));
  }
  if (impl_->acceptors.empty()) {
    return Status(Code::kIo, StrCat("this machine has no address of host '", options.host, "'"));
  }
  for (tcp::acceptor& acceptor : impl_->acceptors) impl_->AcceptNext(acceptor);
  return Status();
}

std::uint16_t EventLoop::port() const { return impl_->port; }
bool EventLoop::is_loopback() const { return impl_->loopback; }

void EventLoop::Run() {
  for (;;) {
    try {
      impl_->context.run();
      return;
    } catch (const std::exception&) {
      // A posted task found no memory; the others go on.
    }
  }
}

void EventLoop::StopListening() {
  ErrorCode ignored;
  for (tcp::acceptor& acceptor : impl_->acceptors) acceptor.close(ignored);
  impl_->pause.cancel();
}

void EventLoop::Stop() { impl_->context.stop(); }

EventLoop::Poster EventLoop::poster() const {
  return [gate = impl_->gate](std::function<void()> task) {
    const std::lock_guard lock(gate->mutex);
    if (gate->context != nullptr) asio::post(*gate->context, std::move(task));
  };
}

}  // namespace hone::serve
