#include "workers/messaging/placing/address_scheduler.h"

#include "workers/messaging/placing/internal/core.h"

namespace kintsugi::workers {

std::string_view placing_reason_text(PlacingReason reason) noexcept {
  switch (reason) {
    case PlacingReason::kScheduled:
      return "Scheduled";
    case PlacingReason::kBrokerGone:
      return "BrokerGone";
    case PlacingReason::kMaxBrokersReached:
      return "MaxBrokersReached";
    case PlacingReason::kWaitingForBroker:
      return "WaitingForBroker";
    case PlacingReason::kWaitingForTopic:
      return "WaitingForTopic";
    case PlacingReason::kWaitingForSpace:
      return "WaitingForSpace";
    case PlacingReason::kBrokerFull:
      return "BrokerFull";
    case PlacingReason::kBrokerNotConnected:
      return "BrokerNotConnected";
  }
  return "";
}

AddressScheduler::AddressScheduler() : core_(std::make_unique<Core>()) {}
AddressScheduler::~AddressScheduler() = default;
void AddressScheduler::set_scale(std::int64_t min, std::int64_t max) { core_->set_scale(min, max); }
void AddressScheduler::set_broker(const BrokerView& broker) { core_->set_broker(broker); }
void AddressScheduler::broker_gone(std::string_view host) { core_->broker_gone(host); }
void AddressScheduler::set(ObjectId object, const AddressDemand& demand) {
  core_->set(object, demand);
}
void AddressScheduler::remove(ObjectId object) { core_->remove(object); }
std::vector<ObjectId> AddressScheduler::decide() { return core_->decide(); }
AddressPlacing AddressScheduler::placing(ObjectId object) const { return core_->placing(object); }
bool AddressScheduler::is_on(ObjectId object, std::string_view host) const noexcept {
  return core_->is_on(object, host);
}
std::int64_t AddressScheduler::brokers_wanted() const { return core_->brokers_wanted(); }
AddressScheduler::BrokerUse AddressScheduler::use(std::string_view host) const {
  return core_->use(host);
}
std::size_t AddressScheduler::size() const noexcept { return core_->size(); }
std::size_t AddressScheduler::waiting() const noexcept { return core_->waiting(); }
void AddressScheduler::each_waiting(const std::function<void(PlacingReason)>& visit) const {
  core_->each_waiting(visit);
}
std::uint64_t AddressScheduler::moves() const noexcept { return core_->moves(); }

}  // namespace kintsugi::workers
