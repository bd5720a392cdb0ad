#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "workers/messaging/control/internal/address_facts.h"
#include "workers/messaging/model/address_status.h"

namespace kintsugi::workers {

/// What a status of an address is made of, gathered from facts; holds the texts that its input
/// refers to. Lifetime: the facts' object outlives it. Not to be copied.
class AddressReport {
 public:
  AddressReport(const Site& site, const AddressFacts& facts);
  AddressReport(const AddressReport&) = delete;
  AddressReport& operator=(const AddressReport&) = delete;

  void refuse(Condition why) { input_.refused = std::move(why); }
  void set_placing(AddressPlacing placing);
  void set_broker_name(std::string name);
  /// It is being deleted, and waits for that.
  void set_waits(std::string what);
  /// How it is at the routers, and at brokers of `hosts`. One that was not told of `entities` yet
  /// has none of them.
  void add_components(const DesiredEntities& entities, const std::vector<std::string>& hosts);
  /// After add_components(): nothing is amiss, and something is still to come. Its status says so,
  /// or what was before that. Of an urgent one links are nothing to wait for.
  [[nodiscard]] bool is_on_its_way() const;
  /// After add_components(): of some of them nothing is known yet, and its status says that it is
  /// ready. That holds until they were heard of: who took the infra over says nothing else.
  [[nodiscard]] bool is_unheard() const;
  /// Where it is to be and by what name, and no condition yet: the least that is written before the
  /// first request is sent. Of an address without a status.
  [[nodiscard]] krm::Json placement(const std::vector<std::string>& hosts) const;
  /// The whole status.
  [[nodiscard]] krm::Json status(std::string_view now) const;

 private:
  const Site& site_;
  const AddressFacts& facts_;
  AddressStatusInput input_;
  std::optional<AddressPlacing> placing_;
  std::string broker_name_, waits_, space_message_;
  std::vector<BrokerLink> links_;
  std::vector<ComponentView> components_;
  bool unheard_ = false;  ///< a component
};

}  // namespace kintsugi::workers
