#include "base/secret.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <new>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kintsugi {
namespace {

template <class T>
concept Printable = requires(std::ostream& out, const T& value) {
  out << value;
};
static_assert(Printable<std::string> && !Printable<Secret>);
// Text is made of it by name only, and it is made of text that goes.
static_assert(!std::is_convertible_v<Secret, std::string_view>);
static_assert(!std::is_convertible_v<Secret, std::string>);
static_assert(!std::is_constructible_v<Secret, const std::string&>);
static_assert(std::is_nothrow_move_constructible_v<Secret>);
static_assert(std::is_nothrow_move_assignable_v<Secret>);

struct Ended {
  const char* at;
  std::string bytes;
};
std::vector<Ended>* ended = nullptr;

class SecretTest : public ::testing::Test {
 protected:
  SecretTest() {
    ended = &ended_;
    watch_ended_secrets_for_test([](std::string_view bytes) {
      ended->push_back({bytes.data(), std::string(bytes)});
    });
  }
  ~SecretTest() override { watch_ended_secrets_for_test(nullptr); }
  /// The memory at `at`, of `size` bytes, was given back with nothing in it; once.
  [[nodiscard]] bool is_cleansed(const char* at, std::size_t size) const {
    return ended_.size() == 1 && ended_.front().at == at &&
           ended_.front().bytes == std::string(size, '\0');
  }

  std::vector<Ended> ended_;
};

constexpr std::size_t kSizes[] = {1, 15, 16, 63, 64, 65, 100, 4'095, 4'096, 4'097, 70'000};

TEST_F(SecretTest, SE144_WhenTheLastHandleEnds_ItsMemoryIsOverwritten) {
  for (const std::size_t size : kSizes) {
    ended_.clear();
    const char* at = nullptr;
    {
      const Secret secret(std::string(size, 's'));
      at = secret.view().data();
      const Secret other = secret;  // a handle, no copy
      EXPECT_EQ(other.view().data(), at);
      EXPECT_EQ(other.view(), std::string(size, 's'));
      EXPECT_TRUE(ended_.empty());
    }
    EXPECT_TRUE(is_cleansed(at, size)) << size;
  }
}

TEST_F(SecretTest, SE144_WhenReplaced_WhatItWasIsOverwritten) {
  Secret secret = Secret::copy_of("the old one");
  const char* const at = secret.view().data();
  secret = Secret::copy_of("the new");
  EXPECT_EQ(secret.view(), "the new");
  EXPECT_TRUE(is_cleansed(at, 11));
  const char* const next = secret.view().data();
  ended_.clear();
  secret = {};
  EXPECT_TRUE(secret.empty());
  EXPECT_TRUE(is_cleansed(next, 7));
}

TEST_F(SecretTest, SE144_WhenMoved_NothingStaysBehind) {
  Secret secret = Secret::copy_of("moved");
  const char* const at = secret.view().data();
  Secret taken(std::move(secret));
  EXPECT_TRUE(secret.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(taken.view().data(), at);
  Secret assigned;
  assigned = std::move(taken);
  EXPECT_TRUE(taken.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(ended_.empty());
  assigned = {};
  EXPECT_TRUE(is_cleansed(at, 5));
}

TEST_F(SecretTest, SE144_WhenMadeOfText_TheTextIsOverwritten) {
  for (const std::size_t size : {8U, 200U}) {  // in the string itself, and behind it
    alignas(std::string) unsigned char place[sizeof(std::string)];
    auto* const text = new (place) std::string(size, 'k');
    const char* const bytes = text->data();
    const Secret secret(std::move(*text));
    EXPECT_EQ(secret.view(), std::string(size, 'k'));
    // The string is there, empty, and its memory is still its own.
    EXPECT_EQ(std::string(bytes, size), std::string(size, '\0'));
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(place), sizeof place).find("kkk"),
              std::string_view::npos);
    text->~basic_string();
  }
}

TEST_F(SecretTest, SE144_WhenWiped_WhatALongerContentLeftGoesToo) {
  std::string text(64, 's');
  const char* const bytes = text.data();
  text.resize(3);
  wipe(text);
  EXPECT_TRUE(text.empty());
  EXPECT_EQ(std::string(bytes, 64), std::string(64, '\0'));  // its memory is still the string's
}

TEST_F(SecretTest, SE144_WhenItsPlaceIsTakenAgain_NothingOfItIsThere) {
  const char* at = nullptr;
  {
    const Secret first(std::string(64, 'a'));
    at = first.view().data();
  }
  std::string before;
  const Secret second = Secret::made(40, [&](char* to) {
    before.assign(to, 40);
    std::fill_n(to, 40, 'b');
  });
  EXPECT_EQ(second.view().data(), at);
  EXPECT_EQ(before, std::string(40, '\0'));
  EXPECT_EQ(second.view(), std::string(40, 'b'));
}

/// VmFlags of the mapping that holds an address.
std::string flags_at(const char* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      inside = begin <= wanted && wanted < end;
    } else if (inside && line.starts_with("VmFlags:")) {
      return line + " ";
    }
  }
  return "";
}

TEST_F(SecretTest, SE144_CoreDumpsLeaveItOut) {
  const std::string plain(4'000, 'p');
  ASSERT_NE(flags_at(plain.data()), "");
  EXPECT_EQ(flags_at(plain.data()).find(" dd "), std::string::npos);
  for (const std::size_t size : kSizes) {
    const Secret secret(std::string(size, 's'));
    EXPECT_NE(flags_at(secret.view().data()).find(" dd "), std::string::npos) << size;
    EXPECT_NE(flags_at(secret.view().data() + size - 1).find(" dd "), std::string::npos) << size;
  }
}

TEST_F(SecretTest, WhenManyAreKept_EachHasItsOwnPlace) {
  std::vector<Secret> secrets;
  for (int i = 0; i < 3'000; ++i) {
    secrets.push_back(Secret(std::to_string(i) + std::string(static_cast<std::size_t>(i), 'x')));
  }
  for (int i = 0; i < 3'000; i += 2) {
    secrets[static_cast<std::size_t>(i)] = Secret::copy_of("again");
  }
  for (int i = 0; i < 3'000; ++i) {
    EXPECT_EQ(
        secrets[static_cast<std::size_t>(i)].view(),
        i % 2 == 0 ? "again" : std::to_string(i) + std::string(static_cast<std::size_t>(i), 'x'));
  }
}

TEST_F(SecretTest, WhenCompared_BytesCount) {
  EXPECT_EQ(Secret::joined({"a", "", "bc"}).view(), "abc");
  EXPECT_TRUE(Secret::copy_of("abc") == Secret::joined({"a", "bc"}));
  EXPECT_FALSE(Secret::copy_of("abc") == Secret::copy_of("abd"));
  EXPECT_FALSE(Secret::copy_of("abc") == Secret::copy_of("ab"));
  EXPECT_TRUE(Secret() == Secret::copy_of(""));
}

}  // namespace
}  // namespace kintsugi
