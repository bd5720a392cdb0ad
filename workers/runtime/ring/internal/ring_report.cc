#include "workers/runtime/ring/internal/ring_report.h"

#include <algorithm>

#include "base/strings.h"
#include "krm/json.h"

namespace kintsugi::workers {
namespace {

std::uint64_t number_up_to(const krm::Json* value, std::uint64_t most) noexcept {
  if (value == nullptr || !value->is_integer() || value->as_integer() <= 0) {
    return 0;
  }
  const auto number = static_cast<std::uint64_t>(value->as_integer());
  return number <= most ? number : 0;
}

}  // namespace

std::string RingReport::encode() const {
  krm::Json out = krm::Json::object({{"seen", seen}, {"epoch", std::uint64_t{epoch}}});
  if (rejected != 0) {
    out["rejected"] = rejected;
  }
  if (leaving) {
    out["leaving"] = true;
  }
  for (const auto& [partition, epoch_of] : raise) {
    out["raise"].push_back(krm::Json::array({std::uint64_t{partition}, std::uint64_t{epoch_of}}));
  }
  return out.dump();
}

RingReport RingReport::read(const LeaseRecord& lease) {
  RingReport out;
  const auto ack = parse_decimal(lease.annotation(kRingAckAnnotation));
  out.ack = ack && *ack <= kMaxRingGeneration ? *ack : 0;
  krm::Json::ParseOptions options;
  options.max_depth = 8;
  const auto text = krm::Json::parse(lease.annotation(kRingReportAnnotation), options);
  if (!text) {
    return out;
  }
  // One below the last, so that both can be risen above.
  out.seen = number_up_to(text->find("seen"), kMaxRingGeneration - 1);
  out.rejected = number_up_to(text->find("rejected"), kMaxRingGeneration - 1);
  out.epoch = static_cast<std::uint32_t>(number_up_to(text->find("epoch"), kMaxRingEpoch - 1));
  const krm::Json* leaving = text->find("leaving");
  out.leaving = leaving != nullptr && leaving->as_bool();
  if (const krm::Json* raise = text->find("raise")) {
    for (const krm::Json& item : raise->items()) {
      const krm::Json::Array& pair = item.items();
      if (pair.size() != 2 || out.raise.size() == kMaxRaises || !pair[0].is_integer() ||
          pair[0].as_integer() < 0 ||
          pair[0].as_integer() >= static_cast<std::int64_t>(kRingPartitions)) {
        continue;
      }
      const std::uint64_t epoch_of = number_up_to(&pair[1], kMaxRingEpoch - 1);
      if (epoch_of != 0) {
        out.raise.emplace_back(static_cast<PartitionId>(pair[0].as_integer()),
                               static_cast<std::uint32_t>(epoch_of));
      }
    }
  }
  return out;
}

}  // namespace kintsugi::workers
