#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "krm/json.h"
#include "store/store.h"

/// Rows of a logical cluster, as moves see them.
namespace kintsugi::controlplane {

/// Whether a stored resource is another shard's or another cluster's: what is copied from there is
/// copied again at the destination.
[[nodiscard]] bool belongs_to_others(std::string_view resource);

/// Calls back for each row of a cluster at or behind a key, until that returns false.
/// @param at  as of this revision; 0: now
/// @error kCompacted that revision is gone; kIo
[[nodiscard]] Expected<void> visit_rows(const store::Store& store, const std::string& cluster,
                                        std::string start, store::Revision at,
                                        const store::Visitor& visit);

/// Whether a key is a row that moves with a cluster.
[[nodiscard]] bool moves_with(std::string_view key, std::string_view cluster);
/// "configmaps", "widgets.ex.io": what a request calls the resource of a row.
[[nodiscard]] std::string resource_of(std::string_view key);

/// Number and digest of rows, in any order: what both sides have to agree on before a logical
/// cluster changes its owner.
class RowSum {
 public:
  void add(std::string_view key, std::string_view value) noexcept;
  /// {rows, digest}
  void put(krm::Json& into) const;
  [[nodiscard]] bool is(const krm::Json& told) const;

 private:
  std::int64_t rows_ = 0;
  std::uint64_t sum_ = 0;
};

/// By resource the revision of its newest deletion.
using Deletions = std::map<std::string, std::int64_t>;
void note_deletion(Deletions& deletions, const std::string& resource, std::int64_t revision);
[[nodiscard]] krm::Json to_json(const Deletions& deletions);
/// Adds what another answer has told.
void merge(Deletions& into, const krm::Json* told);

[[nodiscard]] std::int64_t integer_of(const krm::Json& object, std::string_view member);

}  // namespace kintsugi::controlplane
