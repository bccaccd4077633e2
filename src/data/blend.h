// Which source a sample comes from. Sample j of source i is due at (j + 1/2) / weight_i, and samples follow
// each other as they are due, ties to the lower source (Sainte-Lague's divisor method): every prefix is
// close to the weights, and any place in the sequence is found without walking there.
#pragma once
#include <cstdint>
#include <vector>

namespace strata::data {

class Blend {
 public:
  struct Place {
    std::size_t source;
    std::int64_t index;  // among the samples of that source
  };

  // Weights above 0.
  explicit Blend(const std::vector<double>& weights);

  std::size_t sources() const { return parts_.size(); }
  // A weight as the integer it is taken for.
  std::int64_t part(std::size_t source) const { return parts_[source]; }
  double share(std::size_t source) const { return double(parts_[source]) / double(total_); }
  Place at(std::int64_t sample) const;
  // Of the first `samples`, how many come from each source.
  std::vector<std::int64_t> counts(std::int64_t samples) const;

 private:
  std::size_t next(const std::vector<std::int64_t>& counts) const;

  std::vector<std::int64_t> parts_;  // integers: the same sequence on any machine
  std::int64_t total_ = 0;
};

}  // namespace strata::data
