#pragma once

#include <memory>
#include <string>

#include "http/handler.h"

namespace kintsugi::proxy {

/// In front of the admin listener on TCP (SE-164): lets in who shows a client certificate of a
/// member of system:kcp:admin or system:masters, or the token of `admin.token_file`; 401 and 403
/// for others. Of the console everybody gets the page itself, and nobody by another name than one
/// of this machine: 421 (OP-703). The Unix socket needs none of this: only this user and root get
/// there. Threads: one loop.
class AdminGate final : public http::Handler {
 public:
  /// @param token  "": none is accepted. @param inner  answers; must outlive it.
  AdminGate(std::string_view token, http::Handler& inner);
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override;

 private:
  std::string digest_;  ///< of the token; "": none
  http::Handler& inner_;
};

}  // namespace kintsugi::proxy
