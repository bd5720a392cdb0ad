#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apiserver/admission.h"
#include "apiserver/resource.h"
#include "kinds/policies/internal/match.h"
#include "kinds/policies/internal/policy_request.h"
#include "krm/json.h"

namespace kintsugi::kinds {

/// A write as policies and webhooks look at it: what they match, and its namespace as it was when
/// that was asked first. Threads: one loop. All arguments outlive it.
class WriteSubject {
 public:
  WriteSubject(const apiserver::Registry& registry, const apiserver::ObjectReader& reader,
               const apiserver::PendingWrite& write, const PolicyRequest& request)
      : registry_(registry), reader_(reader), write_(write), request_(request) {}

  /// The result refers to this and to the objects.
  [[nodiscard]] AdmissionSubject of(const krm::Json* object, const krm::Json* old);
  /// @error kNotFound
  [[nodiscard]] Expected<const krm::Json*> namespace_object();
  /// The kind of a resource as which the write was matched.
  [[nodiscard]] apiserver::ServedKindPtr kind_of(const GroupVersionName& resource) const;

 private:
  const apiserver::Registry& registry_;
  const apiserver::ObjectReader& reader_;
  const apiserver::PendingWrite& write_;
  const PolicyRequest& request_;
  std::optional<krm::Json> namespace_;
  bool namespace_known_ = false;
};

/// The objects of a write in the versions that are asked for. Lifetime: shared by conversions that
/// are on their way.
class WriteForms : public std::enable_shared_from_this<WriteForms> {
 public:
  /// @param hides_cluster  without the annotation of the logical cluster
  WriteForms(apiserver::PendingWritePtr write, apiserver::Review review, bool hides_cluster)
      : write_(std::move(write)), review_(std::move(review)), hides_cluster_(hides_cluster) {}

  struct Form {
    apiserver::ServedKindPtr kind;  ///< null: the object has no other form
    std::shared_ptr<const krm::Json> object, old;
  };
  /// `done` at once or later, with what is valid until the object changes.
  /// @param kind  of WriteSubject::kind_of. @error what the conversion fails with
  void get(const apiserver::ServedKindPtr& kind, std::function<void(Expected<const Form*>)> done);
  /// From now on the object is this one, as a review shows it.
  void set_object(std::shared_ptr<const krm::Json> object);
  [[nodiscard]] const std::shared_ptr<const krm::Json>& object() const { return review_.object; }
  [[nodiscard]] const apiserver::Review& review() const { return review_; }

 private:
  void convert(std::shared_ptr<const krm::Json> from, const apiserver::ServedKindPtr& kind,
               std::function<void(Expected<std::shared_ptr<const krm::Json>>)> done);

  apiserver::PendingWritePtr write_;
  apiserver::Review review_;
  bool hides_cluster_;
  std::map<std::string, Form> forms_;  // by apiVersion
};

}  // namespace kintsugi::kinds
