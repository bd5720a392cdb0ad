#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kinds/policies/internal/policy_request.h"
#include "krm/json.h"

/// AdmissionReview documents of admission.k8s.io. Pure.
namespace kintsugi::kinds {

/// What a webhook is asked.
struct AdmissionQuestion {
  std::string review_version;  ///< "v1" or "v1beta1"
  std::string uid;
  const PolicyRequest& request;
  GroupVersionName resource, kind;  ///< as which it was matched
  const krm::Json* object = nullptr;
  const krm::Json* old_object = nullptr;
};
/// The body to send.
[[nodiscard]] std::string encode_admission_review(const AdmissionQuestion& question);

/// What it says.
struct AdmissionAnswer {
  bool allowed = false;
  krm::Json result;  ///< response.status; null: none
  std::vector<std::string> warnings;
  std::vector<std::pair<std::string, std::string>> annotations;
  std::string patch;  ///< JSON patch; "": none
};
/// Answers of v1beta1 need no uid and no kind of their own.
/// @error kProtocol  why it cannot be used, for callers: no byte of the answer (SE-108), and of
/// what is no AdmissionReview only that it was not understood.
[[nodiscard]] Expected<AdmissionAnswer> decode_admission_review(std::string_view review_version,
                                                                std::string_view uid, bool mutating,
                                                                std::string_view body);

/// The Status of a request that a webhook has refused, as the reference makes it of its answer.
[[nodiscard]] krm::Json denial_status(std::string_view webhook, const krm::Json& result);
/// The same as an error, for those who get no Status.
[[nodiscard]] Error denial_error(const krm::Json& status);

}  // namespace kintsugi::kinds
