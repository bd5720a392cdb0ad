#include "net/internal/round_trip.h"

#include <gtest/gtest.h>

namespace kintsugi::net {
namespace {

TEST(RoundTrip, GR_507_TheShortestOfTheNewestFour) {
  RoundTrip trip;
  EXPECT_EQ(trip.value(), Duration::zero());
  trip.note(Duration::zero());
  EXPECT_EQ(trip.value(), Duration::zero()) << "nothing was measured";
  trip.note(milliseconds(90));
  EXPECT_EQ(trip.value(), milliseconds(90));
  trip.note(milliseconds(80));
  trip.note(milliseconds(400));
  EXPECT_EQ(trip.value(), milliseconds(80)) << "a busy end makes it longer only";
  trip.note(milliseconds(85));
  trip.note(milliseconds(86));
  EXPECT_EQ(trip.value(), milliseconds(80));
  trip.note(milliseconds(87));
  EXPECT_EQ(trip.value(), milliseconds(85)) << "the way may have become longer";
}

}  // namespace
}  // namespace kintsugi::net
