#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "workers/messaging/pipeline/component_pipeline.h"

namespace kintsugi::workers {

/// What an entity is asked for next.
enum class ExchangeStep : std::uint8_t {
  kNone,
  kCreate,
  kVerify,  ///< a blind CREATE: there, or repaired
  kRead,
  kLook,  ///< a READ for its state
  kUpdate,
  kClearAliases,
  kDelete
};

/// Requests that are for no entity.
enum class Question : std::uint8_t {
  kNone,
  kCounters,
  kNode,  ///< which broker it is
  kVersion,
  kMemory,
  kTable,       ///< a page of a router's table: state, attributes, orphans, what is missing
  kStates,      ///< a page of a router's table: state alone
  kQueueNames,  ///< at brokers
  kAddressNames,
  kQueues,  ///< a page of listQueues: attributes, orphans
  kQueueCount
};

/// A walk over one table, page by page, one page at a time.
struct Scan {
  Question question = Question::kNone;
  EntityKind kind = EntityKind::kAddress;
  std::int64_t offset = 0;
  std::uint8_t round = 0;
  bool flying = false;
  std::uint8_t foreign = 0;  ///< told of
};

/// A request without an answer.
struct Flight {
  std::uint32_t serial = 0;
  bool used = false;
  bool again = false;  ///< it was lost or unsure before: one that exists may be ours
  ExchangeStep step = ExchangeStep::kNone;
  Question question = Question::kNone;
  std::uint32_t entity = 0xFFFFFFFFU;
  std::uint16_t operation = 0;
  bool agent = false, settings = false;
  std::uint64_t link_changes = 0;
  std::uint64_t hash = 0;  ///< of `desired`, entity_hash()
  DesiredEntity desired;
  TimePoint sent{};
};

/// Requests in flight by tag. Cost: O(1).
class Flights {
 public:
  [[nodiscard]] std::uint64_t add(Flight flight);
  /// nullptr for a tag that is none of those in flight.
  [[nodiscard]] Flight* find(std::uint64_t tag) noexcept;
  void remove(std::uint64_t tag);
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t agents() const noexcept { return agents_; }
  [[nodiscard]] std::size_t settings() const noexcept { return settings_; }
  /// All of them, out of here.
  [[nodiscard]] std::vector<Flight> take_all();

 private:
  std::vector<Flight> slots_;
  std::vector<std::uint32_t> free_;
  std::uint32_t serial_ = 0;
  std::size_t size_ = 0, agents_ = 0, settings_ = 0;
};

/// Counts of requests by operation and code, and the failures of late.
class ExchangeCounts {
 public:
  [[nodiscard]] std::uint16_t operation(const ManagementRequest& request);
  void sent() noexcept { ++counts_.sent; }
  void answered(std::uint16_t operation, std::int64_t code);
  void failed(TimePoint now, std::string what, std::string_view text, std::int64_t code);
  ComponentPipeline::Counts& counts() noexcept { return counts_; }
  [[nodiscard]] const ComponentPipeline::Counts& counts() const noexcept { return counts_; }
  [[nodiscard]] const std::deque<FailedExchange>& failures() const noexcept { return failures_; }

 private:
  ComponentPipeline::Counts counts_;
  std::vector<std::string> operations_;
  std::deque<FailedExchange> failures_;
};

/// The status code of an answer; brokers: 200 or 500; 0 when it has none.
[[nodiscard]] std::int64_t reply_code(const ManagementReply& reply) noexcept;

}  // namespace kintsugi::workers
