#include "server/internal/store_note.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "server/files.h"

namespace kintsugi::server {
namespace {

TEST(StoreNote, GR_401_SaysHowToComeToTheDataAndNothingSecret) {
  char name[] = "/tmp/kintsugi-note-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const auto none = read_store_note(folder);
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->has_value());
  StoreNote note;
  note.etcd.endpoints = {"https://a:2379", "https://b:2379"};
  note.etcd.prefix = "/kintsugi/shards/root";
  note.etcd.ca_file = "/pki/ca.crt";
  note.etcd.cert_file = "/pki/etcd.crt";
  note.etcd.key_file = "/pki/etcd.key";
  note.etcd.user = "root";
  note.etcd.insecure = true;
  note.etcd.password = Secret::copy_of("hidden");
  note.password_file = "/pki/password";
  ASSERT_TRUE(write_store_note(folder, note));
  const auto read = read_store_note(folder);
  ASSERT_TRUE(read && *read);
  EXPECT_EQ((*read)->etcd.endpoints, note.etcd.endpoints);
  EXPECT_EQ((*read)->etcd.prefix, note.etcd.prefix);
  EXPECT_EQ((*read)->etcd.ca_file, note.etcd.ca_file);
  EXPECT_EQ((*read)->etcd.cert_file, note.etcd.cert_file);
  EXPECT_EQ((*read)->etcd.key_file, note.etcd.key_file);
  EXPECT_EQ((*read)->etcd.user, note.etcd.user);
  EXPECT_TRUE((*read)->etcd.insecure);
  EXPECT_EQ((*read)->password_file, note.password_file);
  EXPECT_EQ(read_file(folder + "/store.json")->find("hidden"), std::string::npos);
  for (const char* text : {"", "{}", "{\"endpoints\": []}", "{\"endpoints\": [\"http://a\"]}"}) {
    ASSERT_TRUE(write_file(folder + "/store.json", text));
    EXPECT_EQ(read_store_note(folder).error().code(), Errc::kConfig) << text;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kintsugi::server
