#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apiserver/internal/served_kind.h"
#include "base/error.h"
#include "krm/json.h"
#include "net/loop.h"
#include "net/upstream.h"

namespace kintsugi::apiserver::internal {

/// Calls the conversion webhooks of custom kinds (specs/api-machinery.md AM-399). One connection
/// pool per webhook, kept while it is used. Threads: its loop; nothing blocks.
class Conversions {
 public:
  using Done = std::function<void(Expected<std::vector<krm::Json>>)>;
  explicit Conversions(net::Loop& loop) : loop_(loop) {}
  ~Conversions();

  /// Objects with the apiVersion that they were written in, to the version of `kind`, pruned by its
  /// schema. One request for all of them, 30 s at most; those that are there
  /// already are not sent. `done` comes in a later turn, or never when this dies before.
  /// @error kProtocol  `conversion webhook for ex.io/v1beta1, Kind=Cog failed: …`
  void convert(ServedKindPtr kind, std::vector<krm::Json> objects, Done done);
  void convert_one(ServedKindPtr kind, krm::Json object,
                   std::function<void(Expected<krm::Json>)> done);

 private:
  struct Job;
  struct Pool {
    std::shared_ptr<net::Upstream> upstream;
    std::uint64_t last_use = 0;
  };
  void finish(const std::shared_ptr<Job>& job, Expected<std::vector<krm::Json>> converted);
  void send(const std::shared_ptr<Job>& job);
  [[nodiscard]] Expected<std::shared_ptr<net::Upstream>> upstream_of(
      const ConversionWebhook& webhook);

  net::Loop& loop_;
  std::map<std::string, Pool> pools_;  ///< by URL and CA bundle
  std::map<std::uint64_t, std::shared_ptr<Job>> running_;
  std::uint64_t next_ = 0;
};

}  // namespace kintsugi::apiserver::internal
