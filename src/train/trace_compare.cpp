#include <algorithm>
#include <cmath>
#include <limits>

#include "train/trace.h"

namespace strata::train {
namespace {

double norm(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

bool needs_steps(const std::string& name) {
  return name.starts_with("train.") || name.starts_with("trained.");
}

// How far over its tolerance; what cannot be compared comes first of all.
double badness(const Difference& d) {
  if (!d.missing.empty() || std::isnan(d.value)) return INFINITY;
  return d.value > 0 ? d.value / d.tolerance : 0;
}

}  // namespace

std::vector<Difference> compare(const TraceTensors& ours, const TraceTensors& reference,
                                const std::function<double(const std::string&)>& tolerance) {
  double gradients = 0;
  for (const auto& [name, t] : reference)
    if (name.starts_with("grad.")) gradients = std::hypot(gradients, norm(t.values));
  std::vector<Difference> all;
  for (const auto& [name, want] : reference) {
    Difference d{name, 0, tolerance(name), {}};
    const auto it = ours.find(name);
    if (it == ours.end())
      d.missing = "missing from the output";
    else if (it->second.shape != want.shape)
      d.missing = "of another shape";
    else {
      const double floor = name.starts_with("grad.") ? 1e-3 * gradients : 0;
      const double scale = std::max(norm(want.values), floor);
      d.value = distance(it->second.values, want.values) / (scale > 0 ? scale : 1);
    }
    all.push_back(d);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return badness(a) > badness(b); });
  return all;
}

std::vector<Difference> compare(const TraceTensors& ours, const checkpoint::SafetensorsFile& reference,
                                const std::function<double(const std::string&)>& tolerance, bool with_steps) {
  TraceTensors wanted;
  for (const auto& [name, t] : reference.tensors())
    if (with_steps || !needs_steps(name)) wanted[name] = {t.shape, reference.floats(name)};
  return compare(ours, wanted, tolerance);
}

std::function<double(const std::string&)> reference_tolerance(DType compute) {
  return [compute](const std::string& name) {
    const bool trained = name.starts_with("trained."),
               gradient = name.starts_with("grad.") || name == "train.grad_norm";
    if (compute == DType::Float64) return trained ? 1e-6 : 1e-9;
    if (compute == DType::Float32) return trained ? 2e-3 : gradient ? 1e-4 : 1e-5;
    // One rounding can send a token to another expert: only the losses are held in bfloat16
    // (docs/numerics.md).
    const bool loss = name == "loss" || name == "lm_loss" || name == "mtp_loss" || name == "train.loss";
    return loss ? 3e-2 : std::numeric_limits<double>::infinity();
  };
}

}  // namespace strata::train
