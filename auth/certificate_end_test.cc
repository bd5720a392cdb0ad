#include "auth/certificate_end.h"

#include <gtest/gtest.h>

#include "auth/testing/certificates.h"

namespace kintsugi::auth {
namespace {

std::string ending(std::int64_t at) {
  testing::Spec spec;
  spec.to = at;
  return testing::make(spec, nullptr)->pem();
}

TEST(CertificateEnd, WhenThereAreSeveral_TheFirstThatEndsCounts) {
  const std::int64_t soon = 1'900'000'000,
                     later = 4'102'444'800;  // beyond 32 bits, GeneralizedTime
  EXPECT_EQ(first_end_of(ending(later)), later);
  EXPECT_EQ(first_end_of(ending(later) + ending(soon) + ending(later)), soon);
  EXPECT_EQ(first_end_of("# a comment\n" + ending(soon)), soon);
}

TEST(CertificateEnd, WhenThereIsNoneOrABrokenOne_NothingIsSaid) {
  EXPECT_EQ(first_end_of(""), std::nullopt);
  EXPECT_EQ(first_end_of("no PEM"), std::nullopt);
  std::string broken = ending(1'900'000'000);
  broken[60] = '!';
  EXPECT_EQ(first_end_of(broken), std::nullopt);
  EXPECT_EQ(first_end_of(ending(1'900'000'000) + broken), std::nullopt);
}

TEST(CertificateEnd, WhenAskedForAnOrganization_TheFirstCertificateAnswers) {
  testing::Spec spec;
  spec.organizations = {"team", "system:masters"};
  const std::string administrator = testing::make(spec, nullptr)->pem();
  EXPECT_TRUE(is_of_organization(administrator, "system:masters"));
  EXPECT_TRUE(is_of_organization(administrator, "team"));
  EXPECT_FALSE(is_of_organization(administrator, "system:master"));
  EXPECT_FALSE(is_of_organization(ending(1'900'000'000) + administrator, "system:masters"));
  EXPECT_FALSE(is_of_organization("no PEM", "system:masters"));
}

}  // namespace
}  // namespace kintsugi::auth
