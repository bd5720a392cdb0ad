#include "workers/messaging/control/internal/address_report.h"

#include <algorithm>

#include "workers/messaging/model/infra_status.h"

namespace kintsugi::workers {

namespace {

std::size_t entities_at(const DesiredEntities& entities, const InfraComponent& component) {
  if (component.kind == ComponentKind::kRouter) {
    return entities.routers.size();
  }
  for (const DesiredEntities::OnBroker& broker : entities.brokers) {
    if (broker.host == component.where.host) {
      return broker.entities.size();
    }
  }
  return 0;
}

}  // namespace

AddressReport::AddressReport(const Site& site, const AddressFacts& facts)
    : site_(site), facts_(facts) {
  const MessagingAddress& address = facts.address();
  const bool tenant = facts.key.kind == MessagingKind::kMessagingAddress || address.space.empty();
  input_.address = &address;
  input_.conditions = &facts.parsed.conditions;
  input_.refused = facts.refused;
  input_.plan = facts.plan == nullptr ? std::string_view() : facts.plan->id.name;
  input_.settings = &facts.effective;
  input_.space_kind = "Space";
  if (tenant) {
    input_.space_kind =
        facts.space && facts.space->key.kind == MessagingKind::kProject ? "Project" : "Tenant";
  }
  if (facts.place.space != nullptr) {
    const OwnedSpace& space = *facts.place.space;
    input_.space_id = space.space_id;
    input_.space_ready = space.made;
    input_.min_ready =
        routers_needed(facts.infra(), facts.place.infra->work->count(ComponentKind::kRouter));
  } else if (!facts.space) {
    space_message_ = tenant ? "the namespace has no tenant"
                            : "there is no address space " + address.space + " of type shared";
  } else {
    space_message_ = "the space is not bound to an infra";
  }
  input_.space_message = space_message_;
}

void AddressReport::set_placing(AddressPlacing placing) {
  placing_ = std::move(placing);
  input_.placing = &*placing_;
}

void AddressReport::set_broker_name(std::string name) {
  broker_name_ = std::move(name);
  input_.broker_name = broker_name_;
}

void AddressReport::set_waits(std::string what) {
  waits_ = std::move(what);
  input_.waits = waits_;
}

void AddressReport::add_components(const DesiredEntities& entities,
                                   const std::vector<std::string>& hosts) {
  const InfraWork& work = *facts_.place.infra->work;
  for (const std::string& host : hosts) {
    links_.push_back(broker_link(work.owner(), facts_.infra(), host));
  }
  for (const auto& one : work.components()) {
    const bool router = one->kind == ComponentKind::kRouter;
    if (!router && std::find(hosts.begin(), hosts.end(), one->where.host) == hosts.end()) {
      continue;
    }
    ComponentView view;
    view.host = one->where.host;
    view.kind = one->kind;
    view.connected = one->pipeline->is_looked_at();
    unheard_ = unheard_ || one->pipeline->is_unheard();
    view.progress = work.progress(facts_.key, *one);
    if (view.progress.wanted == 0) {
      view.progress.wanted = static_cast<std::uint32_t>(entities_at(entities, *one));
    }
    if (router && !view.progress.link_error.empty()) {
      view.inactive = find_link(entities.routers, links_, view.progress.link_error);
    }
    components_.push_back(std::move(view));
  }
  input_.components = components_;
}

bool AddressReport::is_on_its_way() const {
  const krm::Json& status = facts_.status();
  const std::string_view phase = status.text({"phase"});
  const krm::Json* const seen = status.find("observedGeneration");
  if ((phase != "Configuring" && phase != "Active") || seen == nullptr ||
      seen->as_integer() != facts_.address().id.generation) {
    return false;
  }
  const bool urgent = facts_.place.infra->work->is_urgent(facts_.number);
  bool all = true;
  for (const ComponentView& one : components_) {
    const ObjectProgress& progress = one.progress;
    if (!one.connected || !progress.error.empty() || !progress.link_error.empty()) {
      return false;
    }
    all = all && progress.settled() && (urgent || progress.active >= progress.links);
  }
  return !all;
}

bool AddressReport::is_unheard() const {
  const krm::Json* const seen = facts_.status().find("observedGeneration");
  return unheard_ && facts_.status().text({"phase"}) == "Active" && seen != nullptr &&
         seen->as_integer() == facts_.address().id.generation;
}

krm::Json AddressReport::placement(const std::vector<std::string>& hosts) const {
  krm::Json out = facts_.status();
  out["observedGeneration"] = facts_.address().id.generation;
  out["phase"] = "Configuring";
  out["spaceId"] = facts_.place.space->space_id;
  if (!broker_name_.empty()) {
    out["brokerAddress"] = broker_name_;
  }
  krm::Json list = krm::Json::array();
  for (const std::string& host : hosts) {
    list.push_back(krm::Json::object({{"host", host}, {"state", "Scheduled"}}));
  }
  if (!hosts.empty()) {
    out["brokers"] = std::move(list);
  }
  note_phase(site_, facts_, "Configuring");
  return out;
}

krm::Json AddressReport::status(std::string_view now) const {
  krm::Json out = address_status(input_, facts_.status(), now);
  note_phase(site_, facts_, out.text({"phase"}));
  return out;
}

}  // namespace kintsugi::workers
