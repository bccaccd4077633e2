#include "data/megatron_writer.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "data/megatron_index.h"

namespace strata::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kU16Below = 65500;

std::string free_prefix(const std::string& prefix, bool overwrite) {
  if (fs::path(prefix).filename().empty())
    throw InputError(
        concat("the output \"", prefix, "\" is a folder; a prefix for .bin and .idx is expected"));
  if (prefix.ends_with(".bin") || prefix.ends_with(".idx"))
    throw InputError(
        concat("the output \"", prefix, "\" is a prefix: leave ", prefix.substr(prefix.size() - 4), " away"));
  for (const char* ending : {".bin", ".idx"})
    if (std::error_code error; !overwrite && fs::exists(prefix + ending, error))
      throw InputError(concat(prefix, ending, " exists already; choose another output, or replace it with ",
                              "--overwrite"));
  return prefix;
}

// A file beside the output that is gone when it is closed, or when the process ends in whatever way.
std::unique_ptr<std::FILE, int (*)(std::FILE*)> scratch_file(const std::string& prefix) {
  std::string name = prefix + ".lengths.XXXXXX";
  const int fd = ::mkstemp(name.data());
  if (fd < 0) throw InputError(concat("cannot write ", name, ": ", std::strerror(errno)));
  ::unlink(name.c_str());
  return {::fdopen(fd, "w+b"), std::fclose};
}

}  // namespace

MegatronWriter::MegatronWriter(const std::string& prefix, std::int64_t vocabulary, bool overwrite,
                               std::int64_t longest)
    : prefix_(free_prefix(prefix, overwrite)),
      vocabulary_(vocabulary),
      longest_(longest),
      type_(vocabulary < kU16Below ? ElementType::U16 : ElementType::I32),
      bin_(prefix + ".bin"),
      lengths_(scratch_file(prefix)) {}

template <class T>
void MegatronWriter::put(StagedFile& file, T value) {
  file.write(std::as_bytes(std::span(&value, 1)));
}

void MegatronWriter::append(std::span<const std::int32_t> ids) {
  std::vector<std::uint16_t> narrow;
  while (!ids.empty()) {
    if (length_ == longest_) end_sequence(false);
    const auto part = ids.first(std::min(ids.size(), std::size_t(longest_ - length_)));
    for (const std::int32_t id : part)
      STRATA_CHECK(id >= 0 && id < vocabulary_, "id ", id, " of a vocabulary of ", vocabulary_);
    if (type_ == ElementType::U16) {
      narrow.assign(part.begin(), part.end());
      bin_.write(std::as_bytes(std::span(narrow)));
    } else {
      bin_.write(std::as_bytes(part));
    }
    length_ += std::int64_t(part.size());
    ids = ids.subspan(part.size());
  }
}

void MegatronWriter::end_document() {
  end_sequence(true);
  ++documents_;
}

void MegatronWriter::end_sequence(bool ends_document) {
  const auto entry = std::int32_t(ends_document ? length_ : -length_);
  if (std::fwrite(&entry, sizeof entry, 1, lengths_.get()) != 1)
    throw Error(concat("cannot write lengths beside ", prefix_, ": ", std::strerror(errno)));
  length_ = 0;
  ++sequences_;
}

// Calls f(length, whether its document ends with it) for all sequences in order.
template <class F>
void MegatronWriter::for_each_sequence(F f) {
  std::FILE* file = lengths_.get();
  if (std::fseek(file, 0, SEEK_SET) != 0)
    throw Error(concat("cannot write lengths beside ", prefix_, ": ", std::strerror(errno)));
  for (std::int64_t s = 0; s < sequences_; ++s) {
    std::int32_t entry = 0;
    if (std::fread(&entry, sizeof entry, 1, file) != 1)
      throw Error(concat("cannot read lengths beside ", prefix_, ": ", std::strerror(errno)));
    f(std::abs(entry), entry >= 0);
  }
}

void MegatronWriter::write_index(StagedFile& index) {
  index.write(std::as_bytes(std::span(kMegatronMagic)));
  put(index, std::uint64_t(1));
  put(index, std::uint8_t(type_ == ElementType::U16 ? 8 : 4));
  put(index, std::uint64_t(sequences_));
  put(index, std::uint64_t(documents_ + 1));
  for_each_sequence([&](std::int32_t length, bool) { put(index, length); });
  std::int64_t offset = 0;
  for_each_sequence([&](std::int32_t length, bool) {
    put(index, offset);
    offset += length * width(type_);
  });
  std::int64_t before = 0;
  put(index, before);
  for_each_sequence([&](std::int32_t, bool ends_document) {
    ++before;
    if (ends_document) put(index, before);
  });
}

void MegatronWriter::finish() {
  STRATA_CHECK(length_ == 0, "a document of ", prefix_, " is not ended");
  StagedFile index(prefix_ + ".idx");
  write_index(index);
  index.sync();
  bin_.sync();
  // An index must never stand beside the tokens of another: it goes first and comes last.
  ::unlink((prefix_ + ".idx").c_str());
  bin_.commit();
  index.commit();
  const fs::path folder = fs::path(prefix_).parent_path();
  sync_folder(folder.empty() ? "." : folder.string());
}

}  // namespace strata::data
