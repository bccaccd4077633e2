// A collective with everyone's description of it beside: members that are not at the same one learn so
// instead of waiting or adding what does not belong together.
#pragma once
#include <memory>
#include <string>

#include "comm/message_communicator.h"

namespace strata::comm {

// The descriptions of all members, on their way.
class Descriptions {
 public:
  static constexpr int kBytes = 256;  // of one; longer ones are cut

  Descriptions(int members, int rank, const std::string& mine);
  // Where the others' arrive: x is part `rank` of y.
  ConstView mine() const;
  View all();
  // Throws Error that names number and group, unless all are equal.
  void compare(const std::string& group, int number) const;

 private:
  int members_, rank_;
  std::unique_ptr<char[]> texts_;
};

std::shared_ptr<Operation> checked(std::shared_ptr<Descriptions> descriptions,
                                   std::shared_ptr<Operation> exchange, std::shared_ptr<Operation> collective,
                                   const std::string& group, int number);

}  // namespace strata::comm
