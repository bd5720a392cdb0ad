#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workers/messaging/pipeline/component_pipeline.h"

namespace kintsugi::workers {

/// A router or a broker for tests: keeps tables and answers as the real ones were recorded.
class ScriptedComponent {
 public:
  explicit ScriptedComponent(ComponentKind kind) : kind_(kind) {}

  [[nodiscard]] ManagementReply answer(const ManagementRequest& request);

  // Routers: full type and name to the entity as it was made.
  using Key = std::pair<std::string, std::string>;
  std::map<Key, krm::Json> entities;
  std::int64_t uptime = 100;
  bool links_active = true;
  // Brokers.
  std::string node = "n0";  ///< "": it has none
  struct Queue {
    krm::Json attributes;
    std::int64_t id = 0, messages = 0;
  };
  std::map<std::string, std::string> addresses;
  std::map<std::string, Queue> queues;
  std::map<std::string, krm::Json> settings;

  std::map<std::string, int> counts;  ///< by operation, for entities and all else
  std::vector<std::string> log;       ///< "CREATE <name>", "createQueue <name>"
  int core_updates = 0, lost_messages = 0;
  /// An answer instead of the usual one; what it was asked for is not done.
  std::function<std::optional<ManagementReply>(std::string_view operation, std::string_view name)>
      instead;
  void restart();
  [[nodiscard]] int sent_for_entities() const;

 private:
  [[nodiscard]] ManagementReply router(const ManagementRequest& request);
  [[nodiscard]] ManagementReply broker(const ManagementRequest& request);
  [[nodiscard]] ManagementReply table(const std::string& type, const ManagementRequest& request);
  [[nodiscard]] krm::Json shown(const std::string& type, const std::string& name,
                                const krm::Json& made) const;
  ComponentKind kind_;
  std::int64_t next_id_ = 1;
};

/// As routers answer.
[[nodiscard]] ManagementReply router_reply(std::int64_t code, std::string_view text,
                                           krm::Json body = nullptr);
/// As brokers answer: one value, or an exception.
[[nodiscard]] ManagementReply broker_reply(const krm::Json& value);
[[nodiscard]] ManagementReply broker_exception(std::string_view text);

/// A pipeline, its component, the requests on their way, and a clock that only tests move.
class PipelineBench {
 public:
  PipelineBench(ComponentKind kind, ComponentPipeline::Params params);

  ScriptedComponent component;
  std::map<ObjectId, std::vector<DesiredEntity>> objects;
  std::vector<DriftRepair> repairs;
  std::map<ObjectId, int> told;
  bool shared = false;  ///< others have the router, too
  ComponentPipeline pipeline;
  TimePoint now{std::chrono::hours(1)};

  void want(ObjectId object, std::vector<DesiredEntity> entities, bool first = false);
  void ready();
  void lost();
  /// The component began anew, empty; the connection is another matter.
  void restart();
  /// Takes out what may be sent; answers come with answer_one(), oldest first.
  std::size_t pump();
  bool answer_one();
  /// The oldest one is done by the component, or not, and no answer comes.
  bool lose_one(bool done);
  /// Sends and answers until nothing moves without time.
  void settle();
  /// The same, with timers, for so long.
  void run(Duration time);
  struct Waiting {
    std::uint64_t tag = 0;
    ManagementRequest request;
  };
  std::deque<Waiting> waiting;
  TimePoint booted{std::chrono::minutes(50)};
};

// Entities as the model makes them, of object number n.
[[nodiscard]] std::string test_name(EntityKind kind, int n, std::string_view direction = {});
[[nodiscard]] std::vector<DesiredEntity> router_queue(int n,
                                                      std::string_view distribution = "balanced");
[[nodiscard]] std::vector<DesiredEntity> broker_queue(int n, std::string_view settings_class = {},
                                                      std::int64_t consumers = -1);
[[nodiscard]] DesiredEntity test_vhost(int n, std::int64_t connections);

}  // namespace kintsugi::workers
