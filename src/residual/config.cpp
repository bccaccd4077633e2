// Defaults and cross-field rules of model.residual.
#include "residual/config.h"

namespace strata::residual {
namespace {

// Kernel sizes of views 1..m-1 that need not be named.
std::optional<std::vector<std::int64_t>> default_kernels(std::int64_t streams) {
  switch (streams) {
    case 1:
      return std::vector<std::int64_t>{};
    case 2:
      return std::vector<std::int64_t>{4};
    case 3:
      return std::vector<std::int64_t>{4, 8};
    case 4:
      return std::vector<std::int64_t>{4, 8, 12};
    case 8:
      return std::vector<std::int64_t>{2, 4, 6, 8, 10, 12, 16};
    default:
      return std::nullopt;
  }
}

}  // namespace

std::int64_t Config::block_size(std::int64_t sublayers) const {
  const std::int64_t blocks = num_blocks.value_or(sublayers);
  return (sublayers - 1) / blocks + 1;
}

std::int64_t Config::block_count(std::int64_t sublayers) const {
  return (sublayers - 1) / block_size(sublayers) + 1;
}

std::vector<std::int64_t> Config::kernels() const {
  if (!has_convolutions()) return {};
  if (kernel_sizes) return *kernel_sizes;
  const auto sizes = default_kernels(streams);
  STRATA_CHECK(sizes, "no default kernel sizes for streams=", streams);
  return *sizes;
}

void Config::validate() const {
  if (!has_convolutions()) return;
  if (!kernel_sizes && !default_kernels(streams))
    throw InputError(
        concat("kernel_sizes is required with streams ", streams, ": only 1, 2, 3, 4 and 8 have defaults"));
  if (kernel_sizes && std::int64_t(kernel_sizes->size()) != streams - 1)
    throw InputError(concat("kernel_sizes has ", kernel_sizes->size(), " entries, but streams ", streams,
                            " needs ", streams - 1, ": one for each view but the first"));
}

}  // namespace strata::residual
