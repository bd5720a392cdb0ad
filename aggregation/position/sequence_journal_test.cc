#include "aggregation/position/sequence_journal.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/strings.h"

namespace kintsugi::aggregation {
namespace {

const ScopeId kMaps = "configmaps-here.";
constexpr std::size_t kBytes = SequenceJournal::kLeastBytes;

class SequenceJournals : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("kintsugi-" + hex_encode(random_bytes(8)));
    std::filesystem::create_directory(folder_);
    path_ = (folder_ / "journal").string();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// One life of a process: mints so many vectors after what it found.
  std::vector<std::uint64_t> live(std::uint32_t epoch, std::size_t count,
                                  std::size_t bytes = kBytes) {
    book_ = std::make_unique<SequenceBook>();
    book_->begin(epoch, 100);
    auto journal = SequenceJournal::open(path_, bytes, *book_);
    EXPECT_TRUE(journal);
    book_->keep_in(std::move(*journal));
    std::vector<std::uint64_t> numbers;
    for (std::size_t i = 0; i < count; ++i) {
      numbers.push_back(book_->mint(kMaps, 7, vector_of(epoch, i), TimePoint()));
    }
    return numbers;
  }
  static std::vector<std::uint64_t> vector_of(std::uint32_t epoch, std::size_t i) {
    return {epoch, i, 18'446'744'073'709'551'615U};
  }
  void end() { book_.reset(); }
  [[nodiscard]] bool knows(std::uint64_t number, std::uint32_t epoch, std::size_t i) const {
    const auto found = book_->find(kMaps, number);
    return found && *found == SequenceBook::Vector{7, vector_of(epoch, i)};
  }
  [[nodiscard]] std::string content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

  std::filesystem::path folder_;
  std::string path_;
  std::unique_ptr<SequenceBook> book_;
};

TEST_F(SequenceJournals, WhenTheProcessRestarts_AGG518_NumbersMeanWhatTheyMeant) {
  const auto first = live(1, 20);
  end();
  const auto second = live(2, 20);
  EXPECT_GT(second.front(), first.back());
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(knows(first[i], 1, i));
    EXPECT_TRUE(knows(second[i], 2, i));
  }
  end();
  live(3, 0);
  EXPECT_TRUE(knows(first[0], 1, 0));
  EXPECT_TRUE(knows(second[19], 2, 19));
}

TEST_F(SequenceJournals, WhenFull_KeepsAtLeastAHalfAndItsSize) {
  const auto numbers = live(1, 5'000);
  end();
  EXPECT_EQ(std::filesystem::file_size(path_), kBytes);
  live(2, 0);
  std::size_t known = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const bool here = knows(numbers[i], 1, i);
    EXPECT_TRUE(here || known == 0) << "a gap at " << i;
    known += here ? 1 : 0;
  }
  EXPECT_GE(known * 68, kBytes / 2 - 200);
  EXPECT_LT(known, numbers.size());
}

TEST_F(SequenceJournals, WhenTorn_AGG518_WhatIsWholeHolds) {
  const auto numbers = live(1, 10);
  end();
  std::string bytes = content();
  constexpr std::size_t kRecord = 12 + 32 + 24;
  bytes[32 + 5 * kRecord + 40] ^= 1;  // in the sixth
  write(bytes);
  live(2, 1);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(knows(numbers[i], 1, i), i < 5);
  }
}

TEST_F(SequenceJournals, WhenItIsNoJournal_BeginsAnew) {
  for (const std::string& bytes :
       {std::string("no journal"), std::string(kBytes, 'x'), std::string(kBytes, '\0'),
        "kseq0001" + std::string(kBytes - 8, '\xff'), std::string()}) {
    write(bytes);
    const auto numbers = live(1, 3);
    end();
    live(2, 0);
    EXPECT_TRUE(knows(numbers[2], 1, 2));
    end();
    std::filesystem::remove(path_);
  }
}

TEST_F(SequenceJournals, WhenItsSizeChanges_RecordsMove) {
  const auto numbers = live(1, 30);
  end();
  live(2, 0, 4 * kBytes);
  EXPECT_TRUE(knows(numbers[0], 1, 0));
  end();
  EXPECT_EQ(std::filesystem::file_size(path_), 4 * kBytes);
  live(3, 0, kBytes);
  EXPECT_TRUE(knows(numbers[0], 1, 0));
  EXPECT_TRUE(knows(numbers[29], 1, 29));
}

TEST_F(SequenceJournals, WhenAnotherProcessHasIt_IsRefused) {
  live(1, 1);
  SequenceBook other;
  const auto journal = SequenceJournal::open(path_, kBytes, other);
  ASSERT_FALSE(journal);
  EXPECT_EQ(journal.error().code(), Errc::kConfig);
}

TEST_F(SequenceJournals, WhenCutAnywhere_NothingBreaks) {
  live(1, 12);
  end();
  const std::string bytes = content();
  for (std::size_t length = 0; length < 1'000; length += 7) {
    std::size_t taken = 0;
    const JournalHalf half = read_journal_half(std::string_view(bytes).substr(0, length),
                                               [&taken](SequenceRecord) { ++taken; });
    EXPECT_LE(half.end, length);
    EXPECT_EQ(taken, length < 32 ? 0 : std::min<std::size_t>(12, (length - 32) / 68));
  }
}

}  // namespace
}  // namespace kintsugi::aggregation
