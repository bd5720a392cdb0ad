#include "net/byte_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <utility>

#include "base/memory.h"
#include "net/internal/dialer.h"
#include "net/transport.h"

namespace kintsugi::net {
namespace {

constexpr auto kLastWords = seconds(1);

Expected<SslPtr> make_ssl(const TlsContext& context, const std::string& host) {
  ERR_clear_error();
  SslPtr ssl(SSL_new(context.native()));
  if (ssl == nullptr) {
    return fail(Errc::kTls, take_tls_error());
  }
  SSL_set_connect_state(ssl.get());
  const std::string& configured = context.params().server_name;
  const std::string& name = configured.empty() ? host : configured;
  const bool ok = numeric_address(name, 0)
                      ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), name.c_str()) == 1
                      : SSL_set_tlsext_host_name(ssl.get(), name.c_str()) == 1 &&
                            SSL_set1_host(ssl.get(), name.c_str()) == 1;
  if (!ok) {
    return fail(Errc::kTls, "server name \"" + name + "\" cannot be used: " + take_tls_error());
  }
  return ssl;
}

}  // namespace

class ByteStream::Link final : public FdHandler, public Loop::Flushable {
 public:
  Link(Loop& loop, Params params, Callbacks callbacks)
      : loop_(loop), params_(std::move(params)), callbacks_(std::move(callbacks)), timer_(loop) {
    timer_.start(params_.open_deadline, [this] {
      end(stage_ == Stage::kHandshake ? "TLS handshake timed out" : "connect timed out");
    });
    const std::string& to = params_.address.empty() ? params_.host : params_.address;
    if (const auto numeric = numeric_address(to, params_.port)) {
      connect({*numeric});
      return;
    }
    lookup_ = std::make_unique<Lookup>(loop_, to, params_.port,
                                       [this](Expected<std::vector<SocketAddress>> found) {
                                         if (stage_ == Stage::kClosed) {
                                           return;
                                         }
                                         if (found) {
                                           connect(std::move(*found));
                                         } else {
                                           end(std::string(found.error().message()));
                                         }
                                       });
  }
  ~Link() {
    loop_.unmark_dirty(*this);
    drop();
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void on_ready(bool readable, bool writable) noexcept override;
  void on_hangup() noexcept override {
    hangup_ = true;
    on_ready(true, true);
  }
  void flush() noexcept override;

  [[nodiscard]] bool write(std::string_view bytes) {
    if (stage_ == Stage::kClosed || closing_ ||
        bytes.size() > params_.max_queued - std::min(queued(), params_.max_queued)) {
      return false;
    }
    waiting_ += bytes;
    if (stage_ == Stage::kOpen) {
      loop_.mark_dirty(*this);
    }
    return true;
  }
  [[nodiscard]] std::size_t queued() const noexcept {
    return waiting_.size() - written_ + (transport_ == nullptr ? 0 : transport_->held());
  }
  void close();
  [[nodiscard]] bool is_open() const noexcept { return stage_ == Stage::kOpen && !closing_; }
  [[nodiscard]] bool is_closed() const noexcept { return stage_ == Stage::kClosed || closing_; }

 private:
  enum class Stage : std::uint8_t { kDialling, kHandshake, kOpen, kClosed };

  void connect(std::vector<SocketAddress> addresses) {
    connect_ = std::make_unique<Connect>(loop_, std::move(addresses), params_.open_deadline,
                                         [this](Expected<int> fd) { on_connected(std::move(fd)); });
  }
  void on_connected(Expected<int> fd);
  void on_established();
  void read();
  void end(std::string error);
  void drop() noexcept {
    if (transport_ != nullptr) {
      loop_.forget(transport_->fd());
      transport_->close();
    }
  }

  Loop& loop_;
  const Params params_;
  const Callbacks callbacks_;
  Stage stage_ = Stage::kDialling;
  bool hangup_ = false, closing_ = false;
  std::unique_ptr<Lookup> lookup_;
  std::unique_ptr<Connect> connect_;
  std::unique_ptr<Transport> transport_;
  std::string waiting_;
  std::size_t written_ = 0;  // of what waits
  Timer timer_;
};

void ByteStream::Link::on_connected(Expected<int> fd) {
  if (!fd) {
    end(std::string(fd.error().message()));
    return;
  }
  transport_ = std::make_unique<Transport>(loop_.scratch(), *fd);
  if (closing_) {
    return;  // a timer ends it
  }
  if (params_.tls == nullptr) {
    loop_.watch(*fd, *this);
    on_established();
    return;
  }
  Expected<SslPtr> ssl = make_ssl(*params_.tls, params_.host);
  if (!ssl) {
    end(std::string(ssl.error().message()));
    return;
  }
  transport_->set_tls(std::move(*ssl));
  stage_ = Stage::kHandshake;
  loop_.watch(*fd, *this);
  if (transport_->handshake() == Transport::Result::kBroken) {
    end(transport_->error());
    return;
  }
  if (transport_->hold()) {
    loop_.mark_dirty(*this);
  }
}

void ByteStream::Link::on_established() {
  stage_ = Stage::kOpen;
  timer_.cancel();
  loop_.mark_dirty(*this);
  callbacks_.on_open();
}

void ByteStream::Link::on_ready(bool readable, bool writable) noexcept {
  if (stage_ == Stage::kClosed) {
    return;
  }
  if (writable && transport_->blocked()) {
    transport_->writable();
    loop_.mark_dirty(*this);
  }
  if (readable) {
    read();
  }
}

void ByteStream::Link::read() {
  if (closing_ && stage_ != Stage::kOpen) {
    return;
  }
  bool full = false;
  switch (transport_->receive(full)) {
    case Transport::Result::kOk:
      break;
    case Transport::Result::kBlocked:
      return;
    case Transport::Result::kEnd:
      end(stage_ == Stage::kHandshake ? "the peer ended the connection during the TLS handshake"
                                      : "");
      return;
    case Transport::Result::kBroken:
      end(transport_->error());
      return;
  }
  if (stage_ == Stage::kHandshake) {
    const Transport::Result result = transport_->handshake();
    if (result == Transport::Result::kBroken || result == Transport::Result::kEnd) {
      end(transport_->error().empty() ? "TLS handshake failed" : transport_->error());
      return;
    }
    if (result == Transport::Result::kOk) {
      // The callback may write, but nothing is sent or read before the flush pass: what was
      // received stays where it is.
      on_established();
    }
  }
  if (stage_ == Stage::kOpen) {
    std::string_view plain;
    const Transport::Result result = transport_->decrypt(plain);
    // What TLS itself answers waits in the shared buffer.
    (void)transport_->hold();
    if (!plain.empty() && !closing_) {
      callbacks_.on_bytes(plain);
    }
    if (stage_ != Stage::kOpen) {
      return;
    }
    if (result != Transport::Result::kOk) {
      end(result == Transport::Result::kEnd ? "" : transport_->error());
      return;
    }
  }
  (void)transport_->hold();
  loop_.mark_dirty(*this);
  if (full || hangup_) {
    loop_.read_again(transport_->fd());
  }
}

void ByteStream::Link::flush() noexcept {
  if (stage_ == Stage::kClosed || transport_ == nullptr) {
    return;
  }
  const std::size_t before = queued();
  transport_->begin_send();
  Transport::Result result = Transport::Result::kOk;
  if (transport_->held() != 0) {
    result = transport_->send();
  }
  if (result == Transport::Result::kOk && stage_ == Stage::kOpen) {
    while (written_ < waiting_.size()) {
      const std::size_t size = std::min(waiting_.size() - written_, transport_->room());
      if (size == 0) {
        break;
      }
      transport_->put(std::string_view(waiting_).substr(written_, size));
      written_ += size;
    }
  }
  if (result == Transport::Result::kOk) {
    result = transport_->send();
  }
  if (written_ == waiting_.size()) {
    give_back(waiting_);
    written_ = 0;
  } else if (written_ > waiting_.size() / 2) {
    waiting_.erase(0, std::exchange(written_, 0));
  }
  if (result == Transport::Result::kBroken) {
    end(transport_->error());
    return;
  }
  if (!waiting_.empty() && !transport_->blocked()) {
    loop_.mark_dirty(*this);
  }
  if (closing_) {
    if (queued() == 0) {
      transport_->finish();
      timer_.start(Duration::zero(), [this] { end(""); });
    }
    return;
  }
  if (stage_ == Stage::kOpen && queued() < before && callbacks_.on_written) {
    callbacks_.on_written();
  }
}

void ByteStream::Link::close() {
  if (stage_ == Stage::kClosed || closing_) {
    return;
  }
  closing_ = true;
  const bool open = stage_ == Stage::kOpen;
  timer_.start(open ? Duration(kLastWords) : Duration::zero(), [this] { end(""); });
  if (open) {
    loop_.mark_dirty(*this);
  }
}

void ByteStream::Link::end(std::string error) {
  if (stage_ == Stage::kClosed) {
    return;
  }
  stage_ = Stage::kClosed;
  timer_.cancel();
  loop_.unmark_dirty(*this);
  // The callbacks of the two may be what runs now.
  loop_.defer([lookup = std::shared_ptr<Lookup>(std::move(lookup_)),
               connect = std::shared_ptr<Connect>(std::move(connect_))] {});
  if (transport_ != nullptr && error.empty()) {
    transport_->finish();
  }
  drop();
  callbacks_.on_closed(closing_ ? std::string() : error);
}

ByteStream::ByteStream(Loop& loop, Params params, Callbacks callbacks)
    : link_(std::make_unique<Link>(loop, std::move(params), std::move(callbacks))) {}
ByteStream::~ByteStream() = default;
bool ByteStream::is_open() const noexcept { return link_->is_open(); }
bool ByteStream::is_closed() const noexcept { return link_->is_closed(); }
bool ByteStream::write(std::string_view bytes) { return link_->write(bytes); }
std::size_t ByteStream::queued() const noexcept { return link_->queued(); }
void ByteStream::close() { link_->close(); }

}  // namespace kintsugi::net
