#include "proxy/console/internal/view_changes.h"

#include <utility>

namespace kintsugi::proxy {
namespace {

std::string line(std::string_view view, std::string_view op, std::string_view items) {
  std::string out = R"({"view":")";
  out.append(view).append(R"(","op":")").append(op).append(R"(","items":[)");
  return out.append(items).append("]}\n");
}

void add(std::string& list, std::string_view item) {
  if (!list.empty()) {
    list += ',';
  }
  list += item;
}

}  // namespace

std::string ViewChanges::take(const ViewRows& rows) {
  std::map<std::string, std::string, std::less<>> now;
  std::string changed, gone, out;
  for (const krm::Json& row : rows) {
    const auto [at, fresh] = now.emplace(row.text({"id"}), row.dump());
    const auto before = rows_.find(at->first);
    if (fresh && (before == rows_.end() || before->second != at->second)) {
      add(changed, at->second);
    }
  }
  for (const auto& [id, text] : rows_) {
    if (!now.contains(id)) {
      add(gone, krm::Json::object({{"id", id}}).dump());
    }
  }
  rows_ = std::move(now);
  if (!changed.empty()) {
    out += line(view_, "upsert", changed);
  }
  if (!gone.empty()) {
    out += line(view_, "remove", gone);
  }
  return out;
}

std::string ViewChanges::reset() const {
  std::string items;
  for (const auto& [id, text] : rows_) {
    add(items, text);
  }
  return line(view_, "reset", items);
}

std::string tick_line(std::string_view generated) {
  std::string out = R"({"op":"tick","generated":")";
  return out.append(generated).append("\"}\n");
}

}  // namespace kintsugi::proxy
