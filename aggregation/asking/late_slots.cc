#include "aggregation/asking/late_slots.h"

#include <utility>

#include "aggregation/asking/route.h"
#include "serving/answer.h"

namespace kintsugi::aggregation {

bool LateSlots::all_have_slots() const {
  return aggregation::all_have_slots(*positions_.slots, view_.current());
}

std::unique_ptr<http::RequestHandler> LateSlots::when_known(
    std::shared_ptr<const http::RequestHead> head, http::ResponseStream& stream,
    std::optional<std::uint32_t> generation, Ask ask) {
  const auto is_early = [this, named = generation.value_or(0)] {
    return named > positions_.slots->current().generation || !all_have_slots();
  };
  if (!is_early()) {
    return ask();
  }
  const auto late = [this, head = std::move(head), &stream, ask = std::move(ask)] {
    return all_have_slots() ? ask()
                            : serving::answer_error(*head, stream, serving::not_known_yet());
  };
  return held_.has_room() ? held_.hold(is_early, late) : late();
}

}  // namespace kintsugi::aggregation
