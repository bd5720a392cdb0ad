#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/time.h"
#include "krm/json.h"

/// Only for tests and benches: what a router and a broker hold, and what they answer, as recorded.
/// No I/O, no clock. Tables are hash maps, beside which the order of creation is kept for pages.
namespace kintsugi::workers {

/// An answer and what it costs the component.
struct FakeAnswer {
  krm::Json properties, body;
  Duration cost{};      ///< beyond the usual of an operation
  bool serial = false;  ///< of the router's agent: not in parallel, whatever else is (MH-8)
};

/// Sections 6 and 7 of the rules. Hazards: MH-1, MH-2 (costs), MH-3 (no answer), MH-4 (it answers
/// nothing any more), MH-5 (tables are cut), MH-7, MH-8 (costs), MH-10 (bogus values are taken).
/// Without hazards: no such costs, 501 for UPDATE of core types, 400 for long names and bogus
/// values; tables are cut all the same.
class FakeRouter {
 public:
  explicit FakeRouter(bool hazards, std::string id = "R1")
      : id_(std::move(id)), hazards_(hazards) {}

  /// @param properties, body  of the request. @returns nullopt: it never answers.
  [[nodiscard]] std::optional<FakeAnswer> answer(const krm::Json& properties, const krm::Json& body,
                                                 TimePoint now);
  /// Everything made by management is lost, and its uptime begins again.
  void restart(TimePoint now);
  [[nodiscard]] std::size_t size(std::string_view type) const;  ///< of a full type name
  [[nodiscard]] bool hangs() const noexcept { return hangs_; }
  /// How many connections it has; for its counters.
  void set_connections(std::int64_t count) noexcept { connections_ = count; }

 private:
  struct Row {
    std::uint64_t number = 0;
    TimePoint created{};
    krm::Json asked;
  };
  struct Table {
    std::unordered_map<std::string, Row> rows;
    std::map<std::uint64_t, const std::string*> order;  ///< keys of rows
    std::unordered_map<std::string, std::string> keys;  ///< what is unique besides names
  };

  FakeAnswer create(std::string_view type, Table& table, const std::string& name,
                    const krm::Json& body, TimePoint now);
  FakeAnswer update(Table& table, const std::string& name, const krm::Json& body, TimePoint now);
  FakeAnswer remove(std::string_view type, Table& table, const std::string& name);
  FakeAnswer query(const krm::Json& properties, const krm::Json& body, TimePoint now);
  [[nodiscard]] krm::Json shown(std::string_view type, const std::string& name, const Row& row,
                                TimePoint now) const;
  [[nodiscard]] krm::Json self(TimePoint now) const;
  [[nodiscard]] const Row* connector(const krm::Json& row) const;

  std::string id_;
  bool hazards_, hangs_ = false;
  std::unordered_map<std::string, Table> tables_;
  std::unordered_map<std::string, std::string> aliases_;  ///< to the vhost's name
  std::uint64_t last_number_ = 0;
  std::int64_t connections_ = 0;
  std::optional<TimePoint> started_;
};

/// Section 8. Hazards: BH-1 (costs of settings), BH-2 (createQueue with ignoreIfExists hides what
/// differs). Without hazards createQueue of an existing queue echoes that one, with its id.
class FakeBroker {
 public:
  explicit FakeBroker(bool hazards);

  [[nodiscard]] FakeAnswer answer(const krm::Json& properties, const krm::Json& body);
  /// As one without a journal: it is another one then.
  void restart();
  [[nodiscard]] std::size_t addresses() const noexcept { return addresses_.size(); }
  [[nodiscard]] std::size_t queues() const noexcept { return queues_.size(); }
  [[nodiscard]] std::size_t settings() const noexcept { return settings_.size(); }

 private:
  struct Address {
    std::string routing;
    std::set<std::string> queues;
  };
  struct Queue {
    std::int64_t id = 0, max_consumers = -1;
    std::string address, routing;
    bool durable = true, purge = false;
  };
  struct Said {  ///< value, or an exception's text
    krm::Json value;
    std::string exception;
    bool is_void = false;
    Duration cost{};
  };

  Said call(std::string_view operation, const krm::Json::Array& parameters);
  Said attribute(std::string_view resource, std::string_view name) const;
  Said create_address(const std::string& name, std::string_view routing);
  Said delete_address(const std::string& name);
  Said create_queue(const krm::Json& asked, bool ignore_if_exists);
  Said update_queue(const krm::Json& asked);
  Said destroy_queue(const std::string& name);
  Said list_queues(std::string_view options, std::int64_t page, std::int64_t size) const;
  Said add_settings(const std::string& match, std::string_view document);
  Said merged_settings(std::string_view match) const;
  [[nodiscard]] Duration settings_cost(std::string_view match) const;
  [[nodiscard]] static krm::Json shown(const std::string& name, const Queue& queue, bool listed);

  bool hazards_;
  std::string node_;
  std::unordered_map<std::string, Address> addresses_;
  std::unordered_map<std::string, Queue> queues_;
  std::map<std::int64_t, const std::string*> order_;  ///< keys of queues_ by id
  std::unordered_map<std::string, krm::Json> settings_, diverts_;
  std::int64_t last_id_ = 29;
};

}  // namespace kintsugi::workers
