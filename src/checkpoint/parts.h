// A folder that several ranks fill, over a file system that all of them see. Each writes its files, and last
// what a manifest says of them, in a hidden file that appears whole; a rank that fails leaves an empty mark
// instead. Nobody sends messages, so that this may go on beside training.
#pragma once
#include <atomic>
#include <map>
#include <string>

#include "checkpoint/snapshot.h"

namespace strata::checkpoint {

// This rank's files. Error where they cannot be written.
void write_part(Disk& disk, const std::string& folder, int rank, const Snapshot& snapshot);

struct PartsWait {
  double patience = 600;                        // seconds in which nothing in the folder changes
  const std::atomic<bool>* given_up = nullptr;  // once true, nobody waits any more
};
// Waits until every rank has written or failed; all files, once the hidden ones are gone. Error names a rank
// that failed or was not heard of.
std::map<std::string, Manifest::File> collect_parts(Disk& disk, const std::string& folder, int ranks,
                                                    const PartsWait& wait);

}  // namespace strata::checkpoint
