#include "serving/crowded.h"

#include <utility>

#include "auth/payer.h"
#include "http/guarded_answer.h"
#include "serving/answer.h"
#include "serving/fair_seats.h"
#include "serving/payer_bounds.h"

namespace kintsugi::serving {

std::unique_ptr<http::RequestHandler> CrowdedHandler::on_request(
    http::RequestHead head, http::ResponseStream& stream) noexcept {
  return http::guarded_answer("crowded connection", stream, head.method == "HEAD", [&] {
    stream.close_connection_after();
    Error error(Errc::kTooManyRequests,
                "Too many connections of this user, please use those that are open.");
    error.edit().retry_after_seconds = 5;
    return answer_error(head, stream, error);
  });
}

net::ConnectionOwner owner_of(const auth::UserInfo* user, const http::PeerInfo& peer) {
  if (user == nullptr) {
    return {};
  }
  if (!is_bounded(level_of(*user))) {
    return {{}, true};
  }
  net::BodyPayer payer = auth::payer_of(*user, peer.address);
  return {payer.known ? std::move(payer.name) : std::string(), false};
}

}  // namespace kintsugi::serving
