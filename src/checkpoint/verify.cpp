// Compares a checkpoint's folder with its manifest.
#include <filesystem>

#include "checkpoint/digest.h"
#include "checkpoint/disk.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/steps.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;

// Whether there is a regular file; what hinders looking at it is an error, not a fault of the checkpoint.
bool is_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none)
    throw InputError(concat("cannot read ", path.string(), ": ", error.message()));
  return status.type() == fs::file_type::regular;
}

std::string read_all(const InputFile& file) {
  constexpr std::int64_t kMost = 1 << 20;
  if (file.size() > kMost)
    throw InputError(concat(kManifestName, " has ", file.size(), " bytes, at most ", kMost, " are allowed"));
  std::string text(std::size_t(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

// Empty, or what is wrong with this file.
std::string fault_of(const fs::path& path, const Manifest::File& saved, Check check) {
  if (!is_file(path)) return "is missing";
  const InputFile file(path.string());
  if (file.size() != saved.bytes) return concat("has ", file.size(), " bytes, ", saved.bytes, " were saved");
  if (check == Check::Sizes) return "";
  try {
    const std::string checksum = digest_of_file(file);
    if (checksum != saved.checksum)
      return concat("has checksum ", checksum, ", ", saved.checksum, " was saved");
    if (path.extension() == ".safetensors") SafetensorsFile{path.string()};
  } catch (const InputError& e) {
    return concat("is damaged: ", e.what());
  }
  return "";
}

void find_odd_files(const fs::path& folder, Verification& v) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name != kManifestName && !v.manifest.files.count(name))
      v.remarks.push_back(name + " is not in the manifest");
  }
}

}  // namespace

Verification verify(const std::string& folder, Check check) {
  if (!fs::is_directory(folder)) throw InputError(concat(folder, ": no such folder of a checkpoint"));
  Verification v;
  const fs::path manifest = fs::path(folder) / kManifestName;
  if (!is_file(manifest)) {
    v.faults.push_back(concat(kManifestName, " is missing"));
    return v;
  }
  const InputFile file(manifest.string());
  try {
    v.manifest = parse_manifest(read_all(file), kManifestName);
  } catch (const VersionError& e) {
    throw VersionError(concat(folder, ": ", e.what()));
  } catch (const InputError& e) {
    v.faults.push_back(e.what());
    return v;
  }
  const auto named = step_of(fs::path(folder).filename().string());
  if (named && *named != v.manifest.step)
    v.faults.push_back(concat(kManifestName, " is of step ", v.manifest.step));
  for (const auto& [name, saved] : v.manifest.files) {
    const std::string fault = fault_of(fs::path(folder) / name, saved, check);
    if (!fault.empty()) v.faults.push_back(concat(name, " ", fault));
  }
  find_odd_files(folder, v);
  return v;
}

}  // namespace strata::checkpoint
