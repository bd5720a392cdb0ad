#pragma once

#include <memory>
#include <string>
#include <vector>

#include "aggregation/asking/member_call.h"
#include "aggregation/asking/merge_query.h"
#include "aggregation/list/list_plan.h"
#include "aggregation/list/lists.h"
#include "http/handler.h"

namespace kintsugi::aggregation {

/// Starts a merged list (AGG-601): all shards are asked at once, items pass as bytes
/// in slot order, `metadata` comes last. Shards whose turn has not come wait in their windows, and
/// all of them when the client does not read. @param accept  of mergeable_accept()
[[nodiscard]] std::unique_ptr<http::RequestHandler> make_merged_list(
    Lists& lists, http::RequestHead head, http::ResponseStream& stream, MergeRoute route,
    MergeQuery query, std::string accept);

}  // namespace kintsugi::aggregation
