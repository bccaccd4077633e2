// Host numbers by name, collected from all ranks.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace strata::train {

struct TraceTensor {
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};
using TraceTensors = std::map<std::string, TraceTensor>;

// What all members have, on every member. A name that two of them give is an error.
TraceTensors gather(comm::Communicator& members, const TraceTensors& mine);

}  // namespace strata::train
