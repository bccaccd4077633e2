#include "train/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace strata::train {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers go to the file as they lie in memory");

// Field numbers of event.proto and summary.proto (TensorFlow core/util, core/framework).
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2 };
enum SessionLogField { kStatus = 1 };
constexpr int kStart = 1;  // SessionLog.START

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += char(value | 0x80);
  return bytes + char(value);
}

std::string field(int number, double v) { return varint(number << 3 | 1) + bytes_of(v); }
std::string field(int number, float v) { return varint(number << 3 | 5) + bytes_of(v); }
std::string field(int number, std::int64_t v) { return varint(number << 3) + varint(std::uint64_t(v)); }
std::string field(int number, const std::string& v) { return varint(number << 3 | 2) + varint(v.size()) + v; }

std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; }

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

constexpr std::string_view kPrefix = "events.out.tfevents.";

// Now, in seconds, or later: readers take files in the order of their names.
std::int64_t next_stamp(const std::string& folder) {
  auto stamp = std::int64_t(seconds_now());
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kPrefix))
      stamp = std::max(stamp, std::int64_t(std::atoll(name.c_str() + kPrefix.size())) + 1);
  }
  return stamp;
}

std::string file_name(std::int64_t stamp) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  char digits[32];
  std::snprintf(digits, sizeof digits, "%010lld", (long long)stamp);
  return concat(kPrefix, digits, ".", host, ".", getpid(), ".0");
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0x82f63b78u : 0);
    }
    return table;
  }();
  std::uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

std::string event_tag(const std::string& metric) {
  static constexpr std::pair<std::string_view, std::string_view> kGroups[] = {
      {"lm loss validation ", "validation"},
      {"bits per byte validation ", "validation"},
      {"expert load ", "experts"},
      {"expert rank load ", "experts"},
      {"dead experts", "experts"},
      {"router bias ", "experts"},
      {"depth attention ", "depth"},
      {"gate mean ", "depth"},
      {"output norm ", "outputs"},
      {"mem-", "memory"},
      {"tokens per second", "speed"},
      {"elapsed time ", "speed"},
      {"throughput ", "speed"},
      {"share of peak", "speed"}};
  for (const auto& [prefix, group] : kGroups)
    if (metric.starts_with(prefix)) return concat(group, "/", metric);
  return "train/" + metric;
}

EventFile::EventFile(const std::string& folder, std::int64_t last_step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw InputError(
        concat("logging.tensorboard_dir: cannot make the folder ", folder, ": ", error.message()));
  path_ = folder + "/" + file_name(next_stamp(folder));
  file_.open(path_, std::ios::binary | std::ios::trunc);
  if (!file_) throw InputError(concat("cannot write ", path_, ": ", std::strerror(errno)));
  append(field(kWallTime, seconds_now()) + field(kFileVersion, std::string("brain.Event:2")));
  append(field(kWallTime, seconds_now()) + field(kStep, last_step + 1) +
         field(kSessionLog, field(kStatus, std::int64_t(kStart))));
}

void EventFile::write(std::int64_t step, const Metrics& scalars) {
  std::string summary;
  for (const auto& [name, value] : scalars)
    summary += field(kValue, field(kTag, event_tag(name)) + field(kSimpleValue, float(value)));
  append(field(kWallTime, seconds_now()) + field(kStep, step) + field(kSummary, summary));
}

void EventFile::append(const std::string& event) {
  const std::string length = bytes_of(std::uint64_t(event.size()));
  file_ << length << bytes_of(masked(crc32c(length))) << event << bytes_of(masked(crc32c(event)))
        << std::flush;
  if (!file_) throw Error(concat("cannot write ", path_, ": ", std::strerror(errno)));
}

}  // namespace strata::train
