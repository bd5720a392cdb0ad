#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "aggregation/asking/merge_query.h"
#include "aggregation/documents/merged_document.h"
#include "aggregation/merge_loop.h"
#include "aggregation/rights/permit.h"
#include "http/handler.h"

namespace kintsugi::aggregation {

/// Answers a merged list or watch with `share: reviewed` (AGG-904): asks for the
/// caller's rights (route.reviews), refuses, or reads with the proxy's own credential what the
/// caller may see. Of the request's fields the shards get none that speaks for the caller.
[[nodiscard]] std::unique_ptr<http::RequestHandler> answer_reviewed(
    MergeLoop& shared, http::RequestHead head, http::ResponseStream& stream, MergeRoute route,
    MergeQuery query, std::string accept);

/// The same for a discovery or OpenAPI document of several shards.
/// @param members  whom the reviews let in, all of them or nobody
[[nodiscard]] std::unique_ptr<http::RequestHandler> answer_reviewed_document(
    MergeLoop& shared, DocumentLoop& documents, http::RequestHead head,
    http::ResponseStream& stream, DocumentRoute route, std::shared_ptr<const ReviewPlan> reviews,
    std::function<std::vector<Member>()> members);

/// The path of the collection that a request was understood as, without the query; the own
/// credential reads nothing that is written in another way.
[[nodiscard]] std::string canonical_path(const krm::RequestInfo& info);
/// A path segment that every server reads as it stands.
[[nodiscard]] bool is_plain_segment(std::string_view text) noexcept;

/// Only what a list or watch is asked with, each once: "&labelSelector=…".
[[nodiscard]] std::string reviewed_query(const MergeQuery& query, const krm::RequestInfo& info);

}  // namespace kintsugi::aggregation
