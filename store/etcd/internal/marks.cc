#include "store/etcd/internal/marks.h"

#include <algorithm>

#include "krm/json.h"

namespace kintsugi::store::etcd {
namespace {

using krm::Json;

constexpr const char* kEvery = "everyMilliseconds";
constexpr const char* kRevisions = "revisions";

}  // namespace

std::string encode(const Marks& marks) {
  Json revisions = Json::array();
  for (const std::uint64_t revision : marks.revisions) {
    revisions.push_back(static_cast<std::int64_t>(revision));
  }
  return Json::object({{kEvery, static_cast<std::int64_t>(marks.every / milliseconds(1))},
                       {kRevisions, std::move(revisions)}})
      .dump();
}

Marks parse_marks(std::string_view text) {
  Marks marks;
  const auto object = Json::parse(text);
  const Json* const every = object ? object->find(kEvery) : nullptr;
  const Json* const revisions = object ? object->find(kRevisions) : nullptr;
  if (every == nullptr || revisions == nullptr) {
    return marks;
  }
  marks.every = milliseconds(every->as_integer());
  for (const Json& one : revisions->items()) {
    marks.revisions.push_back(static_cast<std::uint64_t>(one.as_integer()));
  }
  return marks;
}

std::uint64_t begin_of(const Marks& marks, Duration age) {
  if (marks.revisions.empty() || marks.every <= Duration(0)) {
    return 0;
  }
  const auto back = static_cast<std::size_t>(age / marks.every) + 1;
  return marks.revisions[marks.revisions.size() - std::min(back, marks.revisions.size())];
}

}  // namespace kintsugi::store::etcd
