#include "workers/delivery/protocol/content_type.h"

#include <gtest/gtest.h>

#include "http/gzip.h"

namespace kintsugi::workers {
namespace {

TEST(DeliveryContentType, CM_2_CM_3_VersionFormatAndCompression) {
  const auto type = parse_delivery_content_type("v3/protobuf+zstd");
  ASSERT_TRUE(type);
  EXPECT_EQ(type->version, 3U);
  EXPECT_EQ(type->format, "protobuf");
  EXPECT_EQ(type->compression, "zstd");
  EXPECT_EQ(delivery_codec("v1/json"), DeliveryCodec::kJson);
  EXPECT_EQ(delivery_codec("v1/json+gzip"), DeliveryCodec::kJsonGzip);
}

TEST(DeliveryContentType, CM_T004_OthersAreNone) {
  for (const char* const text :
       {"", "json", "v1", "v/json", "v1/", "V1/json", "v1/JSON", "v1/json+", "v1/json+GZIP",
        "v12345/json", "v1/json ", " v1/json", "v1/js on", "v1/json+gz-ip", "v1//json",
        "v1/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "v1/json+aaaaaaaaaaaaaaaaa"}) {
    EXPECT_FALSE(parse_delivery_content_type(text)) << text;
  }
  for (const char* const text : {"v9/json", "v1/json+zstd", "v1/protobuf", "v3/protobuf"}) {
    EXPECT_TRUE(parse_delivery_content_type(text)) << text;
    EXPECT_FALSE(delivery_codec(text)) << text;
  }
}

std::string error_of(std::string_view payload, UnpackBounds bounds = {}) {
  const auto out = unpack(DeliveryCodec::kJsonGzip, payload, bounds);
  return out ? "" : std::string(out.error().message());
}

TEST(DeliveryContentType, CM_4_CM_T003_GzipComesBackAsItWas) {
  const std::string text = R"({"a":"b"})";
  EXPECT_EQ(*unpack(DeliveryCodec::kJsonGzip, pack(DeliveryCodec::kJsonGzip, text), {}), text);
  EXPECT_EQ(*unpack(DeliveryCodec::kJson, pack(DeliveryCodec::kJson, text), {}), text);
}

TEST(DeliveryContentType, CM_45_GzipThatIsCutFollowedOrInMembers) {
  const std::string one = pack(DeliveryCodec::kJsonGzip, R"({"a":)");
  const std::string two = pack(DeliveryCodec::kJsonGzip, "1}");
  EXPECT_EQ(*unpack(DeliveryCodec::kJsonGzip, one + two, {}), R"({"a":1})");
  for (std::size_t size = 1; size < one.size(); ++size) {
    EXPECT_EQ(error_of(std::string_view(one).substr(0, size)), "the payload is incomplete gzip");
  }
  EXPECT_EQ(error_of(one + "garbage"), "the payload is not gzip");
  EXPECT_EQ(error_of("{}"), "the payload is not gzip");
}

TEST(DeliveryContentType, CM_T005_ABombEndsAtItsBounds) {
  http::Gzip gzip;
  std::string bomb;
  const std::string mebibyte(1U << 20U, ' ');
  for (int i = 0; i < 64; ++i) {
    gzip.write(mebibyte, i == 63, bomb);
  }
  EXPECT_EQ(error_of(bomb, {std::size_t{4} << 20U, 100'000}),
            "the payload unpacks to more than 4194304 bytes");
  EXPECT_EQ(error_of(bomb.substr(0, 100)), "the payload unpacks to more than 10000 bytes");
  EXPECT_EQ(unpack(DeliveryCodec::kJson, "12345", {4, 100}).error().message(),
            "the payload has more than 4 bytes");
}

}  // namespace
}  // namespace kintsugi::workers
