#include "base/secret.h"

#include <openssl/crypto.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "base/log.h"

namespace kintsugi {
namespace {

constexpr std::size_t kPage = 4'096;
constexpr std::size_t kBlock = 16 * kPage;
constexpr std::size_t kLeast = 64;   // [bytes] a place has, and twice as many each next size
constexpr std::size_t kClasses = 7;  // up to a page
static_assert(kLeast << (kClasses - 1) == kPage);

void (*watch_ended)(std::string_view bytes) = nullptr;

/// Memory of its own: no core dump shows it (madvise(2), MADV_DONTDUMP), and other blocks of the
/// heap, which may be read beyond their ends, are not beside it.
char* map(std::size_t size) noexcept {
  void* const at =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED || ::madvise(at, size, MADV_DONTDUMP) != 0) {
    log_error("no memory for a secret");
    std::abort();
  }
  return static_cast<char*>(at);
}

std::size_t class_of(std::size_t size) noexcept {
  return size <= kLeast ? 0
                        : static_cast<std::size_t>(std::bit_width(size - 1)) -
                              static_cast<std::size_t>(std::bit_width(kLeast - 1));
}

std::size_t pages_of(std::size_t size) noexcept { return (size + kPage - 1) / kPage * kPage; }

/// Places of a few sizes in blocks that are kept; larger ones are mapped one by one.
class Pool {
 public:
  /// Never ends: secrets of static objects end after everything else.
  static Pool& get() noexcept {
    static Pool* const pool = new Pool;
    return *pool;
  }

  char* take(std::size_t size) {
    if (size > kPage) {
      return map(pages_of(size));
    }
    const std::size_t index = class_of(size);
    const std::scoped_lock lock(mutex_);
    std::vector<char*>& free = free_[index];
    if (free.empty()) {
      char* const block = map(kBlock);
      for (std::size_t at = kBlock; at > 0; at -= kLeast << index) {
        free.push_back(block + at - (kLeast << index));
      }
    }
    char* const taken = free.back();
    free.pop_back();
    return taken;
  }

  void give(char* at, std::size_t size) {
    if (size > kPage) {
      ::munmap(at, pages_of(size));
      return;
    }
    const std::scoped_lock lock(mutex_);
    free_[class_of(size)].push_back(at);
  }

 private:
  std::mutex mutex_;
  std::array<std::vector<char*>, kClasses> free_;
};

}  // namespace

class Secret::Bytes {
 public:
  explicit Bytes(std::size_t size) : at_(Pool::get().take(size)), size_(size) {}
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() {
    wipe(at_, size_);
    if (watch_ended != nullptr) {
      watch_ended({at_, size_});
    }
    Pool::get().give(at_, size_);
  }
  [[nodiscard]] char* at() const noexcept { return at_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  char* const at_;
  const std::size_t size_;
};

Secret Secret::made(std::size_t size, const std::function<void(char* to)>& fill) {
  Secret out;
  if (size > 0) {
    auto bytes = std::make_shared<const Bytes>(size);
    fill(bytes->at());
    out.bytes_ = std::move(bytes);
  }
  return out;
}

Secret Secret::joined(std::initializer_list<std::string_view> parts) {
  std::size_t size = 0;
  for (const std::string_view part : parts) {
    size += part.size();
  }
  return made(size, [&parts](char* to) {
    for (const std::string_view part : parts) {
      to = std::copy(part.begin(), part.end(), to);
    }
  });
}

Secret Secret::copy_of(std::string_view bytes) { return joined({bytes}); }

Secret::Secret(std::string&& text) : Secret(copy_of(text)) { wipe(text); }

std::string_view Secret::view() const noexcept {
  return bytes_ == nullptr ? std::string_view() : std::string_view(bytes_->at(), bytes_->size());
}

bool Secret::operator==(const Secret& other) const noexcept {
  const std::string_view a = view(), b = other.view();
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void wipe(void* at, std::size_t size) noexcept { OPENSSL_cleanse(at, size); }

void wipe(std::string& text) noexcept {
  text.resize(text.capacity());  // what an earlier, longer content has left
  wipe(text.data(), text.size());
  text.clear();
}

void watch_ended_secrets_for_test(void (*ended)(std::string_view bytes)) noexcept {
  watch_ended = ended;
}

}  // namespace kintsugi
