// Row look-up.
#pragma once

#include "reference/array.h"

namespace strata::reference {

/// ids [T], weight [V, D] -> [T, D]. Throws on an id outside the vocabulary.
Array embedding(const Ids& ids, const Array& weight);

}  // namespace strata::reference
