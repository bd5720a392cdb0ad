#include "apiserver/internal/write_limits.h"

#include <optional>
#include <utility>

#include "apiserver/internal/server_impl.h"
#include "krm/status.h"

namespace kintsugi::apiserver::internal {

store::Keeps keeps_of(const WriteOp& op) {
  const bool goes = op.is<Delete>() ||
                    (op.old != nullptr && op.old->at({"metadata", "deletionTimestamp"}) != nullptr);
  store::Keeps all;
  if (!op.request || goes) {
    return all;
  }
  all.reserve = true;
  for (const auto& step : op.server.params().admission) {
    const store::Keeps keeps = step->keeps(op);
    all.columns |= keeps.columns;
    all.reserve = all.reserve && (keeps.reserve || keeps.columns == 0);
  }
  return all;
}

Error over_limit(const WriteOp& op, const store::Excess& excess) {
  for (const auto& step : op.server.params().admission) {
    if (std::optional<Error> error = step->over(op, excess)) {
      return std::move(*error);
    }
  }
  const ResourceDef& def = *op.kind->def;
  return krm::forbidden(def.group, def.plural, op.name, "a limit has been reached");
}

Expected<void> check_limits(const WriteOp& op, std::string_view stored) {
  const store::Books* books = op.server.store().books();
  if (books == nullptr) {
    return {};
  }
  const bool is_there = op.old != nullptr;
  if (auto over = books->check(op.key, is_there ? op.entry.value.view() : std::string_view(),
                               is_there, stored, keeps_of(op))) {
    return fail(over_limit(op, *over));
  }
  return {};
}

}  // namespace kintsugi::apiserver::internal
