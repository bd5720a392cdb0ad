#include "workers/delivery/hub/hub_book.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/strings.h"
#include "workers/delivery/hub/hub_files.h"
#include "workers/delivery/protocol/content_type.h"
#include "workers/delivery/protocol/resource_message.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

Json config_map(const std::string& name, const std::string& text = "a") {
  return Json::object(
      {{"apiVersion", "v1"},
       {"kind", "ConfigMap"},
       {"metadata", Json::object({{"name", name}, {"namespace", "default"}, {"uid", name}})},
       {"data", Json::object({{"text", text}})}});
}

std::vector<HubBook::Wish> wishes(std::initializer_list<Json> objects) {
  std::vector<HubBook::Wish> out;
  for (const Json& one : objects) {
    out.push_back({"f.yaml", one});
  }
  return out;
}

ReceivedStatus answer(std::int64_t generation, std::uint64_t sequence, bool deleted = false) {
  ReceivedStatus out;
  out.generation = generation;
  out.sequence = sequence;
  out.hash = "h" + std::to_string(sequence);
  out.conditions = {{deleted ? "Deleted" : "Reconciled", true, "Success", ""}};
  return out;
}

class Book : public testing::Test {
 protected:
  static HubBook::Params params() {
    HubBook::Params out;
    out.client = "edge";
    return out;
  }
  /// What goes out now: "<uid>@<generation>", with "-" behind a deletion, "<topic>!" for a clear.
  std::vector<std::string> sent(Duration later = {}) {
    now_ += later;
    std::vector<std::string> out;
    for (const HubBook::Publication& one : book_.due(now_, 1)) {
      if (one.payload.empty()) {
        out.push_back(one.topic + "!");
        continue;
      }
      const std::string uid(split(one.topic, '/')[2]);
      const auto message = parse_resource_message(kJsonContentType, one.payload, uid, {});
      EXPECT_TRUE(message) << one.payload;
      if (message) {
        out.push_back(uid + "@" + std::to_string(message->generation) +
                      (message->deleting ? "-" : ""));
      }
    }
    return out;
  }
  using Lines = std::vector<std::string>;

  HubBook book_{params()};
  TimePoint now_{};
};

TEST_F(Book, CM_14_AChangeIsAGreaterGeneration_AndNothingElseIsSent) {
  EXPECT_TRUE(book_.wish(wishes({config_map("a"), config_map("b")}), {}).empty());
  EXPECT_TRUE(book_.ordered());
  EXPECT_EQ(sent(), (Lines{"a@1", "b@1"}));
  (void)book_.wish(wishes({config_map("a"), config_map("b", "other")}), {});
  EXPECT_EQ(sent(), Lines{"b@2"});
  (void)book_.wish(wishes({config_map("a"), config_map("b", "other")}), {});
  EXPECT_EQ(sent(), Lines{});
  Json numbered = config_map("a", "third");
  numbered["metadata"]["generation"] = 40;
  (void)book_.wish(wishes({numbered, config_map("b", "other")}), {});
  EXPECT_EQ(sent(), Lines{"a@40"});
}

TEST_F(Book, CM_26_CM_27_WhatIsGoneFromItsFileIsDeleted_ThenNothingStaysRetained) {
  (void)book_.wish(wishes({config_map("a")}), {});
  EXPECT_EQ(sent(), Lines{"a@1"});
  (void)book_.wish({}, {"f.yaml"});
  EXPECT_EQ(sent(), Lines{}) << "a file that cannot be read says nothing";
  (void)book_.wish({}, {});
  EXPECT_EQ(sent(), Lines{"a@2-"});
  EXPECT_TRUE(book_.take_status("a", answer(1, 1, true)));
  EXPECT_EQ(sent(), Lines{}) << "the word of an earlier order";
  EXPECT_TRUE(book_.take_status("a", answer(2, 2, true)));
  EXPECT_EQ(sent(), (Lines{"v1/edge/a/status!", "v1/edge/a/content!"}));
  EXPECT_EQ(book_.objects(), 0U);
  // What comes again is above what was deleted.
  (void)book_.wish(wishes({config_map("a")}), {});
  EXPECT_EQ(sent(), Lines{"a@3"});
}

TEST_F(Book, CM_26_ALastWordThatNobodyWaitsForIsCleared) {
  EXPECT_TRUE(book_.take_status("x", answer(7, 1, true)));
  EXPECT_EQ(sent(), (Lines{"v1/edge/x/status!", "v1/edge/x/content!"}));
  EXPECT_TRUE(book_.take_status("y", answer(7, 1)));
  EXPECT_EQ(sent(), Lines{});
}

TEST_F(Book, CM_52_AnOlderStatusMeansNothing) {
  (void)book_.wish(wishes({config_map("a")}), {});
  (void)sent();
  EXPECT_TRUE(book_.take_status("a", answer(1, (std::uint64_t{5} << 32U) + 1)));
  EXPECT_FALSE(book_.take_status("a", answer(1, (std::uint64_t{4} << 32U) + 9)));
  EXPECT_FALSE(book_.take_status("a", answer(1, (std::uint64_t{5} << 32U) + 1)));
  EXPECT_EQ(book_.status_hashes().front().status_hash,
            "h" + std::to_string((std::uint64_t{5} << 32U) + 1));
}

TEST_F(Book, CM_53_WhatIsNotAnsweredIsSentAgain_DeletionsSooner) {
  (void)book_.wish(wishes({config_map("a"), config_map("b")}), {});
  EXPECT_EQ(sent(), (Lines{"a@1", "b@1"}));
  (void)book_.take_status("a", answer(1, 1));
  EXPECT_EQ(sent(seconds(599)), Lines{});
  EXPECT_EQ(sent(seconds(1)), Lines{"b@1"});
  (void)book_.wish(wishes({config_map("b")}), {});
  EXPECT_EQ(sent(), Lines{"a@2-"});
  ReceivedStatus waiting = answer(2, 2, true);
  waiting.conditions.front().holds = false;
  (void)book_.take_status("a", waiting);
  EXPECT_EQ(sent(seconds(59)), Lines{});
  EXPECT_EQ(sent(seconds(1)), Lines{"a@2-"});
}

TEST_F(Book, CM_53_SoManyAreOnTheirWayAtMost) {
  HubBook::Params few = params();
  few.on_way = 2;
  HubBook book(few);
  (void)book.wish(wishes({config_map("a"), config_map("b"), config_map("c")}), {});
  EXPECT_EQ(book.due(now_, 1).size(), 2U);
  EXPECT_EQ(book.due(now_, 1).size(), 0U);
  (void)book.take_status("a", answer(1, 1));
  EXPECT_EQ(book.due(now_, 1).size(), 1U);
  // What nobody answers does not hold up the rest for ever.
  HubBook other(few);
  (void)other.wish(wishes({config_map("a"), config_map("b"), config_map("c")}), {});
  EXPECT_EQ(other.due(now_, 1).size(), 2U);
  EXPECT_EQ(other.due(now_ + seconds(2), 1).size(), 1U);
}

TEST_F(Book, CM_50_WhatTheClientLacksIsSentAgain) {
  (void)book_.wish(wishes({config_map("a"), config_map("b"), config_map("c")}), {});
  (void)sent();
  book_.take_versions({{"a", 1, false, ""}, {"unknown", 9, false, ""}});
  EXPECT_EQ(sent(), (Lines{"b@1", "c@1"}));
  (void)book_.wish(wishes({config_map("b"), config_map("c")}), {});
  (void)sent();
  book_.take_versions({{"a", 2, false, ""}, {"b", 1, false, ""}, {"c", 1, false, ""}});
  EXPECT_EQ(sent(), Lines{"a@2-"}) << "it has not heard of the deletion";
  book_.take_versions({{"a", 2, true, ""}, {"b", 1, false, ""}, {"c", 1, false, ""}});
  EXPECT_EQ(sent(), Lines{});
}

TEST_F(Book, CM_51_WhatTheClientHasBesidesIsDeletedWhereTheHubDecides) {
  HubBook::Params decides = params();
  decides.authoritative = true;
  HubBook book(decides);
  book.take_versions({{"x", 4, false, ""}, {"gone", 2, true, ""}});
  const auto out = book.due(now_, 1);
  ASSERT_EQ(out.size(), 1U);
  const auto message = parse_resource_message(kJsonContentType, out.front().payload, "x", {});
  ASSERT_TRUE(message) << out.front().payload;
  EXPECT_TRUE(message->deleting && message->bare);
  EXPECT_EQ(message->generation, 5);
}

TEST_F(Book, CM_52_ABookThatWasLostGoesAboveWhatTheClientKnows_Once) {
  (void)book_.wish(wishes({config_map("a"), config_map("b")}), {});
  EXPECT_EQ(sent(), (Lines{"a@1", "b@1"}));
  (void)book_.take_status("a", answer(12, 1));
  book_.take_versions({{"a", 13, false, ""}, {"b", 30, false, ""}});
  EXPECT_EQ(sent(), (Lines{"a@13", "b@31"}));
  (void)book_.take_status("a", answer(20, 2));
  EXPECT_EQ(sent(), Lines{}) << "hubs do not outbid each other";
}

TEST_F(Book, CM_53_TheBookIsKept) {
  (void)book_.wish(wishes({config_map("a"), config_map("b"), config_map("c")}), {});
  (void)sent();
  (void)book_.take_status("a", answer(1, 9));
  (void)book_.wish(wishes({config_map("a"), config_map("b")}), {});
  const Json kept = book_.encode();
  EXPECT_FALSE(book_.dirty());
  book_ = HubBook(params());
  ASSERT_TRUE(book_.decode(kept));
  EXPECT_EQ(sent(), Lines{"c@2-"}) << "what is to be deleted is known without its file";
  (void)book_.wish(wishes({config_map("a"), config_map("b")}), {});
  EXPECT_EQ(sent(), Lines{"b@1"}) << "a is answered";
  EXPECT_FALSE(book_.take_status("a", answer(1, 9)));
  HubBook other(params());
  EXPECT_FALSE(other.decode(Json::object({{"objects", 1}})));
}

TEST_F(Book, CM_11_AnObjectWithoutAUidHasOne) {
  Json one = config_map("a");
  one["metadata"].erase("uid");
  const std::string uid = hub_uid("edge", one).value();
  EXPECT_EQ(uid.size(), 36U);
  EXPECT_NE(uid, hub_uid("other", one));
  (void)book_.wish(wishes({one}), {});
  EXPECT_EQ(sent(), Lines{uid + "@1"});
  Json wrong = config_map("b");
  wrong["metadata"]["uid"] = "a/b";
  EXPECT_EQ(book_.wish(wishes({one, one, wrong}), {}).size(), 2U);
}

TEST(HubFolder, CM_29_FilesAreWhatIsWanted) {
  char name[] = "/tmp/kintsugi-hub-test-XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string path = name;
  const auto write = [&path](const std::string& file, const std::string& text) {
    std::ofstream(path + "/" + file) << text;
  };
  HubFolder folder(path);
  auto seen = folder.look();
  ASSERT_TRUE(seen);
  EXPECT_TRUE(seen->changed) << "nothing is wanted";
  write("a.yaml",
        "apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\napiVersion: v1\nkind: A\nmetadata: "
        "{name: b}\n");
  write("b.json", config_map("c").dump_pretty());
  write("notes.txt", "no");
  write(".hidden.yaml", "no");
  seen = folder.look();
  ASSERT_TRUE(seen);
  EXPECT_TRUE(seen->changed);
  EXPECT_EQ(seen->wishes.size(), 3U);
  seen = folder.look();
  ASSERT_TRUE(seen);
  EXPECT_FALSE(seen->changed);
  write("a.yaml", "kind: [");
  seen = folder.look();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->wishes.size(), 1U);
  EXPECT_EQ(seen->unreadable.count("a.yaml"), 1U);
  EXPECT_EQ(seen->faults.size(), 1U);
  std::filesystem::remove_all(path);
  EXPECT_FALSE(folder.look()) << "a folder that is not there wants nothing deleted";
}

}  // namespace
}  // namespace kintsugi::workers
