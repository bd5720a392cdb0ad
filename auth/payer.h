#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "auth/user.h"
#include "base/time.h"
#include "http/handler.h"
#include "net/body_gate.h"

namespace kintsugi::auth {

/// Whom a request is charged to (SE-071): a verified user by name, a ServiceAccount's logical
/// cluster, so that any number of accounts has one purse, else the address.
/// @param user     who authenticated, never whom he impersonates; without a name: nobody
/// @param tree_of  the logical cluster whose purse pays for that one; empty: its own
/// @param address  of the client
using TreeOf = std::function<std::string(std::string_view cluster)>;
[[nodiscard]] net::BodyPayer payer_of(const UserInfo& user, std::string_view address,
                                      const TreeOf& tree_of = nullptr);

/// Bearers that only a shard can judge: whoever it has answered otherwise than with 401 within ten
/// minutes pays for himself. Remembers 65,536 at most. Threads: one loop.
class BearerBook {
 public:
  /// @param headers  of a request whose bearer the proxy passes on
  void note_accepted(const http::HeaderList& headers, TimePoint now);
  /// "": none, or none that is known.
  [[nodiscard]] std::string payer(const http::HeaderList& headers, TimePoint now) const;

 private:
  std::unordered_map<std::string, TimePoint> seen_;  // by digest
};

/// The address that the proxy in front appended to X-Forwarded-For; "" without one.
[[nodiscard]] std::string_view last_forwarded(const http::HeaderList& headers) noexcept;

/// Tells connections apart: "address port".
[[nodiscard]] std::string connection_of(const http::PeerInfo& peer);

}  // namespace kintsugi::auth
