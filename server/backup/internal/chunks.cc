#include "server/backup/internal/chunks.h"

#include <cstdint>
#include <cstdio>

#include "base/digest.h"
#include "server/files.h"

namespace kintsugi::server {
namespace {

constexpr std::size_t kChunk = std::size_t{16} << 20;
constexpr std::size_t kHead = 24;

void put_number(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    out += static_cast<char>(value >> (8 * i) & 0xffU);
  }
}

std::uint64_t number_in(std::string_view text, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[at + i])) << (8 * i);
  }
  return value;
}

}  // namespace

Expected<void> ChunkWriter::add(const store::EntryView& record) {
  put_number(chunk_, record.key.size(), 4);
  put_number(chunk_, record.value.size(), 4);
  put_number(chunk_, record.created, 8);
  put_number(chunk_, record.modified, 8);
  chunk_ += record.key;
  chunk_ += record.value;
  return chunk_.size() >= kChunk ? flush() : Expected<void>();
}

Expected<void> ChunkWriter::flush() {
  BackupFile file;
  file.name = name_ + '-' + std::to_string(files_.size() + 1);
  std::string bytes = seal_.seal(file.name, std::move(chunk_));
  chunk_.clear();
  file.bytes = bytes.size();
  file.sha256 = sha256_hex(bytes);
  if (auto written = write_file(folder_ + '/' + file.name, bytes, 0600); !written) {
    return written;
  }
  files_.push_back(std::move(file));
  return {};
}

Expected<std::vector<BackupFile>> ChunkWriter::finish() {
  if (auto flushed = chunk_.empty() ? Expected<void>() : flush(); !flushed) {
    return fail(std::move(flushed.error()));
  }
  return std::move(files_);
}

Expected<std::string> read_chunk(const std::string& folder, const BackupFile& file,
                                 const BackupSeal& seal) {
  const std::string path = folder + '/' + file.name;
  if (file.name.find('/') != std::string::npos) {
    return fail(Errc::kCorrupt, path + ": is no name of a file of a backup");
  }
  auto bytes = read_file(path);
  if (!bytes) {
    return fail(Errc::kCorrupt, std::string(bytes.error().message()));
  }
  if (bytes->size() != file.bytes || sha256_hex(*bytes) != file.sha256) {
    return fail(Errc::kCorrupt, path + ": is damaged");
  }
  return seal.open(file.name, std::move(*bytes));
}

Expected<void> each_record(std::string_view chunk, const RecordVisit& visit) {
  while (!chunk.empty()) {
    const bool has_head = chunk.size() >= kHead;
    const std::uint64_t key = has_head ? number_in(chunk, 0, 4) : 0;
    const std::uint64_t value = has_head ? number_in(chunk, 4, 4) : 0;
    if (!has_head || chunk.size() - kHead < key + value) {
      return fail(Errc::kCorrupt, "a record is cut off");
    }
    const store::EntryView record{
        chunk.substr(kHead, static_cast<std::size_t>(key)),
        chunk.substr(kHead + static_cast<std::size_t>(key), static_cast<std::size_t>(value)),
        number_in(chunk, 8, 8), number_in(chunk, 16, 8)};
    if (auto visited = visit(record); !visited) {
      return visited;
    }
    chunk.remove_prefix(kHead + static_cast<std::size_t>(key + value));
  }
  return {};
}

}  // namespace kintsugi::server
