#include "apiserver/internal/selection.h"

#include <algorithm>

#include "apiserver/keys.h"
#include "base/strings.h"
#include "krm/go_text.h"
#include "krm/status.h"

namespace kintsugi::apiserver::internal {
namespace {

const krm::Json& null_json() {
  static const krm::Json null;
  return null;
}

/// ".spec.color" or "spec.color"; plain members only, which is all that selectable fields may name.
std::string value_at(const krm::Json& object, std::string_view path) {
  const krm::Json* value = &object;
  if (!path.empty() && path.front() == '.') {
    path.remove_prefix(1);
  }
  for (const std::string_view part : split(path, '.')) {
    value = value->find(part);
    if (value == nullptr) {
      return {};
    }
  }
  if (value->is_string()) {
    return std::string(value->as_string());
  }
  return value->is_null() ? std::string() : value->dump();
}

bool is_common_field(const ServedKind& kind, std::string_view field) {
  return field == "metadata.name" ||
         (field == "metadata.namespace" && kind.def->has_namespace_field);
}

std::string_view path_of(const ServedKind& kind, std::string_view field) {
  for (const ResourceDef::FieldLabel& label : kind.def->field_labels) {
    if (label.label == field) {
      return label.json_path;
    }
  }
  for (const std::string& path : kind.version->selectable_fields) {
    if (std::string_view(path).substr(path.starts_with('.') ? 1 : 0) == field) {
      return path;
    }
  }
  return {};
}

Error unknown_field(const ServedKind& kind, const std::string& field) {
  if (kind.def->builtin && kind.def->field_labels.empty()) {
    return krm::bad_request(krm::go_quote(field) +
                            " is not a known field selector: only \"metadata.name\", "
                            "\"metadata.namespace\"");
  }
  return krm::bad_request("field label not supported: " + field);
}

}  // namespace

Candidate::Candidate(std::string_view key, std::string_view value, store::Revision revision)
    : value_(value), revision_(revision) {
  if (const std::optional<KeyParts> parts = parse_key(key)) {
    ns_ = parts->ns;
    name_ = parts->name_is_cut ? std::string_view() : parts->name;
  }
  if (Expected<StoredView> view = StoredView::parse(value)) {
    stored_ = *view;
  }
}

std::string_view Candidate::name() {
  if (name_.empty() && stored_) {
    if (Expected<krm::Json> text = krm::Json::parse(metadata_member(*stored_, "name"))) {
      whole_name_ = text->as_string();
      name_ = whole_name_;
    }
  }
  return name_;
}

const krm::Json& Candidate::labels() {
  if (!labels_) {
    labels_.emplace();
    const std::string_view text = metadata_member(*stored_, "labels");
    if (!text.empty()) {
      if (Expected<krm::Json> parsed = krm::Json::parse(text)) {
        labels_ = std::move(*parsed);
      }
    }
  }
  return *labels_;
}

const krm::Json* Candidate::object(const ServedKind& kind) {
  if (object_kind_ != &kind) {
    object_kind_ = &kind;
    object_.reset();
    if (Expected<krm::Json> decoded = kind.decode(value_, revision_)) {
      object_ = std::move(*decoded);
    }
  }
  return object_ ? &*object_ : nullptr;
}

Expected<SelectionPtr> Selection::make(ServedKindPtr kind, const ListOptions& options,
                                       std::string_view ns, std::string_view name, Shown shown,
                                       krm::Selector known) {
  auto selection = std::make_shared<Selection>();
  Expected<krm::Selector> labels = krm::Selector::parse_asked(options.label_selector);
  if (!labels) {
    return fail(std::move(labels.error()));
  }
  Expected<krm::FieldSelector> fields = krm::FieldSelector::parse(options.field_selector);
  if (!fields) {
    return fail(std::move(fields.error()));
  }
  for (const krm::FieldSelector::Term& term : fields->terms()) {
    if (!is_common_field(*kind, term.field) && path_of(*kind, term.field).empty()) {
      return fail(unknown_field(*kind, term.field));
    }
  }
  selection->kind_ = std::move(kind);
  selection->labels_ = std::move(*labels);
  selection->shown_ = std::move(shown);
  selection->known_ = std::move(known);
  selection->fields_ = std::move(*fields);
  selection->ns_ = ns;
  selection->name_ = name;
  return SelectionPtr(std::move(selection));
}

bool Selection::fits(Candidate& candidate, const krm::Selector& visible) const {
  if (!candidate.is_readable()) {
    return false;
  }
  if ((!ns_.empty() && candidate.ns() != ns_) || !shown_.names_it(candidate) ||
      (!name_.empty() && shown_.name_of(candidate) != name_)) {
    return false;
  }
  if (!visible.empty() && !visible.matches(candidate.labels())) {
    return false;
  }
  if (!fields_.empty()) {
    const bool match = fields_.matches([&](std::string_view field) -> std::string {
      if (field == "metadata.name") {
        return std::string(shown_.name_of(candidate));
      }
      if (field == "metadata.namespace") {
        return std::string(candidate.ns());
      }
      const krm::Json* object = candidate.object(*kind_);
      return value_at(object == nullptr ? null_json() : *object, path_of(*kind_, field));
    });
    if (!match) {
      return false;
    }
  }
  return labels_.empty() || labels_.matches(candidate.labels());
}

bool Shown::names_it(Candidate& candidate) const {
  return names == nullptr || names->find(candidate.name()) != names->end();
}

bool Shown::has(Candidate& candidate) const {
  return names_it(candidate) && (labels.empty() || labels.matches(candidate.labels()));
}

std::string_view Shown::name_of(Candidate& candidate) const {
  if (names == nullptr) {
    return candidate.name();
  }
  const auto found = names->find(candidate.name());
  return found == names->end() ? std::string_view() : std::string_view(found->second);
}

std::optional<std::string_view> Shown::key_name(std::string_view name) const {
  if (names == nullptr) {
    return name;
  }
  for (const auto& [key, shown] : *names) {
    if (shown == name) {
      return key;
    }
  }
  return std::nullopt;
}

Shown shown_by(const std::shared_ptr<View>& view, std::string_view cluster,
               const ResourceDef& def) {
  return view == nullptr ? Shown() : Shown{view->visible(cluster, def), view->names(cluster, def)};
}

krm::Selector known_labels(const std::shared_ptr<View>& view, std::string_view cluster,
                           const ResourceDef& def) {
  return view == nullptr ? krm::Selector() : view->known(cluster, def);
}

bool is_visible(const std::shared_ptr<View>& view, std::string_view cluster, const ResourceDef& def,
                std::string_view key, std::string_view value) {
  const Shown shown = shown_by(view, cluster, def);
  if (shown.is_all()) {
    return true;
  }
  Candidate candidate(key, value, 0);
  return candidate.is_readable() && shown.has(candidate);
}

}  // namespace kintsugi::apiserver::internal
