#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/alive.h"
#include "net/loop.h"
#include "workers/eventing/delivering/partition_order.h"
#include "workers/eventing/dispatcher/delivery.h"
#include "workers/eventing/kafka/kafka_consumer.h"

namespace kintsugi::workers {

/// One member of an egress' consumer group: its partitions, the records of them that wait, and
/// those on their way. Source: docs/spec/eventing.md, DP-2, DP-5, DP-8. Threads: the loop's.
class EgressMember {
 public:
  struct Hooks {
    std::function<std::shared_ptr<const EgressTerms>()> terms;  ///< of what begins now
    std::function<bool()> may_begin;                            ///< one more delivery
    std::function<void()> on_begun, on_finished;
    std::function<void(const std::string&, bool fatal)> on_error;
  };
  EgressMember(net::Loop& loop, const DispatcherSettings& settings, DispatcherCounters& counters,
               KafkaConsumerParams params, bool ordered, Hooks hooks);
  ~EgressMember();
  EgressMember(const EgressMember&) = delete;
  EgressMember& operator=(const EgressMember&) = delete;

  [[nodiscard]] Expected<void> start() { return consumer_.start(); }
  [[nodiscard]] bool is_member() const { return consumer_.is_member(); }
  [[nodiscard]] std::vector<KafkaPartition> partitions() const;
  /// Begins what may begin.
  void pump();
  /// Lets what is under way end within `settings.drain`, commits and leaves the group; `done` comes
  /// in a later turn and may destroy it.
  void stop(std::function<void()> done);
  [[nodiscard]] bool stops() const noexcept { return done_ != nullptr; }

 private:
  struct Assigned {
    explicit Assigned(std::size_t most) : order(most) {}
    PartitionOrder order;
    std::map<std::int64_t, KafkaRecord> waiting;
    std::map<std::int64_t, std::unique_ptr<Delivery>> under_way;
    std::size_t bytes = 0;
    bool paused = false;
    bool leaving = false;  // nothing begins any more
  };
  void on_records(std::vector<KafkaRecord> records);
  void on_assigned(const std::vector<KafkaPartition>& partitions);
  void on_revoked(const std::vector<KafkaPartition>& partitions, bool lost);
  [[nodiscard]] bool begin_one(const KafkaPartition& partition, Assigned& assigned);
  void finish(const KafkaPartition& partition, std::int64_t offset, const Delivery::End& end);
  void resume_if_low(const KafkaPartition& partition, Assigned& assigned);
  void drop_waiting(Assigned& assigned);
  void drop(const KafkaPartition& partition);
  void commit_later(Duration pause);
  void on_committed(const KafkaOffsets& taken, bool all);
  void commit_again();
  void look_for_answers();
  void commit();
  void leave_if_done();
  void give_up_leaving();
  void close();
  void tell_end();

  net::Loop& loop_;
  const DispatcherSettings& settings_;
  DispatcherCounters& counters_;
  Hooks hooks_;
  std::size_t most_;  // records of a partition that are under way
  std::map<KafkaPartition, Assigned> assigned_;
  bool revoking_ = false, closing_ = false, pumping_ = false;
  std::function<void()> done_;
  net::Timer commit_timer_, answer_timer_, leave_timer_;
  bool commit_pending_ = false, answer_pending_ = false;
  KafkaConsumer consumer_;
  Alive alive_;
};

}  // namespace kintsugi::workers
