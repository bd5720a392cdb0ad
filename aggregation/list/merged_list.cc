#include "aggregation/list/merged_list.h"

#include <utility>

#include "aggregation/list/internal/list_run.h"

namespace kintsugi::aggregation {

std::unique_ptr<http::RequestHandler> make_merged_list(Lists& lists, http::RequestHead head,
                                                       http::ResponseStream& stream,
                                                       MergeRoute route, MergeQuery query,
                                                       std::string accept) {
  auto list = std::make_unique<ListRun>(lists, std::move(head), stream, std::move(route),
                                        std::move(query), std::move(accept));
  list->start();
  return list;
}

}  // namespace kintsugi::aggregation
