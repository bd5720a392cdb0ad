#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/internal/options.h"
#include "apiserver/served_kind.h"
#include "apiserver/stored_object.h"
#include "apiserver/view.h"
#include "base/error.h"
#include "krm/json.h"
#include "krm/selector.h"

namespace kintsugi::apiserver::internal {

/// One version of an object as selectors look at it: nothing is parsed before it is asked for.
class Candidate {
 public:
  /// Views must outlive it. @param stored nullopt: a corrupt value, matches nothing.
  Candidate(std::string_view key, std::string_view value, store::Revision revision);

  [[nodiscard]] bool is_readable() const noexcept { return stored_.has_value(); }
  [[nodiscard]] const StoredView& stored() const noexcept { return *stored_; }
  [[nodiscard]] std::string_view value() const noexcept { return value_; }
  [[nodiscard]] store::Revision revision() const noexcept { return revision_; }
  [[nodiscard]] std::string_view ns() const noexcept { return ns_; }
  [[nodiscard]] std::string_view name();
  [[nodiscard]] const krm::Json& labels();
  /// In the version of `kind`; null when it cannot be decoded. The first kind asked for wins.
  [[nodiscard]] const krm::Json* object(const ServedKind& kind);

 private:
  std::string_view value_;
  store::Revision revision_;
  std::optional<StoredView> stored_;
  std::string_view ns_, name_;
  std::string whole_name_;  ///< when the key holds a cut one
  std::optional<krm::Json> labels_;
  std::optional<krm::Json> object_;
  const ServedKind* object_kind_ = nullptr;
};

/// What a view shows of a kind: View::visible, View::names.
struct Shown {
  krm::Selector labels;
  std::shared_ptr<const View::Names> names;

  [[nodiscard]] bool is_all() const noexcept { return labels.empty() && names == nullptr; }
  /// It is named at all; has(): with the labels, too.
  [[nodiscard]] bool names_it(Candidate& candidate) const;
  [[nodiscard]] bool has(Candidate& candidate) const;
  /// The name that the object is shown by.
  [[nodiscard]] std::string_view name_of(Candidate& candidate) const;
  /// The name in the key of what is shown by this one; nullopt: there is none.
  [[nodiscard]] std::optional<std::string_view> key_name(std::string_view name) const;
};

/// What a list or watch selects inside its key range: namespace, name, labels, fields. Immutable.
class Selection {
 public:
  /// @param ns, name filters beyond the key range, "" = none.
  /// @param shown  what a view shows. @param known  labels of what it knows besides (View::known).
  /// @error kBadRequest selectors that do not parse, fields that the kind does not know.
  [[nodiscard]] static Expected<std::shared_ptr<const Selection>> make(
      ServedKindPtr kind, const ListOptions& options, std::string_view ns, std::string_view name,
      Shown shown = {}, krm::Selector known = {});

  /// Everything in the key range; then remainingItemCount can be counted.
  [[nodiscard]] bool is_all() const noexcept {
    return ns_.empty() && name_.empty() && labels_.empty() && fields_.empty() && shown_.is_all();
  }
  [[nodiscard]] bool matches(Candidate& candidate) const { return fits(candidate, shown_.labels); }
  /// It does not match, and its coming to match is no news of an object.
  [[nodiscard]] bool knows(Candidate& candidate) const {
    return !known_.empty() && fits(candidate, known_);
  }

 private:
  [[nodiscard]] bool fits(Candidate& candidate, const krm::Selector& visible) const;

  ServedKindPtr kind_;
  std::string ns_, name_;
  krm::Selector labels_, known_;
  Shown shown_;
  krm::FieldSelector fields_;
};
using SelectionPtr = std::shared_ptr<const Selection>;

/// What a request's view shows; everything without a view.
[[nodiscard]] Shown shown_by(const std::shared_ptr<View>& view, std::string_view cluster,
                             const ResourceDef& def);
/// Labels that a request's view asks for (View::known), none without a view.
[[nodiscard]] krm::Selector known_labels(const std::shared_ptr<View>& view,
                                         std::string_view cluster, const ResourceDef& def);
/// Whether this stored value exists for a view.
[[nodiscard]] bool is_visible(const std::shared_ptr<View>& view, std::string_view cluster,
                              const ResourceDef& def, std::string_view key, std::string_view value);

}  // namespace kintsugi::apiserver::internal
