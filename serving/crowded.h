#pragma once

#include <memory>

#include "auth/user.h"
#include "http/handler.h"
#include "net/listener.h"

namespace kintsugi::serving {

/// Answers the connections of a user who has too many (SE-081): 429, and the connection's end.
/// Threads: its loop.
class CrowdedHandler final : public http::Handler {
 public:
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override;
};

/// ListenerParams::owner of a listener that clients connect to. Servers and operators of the
/// installation may have as many as they want.
/// @param user  of a connection whose certificate holds; null: there is none
[[nodiscard]] net::ConnectionOwner owner_of(const auth::UserInfo* user, const http::PeerInfo& peer);

}  // namespace kintsugi::serving
