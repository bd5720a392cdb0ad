#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "apiserver/internal/media.h"
#include "apiserver/internal/table.h"
#include "apiserver/served_kind.h"
#include "base/error.h"
#include "krm/json.h"
#include "store/store.h"

namespace kintsugi::apiserver::internal {

/// Makes the JSON text of answers from stored bytes, in one form (object, Table,
/// PartialObjectMetadata). Plain JSON of the storage version and PartialObjectMetadata are spliced
/// without parsing. Threads: any, immutable.
class ObjectEncoder {
 public:
  ObjectEncoder(ServedKindPtr kind, const Form& form, IncludeObject include);

  /// Appends a whole answer for one stored object. @error kCorrupt
  [[nodiscard]] Expected<void> append_object(std::string& out, std::string_view value,
                                             store::Revision revision) const;
  /// The same for an object that is not stored (dry run), in the version of the kind.
  [[nodiscard]] std::string object_text(const krm::Json& object) const {
    return event_object_text(object, true);
  }
  [[nodiscard]] std::string event_object_text(const krm::Json& object, bool with_columns) const;
  /// Appends one element of the list's items or rows. @error kCorrupt
  [[nodiscard]] Expected<void> append_item(std::string& out, std::string_view value,
                                           store::Revision revision) const;

  /// The same for an object in the version of the kind. @param object with its resourceVersion.
  void append_item_object(std::string& out, krm::Json object) const;

  /// Everything before the first element. @param remaining -1: unknown.
  [[nodiscard]] std::string list_head(store::Revision revision, std::string_view continue_token,
                                      std::int64_t remaining) const;
  /// What follows the last element. @param empty no element came.
  [[nodiscard]] std::string_view list_tail(bool empty) const noexcept;

  /// Object of a watch event. @param with_columns the Table's columnDefinitions, else null.
  [[nodiscard]] Expected<void> append_event_object(std::string& out, std::string_view value,
                                                   store::Revision revision,
                                                   bool with_columns) const;
  /// Object of a BOOKMARK event. @param initial_end with the annotation of WatchList.
  [[nodiscard]] std::string bookmark_object(store::Revision revision, bool initial_end,
                                            bool with_columns) const;

  [[nodiscard]] const ServedKindPtr& kind() const noexcept { return kind_; }
  [[nodiscard]] const Form& form() const noexcept { return form_; }

 private:
  [[nodiscard]] Expected<void> append_partial(std::string& out, std::string_view value,
                                              store::Revision revision) const;
  void append_table(std::string& out, const krm::Json& object, std::string_view revision,
                    bool with_columns) const;

  ServedKindPtr kind_;
  Form form_;
  std::shared_ptr<const TableFormat> table_;  ///< of Tables only
};

}  // namespace kintsugi::apiserver::internal
