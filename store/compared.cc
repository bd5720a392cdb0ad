#include "store/compared.h"

#include <future>
#include <utility>
#include <vector>

namespace kintsugi::store {

Expected<Entry> get_or_none(const Store& store, std::string_view key) {
  Expected<Entry> found = store.get(key);
  if (!found && found.error().code() == Errc::kNotFound) {
    return Entry{};
  }
  return found;
}

Expected<bool> put_compared(Store& store, std::string_view key, std::string value,
                            Revision expected) {
  std::vector<Op> ops;
  ops.push_back({EventType::kPut, std::string(key), std::move(value), expected});
  const auto written = store.commit_wait(std::move(ops));
  if (!written) {
    return fail(written.error().clone());
  }
  if (!written->conflict) {
    return true;
  }
  std::promise<Expected<void>> known;
  store.synchronize([&known](Expected<Revision> at) {
    known.set_value(at ? Expected<void>() : fail(std::move(at).error()));
  });
  if (auto done = known.get_future().get(); !done) {
    return fail(std::move(done).error());
  }
  return false;
}

Expected<std::string> get_or_put(Store& store, std::string_view key, const std::string& value) {
  for (;;) {
    const Expected<Entry> found = get_or_none(store, key);
    if (!found) {
      return fail(found.error().clone());
    }
    if (found->modified != 0) {
      return std::string(found->value.view());
    }
    const Expected<bool> written = put_compared(store, key, value, 0);
    if (!written) {
      return fail(written.error().clone());
    }
    if (*written) {
      return value;
    }
  }
}

}  // namespace kintsugi::store
