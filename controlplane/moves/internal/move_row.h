#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "apiserver/stored_object.h"
#include "controlplane/moves/move_steps.h"
#include "krm/json.h"
#include "store/store.h"

/// What the two halves of MoveSteps share.
namespace kintsugi::controlplane {

/// A row about a move.
struct MoveSteps::Row {
  std::optional<krm::Json> json;
  store::Revision modified = 0;

  [[nodiscard]] std::string_view text(std::string_view member) const {
    return json ? json->text({member}) : std::string_view();
  }
};

/// The rows that the pages of a move amount to.
struct MoveSteps::Incoming {
  std::string migration;
  std::int64_t pages = 0;  ///< that are in it
  std::unordered_map<std::string, std::string> rows;
  std::size_t bytes = 0;
  bool broken = false;  ///< a page has what is not the cluster's
};

[[nodiscard]] inline Error never(std::string text) {
  return Error(Errc::kInvalid, std::move(text));
}

[[nodiscard]] inline krm::Json named_row(const std::string& name, krm::Json content) {
  content.make({"metadata", "name"}) = name;
  return content;
}

[[nodiscard]] inline store::Op put_row(std::string key, const krm::Json& row,
                                       std::optional<store::Revision> expected) {
  store::Op op;
  op.key = std::move(key);
  op.value = apiserver::encode_stored(row);
  op.expected = expected;
  return op;
}

[[nodiscard]] inline store::Op delete_row(const store::Entry& entry, std::string key) {
  store::Op op;
  op.type = store::EventType::kDelete;
  op.key = std::move(key);
  op.value = std::string(entry.value.view());
  op.expected = entry.modified;
  return op;
}

}  // namespace kintsugi::controlplane
