// A dense row-major array of doubles, the only value type of the references.
// Every index is checked: a reference that reads outside its data is wrong, and must say so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace strata::reference {

/// Token ids, labels, document ids, expert indices, counts.
using Ids = std::vector<int64_t>;

/// Throws std::invalid_argument with `what` unless `condition` holds.
inline void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(std::string("reference: ") + what);
}

struct Array {
  std::vector<int64_t> shape;
  std::vector<double> data;

  Array() = default;

  /// Zeros.
  explicit Array(std::vector<int64_t> shape_in) : shape(std::move(shape_in)) {
    data.assign(static_cast<size_t>(count(shape)), 0.0);
  }

  /// Throws unless `data_in` holds exactly as many numbers as `shape_in` asks for.
  Array(std::vector<int64_t> shape_in, std::vector<double> data_in)
      : shape(std::move(shape_in)), data(std::move(data_in)) {
    require(count(shape) == size(), "shape and data disagree");
  }

  int64_t size() const { return static_cast<int64_t>(data.size()); }
  bool empty() const { return data.empty(); }
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }

  /// Extent of axis `axis`; negative axes count from the end.
  int64_t dim(int64_t axis) const { return shape.at(static_cast<size_t>(axis < 0 ? axis + rank() : axis)); }

  /// Element at (i, j, ...), one index per axis.
  template <class... Index>
  double& operator()(Index... index) {
    return data[offset(index...)];
  }
  template <class... Index>
  double operator()(Index... index) const {
    return data[offset(index...)];
  }

  /// The same numbers under another shape of equal size.
  Array reshaped(std::vector<int64_t> new_shape) const { return Array(std::move(new_shape), data); }

  static int64_t count(const std::vector<int64_t>& shape) {
    int64_t product = 1;
    for (int64_t extent : shape) product *= extent;
    return product;
  }

 private:
  template <class... Index>
  size_t offset(Index... index) const {
    if (sizeof...(Index) != shape.size()) throw std::invalid_argument("reference: wrong number of indices");
    int64_t result = 0;
    size_t axis = 0;
    const auto step = [&](int64_t i) {
      if (i < 0 || i >= shape[axis]) throw std::out_of_range("reference: index out of range");
      result = result * shape[axis++] + i;
    };
    (step(static_cast<int64_t>(index)), ...);
    return static_cast<size_t>(result);
  }
};

/// Element-wise sum of two arrays of one shape.
inline Array add(const Array& a, const Array& b) {
  require(a.shape == b.shape, "add: shapes differ");
  Array sum = a;
  for (size_t i = 0; i < sum.data.size(); ++i) sum.data[i] += b.data[i];
  return sum;
}

/// Whether token `b` may look at token `a`: same sequence of `sequence_length` tokens and same document.
/// Empty `doc_ids`: one document per sequence.
inline bool sees(int64_t a, int64_t b, int64_t sequence_length, const Ids& doc_ids) {
  if (a / sequence_length != b / sequence_length) return false;
  return doc_ids.empty() || doc_ids.at(static_cast<size_t>(a)) == doc_ids.at(static_cast<size_t>(b));
}

}  // namespace strata::reference
