#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "auth/authenticator.h"
#include "auth/authorizer.h"
#include "auth/user.h"
#include "base/alive.h"
#include "http/handler.h"
#include "net/loop.h"
#include "proxy/console/console_link.h"
#include "proxy/console/internal/viewer_scope.h"
#include "proxy/routing/request.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// The console at the proxy's main port (OP-704): the page is for everybody; below /ui/api/v1/ who
/// asks is known by certificate or token, and is shown what the authorizer says that he may get as
/// a path in root, or list. The answers are made on the control loop. Threads: its data loop.
class ConsoleRequests {
 public:
  struct Params {
    net::Loop& loop;
    std::shared_ptr<topology::SnapshotView> view;
    auth::Authorizer& authorizer;
    ConsoleDoor door;
    /// So often the rights of a live stream are asked for again.
    Duration recheck = seconds(60);
    /// Whom root takes the bearer of a token for that only shards can judge; null: nobody is asked.
    auth::Authenticator* token_reviews = nullptr;
  };
  /// It ends once they have become others, or could not be asked for more often than this.
  static constexpr int kMostUnknown = 5;
  /// Until an answer begins; then 503.
  static constexpr Duration kPatience = seconds(10);

  explicit ConsoleRequests(Params params);
  ~ConsoleRequests();
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(Request&& request,
                                                                 http::ResponseStream& stream);
  /// Live streams end in order: the process stops.
  void end();

 private:
  class Linked;
  using Judged = std::function<void(Expected<ViewerScope>)>;
  /// @param token  what says who he is; null: his connection does
  [[nodiscard]] std::unique_ptr<http::RequestHandler> show(const auth::UserInfo& user,
                                                           auth::BearerPtr token, Request&& request,
                                                           http::ResponseStream& stream);
  /// @param names  of kConsoleNames
  void judge(const auth::UserInfo& user, const std::vector<std::string_view>& names,
             const std::string& cluster, Judged done);

  Params params_;
  std::vector<Linked*> live_;
  Alive alive_;
};

}  // namespace kintsugi::proxy
