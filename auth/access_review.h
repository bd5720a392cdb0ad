#pragma once

#include <string>
#include <string_view>

#include "auth/authorizer.h"
#include "base/error.h"
#include "base/time.h"
#include "krm/json.h"
#include "net/upstream.h"

/// SubjectAccessReviews as requests and answers. Pure.
namespace kintsugi::auth {

inline constexpr std::string_view kAccessReviewPath =
    "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// Selectors of a list or watch, as they were sent; "": none.
struct ReviewSelectors {
  std::string labels, fields;
};

/// What is asked: user, UID, groups and extras, and the attributes with their selectors.
[[nodiscard]] krm::Json access_review(const auth::Attributes& attributes,
                                      const ReviewSelectors& selectors = {});

/// A POST of a review to a server. @param target  path below the base URL of the server
[[nodiscard]] net::FetchRequest review_request(std::string target, std::string body,
                                               Duration timeout);

/// The answer of a review. @error kUnavailable nobody could be asked now; kInternal the server is
/// there and did not review.
[[nodiscard]] Expected<krm::Json> read_review(Expected<net::FetchResponse> response);
/// The same of a SubjectAccessReview: allowed only if its status says so.
[[nodiscard]] Expected<auth::Decision> read_decision(Expected<net::FetchResponse> response);

}  // namespace kintsugi::auth
