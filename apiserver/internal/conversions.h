#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apiserver/served_kind.h"
#include "base/error.h"
#include "krm/json.h"
#include "net/loop.h"
#include "net/outgoing.h"

namespace kintsugi::apiserver::internal {

/// Converts custom kinds by their rules (KK-192), or calls their conversion webhooks (AM-399),
/// wherever tenants may have them called (net/outgoing.h). Threads: its loop; nothing blocks.
class Conversions {
 public:
  using Done = std::function<void(Expected<std::vector<krm::Json>>)>;
  /// @param policy  null: the defaults.
  Conversions(net::Loop& loop, const std::shared_ptr<const net::OutgoingPolicy>& policy)
      : loop_(loop), outgoing_(loop, policy == nullptr ? net::OutgoingPolicy() : *policy) {}
  ~Conversions();

  /// Objects with the apiVersion that they were written in, to the version of `kind`, pruned by its
  /// schema. One request for all of them, 30 s at most; those that are there
  /// already are not sent. It is charged to `cluster`, that of the request. `done` comes in a later
  /// turn, or never when this dies before.
  /// @error kProtocol  `conversion webhook for ex.io/v1beta1, Kind=Cog failed: …` with one of the
  /// texts of net/outgoing.h or, of the webhook's answer, its message; `conversion for
  /// ex.io/v1beta1, Kind=Cog failed: …` with what is wrong with a rule.
  void convert(std::string cluster, ServedKindPtr kind, std::vector<krm::Json> objects, Done done);
  void convert_one(std::string cluster, ServedKindPtr kind, krm::Json object,
                   std::function<void(Expected<krm::Json>)> done);

 private:
  struct Job;
  void finish(const std::shared_ptr<Job>& job, Expected<std::vector<krm::Json>> converted);
  void send(const std::shared_ptr<Job>& job);
  void apply_rules(const std::shared_ptr<Job>& job);
  void take_answer(const std::shared_ptr<Job>& job, Expected<net::OutgoingAnswer> answer);

  net::Loop& loop_;
  net::Outgoing outgoing_;
  std::map<std::uint64_t, std::shared_ptr<Job>> running_;
  std::uint64_t next_ = 0;
};

}  // namespace kintsugi::apiserver::internal
