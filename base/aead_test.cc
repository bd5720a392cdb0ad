#include "base/aead.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "base/strings.h"

namespace kintsugi {
namespace {

std::string bytes_of_hex(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    out += static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
  }
  return out;
}

struct Vector {
  const char *key, *nonce, *associated, *plain, *sealed;  // hex; sealed: cipher text and tag
};

// "The Galois/Counter Mode of Operation (GCM)", appendix B: cases 2, 4, 10 and 16; 13 is empty.
const Vector kVectors[] = {
    {"00000000000000000000000000000000", "000000000000000000000000", "",
     "00000000000000000000000000000000",
     "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf"},
    {"feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b"
     "5"
     "25b16aedf5aa0de657ba637b39",
     "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84a"
     "a"
     "051ba30b396a0aac973d58e0915bc94fbc3221a5db94fae95ae7121a47"},
    {"feffe9928665731c6d6a8f9467308308feffe9928665731c", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b"
     "5"
     "25b16aedf5aa0de657ba637b39",
     "3980ca0b3c00e841eb06fac4872a2757859e1ceaa6efd984628593b40ca1e19c7d773d00c144c525ac619d18c84a3"
     "f"
     "4718e2448b2fe324d9ccda27102519498e80f1478f37ba55bd6d27618c"},
    {"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b"
     "5"
     "25b16aedf5aa0de657ba637b39",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828"
     "838"
     "c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b"},
    {"0000000000000000000000000000000000000000000000000000000000000000", "000000000000000000000000",
     "", "", "530f8afbc74536b9a963b4f1c4cb738b"},
};

TEST(Aead, WhenAnswersAreKnown_GivesThem) {
  for (const Vector& vector : kVectors) {
    const Secret key(bytes_of_hex(vector.key));
    const std::string nonce = bytes_of_hex(vector.nonce);
    const std::string plain = bytes_of_hex(vector.plain);
    std::string sealed = "before";
    gcm_seal_with_nonce_for_test(sealed, key, nonce, bytes_of_hex(vector.associated), plain);
    EXPECT_EQ(sealed.substr(0, 6), "before");
    EXPECT_EQ(hex_encode(sealed.substr(6)), std::string(vector.nonce) + vector.sealed);
    EXPECT_EQ(gcm_open(key, bytes_of_hex(vector.associated), sealed.substr(6)), plain);
  }
}

TEST(Aead, WhenAnyBitIsOther_DoesNotOpen) {
  const Secret key(std::string(32, 'k'));
  std::string sealed;
  gcm_seal(sealed, key, "place", "secret");
  ASSERT_EQ(gcm_open(key, "place", sealed), "secret");
  for (std::size_t i = 0; i < sealed.size() * 8; ++i) {
    std::string other = sealed;
    other[i / 8] = static_cast<char>(other[i / 8] ^ (1 << (i % 8)));
    EXPECT_EQ(gcm_open(key, "place", other), std::nullopt) << i;
  }
  for (std::size_t size = 0; size < sealed.size(); ++size) {
    EXPECT_EQ(gcm_open(key, "place", sealed.substr(0, size)), std::nullopt) << size;
  }
  EXPECT_EQ(gcm_open(key, "place", sealed + "x"), std::nullopt);
  EXPECT_EQ(gcm_open(key, "another", sealed), std::nullopt);
  EXPECT_EQ(gcm_open(key, "", sealed), std::nullopt);
  EXPECT_EQ(gcm_open(Secret(std::string(32, 'l')), "place", sealed), std::nullopt);
  EXPECT_EQ(gcm_open(Secret(std::string(16, 'k')), "place", sealed), std::nullopt);
}

TEST(Aead, WhenSealedAgain_HasAnotherNonce) {
  const Secret key(std::string(16, 'k'));
  std::set<std::string> nonces;
  for (int i = 0; i < 1'000; ++i) {
    std::string sealed;
    gcm_seal(sealed, key, "", "");
    nonces.insert(sealed.substr(0, kGcmNonce));
  }
  EXPECT_EQ(nonces.size(), 1'000U);
}

}  // namespace
}  // namespace kintsugi
