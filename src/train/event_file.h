// TensorBoard's event files. A file is TFRecords (length, its checksum, data, its checksum; checksums are
// masked CRC32C), each an Event message in protobuf's wire format.
#pragma once
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "train/metrics.h"

namespace strata::train {

// CRC-32C (Castagnoli, RFC 3720 B.4).
std::uint32_t crc32c(std::string_view bytes);

// What TensorBoard shows a metric under: "train/lm loss", "experts/dead experts layer 1".
std::string event_tag(const std::string& metric);

class EventFile {
 public:
  // A new file in `folder`, which is made where it is missing, that sorts behind those that are there. It
  // begins with SessionLog.START at the step after `last_step`, where readers drop what earlier files say of
  // that step and later ones. InputError if it cannot be written.
  EventFile(const std::string& folder, std::int64_t last_step);
  // Scalars of a step, flushed at once. Error if they cannot be written.
  void write(std::int64_t step, const Metrics& scalars);
  const std::string& path() const { return path_; }

 private:
  void append(const std::string& event);

  std::string path_;
  std::ofstream file_;
};

}  // namespace strata::train
