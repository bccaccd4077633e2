// Plain descriptions of contiguous device memory: what a kernel job is made of. No ownership.
#pragma once
#include <array>
#include <initializer_list>
#include <string>

#include "base/dtype.h"

namespace strata {

// Up to four extents, row-major.
struct Dims {
  int rank = 0;
  std::array<std::int64_t, 4> extent{};

  Dims() = default;
  Dims(std::initializer_list<std::int64_t> extents) {
    STRATA_CHECK(extents.size() <= 4, "a tensor has at most 4 dimensions, got ", extents.size());
    for (const std::int64_t e : extents) extent[rank++] = e;
  }
  std::int64_t operator[](int i) const { return extent[i]; }
  std::int64_t numel() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= extent[i];
    return n;
  }
  bool operator==(const Dims&) const = default;
  std::string text() const {
    std::string s = "[";
    for (int i = 0; i < rank; ++i) s += (i ? ", " : "") + std::to_string(extent[i]);
    return s + "]";
  }
};

template <class Pointer>
struct BasicView {
  Pointer data = nullptr;
  DType dtype = DType::Float32;
  Dims dims;

  explicit operator bool() const { return data != nullptr; }
  std::int64_t numel() const { return dims.numel(); }
  std::int64_t bytes() const { return numel() * size_of(dtype); }
  // Typed pointer; a wrong type is an error, an absent view gives nullptr.
  template <class T>
  auto as() const {
    using Element = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const T, T>;
    if (data)
      STRATA_CHECK(dtype == dtype_of<T>(), "view is ", name_of(dtype), ", used as ", name_of(dtype_of<T>()));
    return static_cast<Element*>(data);
  }
};

using View = BasicView<void*>;
struct ConstView : BasicView<const void*> {
  ConstView() = default;
  ConstView(const void* d, DType t, Dims n) : BasicView<const void*>{d, t, n} {}
  ConstView(const View& v) : BasicView<const void*>{v.data, v.dtype, v.dims} {}
};

enum class Write : std::uint8_t { Overwrite, Accumulate };

// Where a gradient goes. Empty: nobody wants it.
struct Grad {
  View view;
  Write mode = Write::Overwrite;
  explicit operator bool() const { return bool(view); }
};

// How the T tokens of a micro-batch form sequences: T = batch * length, token t is at position past + t
// % length. Tokens attend, and convolutions reach, only inside a sequence and, if `documents` is given,
// inside a document.
struct Sequences {
  std::int64_t batch = 0;
  std::int64_t length = 0;
  ConstView documents;    // [T] int32 document ids, or empty
  std::int64_t past = 0;  // tokens of every sequence that came before; forward passes of one document only

  std::int64_t tokens() const { return batch * length; }
};

}  // namespace strata
