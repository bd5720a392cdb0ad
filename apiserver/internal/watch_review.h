#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "apiserver/view.h"
#include "auth/proof.h"
#include "auth/user.h"
#include "base/alive.h"
#include "net/loop.h"

namespace kintsugi::apiserver::internal {

class Server;
class Watcher;

/// What an open watch was allowed by, kept for asking again (AM-312).
struct WatchRights {
  std::shared_ptr<const auth::UserInfo> user;
  std::string ns, name;
  std::shared_ptr<View> view;  ///< null: none
  auth::ProofPtr proof;        ///< of who asked; null: of nobody
};

/// Asks the authorizer again about open watches after rights in their cluster changed, a few at a
/// time (at most 128 answers are awaited), and ends those that are not allowed any more with an
/// ERROR event 403 (SE-047). Cost while nothing changes: none.
/// Threads: the server's loop.
class WatchReview {
 public:
  explicit WatchReview(Server& server);
  ~WatchReview();

  /// One copy for all watches of a user, as long as its watches come close together.
  [[nodiscard]] std::shared_ptr<const auth::UserInfo> share(const auth::UserInfo& user);
  /// Rights in `cluster` changed. Changes within a second are looked at together.
  void schedule(std::string_view cluster);
  /// Rights may have changed anywhere.
  void schedule_all();

 private:
  /// Whose watches a pass asks about.
  struct Clusters {
    std::set<std::string, std::less<>> named;
    bool all = false;
    [[nodiscard]] bool empty() const noexcept { return !all && named.empty(); }
    [[nodiscard]] bool contains(std::string_view cluster) const {
      return all || named.find(cluster) != named.end();
    }
  };

  void wait();
  void start();
  void step();
  void go_on();
  void check(std::size_t index);

  Server& server_;
  net::Timer delay_;
  Clusters waiting_;       ///< for the next pass
  Clusters running_;       ///< of the pass that runs
  std::size_t left_ = 0;   ///< watches that the pass has still to see
  std::size_t asked_ = 0;  ///< answers that are awaited
  bool stepping_ = false;  ///< a step runs or will
  std::array<std::shared_ptr<const auth::UserInfo>, 16> users_;
  std::size_t next_user_ = 0;
  Alive alive_;
};

}  // namespace kintsugi::apiserver::internal
