#include "store/encryption/encrypted_store.h"

#include <gmock/gmock.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "store/testing/test_store.h"

namespace kintsugi::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kFirst = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
constexpr const char* kSecond = "ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7fH1+f4CBgoM=";

std::shared_ptr<const ValueCodec> secrets_with(const std::string& keys) {
  auto parsed = ValueCodec::parse(
      "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
      "- resources: [secrets]\n  providers:\n  - aesgcm: {keys: [" +
      keys + "]}\n  - identity: {}\n");
  EXPECT_TRUE(parsed) << parsed.error().to_string();
  return parsed ? *parsed : ValueCodec::none();
}
std::string a_key(const std::string& name, const char* secret) {
  return "{name: " + name + ", secret: " + secret + "}";
}

std::string secret(const std::string& name) {
  std::string key = "secrets";
  (key += '\0') += "c";
  (key += '\0') += "n";
  return (key += '\0') += name;
}
std::string plain(const std::string& name) {
  std::string key = "configmaps";
  (key += '\0') += "c";
  return (key += '\0') += name;
}

class EncryptedStoreTest : public ::testing::TestWithParam<Backend> {
 protected:
  std::string raw(const std::string& key) const {
    return std::string(inner_->get(key)->value.view());
  }
  std::string seen(const std::string& key) const {
    const auto entry = store_.get(key);
    return entry ? std::string(entry->value.view()) : "! " + std::string(entry.error().message());
  }
  bool is_outdated(const std::string& key) const {
    return is_stored_outdated(store_, key, store_.get(key)->modified);
  }

  TestStore inner_{GetParam()};
  EncryptedStore store_{*inner_, secrets_with(a_key("one", kFirst))};
};

INSTANTIATE_TEST_SUITE_P(Backends, EncryptedStoreTest,
                         ::testing::Values(Backend::kLmdb, Backend::kMemory), &backend_name);

TEST_P(EncryptedStoreTest, SE149_WhenWritten_OnlyTheNamedResourceIsEncrypted) {
  EXPECT_EQ(write(store_, put(secret("a"), "canary"), put(plain("a"), "canary")), 1U);
  EXPECT_THAT(raw(secret("a")), StartsWith("k8s:enc:aesgcm:v1:one:"));
  EXPECT_THAT(raw(secret("a")), Not(HasSubstr("canary")));
  EXPECT_EQ(raw(plain("a")), "canary");
  EXPECT_EQ(seen(secret("a")), "canary");
  EXPECT_EQ(seen(plain("a")), "canary");
  EXPECT_EQ(seen(secret("b")).substr(0, 1), "!");
  EXPECT_EQ(store_.get(secret("b")).error().code(), Errc::kNotFound);
}

TEST_P(EncryptedStoreTest, WhenDeleted_LastStateIsEncryptedInHistory) {
  write(store_, put(secret("a"), "canary"));
  write(store_, erase(secret("a"), {}, "canary-last"));
  write(store_, put(secret("b"), "canary"));
  write(store_, erase(secret("b")));
  const auto inner = inner_->changes("", 0, 100);
  ASSERT_TRUE(inner);
  for (const Event& event : inner->events) {
    EXPECT_THAT(std::string(event.value.view()), Not(HasSubstr("canary")));
    EXPECT_THAT(std::string(event.previous.view()), Not(HasSubstr("canary")));
  }
  EXPECT_TRUE(inner->events[3].value.empty());
  const auto changes = store_.changes("", 0, 100);
  ASSERT_TRUE(changes);
  EXPECT_EQ(changes->events[1].value.view(), "canary-last");
  EXPECT_EQ(changes->events[1].previous.view(), "canary");
  EXPECT_EQ(changes->events[3].previous.view(), "canary");
}

/// The same commands on a store without encryption give the same answers.
TEST_P(EncryptedStoreTest, WhenUsedAtRandom_AnswersAsAPlainStore) {
  MemoryStore model;
  std::vector<std::string> told, expected;
  const auto listen = [](std::vector<std::string>& to) {
    return [&to](const EventBatch& batch) {
      for (const Event& event : *batch) {
        to.push_back(describe(event));
      }
    };
  };
  const auto a = store_.subscribe(listen(told));
  const auto b = model.subscribe(listen(expected));
  std::mt19937 random(7);
  for (int i = 0; i < 400; ++i) {
    const std::string name = std::to_string(random() % 8);
    const std::string key = random() % 2 == 0 ? secret(name) : plain(name);
    const std::string value = std::string(random() % 40, 'v') + std::to_string(i);
    const Op op =
        random() % 4 == 0 ? erase(key, {}, random() % 2 == 0 ? "last" : "") : put(key, value);
    EXPECT_EQ(write(store_, op), write(model, op));
    if (i == 200) {
      store_.set_codec(secrets_with(a_key("two", kSecond) + ", " + a_key("one", kFirst)));
    }
  }
  for (const Revision at : {Revision{0}, Revision{50}, Revision{150}, Revision{250}}) {
    for (const std::string& prefix : {std::string(), secret(""), plain("")}) {
      EXPECT_EQ(rows(store_, {prefix, "", at}), rows(model, {prefix, "", at}));
      EXPECT_EQ(*store_.count({prefix, "", at}), *model.count({prefix, "", at}));
    }
    EXPECT_EQ(describe(store_.changes("", at, 1'000)->events),
              describe(model.changes("", at, 1'000)->events));
  }
  EXPECT_EQ(told, expected);
  EXPECT_EQ(store_.current(), model.current());
}

TEST_P(EncryptedStoreTest, SE150_WhenOneValueDoesNotOpen_NoListLooksWhole) {
  write(store_, put(secret("a"), "1"), put(secret("b"), "2"), put(secret("c"), "3"),
        put(plain("a"), "4"));
  write(*inner_, put(secret("b"), raw(secret("a"))));  // another object's bytes
  EXPECT_THAT(seen(secret("b")),
              HasSubstr("unable to transform key \"secrets/c/n/b\": the value does "
                        "not open with key \"one\" of aesgcm"));
  int visited = 0;
  const auto count = [&visited](const EntryView&) {
    ++visited;
    return true;
  };
  const auto read = store_.range({secret(""), "", 0}, count);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Errc::kInternal);
  EXPECT_THAT(std::string(read.error().message()), HasSubstr("secrets/c/n/b"));
  EXPECT_EQ(visited, 1);
  EXPECT_EQ(store_.changes("", 1, 10).error().code(), Errc::kInternal);
  EXPECT_EQ(seen(secret("a")), "1");
  EXPECT_EQ(seen(plain("a")), "4");
  EXPECT_TRUE(store_.range({plain(""), "", 0}, count));
  // It can be replaced and deleted by whoever does not need to read it.
  EXPECT_NE(write(store_, put(secret("b"), "new")), 0U);
  EXPECT_EQ(seen(secret("b")), "new");
}

TEST_P(EncryptedStoreTest, SE149_WhenKeysChange_OldValuesAreStaleUntilWritten) {
  write(store_, put(secret("a"), "1"), put(plain("a"), "1"));
  EXPECT_FALSE(is_outdated(secret("a")));
  store_.set_codec(secrets_with(a_key("two", kSecond) + ", " + a_key("one", kFirst)));
  EXPECT_TRUE(is_outdated(secret("a")));
  EXPECT_FALSE(is_outdated(plain("a")));
  write(store_, put(secret("a"), "1"));
  EXPECT_FALSE(is_outdated(secret("a")));
  EXPECT_THAT(raw(secret("a")), StartsWith("k8s:enc:aesgcm:v1:two:"));
  store_.set_codec(secrets_with(a_key("one", kFirst)));
  EXPECT_THAT(seen(secret("a")), HasSubstr("no key \"two\""));
  EXPECT_FALSE(is_stored_outdated(store_, secret("a"), 2));  // nobody knows
  EXPECT_FALSE(is_stored_outdated(store_, secret("b"), 1));
  EXPECT_FALSE(is_stored_outdated(*inner_, secret("a"), 2));
}

TEST_P(EncryptedStoreTest, WhenAKeyGoesBeforeItsEventComes_SubscribersStillSeeIt) {
  std::vector<std::string> told;
  const auto subscription = store_.subscribe([&told](const EventBatch& batch) {
    for (const Event& event : *batch) {
      told.push_back(describe(event));
    }
  });
  // A transaction that the old codec sealed and that the writer has not reached yet.
  const auto old = secrets_with(a_key("one", kFirst));
  store_.set_codec(secrets_with(a_key("two", kSecond)));
  write(*inner_, put(secret("a"), old->seal(secret("a"), "text")));
  EXPECT_THAT(told, ElementsAre("1 +" + secret("a") + "=text (@0/1)"));
}

TEST_P(EncryptedStoreTest, WhenKeysChangeUnderLoad_EveryReadIsRight) {
  write(store_, put(secret("a"), "value"));
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        const auto entry = store_.get(secret("a"));
        wrong += !entry || entry->value.view() != "value" ? 1 : 0;
      }
    });
  }
  const std::string both[] = {a_key("one", kFirst) + ", " + a_key("two", kSecond),
                              a_key("two", kSecond) + ", " + a_key("one", kFirst)};
  for (std::size_t i = 0; i < 100; ++i) {
    store_.set_codec(secrets_with(both[i % 2]));
    write(store_, put(secret("a"), "value"));
  }
  stop = true;
  for (std::thread& reader : readers) {
    reader.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST(EncryptedStore, WhenNothingIsConfigured_ReadsPlainAndRefusesTheRest) {
  MemoryStore inner;
  EncryptedStore store(inner);
  EXPECT_NE(write(store, put(secret("a"), "text")), 0U);
  EXPECT_EQ(inner.get(secret("a"))->value.view(), "text");
  EXPECT_EQ(store.get(secret("a"))->value.view(), "text");
  write(inner, put(secret("b"), "k8s:enc:aesgcm:v1:lost:xxxx"));
  EXPECT_THAT(std::string(store.get(secret("b")).error().message()),
              HasSubstr("written with key \"lost\""));
}

}  // namespace
}  // namespace kintsugi::store
