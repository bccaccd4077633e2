// Any text as the configuration of a run: refused with InputError, or it writes back as JSON that loads to
// the same configuration.
#include <cstdlib>

#include "base/error.h"
#include "base/json_config.h"
#include "train/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    strata::train::RunConfig config;
    strata::load_config_text(config, text, "f");
    strata::train::RunConfig again;
    strata::load_config_text(again, strata::config_json(config), "f");
    if (!(again == config)) std::abort();
  } catch (const strata::InputError&) {
  }
  return 0;
}
