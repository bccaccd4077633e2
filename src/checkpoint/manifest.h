// manifest.json of a checkpoint: size and checksum (XXH3, 64 bits) of every other file, and its own.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace strata::checkpoint {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr std::int64_t kFormatVersion = 1;

struct Manifest {
  struct File {
    std::int64_t bytes = 0;
    std::string checksum;  // 16 hexadecimal digits
    bool operator==(const File&) const = default;
  };
  std::int64_t step = 0;
  std::map<std::string, File> files;

  bool operator==(const Manifest&) const = default;
};

// An undamaged manifest of a format that this program does not know.
class VersionError : public InputError {
 public:
  using InputError::InputError;
};

// Whether a file of a checkpoint may have this name: of one folder, visible, not the manifest's.
bool is_plain_name(const std::string& name);
std::string manifest_text(const Manifest& manifest);
// InputError names `source` and what is wrong: not JSON, not whole, a checksum that does not fit, ...
Manifest parse_manifest(const std::string& text, const std::string& source);

enum class Check { Sizes, Checksums };

// What is wrong with the checkpoint in `folder`, file by file, and what is only odd.
struct Verification {
  std::vector<std::string> faults;   // sentences that begin with the file's name
  std::vector<std::string> remarks;  // files that the manifest does not list
  Manifest manifest;                 // where it could be read
  bool sound() const { return faults.empty(); }
};
// InputError (VersionError) only where nothing can be said: no such folder, no permission, another version.
Verification verify(const std::string& folder, Check check = Check::Checksums);

}  // namespace strata::checkpoint
