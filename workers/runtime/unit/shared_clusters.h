#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/alive.h"
#include "http/headers.h"
#include "net/loop.h"
#include "net/task.h"
#include "net/upstream.h"
#include "workers/runtime/client/api_client.h"
#include "workers/runtime/endpoints/cluster_owners.h"
#include "workers/runtime/ring/let_go.h"
#include "workers/runtime/unit/internal/deletion_doubts.h"
#include "workers/runtime/unit/unit.h"

namespace kintsugi::workers {

/// The clusters that units of one role show, and which unit acts for one that several show:
/// ClusterOwners, with its questions asked. Source: RT-14. Whose a cluster is says the proxy, by an
/// object of it that is read where the proxy has it: the unit whose watch has that very revision.
/// That takes no right but those on the export, and holds at any server that leads to the shard.
/// Threads: the loop's. Lifetime: units are removed before they die.
class SharedClusters {
 public:
  /// @param role  for the log
  SharedClusters(net::Loop& loop, std::string role);

  /// Where clusters are looked for. Without it nothing is asked, and the first unit stays.
  /// @param upstream  outlives this
  void ask_at(net::Upstream& upstream, ApiClient::Params params);
  /// Before its work begins.
  void add(Unit& unit);
  /// It has run out. Others go on with what it showed.
  void remove(const Unit& unit);

  /// unit_duplicate_cluster_total
  [[nodiscard]] std::uint64_t duplicates_total() const noexcept {
    return owners_.duplicates_total();
  }

 private:
  using Actions = ClusterOwners::Actions;
  /// Asks something of `owners_`, tells units what comes of it.
  void change(const std::function<void(Actions& out)>& what);
  void asked(UnitId unit, std::string_view text);
  void answer(UnitId unit);
  void carry_out(const Actions& actions);
  void look_soon(Duration delay);
  void look();
  [[nodiscard]] net::Task<> ask(std::vector<std::string> clusters);
  struct Question {
    ObjectSample sample;
    std::string path;
  };
  [[nodiscard]] std::vector<Question> questions(const std::string& cluster) const;
  [[nodiscard]] std::optional<UnitId> owner(const Question& question,
                                            const ApiAnswer& answer) const;

  net::Loop& loop_;
  const std::string role_;
  ClusterOwners owners_;
  struct Place {
    Unit* unit = nullptr;
    std::vector<LetGo> asked, gone;  ///< by units of other processes; answered, of these
  };
  std::map<UnitId, Place> units_;
  UnitId next_ = 0;
  std::unique_ptr<ApiClient> proxy_;
  std::unique_ptr<DeletionDoubts> doubts_;
  net::Timer timer_;
  bool asking_ = false;
  net::Job job_;
  Alive alive_;
};

}  // namespace kintsugi::workers
