// Any bytes as a safetensors file: refused with InputError, or every tensor can be read.
#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const strata::fuzz::MemoryFile input(data, size);
  try {
    const strata::checkpoint::SafetensorsFile file(input.path());
    std::size_t total = 0;
    for (const auto& [name, t] : file.tensors()) {
      std::vector<std::byte> bytes(std::size_t(t.end - t.begin));
      file.read(name, std::span(bytes));
      total += bytes.size();
      try {
        if (file.floats(name).size() != std::size_t(t.numel())) std::abort();
      } catch (const strata::InputError&) {  // not a floating-point type
      }
      try {
        file.integers(name);
      } catch (const strata::InputError&) {
      }
    }
    if (total > size) std::abort();
  } catch (const strata::InputError&) {
  }
  return 0;
}
