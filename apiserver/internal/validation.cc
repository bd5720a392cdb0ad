// The stage of a write that judges the object.
#include <algorithm>
#include <utility>

#include "apiserver/internal/rule_checks.h"
#include "apiserver/internal/scale.h"
#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/write_op.h"
#include "krm/finalizers.h"
#include "krm/go_text.h"
#include "krm/names.h"
#include "krm/status.h"
#include "krm/structural.h"

namespace kintsugi::apiserver::internal {
namespace {

krm::NameRule name_rule(NameRule rule) {
  switch (rule) {
    case NameRule::kSubdomain:
      return krm::NameRule::kSubdomain;
    case NameRule::kLabel:
      return krm::NameRule::kLabel;
    case NameRule::kPathSegment:
      return krm::NameRule::kPathSegment;
    case NameRule::kNone:
      return krm::NameRule::kAny;
  }
  return krm::NameRule::kAny;
}

/// What the CustomResourceDefinition's server says of new finalizers without a domain.
void warn_of_finalizers(const krm::Json& object, const krm::Json* old,
                        std::vector<std::string>& warnings) {
  const krm::Json* finalizers = object.at({"metadata", "finalizers"});
  if (finalizers == nullptr) {
    return;
  }
  const krm::Json* before = old == nullptr ? nullptr : old->at({"metadata", "finalizers"});
  for (const krm::Json& finalizer : finalizers->items()) {
    const std::string_view name = finalizer.as_string();
    const bool kept = before != nullptr && std::find(before->items().begin(), before->items().end(),
                                                     finalizer) != before->items().end();
    if (!kept && name.find('/') == std::string_view::npos && name != krm::kOrphanFinalizer &&
        name != krm::kForegroundFinalizer) {
      warnings.push_back("metadata.finalizers: " + krm::go_quote(name) +
                         ": prefer a domain-qualified finalizer name to avoid accidental conflicts "
                         "with other finalizer writers");
    }
  }
}

/// The objects of a write in the version that was written.
class Judged {
 public:
  explicit Judged(const WriteOp& op) : object_(op.object.get()), old_(op.old.get()) {
    const ServedKind& kind = *op.kind;
    if (kind.is_custom() && kind.version->from_storage == nullptr) {
      return;  // they are in it
    }
    const auto in_version = [&kind](const krm::Json& object) {
      krm::Json copy = object;
      if (!kind.is_custom()) {
        kind.from_storage(copy);
      }
      return copy;
    };
    new_form_ = in_version(*object_);
    object_ = &new_form_;
    if (kind.version->from_storage != nullptr) {
      // What was written had them, what is converted may not.
      krm::fill_defaults(*kind.version->schema, new_form_);
    }
    if (old_ != nullptr) {
      old_form_ = in_version(*old_);
      old_ = &old_form_;
    }
  }
  Judged(const Judged&) = delete;
  Judged& operator=(const Judged&) = delete;

  [[nodiscard]] const krm::Json& object() const noexcept { return *object_; }
  [[nodiscard]] const krm::Json* old() const noexcept { return old_; }  ///< null on create

 private:
  const krm::Json* object_;
  const krm::Json* old_;
  krm::Json new_form_, old_form_;
};

/// Custom objects by the schema of the version that was written: shape and values now. What is left
/// for the rules is in `rules`; none if they must not look at the object, as its shape is wrong.
/// False: Hooks::validate must not either.
bool judge_shape(WriteOp& op, const Judged& judged, cel::RuleSetPtr& rules,
                 std::vector<Cause>& causes) {
  const ServedKind& kind = *op.kind;
  const krm::Schema& schema = *kind.version->schema;
  const krm::Json& object = judged.object();
  const krm::Json* before = judged.old();
  std::vector<Cause> found;
  if (op.subresource == "status" && kind.version->status) {
    krm::validate_status(schema, object, found, before);
  } else {
    krm::validate_object(schema, object, found, before);
    check_scale_values(kind.version->scale, object, found);
    if (found.empty() && causes.empty()) {
      warn_of_finalizers(object, before, op.warnings);
    }
  }
  const bool blocked = krm::blocks_rules(found) || krm::blocks_rules(causes);
  if (kind.version->rules != nullptr && blocked) {
    found.push_back(krm::rules_not_checked());
  } else {
    rules = kind.version->rules;
  }
  std::move(found.begin(), found.end(), std::back_inserter(causes));
  return !blocked;
}

void finish_validation(const WriteOpPtr& op, bool is_shaped, std::vector<Cause> causes,
                       const std::function<void()>& next) {
  const ResourceDef& def = *op->kind->def;
  if (is_shaped && def.hooks.validate) {
    def.hooks.validate(op->context(), *op->object, op->old.get(), causes);
  }
  if (!causes.empty()) {
    op->refuse(krm::invalid(def.stored_under_group.value_or(def.group), def.kind,
                            op->object->text({"metadata", "name"}), std::move(causes)));
    return;
  }
  fill_stored_defaults(*op, *op->object);
  next();
}

}  // namespace

void validate_write(const WriteOpPtr& op, std::function<void()> next) {
  const ResourceDef& def = *op->kind->def;
  std::vector<Cause> causes;
  const krm::MetaRules rules{def.namespaced, name_rule(def.name_rule),
                             def.builtin && !def.general_metadata};
  if (const krm::Json* metadata = op->object->find("metadata")) {
    krm::validate_object_meta(*metadata, rules, "metadata", causes);
  }
  if (def.builtin || op->kind->version->schema == nullptr) {
    finish_validation(op, true, std::move(causes), next);
    return;
  }
  const Judged judged(*op);
  cel::RuleSetPtr to_check;
  const bool is_shaped = judge_shape(*op, judged, to_check, causes);
  if (to_check == nullptr ||
      cel::try_rules(*to_check, judged.object(), judged.old(), causes, op->warnings)) {
    finish_validation(op, is_shaped, std::move(causes), next);
    return;
  }
  RuleCheck check;
  check.rules = std::move(to_check);
  check.object = judged.object();
  if (judged.old() != nullptr) {
    check.old = *judged.old();
  }
  const bool is_taken = op->server.rule_checks().run(
      op->cluster, std::move(check),
      [op, is_shaped, causes = std::move(causes), next = std::move(next)](RuleCheck done) mutable {
        std::move(done.causes.begin(), done.causes.end(), std::back_inserter(causes));
        std::move(done.warnings.begin(), done.warnings.end(), std::back_inserter(op->warnings));
        finish_validation(op, is_shaped, std::move(causes), next);
      });
  if (!is_taken) {
    op->refuse(rules_are_busy());
  }
}

}  // namespace kintsugi::apiserver::internal
