#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "apiserver/view.h"
#include "auth/user.h"
#include "net/loop.h"

namespace kintsugi::apiserver::internal {

class Server;
class Watcher;

/// What an open watch was allowed by, kept for asking again (AM-312).
struct WatchRights {
  std::shared_ptr<const auth::UserInfo> user;
  std::string ns, name;
  std::shared_ptr<View> view;  ///< null: none
};

/// Asks the authorizer again about open watches after rights in their cluster changed, a few at a
/// time, and ends those that are not allowed any more. Cost while nothing changes: none.
/// Threads: the server's loop.
class WatchReview {
 public:
  explicit WatchReview(Server& server);
  ~WatchReview();

  /// One copy for all watches of a user, as long as its watches come close together.
  [[nodiscard]] std::shared_ptr<const auth::UserInfo> share(const auth::UserInfo& user);
  /// Rights in `cluster` changed. Changes within a second are looked at together.
  void schedule(std::string_view cluster);

 private:
  void start();
  void step();
  void check(std::size_t index);

  Server& server_;
  net::Timer delay_;
  std::set<std::string, std::less<>> waiting_;  ///< clusters for the next pass
  std::set<std::string, std::less<>> running_;  ///< clusters of the pass that runs
  std::size_t left_ = 0;                        ///< watches that the pass has still to see
  std::array<std::shared_ptr<const auth::UserInfo>, 16> users_;
  std::size_t next_user_ = 0;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace kintsugi::apiserver::internal
