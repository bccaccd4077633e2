#include "residual/vanilla_start.h"

namespace strata::residual {
namespace {

// A filter that passes its source on: tap 0 is one, the others zero.
std::vector<double> delta(const Dims& dims) {
  std::vector<double> taps(std::size_t(dims.numel()), 0.0);
  for (std::size_t i = 0; i < taps.size(); i += std::size_t(dims[1])) taps[i] = 1;
  return taps;
}

}  // namespace

// Zero queries: a softmax over equal scores is the mean of the sources, and their sum is the hidden state.
// Delta convolutions: all views are the source itself, so a gate over views only scales it. H_post = 2
// sigmoid(0) = 1: every stream takes the whole output, so the streams stay equal; H_res, whose rows sum to
// one, leaves equal streams as they are, and H_pre and the head's mix only scale them. Phi, gates and the
// other biases keep their initial values: they decide how training goes on from here, and what makes the
// streams differ.
void start_as_vanilla(ParameterStore& module) {
  for (const auto& [name, found] : module.by_name()) {
    const Dims& dims = found.slice.dims;
    const auto ends = [&name = name](const char* end) { return name.ends_with(end); };
    if (ends(".query") || ends(".alpha_post") || ends(".bias_post"))
      module.set(name, std::vector<double>(std::size_t(dims.numel()), 0.0));
    else if (name.find(".conv.") != std::string::npos)
      module.set(name, delta(dims));
  }
}

}  // namespace strata::residual
