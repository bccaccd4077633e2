// Any text as a manifest: as it stands, and with the checksum that belongs to it, so that what lies behind
// the checksum is reached. What is accepted is written back and read again.
#include <cstdlib>

#include "checkpoint/digest.h"
#include "checkpoint/manifest.h"

namespace {

using strata::InputError;
using namespace strata::checkpoint;

void parse(const std::string& text) {
  try {
    const Manifest m = parse_manifest(text, "m");
    if (parse_manifest(manifest_text(m), "m") != m) std::abort();
  } catch (const InputError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  parse(text);
  const std::string start = "{\n  \"checksum\": \"";
  std::string sealed = text.starts_with(start) ? text : start + "0000000000000000\",\n" + text;
  if (sealed.size() < start.size() + 16) return 0;
  sealed.replace(start.size(), 16, 16, '0');
  parse(sealed.replace(start.size(), 16, digest_of(sealed)));
  return 0;
}
