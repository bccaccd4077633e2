// h_t = sum over r of g_{t,r} z_{t,r}.
#include "reference/fusion.h"

#include "reference/linear.h"
#include "reference/rms_norm.h"
#include "reference/swiglu.h"

namespace strata::reference {

Array fusion_gates(const Array& z, const Array& weight, double scale, const Array& bias, double eps) {
  const int64_t tokens = z.dim(0), views = z.dim(1), width = z.dim(2);
  Array gates = linear(rms_norm(z.reshaped({tokens, views * width}), {}, eps), weight);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t r = 0; r < gates.dim(1); ++r) gates(t, r) = sigmoid(scale * gates(t, r) + bias(r));
  }
  return gates;
}

Array fuse_gated(const Array& z, const Array& gates) {
  Array h({z.dim(0), z.dim(2)});
  for (int64_t t = 0; t < z.dim(0); ++t) {
    for (int64_t r = 0; r < z.dim(1); ++r) {
      for (int64_t c = 0; c < z.dim(2); ++c) h(t, c) += gates(t, r) * z(t, r, c);
    }
  }
  return h;
}

Array fuse_sum(const Array& z) {
  Array ones({z.dim(0), z.dim(1)});
  for (double& one : ones.data) one = 1.0;
  return fuse_gated(z, ones);
}

Array fuse_mean(const Array& z) {
  Array h = fuse_sum(z);
  for (double& value : h.data) value /= static_cast<double>(z.dim(1));
  return h;
}

}  // namespace strata::reference
