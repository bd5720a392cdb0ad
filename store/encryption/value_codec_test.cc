#include "store/encryption/value_codec.h"

#include <gmock/gmock.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "base/strings.h"

namespace kintsugi::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Codec = std::shared_ptr<const ValueCodec>;

// Bytes 0, 1, 2, …
constexpr const char* kSecret1 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
// 100, 101, …
constexpr const char* kSecret2 = "ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7fH1+f4CBgoM=";

/// A store's key of these parts.
std::string key_of(std::initializer_list<std::string_view> parts) {
  std::string key;
  for (const std::string_view part : parts) {
    key += key.empty() ? "" : std::string(1, '\0');
    key += part;
  }
  return key;
}
const std::string kKey = key_of({"secrets", "root:a", "ns", "pw"});

/// @param providers  lines below `providers:`.
std::string document(const std::string& resources, const std::string& providers) {
  return "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
         "- resources: " +
         resources + "\n  providers:\n" + providers;
}

std::string aesgcm(std::initializer_list<std::pair<const char*, const char*>> keys) {
  std::string text = "  - aesgcm:\n      keys:\n";
  for (const auto& [name, secret] : keys) {
    text += std::string("      - {name: ") + name + ", secret: " + secret + "}\n";
  }
  return text;
}
constexpr const char* kIdentity = "  - identity: {}\n";

Codec codec(const std::string& text) {
  auto parsed = ValueCodec::parse(text);
  EXPECT_TRUE(parsed) << parsed.error().to_string();
  return parsed ? *parsed : ValueCodec::none();
}
Codec with_keys(std::initializer_list<std::pair<const char*, const char*>> keys,
                const char* more = kIdentity) {
  return codec(document("[secrets]", aesgcm(keys) + more));
}

std::string fault(const std::string& text) {
  const auto parsed = ValueCodec::parse(text);
  return parsed ? "" : std::string(parsed.error().message());
}

/// The text, or "! <error>".
std::string opened(const Codec& codec, std::string_view key, std::string_view stored) {
  const auto value = codec->open(key, stored);
  if (!value) {
    EXPECT_EQ(value.error().code(), Errc::kInternal);
    return "! " + std::string(value.error().message());
  }
  return value->is_sealed ? value->plain : std::string(stored);
}

std::string hex_bytes(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    out += static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
  }
  return out;
}

TEST(ValueCodec, SE150_WhenKubernetesLayoutIsKnown_OpensIt) {
  // Made with another implementation of AES-GCM: prefix, nonce, cipher text, tag.
  const std::string nonce = hex_bytes("a0a1a2a3a4a5a6a7a8a9aaab");
  const std::string stored =
      "k8s:enc:aesgcm:v1:key1:" + nonce +
      hex_bytes(
          "9d3a184c31aa20851947f7b27409b7b102c87b2ab0d43822f66d4cc84f89087ca159cad272daa23fa0"
          "ec19c81baa8c1a");
  const Codec one = with_keys({{"key1", kSecret1}});
  EXPECT_EQ(opened(one, kKey, stored), R"({"data":{"password":"czNjcjN0"}})");
  EXPECT_EQ(
      opened(one, key_of({"secrets", "root:a", "ns", "empty"}),
             "k8s:enc:aesgcm:v1:key1:" + nonce + hex_bytes("2eadaf87eadcc83dcb6caf653eb4ada2")),
      "");
  const Codec small = codec(document("[\"*.ex.io\"]", aesgcm({{"k", "AAECAwQFBgcICQoLDA0ODw=="}})));
  EXPECT_EQ(opened(small, key_of({"widgets.ex.io:9f", "root", "w"}),
                   "k8s:enc:aesgcm:v1:k:" + nonce +
                       hex_bytes("daea59d210e63030b053bbd588e3f04ef20de4f30f")),
            "plain");
}

TEST(ValueCodec, WhenWritten_HasPrefixNonceTextAndTag) {
  const Codec one = with_keys({{"key1", kSecret1}});
  const std::string mark = "k8s:enc:aesgcm:v1:key1:";
  const std::string a = one->seal(kKey, "s3cr3t");
  const std::string b = one->seal(kKey, "s3cr3t");
  EXPECT_EQ(a.substr(0, mark.size()), mark);
  EXPECT_EQ(a.size(), mark.size() + 12 + 6 + 16);
  EXPECT_NE(a.substr(mark.size(), 12), b.substr(mark.size(), 12));
  EXPECT_THAT(a, Not(HasSubstr("s3cr3t")));
  EXPECT_EQ(opened(one, kKey, a), "s3cr3t");
  EXPECT_EQ(opened(one, kKey, one->seal(kKey, "")), "");
  const std::string large(3'000'000, 'x');
  EXPECT_EQ(opened(one, kKey, one->seal(kKey, large)), large);
}

TEST(ValueCodec, SE150_WhenTamperedWithOrSwapped_SaysWhichKeyAndNoByte) {
  const Codec one = with_keys({{"key1", kSecret1}});
  const std::string stored = one->seal(kKey, "s3cr3t");
  const std::string said =
      "! unable to transform key \"secrets/root:a/ns/pw\": the value does not open with key "
      "\"key1\" of aesgcm";
  for (std::size_t i = std::string_view("k8s:enc:aesgcm:v1:key1:").size(); i < stored.size(); ++i) {
    std::string other = stored;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_EQ(opened(one, kKey, other), said) << i;
  }
  for (std::size_t size = std::string_view("k8s:enc:aesgcm:v1:key1:").size(); size < stored.size();
       ++size) {
    EXPECT_EQ(opened(one, kKey, stored.substr(0, size)), said) << size;
  }
  EXPECT_THAT(opened(one, key_of({"secrets", "root:a", "ns", "other"}), stored),
              HasSubstr("does not open with key \"key1\""));
  EXPECT_THAT(opened(one, key_of({"secrets", "root:b", "ns", "pw"}), stored),
              HasSubstr("does not open"));
  EXPECT_EQ(opened(with_keys({{"key1", kSecret2}}), kKey, stored), said);  // the name, other bytes
}

TEST(ValueCodec, SE149_WhenAKeyIsUnknown_SaysItsName) {
  const std::string stored = with_keys({{"old", kSecret1}})->seal(kKey, "s");
  EXPECT_THAT(opened(with_keys({{"new", kSecret2}}), kKey, stored),
              HasSubstr("no key \"old\" of aesgcm is configured"));
  EXPECT_THAT(opened(ValueCodec::none(), kKey, stored),
              HasSubstr("no encryption is configured for this resource, it is written with key "
                        "\"old\""));
  for (const char* other : {"k8s:enc:", "k8s:enc:kms:v2:a:bytes", "k8s:enc:aesgcm:v1:",
                            "k8s:enc:aesgcm:v1:\n:x", "k8s:enc:aesgcm:v2:old:"}) {
    EXPECT_THAT(opened(with_keys({{"old", kSecret1}}), kKey, other),
                HasSubstr("no matching prefix found"))
        << other;
  }
}

TEST(ValueCodec, SE149_WhenKeysAreRotated_FirstWritesAndAllRead) {
  const Codec old = with_keys({{"old", kSecret1}});
  const Codec both = with_keys({{"new", kSecret2}, {"old", kSecret1}});
  const Codec fresh = with_keys({{"new", kSecret2}}, "");
  const std::string first = old->seal(kKey, "text");
  EXPECT_FALSE(old->open(kKey, first)->stale);
  EXPECT_TRUE(both->open(kKey, first)->stale);
  EXPECT_EQ(opened(both, kKey, first), "text");
  const std::string second = both->seal(kKey, "text");
  EXPECT_THAT(second, ::testing::StartsWith("k8s:enc:aesgcm:v1:new:"));
  EXPECT_FALSE(both->open(kKey, second)->stale);
  EXPECT_EQ(opened(fresh, kKey, second), "text");
  EXPECT_THAT(opened(fresh, kKey, first), HasSubstr("no key \"old\""));
  EXPECT_TRUE(both->open(kKey, "plain")->stale);
  EXPECT_EQ(opened(both, kKey, "plain"), "plain");
  EXPECT_THAT(opened(fresh, kKey, "plain"),
              HasSubstr("the value is not encrypted, and identity is no provider"));
}

TEST(ValueCodec, WhenIdentityIsFirst_WritesPlainAndReadsBoth) {
  const std::string stored = with_keys({{"k", kSecret1}})->seal(kKey, "text");
  const Codec back =
      codec(document("[secrets]", std::string(kIdentity) + aesgcm({{"k", kSecret1}})));
  EXPECT_EQ(back->seal(kKey, "text"), "text");
  EXPECT_EQ(opened(back, kKey, stored), "text");
  EXPECT_TRUE(back->open(kKey, stored)->stale);
  EXPECT_FALSE(back->open(kKey, "text")->stale);
}

TEST(ValueCodec, WhenTwoKeysHaveOneName_BothAreTried) {
  const std::string stored = with_keys({{"k", kSecret1}})->seal(kKey, "text");
  EXPECT_EQ(opened(with_keys({{"k", kSecret2}, {"k", kSecret1}}), kKey, stored), "text");
}

TEST(ValueCodec, WhenResourcesAreListed_CoversThose) {
  struct Case {
    const char* resources;
    const char* key;
    bool covered;
  };
  const Case cases[] = {
      {"[secrets]", "secrets", true},
      {"[secrets]", "configmaps", false},
      {"[secrets]", "secrets.ex.io", false},
      {"[configmaps, secrets]", "configmaps", true},
      {"[widgets.ex.io]", "widgets.ex.io", true},
      {"[widgets.ex.io]", "widgets.ex.io:9f", true},
      {"[widgets.ex.io]", "widgets", false},
      {"['*.']", "secrets", true},
      {"['*.']", "widgets.ex.io", false},
      {"['*.ex.io']", "widgets.ex.io:9f", true},
      {"['*.ex.io']", "widgets.sub.ex.io", false},
      {"['*.ex.io']", "secrets", false},
      {"['*.*']", "secrets", true},
      {"['*.*']", "widgets.ex.io", true},
  };
  for (const Case& one : cases) {
    const Codec with = codec(document(one.resources, aesgcm({{"k", kSecret1}})));
    EXPECT_EQ(with->covers(key_of({one.key, "c", "n"})), one.covered)
        << one.resources << " " << one.key;
    EXPECT_FALSE(with->covers(one.key)) << "no object";
    const std::string stored = with->seal(key_of({one.key, "c", "n"}), "text");
    EXPECT_EQ(stored == "text", !one.covered) << one.resources << " " << one.key;
  }
  const Codec first = codec(document("[secrets]", kIdentity) +
                            "- resources: ['*.*']\n  providers:\n" + aesgcm({{"k", kSecret1}}));
  EXPECT_EQ(first->seal(kKey, "text"), "text");  // the first entry that names it
  EXPECT_NE(first->seal(key_of({"configmaps", "c", "n"}), "text"), "text");
  EXPECT_THAT(first->describe(), ElementsAre("secrets: identity", "*.*: aesgcm (k)"));
}

TEST(ValueCodec, SE149_WhenDocumentIsWrong_SaysWhere) {
  const std::string head =
      "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n";
  const std::string good = aesgcm({{"k", kSecret1}});
  EXPECT_EQ(fault(document("[secrets]", good)), "");
  EXPECT_THAT(fault(""), HasSubstr("no EncryptionConfiguration of apiserver.config.k8s.io/v1"));
  EXPECT_THAT(fault("kind: EncryptionConfiguration\napiVersion: v9\n"), HasSubstr("apiVersion"));
  EXPECT_THAT(fault("a: [b"), HasSubstr("yaml"));
  EXPECT_EQ(fault(head), "resources: Required value: at least one resources is required");
  EXPECT_EQ(fault(head + "resources: 7\n"), "resources: must be a list, not integer");
  EXPECT_THAT(fault(head + "resources: [7]\n"), HasSubstr("resources[0]: must be an object"));
  EXPECT_THAT(fault(head + "kind: EncryptionConfiguration\nresources: []\n"),
              HasSubstr("strict decoding error"));
  EXPECT_THAT(fault(head + "more: 1\n"), HasSubstr("unknown field \"more\""));
  EXPECT_THAT(fault(document("[]", good)), HasSubstr("resources[0].resources: Required value"));
  EXPECT_THAT(fault(document("[secrets]", "  - {}\n")),
              HasSubstr("resources[0].providers[0]: Required value"));
  EXPECT_THAT(fault(document("[secrets]", "  - {identity: {}, aesgcm: {}}\n")),
              HasSubstr("providers[0]: Invalid value: more than one provider"));
  EXPECT_THAT(fault(document("[secrets]", "  - aesgcm: {}\n")),
              HasSubstr("providers[0].aesgcm.keys: Required value"));
  for (const char* name : {"aescbc", "secretbox", "kms"}) {
    EXPECT_EQ(fault(document("[secrets]", good + "  - " + name + ": {keys: []}\n")),
              std::string("resources[0].providers[1].") + name +
                  ": Unsupported value: the provider " + name +
                  " is not supported, supported are aesgcm and identity");
  }
  EXPECT_THAT(fault(document("[secrets]", "  - vault: {}\n")),
              HasSubstr("unknown field \"resources[0].providers[0].vault\""));
  EXPECT_THAT(
      fault(document("[Secrets]", good)),
      HasSubstr("resources[0].resources[0]: Invalid value: \"Secrets\": resource name should "
                "not contain capital letters"));
  EXPECT_THAT(fault(document("['*']", good)), HasSubstr("use '*.' to encrypt"));
  EXPECT_THAT(fault(document("[secrets, '*.']", good)), HasSubstr("overlapping resources"));
  EXPECT_THAT(fault(document("['*.*', secrets]", good)), HasSubstr("overlapping resources"));
  EXPECT_THAT(fault(document("[secrets, secrets]", good)), HasSubstr("multiple times"));
  EXPECT_THAT(fault(document("['secrets.*']", good)), HasSubstr("across groups"));
  EXPECT_THAT(fault(document("['*secrets']", good)), HasSubstr("is not <resource>"));
  EXPECT_THAT(fault(document("['a/b']", good)), HasSubstr("is not <resource>"));
  EXPECT_THAT(fault(document("[d.extensions]", good)), HasSubstr("'extensions' group"));
}

TEST(ValueCodec, SE144_WhenAKeyIsWrong_ItIsNotTold) {
  const auto with = [](const char* name, const char* secret) {
    return fault(document("[secrets]", aesgcm({{name, secret}})));
  };
  const std::string short_key = with("k", "c2hvcnQ=");
  EXPECT_EQ(
      short_key,
      "resources[0].providers[0].aesgcm.keys[0].secret: Invalid value: \"REDACTED\": secret is "
      "not of the expected length, got 5, expected one of [16 24 32]");
  EXPECT_EQ(with("k", "not-base64!"),
            "resources[0].providers[0].aesgcm.keys[0].secret: Invalid value: \"REDACTED\": secrets "
            "must be base64 encoded");
  EXPECT_THAT(with("k", "''"), HasSubstr("secret: Required value"));
  EXPECT_THAT(with("''", kSecret1), HasSubstr("name: Required value"));
  EXPECT_THAT(with("'a:b'", kSecret1), HasSubstr("but ':'"));
  EXPECT_THAT(fault(document("[secrets]", "  - aesgcm: {keys: [{name: a, secret: 5, more: 1}]}\n")),
              HasSubstr("unknown field"));
  for (const char* size :
       {"AAECAwQFBgcICQoLDA0ODw==", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", kSecret1}) {
    EXPECT_EQ(with("k", size), "");
  }
}

TEST(ValueCodec, SE150_WhenAKeyHasWrittenMany_GoesOn) {
  const Codec one = with_keys({{"key1", kSecret1}});
  ::testing::internal::CaptureStderr();
  for (std::uint64_t i = 0; i < kWritesPerKey - 1; ++i) {
    static_cast<void>(one->seal(kKey, ""));
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), Not(HasSubstr("key1")));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(opened(one, kKey, one->seal(kKey, "x")), "x");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::AllOf(HasSubstr("has written many values"), HasSubstr("key1")));
}

}  // namespace
}  // namespace kintsugi::store
