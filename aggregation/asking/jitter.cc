#include "aggregation/asking/jitter.h"

#include <random>

namespace kintsugi::aggregation {

std::int64_t random_between(std::int64_t least, std::int64_t most) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

Duration about(Duration whole) {
  return Duration(random_between(whole.count() * 9 / 10, whole.count() * 11 / 10));
}

Duration jittered(Duration whole) {
  return Duration(random_between(whole.count() / 2, whole.count()));
}

}  // namespace kintsugi::aggregation
