#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/loop.h"
#include "net/task.h"
#include "store/etcd/etcd_store.h"
#include "store/etcd/internal/client.h"
#include "store/etcd/internal/keys.h"
#include "store/etcd/internal/members.h"
#include "store/etcd/internal/meta.h"

namespace kintsugi::store::etcd {

/// What is asked of an etcd before anything else: who is there, what it can do, whose prefix it is
/// (GR-124). Threads: the client's loop.
class Introduction {
 public:
  /// @param replica  random; all of these outlive it
  Introduction(net::Loop& loop, Client& client, MemberChoice& choice, const EtcdParams& params,
               const Keys& keys, std::string replica)
      : loop_(loop),
        client_(client),
        choice_(choice),
        params_(params),
        keys_(keys),
        replica_(std::move(replica)) {}

  /// Authenticates, looks at the members and tries a transaction; again until the start timeout
  /// where that may help.
  /// @error kConfig what cannot become right by itself; kUnavailable.
  [[nodiscard]] net::Task<Expected<void>> run();
  [[nodiscard]] net::Task<Expected<void>> authenticate();
  /// One answers at least, and all that do are supported and of one cluster.
  [[nodiscard]] net::Task<Expected<void>> look_at_members();

  /// Of run().
  [[nodiscard]] std::uint64_t cluster_id() const noexcept { return cluster_id_; }
  /// Every member's answers about progress hold (GR-113).
  [[nodiscard]] bool tells_progress() const noexcept { return tells_progress_; }

  struct Known {
    Meta meta;
    std::uint64_t revision = 0;  ///< etcd's, of the key
  };
  struct Read {
    std::optional<Known> known;
    std::uint64_t head = 0;  ///< etcd's newest revision
  };
  /// @error kConfig as parse_meta(); kUnavailable.
  [[nodiscard]] net::Task<Expected<Read>> read_meta();

  [[nodiscard]] net::Task<Reply> ask(std::size_t member, CallRequest request);
  /// What an answer says of who gave it.
  void note(std::size_t member, const Reply& reply);
  [[nodiscard]] CallRequest request_of(std::string_view method, std::string message) const;

 private:
  [[nodiscard]] net::Task<Expected<void>> attempt();
  [[nodiscard]] net::Task<Expected<void>> probe();

  net::Loop& loop_;
  Client& client_;
  MemberChoice& choice_;
  const EtcdParams& params_;
  const Keys& keys_;
  const std::string replica_;
  std::uint64_t cluster_id_ = 0;
  bool tells_progress_ = false;
};

}  // namespace kintsugi::store::etcd
