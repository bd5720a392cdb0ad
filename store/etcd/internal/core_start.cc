#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "krm/json.h"
#include "store/etcd/internal/core.h"
#include "store/lmdb/source.h"

// What happens before the first read: whose prefix it is, and which mirror is there (GR-117,
// GR-124).
namespace kintsugi::store::etcd {
namespace {

using krm::Json;

constexpr Duration kMostStop = seconds(5);
constexpr Duration kMovePoll = milliseconds(20);
constexpr std::size_t kMostTransactions = 1'000'000;  // of a mirror's one: no limit

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  file >> text;
  return text;
}

/// What the mirror is of.
std::string mirror_note(const EtcdParams& params) {
  return (std::filesystem::path(params.mirror_directory) / "mirror.json").string();
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

void Core::start(std::function<void(Expected<void>)> ready) {
  ready_ = std::move(ready);
  job_ = net::Job(run());
}

net::Task<> Core::run() {
  net::Task<Expected<void>> beginning = begin();
  Expected<void> begun = co_await beginning;
  if (!begun) {
    std::exchange(ready_, nullptr)(std::move(begun));
    co_return;
  }
  guard_timer_.start(seconds(1), [this] { watch_guard(); });
  watch_compaction();
  net::Task<> following = follow();
  co_await following;
}

net::Task<Expected<void>> Core::begin() {
  net::Task<Expected<void>> introducing = introduction_.run();
  Expected<void> introduced = co_await introducing;
  if (!introduced) {
    co_return introduced;
  }
  net::Task<Expected<void>> matching = match_meta();
  Expected<void> matched = co_await matching;
  if (!matched) {
    co_return matched;
  }
  co_return open_mirror();
}

void Core::take_meta(const Introduction::Known& known) {
  meta_ = known.meta;
  meta_revision_ = known.revision;
  offset_ = meta_.offset;
}

/// What the record says when nobody is moving the store any more. Whoever does has 5 s by this
/// process's clock; then it stays here (GR-306).
net::Task<Expected<Introduction::Read>> Core::settled_meta() {
  std::uint64_t seen = 0;
  TimePoint since{};
  while (true) {
    net::Task<Expected<Introduction::Read>> reading = introduction_.read_meta();
    Expected<Introduction::Read> read = co_await reading;
    if (!read || !read->known || read->known->meta.state != Meta::State::kMoving) {
      co_return read;
    }
    if (read->known->revision != seen) {
      seen = read->known->revision;
      since = now();
    }
    if (now() - since >= kMostStop) {
      log_warn("whoever moves the store has not ended in time: it stays here",
               {{"prefix", params_.prefix}});
      Meta whole = read->known->meta;
      whole.state = Meta::State::kWhole;
      whole.place.clear();
      TxnRequest request;
      request.compares = {{keys_.meta(), seen}};
      request.success = {{TxnOp::Kind::kPut, keys_.meta(), encode(whole), 0}};
      CallRequest call = request_of("KV/Txn", encode(request));
      net::Task<Reply> asking = ask(choice_.pick(now()), std::move(call));
      (void)co_await asking;
    }
    net::Sleep pause(loop_, kMovePoll);
    co_await pause;
  }
}

/// Makes it where there is none; moves it forward where etcd is older than what this process has
/// seen before (GR-125).
net::Task<Expected<void>> Core::match_meta() {
  Meta fresh;
  fresh.uid = random_uuid();
  TxnRequest create;
  create.compares = {{keys_.meta(), 0}};
  create.success = {{TxnOp::Kind::kPut, keys_.meta(), encode(fresh), 0}};
  const std::size_t member = choice_.pick(now());
  CallRequest call = request_of("KV/Txn", encode(create));
  net::Task<Reply> creating = ask(member, std::move(call));
  const Reply created = co_await creating;
  if (!created.ok()) {
    co_return fail(Errc::kUnavailable, client_.name(member) + ": " + created.text());
  }
  net::Task<Expected<Introduction::Read>> reading = settled_meta();
  const Expected<Introduction::Read> read = co_await reading;
  if (!read) {
    co_return fail(read.error().clone());
  }
  if (!read->known) {
    co_return fail(Errc::kUnavailable, params_.prefix + " in etcd is being removed");
  }
  Expected<void> whole = check_whole(read->known->meta, params_.prefix, params_.opens_moved);
  if (!whole) {
    co_return whole;
  }
  Expected<void> allowed = check_program(read->known->meta, params_.prefix, params_.program);
  if (!allowed) {
    co_return allowed;
  }
  take_meta(*read->known);
  const Revision seen = newest_of_old_mirror();
  if (seen > read->head + offset_) {
    log_error("etcd is older than what it has told: it was restored; revisions go forward",
              {{"prefix", params_.prefix}, {"seen", seen}, {"newest", read->head + offset_}});
    net::Task<Expected<void>> moving = move_forward(seen);
    Expected<void> moved = co_await moving;
    co_return moved;
  }
  co_return Expected<void>();
}

/// @param is_comparing  a mirror that is left like that is of no use: it never was what etcd was
std::string Core::identity(bool is_comparing) const {
  return Json::object({{"prefix", params_.prefix},
                       {"uid", meta_.uid},
                       {"cluster", std::to_string(introduction_.cluster_id())},
                       {"offset", static_cast<std::int64_t>(offset_)},
                       {"epoch", static_cast<std::int64_t>(meta_.epoch)},
                       {"comparing", is_comparing},
                       {"boot", boot_id()}})
      .dump();
}

Expected<void> Core::note_identity(bool is_comparing) const {
  const std::string path = mirror_note(params_);
  std::ofstream note(path);
  note << identity(is_comparing);
  note.close();
  return note ? Expected<void>() : fail(Errc::kIo, path + " cannot be written");
}

Core::Landmark Core::newest_in_mirror() const {
  const auto changes = fed_ > offset_ ? mirror_->changes({}, fed_ - 1, 1)
                                      : Expected<Store::Changes>(fail(Errc::kNotFound));
  Landmark out;
  for (const Event& event : changes ? changes->events : std::vector<Event>()) {
    if (event.type == EventType::kPut) {
      out = {keys_.row(event.key), event.revision - offset_};
    }
  }
  return out;
}

/// What a mirror of the same store and epoch has seen; 0: nobody can say.
Revision Core::newest_of_old_mirror() const {
  const std::filesystem::path directory = params_.mirror_directory;
  const auto note = Json::parse(read_text(mirror_note(params_)));
  if (!note || note->text({"uid"}) != meta_.uid ||
      note->find("epoch")->as_integer() != static_cast<std::int64_t>(meta_.epoch)) {
    return 0;
  }
  // It was not synced: what a crash of the machine has left of it is not for LMDB.
  const auto old = LmdbSource::open((directory / "data").string());
  const auto revision = old ? (*old)->revision() : fail(old.error().clone());
  return revision.value_or(0);
}

/// The one that is there goes on if it is of the same history; else it is made anew (GR-117).
Expected<void> Core::open_mirror() {
  const std::filesystem::path directory = params_.mirror_directory;
  const std::string before = read_text(mirror_note(params_));
  if (const auto old = Json::parse(before); old && !old->text({"uid"}).empty() &&
                                            old->text({"prefix"}) == params_.prefix &&
                                            old->text({"uid"}) != meta_.uid) {
    return fail(Errc::kConfig,
                params_.prefix + " in etcd is not what it was: another store is there");
  }
  std::error_code failed;
  if (before != identity(false)) {
    std::filesystem::remove_all(directory / "data", failed);
  }
  std::filesystem::create_directories(directory, failed);
  LmdbParams params;
  params.directory = (directory / "data").string();
  params.no_sync = true;  // etcd has it
  params.books = params_.books;
  params.history_age = params_.history_age;
  params.history_events = params_.history_events;
  params.commit_fault_for_test = params_.mirror_fault_for_test;
  params.limits = {kMostTransactions, std::numeric_limits<std::size_t>::max()};
  auto opened = LmdbStore::open(params);
  if (!opened) {
    return fail(std::move(opened.error()).at("mirror of etcd"));
  }
  mirror_ = std::move(*opened);
  if (auto noted = note_identity(false); !noted) {
    return noted;
  }
  fed_ = mirror_->current();
  landmark_ = newest_in_mirror();
  shared_.mirror_published = fed_;
  shared_.position = fed_;
  resync_ = fed_ == 0;
  return {};
}

}  // namespace kintsugi::store::etcd
