#include "store/batches.h"

#include <iterator>

namespace kintsugi::store {

std::vector<Op> take_batch(std::vector<Op>& rest, const Limits& limits) {
  std::size_t count = 0;
  std::size_t bytes = 0;
  while (count < rest.size() && count + kRoomForGuards < limits.ops) {
    bytes += rest[count].value.size();
    if (count > 0 && bytes > limits.value_bytes) {
      break;
    }
    ++count;
  }
  const auto end = rest.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<Op> out(std::make_move_iterator(rest.begin()), std::make_move_iterator(end));
  rest.erase(rest.begin(), end);
  return out;
}

}  // namespace kintsugi::store
