// Attention Residuals, arXiv 2603.15031: one softmax over the completed blocks' sums and the running one's.
#include "residual/depth_residual.h"
#include "residual/variants.h"

namespace strata::residual {
namespace {

class AttnRes final : public DepthResidual {
 public:
  AttnRes(const Config& config, const Shape& shape, ParameterStore& store)
      : DepthResidual(config, shape, 1, store) {}

 private:
  ops::DepthFusion fusion(Slot) const override { return {kernels::Fusion::Mean, {}}; }
};

}  // namespace

std::unique_ptr<Residual> make_attnres(const Config& config, const Shape& shape, ParameterStore& store) {
  return std::make_unique<AttnRes>(config, shape, store);
}

}  // namespace strata::residual
