// A device's memory cannot hold what is asked of it.
#pragma once
#include "base/error.h"

namespace strata::device {

// Its sentence says how much was asked for and how much was in use. Who knows why so much was asked for adds
// that.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

}  // namespace strata::device
