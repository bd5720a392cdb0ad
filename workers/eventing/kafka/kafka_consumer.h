#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "net/loop.h"
#include "workers/eventing/events/cloud_event.h"

namespace kintsugi::workers {

/// A topic and its partition.
using KafkaPartition = std::pair<std::string, std::int32_t>;
using KafkaOffsets = std::vector<std::pair<KafkaPartition, std::int64_t>>;
/// "topic/3".
[[nodiscard]] std::string partition_text(const KafkaPartition& partition);

struct KafkaConsumerParams {
  std::string bootstrap_servers, group, client_id;
  std::vector<std::string> topics;
  Duration session_timeout = seconds(6);
  std::size_t batch = 50;  ///< records of one on_records
};

/// One member of a consumer group by librdkafka: cooperative-sticky, offsets committed by us alone,
/// begin of the topic where the group has no offset. Source: docs/spec/eventing.md, DP-2. What the
/// library's threads have to tell comes in turns of the loop; every call of the library on the loop
/// is one that does not wait for a broker.
/// Threads: the loop's. Lifetime: no callback may destroy it; callbacks end with it. Its last end,
/// which joins the library's threads, is on a thread of its own and may outlive it.
class KafkaConsumer {
 public:
  struct Callbacks {
    /// At most `batch`, in the order of each partition's offsets.
    std::function<void(std::vector<KafkaRecord>)> on_records;
    std::function<void(const std::vector<KafkaPartition>&)> on_assigned;
    /// They go to others once release() is called. @param lost  they have gone: commit nothing
    std::function<void(const std::vector<KafkaPartition>&, bool lost)> on_revoked;
    /// What Kafka has to complain of, which the library goes on with. @param fatal  it does not:
    /// close it
    std::function<void(const std::string& text, bool fatal)> on_error;
    /// @param taken  what is committed now  @param all  nothing of that commit was refused
    std::function<void(const KafkaOffsets& taken, bool all)> on_committed;
    std::function<void()> on_closed;  ///< the last call
  };
  KafkaConsumer(net::Loop& loop, KafkaConsumerParams params, Callbacks callbacks);
  ~KafkaConsumer();
  KafkaConsumer(const KafkaConsumer&) = delete;
  KafkaConsumer& operator=(const KafkaConsumer&) = delete;

  /// Joins, and goes on trying. @error kConfig, kInternal: the library takes no such settings.
  [[nodiscard]] Expected<void> start();
  /// Whether a broker has given it a place in the group.
  [[nodiscard]] bool is_member() const;
  /// Whether it waits for its place in a group that is dealt out anew. A commit would be answered
  /// after that, for the generation before; the library takes that answer for the end of its
  /// membership, and all members join once more (its on_commit of ILLEGAL_GENERATION). So what can
  /// wait waits.
  [[nodiscard]] bool is_joining() const noexcept;
  /// @param offsets  of the next records to consume; on_committed tells how it went
  void commit(const KafkaOffsets& offsets);
  /// @{ Records of a paused partition do not come; those that are fetched already may.
  void pause(const KafkaPartition& partition);
  void resume(const KafkaPartition& partition);
  /// @}
  /// Ends what on_revoked began.
  void release();
  /// Leaves the group; on_revoked may come once more.
  void close();

 private:
  struct Library;
  void look();
  [[nodiscard]] bool look_once();
  void look_later();

  net::Loop& loop_;
  KafkaConsumerParams params_;
  Callbacks callbacks_;
  std::unique_ptr<Library> library_;
  net::Timer timer_;
  bool closing_ = false, closed_ = false;
};

/// Whether ends of consumers and producers still run on their threads; a process waits for them
/// within bounds before it ends. Threads: any.
[[nodiscard]] std::size_t kafka_ends_under_way() noexcept;

}  // namespace kintsugi::workers
