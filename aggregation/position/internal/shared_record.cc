#include "aggregation/position/internal/shared_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/file_lock.h"
#include "base/secret_file.h"
#include "base/strings.h"
#include "krm/json.h"

namespace kintsugi::aggregation {
namespace {

using krm::Json;

constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

/// Closes a descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

tl::unexpected<Error> io_error(const std::string& path) {
  const int number = errno;
  return fail(number == ENOENT ? Errc::kNotFound : Errc::kIo,
              path + ": " + std::generic_category().message(number));
}

tl::unexpected<Error> corrupt(const std::string& path) {
  return fail(Errc::kCorrupt, path + ": is no record of a proxy");
}

bool has(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

SharedRecord::Mark SharedRecord::mark() const {
  struct stat facts {};
  if (::stat(path_.c_str(), &facts) != 0) {
    return {};
  }
  return {facts.st_ino, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec, facts.st_size};
}

bool SharedRecord::has_changed() const { return mark() != seen_; }

Expected<SharedContent> SharedRecord::read() {
  const Mark before = mark();
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    return io_error(path_);
  }
  std::string text;
  char piece[64U << 10];
  for (;;) {
    const ssize_t count = ::read(file.get(), piece, sizeof piece);
    if (count < 0) {
      return io_error(path_);
    }
    if (count == 0) {
      break;
    }
    text.append(piece, static_cast<std::size_t>(count));
    if (text.size() > kMaxBytes) {
      return corrupt(path_);
    }
  }
  const Expected<Json> json = Json::parse(text);
  const Json* slots = json ? json->find("slots") : nullptr;
  const Json* epoch = json ? json->find("epoch") : nullptr;
  if (slots == nullptr || epoch == nullptr || !epoch->is_integer() || epoch->as_integer() < 0) {
    return corrupt(path_);
  }
  Expected<SlotHistory> history = SlotHistory::from_json(*slots);
  wipe(text);
  std::optional<std::string> secret = base64url_decode(json->text({"tokenSecret"}));
  if (!history || !secret) {
    return corrupt(path_);
  }
  seen_ = before;
  return SharedContent{std::move(*history), Secret(std::move(*secret)),
                       static_cast<std::uint32_t>(epoch->as_integer())};
}

Expected<void> SharedRecord::write(const SharedContent& content) {
  const Json json =
      Json::object({{"epoch", Json(static_cast<std::int64_t>(content.epoch))},
                    {"tokenSecret", Json(base64url_encode(content.token_secret.view()))},
                    {"slots", content.slots.to_json()}});
  const Secret text(json.dump() + '\n');
  if (auto written = replace_file(path_, text.view(), 0600); !written) {
    return written;
  }
  seen_ = mark();
  return {};
}

Expected<SharedContent> SharedRecord::update(const std::function<bool(SharedContent&)>& change) {
  const std::string lock_path = path_ + ".lock";
  const auto lock = FileLock::take(lock_path);
  if (!lock) {
    return lock.error().code() == Errc::kConfig ? fail(Errc::kOverloaded, lock_path + ": is taken")
                                                : fail(lock.error().clone());
  }
  Expected<SharedContent> content = read();
  if (!content && content.error().code() == Errc::kNotFound) {
    content = SharedContent{};
  }
  if (!content) {
    return content;
  }
  if (change(*content)) {
    if (auto written = write(*content); !written) {
      return fail(std::move(written.error()));
    }
  }
  return content;
}

SlotChange shared_change(const SlotHistory& record, const SlotChange& own,
                         const std::optional<SlotChange>& told,
                         const std::set<std::string>& missed) {
  SlotChange out;
  out.rolled_back = own.rolled_back;
  const std::vector<std::string>& uids = record.current().uids;
  for (std::size_t slot = 0; slot < uids.size(); ++slot) {
    const bool left = !has(own.present, uids[slot]) && (!told || has(told->present, uids[slot]));
    if (record.is_present(slot) && !left) {
      out.present.push_back(uids[slot]);
    }
  }
  for (const std::string& uid : own.present) {
    const bool is_news = !told || !has(told->present, uid) || missed.contains(uid);
    if (is_news && !has(out.present, uid)) {
      out.present.push_back(uid);
    }
  }
  const Json json = record.to_json();
  const Json* labels = json.find("labels");
  for (const std::string& uid : out.present) {
    const Json* known = labels == nullptr ? nullptr : labels->find(uid);
    const auto mine = own.labels.find(uid);
    const auto before = told ? told->labels.find(uid) : own.labels.end();
    const bool is_news =
        mine != own.labels.end() && (known == nullptr || !told || before == told->labels.end() ||
                                     before->second != mine->second);
    if (is_news) {
      out.labels[uid] = mine->second;
    } else if (known != nullptr) {
      out.labels[uid] = known->as_string();
    }
  }
  return out;
}

}  // namespace kintsugi::aggregation
