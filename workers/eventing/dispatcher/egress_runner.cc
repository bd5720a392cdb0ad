#include "workers/eventing/dispatcher/egress_runner.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace kintsugi::workers {
namespace {

constexpr Duration kAnew = seconds(5);  // after an error that a consumer does not survive

}  // namespace

EgressRunner::EgressRunner(net::Loop& loop, const DispatcherSettings& settings,
                           DispatcherCounters& counters, std::shared_ptr<const EgressTerms> terms)
    : loop_(loop), settings_(settings), counters_(counters), terms_(std::move(terms)) {}

EgressRunner::~EgressRunner() {
  pump_pending_ = true;  // what members drop begins nothing
  places_.clear();
  ending_.clear();
}

Expected<void> EgressRunner::fill(Place& place) {
  KafkaConsumerParams params;
  params.bootstrap_servers = terms_->resource.bootstrap_servers;
  params.group = terms_->egress.consumer_group;
  params.client_id = settings_.pod;
  params.topics = terms_->resource.topics;
  params.session_timeout = settings_.session_timeout;
  params.batch = settings_.batch;
  const bool ordered = terms_->egress.delivery_order == DeliveryOrder::kOrdered;
  EgressMember::Hooks hooks;
  hooks.terms = [this] { return terms_; };
  // Ordered partitions bound themselves.
  hooks.may_begin = [this, ordered] { return ordered || in_flight_ < settings_.in_flight; };
  hooks.on_begun = [this] { ++in_flight_; };
  hooks.on_finished = [this] {
    --in_flight_;
    pump_later();
  };
  hooks.on_error = [this, &place](const std::string& text, bool fatal) {
    log(fatal ? LogLevel::kWarn : LogLevel::kDebug, "kafka complains",
        {{"egress", terms_->egress.uid}, {"text", text}});
    error_ = text;
    if (fatal) {
      loop_.post(alive_.guard([this, &place] { replace(place); }));
    }
  };
  place.member = std::make_unique<EgressMember>(loop_, settings_, counters_, std::move(params),
                                                ordered, std::move(hooks));
  return place.member->start();
}

Expected<void> EgressRunner::start() {
  while (places_.size() < static_cast<std::size_t>(terms_->egress.vreplicas)) {
    places_.push_back(std::make_unique<Place>(loop_));
    if (auto filled = fill(*places_.back()); !filled) {
      return filled;
    }
  }
  return {};
}

void EgressRunner::update(std::shared_ptr<const EgressTerms> terms) {
  terms_ = std::move(terms);
  const auto wanted = static_cast<std::size_t>(terms_->egress.vreplicas);
  if (places_.size() > wanted) {
    shrink(places_.size() - wanted);
  }
  if (auto grown = start(); !grown) {
    error_ = grown.error().message();
  }
}

void EgressRunner::shrink(std::size_t count) {
  for (; count > 0; --count) {
    ending_.push_back(std::move(places_.back()));
    places_.pop_back();
    Place& place = *ending_.back();
    place.again.cancel();
    if (place.member == nullptr) {
      loop_.post(alive_.guard([this, &place] { remove(place); }));
    } else if (!place.member->stops()) {
      place.member->stop([this, &place] { remove(place); });
    }  // else replace() is at it, and looks
  }
}

void EgressRunner::remove(Place& place) {
  std::erase_if(ending_, [&](const auto& one) { return one.get() == &place; });
  end_if_done();
}

void EgressRunner::replace(Place& place) {
  const auto holds = [&place](const auto& one) { return one.get() == &place; };
  if (std::none_of(places_.begin(), places_.end(), holds) || place.member->stops()) {
    return;
  }
  place.member->stop([this, &place, holds] {
    if (std::any_of(ending_.begin(), ending_.end(), holds)) {
      return remove(place);
    }
    place.member.reset();
    place.again.start(kAnew, [this, &place] {
      if (auto filled = fill(place); !filled) {
        error_ = filled.error().message();
      }
    });
  });
}

void EgressRunner::pump_later() {
  if (std::exchange(pump_pending_, true)) {
    return;
  }
  loop_.post(alive_.guard([this] {
    pump_pending_ = false;
    for (const auto* const list : {&places_, &ending_}) {
      for (const auto& place : *list) {
        if (place->member != nullptr) {
          place->member->pump();
        }
      }
    }
  }));
}

void EgressRunner::stop(std::function<void()> done) {
  done_ = std::move(done);
  shrink(places_.size());
  loop_.post(alive_.guard([this] { end_if_done(); }));
}

void EgressRunner::end_if_done() {
  if (done_ != nullptr && places_.empty() && ending_.empty()) {
    const auto done = std::exchange(done_, nullptr);
    done();
  }
}

krm::Json EgressRunner::status() const {
  std::int64_t members = 0;
  std::vector<KafkaPartition> partitions;
  for (const auto& place : places_) {
    if (place->member == nullptr) {
      continue;
    }
    members += place->member->is_member() ? 1 : 0;
    for (KafkaPartition& one : place->member->partitions()) {
      partitions.push_back(std::move(one));
    }
  }
  std::sort(partitions.begin(), partitions.end());
  krm::Json list = krm::Json::array();
  for (const KafkaPartition& partition : partitions) {
    list.push_back(partition_text(partition));
  }
  krm::Json out = krm::Json::object({{"members", members},
                                     {"vReplicas", std::int64_t{terms_->egress.vreplicas}},
                                     {"partitions", std::move(list)},
                                     {"inFlight", static_cast<std::int64_t>(in_flight_)}});
  if (!error_.empty()) {
    out["lastError"] = error_;
  }
  return out;
}

}  // namespace kintsugi::workers
