#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "kinds/reviews/reviews.h"

/// Shared by the files of reviews.h only.
namespace kintsugi::kinds {

/// An unstored kind of version v1 with its builtin schema.
[[nodiscard]] std::shared_ptr<apiserver::ResourceDef> review_definition(std::string_view group,
                                                                        std::string_view kind,
                                                                        bool namespaced);
/// Puts `status` into the object that is sent back.
void finish_review(krm::Json& object, krm::Json status);

[[nodiscard]] std::vector<apiserver::ResourcePtr> access_review_kinds(const ReviewParams& params);

}  // namespace kintsugi::kinds
