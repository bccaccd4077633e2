// What every rank must have been given alike: with another seed, rate or file on one rank nothing fails, and
// the numbers are wrong.
#pragma once
#include <string>

#include "comm/communicator.h"
#include "data/validation.h"
#include "train/config.h"

namespace strata::train {

// Every member calls this with facts as a JSON object. InputError on all of them where those of one are not
// the first one's: names both, the key, and both values.
void same_on_all(comm::Communicator& members, const std::string& facts);

// As facts: the command with its options, and the resolved configuration; not how many threads a rank has.
std::string started_with(const std::string& command, const RunConfig& config);
// By content; `train`: the fingerprint of the training data, if there are any.
std::string reads(const std::string& train, const std::vector<data::ValidationData>& validation);

}  // namespace strata::train
