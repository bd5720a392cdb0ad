#include "server/replica_record.h"

#include <algorithm>

namespace kintsugi::server {

using krm::Json;

Json Replica::to_json() const {
  return Json::object({{"version", version},
                       {"address", address},
                       {"region", region},
                       {"started", Json(started)},
                       {"ready", Json(ready)},
                       {"watches", Json(static_cast<std::int64_t>(watches))}});
}

Expected<Replica> Replica::parse(std::string_view id, std::string_view text) {
  const auto json = Json::parse(text);
  if (!json || json->text({"version"}).empty()) {
    return fail(Errc::kCorrupt, "the record of replica " + std::string(id) + " cannot be read");
  }
  const auto number = [&json](std::string_view member) {
    const Json* const found = json->find(member);
    return found == nullptr ? std::int64_t{0} : found->as_integer();
  };
  const Json* const ready = json->find("ready");
  Replica out;
  out.id = id;
  out.version = json->text({"version"});
  out.address = json->text({"address"});
  out.region = json->text({"region"});
  out.started = number("started");
  out.ready = ready != nullptr && ready->as_bool();
  out.watches = static_cast<std::size_t>(std::max<std::int64_t>(number("watches"), 0));
  return out;
}

}  // namespace kintsugi::server
