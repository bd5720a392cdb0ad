#include "workers/messaging/model/infra_holder.h"

#include <algorithm>

#include "workers/messaging/model/names.h"

namespace kintsugi::workers {

InfraHolder infra_holder(const krm::Json& status, std::string_view names) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  InfraHolder out;
  out.shard = status.text({"holder", "shard"});
  out.names = status.text({"holder", "names"});
  if (out.shard.empty() || out.names.empty() || owner_name(out.names) != out.names) {
    out.names = names;
  }
  const krm::Json* const holder = status.find("holder");
  const krm::Json* const epoch = holder == nullptr ? nullptr : holder->find("epoch");
  if (epoch != nullptr && epoch->is_integer()) {
    out.epoch = std::clamp<std::int64_t>(epoch->as_integer(), 0, kMost);
  }
  return out;
}

InfraHolder next_holder(const InfraHolder& before, std::string_view shard) {
  return {std::string(shard), before.names, before.epoch + 1};
}

void write_holder(krm::Json& status, const InfraHolder& holder) {
  status["holder"] = krm::Json::object(
      {{"shard", holder.shard}, {"names", holder.names}, {"epoch", holder.epoch}});
}

}  // namespace kintsugi::workers
