#pragma once

#include <memory>

#include "aggregation/asking/late_slots.h"
#include "aggregation/list/lists.h"
#include "http/handler.h"

namespace kintsugi::aggregation {

/// Answers a GET by name over plain servers (AGG-613): all of them are asked, the
/// one that has the object answers, with its marker. None has it: 404. More than one: 409, which
/// names them. @param route  its path ends in the name
[[nodiscard]] std::unique_ptr<http::RequestHandler> answer_merged_get(Lists& lists, LateSlots& late,
                                                                      http::RequestHead head,
                                                                      http::ResponseStream& stream,
                                                                      MergeRoute route);

}  // namespace kintsugi::aggregation
