#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apiserver/resource.h"
#include "base/error.h"
#include "krm/json.h"

/// ConversionReview documents of apiextensions.k8s.io (AM-399). Pure.
namespace kintsugi::apiserver::internal {

/// What one review asks.
struct ConversionRequest {
  std::string review_version;      ///< "v1" or "v1beta1"
  std::string uid;                 ///< of the review
  std::string desired;             ///< "ex.io/v1"
  std::vector<krm::Json> objects;  ///< none of them is of the desired version already
};

/// The first review version of the webhook that we speak. @error kProtocol
[[nodiscard]] Expected<std::string> review_version(const ConversionWebhook& webhook);
/// The body to send.
[[nodiscard]] std::string encode_review(const ConversionRequest& request);
/// The converted objects, as many as were asked for, in their order, with the metadata of the
/// originals but labels and annotations.
/// @error kProtocol  what is wrong with its answer; for logs, as it may hold what the webhook sent.
[[nodiscard]] Expected<std::vector<krm::Json>> decode_review(const ConversionRequest& request,
                                                             std::string_view body);
/// Why the webhook says that it failed: result.message as far as callers may read it, its first 256
/// characters without those that cannot be printed (SE-108). "": it says nothing.
[[nodiscard]] std::string failure_message(const ConversionRequest& request, std::string_view body);

/// A failed conversion: 500 with exactly this message.
[[nodiscard]] Error conversion_failure(std::string message);

/// `ex.io/v1beta1, Kind=Cog`, for error texts.
[[nodiscard]] std::string object_kind(const krm::Json& object);
/// `conversion webhook for ex.io/v1beta1, Kind=Cog`, for error texts.
[[nodiscard]] std::string conversion_subject(const krm::Json& object);

}  // namespace kintsugi::apiserver::internal
