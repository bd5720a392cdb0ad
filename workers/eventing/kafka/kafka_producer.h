#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/time.h"
#include "net/loop.h"
#include "workers/eventing/events/cloud_event.h"

namespace kintsugi::workers {

/// Puts events into topics of one cluster, for replies (DP-7): acknowledged by all replicas in
/// sync, idempotent. Threads: the loop's. Lifetime: `done` of what is under way comes until it is
/// destroyed.
class KafkaProducer {
 public:
  /// Empty: it is in the topic.
  using Done = std::function<void(std::string why)>;
  KafkaProducer(net::Loop& loop, std::string bootstrap_servers, std::string client_id);
  ~KafkaProducer();
  KafkaProducer(const KafkaProducer&) = delete;
  KafkaProducer& operator=(const KafkaProducer&) = delete;

  /// @error kConfig
  [[nodiscard]] Expected<void> start();
  /// In binary mode; the extension `partitionkey` is the key. `done` comes once, in a later turn,
  /// after `timeout` at the latest. @returns its number, for forget()
  std::uint64_t produce(const std::string& topic, const CloudEvent& event, Done done);
  void forget(std::uint64_t number) noexcept { waiting_.erase(number); }

  static constexpr Duration kTimeout = seconds(30);

 private:
  struct Library;
  void look();

  net::Loop& loop_;
  std::string bootstrap_servers_, client_id_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Done> waiting_;
  std::unique_ptr<Library> library_;
};

}  // namespace kintsugi::workers
