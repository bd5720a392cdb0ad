#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"
#include "krm/schema.h"

namespace kintsugi::krm {

/// A set of field paths, as managedFields keep them (FieldsV1).
/// Shape: a tree; each edge is a path element in its written form: `f:<field>`, `k:{…}` (item of a
/// list map by its keys), `v:<json>` (item of a set), `i:<n>`; a node can be a member itself, have
/// children, or both. Value semantics. Threads: as a std::string.
class FieldSet {
 public:
  FieldSet() noexcept;
  FieldSet(const FieldSet& other);
  FieldSet(FieldSet&& other) noexcept;
  FieldSet& operator=(const FieldSet& other);
  FieldSet& operator=(FieldSet&& other) noexcept;
  ~FieldSet();

  /// Elements in written form ({"f:spec", "f:size"}). The empty path is not kept.
  void insert(const std::vector<std::string>& path);
  [[nodiscard]] bool has(const std::vector<std::string>& path) const;
  [[nodiscard]] bool empty() const noexcept { return children_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept;  ///< members
  bool operator==(const FieldSet& other) const;

  // Sets of the members; a member and its children are independent of each other.
  [[nodiscard]] FieldSet union_with(const FieldSet& other) const;
  [[nodiscard]] FieldSet intersection(const FieldSet& other) const;
  [[nodiscard]] FieldSet difference(const FieldSet& other) const;
  /// Without the members of `other` and everything below them.
  [[nodiscard]] FieldSet difference_below(const FieldSet& other) const;
  /// Only the members of `other` and everything below them.
  [[nodiscard]] FieldSet only_below(const FieldSet& other) const;

  /// Calls `visit` for every element at the top, in order. `below` has no members when the element
  /// has no children.
  void for_each(const std::function<void(const std::string& element, bool member,
                                         const FieldSet& below)>& visit) const;
  [[nodiscard]] bool has_element(std::string_view element) const noexcept;  ///< as a member
  /// What lies below an element, null when nothing does.
  [[nodiscard]] const FieldSet* below(std::string_view element) const noexcept;
  /// Adds an element that is not there yet; neither a member nor children: does nothing.
  void add(std::string element, bool member, FieldSet below);

  /// Every member as path, in order.
  [[nodiscard]] std::vector<std::vector<std::string>> paths() const;
  /// ".data.a", ".spec.items[k=\"a\"].v": a path as conflict messages write it.
  [[nodiscard]] static std::string path_text(const std::vector<std::string>& path);

  /// FieldsV1.
  [[nodiscard]] Json to_json() const;
  /// Elements of unknown form are dropped. @error kBadRequest  not an object, malformed keys.
  [[nodiscard]] static Expected<FieldSet> from_json(const Json& fields);

 private:
  struct Child;
  [[nodiscard]] const Child* child(std::string_view element) const noexcept;
  void collect(std::vector<std::string>& prefix, std::vector<std::vector<std::string>>& out) const;

  std::vector<Child> children_;  ///< sorted by element
};

/// Fields that differ between two objects of one schema.
struct FieldChanges {
  FieldSet added, modified, removed;
  [[nodiscard]] bool empty() const noexcept {
    return added.empty() && modified.empty() && removed.empty();
  }
};

/// The fields that an applied configuration states: leaves, list items, empty maps.
/// @param schema null: free form (maps granular, lists atomic).
[[nodiscard]] FieldSet fields_of(const Schema* schema, const Json& object);

/// Compares by list and map types. Maps and items that appear or vanish as a whole count too.
[[nodiscard]] FieldChanges compare_fields(const Schema* schema, const Json& before,
                                          const Json& after);

/// The same of whole objects, whose metadata.managedFields are not looked at.
[[nodiscard]] FieldChanges compare_objects(const Schema* schema, const Json& before,
                                           const Json& after);

/// The element of an item of a list with list type set or map; "" when it has none (no key, wrong
/// type). Absent keys take the defaults of the item schema.
[[nodiscard]] std::string list_item_element(const Schema& list, const Json& item);

}  // namespace kintsugi::krm
