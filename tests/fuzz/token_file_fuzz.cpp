// Any bytes as a token file: refused with InputError, or sound and read to the end. The first byte's lowest
// bit tells one file from a Megatron pair; of a pair, two bytes say how many belong to the index.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/fingerprint.h"
#include "data/token_file.h"
#include "data/window_order.h"

namespace {

using strata::data::TokenFile;

// In memory where there is a file system in memory; removed at the end.
struct Folder {
  Folder() {
    path =
        std::filesystem::is_directory("/dev/shm") ? "/dev/shm/strata_fuzz_XXXXXX" : "/tmp/strata_fuzz_XXXXXX";
    if (!mkdtemp(path.data())) std::abort();
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

const std::string& folder() {
  static const Folder kFolder;
  return kFolder.path;
}

void write(const std::string& file, std::span<const std::uint8_t> bytes) {
  std::ofstream(folder() + "/" + file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
}

void use(const TokenFile& file) {
  constexpr std::int64_t kMost = 1 << 16, kLength = 3;
  std::int64_t before = 0;
  for (std::int64_t d = 0; d <= file.documents(); ++d) {
    const std::int64_t begin = file.document_begin(d);
    if (begin < before || begin > file.tokens()) std::abort();
    before = begin;
  }
  if (before != file.tokens()) std::abort();
  strata::data::Fingerprint().add(file);
  if (file.tokens() > kLength) {
    strata::data::WindowOrder order(file, kLength, 1, 0);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(order.windows() + 1, 100); ++i) order.sample(i);
  }
  std::vector<std::int64_t> ids(std::size_t(std::min(kMost, file.tokens())));
  file.read(file.tokens() - std::int64_t(ids.size()), ids, INT64_MAX);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  std::span<const std::uint8_t> rest(data + 3, size - 3);
  const bool is_pair = data[0] & 1;
  std::string path = folder() + "/single";
  if (is_pair) {
    const std::size_t cut = std::min<std::size_t>(rest.size(), data[1] | data[2] << 8);
    write("pair.idx", rest.first(cut));
    write("pair.bin", rest.subspan(cut));
    path = folder() + "/pair";
  } else {
    write("single", rest);
  }
  try {
    use(TokenFile(path, data[0] & 2 ? std::optional<std::int64_t>(data[1]) : std::nullopt));
  } catch (const strata::InputError&) {
  }
  return 0;
}
