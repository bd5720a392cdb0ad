#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "net/loop.h"

namespace kintsugi::net {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

/// The address when `host` is a numeric IPv4 or IPv6 address.
[[nodiscard]] std::optional<SocketAddress> numeric_address(const std::string& host,
                                                           std::uint16_t port);

/// "localhost" and names below it, in any case, with or without a dot at the end.
/// Source: RFC 6761, 6.3: they are this machine, whatever a resolver says.
[[nodiscard]] bool is_localhost(std::string_view host);

/// Looks a name up on the calling thread, for as long as the system's resolver takes (Asio's).
/// is_localhost() names are 127.0.0.1 and ::1 without asking anybody.
/// @param configured only addresses of families that this machine has an address of.
/// @error kUnreachable with name and cause.
[[nodiscard]] Expected<std::vector<SocketAddress>> look_up_now(const std::string& host,
                                                               std::uint16_t port, bool configured);

/// A look-up on the process's one resolver thread ("kin-dns"). Destroying it cancels: `done` is
/// never called then.
class Lookup {
 public:
  using Done = std::function<void(Expected<std::vector<SocketAddress>>)>;
  /// `done` runs on `loop`. @error kUnreachable with name and cause.
  Lookup(Loop& loop, std::string host, std::uint16_t port, Done done);
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  struct Ticket;

 private:
  std::shared_ptr<Ticket> ticket_;
};

/// Tries the addresses in order until one takes a TCP connection; each gets its share of the
/// deadline. Destroying it cancels.
class Connect final : public FdHandler {
 public:
  using Done = std::function<void(Expected<int>)>;
  using Tried = std::function<void(const SocketAddress&, bool connected)>;
  /// `done` gets a connected non-blocking descriptor and owns it; it comes in a later turn and may
  /// destroy this object.
  /// @param tried hears of every address that was decided; may be empty.
  /// @error kRefused, kUnreachable  of the last address tried
  Connect(Loop& loop, std::vector<SocketAddress> addresses, Duration timeout, Done done,
          Tried tried = {});
  ~Connect();
  Connect(const Connect&) = delete;
  Connect& operator=(const Connect&) = delete;

  void on_ready(bool readable, bool writable) noexcept override;

 private:
  void next();
  void tell(bool connected);
  void finish(Expected<int> result);
  void drop() noexcept;

  Loop& loop_;
  std::vector<SocketAddress> addresses_;
  std::size_t position_ = 0;
  int fd_ = -1;
  int last_error_ = 0;
  Done done_;
  Tried tried_;
  Duration share_;
  Timer timer_, share_timer_;
};

}  // namespace kintsugi::net
