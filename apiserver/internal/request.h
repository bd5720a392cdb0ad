#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/internal/concurrency.h"
#include "apiserver/internal/media.h"
#include "apiserver/view.h"
#include "auth/bearer.h"
#include "auth/user.h"
#include "base/error.h"
#include "http/handler.h"
#include "krm/request_info.h"
#include "net/body_gate.h"
#include "net/loop.h"
#include "serving/fair_seats.h"
#include "serving/request_limits.h"

namespace kintsugi::apiserver::internal {

class Exchange;
class Server;

/// What is known of one request. Shared by the steps that wait for something; `exchange` becomes
/// null when the stream is gone, then answers go nowhere. Threads: its loop.
struct Request {
  Request(Server& owner, http::RequestHead request_head, net::Loop& loop)
      : server(owner), head(std::move(request_head)), received(loop.now()), deadline(loop) {}

  Server& server;
  Exchange* exchange = nullptr;
  http::RequestHead head;
  auth::BearerPtr token;                               ///< null: no Authorization header
  auth::UserInfo user;                                 ///< the effective one
  std::unique_ptr<const auth::UserInfo> impersonator;  ///< who speaks for `user`, if anybody
  std::string constraint;  ///< the constrained impersonation that let it, auth::Impersonator
  /// Whose rights count when the view made `user` another (View::acts_as).
  std::unique_ptr<const auth::UserInfo> caller;
  int status = 0;        ///< of the answer, once it has begun
  bool streams = false;  ///< the answer goes on: a watch, a long list
  TimePoint received;
  std::int64_t received_at = 0;  ///< [us since 1970]; set for the audit log only
  bool outside = false;          ///< not in any logical cluster
  std::string_view access;       ///< krm::kAccessHeader of a refusal; "": not asked
  bool terse = false;            ///< health checks are not listed
  bool caught_up = false;        ///< has waited for definitions that were on their way
  bool is_current = false;       ///< has waited for what other processes had written
  std::string cluster;
  std::shared_ptr<View> view;       ///< null: the cluster as it is
  store::Revision watch_after = 0;  ///< ClusterTarget::watch_after
  std::string api_root;
  krm::RequestInfo info;
  std::string audit_id;
  std::vector<AcceptClause> accept;
  Form form;
  std::vector<std::string> warnings;
  std::vector<std::pair<std::string, std::string>> annotations;  ///< for the audit log
  /// Its place among those that run: from when its body is whole (SE-075) to the end of the work.
  Seat seat;
  bool seat_due = false;  ///< it has none yet, since its body is not whole
  serving::Seat turn;     ///< its place in the queues, and the seat that it gets there
  Duration patience = Duration::max();  ///< so long may it wait for its turn
  serving::RequestLimiter::Pass pass;   ///< what it counts for against the limits
  serving::RequestLimiter::Pass open;   ///< and, a watch, against what its payer may have open
  std::string body;
  std::unique_ptr<net::BodyHold> hold;  ///< of the body; null: there is none
  bool body_complete = false;
  bool body_too_large = false;
  std::function<void()> on_body;  ///< waits for the body
  net::Timer deadline;
  TimePoint ends = TimePoint::max();  ///< when it does

  [[nodiscard]] bool is_gone() const noexcept { return exchange == nullptr; }
  /// What is served where the request goes.
  [[nodiscard]] const Registry& registry() const;
  [[nodiscard]] const auth::UserInfo& asked_user() const noexcept {
    return caller == nullptr ? user : *caller;
  }
  [[nodiscard]] std::string_view header(std::string_view name) const noexcept {
    const std::string_view value = head.headers.get(name);
    return value.data() == nullptr ? std::string_view("") : value;
  }
  void warn(std::string text);
};
using RequestPtr = std::shared_ptr<Request>;

/// Goes on sending after the head: long lists and watches. Owned by the exchange, ends with it.
class Producer {
 public:
  virtual ~Producer() = default;
  /// The stream has room again.
  virtual void on_drained() noexcept = 0;
  /// What the client sends after the head: the frames of a WebSocket.
  virtual void on_data(std::string_view bytes, bool end) noexcept {
    (void)bytes;
    (void)end;
  }
};

/// The server's side of one stream. Small, because idle watches keep it: request data goes away
/// when the answer has begun.
class Exchange final : public http::RequestHandler, private net::BodyHold::Owner {
 public:
  Exchange(Server& server, http::ResponseStream& stream) : server_(server), stream_(stream) {}
  ~Exchange() override;
  void start(RequestPtr request);

  void on_data(std::string_view bytes, bool end) noexcept override;
  void on_trailers(http::HeaderList trailers) noexcept override;
  void on_drained() noexcept override;
  void on_close(Errc cause) noexcept override;

  [[nodiscard]] http::ResponseStream& stream() noexcept { return stream_; }
  /// Who pays for the request (SE-071).
  [[nodiscard]] net::BodyPayer payer() const { return body_payer(); }
  /// How long the request has waited for its turn at the proxy that it came through (SE-077).
  [[nodiscard]] Duration waited() const noexcept;
  /// The answer is complete or in a producer's hands: lets go of the request.
  void release_request() noexcept;
  void set_producer(std::unique_ptr<Producer> producer) { producer_ = std::move(producer); }

 private:
  [[nodiscard]] bool is_from_proxy() const noexcept;
  [[nodiscard]] net::BodyPayer body_payer() const override;
  void give_body_credit(std::size_t bytes) noexcept override { stream_.consume(bytes); }
  void refuse_body(const Error& error) noexcept override;
  /// False: there is no room, and it has been said.
  [[nodiscard]] bool take_body(Request& request, std::string_view bytes);

  Server& server_;
  http::ResponseStream& stream_;
  RequestPtr request_;
  std::unique_ptr<Producer> producer_;
  Seat seat_;                                            // of a list, while it is sent
  std::unique_ptr<serving::RequestLimiter::Pass> pass_;  // of a watch, while there are limits
  std::unique_ptr<serving::RequestLimiter::Pass> open_;  // the same of Request::open
};

/// Takes a place among those that run (AM-067): reads until their answer is complete, watches until
/// they have begun, writes until nothing works for them any more. False: its pool is full.
[[nodiscard]] bool take_seat(Request& request);

}  // namespace kintsugi::apiserver::internal
